// A job of MPI that trains apart, with one rank of which something goes wrong: apart HOW RANK STEP SERVERS. apart.sh says how each
// job must end. What goes on must have every push once.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "parallax/async/async_session.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

using Clock = std::chrono::steady_clock;
using Session = px::AsyncSession<px::MpiCommunicator>;
constexpr std::chrono::milliseconds deadline{1000};

struct Fault {
  std::string_view how;
  int who, when, servers;
};

// Ends or stops this process soon, whatever it does then: a server is in `train`.
void strike_later(Fault const& fault) {
  int const signal = fault.how == "kill" ? SIGKILL : SIGSTOP;
  std::thread{[=] {
    std::this_thread::sleep_for(std::chrono::milliseconds{20 + 3 * fault.when});
    ::kill(::getpid(), signal);
  }}.detach();
}

void post_nonsense(px::MpiCommunicator& world, px::LetterLane lane, int to) {
  std::byte const nonsense[4]{};
  std::span<std::byte const> const parts[] = {nonsense};
  world.post(lane, to, px::LetterParts{parts});
}

template <class Body>
void catching(Body&& body) {
  try {
    body();
  } catch (px::Error const& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
  }
}

// `moved`: when this rank last got on.
void train(px::MpiCommunicator& world, Fault const& fault, Clock::time_point& moved) {
  bool const mine = world.rank() == fault.who, endless = fault.how == "kill" || fault.how == "stop";
  bool const serves = world.rank() < fault.servers;
  std::optional<Session> session;
  px::AsyncOptions const options{.non_finite = px::NonFinite::error};
  if (fault.servers) session.emplace(world, px::Ssp{2}, px::Servers{fault.servers}, options);
  else session.emplace(world, px::Ssp{2}, options);
  std::vector<double> counts(1000);
  px::Sgd const count{.learning_rate = -1};
  px::Variable<px::Dense, px::PsShard, double> layer{*session, "layer", px::bind(counts), count, px::Reduce::sum};
  px::Variable<px::Sparse, double> words{
      *session, "words", {.rows = mine && fault.how == "registry" ? 7 : 6, .width = 2}, count, px::Reduce::sum};
  if (mine && endless) strike_later(fault);
  if (mine && serves && fault.how == "exception") throw std::runtime_error{"no batch left"};
  if (mine && serves && fault.how == "letter") post_nonsense(world, px::LetterLane::answers, 1);
  std::vector<double> ones(1000, 1.0);
  moved = Clock::now();
  session->train([&](auto& worker) {
    for (int step = 0; endless || step < 20; ++step) {
      bool const now = mine && step == fault.when;
      if (now && fault.how == "exception") throw std::runtime_error{"no batch left"};
      if (now && fault.how == "letter") post_nonsense(world, px::LetterLane::requests, fault.who == 0 ? 1 : 0);
      if (now && fault.how == "bad_id") catching([&] { worker.pull(words.at(std::vector{5, 6}), layer); });
      auto const rows = worker.pull(words.at(std::vector{0, 5}), layer);
      if (now && fault.how == "wrong_size")
        catching([&] { worker.push(px::grad(layer, std::vector<double>(7)), px::grad(rows, std::vector<double>(4, 1.0))); });
      if (now && fault.how == "nan") {
        ones[3] = std::numeric_limits<double>::quiet_NaN();
        catching([&] { worker.push(px::grad(layer, ones), px::grad(rows, std::vector<double>(4, 1.0))); });
        ones[3] = 1;
      }
      worker.push(px::grad(layer, ones), px::grad(rows, std::vector<double>(4, 1.0)));
      moved = Clock::now();
    }
  });
  session->together([&](px::Session<px::MpiCommunicator>& all) {
    double const pushes = 20.0 * (world.size() - fault.servers);
    auto const rows = all.pull(words, std::vector{0, 5});
    if (counts != std::vector<double>(1000, pushes) || rows[0][0] != pushes || rows[1][1] != pushes)
      throw std::logic_error{"a push was lost, or came twice"};
  });
  session->finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  Fault const fault{argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])};
  auto const body = [&](px::MpiCommunicator& world) {
    Clock::time_point moved = Clock::now();
    try {
      train(world, fault, moved);
    } catch (px::Error const&) {
      bool const serves = world.rank() < fault.servers;  // and never gets on
      if (!serves && Clock::now() - moved > 2 * deadline) std::fputs("TOO LATE: this took more than two deadlines\n", stderr);
      throw;
    }
  };
  return px::run_mpi(argc, argv, body, {.deadline = deadline});
}
