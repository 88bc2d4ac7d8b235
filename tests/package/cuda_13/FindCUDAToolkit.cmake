# What is left of the module of CMake 3.25.1 with a toolkit that has no nvToolsExt.
add_library(CUDA::cudart INTERFACE IMPORTED)
if(CMAKE_VERSION VERSION_LESS 3.26 AND CMAKE_MINIMUM_REQUIRED_VERSION VERSION_GREATER_EQUAL 3.25)
  set_property(TARGET CUDA::nvToolsExt PROPERTY DEPRECATION "by nvtx3")
endif()
set(CUDAToolkit_FOUND TRUE)
