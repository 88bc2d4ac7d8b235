// What a main of random trainings in phases needs of phases.cpp, which has their types.
#pragma once

#include <memory>

#include "parallax/parallax.hpp"
#include "phases.hpp"

namespace parallax_test::phases {

// What `Doer::leave` throws.
struct Leaves {};

// A rank of a phase: of the world that the walk has entered. Refers to the communicator.
std::unique_ptr<Doer> doer_of(parallax::AnyCommunicator& communicator, World const& world);

}  // namespace parallax_test::phases
