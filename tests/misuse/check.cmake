# cmake -D compiler= -D flags= -D source= -D name= -P check.cmake: the case of that name in the source must fail to compile with exactly
# one error, which contains the sentence of its line `// expect: <sentence>`. A case named ok_* must compile.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${compiler} ${flags} -D${name} ${source}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(name MATCHES "^ok_")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${name} must compile, but:\n${output}")
  endif()
  return()
endif()

file(READ ${source} text)
string(REGEX MATCH "(^|\n#(el)?if defined[(]${name}[)]\n)// expect: ([^\n]+)\n" line "${text}")
set(sentence "${CMAKE_MATCH_3}")
string(REGEX REPLACE "[][;]" "," plain "${output}")  # these would confuse CMake's lists
string(REGEX REPLACE "[][;]" "," plain_sentence "${sentence}")
string(REPLACE "\\\"" "\"" plain "${plain}")  # clang shows the sentence as it is written in the source
string(REGEX MATCHALL "[^\n]*error: [^\n]*" errors "${plain}")
list(FILTER errors EXCLUDE REGEX "exception handling disabled, use")  # g++'s own, once, behind ours
list(LENGTH errors count)
string(FIND "${errors}" "${plain_sentence}" found)
if(NOT line)
  message(FATAL_ERROR "${name}: it begins with no line `// expect: <sentence>`")
elseif(result EQUAL 0)
  message(FATAL_ERROR "${name} compiles, but must be refused with: ${sentence}")
elseif(found EQUAL -1)
  message(FATAL_ERROR "${name}: the sentence is missing: ${sentence}\nThe compiler said:\n${output}")
elseif(NOT count EQUAL 1)
  message(FATAL_ERROR "${name}: one error was expected, there are ${count}:\n${output}")
endif()
