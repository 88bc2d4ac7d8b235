# cmake -D doxygen=<program> -D source=<folder> -D settings=<folder> -D scratch=<folder> -P reference.cmake: makes the reference of
# the headers under <source>/include as `doxygen docs/reference/Doxyfile` does, and fails where Doxygen has a warning: something
# public has no comment, or a comment is not understood.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})
file(READ ${settings}/Doxyfile text)
file(WRITE ${scratch}/Doxyfile "${text}
OUTPUT_DIRECTORY = ${scratch}
WARN_LOGFILE = ${scratch}/warnings
INPUT_FILTER = \"awk -f ${settings}/comments.awk\"
")
execute_process(COMMAND ${doxygen} ${scratch}/Doxyfile WORKING_DIRECTORY ${source} RESULT_VARIABLE ended OUTPUT_QUIET)
file(STRINGS ${scratch}/warnings warnings REGEX "warning:|error:")
list(LENGTH warnings count)
foreach(warning IN LISTS warnings)
  message("${warning}")
endforeach()
if(ended OR count OR NOT EXISTS ${scratch}/reference/index.html)
  message(FATAL_ERROR "${count} warnings of Doxygen, which ended with ${ended}")
endif()
