# Included behind `project` (CMAKE_PROJECT_parallax_INCLUDE) in a build of the tests against another MPI: what knows no MPI, and takes a
# compiler long, is taken from a build of the same sources that is there already.
#   PARALLAX_BORROWED_ENGINE   the archive of its parallax_compiled
#   PARALLAX_BORROWED_CATCH    the object of its parallax_catch_run
add_library(parallax_compiled STATIC IMPORTED GLOBAL)
set_target_properties(parallax_compiled PROPERTIES IMPORTED_LOCATION ${PARALLAX_BORROWED_ENGINE})
target_compile_definitions(parallax_compiled INTERFACE PARALLAX_COMPILED)
target_link_libraries(parallax_compiled INTERFACE parallax::parallax)
add_library(parallax::compiled ALIAS parallax_compiled)

add_library(parallax_catch_run OBJECT IMPORTED GLOBAL)
set_target_properties(parallax_catch_run PROPERTIES IMPORTED_OBJECTS ${PARALLAX_BORROWED_CATCH})
