# Makes the .deb and the .tar.gz from the sources alone, and unpacks them where consumers look: deb/ and tgz/.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${work})
execute_process(COMMAND ${CMAKE_COMMAND} -G ${generator} -S ${root} -B ${work}/build -DCMAKE_CXX_COMPILER=${compiler}
  -DPARALLAX_BUILD_TESTS=OFF -DPARALLAX_BUILD_EXAMPLES=OFF -DPARALLAX_BUILD_BENCHMARKS=OFF -DPARALLAX_WITH_MPI=OFF
  -DPARALLAX_WITH_EIGEN=OFF -DPARALLAX_WITH_CUDA=OFF -DPARALLAX_WITH_NCCL=OFF OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
cmake_path(GET CMAKE_COMMAND PARENT_PATH tools)
execute_process(COMMAND ${tools}/cpack -G "DEB;TGZ" -B ${work} WORKING_DIRECTORY ${work}/build COMMAND_ERROR_IS_FATAL ANY)

set(package ${work}/libparallax-dev_${version}_all.deb)
execute_process(COMMAND ${program} --field ${package} OUTPUT_VARIABLE fields COMMAND_ERROR_IS_FATAL ANY)
message("${fields}")
foreach(field "Package: libparallax-dev" "Version: ${version}" "Architecture: all" "Section: libdevel")
  string(FIND "${fields}" "${field}\n" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the package does not say: ${field}")
  endif()
endforeach()
execute_process(COMMAND ${program} -x ${package} ${work}/deb COMMAND_ERROR_IS_FATAL ANY)
file(ARCHIVE_EXTRACT INPUT ${work}/parallax-${version}.tar.gz DESTINATION ${work}/tgz)
foreach(file deb/usr/share/doc/libparallax-dev/copyright deb/usr/share/pkgconfig/parallax.pc
        tgz/parallax-${version}/include/parallax/parallax.hpp tgz/parallax-${version}/share/doc/parallax/LICENSE)
  if(NOT EXISTS ${work}/${file})
    message(FATAL_ERROR "there is no ${file}")
  endif()
endforeach()
