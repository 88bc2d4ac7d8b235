# cmake -D include=<folder> -D scratch=<folder> -D compiler=<compiler> -D program=<main.cpp> -D patch=<phase.patch> -P check.cmake:
# a new phase of a step touches at most three headers, and a policy takes part in it.
cmake_minimum_required(VERSION 3.25)

find_program(git git)
if(NOT git)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: there is no git, which applies patches")
  return()
endif()

file(REMOVE_RECURSE ${scratch})
file(COPY ${include} DESTINATION ${scratch})
file(REAL_PATH ${scratch} scratch)
cmake_path(GET scratch PARENT_PATH around)
set(ENV{GIT_CEILING_DIRECTORIES} ${around})
unset(ENV{GIT_DIR})
unset(ENV{GIT_WORK_TREE})
execute_process(COMMAND ${git} apply ${patch} WORKING_DIRECTORY ${scratch} COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS ${patch} headers REGEX "^[+][+][+] b/include/")
list(LENGTH headers count)
message(STATUS "a new phase touches ${count} headers")
if(count GREATER 3 OR count EQUAL 0)
  message(FATAL_ERROR "a new phase is to touch at most 3 headers")
endif()
execute_process(COMMAND ${compiler} -std=c++20 -O0 -pthread -I ${scratch}/include ${program} -o ${scratch}/program
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${scratch}/program COMMAND_ERROR_IS_FATAL ANY)
