# What cpack makes of the installation: `cpack -G DEB` and `cpack -G TGZ`, in a build folder. Nothing is compiled for them.
set(CPACK_PACKAGE_NAME parallax)
set(CPACK_PACKAGE_VENDOR "The maintainers of parallax")
set(CPACK_PACKAGE_CONTACT "The maintainers of parallax <maintainers@parallax.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DESCRIPTION
  "Headers for trainers in C++20 that become distributed. Gradients of dense variables are combined by all-reduce; rows of \
sparse ones are pulled from the ranks that own them, and their gradients pushed there. Ranks are threads or MPI processes.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME parallax-${PROJECT_VERSION})
set(CPACK_VERBATIM_VARIABLES TRUE)

set(CPACK_DEBIAN_PACKAGE_NAME libparallax-dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "g++ (>= 4:12) | clang (>= 1:14)")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake (>= 3.25), pkg-config, mpi-default-dev, libeigen3-dev, catch2")
# Debian wants the licence where the package's name says.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_BINARY_DIR}/cpack_project.cmake)
set(debian_documents ${CMAKE_CURRENT_BINARY_DIR}/debian_documents)
configure_file(LICENSE ${debian_documents}/copyright COPYONLY)
file(CONFIGURE OUTPUT cpack_project.cmake @ONLY CONTENT [[
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_INSTALLED_DIRECTORIES "@debian_documents@;usr/share/doc/libparallax-dev")
endif()
]])
include(CPack)
