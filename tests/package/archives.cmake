# Makes the packages for Debian and the .tar.gz from the sources alone, as the preset `package` does but without optimisation,
# and unpacks them where consumers look: deb/, tools/ and tgz/.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${work})
execute_process(COMMAND ${CMAKE_COMMAND} -G ${generator} -S ${root} -B ${work}/build -DCMAKE_CXX_COMPILER=${compiler}
  -DPARALLAX_BUILD_TESTS=OFF -DPARALLAX_BUILD_EXAMPLES=OFF -DPARALLAX_BUILD_BENCHMARKS=OFF -DPARALLAX_WITH_MPI=OFF
  -DPARALLAX_WITH_EIGEN=OFF -DPARALLAX_WITH_CUDA=OFF -DPARALLAX_WITH_NCCL=OFF OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build COMMAND_ERROR_IS_FATAL ANY)
cmake_path(GET CMAKE_COMMAND PARENT_PATH tools)
execute_process(COMMAND ${tools}/cpack -G "DEB;TGZ" -B ${work} WORKING_DIRECTORY ${work}/build COMMAND_ERROR_IS_FATAL ANY)

set(package ${work}/libparallax-dev_${version}_all.deb)
execute_process(COMMAND ${program} --field ${package} OUTPUT_VARIABLE fields COMMAND_ERROR_IS_FATAL ANY)
message("${fields}")
foreach(field "Package: libparallax-dev" "Version: ${version}" "Architecture: all" "Section: libdevel"
        "pulled from the ranks that own them, and their gradients pushed there. Ranks are threads, processes of MPI")
  string(FIND "${fields}" "${field}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the package does not say: ${field}")
  endif()
endforeach()
execute_process(COMMAND ${program} -x ${package} ${work}/deb COMMAND_ERROR_IS_FATAL ANY)
file(GLOB package ${work}/parallax-tools_${version}_*.deb)
execute_process(COMMAND ${program} -x ${package} ${work}/tools COMMAND_ERROR_IS_FATAL ANY)
file(ARCHIVE_EXTRACT INPUT ${work}/parallax-${version}.tar.gz DESTINATION ${work}/tgz)
foreach(file deb/usr/share/doc/libparallax-dev/copyright deb/usr/share/pkgconfig/parallax.pc deb/usr/share/pkgconfig/parallax-mpi.pc
        deb/usr/share/doc/parallax/README.md deb/usr/share/doc/parallax/examples/hello_step.cpp tools/usr/share/man/man1/parallax-checkpoint.1
        tgz/parallax-${version}/bin/parallax-checkpoint tgz/parallax-${version}/share/doc/parallax/docs/tutorial.md
        tgz/parallax-${version}/include/parallax/parallax.hpp tgz/parallax-${version}/share/doc/parallax/LICENSE)
  if(NOT EXISTS ${work}/${file})
    message(FATAL_ERROR "there is no ${file}")
  endif()
endforeach()

# The tool is whole, and its help and its page name every command.
execute_process(COMMAND ${work}/tools/usr/bin/parallax-checkpoint --help OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
file(READ ${work}/tools/usr/share/man/man1/parallax-checkpoint.1 page)
foreach(command list show verify diff convert)
  string(FIND "${said}" "${command}" in_help)
  string(FIND "${page}" "parallax-checkpoint ${command}" in_page)
  if(in_help EQUAL -1 OR in_page EQUAL -1)
    message(FATAL_ERROR "the help or the page of parallax-checkpoint has no ${command}: ${said}")
  endif()
endforeach()

# The microbenchmark by its name, small: it ends with the table of where all-reduce begins to be the cheaper one.
foreach(program tools/usr/bin/parallax-bench-crossing tgz/parallax-${version}/bin/parallax-bench-crossing)
  execute_process(COMMAND ${work}/${program} --smoke OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  if(NOT said MATCHES "PS/AR bytes.*# the share of a table's rows [(]alpha[)] from which all-reduce costs less.*by bytes +by time\n[^\n]* MiB ")
    message(FATAL_ERROR "${program} has shown no table: ${said}")
  endif()
endforeach()

# A build that has tests packs without building them.
execute_process(COMMAND ${CMAKE_COMMAND} -G ${generator} -S ${root} -B ${work}/with_tests -DCMAKE_CXX_COMPILER=${compiler}
  -DPARALLAX_WITH_MPI=OFF OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${tools}/cpack -G TGZ -B ${work}/packed WORKING_DIRECTORY ${work}/with_tests OUTPUT_VARIABLE said
  COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE objects ${work}/with_tests/*.o)
if(objects)
  message(FATAL_ERROR "packing has built ${objects}")
endif()
