// What the ranks tell each other of tables under Auto: each table its own use, and of steps that were applied.
#include <chrono>
#include <cstddef>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using px::grad;

namespace {

using Table = px::Variable<px::Sparse, px::Auto>;

constexpr px::AutoOptions rests{.first_step = 1'000'000};  // nothing is chosen
std::vector<int> const few{1, 2}, some{3, 4, 5, 3};
std::vector<float> const of_few(2, 1.0f), of_some(4, 1.0f);

// Whether f ends in an error of the library's.
template <class F>
bool refused(F&& f) {
  try {
    f();
  } catch (px::Error const&) {
    return true;
  }
  return false;
}

}  // namespace

namespace {

// A list whose tables begin as replicas, of which each rank merges all rows.
struct Gathered : px::Choose<px::AllGather, px::PsShard> {
  static constexpr std::string_view name = "Gathered";
};

// The rows that a rank names in a step: to pull, and twice to push, for a step may have two updates of one table.
struct Named {
  std::vector<int> pulled, first, second;
};
Named named_by(int rank, int step) {
  std::mt19937_64 random{static_cast<std::uint64_t>(100 * step + rank)};
  auto const some_of = [&](std::uint64_t most) {
    std::vector<int> ids(random() % most);
    for (int& id : ids) id = static_cast<int>(random() % 40);
    return ids;
  };
  return {some_of(20), some_of(15), some_of(5)};
}

// Returns the means after so many steps as documented: a table's first step counts whole, each later one by a fifth.
px::TableUse counted_use(std::vector<int> const& hosts, int steps) {
  px::TableUse use;
  std::set<int> const distinct_hosts(hosts.begin(), hosts.end());
  for (int step = 0; step < steps; ++step) {
    px::TableUse now;
    auto const ranks = static_cast<double>(hosts.size());
    std::vector<std::set<int>> first_of_host(hosts.size()), second_of_host(hosts.size());
    std::set<int> first_of_all, second_of_all;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      Named const named = named_by(static_cast<int>(rank), step);
      auto const host = static_cast<std::size_t>(hosts[rank]);
      std::set<int> const pulled(named.pulled.begin(), named.pulled.end()), first(named.first.begin(), named.first.end()),
          second(named.second.begin(), named.second.end());
      now.pulled += static_cast<double>(pulled.size()) / ranks;
      now.pushed += static_cast<double>(first.size() + second.size()) / ranks;
      for (int const id : first) first_of_host[host].insert(id), first_of_all.insert(id);
      for (int const id : second) second_of_host[host].insert(id), second_of_all.insert(id);
    }
    for (std::size_t host = 0; host < hosts.size(); ++host)
      now.by_host += static_cast<double>(first_of_host[host].size() + second_of_host[host].size());
    now.by_host /= static_cast<double>(distinct_hosts.size());
    first_of_all.insert(second_of_all.begin(), second_of_all.end());
    now.by_all = static_cast<double>(first_of_all.size());
    double const weight = step == 0 ? 1 : 0.2;
    use.pushed += weight * (now.pushed - use.pushed), use.pulled += weight * (now.pulled - use.pulled);
    use.by_host += weight * (now.by_host - use.by_host), use.by_all += weight * (now.by_all - use.by_all);
  }
  return use;
}

template <class Policy>
void check_use(std::vector<int> const& hosts) {
  constexpr int steps = 6;
  std::vector<px::TableUse> seen(hosts.size());
  px::run_threads(static_cast<int>(hosts.size()), [&](px::ThreadCommunicator& world) {
    px::Session session{px::Topology{world, hosts}, {.choice = rests}};
    px::Variable<px::Sparse, Policy> table{session, "table", {40, 1}};
    for (int step = 0; step < steps; ++step) {
      Named const named = named_by(world.rank(), step);
      static_cast<void>(session.pull(table, named.pulled));
      std::vector<float> const first(named.first.size(), 1.0f), second(named.second.size(), 1.0f);
      session.step(grad(table, named.first, first), grad(table, named.second, second));
    }
    seen[static_cast<std::size_t>(world.rank())] = table.state().chooser.use();
    session.finish();
  });
  px::TableUse const counted = counted_use(hosts, steps);
  for (px::TableUse const& use : seen) {
    CHECK(use.pushed == Approx(counted.pushed));
    CHECK(use.pulled == Approx(counted.pulled));
    CHECK(use.by_host == Approx(counted.by_host));
    CHECK(use.by_all == Approx(counted.by_all));
  }
}

}  // namespace

TEST_CASE("of a table the distinct rows of ranks, hosts and all are counted", "[session][auto]") {
  auto const hosts =
      GENERATE(std::vector{0, 0, 1, 1}, std::vector{1, 0, 1, 0, 1}, std::vector{0, 0, 0, 1, 1, 2}, std::vector{0, 0, 0});
  INFO("on hosts " << Catch::Detail::stringify(hosts));
  check_use<px::Auto>(hosts);
  check_use<Gathered>(hosts);
}

TEST_CASE("a search that ends with a step of two updates leaves the use of later tables as it was told", "[session][auto]") {
  std::vector<double> pushed(2), owned(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world, {.choice = rests}};
    Table searched{session, "searched", {40, 1}}, later{session, "later", {40, 1}};
    session.search_pieces(searched, {.most = 4, .probes = 1, .steps = 1, .settling = 0});
    session.step(grad(searched, few, of_few), grad(searched, some, of_some), grad(later, some, of_some));
    auto const rank = static_cast<std::size_t>(world.rank());
    pushed[rank] = later.state().chooser.use().pushed;
    owned[rank] = later.state().chooser.use().by_all;
    session.finish();
  });
  CHECK(pushed == std::vector{3.0, 3.0});
  CHECK(owned == std::vector{3.0, 3.0});
}

TEST_CASE("rows of a step that was refused or skipped are not counted as used", "[session][auto]") {
  bool const hosts = GENERATE(false, true), skips = GENERATE(false, true);
  CAPTURE(hosts, skips);
  std::vector<std::vector<double>> seen(4);
  px::run_threads(4, [&](px::ThreadCommunicator& world) {
    px::SessionOptions const options{.non_finite = px::NonFinite::skip_step, .choice = rests};
    std::vector<int> const of_rank{0, 0, 1, 1};
    px::Topology const topology = hosts ? px::Topology{world, of_rank} : px::Topology{world};
    px::Session session{topology, options};
    Table table{session, "table", {40, 1}};
    px::Variable<px::Sparse> plain{session, "plain", {40, 1}};
    px::Variable<px::Sparse, px::AllReduce> dense{session, "dense", {40, 1}};
    int told = 0;
    for (int again = 0; again < 3; ++again) {
      if (skips) {
        std::vector<float> bad = of_some;
        if (world.rank() == 1) bad[2] = std::numeric_limits<float>::infinity();
        told += session.step(grad(table, some, of_some), grad(plain, some, bad), grad(dense, some, of_some)) ? 0 : 1;
      } else if (again == 0) {  // in the last update, before anything is sent
        std::vector<int> const bad{3, world.rank() == 2 ? 40 : 4, 5, 3};
        told +=
            refused([&] { session.step(grad(table, some, of_some), grad(dense, some, of_some), grad(plain, bad, of_some)); });
      } else {  // by the commit
        auto const transform = [&](auto) {
          if (world.rank() == 3) throw std::runtime_error{"no"};
        };
        told += refused([&] {
          session.step(grad(table, some, of_some), grad(dense, some, of_some), grad(plain, some, of_some).transform(transform));
        });
      }
    }
    session.step(grad(table, some, of_some), grad(plain, some, of_some), grad(dense, some, of_some));
    auto const use = table.state().chooser.use();
    seen[static_cast<std::size_t>(world.rank())] = {
        static_cast<double>(told), use.pushed, use.by_host, use.by_all, plain.state().seen.pushed, dense.state().seen.pushed};
    session.finish();
  });
  for (auto const& mine : seen) CHECK(mine == std::vector{3.0, 3.0, 3.0, 3.0, 3.0, 3.0});
}

TEST_CASE("a step that the commit has refused is not counted into the time of the next one", "[session][auto]") {
  constexpr double delay = 0.4;  // seconds
  std::vector<double> seconds(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world, {.choice = rests}};
    Table table{session, "table", {40, 1}};
    session.search_pieces(table, {.most = 40, .probes = 3, .steps = 1, .settling = 0});
    std::this_thread::sleep_for(std::chrono::duration<double>{delay});
    bool const told = refused([&] {
      session.step(grad(table, some, of_some).transform([&](auto) {
        if (world.rank() == 1) throw std::runtime_error{"no"};
      }));
    });
    session.step(grad(table, some, of_some));
    auto const& search = table.state().search;
    seconds[static_cast<std::size_t>(world.rank())] = told && search ? search->probes()[0].seconds : -1;
    session.finish();
  });
  for (double const taken : seconds) {
    CHECK(taken >= 0);
    CHECK(taken < delay);
  }
}
