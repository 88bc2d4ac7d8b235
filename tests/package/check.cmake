# cmake -D source= -D binary= -D arguments= [-D run=TRUE [-D program=<name>...]] [-D fails=<sentence>] -P check.cmake: configures a
# consumer from nothing; with `run`, builds and runs it; with `fails`, configuring it must stop with that sentence.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${binary})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${source} -B ${binary} ${arguments}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
if(fails)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")  # CMake wraps its messages
  string(FIND "${output}" "${fails}" found)
  if(result EQUAL 0)
    message(FATAL_ERROR "configuring must stop with: ${fails}")
  elseif(found EQUAL -1)
    message(FATAL_ERROR "the sentence is missing: ${fails}")
  endif()
  return()
elseif(NOT result EQUAL 0 OR output MATCHES "CMake (Warning|Error)")
  message(FATAL_ERROR "configuring failed, or was not quiet")
endif()
if(run)
  if(NOT program)
    set(program train_a_step)
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} --build ${binary} COMMAND_ERROR_IS_FATAL ANY)
  foreach(name IN LISTS program)
    execute_process(COMMAND ${binary}/${name} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endif()
