# A trainer compiled without CMake, by what pkg-config says of an installation that was moved.
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
