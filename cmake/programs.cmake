# How tests, examples and benchmarks are declared. A program whose component was not found is not built: a status line says
# so, and each of its tests is there all the same, as skipped, with the reason.

set(PARALLAX_TEST_TIMEOUT 120 CACHE STRING "Seconds after which a test has failed")

# GNU ld takes a second for a program that lld and gold link in tenths of one, and there are a hundred programs.
option(PARALLAX_QUICK_LINKER "Link what is not compiled with options of its own by lld or gold, where there is one" OFF)
if(PARALLAX_QUICK_LINKER)
  include(CheckLinkerFlag)
  foreach(linker IN ITEMS lld gold)
    check_linker_flag(CXX -fuse-ld=${linker} PARALLAX_LINKS_BY_${linker})
    if(PARALLAX_LINKS_BY_${linker})
      set(parallax_linker -fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()

set(parallax_warning_flags -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
add_library(parallax_warnings INTERFACE)
target_compile_options(parallax_warnings INTERFACE ${parallax_warning_flags} -Wno-sign-conversion)
# What g++ believes to see after it has inlined is told, but is often not there (12.2 at -O3).
target_compile_options(parallax_warnings INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-error=stringop-overflow;-Wno-error=array-bounds;-Wno-error=maybe-uninitialized>)

# What every program links: the headers, or the engine compiled once as well.
set(parallax_engine parallax::parallax)
if(PARALLAX_TESTS_COMPILED)
  set(parallax_engine parallax::compiled)
endif()

# The first of the given targets that is a component not found, or nothing.
function(parallax_missing_component result)
  set(${result} "" PARENT_SCOPE)
  foreach(library IN LISTS ARGN)
    if(library MATCHES "^parallax::(.*)" AND NOT TARGET ${library})
      set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# A test that cannot run: skipped and counted where the component was looked for in vain, only a status line where it was
# switched off.
function(parallax_skipped_test name component)
  message(STATUS "skipped: ${name}: ${parallax_${component}_reason}")
  if(NOT parallax_${component}_reason MATCHES "switched off")
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: ${parallax_${component}_reason}")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED: ")
  endif()
endfunction()

# parallax_program(target SOURCES file... [LIBS library...] [OPTIONAL_LIBS parallax::x...] [OPTIONS flag...] [HEADER_ONLY])
# An executable with the project's warnings. Each optional component that was found is linked and defines PARALLAX_HAS_X.
# HEADER_ONLY, or a flag of optimisation among the OPTIONS: it links no engine, whatever PARALLAX_TESTS_COMPILED says. Else it links
# MPI compiled where it links the engine so.
function(parallax_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HEADER_ONLY" "" "SOURCES;LIBS;OPTIONAL_LIBS;OPTIONS")
  parallax_missing_component(missing ${arg_LIBS})
  if(missing)
    message(STATUS "skipped: ${target}: ${parallax_${missing}_reason}")
    set_property(GLOBAL PROPERTY parallax_missing_for_${target} ${missing})
    return()
  endif()
  add_executable(${target} ${arg_SOURCES})
  set(engine ${parallax_engine})
  if("${arg_OPTIONS}" MATCHES "-O[123]")  # what it counts or measures is the engine's as well
    set(arg_HEADER_ONLY TRUE)
  endif()
  if(arg_HEADER_ONLY)
    set(engine parallax::parallax)
  elseif(PARALLAX_TESTS_COMPILED)
    list(TRANSFORM arg_LIBS REPLACE "^parallax::mpi$" parallax::compiled_mpi)
  endif()
  target_link_libraries(${target} PRIVATE ${engine} ${arg_LIBS} parallax_warnings)
  target_compile_options(${target} PRIVATE ${arg_OPTIONS})
  if(NOT arg_OPTIONS)
    target_link_options(${target} PRIVATE ${parallax_linker})
  endif()
  foreach(library IN LISTS arg_OPTIONAL_LIBS)
    if(TARGET ${library})
      string(REGEX REPLACE "^parallax::" "PARALLAX_HAS_" definition ${library})
      string(TOUPPER ${definition} definition)
      if(PARALLAX_TESTS_COMPILED AND NOT arg_HEADER_ONLY)
        string(REGEX REPLACE "^parallax::mpi$" parallax::compiled_mpi library ${library})
      endif()
      target_link_libraries(${target} PRIVATE ${library})
      target_compile_definitions(${target} PRIVATE ${definition})
    endif()
  endforeach()
endfunction()

# parallax_run(name program [ARGS argument...] [MPI n...] [LABELS label...] [TIMEOUT seconds] [COST seconds])
# Runs a program as a test: it passes with exit code 0 and is skipped with 77. With MPI it is run once for each n, under
# mpiexec, as <name>.np<n>. What costs most is started first.
function(parallax_run name program)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT;COST" "ARGS;MPI;LABELS")
  if(NOT PARALLAX_BUILD_TESTS)
    return()
  elseif(arg_MPI AND NOT TARGET parallax::mpi)
    parallax_skipped_test(${name} mpi)
    return()
  endif()
  get_property(missing GLOBAL PROPERTY parallax_missing_for_${program})
  if(missing)
    parallax_skipped_test(${name} ${missing})
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${PARALLAX_TEST_TIMEOUT})
  endif()
  if(name IN_LIST parallax_rest_tests)
    list(APPEND arg_LABELS rest)
    set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    add_dependencies(rest ${program})
  endif()
  set(names)
  foreach(n IN LISTS arg_MPI)
    add_test(NAME ${name}.np${n}
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:${program}>
              ${MPIEXEC_POSTFLAGS} ${arg_ARGS})
    # mpiexec ends its ranks itself when the time is up; Open MPI asks to be told that it may run here.
    math(EXPR ctest_timeout "${arg_TIMEOUT} + 15")
    set_tests_properties(${name}.np${n} PROPERTIES PROCESSORS ${n} TIMEOUT ${ctest_timeout} ENVIRONMENT
      "MPIEXEC_TIMEOUT=${arg_TIMEOUT};OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
    list(APPEND names ${name}.np${n})
  endforeach()
  if(arg_MPI)
    list(APPEND arg_LABELS mpi)
  else()
    add_test(NAME ${name} COMMAND ${program} ${arg_ARGS})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
    set(names ${name})
  endif()
  set_tests_properties(${names} PROPERTIES SKIP_RETURN_CODE 77 LABELS "${arg_LABELS}")
  if(3 IN_LIST arg_MPI AND NOT "rest" IN_LIST arg_LABELS)  # on two cores, three ranks that spin take longest
    set_property(TEST ${name}.np3 APPEND PROPERTY LABELS rest)
  endif()
  if(arg_COST)
    set_tests_properties(${names} PROPERTIES COST ${arg_COST})
  endif()
endfunction()
