# cmake -D include=<folder> -P sizes.cmake: counts the lines of the headers under <folder>/parallax, without blank ones and those of
# comments alone, and fails with one line for each header, or room, that is too long, and for each header that does not begin with
# a sentence on what is found in it (see CONTRIBUTING.md).
cmake_minimum_required(VERSION 3.25)

set(most_of_a_header 400)
set(most_of_session 1600)

set(broken 0)
function(complain text)
  message("${text}")
  math(EXPR broken "${broken} + 1")
  set(broken ${broken} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE headers RELATIVE ${include}/parallax ${include}/parallax/*.hpp ${include}/parallax/*.cuh)
foreach(header IN LISTS headers)
  file(READ ${include}/parallax/${header} text)
  string(REGEX REPLACE "[][;]" "," text "${text}")  # these would confuse CMake's lists
  if(NOT text MATCHES "^// [^ \n][^\n]*(\n//[^\n]*)*[.]( |\n)")
    complain("parallax/${header}: its first line begins no sentence on what is found in it")
  endif()
  string(REGEX REPLACE "\n[ \t]*//[^\n]*" "" text "\n${text}")
  string(REGEX REPLACE "\n[ \t\r\n]*" "\n" text "${text}")
  string(REGEX REPLACE "\n$" "" text "${text}")
  string(REGEX MATCHALL "\n" ends "${text}")
  list(LENGTH ends lines)
  if(lines GREATER most_of_a_header)
    complain("parallax/${header}: ${lines} lines of code, a header has at most ${most_of_a_header}")
  endif()
  string(REGEX REPLACE "/.*" "" room ${header})
  math(EXPR lines_of_${room} "0${lines_of_${room}} + ${lines}")
endforeach()
if(DEFINED lines_of_session AND lines_of_session GREATER most_of_session)
  complain("parallax/session: ${lines_of_session} lines of code, the room has at most ${most_of_session}")
endif()
if(broken OR NOT headers)
  message(FATAL_ERROR "${broken} rules of sizes are broken")
endif()
