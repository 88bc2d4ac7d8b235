// A job whose rank is stopped by SIGSTOP at a phase, for good, or again and again for less than the deadline:
//   stops <phase> <rank>     the job must end, naming that rank
//   stops never 0            the job must end normally, with as many steps as it prints
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../comm/hostile.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

struct Model {
  explicit Model(px::AnyCommunicator& world) : session{world} {}
  px::Session<px::AnyCommunicator> session;
  std::vector<float> memory = std::vector<float>(3000), gradient = std::vector<float>(3000, 1.0f);
  std::vector<int> ids{0, 1, 2, 3, 4, 5};
  std::vector<float> rows = std::vector<float>(12, 0.5f);
  px::Variable<px::Dense> layer{session, "layer", px::bind(memory)};
  px::Variable<px::Sparse, px::Adam> words{session, "words", {6, 2}};

  void step() {
    auto const handle = session.pull(words, ids);
    session.step(px::grad(layer, gradient), px::grad(handle, rows));
  }
};

// Continues this process some time after it was asked to.
class Waker {
 public:
  Waker() {
    if (pipe(pipe_) != 0) std::exit(1);
    pid_t const sleeper = getpid();
    child_ = fork();
    if (child_ != 0) return;
    close(pipe_[1]);
    for (char order = 0; read(pipe_[0], &order, 1) == 1;) {
      usleep(210'000);
      kill(sleeper, SIGCONT);
    }
    _exit(0);
  }
  ~Waker() {
    close(pipe_[1]);
    waitpid(child_, nullptr, 0);
  }
  void sleep() {
    if (write(pipe_[1], "x", 1) == 1) std::raise(SIGSTOP);
  }

 private:
  int pipe_[2];
  pid_t child_;
};

int never(int argc, char** argv) {
  Waker waker;  // before MPI, which need not survive a fork
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator mpi_world{MPI_COMM_WORLD, {.deadline = std::chrono::milliseconds{300}}};
  px::AnyCommunicator world{std::ref(mpi_world)};
  Model model{world};
  int const steps = 300;  // a stop of 70 % of the deadline in every tenth
  int stops = 0;
  for (int i = 0; i < steps; ++i) {
    if (i % 10 == 5 && i / 10 % world.size() == world.rank()) waker.sleep(), ++stops;
    model.step();
  }
  model.session.finish();
  std::printf("rank %d: stopped %d times in %d steps, no alarm\n", world.rank(), stops, steps);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const phase = argc > 1 ? argv[1] : "";
  int const stuck = argc > 2 ? std::atoi(argv[2]) : 0;
  if (phase == "never") return never(argc, argv);

  px::MpiEnvironment mpi{argc, argv};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  auto const stop_at = [&](char const* here) {
    if (rank == stuck && phase == here) std::raise(SIGSTOP);
  };
  stop_at("register");
  px::MpiCommunicator mpi_world{MPI_COMM_WORLD, {.deadline = std::chrono::milliseconds{300}}};
  bool armed = false;
  parallax_test::Hostility hostility;
  hostility.before = [&](int channel) {  // 0: control, 1: rows of a step, 2: dense gradients, 3: rows of a pull
    if (!armed) return;
    if (channel == 0) stop_at("agreement");
    if (channel == 1) stop_at("sparse");
    if (channel == 2) stop_at("dense");
    if (channel == 3) stop_at("pull");
  };
  px::AnyCommunicator world{parallax_test::HostileCommunicator<px::MpiCommunicator>{mpi_world, hostility}};
  Model model{world};
  model.step();
  armed = true;
  model.step();
  stop_at("finish");
  model.session.finish();
  return 0;
}
