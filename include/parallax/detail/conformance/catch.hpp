// Catch2, in the installed version: version 3 or Debian 12's version 2. Tests include this and nothing of Catch2's own, and so
// do all reporters by Catch2's assertions. Assertions are for the thread that runs the test case: collect other threads'
// findings, and check them after the threads ended.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_adapters.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
// Version 2 has it in the global namespace: tests name it alike under both.
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
