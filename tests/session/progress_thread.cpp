// A thread that polls for a session: what was started travels, the same bits come out, and failures reach the session.
#include "parallax/session/progress_thread.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::progress_thread {
namespace {

// Counts what is posted to other ranks, for whichever thread asks.
struct Counting {
  px::ThreadCommunicator* inner;
  std::atomic<std::size_t>* bytes;

  int rank() const { return inner->rank(); }
  int size() const { return inner->size(); }
  auto deadline() const { return inner->deadline(); }
  void abort(px::Error const& reason) { inner->abort(reason); }
  auto ialltoallv(int channel, px::Transfer const& transfer) {
    for (int rank = 0; rank < size(); ++rank)
      if (rank != this->rank()) *bytes += transfer.to[static_cast<std::size_t>(rank)].bytes;
    return inner->ialltoallv(channel, transfer);
  }
};

// Waits, without touching the session, until so many bytes are posted; for at most twenty seconds.
bool posted(std::atomic<std::size_t> const& bytes, std::size_t wanted) {
  using Clock = std::chrono::steady_clock;
  auto const deadline = Clock::now() + std::chrono::seconds{20};
  while (bytes < wanted && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::microseconds{100});
  return bytes >= wanted;
}

struct Bound : Counting {
  bool serialized() const { return false; }
};

}  // namespace

TEST_CASE("what was started travels while nobody polls, if a thread does", "[session][progress]") {
  constexpr std::size_t size = 12 * 1024;
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& threads) {
    std::atomic<std::size_t> bytes{0};
    Counting world{&threads, &bytes};
    px::Session session{world};
    std::vector<float> memory(size), gradient(size, 1.0f);
    px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
    px::ProgressThread const thread{session};
    bytes = 0;
    session.start(px::grad(hidden, gradient));
    bool const all = posted(bytes, size * sizeof(float) * 2 / 3);
    session.step();
    session.finish();
    return all;
  });
  for (bool const all : answers) CHECK(all);
}

TEST_CASE("rows that were named ahead come while nobody polls, if a thread does", "[session][progress]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    px::Session session{px::Topology{world, {0, 0, 1}}};
    px::Variable<px::Sparse> words{session, "words", {9, 2, px::uniform(-1, 1, 3)}};
    px::ProgressThread const thread{session};
    std::vector<int> const ids{1, 8, 8, 2};
    bool right = true;
    for (int step = 0; step < 20; ++step) {
      auto next = session.prefetch(words, ids);
      session.step(px::grad(words, ids, std::vector<float>(8, 0.5f)));
      std::this_thread::sleep_for(std::chrono::microseconds{200});
      auto const rows = session.pull(std::move(next)), again = session.pull(words, ids);
      for (std::size_t i = 0; i < ids.size(); ++i) right = right && rows[i][0] == again[i][0] && rows[i][1] == again[i][1];
    }
    session.finish();
    return right;
  });
  for (bool const right : answers) CHECK(right);
}

TEST_CASE("a progress thread on some ranks changes no bit", "[session][progress]") {
  auto const train = [](bool helped) {
    return on_ranks(4, [helped](px::ThreadCommunicator& world) {
      Model model{px::Topology{world, {0, 0, 1, 1}}};
      std::optional<px::ProgressThread<px::Session<px::ThreadCommunicator>>> thread;
      if (helped && world.rank() != 2) thread.emplace(model.session, std::chrono::microseconds{world.rank()});
      for (int step = 0; step < 20; ++step) model.train(5, step);
      thread.reset();
      std::uint64_t const hash = model.hash();
      model.session.finish();
      return hash;
    });
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("a failure that a progress thread meets is thrown by the next operation", "[session][progress]") {
  std::vector<Answer> answers(3);
  CHECK_THROWS(px::run_threads(3, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> memory(5), gradient(5, 1.0f);
    px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
    px::ProgressThread const thread{session};
    if (world.rank() == 1) throw std::runtime_error{"rank 1 has enough"};
    answers[static_cast<std::size_t>(world.rank())] = answer_of([&] {
      session.start(px::grad(hidden, gradient));
      session.step();
    });
    throw std::runtime_error{"as it would be without an answer"};
  }));
  for (int const rank : {0, 2}) {
    CHECK(answers[static_cast<std::size_t>(rank)].refused);
    CHECK(answers[static_cast<std::size_t>(rank)].what.find("rank 1") != std::string::npos);
  }
}

TEST_CASE("a communicator that is bound to its thread gets no progress thread", "[session][progress]") {
  px::run_threads(1, [](px::ThreadCommunicator& threads) {
    std::atomic<std::size_t> bytes{0};
    Bound world{{&threads, &bytes}};
    px::Session session{world};
    Answer const answer = answer_of([&] { px::ProgressThread const thread{session}; });
    CHECK(answer.code == px::Errc::misuse);
    CHECK(answer.operation == "ProgressThread");
    session.finish();
  });
}

}  // namespace parallax_test::progress_thread
