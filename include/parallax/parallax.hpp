// Everything but the backends: variables, policies, optimizers, partitioners, sessions and the communicator of one rank.
#pragma once

#include "parallax/comm/collectives.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/data/split.hpp"
#include "parallax/optimizer/adadelta.hpp"
#include "parallax/optimizer/adagrad.hpp"
#include "parallax/optimizer/adam.hpp"
#include "parallax/optimizer/ftrl.hpp"
#include "parallax/optimizer/lamb.hpp"
#include "parallax/optimizer/momentum.hpp"
#include "parallax/optimizer/proximal.hpp"
#include "parallax/optimizer/rms_prop.hpp"
#include "parallax/optimizer/rowwise_adagrad.hpp"
#include "parallax/optimizer/schedule.hpp"
#include "parallax/optimizer/sgd.hpp"
#include "parallax/optimizer/subtract.hpp"
#include "parallax/optimizer/weight_decay.hpp"
#include "parallax/partition/block.hpp"
#include "parallax/partition/cyclic.hpp"
#include "parallax/partition/hash.hpp"
#include "parallax/policy/auto.hpp"
#include "parallax/policy/presets.hpp"
#include "parallax/session/session.hpp"
#include "parallax/step/accumulator.hpp"
#include "parallax/variable/variable.hpp"
#include "parallax/version.hpp"

#if defined(PARALLAX_COMPILED)
#include "parallax/compiled/engine.hpp"
#include "parallax/compiled/rows.hpp"
#endif
