// run CASE STEPS: so many steps on two thread ranks, for callgrind to count.
//   tensors   1,000 dense variables of 16 floats, in one list: what a step does for each variable, above all
//   rows      a pull and a step of 64 ids of a table
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

void train_tensors(px::Session<px::ThreadCommunicator>& session, int steps) {
  constexpr std::size_t count = 1000, size = 16;
  std::vector<float> parameters(count * size, 0.5f), gradients(count * size, 0.25f);
  using Tensor = px::Variable<px::Dense, px::Sgd>;
  std::deque<Tensor> tensors;
  px::Updates<Tensor> updates;
  for (std::size_t i = 0; i < count; ++i) {
    Tensor& tensor = tensors.emplace_back(session, std::to_string(i), px::bind(parameters.data() + i * size, size));
    updates.push_back(px::grad(tensor, gradients.data() + i * size, size));
  }
  for (int step = 0; step < steps; ++step) session.step(updates);
}

void train_rows(px::Session<px::ThreadCommunicator>& session, int steps) {
  px::Variable<px::Sparse, px::Sgd> words{session, "words", {.rows = 1'000, .width = 16}};
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < 64; ++i) ids.push_back(i * (7 + session.rank()) % 1'000);
  std::vector<float> const gradient(ids.size() * 16, 0.25f);
  for (int step = 0; step < steps; ++step) {
    auto const rows = session.pull(words, ids);
    session.step(px::grad(rows, std::span{gradient}));
  }
}

}  // namespace

int main(int, char** arguments) {
  std::string_view const what = arguments[1];
  int const steps = std::atoi(arguments[2]);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    what == "rows" ? train_rows(session, steps) : train_tensors(session, steps);
    session.finish();
  });
}
