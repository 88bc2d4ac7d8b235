// expect: parallax: a table in the host's memory is indexed by numbers there, not by px::on_device
#include <span>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {10, 2}};
auto const rows = session.pull(words, px::on_device(std::span<int const>{}));
