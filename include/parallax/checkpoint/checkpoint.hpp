// `Session::save`, `Session::restore` and `Checkpoints`: checkpoints that come back on another number of ranks. A trainer that calls
// them includes it.
#pragma once

#include "parallax/checkpoint/background.hpp"
#include "parallax/checkpoint/checkpoints.hpp"
#include "parallax/checkpoint/restore.hpp"
#include "parallax/checkpoint/save.hpp"
#include "parallax/checkpoint/whole.hpp"
