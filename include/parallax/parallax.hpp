// Everything but the backends: variables, policies, optimizers, partitioners, sessions and the communicator of one rank.
#pragma once

#include "parallax/comm/collectives.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/optimizer/adagrad.hpp"
#include "parallax/optimizer/adam.hpp"
#include "parallax/optimizer/sgd.hpp"
#include "parallax/partition/block.hpp"
#include "parallax/partition/cyclic.hpp"
#include "parallax/partition/hash.hpp"
#include "parallax/policy/policy.hpp"
#include "parallax/session/session.hpp"
#include "parallax/session/shard.hpp"
#include "parallax/variable/variable.hpp"
#include "parallax/version.hpp"
