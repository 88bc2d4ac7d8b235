// A way over WholeSums that forgets to open its sums is refused on every rank, by the variable's name, and can go on.
#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

struct Opened {
  bool open = true;
};

// Every rank's own gradient, without an exchange.
struct Alone {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Alone";

  template <class Kind>
  struct exchange {
    static constexpr bool sharded = false;
    template <class State>
    struct memory : Opened {
      template <class Items>
      void visit(Items&) {}
    };
    template <px::Communicator C, class Update>
    struct Legs : px::DenseWay<C, Update, px::WholeSums> {
      bool next(px::Mails<C>&) { return false; }
      void write(px::Mails<C>&) {}
      void read(px::Mails<C>&) {}
    };
    template <px::Communicator C, class Update>
    struct way : Legs<C, Update> {
      void prepare(Update const& update, px::Topology<C> const& topology, px::Preparing how, int clip) {
        Legs<C, Update>::prepare(update, topology, how, clip);
        if (this->state_->policy_state.open) std::ranges::copy(this->gradient_, this->sums_.open(this->gradient_.size()).data());
      }
    };
    static px::Prediction predict(px::TableFacts const&, px::TableUse const&, px::RankShape const&, px::Costs const&) {
      return {};
    }
  };
};

// What a step of a rank that opens nothing throws, and the weights after the next one.
struct Seen {
  std::string said;
  px::Errc code = px::Errc::user_exception;
  std::vector<float> weights = std::vector<float>(3, 1.0f);
};

Seen seen_by(px::ThreadCommunicator& world, int closed) {
  Seen seen;
  px::Session session{world};
  std::vector<float> none;
  std::vector<float> const gradient(3, 2.0f);
  px::Variable<px::Dense, Alone> layer{session, "layer", px::bind(seen.weights), px::Sgd{.learning_rate = 0.5}, px::Reduce::sum};
  px::Variable<px::Dense, Alone> empty{session, "empty", px::bind(none)};  // has nothing to be opened
  empty.state().policy_state.open = false;
  layer.state().policy_state.open = world.rank() != closed;
  try {
    session.step(px::grad(layer, gradient), px::grad(empty, none));
  } catch (px::Error const& error) {
    seen.said = error.what();
    seen.code = error.code();
  }
  layer.state().policy_state.open = true;
  session.step(px::grad(layer, gradient), px::grad(empty, none));
  session.finish();
  return seen;
}

}  // namespace

TEST_CASE("a way that opens no sums for a gradient is misuse, which names the variable", "[policy]") {
  int const ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  std::vector<Seen> seen(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    seen[static_cast<std::size_t>(world.rank())] = seen_by(world, ranks - 1);
  });
  for (Seen const& rank : seen) {
    CHECK(rank.code == px::Errc::misuse);
    CHECK_THAT(rank.said, parallax_test::contains("'layer'"));
    CHECK_THAT(rank.said, parallax_test::contains("has sums of 0 elements, not of 3: `prepare` must call sums_.open"));
    CHECK(rank.weights == std::vector<float>(3, 0.0f));
  }
}
