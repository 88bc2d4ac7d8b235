// The hostile communicator is one, and through it every policy, optimizer and number of ranks gives the same bits.
#include "../comm/hostile.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "../equivalence/equality.hpp"
#include "../equivalence/every_pair.hpp"
#include "../equivalence/mixed_models.hpp"
#include "../support/size.hpp"
#include "parallax/conformance/communicator.hpp"
#include "table.hpp"

using namespace parallax_test;

namespace {

using Hostile = HostileCommunicator<px::ThreadCommunicator>;

struct Setting {
  std::string name;
  Hostility hostility;
};

std::vector<Setting> const settings{
    {"late", {.latest = 12}},
    {"reversed", {.latest = 3, .reversed = true}},
    {"pieces of 1 byte", {.largest = 1}},
    {"pieces of 7 bytes, late, reversed", {.latest = 5, .reversed = true, .largest = 7}},
    {"at most 100 bytes", {.largest = 100, .limit = 100}},
    {"naps, reversed, at most 1000 bytes", {.reversed = true, .naps = 60, .largest = 1000, .limit = 1000}},
};

// Runs `body(AnyCommunicator&)` on thread ranks behind hostile communicators.
template <class Body>
void on_hostile_ranks(int ranks, Hostility const& hostility, Body const& body) {
  px::run_threads(ranks, [&](px::ThreadCommunicator& threads) {
    px::AnyCommunicator world{Hostile{threads, hostility}};
    body(world);
  });
}

// Models of the communicators' suite: the communicator itself, or in a type-erased one.
template <bool erased>
struct HostileThreads {
  int ranks;
  Hostility hostility;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    auto const on_a_rank = [&](px::ThreadCommunicator& threads) {
      Hostile hostile{threads, hostility};
      if constexpr (erased) {
        px::AnyCommunicator world{std::ref(hostile)};
        body(world);
      } else {
        body(hostile);
      }
    };
    px::run_threads(ranks, on_a_rank, {deadline});
  }
};

// Which rank lies on which host; none: the flat topology, of one to four ranks in turn. At full size eight ranks as well, on hosts
// of their own, on equal hosts and on unequal ones.
std::vector<std::vector<int>> hosts_of_pairs() {
  std::vector<std::vector<int>> hosts{{}, {0}, {1, 0}, {0, 0, 1}, {0, 1, 1, 0}};
  if (full_size()) hosts.insert(hosts.end(), {{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 0, 1, 0, 1, 0, 1}, {0, 0, 0, 1, 1, 2, 2, 2}});
  return hosts;
}

// The big blocks of the suite would take a million pieces of a byte.
Hostility coarser(Hostility hostility) {
  hostility.largest = std::max<std::size_t>(hostility.largest, 4000);
  hostility.limit = std::max<std::size_t>(hostility.limit, 4000);
  return hostility;
}

}  // namespace

TEST_CASE("hostile communicators pass the communicators' suites", "[trust][hostile]") {
  Table table{"the communicators' suites on hostile ranks"};
  for (Setting const& setting : settings)
    for (int const ranks : {1, 2, 3, 4}) {
      std::string complaint;
      try {
        HostileThreads<false> const plain{ranks, coarser(setting.hostility)};
        HostileThreads<true> const erased{ranks, coarser(setting.hostility)};
        if (ranks % 2) parallax_conformance::check_communicator(plain, 3);
        else parallax_conformance::check_communicator(erased, 4);
        if (ranks == 3 && setting.hostility.largest == 7) parallax_conformance::check_failures(erased, 5);
        if (ranks == 4 && setting.hostility.naps > 0) parallax_conformance::check_failures(plain, 6);
      } catch (parallax_conformance::Failure const& failure) {
        complaint = std::to_string(ranks) + " ranks: " + failure.what();
      }
      table.count(setting.name, complaint);
    }
  table.check(24);
}

TEST_CASE("a block beyond the limit is an error on every rank unless it is cut", "[trust][hostile]") {
  for (std::size_t const largest : {Hostility::unlimited, std::size_t{101}, std::size_t{100}}) {
    std::vector<std::string> told(3, "nothing");
    try {
      px::run_threads(3, [&](px::ThreadCommunicator& threads) {
        Hostile world{threads, {.largest = largest, .limit = 100}};
        auto const bytes = [](int source, int target) { return source == 1 && target == 2 ? std::size_t{1017} : 8; };
        parallax_conformance::CheckedTransfer const part{world, 5, bytes};
        try {
          parallax_conformance::exchange(world, 0, part);
          parallax_conformance::exchange(world, 1, {world, 6, parallax_conformance::even(1)});
        } catch (px::Error const& error) {
          told[static_cast<std::size_t>(world.rank())] = px::to_string(error.code());
          throw;
        }
      });
    } catch (px::Error const& error) {
      CHECK_THAT(error.what(), contains("exceeds the limit of 100"));
    }
    CHECK(told == std::vector<std::string>(3, largest == 100 ? "nothing" : "transport failure"));
  }
}

TEST_CASE("every policy with every optimizer gives the right bits on hostile ranks", "[trust][hostile]") {
  Table table{"every policy with every optimizer against the oracle, on hostile ranks"};
  for (std::size_t s = 0; s < settings.size(); ++s)
    for (std::uint64_t const seed : {11u, 12u})
      for (std::vector<int> const& hosts : hosts_of_pairs()) {
        if (!full_size() && (s / 2 + seed) % 2 == 1) continue;  // one seed a setting, and 1 to 3 ranks among them
        int const flat[] = {1, 2, 3, 4};
        int const ranks = hosts.empty() ? flat[(s + seed) % 4] : static_cast<int>(hosts.size());
        PairsCase const training{ranks, hosts, seed % 2 == 0, sized(2, 3, 50)};
        Hostility hostility = settings[s].hostility;
        hostility.seed = seed;
        std::vector<PairDiaries> seen(static_cast<std::size_t>(ranks));
        std::string complaint;
        try {
          on_hostile_ranks(ranks, hostility, [&](px::AnyCommunicator& world) {
            seen[static_cast<std::size_t>(world.rank())] = train_every_pair(world, training);
          });
          INFO(settings[s].name << ", seed " << seed);
          check_every_pair(training, seen);
        } catch (px::Error const& error) {
          complaint = error.what();
        }
        table.count(settings[s].name, complaint);
      }
  table.check(full_size() ? 60 : 30);
}

TEMPLATE_LIST_TEST_CASE("trainings give the bits of undisturbed ranks on hostile ones", "[trust][hostile]", MixedModels) {
  using T = typename TestType::T;
  Table table{"trainings against undisturbed ranks and the oracle: " + TestType::name()};
  for (std::size_t s = 0; s < settings.size(); ++s)
    for (Case training : cases()) {
      if (training.ranks > 4 && !full_size()) continue;
      training.steps = sized(6, 6, 50);
      Hostility hostility = settings[s].hostility;
      hostility.seed = training.seed;
      auto const undisturbed = train_on_threads<TestType>(training);
      std::vector<Diary<T>> seen(static_cast<std::size_t>(training.ranks));
      std::string complaint;
      try {
        on_hostile_ranks(training.ranks, hostility, [&](px::AnyCommunicator& world) {
          seen[static_cast<std::size_t>(world.rank())] = train<TestType>(world, training);
        });
        for (std::size_t rank = 0; rank < seen.size(); ++rank)
          if (!same_bits(seen[rank], undisturbed[rank]))
            complaint = "rank " + std::to_string(rank) + " has other bits, " + training.text();
        Deviation const found = deviation(
            seen, oracle::train(workload_of<TestType>(training), oracle_of<TestType>(training), training.steps), training.shape);
        if (exact_norm(training) && !found.first.empty()) complaint = found.first + ", " + training.text();
      } catch (px::Error const& error) {
        complaint = error.what();
      }
      table.count(settings[s].name, complaint);
    }
  table.check(60);
}

// A failure of the transport at any call of any rank is told to all, and nothing hangs.
TEST_CASE("a call that fails ends the training of every rank with its error", "[trust][hostile]") {
  Table table{"the k-th call of the communicator fails"};
  using M = MixedModel<0>;
  Case const training{.ranks = 3, .reduce = px::Reduce::mean, .clips = true, .seed = 9, .steps = 3};
  int reached = 0;
  for (std::int64_t k = 0; k < 400; ++k) {
    int const culprit = static_cast<int>(k % 3);
    std::vector<std::string> told(3);
    std::vector<int> codes(3), blamed(3, -1);
    bool failed = false;
    try {
      px::run_threads(3, [&](px::ThreadCommunicator& threads) {
        auto const rank = static_cast<std::size_t>(threads.rank());
        Hostility hostility{.seed = static_cast<std::uint64_t>(k)};
        if (threads.rank() == culprit) hostility.fails_at = k / 3 * 2;
        px::AnyCommunicator world{Hostile{threads, hostility}};
        try {
          train<M>(world, training);
        } catch (px::Error const& error) {
          told[rank] = error.what();
          codes[rank] = static_cast<int>(error.code());
          blamed[rank] = error.rank();
          throw;
        }
      }, {.deadline = std::chrono::seconds{30}});
    } catch (px::Error const&) {
      failed = true;
    }
    if (!failed) continue;
    ++reached;
    std::string complaint;
    bool hung = false;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      hung = hung || codes[rank] == static_cast<int>(px::Errc::timeout);
      bool const finished = codes[rank] == 0;  // the last calls of a job: a rank may have ended before
      if (!finished && (codes[rank] != static_cast<int>(px::Errc::transport) || blamed[rank] != culprit))
        complaint = "call " + std::to_string(k) + ", rank " + std::to_string(rank) + ": " + told[rank];
    }
    table.count("of rank " + std::to_string(culprit) + " of 3", complaint, hung);
  }
  CHECK(reached > 100);
  table.check(100);
}

TEMPLATE_LIST_TEST_CASE("runs with random delays all end with the same bits", "[trust][hostile][delays]", MixedModels) {
  using T = typename TestType::T;
  Table table{"R17 runs with random delays: " + TestType::name()};
  std::uint64_t const runs = sized(10u, 20u, 50u);  // of each training
  for (Case training : {Case{.ranks = 3, .reduce = px::Reduce::mean, .seed = 41, .steps = 8},
                        Case{.ranks = 4, .hosts = {0, 0, 1, 1}, .reduce = px::Reduce::mean_by_count, .seed = 42, .steps = 8}}) {
    auto const wanted = oracle::train(workload_of<TestType>(training), oracle_of<TestType>(training), training.steps);
    std::vector<Diary<T>> first;
    for (std::uint64_t run = 0; run < runs; ++run) {
      Hostility const hostility{.seed = run, .latest = 10, .reversed = true, .naps = 80};
      std::vector<Diary<T>> seen(static_cast<std::size_t>(training.ranks));
      on_hostile_ranks(training.ranks, hostility, [&](px::AnyCommunicator& world) {
        seen[static_cast<std::size_t>(world.rank())] = train<TestType>(world, training);
      });
      std::string complaint = deviation(seen, wanted, training.shape).first;
      if (run == 0) first = seen;
      for (std::size_t rank = 0; rank < seen.size(); ++rank)
        if (!same_bits(seen[rank], first[rank])) complaint = "run " + std::to_string(run) + " differs from run 0";
      table.count(std::to_string(training.ranks) + " ranks", complaint);
    }
  }
  table.check(2 * static_cast<int>(runs));
}
