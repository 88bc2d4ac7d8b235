// The part of phases.cpp, which has their types, that a main of random trainings in phases needs.
#pragma once

#include <memory>

#include "parallax/parallax.hpp"
#include "phases.hpp"

namespace parallax_test::phases {

// The exception of `Doer::leave`.
struct Leaves {};

// Returns a rank of a phase: of the world that the walk has entered. Refers to the communicator.
std::unique_ptr<Doer> doer_of(parallax::AnyCommunicator& communicator, World const& world);

}  // namespace parallax_test::phases
