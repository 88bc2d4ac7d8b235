// The state of a whole session, kept by an archive and given to a fresh one: training goes on to the same bits.
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "whole_state.hpp"

namespace px = parallax;
using namespace parallax_test::whole_state;

namespace parallax_test::whole_state {
extern template std::string complaint_of<3>(px::AnyCommunicator&, bool);
extern template std::string complaint_of<13>(px::AnyCommunicator&, bool);
}  // namespace parallax_test::whole_state

TEST_CASE("training that goes on with another session's state ends with the same bits", "[session][visit]") {
  px::AnyCommunicator self{px::SelfCommunicator{}};
  CHECK(complaint_of<3>(self, false) == "");
  CHECK(complaint_of<13>(self, false) == "");
  CHECK(complaint_on_threads<3>(4) == "");
  CHECK(complaint_on_threads<13>(4) == "");
}

TEST_CASE("a search for pieces goes on in another session, and changes no bit there", "[session][visit]") {
  CHECK(complaint_on_threads<3>(4, true) == "");
}

namespace {

// Rank 1 applies its updates once rank 0 has been refused.
std::atomic<bool> refused{false};
thread_local bool waits = false;
struct Waiting {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  double learning_rate = 1;
  auto at(std::int64_t) const {
    return [rate = learning_rate](auto& p, auto g) noexcept {
      for (int i = 0; waits && !refused && i < 10'000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      p -= static_cast<decltype(g)>(rate) * g;
    };
  }
};

}  // namespace

TEST_CASE("a visit while rows that were named ahead are on their way is refused", "[session][visit]") {
  std::string said;
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    waits = world.rank() == 1;
    px::Session session{world};
    px::Variable<px::Sparse, Waiting> table{session, "table", {4, 2}};
    std::vector<int> const ids{0, 1, 2, 3};
    auto next = session.prefetch(table, ids);
    session.step(px::grad(table, ids, std::vector<float>(8, 1.0f)));
    px::MemoryArchive archive;
    if (world.rank() == 0) {
      try {
        session.visit(archive.writer(), table);
      } catch (px::Error const& error) {
        said = error.code() == px::Errc::misuse ? error.what() : "another error";
      }
      refused = true;
    }
    static_cast<void>(session.pull(std::move(next)));
    session.visit(archive.writer(), table);
    session.finish();
  }, {.deadline = std::chrono::seconds{30}});
  CHECK(said == "parallax: misuse (rank 0) in visit: rows that were named ahead are on their way");
}

TEST_CASE("a visit that would miss something is refused", "[session][visit]") {
  px::SelfCommunicator self;
  px::Session session{self};
  px::Session stranger{self};
  std::vector<float> memory(4, 1.0f);
  px::Variable<px::Dense> layer{session, "layer", px::bind(memory)};
  px::Variable<px::Sparse> table{session, "table", {4, 2}};
  px::Variable<px::Dense> foreign{stranger, "foreign", px::bind(memory)};
  px::MemoryArchive archive;
  auto const said = [&](auto&... variables) -> std::string {
    std::size_t const items = archive.records().size();
    try {
      session.visit(archive.writer(), variables...);
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::misuse);
      CHECK(archive.records().size() == items);
      return error.what();
    }
    return "";
  };
  CHECK(said(layer) == "parallax: misuse (rank 0) in visit of 'table': it is not among the variables that are visited");
  CHECK(said() == "parallax: misuse (rank 0) in visit of 'layer': it is not among the variables that are visited");
  CHECK(said(layer, table, foreign) ==
        "parallax: misuse (rank 0) in visit of 'foreign': the variable belongs to another session");
  session.start(px::grad(layer, memory));
  CHECK(said(layer, table) == "parallax: misuse (rank 0) in visit of 'layer': updates were started and no step completed them");
  session.step();
  CHECK(said(layer, table) == "");
  { px::Variable<px::Sparse> passing{session, "passing", {4, 2}}; }
  CHECK(said(layer, table) == "");  // what is gone need not be named
}

TEST_CASE("a vector of variables is broadcast and visited as each of them would be", "[session][visit]") {
  using Memories = std::vector<std::vector<float>>;
  std::vector<Memories> told(3), kept(3);
  std::vector<float> of_rows(3);
  std::vector<std::string> missed(3);
  px::run_threads(3, [&](px::ThreadCommunicator& world) {
    auto const own = static_cast<std::size_t>(world.rank());
    auto const first = static_cast<float>(world.rank() + 1);
    px::MemoryArchive archive;
    auto const train = [&](bool goes_on) {
      Memories memories(4, std::vector<float>(5, goes_on ? -1.0f : first));
      px::Session session{world};
      std::vector<px::Variable<px::Dense, px::Momentum>> layers;
      for (auto& memory : memories) layers.emplace_back(session, "layer " + std::to_string(layers.size()), px::bind(memory));
      px::Variable<px::Sparse> table{session, "table", {.rows = 4, .width = 2}};
      if (goes_on) {
        session.visit(archive.reader(), layers, table);
      } else {
        auto const& all = layers;
        session.broadcast(all);
        told[own] = memories;
      }
      for (auto& layer : layers) session.start(px::grad(layer, std::vector<float>(5, 0.5f * first)));
      session.step(px::grad(table, std::vector{world.rank()}, std::vector<float>(2, first)));
      if (!goes_on) {
        session.visit(archive.writer(), layers, table);
        layers.pop_back();  // which is gone, and need not be named
        session.visit(px::MemoryArchive{}.writer(), table, layers);
        try {
          session.visit(px::MemoryArchive{}.writer(), layers);
        } catch (px::Error const& error) {
          missed[own] = error.what();
        }
      } else {
        kept[own] = memories;
        of_rows[own] = session.pull(table, std::vector{2})[0][0];
      }
      session.finish();
    };
    train(false);
    train(true);
  });
  // The formula of Momentum, by hand: the mean gradient is 1, the velocity 1 and then 1.9, at a rate of 0.01.
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(told[rank] == Memories(4, std::vector<float>(5, 1.0f)));
    CHECK(missed[rank] == "parallax: misuse (rank " + std::to_string(rank) +
                              ") in visit of 'table': it is not among the variables that are visited");
    for (auto const& memory : kept[rank])
      for (float const value : memory) CHECK(value == Approx(1 - 0.01f * (1 + 1.9f)));
    CHECK(of_rows[rank] == of_rows[0]);
  }
}
