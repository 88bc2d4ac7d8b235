// A training as users have them, for what is not this machine's standard library, or not its threads: trainer FOLDER [small_stacks]
// [options of run]. Threads or processes, a thread for progress, checkpoints written behind the steps and read again, workers without
// rounds. Rank 0 prints the parameters' bits as a number. `small_stacks`: every thread has 128 KiB, as with musl, and rank 0 is one.
#include <pthread.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "parallax/async/async_session.hpp"
#include "parallax/checkpoint/checkpoints.hpp"
#include "parallax/comm/run.hpp"
#include "parallax/comm/socket.hpp"
#include "parallax/interop/npy.hpp"
#include "parallax/interop/safetensors.hpp"
#include "parallax/parallax.hpp"
#include "parallax/session/progress_thread.hpp"
#include "parallax/session/trace.hpp"

namespace px = parallax;

namespace {

// FNV-1a over the bits.
std::uint64_t number_of(std::span<float const> values, std::uint64_t number = 0xcbf29ce484222325) {
  for (float const value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    number = (number ^ bits) * 0x100000001b3;
  }
  return number;
}

// Steps until 20 of the session, of which two runs make the first 11 and the rest.
std::uint64_t train(px::AnyCommunicator& world, std::string const& folder, int last) {
  px::Session session{world};
  std::optional<px::ProgressThread<px::Session<px::AnyCommunicator>>> progress;
  std::vector<float> weights(300, 1.0f), gradient(300);
  px::Variable<px::Dense, px::Adam> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 1'000, .width = 8, .initial = px::uniform(-1, 1)}};
  px::Variable<px::Sparse, px::Auto, px::RowwiseAdagrad> chosen{session, "chosen", {.rows = 100, .width = 4}};
  px::Checkpoints every{session, folder, {.steps = 5, .on_signals = true}, layer, words, chosen};
  every.resume();
  progress.emplace(session);
  while (session.steps() < last) {
    auto const step = static_cast<int>(session.steps());
    auto const rows = session.pull(words, std::vector{step % 7, world.rank(), step % 7, 999 - step});
    std::vector<float> row_gradients(4 * 8), chosen_gradients(2 * 4, 0.01f);
    for (std::size_t k = 0; k < row_gradients.size(); ++k) row_gradients[k] = rows[k / 8][k % 8] * weights[k] - 1;
    for (std::size_t k = 0; k < gradient.size(); ++k) gradient[k] = std::sqrt(static_cast<float>(k + 1)) * weights[k] - 3;
    session.step(px::clip_by_global_norm(5.0, px::grad(layer, gradient), px::grad(rows, row_gradients)),
                 px::grad(chosen, std::vector{step, world.rank()}, chosen_gradients));
    every.step();
  }
  progress.reset();
  auto const all = session.pull(words, [] {
    std::vector<int> ids(1'000);
    for (int i = 0; i < 1'000; ++i) ids[static_cast<std::size_t>(i)] = i;
    return ids;
  }());
  std::uint64_t number = number_of(weights);
  for (std::size_t row = 0; row < 1'000; ++row) number = number_of({&all[row][0], 8}, number);
  if (session.describe().find("words") == std::string::npos) number = 0;
  session.finish();
  return number;
}

// Workers that wait for each other at every clock, so that the bits are the same each time.
std::uint64_t train_apart(px::AnyCommunicator& world) {
  px::AsyncSession session{world, px::Ssp{0}};
  std::vector<float> weights(8, 1.0f);
  px::Variable<px::Dense, px::PsShard> layer{session, "layer", px::bind(weights)};
  session.train([&](auto& worker) {
    for (int clock = 0; clock < 10; ++clock) {
      worker.pull(layer);
      std::vector<float> gradient(8, 0.5f);
      for (std::size_t k = 0; k < 8; ++k) gradient[k] *= weights[k];
      worker.push(px::grad(layer, gradient));
    }
  });
  std::uint64_t number = 0;
  session.together([&](auto&) { number = number_of(weights); });
  session.finish();
  return number;
}

int run(int argc, char** argv) {
  return px::run(argc, argv, [&](px::AnyCommunicator& world) {
    std::string const folder = argv[1];
    std::uint64_t const before = train(world, folder, 11);
    std::uint64_t const after = train(world, folder, 20);
    std::uint64_t const apart = train_apart(world);
    if (world.rank() == 0)
      std::printf("%016llx %016llx %016llx\n", static_cast<unsigned long long>(before), static_cast<unsigned long long>(after),
                  static_cast<unsigned long long>(apart));
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || std::strcmp(argv[2], "small_stacks") != 0) return run(argc, argv);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{128} << 10);
  pthread_setattr_default_np(&attributes);
  int status = 1;
  std::thread{[&] { status = run(argc, argv); }}.join();
  return status;
}
