// A small model with a variable of every policy, its training step, and what a rank saw when an operation was refused.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test {

namespace px = parallax;

inline constexpr px::ThreadOptions patient{.deadline = std::chrono::seconds{30}};  // no test of refusals may come near it

// What an operation ended with on one rank.
struct Answer {
  bool refused = false;
  px::Errc code{};
  int rank = -2;
  std::string operation, variable, detail, what;

  friend bool operator==(Answer const&, Answer const&) = default;
};

template <class F>
Answer answer_of(F&& f) {
  try {
    f();
    return {};
  } catch (px::Error const& error) {
    return {true, error.code(), error.rank(), error.operation(), error.variable(), error.detail(), error.what()};
  }
}

// The gradients of one step on one rank: a function of (seed, rank, step).
class Batch {
 public:
  Batch(std::uint64_t seed, int rank, int step)
      : random_{seed * 1'000'003 + static_cast<std::uint64_t>(step) * 131 + static_cast<std::uint64_t>(rank)} {}

  template <class Id>
  std::vector<Id> ids(std::int64_t rows) {
    std::vector<Id> result(random_() % 4 == 0 ? 0 : random_() % 12);
    for (Id& id : result) id = static_cast<Id>(random_() % static_cast<std::uint64_t>(rows));
    return result;
  }
  template <class T>
  std::vector<T> values(std::size_t size) {
    std::vector<T> result(size);
    for (T& value : result) value = static_cast<T>(static_cast<double>(random_() % 2001) / 1000.0 - 1.0);
    return result;
  }

 private:
  std::mt19937_64 random_;
};

template <px::Communicator C>
struct Model {
  explicit Model(px::Topology<C> topology) : session{std::move(topology)} {
    session.broadcast(hidden);
    session.broadcast(bias);
  }

  px::Session<C> session;
  std::vector<float> hidden_memory = std::vector<float>(37, 0.5f);
  std::vector<double> bias_memory = std::vector<double>(11, -0.25);
  px::Variable<px::Dense, px::Adagrad> hidden{session, "hidden", px::bind(hidden_memory)};
  px::Variable<px::Dense, px::PsShard, px::Adam, double> bias{session, "bias", px::bind(bias_memory)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {23, 3, px::uniform(-1, 1, 5)}};
  px::Variable<px::Sparse, px::Adam, double, px::Index<std::int32_t>> exact{session, "exact", {17, 2, px::normal(0.1)}};
  px::Variable<px::Sparse, px::AllGather, px::LazyAdam> copy{session, "copy", {13, 2, px::constant(0.5)}};
  px::Variable<px::Sparse, px::AllReduce, px::Sgd, double> whole{session, "whole", {9, 2}, px::Reduce::mean_by_count};
  px::Variable<px::Sparse, baseline::NaivePs, px::Sgd> naive{session, "naive", {8, 1}, px::Reduce::sum};
  px::PulledRows<typename decltype(words)::State> stepped{};  // the handle of the last step

  int rank() const { return session.rank(); }

  // One valid step; `with_start` false where `bias` was started already.
  void train(std::uint64_t seed, int step, bool with_start = true) {
    Batch batch{seed, rank(), step};
    auto const word_ids = batch.ids<std::int64_t>(23);
    auto const exact_ids = batch.ids<std::int32_t>(17);
    auto const copy_ids = batch.ids<std::int64_t>(13);
    auto const whole_ids = batch.ids<std::uint16_t>(9);
    auto const naive_ids = batch.ids<int>(8);
    if (with_start) start_bias(seed, step);
    auto [w, e, c] = session.pull(words.at(word_ids), exact.at(exact_ids), copy.at(copy_ids));
    auto const word_rows = batch.values<float>(word_ids.size() * 3);
    auto const exact_rows = batch.values<double>(exact_ids.size() * 2);
    auto const copy_rows = batch.values<float>(copy_ids.size() * 2);
    auto const whole_rows = batch.values<double>(whole_ids.size() * 2);
    auto const naive_rows = batch.values<float>(naive_ids.size());
    auto const hidden_gradient = batch.values<float>(37);
    session.poll();
    session.step(px::clip_by_global_norm(0.5, px::grad(hidden, hidden_gradient), px::grad(w, word_rows)),
                 px::grad(e, exact_rows), px::grad(c, copy_rows), px::grad(whole, whole_ids, whole_rows),
                 px::grad(naive, naive_ids, naive_rows));
    stepped = std::move(w);
  }
  void start_bias(std::uint64_t seed, int step) {
    Batch batch{seed + 77, rank(), step};
    session.start(px::grad(bias, batch.template values<double>(11)));
  }

  // Every bit of this rank's parameters and optimizer state, and the numbers of steps.
  std::uint64_t hash() {
    px::Fingerprint all;
    auto const bits = [&](auto values) {
      auto const bytes = std::as_bytes(std::span{values});
      all.add(std::string_view{reinterpret_cast<char const*>(bytes.data()), bytes.size()});
    };
    auto const rows = [&](auto& variable) {
      auto const local = variable.local();
      bits(std::span{local.data, static_cast<std::size_t>(local.rows * local.width)});
    };
    bits(std::span{hidden_memory});
    bits(std::span{bias_memory});
    rows(words), rows(exact), rows(copy), rows(whole), rows(naive);
    bits(hidden.state().optimizer_state().template span<0>());
    bits(bias.state().optimizer_state().template span<0>());
    bits(bias.state().optimizer_state().template span<1>());
    bits(words.state().optimizer_state().template span<0>());
    bits(exact.state().optimizer_state().template span<0>());
    bits(exact.state().optimizer_state().template span<1>());
    bits(copy.state().optimizer_state().template span<0>());
    bits(copy.state().optimizer_state().template span<1>());
    for (std::int64_t const steps : {hidden.steps(), bias.steps(), words.steps(), exact.steps(), copy.steps(), whole.steps(),
                                     naive.steps(), session.steps()})
      all.add(static_cast<std::uint64_t>(steps));
    return all.value();
  }
};

// Where threads wait for each other outside of a communicator: an abort does not reach them here, nor what they did before.
class Meeting {
 public:
  explicit Meeting(int threads) : threads_{threads} {}
  void wait() {
    int const round = arrived_.fetch_add(1) / threads_;
    auto const give_up = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (arrived_.load() < (round + 1) * threads_) {
      if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error{"a thread did not come to the meeting"};
      std::this_thread::yield();
    }
  }

 private:
  int const threads_;
  std::atomic<int> arrived_{0};
};

// Runs `body(rank's communicator)` on thread ranks and returns what each returned.
template <class Body>
auto on_ranks(int ranks, Body&& body, px::ThreadOptions options = patient) {
  using Returned = decltype(body(std::declval<px::ThreadCommunicator&>()));
  using Result = std::conditional_t<std::is_same_v<Returned, bool>, char, Returned>;  // bits of one word are not for threads
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    results[static_cast<std::size_t>(world.rank())] = body(world);
  }, options);
  return results;
}

}  // namespace parallax_test
