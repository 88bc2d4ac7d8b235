// A rank over sockets, to which a test does something: fault_target WORK RANK SIZE ADDRESS DEADLINE. WORK is `training`, `large`: blocks of
// 8 MB, or `idle`: a training of
// which ranks compute for half a deadline in each step. DEADLINE is in milliseconds. What it prints, line by line, is
// read by tests/netns/faults: `there`, `at STEP` now and then, and in the end `error CODE RANK NANOSECONDS`, of the host's steady clock,
// and what was said.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "parallax/comm/socket.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

using Clock = std::chrono::steady_clock;

void tell_step(long step) {
  static auto last = Clock::now();
  if (step != 0 && Clock::now() - last < std::chrono::milliseconds{50}) return;
  last = Clock::now();
  std::printf("at %ld\n", step);
}

void train(px::SocketCommunicator& comm, std::chrono::milliseconds compute) {
  px::Session session{comm};
  std::vector<float> weights(5000, 1.0f), gradient(weights);
  px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse, px::Sgd> words{session, "words", {.rows = 300, .width = 8}};
  std::vector<float> const rows(3 * 8, 0.5f);
  for (long step = 0;; ++step) {
    auto const pulled = session.pull(words, std::vector{1, 100, 200});
    if (step > 0) std::this_thread::sleep_for(compute);
    session.step(px::grad(layer, gradient), px::grad(pulled, rows));
    tell_step(step);
  }
}

void exchange_large(px::SocketCommunicator& comm) {
  constexpr std::size_t bytes = std::size_t{8} << 20;
  auto const size = static_cast<std::size_t>(comm.size());
  std::vector<std::byte> send(bytes, std::byte{1}), receive(bytes * size);
  std::vector<px::ByteRange> to, from;
  for (std::size_t rank = 0; rank < size; ++rank) {
    std::size_t const here = static_cast<int>(rank) == comm.rank() ? 0 : bytes;
    to.push_back({0, here});
    from.push_back({rank * bytes, here});
  }
  for (long step = 0;; ++step) {
    auto request = comm.ialltoallv(0, {send.data(), to, receive.data(), from});
    px::wait(comm, request, "exchange");
    tell_step(step);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string_view const work = argv[1];
  px::SocketOptions options{
      .rank = std::atoi(argv[2]), .size = std::atoi(argv[3]), .address = argv[4], .key = "a key of a test"};
  options.deadline = std::chrono::milliseconds{std::atoi(argv[5])};
  options.meeting_deadline = std::chrono::seconds{20};
  try {
    px::SocketCommunicator comm{options};
    std::puts("there");
    try {
      if (work == "large") exchange_large(comm);
      else train(comm, std::chrono::milliseconds{work == "idle" ? std::atoi(argv[5]) / 2 : 0});
    } catch (px::Error const& error) {
      auto const now = Clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
      std::printf("error %s|%d|%lld|%s\n", std::string{px::to_string(error.code())}.c_str(), error.rank(),
                  static_cast<long long>(now), error.what());
    }
  } catch (std::exception const& error) {
    std::printf("failed %s\n", error.what());
    return 1;
  }
}
