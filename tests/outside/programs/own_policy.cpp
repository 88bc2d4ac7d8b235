// A policy of one's own for dense variables: every rank sends the signs of its gradient and one scale, a bit for an element where
// all-reduce sends 32, and keeps what it has not sent for the next step (EF-SignSGD, Karimireddy et al., ICML 2019). It fits a
// least-squares model with known weights; its bytes are held against AllReduce's.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>
#include <parallax/policy/residual.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>
namespace px = parallax;

// Takes scale * sign out of each element, where the scale is the mean of their magnitudes. A message: the scale, then 32 signs a word.
template <class T>
void take_signs(std::span<T> rest, std::vector<std::uint32_t>& message) {
  float scale = 0;
  for (T const x : rest) scale += static_cast<float>(std::abs(x) / static_cast<T>(rest.size()));
  message.assign(1 + (rest.size() + 31) / 32, 0);
  message[0] = std::bit_cast<std::uint32_t>(scale);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] < 0) message[1 + i / 32] |= 1u << (i % 32);
    rest[i] -= static_cast<T>(rest[i] < 0 ? -scale : scale);
  }
}
template <class T>
T sign_of(std::uint32_t const* message, std::size_t i) {
  float const scale = std::bit_cast<float>(message[0]);
  return static_cast<T>(message[1 + i / 32] >> (i % 32) & 1 ? -scale : scale);
}

struct Signs {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Signs";

  template <class Kind>
  struct exchange {  // of dense variables
    static constexpr bool sharded = false;
    template <class State>
    using memory = px::Residual<typename State::scalar_type>;

    template <px::Communicator C, class Update>
    class way : public px::DenseWay<C, Update, px::WholeSums> {
      using Base = px::DenseWay<C, Update, px::WholeSums>;
      using T = typename Base::T;

     public:
      void prepare(Update const& update, px::Topology<C> const& topology, px::Preparing how, int clip) {
        Base::prepare(update, topology, how, clip);
        this->sums_.open(this->gradient_.size());
        take_signs(std::span<T>{this->state_->policy_state.add(this->gradient_)}, message_);
        ranks_ = topology.size();
        arrived_ = false;
      }
      bool next(px::Mails<C>& mails) {  // one leg
        if (arrived_) return false;
        auto& mail = mails.of();
        slip_ = mail.open_shared(4, px::Payload::dense);  // the same message to all
        for (int rank = 0; rank < ranks_; ++rank) {
          mail.send(slip_, rank, 4 * message_.size());
          mail.expect(slip_, rank, 4 * message_.size());
        }
        return true;
      }
      void write(px::Mails<C>& mails) {
        mails.of().template write_shared<std::uint32_t>(slip_, [&](std::uint32_t* run) { std::ranges::copy(message_, run); });
      }
      void read(px::Mails<C>& mails) {  // in the order of ranks: the same bits on every rank
        auto const sums = this->sums_.own().values;
        std::ranges::fill(sums, T{});
        for (int rank = 0; rank < ranks_; ++rank) {
          auto const* const message = mails.of().template incoming<std::uint32_t>(slip_, rank);
          for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += sign_of<T>(message, i);
        }
        arrived_ = true;
      }

     private:
      std::vector<std::uint32_t> message_;
      int slip_ = -1, ranks_ = 0;
      bool arrived_ = true;
    };

    static px::Prediction predict(px::TableFacts const& elements, px::TableUse const&, px::RankShape const& shape,
                                  px::Costs const& costs) {
      double const message = 4 * (1 + std::ceil(elements.rows / 32));
      px::Bill bill{costs, shape};
      bill.within_host(1, (shape.per_host - 1) * message);
      bill.between_hosts(1, (shape.ranks() - shape.per_host) * message);
      bill.streamed(3 * elements.rows * elements.row_bytes + shape.ranks() * message +
                    2 * elements.rows * elements.state_bytes);
      return bill.sum();
    }
  };
};

constexpr std::size_t size = 100, samples = 160;
constexpr int ranks = 4, steps = 200;
float truth(std::size_t i) { return std::sin(static_cast<float>(i)); }         // the weights that are to be found
std::vector<float> gradient_of(int rank, std::vector<float> const& weights) {  // from the samples of one rank
  std::mt19937 random{static_cast<unsigned>(rank + 1)};
  std::vector<float> gradient(size), x(size);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    float error = 0;
    for (std::size_t i = 0; i < size; ++i) {
      x[i] = static_cast<float>(random() % 2001) / 1000 - 1;
      error += x[i] * (weights[i] - truth(i));
    }
    for (std::size_t i = 0; i < size; ++i) gradient[i] += error * x[i] / samples;
  }
  return gradient;
}

struct Trained {
  std::vector<float> weights;
  double bytes = 0;  // that this rank has sent in a step
  std::string description;
  double error() const {  // the squared distance from the optimum
    double sum = 0;
    for (std::size_t i = 0; i < size; ++i) sum += std::pow(weights[i] - truth(i), 2);
    return sum;
  }
};
template <class Policy>
Trained train(px::ThreadCommunicator& world) {
  px::Session session{world};
  std::vector<float> weights(size);
  px::Variable<px::Dense, Policy, px::Sgd> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 0.4}};
  for (int step = 0; step < steps; ++step) session.step(px::grad(layer, gradient_of(world.rank(), weights)));
  session.finish();
  return {weights, static_cast<double>(session.traffic().payload_sent()) / steps, session.describe()};
}

int main() {
  bool right = false;
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    Trained const signs = train<Signs>(world), whole = train<px::AllReduce>(world);
    if (world.rank() != 0) return;
    bool const bytes =
        signs.bytes == (ranks - 1) * 4 * (1 + (size + 31) / 32) && whole.bytes == 2 * 4 * size * (ranks - 1) / ranks;
    std::printf("%ssquared error: %.0e by signs, %.0e by all-reduce; bytes a step: %.0f and %.0f\n", signs.description.c_str(),
                signs.error(), whole.error(), signs.bytes, whole.bytes);
    right = bytes && signs.description.find("Signs") != std::string::npos && signs.error() < 1e-3;
  });
  return right ? 0 : 1;
}
