// Evaluation between the steps of a training: it pulls rows, trains on none of them, and no bit of the training tells.
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::evaluation {
namespace {

// Pulls some rows of every table; each rank its own, and sometimes none. `kept` has the handles of the evaluation before.
template <px::Communicator C, class Kept>
void evaluate(Model<C>& model, std::uint64_t seed, Kept& kept) {
  std::mt19937_64 random{seed * 97 + static_cast<std::uint64_t>(model.rank())};
  auto const some = [&](auto rows) {
    std::vector<decltype(rows)> ids(random() % 4 == 0 ? 0 : random() % 20);
    for (auto& id : ids) id = static_cast<decltype(rows)>(random() % static_cast<std::uint64_t>(rows));
    return ids;
  };
  auto const words = some(std::int64_t{23}), copy = some(std::int64_t{13});
  auto const exact = some(std::int32_t{17});
  kept = model.session.pull(model.words.at(words), model.exact.at(exact), model.copy.at(copy));
}

// Every bit that a rank ends with, and what it pulled after each step.
template <px::Communicator C>
std::vector<std::uint64_t> train(px::Topology<C> topology, std::uint64_t seed, bool evaluates) {
  Model<C> model{std::move(topology)};
  std::vector<std::uint64_t> told;
  {
    std::vector<int> const first{0};
    auto kept = model.session.pull(model.words.at(first), model.exact.at(first), model.copy.at(first));
    for (int step = 0; step < 12; ++step) {
      auto const at = seed + static_cast<std::uint64_t>(step) * 5;
      model.exact.optimizer().learning_rate = 0.1 / (1 + step);  // rows that steps pass by move by the rate of those steps
      std::vector<int> const next{step, step % 3, 7};
      auto named = model.session.prefetch(model.words.at(next));
      if (evaluates) evaluate(model, at, kept);  // with rows named ahead
      model.start_bias(seed, step);
      if (evaluates) evaluate(model, at + 1, kept);  // with an update started
      model.train(seed, step, false);
      if (evaluates && step % 3 == 0) evaluate(model, at + 2, kept);
      auto const rows = model.session.pull(std::move(named)).values();
      px::Fingerprint bits;
      bits.add(std::string_view{reinterpret_cast<char const*>(rows.data),
                                static_cast<std::size_t>(rows.rows * rows.width) * sizeof(float)});
      told.push_back(bits.value());
    }
  }
  told.push_back(model.hash());
  model.session.finish();
  return told;
}

}  // namespace

TEST_CASE("an evaluation that pulls between steps changes no bit of the training", "[session][evaluation]") {
  constexpr std::uint64_t seed = 20261123;
  INFO("seed " << seed);
  for (int const ranks : {1, 2, 4})
    for (bool const hosts : {false, true}) {
      if (hosts && ranks < 4) continue;
      auto const run = [&](bool evaluates) {
        return on_ranks(ranks, [&](px::ThreadCommunicator& world) {
          return train(hosts ? px::Topology{world, {0, 1, 0, 1}} : px::Topology{world}, seed, evaluates);
        });
      };
      CHECK(run(true) == run(false));
    }
}

}  // namespace parallax_test::evaluation
