# cmake -D include=<folder> -P versions.cmake: all names of the library lie in one inline namespace, of the major and minor number in
# version.hpp, so that two versions live in one program. Fails with one line for each header that opens the namespace otherwise.
cmake_minimum_required(VERSION 3.25)

file(READ ${include}/parallax/version.hpp text)
string(REGEX MATCH "PARALLAX_VERSION_MAJOR ([0-9]+).*PARALLAX_VERSION_MINOR ([0-9]+)" found "${text}")
set(version "v${CMAKE_MATCH_1}_${CMAKE_MATCH_2}")

set(broken 0)
file(GLOB_RECURSE headers RELATIVE ${include} ${include}/parallax/*.hpp ${include}/parallax/*.cuh ${include}/parallax/*.cpp
  ${include}/parallax/*.cu)
foreach(header IN LISTS headers)
  file(STRINGS ${include}/${header} lines REGEX "^(inline )?namespace parallax[_a-z]*[: {]")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^namespace parallax(_conformance)?::inline ${version}(::[a-z_:]+)? {$")
      message("${header}: ${line}: all names lie in parallax::inline ${version}")
      math(EXPR broken "${broken} + 1")
    endif()
  endforeach()
endforeach()
if(broken OR NOT headers)
  message(FATAL_ERROR "${broken} namespaces are of no version, or of another one")
endif()
