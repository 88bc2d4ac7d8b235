# cmake -D nm= -D one=<objects> -D other=<objects> -P symbols.cmake: fails with one line for each symbol that both define, for a linker
# takes one of the two for both. Instantiations of the standard library over types that are not ours, and MPI's own names, are alike
# in both.
cmake_minimum_required(VERSION 3.25)

foreach(side IN ITEMS one other)
  execute_process(COMMAND ${nm} --defined-only --extern-only --format=posix ${${side}} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^ \n]+ [A-Za-z] " symbols "${text}")
  list(TRANSFORM symbols REPLACE " .*" "")
  list(REMOVE_DUPLICATES symbols)
  set(${side}_symbols ${symbols})
  list(LENGTH symbols ${side}_count)
endforeach()

# Sorted once more together: what is there twice is common.
set(all ${one_symbols} ${other_symbols})
list(SORT all)
set(before)
set(common 0)
set(broken)
foreach(symbol IN LISTS all)
  if(symbol STREQUAL before)
    math(EXPR common "${common} + 1")
    if(symbol MATCHES "[Pp][Aa][Rr][Aa][Ll][Ll][Aa][Xx]"
       OR NOT symbol MATCHES "^(DW[.]ref[.])?(_Z(T[VIST]|GV)?[ZNKRO]*(S|9__gnu_cxx|10__cxxabiv1|3MPI|nw|na|dl|da)|__gxx_personality)")
      list(APPEND broken ${symbol})
    endif()
  endif()
  set(before ${symbol})
endforeach()
message("${one_count} and ${other_count} symbols, of which ${common} are common")
if(broken)
  list(JOIN broken "\n" text)
  message(FATAL_ERROR "these are of both versions:\n${text}")
elseif(one_count LESS 1000 OR common EQUAL 0)
  message(FATAL_ERROR "these are no objects of programs")
endif()
