// main of the tests that run in one process.
#include "catch.hpp"

int main(int argc, char** argv) { return parallax_test::run(argc, argv); }
