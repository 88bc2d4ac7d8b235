// What each policy sends between hosts as the kernel counts it, beside what the library counts: bytes flat|two_hop.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <parallax/comm/mpi.hpp>
#include <parallax/parallax.hpp>

#include "../../../benchmarks/baseline/naive_ps.hpp"

namespace {

namespace px = parallax;

constexpr int steps = 5;
constexpr double tolerance = 1.005;      // headers of messages
constexpr std::uint64_t slack = 20'000;  // per host: barriers around the steps, segments sent twice

// What this host has sent since it exists: TCP payload, which is bytes less one header of 66 bytes (Ethernet 14, IP 20,
// TCP with timestamps 32) for every packet that the kernel counts.
std::uint64_t payload_of_wire() {
  std::ifstream devices{"/proc/net/dev"};
  for (std::string line; std::getline(devices, line);) {
    std::size_t const at = line.find("eth0:");
    if (at == line.npos) continue;
    std::istringstream columns{line.substr(at + 5)};
    std::uint64_t skipped = 0, bytes = 0, packets = 0;
    for (int received = 0; received < 8; ++received) columns >> skipped;
    columns >> bytes >> packets;
    return bytes - 66 * packets;
  }
  throw std::runtime_error{"this machine has no eth0: run it across emulated hosts"};
}

std::uint64_t counted_between_hosts(px::Traffic const& traffic) {
  std::uint64_t sum = 0;
  for (auto const& sent : traffic.sent) sum += sent.between_hosts;
  return sum;
}

// Runs a policy's steps between two looks at the wire, compares for every host, and prints a line for each.
class Comparison {
 public:
  Comparison(px::MpiCommunicator& world, std::vector<int> hosts) : world_{world}, hosts_{std::move(hosts)} {}

  // Collective. `step` trains one step of `session`.
  template <class Step>
  void run(char const* policy, px::Session<px::MpiCommunicator>& session, Step const& step) {
    step();  // connections are made
    Sent const before = look(session);
    for (int i = 0; i < steps; ++i) step();
    Sent const after = look(session);
    session.finish();
    report(policy, px::allgather(world_, Sent{after.counted - before.counted, after.wire - before.wire}));
  }

  bool failed() const { return failed_; }

 private:
  struct Sent {
    std::uint64_t counted, wire;
  };

  // While no rank is in a step.
  Sent look(px::Session<px::MpiCommunicator> const& session) {
    px::barrier(world_);
    Sent const sent{counted_between_hosts(session.traffic()), payload_of_wire()};
    px::barrier(world_);
    return sent;
  }

  void report(char const* policy, std::vector<Sent> const& ranks) {
    for (int host = 0; host <= std::ranges::max(hosts_); ++host) {
      std::uint64_t counted = 0, wire = 0;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (hosts_[rank] != host) continue;
        counted += ranks[rank].counted;
        wire = ranks[rank].wire;  // all ranks of a host see the same
      }
      auto const limit = static_cast<std::uint64_t>(tolerance * static_cast<double>(counted)) + slack;
      bool const good = counted > 0 && wire >= counted && wire <= limit;
      failed_ |= !good;
      if (world_.rank() != 0) continue;
      std::printf("%-26s host %d %12.6f %12.6f %9.5f%s\n", policy, host, static_cast<double>(counted) / 1e6,
                  static_cast<double>(wire) / 1e6, static_cast<double>(wire) / static_cast<double>(counted),
                  good             ? ""
                  : wire < counted ? "  FAILED: counted what was not sent"
                                   : "  FAILED: sent what was not counted");
    }
  }

  px::MpiCommunicator& world_;
  std::vector<int> hosts_;
  bool failed_ = false;
};

// A rank's batch of a step: the smaller an id, the more often it occurs, as words do.
std::vector<std::int64_t> some_ids(std::int64_t rows, std::size_t count, int rank, std::int64_t step) {
  std::vector<std::int64_t> ids(count);
  auto state = static_cast<std::uint64_t>(rank * 1'000 + step + 1);
  for (auto& id : ids) {
    state = state * 6364136223846793005 + 1442695040888963407;
    double const unit = static_cast<double>(state >> 11) * 0x1p-53;
    id = std::min(rows - 1, static_cast<std::int64_t>(unit * unit * unit * static_cast<double>(rows)));
  }
  return ids;
}

// Dense layers: one that is exchanged where it lies, two that are fused.
template <class Policy>
struct Layers {
  explicit Layers(px::Session<px::MpiCommunicator>& session) {
    for (auto& values : parameters) {
      gradients.emplace_back(values.size(), 0.5f);
      variables.emplace_back(session, "layer " + std::to_string(variables.size()), px::bind(values));
    }
  }
  auto updates() const {
    std::vector<decltype(px::grad(variables[0], gradients[0]))> updates;
    for (std::size_t i = 0; i < variables.size(); ++i) updates.push_back(px::grad(variables[i], gradients[i]));
    return updates;
  }

  std::vector<std::vector<float>> parameters{std::vector<float>(1'000'003), std::vector<float>(70'001),
                                             std::vector<float>(333)};
  std::vector<std::vector<float>> gradients;
  std::vector<px::Variable<px::Dense, Policy>> variables;
};

class Policies {
 public:
  Policies(px::MpiCommunicator& world, px::Topology<px::MpiCommunicator> topology)
      : topology_{std::move(topology)}, comparison_{world, px::mpi_hosts(world)} {}

  template <class Policy>
  void dense(char const* name) {
    px::Session session{topology_};
    Layers<Policy> layers{session};
    comparison_.run(name, session, [&] { session.step(layers.updates()); });
  }

  // One layer after the other is started, while the backward pass would go on.
  template <class Policy>
  void dense_started(char const* name) {
    px::Session session{topology_};
    Layers<Policy> layers{session};
    comparison_.run(name, session, [&] {
      for (auto const& update : layers.updates()) {
        session.start(update);
        session.poll();
      }
      session.step();
    });
  }

  template <class Policy>
  void pulled(char const* name) {
    px::Session session{topology_};
    px::Variable<px::Sparse, Policy> const words{session, "words", table};
    comparison_.run(name, session, [&] {
      auto const handle = session.pull(words, ids(session));
      session.step(px::grad(handle, gradient()));
    });
  }

  template <class Policy>
  void by_index(char const* name) {
    px::Session session{topology_};
    px::Variable<px::Sparse, Policy> const words{session, "words", table};
    comparison_.run(name, session, [&] { session.step(px::grad(words, ids(session), gradient())); });
  }

  // The paper's rule, a model of dense layers and two tables in one exchange.
  void hybrid(char const* name) {
    px::Session session{topology_};
    Layers<px::AllReduce> layers{session};
    px::Variable<px::Sparse> const words{session, "words", table}, classes{session, "classes", table};
    comparison_.run(name, session, [&] {
      auto const [inputs, outputs] = session.pull(words.at(ids(session)), classes.at(ids(session)));
      session.start(px::grad(outputs, gradient()));
      session.poll();
      session.step(layers.updates(), px::grad(inputs, gradient()));
    });
  }

  bool failed() const { return comparison_.failed(); }

 private:
  static constexpr std::size_t indices = 4'000;
  static constexpr px::Table table{.rows = 20'000, .width = 64};

  static std::vector<std::int64_t> ids(px::Session<px::MpiCommunicator> const& session) {
    return some_ids(table.rows, indices, session.rank(), session.steps());
  }
  std::vector<float> const& gradient() const { return gradient_; }

  std::vector<float> gradient_ = std::vector<float>(indices * static_cast<std::size_t>(table.width), 0.25f);
  px::Topology<px::MpiCommunicator> topology_;
  Comparison comparison_;
};

}  // namespace

int main(int argc, char** argv) {
  px::MpiEnvironment const mpi{argc, argv};
  px::MpiCommunicator world;
  std::string_view const hops = argc == 2 ? argv[1] : "";
  if (hops != "flat" && hops != "two_hop") {
    if (world.rank() == 0) std::fprintf(stderr, "usage: bytes flat|two_hop\n");
    return 2;
  }
  if (std::ranges::max(px::mpi_hosts(world)) == 0) throw std::runtime_error{"all ranks are on one host"};
  if (world.rank() == 0)
    std::printf("%d ranks, %s, %d steps\n%-26s %6s %12s %12s %9s\n", world.size(), argv[1], steps, "", "", "counted MB",
                "kernel MB", "ratio");
  Policies policies{world, hops == "flat" ? px::Topology{world} : px::Topology{world, px::mpi_hosts(world)}};
  policies.dense<px::AllReduce>("Dense AllReduce");
  policies.dense<px::PsShard>("Dense PsShard");
  policies.dense_started<px::AllReduce>("Dense AllReduce, started");
  policies.dense_started<px::PsShard>("Dense PsShard, started");
  policies.pulled<px::PsShard>("Sparse PsShard, pulled");
  policies.by_index<px::PsShard>("Sparse PsShard, by index");
  policies.by_index<px::AllGather>("Sparse AllGather");
  policies.by_index<px::AllReduce>("Sparse AllReduce");
  policies.pulled<baseline::NaivePs>("Sparse NaivePs, pulled");
  policies.hybrid("hybrid, two tables");
  return policies.failed() ? 1 : 0;
}
