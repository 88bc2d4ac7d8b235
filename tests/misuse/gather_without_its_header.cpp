// expect: parallax: who saves, restores, gathers or scatters includes <parallax/checkpoint/checkpoint.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

void see(px::Session<px::SelfCommunicator>& session, px::Variable<px::Sparse>& table, px::WholeOptions const& options) {
  session.gather(table, options, [](auto, auto) {});
}
