# Trainers compiled without CMake, by what pkg-config says of an installation that was moved.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${work})
file(COPY ${prefix}/include ${prefix}/share DESTINATION ${work}/moved)
set(ENV{PKG_CONFIG_PATH} ${work}/moved/share/pkgconfig)
execute_process(COMMAND ${program} --modversion parallax OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT found STREQUAL version)
  message(FATAL_ERROR "pkg-config knows version ${found}, not ${version}")
endif()
execute_process(COMMAND ${program} --cflags --libs parallax OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
message("${flags}")
separate_arguments(flags UNIX_COMMAND "${flags}")
if(NOT "-I${work}/moved/include" IN_LIST flags)
  string(FIND "${flags}" "-I${work}/moved/share/pkgconfig/../../include" relative)
  if(relative EQUAL -1)
    message(FATAL_ERROR "the headers that moved are not found: ${flags}")
  endif()
endif()
execute_process(COMMAND ${compiler} -std=c++20 ${root}/test_package/train_a_step.cpp -o ${work}/train_a_step ${flags}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${work}/train_a_step COMMAND_ERROR_IS_FATAL ANY)

# With the engine compiled once, by the lines that README shows: in a folder of its own.
execute_process(COMMAND ${program} --variable=compiled parallax OUTPUT_VARIABLE sources OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
file(READ ${root}/README.md readme)
string(REGEX MATCH "g\\+\\+ -std=c\\+\\+20 -O2 -DPARALLAX_COMPILED -c [^\n]*\n[^\n]*\n[^\n]*-DPARALLAX_COMPILED[^\n]*\n" lines "${readme}")
if(NOT lines)
  message(FATAL_ERROR "README shows no lines that compile the engine")
endif()
string(REPLACE "g++ " "${compiler} " lines "${lines}")
string(REPLACE " -O2 " " -O0 " lines "${lines}")
string(REPLACE "trainer.cpp" "${root}/test_package/train_a_step.cpp" lines "${lines}")
file(MAKE_DIRECTORY ${work}/engine)
execute_process(COMMAND sh -ec "${lines} ./trainer" WORKING_DIRECTORY ${work}/engine COMMAND_ERROR_IS_FATAL ANY)

# And with MPI, where pkg-config knows one.
execute_process(COMMAND ${program} --cflags --libs parallax-mpi OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE missing RESULT_VARIABLE ended)
if(ended)
  message("not tried with MPI: ${missing}")
  return()
endif()
separate_arguments(flags UNIX_COMMAND "${flags}")
execute_process(COMMAND ${compiler} -std=c++20 ${root}/test_package/with_mpi.cpp -o ${work}/with_mpi ${flags} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${work}/with_mpi COMMAND_ERROR_IS_FATAL ANY)
