// Three walks through the library: a step of a dense variable, a pull, and a step of the pulled rows. Writes the functions entered
// by rank 0 of two in one warm call of each to stdout, in lines of a walk's name and an address. Compiled with -finstrument-functions.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::size_t places = 1 << 14;  // more than the program has functions
std::uintptr_t entered[places];          // each address once, by its hash
thread_local bool walking = false;

}  // namespace

extern "C" {

[[gnu::no_instrument_function]] void __cyg_profile_func_enter(void* function, void*) {
  if (!walking) return;
  auto const address = reinterpret_cast<std::uintptr_t>(function);
  std::size_t place = (address >> 2) % places;
  for (std::size_t tries = 0; entered[place] && entered[place] != address; place = (place + 1) % places)
    if (++tries == places) std::abort();
  entered[place] = address;
}

[[gnu::no_instrument_function]] void __cyg_profile_func_exit(void*, void*) {}

}  // extern "C"

// Makes a call, and on rank 0 writes the functions entered meanwhile by its thread, if `log`. The other rank comes late then, so that
// rank 0 always passes its wait, too.
template <class Call>
auto walk(char const* name, bool log, int rank, Call const& call) {
  if (log && rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds{50});
  walking = log && rank == 0;
  auto result = call();
  if (!walking) return result;
  walking = false;
  for (std::uintptr_t& address : entered)
    if (address) std::printf("%s %#jx\n", name, static_cast<std::uintmax_t>(std::exchange(address, 0)));
  return result;
}

int main() {
  px::run_threads(2, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> weights(64, 1.0f), gradient(64, 0.5f), row_gradients(5 * 4, 0.5f);
    px::Variable<px::Dense, px::AllReduce, px::Adam> layer{session, "layer", px::bind(weights)};
    px::Variable<px::Sparse, px::PsShard, px::Adagrad> words{session, "words", {.rows = 100, .width = 4}};
    std::vector<int> const ids{1, 5, 7, 5, 60};
    for (int step = 0; step < 3; ++step) {
      auto const walks = [&](char const* name, auto const& call) { return walk(name, step == 2, world.rank(), call); };
      walks("dense", [&] { return session.step(px::grad(layer, gradient)); });
      auto const rows = walks("pull", [&] { return session.pull(words, ids); });
      walks("sparse", [&] { return session.step(px::grad(rows, row_gradients)); });
    }
    session.finish();
  });
}
