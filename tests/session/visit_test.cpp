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
  using element_slots = px::slots<>;
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
