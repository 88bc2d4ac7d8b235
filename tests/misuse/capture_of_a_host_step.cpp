// expect: parallax: a step is captured of a session on a CUDA device, as over NcclCommunicator
#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>
#include <parallax/session/capture.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
auto captured = px::capture(session, [] {});
