// Ranks of which one runs at a time, and letters that are late: a seed says who goes on at every call of the communicator, how long
// each letter takes and which requests are refused, so that a schedule can be run again.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <semaphore>
#include <span>
#include <utility>
#include <vector>

#include "parallax/comm/thread.hpp"

namespace async_test {

namespace px = parallax;

// Shared by the ranks, each a thread, which hand a baton to each other: everything here is called by who has it.
class Simulation {
 public:
  Simulation(int ranks, std::uint64_t seed, int window)
      : random_{seed},
        window_{window},
        ranks_{static_cast<std::size_t>(ranks)},
        alive_(ranks_, true),
        mail_(2 * ranks_ * ranks_) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) batons_.push_back(std::make_unique<std::binary_semaphore>(0));
    most_late_ = random_() % 3 == 0 ? 1 : 1 + random_() % 40;
    batons_[random_() % ranks_]->release();
  }

  // A rank begins, and ends.
  void enter(int rank) { batons_[static_cast<std::size_t>(rank)]->acquire(); }
  void leave(int rank) {
    alive_[static_cast<std::size_t>(rank)] = false;
    for (std::size_t next = 0; next < ranks_; ++next)
      if (alive_[next]) return batons_[any_alive()]->release();
  }
  // Somebody goes on; returns when it is this rank's turn again. Time passes by it: a microsecond.
  void pass(int rank) {
    ++time_;
    auto const self = static_cast<std::size_t>(rank);
    std::size_t const next = any_alive();
    if (next == self) return;
    batons_[next]->release();
    batons_[self]->acquire();
  }
  std::chrono::nanoseconds now() const { return std::chrono::microseconds{time_}; }

  int window() const { return window_; }
  bool post(px::LetterLane lane, int from, int to, px::LetterParts parts) {
    auto& pair = letters(lane, from, to);
    bool const request = lane == px::LetterLane::requests;
    if (request && (pair.size() >= static_cast<std::size_t>(window_) || random_() % 5 == 0)) return false;
    Mail mail{time_ + static_cast<std::int64_t>(random_() % most_late_), {}};
    for (auto const part : parts) mail.bytes.insert(mail.bytes.end(), part.begin(), part.end());
    pair.push_back(std::move(mail));
    return true;
  }
  bool take(px::LetterLane lane, int from, int to, px::Letter& letter) {
    if (from < 0) {
      auto const first = static_cast<int>(random_() % ranks_);
      for (int i = 0; i < static_cast<int>(ranks_); ++i)
        if (take(lane, (first + i) % static_cast<int>(ranks_), to, letter)) return true;
      return false;
    }
    auto& pair = letters(lane, from, to);
    if (pair.empty() || pair.front().due > time_) return false;
    letter.from = from;
    letter.bytes = std::move(pair.front().bytes);
    pair.pop_front();
    return true;
  }

 private:
  struct Mail {
    std::int64_t due;
    std::vector<std::byte> bytes;
  };
  std::deque<Mail>& letters(px::LetterLane lane, int from, int to) {
    std::size_t const pair = static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to);
    return mail_[(lane == px::LetterLane::requests ? 0 : ranks_ * ranks_) + pair];
  }
  std::size_t any_alive() {
    for (;;)
      if (std::size_t const rank = random_() % ranks_; alive_[rank]) return rank;
  }

  std::mt19937_64 random_;
  int window_;
  std::size_t ranks_;
  std::uint64_t most_late_;
  std::int64_t time_ = 0;
  std::vector<bool> alive_;
  std::vector<std::unique_ptr<std::binary_semaphore>> batons_;
  std::vector<std::deque<Mail>> mail_;  // by lane and pair
};

// One rank's end: blocks go by threads, letters by the simulation.
class Simulated {
 public:
  class Request {
   public:
    Request(px::ThreadCommunicator::Request inner, Simulated& world) : inner_{std::move(inner)}, world_{&world} {}
    bool test() {
      world_->pass();
      return inner_.test();
    }
    int waiting_for() const { return inner_.waiting_for(); }

   private:
    px::ThreadCommunicator::Request inner_;
    Simulated* world_;
  };

  Simulated(px::ThreadCommunicator& own, Simulation& simulation) : own_{&own}, simulation_{&simulation} {}

  int rank() const { return own_->rank(); }
  int size() const { return own_->size(); }
  Request ialltoallv(int channel, px::Transfer const& transfer) {
    pass();
    return {own_->ialltoallv(channel, transfer), *this};
  }
  void abort(px::Error const& reason) { own_->abort(reason); }
  std::chrono::nanoseconds deadline() const { return std::chrono::seconds{2}; }  // two million turns
  std::chrono::nanoseconds now() const { return simulation_->now(); }
  void sleep(std::chrono::nanoseconds) const { simulation_->pass(rank()); }
  void check() { own_->check(); }

  bool post(px::LetterLane lane, int to, px::LetterParts parts) {
    pass();
    own_->check();
    return simulation_->post(lane, rank(), to, parts);
  }
  bool take(px::LetterLane lane, int from, px::Letter& letter) {
    pass();
    own_->check();
    return simulation_->take(lane, from, rank(), letter);
  }
  int window() const { return simulation_->window(); }
  std::size_t largest() const { return std::size_t{1} << 24; }

 private:
  void pass() const { simulation_->pass(rank()); }

  px::ThreadCommunicator* own_;
  Simulation* simulation_;
};

// Calls body(world) on each rank, in the schedule of the seed, all on one core, where the baton is handed on soonest. Throws what
// the first rank threw.
template <class Body>
void run_simulated(int ranks, std::uint64_t seed, int window, Body const& body) {
  cpu_set_t one, all;
  ::sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
  ::sched_setaffinity(0, sizeof one, &one);
  struct Restore {
    ~Restore() { ::sched_setaffinity(0, sizeof *to, to); }
    cpu_set_t const* to;
  } const restore{&all};
  Simulation simulation{ranks, seed, window};
  px::run_threads(ranks,
                  [&](px::ThreadCommunicator& own) {
                    Simulated world{own, simulation};
                    simulation.enter(own.rank());
                    struct Leaving {
                      ~Leaving() { simulation->leave(rank); }
                      Simulation* simulation;
                      int rank;
                    } const leaving{&simulation, own.rank()};
                    try {
                      body(world);
                    } catch (px::Error const& error) {
                      own.abort(error);
                      throw;
                    }
                  },
                  {.deadline = std::chrono::seconds{600}});
}

}  // namespace async_test
