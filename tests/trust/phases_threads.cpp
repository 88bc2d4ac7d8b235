// Random trainings in phases, between threads or over sockets, against the model of phases.hpp.
//   trust.phases_test [--programs n] [--first seed] [--over threads|sockets]
//   trust.phases_test --seed n [--over …]      this one alone, and what happens in it as text
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "../comm/sockets.hpp"
#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "parallax/comm/thread.hpp"
#include "phases_of.hpp"

namespace parallax_test::phases {
namespace {

namespace px = parallax;

struct Order {
  bool sockets = false, tells = false;
};

// Runs body(communicator) on so many ranks.
template <class Body>
void on_ranks(Order const& order, int ranks, bool shares, Body const& body) {
  if (order.sockets)
    run_sockets(ranks,
                [&](px::SocketCommunicator& own) {
                  px::AnyCommunicator world{std::ref(own)};
                  body(world);
                },
                {.deadline = std::chrono::seconds{60}, .shared_memory = shares});
  else
    px::run_threads(ranks,
                    [&](px::ThreadCommunicator& own) {
                      px::AnyCommunicator world{std::ref(own)};
                      body(world);
                    },
                    {.deadline = std::chrono::seconds{60}});
}

// Returns nothing where a folder of checkpoints has these generations and nothing half made; else what it has. `left`: the
// ranks were left by an exception. Files that a save was about to remove may be there still.
std::string wrong_in(std::string const& folder, std::set<std::int64_t> const& right, bool left) {
  std::set<std::string> is, expected;
  for (auto const& entry : std::filesystem::directory_iterator{folder})
    if (std::string name = entry.path().filename().string();
        name.starts_with("generation-") && !(left && name.ends_with(".part")))
      is.insert(std::move(name));
  for (std::int64_t const number : right) {
    char name[32];
    std::snprintf(name, sizeof name, "generation-%06d", static_cast<int>(number));
    expected.insert(name);
  }
  if (is == expected) return {};
  std::string text = "the folder has";
  for (auto const& name : is) text += " " + name;
  return text + "; expected" + [&] {
    std::string names;
    for (auto const& name : expected) names += " " + name;
    return names;
  }();
}

// Returns nothing, or what was wrong.
std::string run(std::uint64_t seed, Order const& order, std::string const& folder, long& phases) {
  int const most = order.sockets ? 3 : 5;
  Walk walk{seed, most, folder, order.tells};
  for (int phase = 1; phase <= walk.phases(); ++phase) {
    World const world = walk.enter_phase();
    ++phases;
    std::mutex mutex;
    std::string complaint, aborted;
    bool left = false;
    try {
      on_ranks(order, world.ranks, seed % 2 == 0, [&](px::AnyCommunicator& communicator) {
        Walk own = walk;
        try {
          own.run(&*doer_of(communicator, world));
        } catch (Leaves const&) {
          std::lock_guard const lock{mutex};
          left = true;
          throw;
        } catch (std::exception const& error) {
          auto const* const known = dynamic_cast<px::Error const*>(&error);
          std::lock_guard const lock{mutex};
          bool const told = known && (known->code() == px::Errc::aborted || known->code() == px::Errc::user_exception);
          std::string& into = told ? aborted : complaint;  // nothing of a program throws by itself
          if (into.empty()) into = "rank " + std::to_string(communicator.rank()) + ": " + error.what();
          throw;
        }
      });
    } catch (Leaves const&) {
    } catch (std::exception const& error) {  // ranks that are on their way out may be told first of one that has left
      if (complaint.empty() && !left) complaint = aborted.empty() ? error.what() : aborted;
    }
    if (!complaint.empty()) return "phase " + std::to_string(phase) + ", " + complaint;
    bool const tells = walk.tells(false);
    walk.run(nullptr);
    walk.tells(tells);
    if (std::string const wrong = wrong_in(folder, walk.generations(), left); !wrong.empty())
      return "after phase " + std::to_string(phase) + ", " + wrong;
  }
  return {};
}

}  // namespace
}  // namespace parallax_test::phases

int main(int argc, char** argv) {
  using namespace parallax_test::phases;
  std::uint64_t first = 1, programs = parallax_test::sized(20u, 500u, 20'000u);
  Order order;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string const option = argv[i], value = argv[i + 1];
    if (option == "--programs") programs = std::strtoull(value.c_str(), nullptr, 10);
    else if (option == "--first") first = std::strtoull(value.c_str(), nullptr, 10);
    else if (option == "--over") order.sockets = value == "sockets";
    else if (option == "--seed") first = std::strtoull(value.c_str(), nullptr, 10), programs = 1, order.tells = true;
  }
  parallax_test::Scratch const scratch;
  long failures = 0, phases = 0;
  auto const begin = std::chrono::steady_clock::now();
  std::uint64_t seed = first;
  for (; seed < first + programs && failures < 5; ++seed) {
    std::string const folder = scratch.path(std::to_string(seed));
    std::string const complaint = run(seed, order, folder, phases);
    std::filesystem::remove_all(folder);
    if ((seed - first + 1) % 500 == 0)
      std::printf("%llu programs\n", static_cast<unsigned long long>(seed - first + 1)), std::fflush(stdout);
    if (complaint.empty()) continue;
    ++failures;
    std::printf("FAILED, replay: --seed %llu%s\n  %s\n", static_cast<unsigned long long>(seed),
                order.sockets ? " --over sockets" : "", complaint.c_str());
    std::fflush(stdout);
  }
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("seeds %llu to %llu over %s: %llu programs of %ld phases in %.1f s, %ld failed\n",
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(seed - 1),
              order.sockets ? "sockets" : "threads", static_cast<unsigned long long>(seed - first), phases, seconds, failures);
  return failures > 0;
}
