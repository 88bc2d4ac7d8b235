// Catch2 with a `main` to run the test cases: for a test of one file, included before the suites.
//
//   #include <parallax/conformance/main.hpp>
//   #include <parallax/conformance/communicator.hpp>
//   #include "my_communicator.hpp"
//
//   struct MyRanks {
//     int ranks;
//     template <class Body>
//     void run(std::chrono::nanoseconds deadline, Body const& body) const { run_my_ranks(ranks, deadline, body); }
//   };
//   TEST_CASE("mine is a communicator") { parallax_conformance::check_communicator(MyRanks{3}); }
//   TEST_CASE("mine finds failures") { parallax_conformance::check_failures(MyRanks{3}); }
#pragma once

#if defined(TWOBLUECUBES_SINGLE_INCLUDE_CATCH_HPP_INCLUDED)
#error "parallax: include parallax/conformance/main.hpp before everything else that includes Catch2"
#endif
#define CATCH_CONFIG_RUNNER
#include "parallax/detail/conformance/catch.hpp"

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#endif

// Runs the test cases as the command line says, and returns Catch2's result: 0 if all pass.
int main(int argc, char** argv) { return Catch::Session{}.run(argc, argv); }
