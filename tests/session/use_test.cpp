// What the ranks tell each other of tables under Auto: each table its own use, and of steps that were applied.
#include <chrono>
#include <limits>
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
