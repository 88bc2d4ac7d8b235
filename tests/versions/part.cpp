// A library with a parallax of its own, compiled once for each version: PART is the name of its table.
#include "part.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "parallax/async/async_session.hpp"
#include "parallax/comm/socket.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/detail/checkpoint/folder.hpp"
#include "parallax/detail/checkpoint/signals.hpp"
#include "parallax/parallax.hpp"
#if defined(PARALLAX_HAS_MPI)
#include "parallax/comm/mpi.hpp"
#endif

namespace px = parallax;

namespace {

// FNV-1a over the bits.
std::uint64_t number_of(std::vector<float> const& values) {
  std::uint64_t number = 0xcbf29ce484222325;
  for (float const value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    number = (number ^ bits) * 0x100000001b3;
  }
  return number;
}

// In ten steps. `within`: called before the session finishes.
std::uint64_t trained(
    px::AnyCommunicator& world, px::Sgd const& sgd, std::function<void()> const& within = [] {}) {
  px::Session session{world};
  std::vector<float> weights(300, 1.0f), gradient(300), seen;
  px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights), sgd};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 1'000, .width = 8, .initial = px::uniform(-1, 1)}};
  for (int step = 0; step < 10; ++step) {
    auto const rows = session.pull(words, std::vector{step % 7, 10 + world.rank(), step % 7});
    std::vector<float> row_gradients(3 * 8);
    for (std::size_t k = 0; k < row_gradients.size(); ++k) row_gradients[k] = rows[k / 8][k % 8] * weights[k] - 1;
    for (std::size_t k = 0; k < gradient.size(); ++k) gradient[k] = static_cast<float>(k) * weights[k] - 3;
    session.step(px::grad(layer, gradient), px::grad(rows, row_gradients));
    seen.insert(seen.end(), &rows[0][0], &rows[0][0] + 8);
  }
  within();
  session.finish();
  seen.insert(seen.end(), weights.begin(), weights.end());
  return number_of(seen);
}

std::string line_of(double deadline_s, std::uint64_t number) {
  return "parallax " PARALLAX_VERSION ", deadline " + std::to_string(deadline_s) + " s, " + std::to_string(number);
}

template <class Body>
std::string sentence_of(Body const& body) {
  try {
    return body();
  } catch (std::exception const& error) {
    return error.what();
  }
}

std::string train() {
  return sentence_of([] {
    std::string line;
    px::run_threads(2, [&](px::ThreadCommunicator& own) {
      px::AnyCommunicator world{std::ref(own)};
      std::uint64_t const number = trained(world, {});  // a default that versions have otherwise
      if (own.rank() == 0) line = line_of(std::chrono::duration<double>(own.deadline()).count(), number);
    });
    return line;
  });
}

std::string join(int rank, std::string const& address, bool apart) {
  return sentence_of([&] {
    px::SocketOptions options{.rank = rank, .size = 2, .address = address};
    if (address.empty()) options = px::socket_options_from_environment().value();
    options.deadline = std::chrono::seconds{20};
    px::SocketCommunicator own{options};
    px::AnyCommunicator world{std::ref(own)};
    if (!apart) return std::to_string(trained(world, {.learning_rate = 0.5}));
    px::AsyncSession session{world, px::Ssp{0}};
    std::vector<float> weights(8, 1.0f), gradient(8, 0.5f);
    px::Variable<px::Dense, px::PsShard> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 0.5}};
    session.train([&](auto& worker) { worker.push(px::grad(layer, gradient)); });
    session.finish();
    return std::to_string(number_of(weights));
  });
}

std::string train_by_mpi([[maybe_unused]] Part const* inside, [[maybe_unused]] std::string const& fault) {
  std::string lines;
#if defined(PARALLAX_HAS_MPI)
  px::MpiEnvironment const environment;
  px::MpiCommunicator own{MPI_COMM_WORLD};
  px::AnyCommunicator world{std::ref(own)};
  std::uint64_t const number = trained(world, {.learning_rate = 0.5}, [&] {
    if (inside) lines = inside->train_by_mpi(nullptr, fault) + "\n";
    else if (own.rank() == 1 && fault == "throws") throw std::runtime_error("rank 1 gives up");
    else if (own.rank() == 1 && fault == "exits") std::exit(0);
  });
  lines += line_of(std::chrono::duration<double>(own.deadline()).count(), number);
#endif
  return lines;
}

std::string lock(std::string const& folder) {
  static std::optional<px::detail::FolderLock> held;
  return sentence_of([&] { return held.emplace(folder), std::string{}; });
}

std::string fork_and_use() {
  px::AnyCommunicator world{px::SelfCommunicator{}};
  px::Session session{world};
  std::vector<float> weights(8, 1.0f);
  px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights)};
  int ends[2];
  if (::pipe(ends) != 0) return "there is no pipe";
  pid_t const child = ::fork();
  if (child == 0) {
    std::string const said = sentence_of([&] { return session.step(px::grad(layer, weights)), std::string{"it has trained"}; });
    ::_exit(::write(ends[1], said.data(), said.size()) < 0);
  }
  char said[400] = {};
  auto const bytes = ::read(ends[0], said, sizeof said - 1);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]), ::close(ends[1]);
  session.finish();
  return bytes > 0 ? said : "nothing";
}

}  // namespace

extern "C" [[gnu::visibility("default")]] Part const PART;
Part const PART{
    .train = train,
    .join = join,
    .train_by_mpi = train_by_mpi,
    .watch = [] { return static_cast<void*>(new px::detail::SignalWatch{px::Signals{true}}); },
    .seen = [](void* watch) { return static_cast<px::detail::SignalWatch*>(watch)->seen(); },
    .unwatch = [](void* watch) { delete static_cast<px::detail::SignalWatch*>(watch); },
    .lock = lock,
    .fork_and_use = fork_and_use,
};
