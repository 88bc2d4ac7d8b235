// Programs of `run`, as they are started: front_door <what> [options of run]. CMakeLists.txt says how each start must end, and that
// of tests/mpi. It is compiled with MPI, with sockets, and with neither.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

#include "parallax/comm/run.hpp"
#include "parallax/memory/shared.hpp"
#include "parallax/parallax.hpp"
#ifdef PARALLAX_TEST_SOCKETS
#include "parallax/comm/socket.hpp"
#endif
#ifdef PARALLAX_HAS_MPI
#include "parallax/comm/mpi.hpp"  // behind run.hpp: the order does not matter
#endif

namespace px = parallax;

namespace {

#if defined(PARALLAX_HAS_MPI) || defined(PARALLAX_TEST_SOCKETS)
#define PARALLAX_TEST_TRAINS
// The end of a rank's forked child.
enum class Child { exits, throws, steps, returns };
bool forking = false;

// Forks a child of a rank, which ends so, by `end`; its exit code must be right.
void fork_one(Child child, std::function<void(Child)> const& end) {
  pid_t const process = fork();
  if (process == 0) return end(child);
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {}
  int const expected = child == Child::throws ? 1 : child == Child::steps ? 3 : 0;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
    std::printf("a child of kind %d: status %x\n", static_cast<int>(child), status);
}

// 5 steps of a dense and a sparse variable, with gradients that differ by rank and step: what all parameters are then, as a number.
// Rank 1 has batches for fewer steps, where `batches` says so. `hosts`: of each rank, or each rank is one of its own.
std::uint64_t train(px::AnyCommunicator& world, int batches = 5, std::vector<int> hosts = {}) {
  for (int rank = static_cast<int>(hosts.size()); rank < world.size(); ++rank) hosts.push_back(rank);
  px::Session session{px::Topology{world, hosts}};
  px::SharedBuffer<float> own_weights(13), own_gradient(13);
  std::span<float> const weights{own_weights.data(), 13}, gradient{own_gradient.data(), 13};
  for (float& weight : weights) weight = 1;
  px::Variable<px::Dense, px::Momentum> layer{session, "layer", px::bind(weights), px::Momentum{.learning_rate = 0.1f}};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 40, .width = 3}};
  session.broadcast(layer);
  for (int step = 0; step < 5; ++step) {
    if (step >= batches && world.rank() == 1) throw std::runtime_error{"no batch left"};
    auto const number = static_cast<float>(7 * step + 3 * world.rank() + 1);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = number / static_cast<float>(i + 3);
    auto const rows = session.pull(words, std::vector{step, 2 * step + world.rank(), 39 - step, step});
    pid_t const own = getpid();
    for (Child const child : {Child::exits, Child::throws, Child::steps, Child::returns}) {
      if (!forking || step != 2 || getpid() != own) continue;
      fork_one(child, [&](Child kind) {
        if (kind == Child::exits) std::exit(0);
        if (kind == Child::throws) throw std::runtime_error{"a reader fails"};
        if (kind == Child::returns) return;
        try {
          session.step(px::grad(layer, gradient), px::grad(rows, std::vector<float>(4 * 3, 1.0f)));
        } catch (px::Error const& error) {
          std::_Exit(error.code() == px::Errc::misuse ? 3 : 4);
        }
      });
    }
    if (getpid() != own) return 0;
    session.step(px::grad(layer, gradient), px::grad(rows, std::vector<float>(4 * 3, number / 9)));
  }
  std::vector<int> all(40);
  for (int row = 0; row < 40; ++row) all[static_cast<std::size_t>(row)] = row;
  auto const table = session.pull(words, all);
  std::vector<float> parameters{weights.begin(), weights.end()};
  parameters.insert(parameters.end(), table.values().data, table.values().data + 40 * 3);
  session.finish();
  return px::detail::checksum(parameters.data(), parameters.size() * sizeof(float));
}
#endif

// The sum of all ranks, as each of them has it.
float sum_of_ranks(px::AnyCommunicator& world) {
  std::vector<float> sum{static_cast<float>(world.rank())};
  px::allreduce(world, std::span{sum});
  return sum[0];
}

// What the program exits with.
int body(std::string_view what, px::AnyCommunicator& world) {
  if (what == "dies" && world.rank() == 1) raise(SIGKILL);  // and the others wait
  if (what == "dies") pause();
  if (what == "sum") {
    auto const ranks = static_cast<float>(world.size());
    bool const right = sum_of_ranks(world) == ranks * (ranks - 1) / 2;
    std::fprintf(stderr, "rank %d of %d: the sum is %s\n", world.rank(), world.size(), right ? "right" : "wrong");
    return right ? 0 : 1;
  } else if (what == "status") {
    return 4 + world.rank();
  } else if (what == "one_status") {
    return world.rank() == 1 ? 7 : 0;
  } else if (what == "variables") {
    auto const value = [](char const* name) { return std::getenv(name) ? std::getenv(name) : "none"; };
    std::fprintf(stderr, "rank %d: device %s, mode %s, %s there\n", world.rank(), value("CUDA_VISIBLE_DEVICES"),
                 value("PARALLAX_MODE"), value("OMP_NUM_THREADS"));
  } else if (what == "key") {
    bool const none = std::system("test -z \"${PARALLAX_JOB_KEY+there}\"") == 0;
    std::fprintf(stderr, "rank %d: the key is %s\n", world.rank(), none ? "gone" : "there");
  } else if (what == "waits") {
    for (;;) pause();
  }
#ifdef PARALLAX_TEST_TRAINS
  if (what == "throws") train(world, 3);
  if (what == "trains")
    for (long job = 0;; ++job) {
      train(world);
      if (job == 0) std::fprintf(stderr, "rank %d trains\n", world.rank());
    }
  if (what == "hash" || what == "hash_with_children") {
    pid_t const own = getpid();
    forking = what != "hash";
    std::uint64_t const hash = train(world);
    if (world.rank() == 0 && getpid() == own)
      std::printf("%d ranks: %016llx\n", world.size(), static_cast<unsigned long long>(hash));
  }
#endif
  return 0;
}

#ifdef PARALLAX_TEST_TRAINS
// The same training on two levels: on the hosts that the communicator knows, or, on threads, on one of all ranks but the last, and one
// of the last.
template <class C>
int train_by_hosts(C& world) {
  std::vector<int> hosts(static_cast<std::size_t>(world.size()));
  hosts.back() = 1;
  if constexpr (requires { world.hosts(); }) hosts = world.hosts();
  px::AnyCommunicator any{std::ref(world)};
  std::uint64_t const hash = train(any, 5, hosts);
  if (world.rank() != 0) return 0;
  std::printf("hosts of");
  for (int const host : hosts) std::printf(" %d", host);
  std::printf(": %016llx\n", static_cast<unsigned long long>(hash));
  return 0;
}
#endif

#ifdef PARALLAX_TEST_SOCKETS
// Ranks of a launcher, of which rank 0 listens before it asks the launcher for anything.
int join_listening() {
  auto const options = px::socket_options_from_environment().value();
  px::SocketCommunicator own =
      options.rank == 0 ? px::SocketCommunicator{px::SocketListener{"0.0.0.0:0"}, options} : px::SocketCommunicator{options};
  px::AnyCommunicator world{std::ref(own)};
  return body("sum", world);
}
#endif

#ifdef PARALLAX_TEST_SOCKETS
// Trains with communicator, session and variable as statics, whose destructors run where children exit.
int train_statics() {
  static std::optional<px::SocketCommunicator> world;
  static std::optional<px::Session<px::SocketCommunicator>> session;
  static std::optional<px::Variable<px::Sparse, px::Adagrad>> words;
  world.emplace(px::socket_options_from_environment().value());
  session.emplace(*world);
  words.emplace(*session, "words", px::Table{.rows = 40, .width = 3});
  for (int step = 0; step < 6; ++step) {
    auto const rows = session->pull(*words, std::vector{step, 20 + world->rank()});
    if (step == 3) fork_one(Child::exits, [](Child) { std::exit(0); });
    session->step(px::grad(rows, std::vector<float>(2 * 3, 0.5f)));
  }
  session->finish();
  return 0;
}
#endif

// Which type of communicator a body is called with, where types are named.
template <class C>
int named(C& world) {
  char const* kind = std::is_same_v<C, px::ThreadCommunicator> ? "threads" : "MPI";
  std::fprintf(stderr, "rank %d of %d: %s\n", world.rank(), world.size(), kind);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const what = argc > 1 ? argv[1] : "";
#ifdef PARALLAX_HAS_MPI
  if (what == "named")
    return px::run<px::ThreadCommunicator, px::MpiCommunicator>(argc, argv, [](auto& world) { return named(world); });
  if (what == "run_mpi") return px::run_mpi(argc, argv, [](px::MpiCommunicator& world) { return named(world); });
#endif
#if defined(PARALLAX_HAS_MPI)
  if (what == "hash_by_hosts")
    return px::run<px::ThreadCommunicator, px::MpiCommunicator>(argc, argv, [](auto& world) { return train_by_hosts(world); });
#elif defined(PARALLAX_TEST_SOCKETS)
  if (what == "listens") return join_listening();
  if (what == "statics") return train_statics();
  if (what == "hash_by_hosts")
    return px::run<px::ThreadCommunicator, px::SocketCommunicator>(argc, argv,
                                                                   [](auto& world) { return train_by_hosts(world); });
#endif
  if (what == "threads_alone")
    return px::run<px::ThreadCommunicator>(argc, argv, [](px::ThreadCommunicator& world) { return named(world); });
  return px::run(argc, argv, [&](px::AnyCommunicator& world) {
    if (argc != 2 || argv[2]) return 9;  // run has taken its own
    return body(argv[1], world);
  });
}
