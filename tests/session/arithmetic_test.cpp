// A rank that computes otherwise is found out by every operation that agrees: another rounding mode, subnormal numbers flushed
// to zero. Nothing has changed then, and the session goes on once the modes are alike.
#include <cfenv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "../catch.hpp"
#include "parallax/async/async_session.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

using World = px::ThreadCommunicator;

// While it lives, the calling thread computes in another mode.
class OtherMode {
 public:
  explicit OtherMode([[maybe_unused]] bool flushes) {
#if defined(__x86_64__)
    word_ = _mm_getcsr();
    if (flushes) _mm_setcsr(word_ | 0x8040u);
    else std::fesetround(FE_UPWARD);
#else
    std::fesetround(FE_UPWARD);
#endif
  }
  ~OtherMode() {
    std::fesetround(FE_TONEAREST);
#if defined(__x86_64__)
    _mm_setcsr(word_);
#endif
  }

 private:
  unsigned word_ = 0;
};

// Returns what a rank is told of a call.
std::string told(std::function<void()> const& call) {
  try {
    call();
  } catch (px::Error const& error) {
    return std::string{px::to_string(error.code())} + " of rank " + std::to_string(error.rank()) + ": " + error.detail();
  }
  return "nothing";
}

struct Model {
  explicit Model(px::Session<World>& in) : session{in} {}
  px::Session<World>& session;
  std::vector<float> weights = std::vector<float>(5, 1.0f), gradient = std::vector<float>(5, 1e-40f);
  std::vector<int> ids{1, 2};
  std::vector<float> rows = std::vector<float>(4, 0.5f);
  px::Variable<px::Dense> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse> table{session, "table", {.rows = 3, .width = 2}};
};

}  // namespace

TEST_CASE("a rank in another floating-point mode is named by every operation that agrees", "[session][arithmetic]") {
  using Call = std::function<void(Model&)>;
  std::vector<std::pair<std::string, Call>> const calls{
      {"step", [](Model& m) { m.session.step(px::grad(m.layer, m.gradient), px::grad(m.table, m.ids, m.rows)); }},
      {"pull", [](Model& m) { static_cast<void>(m.session.pull(m.table, m.ids)); }},
      {"started",
       [](Model& m) {
         m.session.start(px::grad(m.layer, m.gradient));
         m.session.step();
       }},
      {"broadcast", [](Model& m) { m.session.broadcast(m.layer); }},
      {"assign", [](Model& m) { m.session.assign(m.table, m.ids, m.rows); }},
      {"finish", [](Model& m) { m.session.finish(); }},
  };
  for (bool const flushes : {false, true})
    for (auto const& [name, call] : calls) {
      INFO(name << (flushes ? ", flushed" : ", rounded up"));
      std::vector<std::string> words(3), after(3);
      std::vector<std::vector<float>> weights(3);
      px::run_threads(3, [&, &call = call](World& world) {
        auto const rank = static_cast<std::size_t>(world.rank());
        px::Session session{world};
        Model model{session};
        {
          std::optional<OtherMode> other;
          if (rank == 1) other.emplace(flushes);
          words[rank] = told([&] { call(model); });
        }
        weights[rank] = model.weights;
        after[rank] = told([&] {
          call(model);
          session.finish();
        });
      });
      for (std::size_t rank = 0; rank < 3; ++rank) {
        INFO(words[rank]);
        CHECK(words[rank] == words[0]);
        CHECK(words[rank].starts_with("mismatch between ranks of rank 1: rank 1 has «arithmetic rounds "));
        CHECK(words[rank].find("rank 0 and 1 more have «arithmetic rounds to nearest, keeps subnormal numbers»") !=
              std::string::npos);
#if defined(__x86_64__)
        CHECK(words[rank].find(flushes ? "to nearest, flushes subnormal numbers to zero (control bits 0x8040)"
                                       : "up, keeps subnormal numbers (control bits 0x4000)") != std::string::npos);
#endif
        CHECK(after[rank] == "nothing");
        CHECK(weights[rank] == std::vector<float>(5, 1.0f));
      }
    }
}

TEST_CASE("so is one that begins to train without rounds, or comes together", "[session][arithmetic]") {
  for (bool const training : {true, false}) {
    std::vector<std::string> words(2);
    px::run_threads(2, [&](World& world) {
      auto const rank = static_cast<std::size_t>(world.rank());
      px::AsyncSession session{world, px::Ssp{1}};
      std::vector<float> weights(5);
      px::Variable<px::Dense, px::PsShard> layer{session, "layer", px::bind(weights)};
      {
        std::optional<OtherMode> other;
        if (rank == 1) other.emplace(false);
        words[rank] = told([&] {
          if (training) session.train([](auto&) {});
          else session.together([](auto&) {});
        });
      }
      session.finish();
    });
    for (auto const& each : words)
      CHECK(each.starts_with("mismatch between ranks of rank 1: rank 1 has «arithmetic rounds up"));
  }
}

TEST_CASE("ranks that all compute in one other mode go on", "[session][arithmetic]") {
  std::vector<std::string> words(2);
  px::run_threads(2, [&](World& world) {
    OtherMode const other{true};
    px::Session session{world};
    Model model{session};
    words[static_cast<std::size_t>(world.rank())] = told([&] {
      session.step(px::grad(model.layer, model.gradient));
      session.finish();
    });
  });
  for (auto const& each : words) CHECK(each == "nothing");
}
