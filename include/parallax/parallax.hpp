// Everything but the backends: variables, policies, optimizers, partitioners, sessions and the communicator of one rank. A
// trainer includes it, and beside it the header of its communicator (comm/thread.hpp, comm/mpi.hpp, comm/nccl.hpp) and of what
// else it needs: of devices (memory/cuda.hpp), of Eigen (interop/eigen.hpp). Begin with session/session.hpp for the operations,
// variable/variable.hpp for what they work on, and step/grad.hpp for the arguments of a step.
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

// Defined by the CMake target parallax::compiled: the engine and the row operations are then in that library, and are only
// declared here.
#if defined(PARALLAX_COMPILED)
#include "parallax/compiled/engine.hpp"
#include "parallax/compiled/rows.hpp"
#endif
// By the target parallax::compiled_cuda: so is that of devices.
#if defined(PARALLAX_COMPILED_CUDA)
#include "parallax/compiled/cuda.hpp"
#endif
