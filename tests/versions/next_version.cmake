# cmake -D include=<folder> -D copy=<folder> -P next_version.cmake: a copy of the headers as the next minor version may have them. All
# names are of that version, a session's core and the options of threads are laid out otherwise, and defaults have changed.
cmake_minimum_required(VERSION 3.25)

file(READ ${include}/parallax/version.hpp text)
string(REGEX MATCH "PARALLAX_VERSION_MAJOR ([0-9]+).*PARALLAX_VERSION_MINOR ([0-9]+)" found "${text}")
set(major ${CMAKE_MATCH_1})
set(minor ${CMAKE_MATCH_2})
math(EXPR next "${minor} + 1")

file(REMOVE_RECURSE ${copy})
file(COPY ${include}/parallax DESTINATION ${copy})
execute_process(COMMAND grep -rl "inline v${major}_${minor}" ${copy} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "\n" ";" headers "${headers}")
execute_process(COMMAND sed -i "s/inline v${major}_${minor}/inline v${major}_${next}/" ${headers} COMMAND_ERROR_IS_FATAL ANY)

# Replaces a text of one header, which has it once.
function(changed header from to)
  file(READ ${copy}/parallax/${header} text)
  string(REPLACE "${from}" "${to}" now "${text}")
  if(now STREQUAL text)
    message(FATAL_ERROR "${header} has no text to change: ${from}")
  endif()
  file(WRITE ${copy}/parallax/${header} "${now}")
endfunction()
changed(version.hpp "VERSION_MINOR ${minor}" "VERSION_MINOR ${next}")
changed(detail/session/core.hpp "class SessionCore final : private Underway {\n public:\n"
  "class SessionCore final : private Underway {\n public:\n  double of_the_next_version[4] = {1, 2, 3, 4};\n")
changed(detail/transport/thread/group.hpp "  std::chrono::nanoseconds deadline = std::chrono::seconds{60}"
  "  double of_the_next_version[4] = {1, 2, 3, 4};\n  std::chrono::nanoseconds deadline = std::chrono::seconds{75}")
changed(optimizer/sgd.hpp "double learning_rate = 0.01" "double learning_rate = 0.02")
