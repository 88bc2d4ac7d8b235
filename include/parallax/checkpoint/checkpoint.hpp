// `Session::save`, `Session::restore` and `Checkpoints`: checkpoints for any number of ranks, also another one than they were
// saved by. Trainers that call them include this header.
#pragma once

#include "parallax/checkpoint/checkpoints.hpp"
#include "parallax/checkpoint/whole.hpp"
#include "parallax/detail/checkpoint/background.hpp"
#include "parallax/detail/checkpoint/restore.hpp"
#include "parallax/detail/checkpoint/save.hpp"
