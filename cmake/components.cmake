# The components of parallax: the package that each needs, and the target that it becomes. The project and the installed
# parallaxConfig.cmake both read this file, so that both define the same targets.
set(parallax_components parallax compiled threads mpi compiled_mpi eigen cuda compiled_cuda nccl conformance)

# NCCL has no CMake package. It is looked for where NCCL_ROOT says, beside cudart, and where headers and libraries are. Where it
# is found, with cudart, defines parallax_nccl_library.
function(parallax_find_nccl)
  if(TARGET parallax_nccl_library OR NOT TARGET CUDA::cudart)
    return()
  endif()
  find_path(PARALLAX_NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS}
    PATH_SUFFIXES include)
  find_library(PARALLAX_NCCL_LIBRARY nccl HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  mark_as_advanced(PARALLAX_NCCL_INCLUDE_DIR PARALLAX_NCCL_LIBRARY)
  if(PARALLAX_NCCL_INCLUDE_DIR AND PARALLAX_NCCL_LIBRARY)
    add_library(parallax_nccl_library INTERFACE IMPORTED ${PARALLAX_COMPONENT_SCOPE})
    target_include_directories(parallax_nccl_library INTERFACE ${PARALLAX_NCCL_INCLUDE_DIR})
    target_link_libraries(parallax_nccl_library INTERFACE ${PARALLAX_NCCL_LIBRARY} CUDA::cudart)
  endif()
endfunction()

# parallax::compiled: the engine and threads as a library, for projects of many programs. It is built, from installed sources and
# with the project's own settings, only where something links it. What links it has PARALLAX_COMPILED defined.
function(parallax_add_compiled)
  if(TARGET parallax_compiled)
    return()
  endif()
  add_library(parallax_compiled STATIC EXCLUDE_FROM_ALL ${parallax_compiled_sources}/engine.cpp ${parallax_compiled_sources}/rows.cpp
    ${parallax_compiled_sources}/threads.cpp)
  target_link_libraries(parallax_compiled PUBLIC parallax::parallax)
  target_compile_definitions(parallax_compiled PUBLIC PARALLAX_COMPILED)
  set_target_properties(parallax_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(parallax::compiled ALIAS parallax_compiled)
endfunction()

# parallax_add_compiled_with(part macro library): parallax::compiled_<part>, of the source of that name: the same, and what needs
# that library. What links it has the macro defined as well.
function(parallax_add_compiled_with part macro library)
  parallax_add_compiled()
  set(target parallax_compiled_${part})
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${parallax_compiled_sources}/${part}.cpp)
  target_link_libraries(${target} PUBLIC parallax::compiled ${library})
  target_compile_definitions(${target} PUBLIC ${macro})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(parallax::compiled_${part} ALIAS ${target})
endfunction()

# parallax::compiled_mpi: with MPI.
function(parallax_add_compiled_mpi)
  if(NOT TARGET parallax_compiled_mpi)
    parallax_add_compiled_with(mpi PARALLAX_COMPILED_MPI parallax::mpi)
  endif()
endfunction()

# parallax::compiled_cuda: with the engine over devices and all kernels that know no optimizer, for the devices that
# PARALLAX_CUDA_ARCHITECTURES says, as parallax_add_cuda has it.
function(parallax_add_compiled_cuda)
  if(NOT TARGET parallax_compiled_cuda)
    parallax_add_compiled_with(cuda PARALLAX_COMPILED_CUDA parallax::cuda)
    parallax_add_cuda(parallax_compiled_cuda QUIET OPTIONS -Xcompiler -fPIC SOURCES ${parallax_compiled_sources}/kernels.cu)
  endif()
endfunction()

# Finds the CUDA toolkit, in a function: what it sets ends there. For projects that need CMake 3.25 or newer, CMake 3.25.1, Debian 12's,
# marks CUDA::nvToolsExt as deprecated without asking whether there is one, and CUDA 13 has none.
macro(parallax_find_cuda_toolkit)
  if(NOT CUDAToolkit_FOUND)
    if(CMAKE_VERSION VERSION_LESS 3.26)
      set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
    endif()
    find_package(CUDAToolkit QUIET)
  endif()
endmacro()

# Looks for what a component needs. Where it is found, defines parallax::<component> and sets parallax_<component>_FOUND;
# else sets parallax_<component>_FOUND to FALSE and parallax_<component>_reason to a sentence.
function(parallax_find_component component)
  if(component STREQUAL "parallax")
    set(parallax_parallax_FOUND TRUE PARENT_SCOPE)
    return()
  elseif(component STREQUAL "compiled")
    parallax_add_compiled()
    set(parallax_compiled_FOUND TRUE PARENT_SCOPE)
    return()
  elseif(component MATCHES "^compiled_(mpi|cuda)$")  # beside the component of that name
    set(of ${CMAKE_MATCH_1})
    string(TOUPPER PARALLAX_WITH_${of} choice)
    if(NOT TARGET parallax::${of} AND NOT "${${choice}}" STREQUAL "OFF")
      parallax_find_component(${of})
    endif()
    if(TARGET parallax::${of})
      cmake_language(CALL parallax_add_${component})
    endif()
    set(parallax_${component}_FOUND ${parallax_${of}_FOUND} PARENT_SCOPE)
    string(REPLACE "component ${of}:" "component ${component}:" reason "${parallax_${of}_reason}")
    set(parallax_${component}_reason "${reason}" PARENT_SCOPE)
    return()
  elseif(component STREQUAL "threads")
    set(dependency "Threads")
    find_package(Threads QUIET)
    set(needs Threads::Threads)
  elseif(component STREQUAL "mpi")
    set(dependency "MPI")
    if(CMAKE_C_COMPILER_LOADED)  # only the C interface is used; MPI::MPI_CXX would link the deprecated C++ one as well
      set(language C)
    else()
      set(language CXX)
    endif()
    find_package(MPI QUIET COMPONENTS ${language})
    set(needs MPI::MPI_${language})
    if(NOT MPI_${language}_FOUND)  # CMake defines the target all the same, and empty
      set(needs MPI-NOTFOUND)
    endif()
  elseif(component STREQUAL "eigen")
    set(dependency "Eigen3")
    find_package(Eigen3 QUIET CONFIG)
    set(needs Eigen3::Eigen)
  elseif(component STREQUAL "cuda")
    set(dependency "the CUDA toolkit")
    parallax_find_cuda_toolkit()
    set(needs CUDA::cudart)
  elseif(component STREQUAL "nccl")
    set(dependency "NCCL, with the CUDA toolkit")
    parallax_find_cuda_toolkit()
    parallax_find_nccl()
    set(needs parallax_nccl_library)
  elseif(component STREQUAL "conformance")
    set(dependency "Catch2 2.13 or 3")
    if(NOT TARGET Catch2::Catch2)
      find_package(Catch2 3 QUIET CONFIG)
      if(NOT Catch2_FOUND)
        find_package(Catch2 2.13 QUIET CONFIG)
      endif()
    endif()
    set(needs Catch2::Catch2)
  else()
    list(JOIN parallax_components ", " known)
    set(parallax_${component}_FOUND FALSE PARENT_SCOPE)
    set(parallax_${component}_reason
        "parallax: component ${component}: there is no such component (there are ${known})" PARENT_SCOPE)
    return()
  endif()

  if(NOT TARGET ${needs})
    set(parallax_${component}_FOUND FALSE PARENT_SCOPE)
    set(parallax_${component}_reason
        "parallax: component ${component}: its dependency (${dependency}) was not found" PARENT_SCOPE)
    return()
  endif()
  if(NOT TARGET parallax::${component})
    add_library(parallax::${component} INTERFACE IMPORTED ${PARALLAX_COMPONENT_SCOPE})
    target_link_libraries(parallax::${component} INTERFACE parallax::parallax ${needs})
    if(component STREQUAL "mpi")
      target_compile_definitions(parallax::mpi INTERFACE MPICH_SKIP_MPICXX=1 OMPI_SKIP_MPICXX=1)
    elseif(component STREQUAL "cuda")
      foreach(folder IN LISTS CUDAToolkit_INCLUDE_DIRS)  # where CUDA 13 has Thrust and CUB; nvcc knows by itself
        if(IS_DIRECTORY ${folder}/cccl)
          target_include_directories(parallax::cuda INTERFACE ${folder}/cccl)
        endif()
      endforeach()
    endif()
  endif()
  set(parallax_${component}_FOUND TRUE PARENT_SCOPE)
endfunction()

# parallax_add_cuda(target [ARCHITECTURES number...] [OPTIONS flag...] [QUIET] SOURCES file.cu...)
# Compiles files with nvcc into a target, as C++20, for the given architectures (without any: what PARALLAX_CUDA_ARCHITECTURES
# says, or those of the devices that nvcc finds on this machine). It does without CMake's language CUDA, of which CMake before 3.25.2 knows no C++20, so that
# configuring needs no device and costs nothing. The target's include folders and definitions hold for the files, and nvcc's OPTIONS.
# QUIET says nothing of devices of this machine.
function(parallax_add_cuda target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "QUIET" "" "ARCHITECTURES;SOURCES;OPTIONS")
  if(NOT TARGET parallax::cuda)
    message(FATAL_ERROR "parallax_add_cuda(${target}): there is no component cuda: ${parallax_cuda_reason}")
  endif()
  parallax_find_cuda_toolkit()  # for where nvcc is: beside CMake's language CUDA no cache says it
  if(NOT arg_ARCHITECTURES)
    set(arg_ARCHITECTURES ${PARALLAX_CUDA_ARCHITECTURES})
  endif()
  set(codes -arch=native)
  if(NOT arg_ARCHITECTURES AND NOT arg_QUIET)
    message(STATUS "parallax_add_cuda(${target}): for the devices of this machine alone; ARCHITECTURES names those of others")
  elseif(arg_ARCHITECTURES)
    set(codes)
    list(GET arg_ARCHITECTURES -1 last)  # in a form that later ones can read, too
    list(APPEND codes -gencode arch=compute_${last},code=compute_${last})
  endif()
  foreach(number IN LISTS arg_ARCHITECTURES)
    list(APPEND codes -gencode arch=compute_${number},code=sm_${number})
  endforeach()
  set(includes "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  set(definitions "$<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>")
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE file)
    cmake_path(GET source FILENAME name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${file} DEPFILE ${object}.d COMMENT "Building CUDA object ${name}.o" VERBATIM
      COMMAND_EXPAND_LISTS COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 ${codes}
        "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" "$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},;-D>>"
        ${arg_OPTIONS} -MD -MT ${object} -MF ${object}.d -c ${file} -o ${object})
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endforeach()
  target_link_libraries(${target} PRIVATE parallax::cuda)
endfunction()
