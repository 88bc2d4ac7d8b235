# What cpack makes of the installation: `cpack -G DEB` and `cpack -G TGZ`, in a build folder. Nothing is compiled for them: what the
# build has made by then is in them, and the preset `package` makes the tools.
set(CPACK_PACKAGE_NAME parallax)
set(CPACK_PACKAGE_VENDOR "The maintainers of parallax")
set(CPACK_PACKAGE_CONTACT "The maintainers of parallax <maintainers@parallax.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DESCRIPTION
  "Headers for trainers in C++20 that become distributed. Gradients of dense variables are combined by all-reduce; rows of \
sparse ones are pulled from the ranks that own them, and their gradients pushed there. Ranks are threads, processes of MPI, \
processes on hosts that meet over sockets, or devices with CUDA and NCCL.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME parallax-${PROJECT_VERSION})
set(CPACK_VERBATIM_VARIABLES TRUE)

# Two packages for Debian: the headers, for every machine, and the tools, where they were built. One archive has both.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_COMPONENT_UNSPECIFIED_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME libparallax-dev)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_DEPENDS "g++ (>= 4:12) | clang (>= 1:14)")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS
  "cmake (>= 3.25), pkg-config, mpi-default-dev, libeigen3-dev, catch2, nvidia-cuda-toolkit, libnccl-dev")
if(PARALLAX_BUILD_TOOLS AND NOT PARALLAX_BUILD_TESTS)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Programs beside the library parallax: parallax-checkpoint looks at checkpoints of trainers, and \
parallax-bench-crossing measures all-reduce beside the parameter server on this machine.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME parallax-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
find_program(parallax_dpkg_shlibdeps dpkg-shlibdeps)
if(parallax_dpkg_shlibdeps)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
endif()
# Debian wants the licence where each package's name says: put there once the parts are installed, before they are packed.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_BINARY_DIR}/cpack_project.cmake)
file(CONFIGURE OUTPUT cpack_copyright.cmake @ONLY CONTENT [[
foreach(part IN ITEMS Unspecified:libparallax-dev tools:parallax-tools)
  string(REPLACE ":" ";" part ${part})
  list(POP_FRONT part component)
  if(IS_DIRECTORY ${CPACK_TEMPORARY_DIRECTORY}/${component})
    file(COPY_FILE @PROJECT_SOURCE_DIR@/LICENSE ${CPACK_TEMPORARY_DIRECTORY}/copyright)
    file(COPY ${CPACK_TEMPORARY_DIRECTORY}/copyright DESTINATION ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share/doc/${part})
  endif()
endforeach()
]])
file(CONFIGURE OUTPUT cpack_project.cmake @ONLY CONTENT [[
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_PRE_BUILD_SCRIPTS @CMAKE_CURRENT_BINARY_DIR@/cpack_copyright.cmake)
endif()
]])
include(CPack)
