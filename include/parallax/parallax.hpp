// Everything but the backends: variables, policies, optimizers, partitioners, sessions and the communicator of one rank. A
// trainer includes it, and beside it the header of its communicator (comm/thread.hpp, comm/mpi.hpp, comm/nccl.hpp) and headers
// for further needs: for devices (memory/cuda.hpp), for Eigen (interop/eigen.hpp). Begin with session/session.hpp for the
// operations, variable/variable.hpp for their operands, and step/grad.hpp for the arguments of a step.
#pragma once

#include "parallax/comm/collectives.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/data/split.hpp"
#include "parallax/detail/optimizer/adadelta.hpp"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/detail/optimizer/adam.hpp"
#include "parallax/detail/optimizer/ftrl.hpp"
#include "parallax/detail/optimizer/lamb.hpp"
#include "parallax/detail/optimizer/momentum.hpp"
#include "parallax/detail/optimizer/proximal.hpp"
#include "parallax/detail/optimizer/rms_prop.hpp"
#include "parallax/detail/optimizer/rowwise_adagrad.hpp"
#include "parallax/detail/optimizer/schedule.hpp"
#include "parallax/detail/optimizer/subtract.hpp"
#include "parallax/detail/optimizer/weight_decay.hpp"
#include "parallax/detail/partition/block.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/detail/partition/hash.hpp"
#include "parallax/detail/policy/auto.hpp"
#include "parallax/detail/policy/presets.hpp"
#include "parallax/detail/step/accumulator.hpp"
#include "parallax/optimizer/sgd.hpp"
#include "parallax/session/session.hpp"
#include "parallax/variable/variable.hpp"
#include "parallax/version.hpp"

// Defined by the CMake target parallax::compiled: the engine and the row operations are then in its library, and only declared
// here.
#if defined(PARALLAX_COMPILED)
#include "parallax/detail/compiled/engine.hpp"
#include "parallax/detail/compiled/rows.hpp"
#endif
// Defined by the target parallax::compiled_cuda: its library has the engine and the row operations of devices.
#if defined(PARALLAX_COMPILED_CUDA)
#include "parallax/detail/compiled/cuda.hpp"
#endif
