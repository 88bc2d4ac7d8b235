# cmake -D nm=<nm> -D apart=<object> -D whole=<object> -P compiled_apart.cmake: fails if the object of a program that links
# parallax::compiled_cuda has functions of the engine over devices, of the sort, or of kernels that know no optimizer, and lists them.
# Members that are templates are of the program's own types. The object of the same program without that library has some of each
# kind, or their names have changed.
cmake_minimum_required(VERSION 3.25)

set(engine "SessionCore|Completing|Waiting|Rounds|Flight|Flights|Ahead|DenseExchange|Mails|Agreement|Topology|JournalReport|Buckets")
set(engine "^[0-9a-f]+ . parallax::(detail::)?(${engine})<parallax::AnyDeviceCommunicator<[^<>]*> >::[a-z_]+[(]")
set(sort "device::(detail::group_many|group_keys)<|cub::")
set(kernels "RowOps<parallax::CudaSpace>::(coalesce|gather_rows|sum_terms|place_ids|cut_groups|pad_groups|add_to|scale_down)<")

foreach(object whole apart)
  execute_process(COMMAND ${nm} --demangle ${${object}} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "(parallax::)v[0-9]+_[0-9]+::" "\\1" symbols "${symbols}")
  string(REGEX MATCHALL "[^\n]* [TtWw] [^\n]*" lines "${symbols}")
  foreach(kind engine sort kernels)
    set(found ${lines})
    list(FILTER found INCLUDE REGEX "${${kind}}")
    list(LENGTH found ${kind}_of_${object})
    if(object STREQUAL "apart" AND found)
      list(JOIN found "\n" list)
      message(SEND_ERROR "compiled again beside the library, of ${kind}:\n${list}")
    elseif(object STREQUAL "whole" AND NOT found)
      message(SEND_ERROR "no function of ${kind} was found: their names have changed")
    endif()
  endforeach()
endforeach()
message(STATUS "without the library: ${engine_of_whole} functions of the engine, ${sort_of_whole} of the sort, ${kernels_of_whole} launchers; with it none")
