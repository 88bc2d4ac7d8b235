// parallax-bench converge: the models of the examples, trained to the end under every policy: what they have learnt by step, by
// time and by bytes sent.
#pragma once

#include "ranks.hpp"
#include "report.hpp"

namespace bench {

// Refusal where the text to train on is not installed.
void run_converge(Options const& options, Ranks& ranks, Report& report, Progress& progress);

}  // namespace bench
