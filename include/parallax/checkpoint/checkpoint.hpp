// `Session::save`, `Session::restore` and `Checkpoints`: checkpoints that come back on another number of ranks. A trainer that calls
// them includes it.
#pragma once

#include "parallax/checkpoint/checkpoints.hpp"
#include "parallax/checkpoint/whole.hpp"
#include "parallax/detail/checkpoint/background.hpp"
#include "parallax/detail/checkpoint/restore.hpp"
#include "parallax/detail/checkpoint/save.hpp"
