// Exceptions at every place where the user's code runs: every rank is told the root cause and whose it is, and run_threads
// rethrows it.
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../support/size.hpp"
#include "desk.hpp"

namespace parallax_test::trust_throws {
namespace {

using namespace std::chrono_literals;
using Threads = px::ThreadCommunicator;
using Hostile = HostileCommunicator<Threads>;
using Desk = parallax_test::Desk<Hostile>;

struct Own : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string const reason = "the disk is full";
std::string const not_standard = "an exception that is no std::exception";

// A partitioner whose layout throws where it is told to.
struct Picky {
  using axis = px::partitioner_axis;
  static constexpr std::string_view name = "Picky";
  std::int64_t pieces = 0;
  px::Cyclic::Layout layout(std::int64_t rows, int owners) const {
    if (pieces == 13) throw Own{reason};
    return px::Cyclic{.pieces = pieces}.layout(rows, owners);
  }
};

// Throws when it goes out of scope, unless another exception is on its way.
struct ThrowsAtTheEnd {
  bool bad;
  int exceptions = std::uncaught_exceptions();
  ~ThrowsAtTheEnd() noexcept(false) {
    if (bad && std::uncaught_exceptions() == exceptions) throw Own{reason};
  }
};

// A transform that throws when it is copied for the first time.
struct ThrowsOnCopy {
  bool bad;
  explicit ThrowsOnCopy(bool given) : bad{given} {}
  ThrowsOnCopy(ThrowsOnCopy&&) = default;
  ThrowsOnCopy(ThrowsOnCopy const& other) : bad{other.bad} {
    if (bad) throw Own{reason};
  }
  void operator()(px::DenseGradient<float>) const {}
};

// A range of updates whose second element cannot be had.
struct ThrowsOnTheWay {
  std::vector<px::DenseUpdate<px::Variable<px::Dense>::State>> updates;
  bool bad;
  struct iterator {
    using value_type = px::DenseUpdate<px::Variable<px::Dense>::State>;
    using difference_type = std::ptrdiff_t;
    value_type const* at = nullptr;
    bool bad = false;
    value_type const& operator*() const {
      if (bad) throw Own{reason};
      return *at;
    }
    iterator& operator++() { return ++at, *this; }
    iterator operator++(int) { return {at++, bad}; }
    friend bool operator==(iterator const& a, iterator const& b) { return a.at == b.at; }
  };
  iterator begin() const { return {updates.data(), bad}; }
  iterator end() const { return {updates.data() + updates.size(), bad}; }
};

void in_a_worker(bool bad) {
  std::async(std::launch::async, [bad] {
    if (bad) throw Own{reason};
  }).get();
}
void in_a_thread(bool bad) {
  std::exception_ptr error;
  std::thread{[&] {
    try {
      if (bad) throw Own{reason};
    } catch (...) {
      error = std::current_exception();
    }
  }}.join();
  if (error) std::rethrow_exception(error);
}

// Where something is thrown. A hook in the loop leaves it: the session ends on all ranks. One that the library calls is
// refused by all ranks, and the session goes on unless the user lets the error leave.
struct Hook {
  std::string name;
  px::Errc code;
  std::string detail;
  bool refused;  // by all ranks, as an Error that they agreed on
  void (*run)(Desk& d, bool bad);
};

std::vector<Hook> const hooks{
    {"before a pull", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       if (bad) throw Own{reason};
       auto const rows = d.session.pull(d.words, d.ids);
     }},
    {"before a step, with the rows of a pull", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       auto const rows = d.session.pull(d.words, d.ids);
       if (bad) throw Own{reason};
       d.session.step(px::grad(rows, d.row_gradients));
     }},
    {"with updates in flight", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       d.session.start(d.layer_update(), d.words_update());
       d.session.poll();
       if (bad) throw Own{reason};
       d.session.step(d.other_update());
     }},
    {"throw 42", px::Errc::user_exception, not_standard, false,
     [](Desk& d, bool bad) {
       d.step();
       if (bad) throw 42;
       d.session.broadcast(d.layer);
     }},
    {"bad_alloc of the user", px::Errc::out_of_memory, "an allocation failed", false,
     [](Desk& d, bool bad) {
       if (bad) throw std::bad_alloc{};
       d.step();
     }},
    {"an Error of the user", px::Errc::invalid_argument, reason, false,
     [](Desk& d, bool bad) {
       if (bad) throw px::Error{px::Errc::invalid_argument, d.session.rank(), "loading", "data", reason};
       d.step();
     }},
    {"a destructor in the loop", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       {
         ThrowsAtTheEnd const guard{bad};
         d.step();
       }
       d.step();
     }},
    {"a handler that throws another", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       try {
         if (bad) throw 1;
       } catch (int) {
         throw Own{reason};
       }
       d.step();
     }},
    {"a worker's exception, by future", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       in_a_worker(bad);
       d.step();
     }},
    {"a worker's exception, by exception_ptr", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       d.session.start(d.layer_update());
       in_a_thread(bad);
       d.step();
     }},
    {"memory of a shard", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       std::vector<float> memory;
       px::Variable<px::Sparse> lent{d.session, "lent", px::bind_shard(9, 2, [&](std::int64_t rows) {
         if (bad) throw Own{reason};
         memory.resize(static_cast<std::size_t>(rows) * 2);
         return memory.data();
       })};
       d.step();
     }},
    {"layout of a partitioner", px::Errc::user_exception, reason, false,
     [](Desk& d, bool bad) {
       px::Variable<px::Sparse, Picky> table{d.session, "picky", {9, 2}, Picky{.pieces = bad ? 13 : 0}};
       d.step();
     }},
    {"transform of a layer", px::Errc::user_exception, reason, true,
     [](Desk& d, bool bad) {
       d.session.step(d.words_update(), d.layer_update().transform([bad](auto) {
         if (bad) throw Own{reason};
       }));
     }},
    {"transform of a table, throw 42", px::Errc::user_exception, not_standard, true,
     [](Desk& d, bool bad) {
       d.session.step(d.layer_update(), d.words_update().transform([bad](auto) {
         if (bad) throw 42;
       }));
     }},
    {"transform of a table, bad_alloc", px::Errc::out_of_memory, "an allocation failed", true,
     [](Desk& d, bool bad) {
       d.session.step(d.copy_update().transform([bad](auto) {
         if (bad) throw std::bad_alloc{};
       }));
     }},
    {"transform of what was started", px::Errc::user_exception, reason, true,
     [](Desk& d, bool bad) {
       d.session.start(d.other_update().transform([bad](auto) {
         if (bad) throw Own{reason};
       }));
       d.step();
     }},
    {"copy of a transform", px::Errc::user_exception, reason, true,
     [](Desk& d, bool bad) {
       auto update = d.layer_update().transform(ThrowsOnCopy{false});
       update.function.bad = bad;
       d.session.step(update, d.words_update());
     }},
    {"a range of updates", px::Errc::user_exception, reason, true,
     [](Desk& d, bool bad) { d.session.step(ThrowsOnTheWay{{d.layer_update()}, bad}, d.words_update()); }},
};

struct Seen {
  Answer answer, later;
  bool unchanged = false, right_after = true;
  std::chrono::steady_clock::time_point at{};  // when it was told; of the culprit, when its exception had come out of the hook
};

// What run_threads rethrows, in words.
template <class Run>
std::string rethrown(Run&& run) {
  try {
    run();
  } catch (px::Error const& error) {
    return "Error " + error.detail();
  } catch (Own const& error) {
    return std::string{"Own "} + error.what();
  } catch (std::bad_alloc const&) {
    return "bad_alloc";
  } catch (int) {
    return "int";
  }
  return "nothing";
}

std::string expected_rethrow(Hook const& hook) {
  if (hook.refused) return "nothing";
  if (hook.code == px::Errc::out_of_memory) return "bad_alloc";
  if (hook.code == px::Errc::invalid_argument) return "Error " + reason;
  return hook.detail == reason ? "Own " + reason : "int";
}

std::string run_case(Hook const& hook, int ranks, int culprit, std::uint64_t seed, bool& hung) {
  std::vector<Seen> seen(static_cast<std::size_t>(ranks));
  std::string const left = rethrown([&] {
    px::run_threads(ranks, [&](Threads& threads) {
      bool const bad = threads.rank() == culprit;
      Seen& mine = seen[static_cast<std::size_t>(threads.rank())];
      Hostility hostility{.seed = seed};
      if (seed % 4 == 1) hostility.latest = 5;
      if (seed % 4 == 2) hostility.naps = 100;
      if (seed % 4 == 3) hostility.reversed = true, hostility.largest = 64;
      Hostile world{threads, hostility};
      Desk desk{world};
      std::uint64_t before = 0;
      auto const told = [&](px::Error const& error) {
        mine.answer = {true, error.code(), error.rank(), error.operation(), error.variable(), error.detail(), error.what()};
        mine.at = std::chrono::steady_clock::now();
      };
      try {
        for (std::uint64_t i = 0; i < seed % 3; ++i) desk.step();
        before = desk.hash();
        hook.run(desk, bad);
        desk.session.finish();
      } catch (px::Error const& error) {
        told(error);
        if (!hook.refused) throw;
        mine.unchanged = desk.hash() == before;
        float const was = desk.layer_memory[3];
        mine.later = answer_of([&] {
          desk.step();
          desk.session.finish();
        });
        mine.right_after = !mine.later.refused && desk.layer_memory[3] == was - 0.25f;
      } catch (...) {
        mine.at = std::chrono::steady_clock::now();
        mine.answer.what = "its own";
        throw;
      }
    }, {.deadline = 30s});
  });
  std::string const who = "rank " + std::to_string(culprit) + " of " + std::to_string(ranks) + ", seed " +
                          std::to_string(seed) + ": ";
  if (left != expected_rethrow(hook)) return who + "run_threads rethrew " + left;
  for (int rank = 0; rank < ranks; ++rank) {
    Seen const& each = seen[static_cast<std::size_t>(rank)];
    Answer const& a = each.answer;
    std::string const said = who + "rank " + std::to_string(rank) + " has " + a.what + " / " + each.later.what;
    hung = hung || a.code == px::Errc::timeout || each.later.code == px::Errc::timeout;
    if (rank == culprit && !hook.refused) continue;
    if (!a.refused) return "not told, " + said;
    if (a.code != hook.code || a.detail.find(hook.detail) == std::string::npos) return "another cause, " + said;
    if (a.rank != culprit) return "another rank, " + said;
    if (hook.refused && a != seen[0].answer) return "ranks are told different things, " + said;
    if (hook.refused && !each.unchanged) return "something has changed, " + said;
    if (!each.right_after) return "what follows is not right, " + said;
    if (each.at - seen[static_cast<std::size_t>(culprit)].at > 1s) return "late, " + said;
  }
  return {};
}

}  // namespace

TEST_CASE("R5 an exception anywhere is told to every rank, with its cause and its rank", "[trust][throws]") {
  Table table{"R5 injected exceptions: 2 to 8 ranks, every culprit"};
  int cases = 0;
  int const wanted = sized(400, 2000, 2000);
  for (std::uint64_t seed = 0; cases < wanted; ++seed)
    for (Hook const& hook : hooks) {
      int const ranks = 2 + static_cast<int>((seed + static_cast<std::uint64_t>(cases) / hooks.size()) % 7);
      int const culprit = static_cast<int>(std::mt19937_64{seed * 97 + static_cast<std::uint64_t>(cases)}() %
                                           static_cast<std::uint64_t>(ranks));
      bool hung = false;
      std::string const complaint = run_case(hook, ranks, culprit, seed, hung);
      table.count(hook.name, complaint, hung);
      ++cases;
    }
  table.check(wanted);
}

TEST_CASE("R5 an exception that the user handles in time is nobody else's affair", "[trust][throws]") {
  Table table{"R5 exceptions that never leave a rank's loop (wrong: somebody noticed)"};
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      auto const answers = on_ranks(ranks, [&](Threads& threads) {
        Hostile world{threads, {.seed = seed, .latest = 3}};
        Desk desk{world};
        std::mt19937_64 random{seed * 31 + static_cast<std::uint64_t>(threads.rank())};
        return answer_of([&] {
          for (int i = 0; i < 5; ++i) {
            try {
              if (random() % 2) throw 42;
            } catch (int) {
              desk.session.poll();
            }
            try {
              if (random() % 2) throw Own{reason};
              desk.step();
            } catch (Own const&) {
              desk.step();  // inside the handler, while an exception is being handled
            }
          }
          desk.session.finish();
        });
      });
      std::string complaint;
      for (Answer const& answer : answers)
        if (answer.refused) complaint = answer.what;
      table.count("handled in the loop", complaint);
    }
  table.check(80);
}

}  // namespace parallax_test::trust_throws
