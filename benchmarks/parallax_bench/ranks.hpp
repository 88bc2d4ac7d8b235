// The ranks that are measured: one, threads, or those of mpiexec; a body is run on each and what they return is gathered.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallax/comm/any.hpp"
#include "parallax/comm/collectives.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#ifdef PARALLAX_HAS_MPI
#include "parallax/comm/mpi.hpp"
#endif

#include "options.hpp"

namespace bench {

namespace px = parallax;

// What a rank finds. `vendor`, where there is MPI, gives the communicator that sums in MPI's own order; collective. `hosts` by
// rank; empty: none are declared.
struct World {
  px::AnyCommunicator& comm;
  std::function<px::AnyCommunicator&()> vendor;
  std::vector<int> const& hosts;
  px::SessionOptions options = {};

  px::Topology<px::AnyCommunicator> topology(px::AnyCommunicator& of) const {
    return hosts.empty() ? px::Topology<px::AnyCommunicator>{of} : px::Topology<px::AnyCommunicator>{of, hosts};
  }
};

// MPI for as long as it is needed. Outlives what may throw: an exception that leaves its scope would end the job.
class Environment {
 public:
  Environment([[maybe_unused]] Options const& options, [[maybe_unused]] int argc, [[maybe_unused]] char** argv) {
#ifdef PARALLAX_HAS_MPI
    if (options.comm == Comm::mpi) mpi_.emplace(argc, argv);
#endif
  }

#ifdef PARALLAX_HAS_MPI
 private:
  std::optional<px::MpiEnvironment> mpi_;
#endif
};

// A driver runs once in a process, and under MPI alike in all of them; only the one that `prints` is heard.
class Ranks {
 public:
  Ranks(Environment const&, Options const& options) : comm_{options.comm}, shared_memory_{options.shared_memory} {
    size_ = comm_ == Comm::self ? 1 : options.ranks ? options.ranks : 2;
#ifdef PARALLAX_HAS_MPI
    if (comm_ == Comm::mpi) {
      px::MpiCommunicator fixed{MPI_COMM_WORLD, {.shared_memory = shared_memory_}};
      size_ = fixed.size();
      prints_ = fixed.rank() == 0;
      oversubscribed_ = fixed.oversubscribed();
      if (options.real_hosts) hosts_ = fixed.hosts();
      fixed_ = std::make_unique<px::AnyCommunicator>(std::move(fixed));
    }
#endif
    if (comm_ != Comm::mpi)
      oversubscribed_ = px::detail::outnumber(size_, px::detail::usable_cores(px::detail::CoreSet::own()));
    if (options.hosts == 0) return;
    if (size_ % options.hosts != 0)
      throw Refusal{"--hosts " + std::to_string(options.hosts) + " does not divide " + std::to_string(size_) + " ranks"};
    for (int rank = 0; rank < size_; ++rank) hosts_.push_back(rank / (size_ / options.hosts));
  }

  int size() const { return size_; }
  bool prints() const { return prints_; }
  bool has_vendor() const { return comm_ == Comm::mpi; }
  bool oversubscribed() const { return oversubscribed_; }
  std::vector<int> const& hosts() const { return hosts_; }

  using Numbers = std::vector<double>;

  // Collective. What the body returned on every rank, by rank; equally many numbers each.
  std::vector<Numbers> run(std::function<Numbers(World const&)> const& body) {
    std::vector<Numbers> results(at(size_));
    if (comm_ == Comm::threads) {
      px::run_threads(size_, [&](px::ThreadCommunicator& own) {
        px::AnyCommunicator comm{std::ref(own)};
        results[at(comm.rank())] = body({comm, nullptr, hosts_});
      });
    } else if (comm_ == Comm::self) {
      px::AnyCommunicator comm{px::SelfCommunicator{}};
      results[0] = body({comm, nullptr, hosts_});
    } else {
      Numbers const mine = body({*fixed_, [this]() -> px::AnyCommunicator& { return vendor(); }, hosts_});
      Numbers all(mine.size() * at(size_));
      std::vector<std::size_t> const counts(at(size_), mine.size());
      px::allgatherv<double>(*fixed_, mine, all, counts);
      for (std::size_t rank = 0; rank < results.size(); ++rank)
        results[rank].assign(all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size()),
                             all.begin() + static_cast<std::ptrdiff_t>((rank + 1) * mine.size()));
    }
    return results;
  }

  // Collective. The least of what the processes say.
  double least(double value) {
    for (auto const& result : run([&](World const&) { return Numbers{value}; })) value = std::min(value, result[0]);
    return value;
  }

 private:
  // Made when it is first asked for, because every communicator costs memory on every rank.
  px::AnyCommunicator& vendor() {
#ifdef PARALLAX_HAS_MPI
    if (!vendor_) {
      px::MpiCommunicator own{MPI_COMM_WORLD, {.order = px::SumOrder::vendor, .shared_memory = shared_memory_}};
      vendor_ = std::make_unique<px::AnyCommunicator>(std::move(own));
    }
#endif
    return *vendor_;
  }

  Comm comm_;
  [[maybe_unused]] bool shared_memory_;
  int size_ = 1;
  bool prints_ = true, oversubscribed_ = false;
  std::vector<int> hosts_;
  std::unique_ptr<px::AnyCommunicator> fixed_, vendor_;
};

}  // namespace bench
