// The ends of trainings, and refusals, a line each: compiled twice, plainly and under -Ofast for this machine, as the function
// that TRAININGS names. compare.sh compares the lines of both, by themselves and in one program. Sums over three ranks, norms, means of bags, roots and quotients, numbers that are drawn,
// schedules.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// Returns a number by its bits, as the flags take none for infinite or for no number.
double number(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
double const not_one = number(0x7ff8000000000000u), infinite = number(0x7ff0000000000000u);

void add(std::uint64_t& hash, std::vector<float> const& values) {
  for (float const value : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3u;
  }
}

template <class O>
void train(O const& settings) {
  constexpr std::int64_t rows = 40, width = 11;
  std::uint64_t hash = 0xcbf29ce484222325u;
  px::run_threads(3, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> weights(137, 0.5f);
    px::Variable<px::Dense, O> layer{session, "layer", px::bind(weights), settings};
    px::Variable<px::Sparse, O> table{
        session, "table", {.rows = rows, .width = width, .initial = px::uniform(-1, 1)}, settings};
    px::Variable<px::Sparse, O, px::AllReduce> copies{
        session, "copies", {.rows = rows, .width = width, .initial = px::normal(0.3)}, settings};
    std::mt19937 random{17 + static_cast<unsigned>(world.rank())};
    auto const draw = [&](std::size_t n) {
      std::vector<float> values(n);
      for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 2000001) - 1000000) * 0x1p-20f;
      return values;
    };
    auto const rate = px::warmup(px::cosine(0.1, 50), 5);
    for (int step = 0; step < 30; ++step) {
      std::vector<int> ids(15), offsets{0, 4, 4, 9, 15};
      for (int& id : ids) id = static_cast<int>(random() % rows);
      layer.optimizer().learning_rate = table.optimizer().learning_rate = copies.optimizer().learning_rate =
          rate(session.steps());
      auto const bags = session.pull(table.bags(ids, offsets, px::Pool::mean));
      std::vector<float> const of_layer = draw(weights.size()), of_bags = draw(4 * width), of_copies = draw(ids.size() * width);
      session.step(px::clip_by_global_norm(2.5, px::grad(layer, of_layer), px::grad(bags, of_bags)),
                   px::grad(copies, ids, of_copies));
    }
    if (world.rank() == 0) add(hash, weights);
    if (world.rank() == 0) add(hash, {copies.local().data, copies.local().data + rows * width});
    std::vector<int> all;
    for (int row = 0; row < rows; ++row) all.push_back(row);
    auto const pulled = session.pull(table, all);
    for (std::size_t row = 0; row < all.size() && world.rank() == 0; ++row) add(hash, {pulled[row].begin(), pulled[row].end()});
    session.finish();
  });
  std::printf("%s %016llx\n", px::optimizer_name<O>().c_str(), static_cast<unsigned long long>(hash));
}

// Prints what one step of a variable says.
template <class O = px::Sgd>
void step(char const* what, double gradient, O const& settings = {}, double bound = 1,
          px::NonFinite looks = px::NonFinite::error) {
  px::SelfCommunicator world;
  px::Session session{world, {.non_finite = looks}};
  std::vector<float> weights(4), given(4, static_cast<float>(gradient));
  px::Variable<px::Dense, O> layer{session, "layer", px::bind(weights), settings};
  std::string said = "taken";
  try {
    if (!session.step(px::clip_by_global_norm(bound, px::grad(layer, given)))) said = "skipped";
  } catch (px::Error const& error) {
    said = error.detail();
  }
  std::printf("%s: %s\n", what, said.c_str());
  session.finish();
}

}  // namespace

int TRAININGS() {
  train(px::Adagrad{});
  train(px::RowwiseAdagrad{});
  train(px::Adam{});
  train(px::Ftrl{.l1 = 0.01});
  train(px::Lamb{});
  step("a gradient", 1);
  step("no number", not_one);
  step("an infinite one", infinite);
  step("one that is skipped", not_one, px::Sgd{}, 1, px::NonFinite::skip_step);
  step("a rate that is no number", 1, px::Sgd{.learning_rate = not_one});
  step("an infinite rate", 1, px::Ftrl{.learning_rate = infinite});
  step("a rate of Ftrl that is no number", 1, px::Ftrl{.learning_rate = not_one});
  step("a bound that is no number", 1, px::Sgd{}, not_one);
  step("an infinite bound", 1, px::Sgd{}, infinite);
  return 0;
}
