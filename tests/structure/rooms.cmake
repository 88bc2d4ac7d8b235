# cmake -D include=<folder> -P rooms.cmake: reads the #include lines of the headers under <folder>/parallax and fails with
# one line for each that breaks the rule of the rooms (see docs/architecture.md). Nor may a header ask which MPI it is compiled with: it keeps
# to the standard, so that one source serves each MPI, and one program each that has the ABI.
cmake_minimum_required(VERSION 3.25)

# parallax_place(<result> <path under parallax/>): its room and what follows, whether it is a door or lies in detail/. Doors of
# transports, and of what stands on transfers, are found under the name that users know, comm/. A header and its -inl are one.
function(parallax_place result path)
  string(REGEX REPLACE "^detail/" "" path ${path})
  string(REGEX REPLACE "-inl[.]hpp$" ".hpp" path ${path})
  string(REGEX REPLACE "^comm/((thread|mpi|socket|nccl|staged|cuda_thread)[./])" "transport/\\1" path ${path})
  string(REGEX REPLACE "^comm/((collectives|wire)[.])" "transfer/\\1" path ${path})
  string(REGEX REPLACE "^comm/(run[.])" "launch/\\1" path ${path})
  set(${result} ${path} PARENT_SCOPE)
endfunction()

set(may_core "")
set(may_memory core)
set(may_comm memory core)
set(may_transfer comm memory core)
set(may_launch comm core)
set(may_transport launch transfer comm memory core)
set(may_kernel memory core)
set(may_partition memory core)
set(may_optimizer core)
set(may_policy transfer comm kernel partition memory core)
set(may_variable policy optimizer ${may_policy})
set(may_pull variable ${may_variable})
set(may_step pull ${may_pull})
set(may_engine variable ${may_variable})
set(may_session engine step ${may_step})
set(may_async session ${may_session})
set(may_compiled session transport ${may_session})
set(may_data transfer comm memory core)
set(may_interop session ${may_session})
set(may_checkpoint session ${may_session})
set(may_conformance transfer comm partition memory core)
# Only users include these.
set(leaves "transport/(thread|mpi|socket|nccl|staged|cuda_thread)|launch/run|kernel/cuda|memory/cuda|interop/[a-z0-9_]+|checkpoint|async|conformance|session/capture")

# Large headers of the standard library, which every trainer's compiler would read: there is a lighter one of ours
# (detail/core/algorithm.hpp, detail/core/reference.hpp, detail/core/pointer.hpp, detail/core/function_ref.hpp), or another way. Leaves may.
set(heavy "algorithm|chrono|functional|iostream|map|memory|ranges|regex|set|sstream|thread|unordered_map|unordered_set")
set(light "core/(algorithm|reference|clock|own_thread)[.]hpp|comm/letter_queue[.]hpp|session/progress_thread[.]hpp|partition/greedy[.]hpp")

set(broken 0)
file(GLOB_RECURSE headers RELATIVE ${include}/parallax ${include}/parallax/*.hpp ${include}/parallax/*.cuh)
foreach(path IN LISTS headers)
  parallax_place(header ${path})
  file(STRINGS ${include}/parallax/${path} lines REGEX "^[ \t]*#[ \t]*(el)?if.*[^A-Z](MPICH|OMPI|OPEN_MPI|MVAPICH|I_MPI)")
  foreach(line IN LISTS lines)
    message("parallax/${path}: it asks for one MPI among others: ${line}")
    math(EXPR broken "${broken} + 1")
  endforeach()
  string(REGEX REPLACE "/.*" "" room ${header})
  file(STRINGS ${include}/parallax/${path} lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    set(complaint)
    if(NOT line MATCHES "include[ \t]*[<\"]parallax/(([a-z0-9_]+)/[^>\"]*|[a-z0-9_]+\\.hpp)[>\"]")
      if(line MATCHES "include[ \t]*[<\"](${heavy})[>\"]" AND NOT header MATCHES "^(${leaves})|^(${light})$")
        string(REGEX REPLACE ".*[<\"](.*)[>\"].*" "\\1" name ${line})
        set(complaint "every trainer's compiler would read <${name}>")
      elseif(line MATCHES "include[ \t]*\"")
        set(complaint "our own headers are named from parallax/")
      endif()
    else()
      set(named ${CMAKE_MATCH_1})
      parallax_place(target ${named})
      string(REGEX REPLACE "/.*" "" target_room ${target})
      set(leaf)
      if(target STREQUAL header)
        continue()
      endif()
      if(target MATCHES "^(${leaves})[/.]")
        set(leaf ${CMAKE_MATCH_1})
      endif()
      if(target MATCHES "[.]cuh$" AND NOT header MATCHES "[.]cuh$")
        set(complaint "a header for every compiler includes none for nvcc")
      elseif(leaf STREQUAL "memory/cuda" AND
             header MATCHES "^(kernel/cuda|transport/(nccl|staged|cuda_thread)|conformance/device_communicator)[/.]")
        continue()  # kernels stand on their memory, and what carries it knows it
      elseif(leaf MATCHES "^(memory|kernel)/cuda$" AND header STREQUAL "session/capture.hpp")
        continue()  # a graph of a step is a device's
      elseif(leaf STREQUAL "kernel/cuda" AND header MATCHES "^compiled/(cuda|kernels)[.]hpp$")
        continue()  # so is a library of kernels, and of the engine that launches them
      elseif(header STREQUAL "kernel/cuda.cuh" AND target STREQUAL "compiled/kernels.hpp")
        continue()  # which includes what a program compiles, or what it links, as the umbrella does
      elseif(leaf MATCHES "^interop/(safetensors|file)$" AND header MATCHES "^(checkpoint|interop)/")
        continue()  # checkpoints are such files, and the formats share what opens them
      elseif(leaf STREQUAL "interop/npy" AND header STREQUAL "interop/npz.hpp")
        continue()  # an archive of such files
      elseif(leaf STREQUAL "transport/thread" AND header MATCHES "^(transport/(cuda_thread[.]|nccl/)|launch/run[.])")
        continue()  # threads that share a device are threads, and `run` makes threads
      elseif(header STREQUAL "kernel/cuda/instantiate.cuh" AND
             target MATCHES "^(optimizer/optimizer|partition/(block|cyclic|hash))[.]hpp$")
        continue()  # which kernels variables call is a matter of their optimizers and partitioners
      elseif(leaf AND NOT header MATCHES "^${leaf}[/.]")
        set(complaint "a backend is a leaf, nothing includes it")
      elseif(NOT path MATCHES "/" OR target STREQUAL "version.hpp" OR room STREQUAL target_room)
        continue()  # the umbrella includes every room
      elseif(NOT DEFINED may_${room})
        set(complaint "the room ${room} is not known: give it its place in rooms.cmake")
      elseif(NOT target_room IN_LIST may_${room})
        set(complaint "${room} may not include ${named}")
      endif()
    endif()
    if(complaint)
      message("parallax/${path}: ${complaint}: ${line}")
      math(EXPR broken "${broken} + 1")
    endif()
  endforeach()
endforeach()
if(broken OR NOT headers)
  message(FATAL_ERROR "${broken} lines break the rule of the rooms")
endif()
