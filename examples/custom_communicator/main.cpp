// Trains a dense and a sparse variable over a communicator of one's own, on three processes, and compares with one rank.
//
//   custom_communicator                      forks three ranks that talk over 127.0.0.1
//   TCP_RANK=0 TCP_ADDRESSES=10.0.0.1:7000,10.0.0.2:7000 custom_communicator     is one rank of those that listen there
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include <parallax/parallax.hpp>

#include "tcp_communicator.hpp"

namespace px = parallax;

namespace {

constexpr int steps = 10, rows = 12, width = 4;

struct Model {
  std::vector<float> weights, table;

  bool operator==(Model const&) const = default;
};

// Trains on the batches of the ranks [first, last). Every number here is a small multiple of a power of 2, so that sums are
// exact and do not depend on who forms them: all ranks together must come to what one rank comes to on all batches.
template <class Communicator>
Model train(Communicator& world, int first, int last) {
  px::Session session{world};
  std::vector<float> weights(8, 1.0f);
  px::Variable<px::Dense> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 0.125}, px::Reduce::sum};
  px::Variable<px::Sparse> words{session, "words", {.rows = rows, .width = width, .initial = px::constant(0.5)},
                                 px::Sgd{.learning_rate = 0.25}, px::Reduce::sum};
  for (int step = 0; step < steps; ++step) {
    std::vector<int> ids;
    std::vector<float> layer_gradient(weights.size()), row_gradients;
    for (int rank = first; rank < last; ++rank) {
      for (int const id : {(step + rank) % rows, 3, 2 * rank}) {
        ids.push_back(id);
        for (int k = 0; k < width; ++k) row_gradients.push_back(float(rank + k - 1) / 16);
      }
      for (std::size_t i = 0; i < weights.size(); ++i) layer_gradient[i] += float(rank + int(i) - step) / 32;
    }
    auto const pulled = session.pull(words, ids);  // from their owners; a model would compute its gradients of them
    session.step(px::grad(layer, layer_gradient), px::grad(pulled, row_gradients));
  }
  std::vector<int> all;
  for (int row = 0; row < rows; ++row) all.push_back(row);
  auto const final_rows = session.pull(words, all);
  std::vector<float> table;
  for (std::size_t i = 0; i < all.size(); ++i) table.insert(table.end(), final_rows[i].begin(), final_rows[i].end());
  session.finish();
  return {weights, table};
}

// The life of one rank; its exit status.
int run_rank(int rank, example::Listener const& listener, std::vector<example::Address> const& addresses) try {
  std::chrono::seconds const deadline{60};
  example::TcpCommunicator world{rank, example::connect_all(rank, listener, addresses, deadline), deadline};
  Model const trained = train(world, rank, rank + 1);
  px::SelfCommunicator alone;
  bool const equal = trained == train(alone, 0, world.size());
  if (rank == 0)
    std::printf("%d ranks over TCP, %d steps: weights[0] = %g, %s as on one rank\n", world.size(), steps,
                static_cast<double>(trained.weights[0]), equal ? "the same" : "NOT the same");
  return equal ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  return 1;
}

int run_from_environment(char const* rank, char const* addresses) {
  std::vector<example::Address> all;
  std::istringstream list{addresses};
  for (std::string entry; std::getline(list, entry, ',');) {
    auto const colon = entry.find(':');
    all.push_back({entry.substr(0, colon), static_cast<std::uint16_t>(std::stoi(entry.substr(colon + 1)))});
  }
  auto const self = static_cast<std::size_t>(std::stoi(rank));
  return run_rank(static_cast<int>(self), example::Listener{all.at(self)}, all);
}

// Every rank's listener is there before the first rank is, so that none connects in vain and the system may choose the ports.
int run_forked(int size) {
  std::vector<example::Listener> listeners(static_cast<std::size_t>(size));
  std::vector<example::Address> addresses;
  for (example::Listener const& listener : listeners) addresses.push_back(listener.address());
  int failed = 0;
  for (int rank = 0; rank < size; ++rank) {
    pid_t const child = ::fork();
    if (child < 0) return std::perror("fork"), 1;
    if (child > 0) continue;
    example::Listener const own = std::move(listeners[static_cast<std::size_t>(rank)]);
    listeners.clear();  // the others' are theirs
    std::exit(run_rank(rank, own, addresses));
  }
  for (int status = 0; ::wait(&status) > 0;) failed += status != 0;
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main() try {
  char const* const rank = std::getenv("TCP_RANK");
  char const* const addresses = std::getenv("TCP_ADDRESSES");
  return rank && addresses ? run_from_environment(rank, addresses) : run_forked(3);
} catch (std::exception const& error) {
  std::fprintf(stderr, "custom_communicator: %s\n", error.what());
  return 1;
}
