# A repository with the sources as they are now, and the tag of their version, for those who fetch it.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${work})
file(COPY ${root}/CMakeLists.txt ${root}/LICENSE ${root}/cmake ${root}/include DESTINATION ${work})
set(identity -c user.name=parallax -c user.email=parallax@localhost)
foreach(command init\ --quiet add\ . commit\ --quiet\ -m\ sources tag\ v${version})
  separate_arguments(command)
  execute_process(COMMAND ${program} ${identity} ${command} WORKING_DIRECTORY ${work} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
