# cmake -D doxygen=<program> -D source=<folder> -D settings=<folder> -D scratch=<folder> -P reference.cmake: makes the reference of
# the headers under <source>/include as `doxygen docs/reference/Doxyfile` does, and fails where Doxygen has a warning: something
# public has no comment, or a comment is not understood. Then it looks whether a stranger finds his way from the main page.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})
file(READ ${settings}/Doxyfile text)
set(main_page ${source}/docs/reference/main.md)
if(NOT EXISTS ${main_page})
  set(main_page)
endif()
file(WRITE ${scratch}/Doxyfile "${text}
OUTPUT_DIRECTORY = ${scratch}
WARN_LOGFILE = ${scratch}/warnings
FILTER_PATTERNS = *.hpp=\"awk -f ${settings}/comments.awk\" *.cuh=\"awk -f ${settings}/comments.awk\"
INPUT = include/parallax ${main_page}
USE_MDFILE_AS_MAINPAGE = ${main_page}
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

if(NOT main_page)
  return()
endif()
# The main page leads on, and Session and Variable are found by the names that trainers write, with what they do.
file(READ ${scratch}/reference/index.html page)
foreach(class Session Variable)
  string(FIND "${page}" "classparallax_1_1${class}.html" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the main page has no link to ${class}")
  endif()
endforeach()
file(STRINGS ${scratch}/reference/classparallax_1_1Session.html operations REGEX "finish")
file(GLOB others ${scratch}/reference/*BasicVariable* ${scratch}/reference/*Session_3*)
if(others OR NOT operations)
  message(FATAL_ERROR "Session or Variable is shown by another name, or a stand-in in its place: ${others}")
endif()
