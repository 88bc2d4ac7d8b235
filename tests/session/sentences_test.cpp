// What a session tells who uses it in a way that it cannot go along with, word for word.
#include <atomic>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

template <class F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (px::Error const& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a pull of one table is its handle, however it is named", "[session][sentences]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, px::Sgd> table{session, "table", {4, 2, px::constant(3)}, px::Sgd{.learning_rate = 1}};
  std::vector<int> const ids{1, 2, 2}, offsets{0, 1, 3};
  auto const bags = session.pull(table.bags(ids, offsets));
  CHECK(bags[1][0] == 6);
  auto const rows = session.pull(table.at(ids));
  CHECK(rows[0][1] == 3);
  auto const [more_bags, more_rows] = session.pull(table.bags(ids, offsets), table.at(ids));
  session.step(px::grad(bags, std::vector<float>{1, 1, 2, 2}), px::grad(more_rows, std::vector<float>(6)));
  CHECK(session.pull(table, std::vector{2})[0][0] == 3 - 4);
  session.finish();
}

TEST_CASE("two sessions at once on one communicator are named as the cause", "[session][sentences]") {
  std::string text;
  std::atomic<bool> told{false};
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    if (world.rank() == 1) {  // takes no part, so that the other's update stays under way
      told.wait(false);
      return;
    }
    px::Session first{world}, second{world};
    std::vector<float> memory(3), gradient(3);
    px::Variable<px::Dense> one{first, "one", px::bind(memory)}, other{second, "other", px::bind(memory)};
    first.start(px::grad(one, gradient));
    text = text_of([&] { second.start(px::grad(other, gradient)); });
    told = true;
    told.notify_one();
  });
  CHECK(text == "parallax: misuse (rank 0) in ialltoallv: an operation is in flight on channel 4: two sessions, or two "
                "threads, use this communicator at once; each needs one of its own");
}

TEST_CASE("settings that differ are shown by their names", "[session][sentences]") {
  std::vector<std::string> texts(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> memory(3);
    px::Variable<px::Dense, px::WeightDecay<px::Sgd>> layer{session, "layer", px::bind(memory)};
    layer.optimizer().optimizer.learning_rate = world.rank() == 0 ? 0.5 : 0.25;
    texts[static_cast<std::size_t>(world.rank())] = text_of([&] { session.step(px::grad(layer, memory)); });
    session.finish();
  });
  std::string const layer = "«layer Dense float of 3 by AllReduce, WeightDecay<Sgd>, mean, update 1 by WeightDecay<Sgd>";
  CHECK(texts[0] == "parallax: mismatch between ranks (rank 1) in step of 'layer': rank 1 has " + layer +
                        "{.optimizer = {.learning_rate = 0.25}, .rate = 0}», rank 0 has " + layer +
                        "{.optimizer = {.learning_rate = 0.5}, .rate = 0}»");
  CHECK(texts[1] == texts[0]);
}

TEST_CASE("a description says why a figure is not known", "[session][sentences]") {
  std::string const of_tables = "touched, MB/step and ms/step of a table: known once it was used\n";
  std::string const of_machine =
      "ms/step: known once the machine was measured, as by session.options().choice.costs = px::calibrate(world)\n";
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> table{session, "table", {4, 2}};
  std::string const text = session.describe();
  CHECK(text.substr(text.find('\n', text.find("table ")) + 1) == of_tables + of_machine);
  auto const ids = std::vector{1};
  session.step(px::grad(table, ids, std::vector<float>(2)));
  std::string const used = session.describe();
  CHECK(used.substr(used.find('\n', used.find("table ")) + 1) == of_machine);
  session.options().choice.costs = {.round = 1e-3, .per_byte = 1e-6};
  std::string const measured = session.describe();
  CHECK(measured.substr(measured.find('\n', measured.find("table ")) + 1) == "");
  session.finish();
}
