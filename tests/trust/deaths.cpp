// A job one of whose ranks dies amid training, or is stopped: deaths HOW RANK STEP memory|messages. deaths.sh says how each job
// must end. No rank reaches the end of `main` by itself but where the stop was short.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::chrono::milliseconds deadline{1000};

// Who wakes this process after a stop: a child from before MPI, which need not survive a fork.
class Waker {
 public:
  Waker() {
    if (pipe(pipe_) != 0) std::exit(1);
    pid_t const sleeper = getpid();
    child_ = fork();
    if (child_ != 0) return;
    close(pipe_[1]);
    useconds_t length = 0;
    while (read(pipe_[0], &length, sizeof length) == sizeof length) {
      usleep(length);
      kill(sleeper, SIGCONT);
    }
    _exit(0);
  }
  ~Waker() {
    close(pipe_[1]);
    waitpid(child_, nullptr, 0);
  }
  void sleep(std::chrono::microseconds length) {
    auto const told = static_cast<useconds_t>(length.count());
    if (write(pipe_[1], &told, sizeof told) == sizeof told) std::raise(SIGSTOP);
  }

 private:
  int pipe_[2];
  pid_t child_;
};

struct Death {
  std::string_view how;
  Waker& waker;

  // Returns where the stop is over, and where the body is to return.
  void die() const {
    if (how == "caught" || how == "uncaught") throw std::runtime_error{"no batch left"};
    if (how == "seven") throw 7;
    if (how == "exit") std::exit(0);
    if (how == "abort") std::abort();
    if (how == "kill") std::raise(SIGKILL);
    if (how == "segv") std::raise(SIGSEGV);
    if (how == "half") waker.sleep(deadline / 2);
    if (how == "two") waker.sleep(2 * deadline);
  }
};

void train(px::MpiCommunicator& world, Death const& death, int who, int when) {
  px::Session session{world};
  std::vector<float> weights(1000, 1.0f);
  std::vector<float> const gradient(1000, 0.25f);
  px::Variable<px::Dense> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse> words{session, "words", {6, 2}};
  for (int step = 0; step < 20; ++step) {
    auto const rows = session.pull(words, std::vector{0, 5});
    if (world.rank() == who && step == when) {
      death.die();
      if (death.how == "return") return;
    }
    session.step(px::grad(rows, std::vector<float>(4, 0.5f)), px::grad(layer, gradient));
  }
  session.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  Waker waker;
  Death const death{argv[1], waker};
  int const who = std::atoi(argv[2]), when = std::atoi(argv[3]);
  auto const body = [&](px::MpiCommunicator& world) {
    try {
      train(world, death, who, when);
    } catch (std::runtime_error const& error) {  // the library's own is none
      if (death.how != "caught") throw;
      std::fprintf(stderr, "caught: %s\n", error.what());
    }
  };
  return px::run_mpi(argc, argv, body, {.deadline = deadline, .shared_memory = std::string_view{argv[4]} == "memory"});
}
