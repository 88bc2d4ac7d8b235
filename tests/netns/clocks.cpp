// A rank over sockets that trains 20 steps; rank 0 prints the merged trace, every other its own events. The script `clocks` starts
// two.
#include <cstdio>
#include <string>
#include <vector>

#include "parallax/comm/socket.hpp"
#include "parallax/interop/merged_trace.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

int main() {
  px::SocketCommunicator world{px::socket_options_from_environment().value()};
  px::Session session{world};
  std::vector<float> weights(100'000, 1.0f), gradient(100'000, 1.0f);
  px::Variable<px::Dense> layer{session, "layer", px::bind(weights)};
  session.broadcast(layer);
  {
    px::Trace const trace{session};
    for (int step = 0; step < 20; ++step) session.step(px::grad(layer, gradient));
    std::string const all = px::merged(trace), text = world.rank() == 0 ? all : "[" + trace.events() + "]\n";
    std::fputs(text.c_str(), stdout);
  }
  session.finish();
}
