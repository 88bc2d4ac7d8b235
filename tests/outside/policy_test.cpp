// A policy from outside, written from README.md and docs/ alone: of a dense gradient k elements travel, at places that all ranks
// draw alike; the rest is kept (random-k with memory: Stich, Cordonnier and Jaggi, NeurIPS 2018).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>
#include <parallax/policy/residual.hpp>
#include <parallax/variable/memory_archive.hpp>

#include "../catch.hpp"

namespace px = parallax;

namespace {

// The first k places of a permutation (Fisher and Yates) that depends on the round alone.
std::vector<std::uint32_t> drawn(std::uint64_t round, std::size_t size, std::size_t k) {
  std::vector<std::uint32_t> places(size);
  std::iota(places.begin(), places.end(), 0u);
  std::uint64_t state = round;
  for (std::size_t i = 0; i < std::min(k, size); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth, TAOCP 2, 3.3.4
    std::swap(places[i], places[i + (state >> 33) % (size - i)]);
  }
  places.resize(std::min(k, size));
  return places;
}

template <std::size_t k>
struct RandomK {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "RandomK";

  template <class Kind>
  struct exchange {
    static_assert(std::is_same_v<Kind, px::Dense>, "RandomK has no form for rows: use PsShard for a Sparse variable");
    static constexpr bool sharded = false;

    template <class State>
    struct memory {
      px::Residual<typename State::scalar_type> rest;
      std::uint64_t round = 0;
      bool taken = false;  // the round is under way

      void settled() noexcept {
        rest.settled();
        round += std::exchange(taken, false) ? 1 : 0;
      }
      void refused() noexcept {
        rest.refused();
        taken = false;
      }
      template <class Items>
      void visit(Items& items) {
        rest.visit(items);
        items.number("round", round, px::Share::own);
      }
    };

    template <px::Communicator C, class Update>
    class way : public px::DenseWay<C, Update, px::WholeSums> {
      using Base = px::DenseWay<C, Update, px::WholeSums>;
      using T = typename Base::T;
      static_assert(Base::Space::host_readable, "RandomK sums in the host's memory");

     public:
      void prepare(Update const& update, px::Topology<C> const& topology, px::Preparing how, int clip) {
        Base::prepare(update, topology, how, clip);
        auto& memory = this->state_->policy_state;
        auto const left = memory.rest.add(this->gradient_);
        memory.taken = true;
        places_ = drawn(memory.round, left.size(), k);
        values_.clear();
        for (std::uint32_t const place : places_) values_.push_back(std::exchange(left[place], T{0}));
        std::ranges::fill(this->sums_.open(left.size()), T{0});
        ranks_ = topology.size();
        arrived_ = false;
      }
      bool next(px::Mails<C>& mails) {
        if (arrived_) return false;
        slip_ = mails.of().open_shared(sizeof(T), px::Payload::dense);
        for (int rank = 0; rank < ranks_; ++rank) {
          mails.of().send(slip_, rank, values_.size() * sizeof(T));
          mails.of().expect(slip_, rank, values_.size() * sizeof(T));
        }
        return true;
      }
      void write(px::Mails<C>& mails) {
        mails.of().template write_shared<T>(slip_, [&](T* run) { std::ranges::copy(values_, run); });
      }
      void read(px::Mails<C>& mails) {
        for (int rank = 0; rank < ranks_; ++rank) {
          T const* value = mails.of().template incoming<T>(slip_, rank);
          for (std::uint32_t const place : places_) this->sums_.own().values[place] += *value++;
        }
        arrived_ = true;
      }

     private:
      std::vector<std::uint32_t> places_;
      std::vector<T> values_;
      int slip_ = -1, ranks_ = 0;
      bool arrived_ = true;
    };

    static px::Prediction predict(px::TableFacts const& elements, px::TableUse const&, px::RankShape const& shape,
                                  px::Costs const& costs) {
      double const sent = std::min(double{k}, elements.rows) * elements.row_bytes;
      px::Bill bill{costs, shape};
      bill.within_host(1, (shape.per_host - 1) * sent);
      bill.between_hosts(1, (shape.ranks() - shape.per_host) * sent);
      return bill.sum();
    }
  };
};

constexpr std::size_t size = 40, k = 4;
constexpr int steps = 20;

float gradient_of(int step, int rank, std::size_t i) {
  return 0.1f * static_cast<float>((step * 7 + rank * 5 + static_cast<int>(i) * 3) % 13 - 6);
}

struct Seen {
  std::vector<float> weights = std::vector<float>(size, 1.0f);
  std::uint64_t sent = 0;
  std::string described;
  int refused = 0;
};

// In two sessions, of which the second is given the state of the first. Every third step is first refused: a rank disagrees.
Seen trained(px::ThreadCommunicator& world) {
  Seen seen;
  px::MemoryArchive kept;
  for (int const begin : {0, steps / 2}) {
    px::Session session{world};
    std::vector<float> weights(size, 1.0f), gradient(size);
    px::Variable<px::Dense, RandomK<k>> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 0.125}};
    if (begin > 0) session.visit(kept.reader(), layer);
    for (int step = begin; step < begin + steps / 2; ++step) {
      for (std::size_t i = 0; i < size; ++i) gradient[i] = gradient_of(step, world.rank(), i);
      if (step % 3 == 0 && world.size() > 1) {
        layer.optimizer().learning_rate = world.rank();
        try {
          session.step(px::grad(layer, gradient));
        } catch (px::Error const&) {
          ++seen.refused;
        }
        layer.optimizer().learning_rate = 0.125;
      }
      session.step(px::grad(layer, gradient));
    }
    seen.sent += session.traffic().payload_sent();
    seen.described = session.describe();
    seen.weights = weights;
    session.visit(kept.writer(), layer);
    session.finish();
  }
  return seen;
}

// The same rule for all ranks in one loop, which knows no library: `places` are drawn, left and sum are kept by hand.
std::vector<float> by_hand(int ranks) {
  std::vector<float> weights(size, 1.0f);
  std::vector<std::vector<float>> left(static_cast<std::size_t>(ranks), std::vector<float>(size));
  for (int step = 0; step < steps; ++step) {
    std::vector<float> sum(size);
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      for (std::size_t i = 0; i < size; ++i) left[rank][i] += gradient_of(step, static_cast<int>(rank), i);
      for (std::uint32_t const place : drawn(static_cast<std::uint64_t>(step), size, k))
        sum[place] += std::exchange(left[rank][place], 0.0f);
    }
    for (std::size_t i = 0; i < size; ++i) weights[i] -= 0.125f * (sum[i] / static_cast<float>(ranks));
  }
  return weights;
}

}  // namespace

TEST_CASE("a policy from outside trains as one loop over all ranks does", "[outside][policy]") {
  int const ranks = GENERATE(1, 3);
  CAPTURE(ranks);
  std::vector<Seen> seen(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) { seen[static_cast<std::size_t>(world.rank())] = trained(world); });
  for (Seen const& rank : seen) {
    CHECK(rank.weights == by_hand(ranks));  // bit for bit
    CHECK(rank.refused == (ranks > 1 ? 7 : 0));
    CHECK(rank.sent == std::uint64_t{steps} * k * sizeof(float) * static_cast<std::uint64_t>(ranks - 1));
    if (ranks == 3) CHECK_THAT(rank.described, parallax_test::contains("3.2e-05"));  // predicted MB a step: k floats to two ranks
  }
}
