// The bytes that a session counts are those that an independent count over the indices of every rank expects, no more, no less.
#include <cinttypes>
#include <cstdio>
#include <mutex>
#include <optional>
#include <tuple>

#include "../../benchmarks/baseline/tf1_ps.hpp"
#include "../catch.hpp"
#include "../support/byte_model.hpp"
#include "../support/recording_communicator.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "workload.hpp"

namespace px = parallax;
using namespace parallax_test;
using bytes::Flow;
using bytes::Network;

namespace {

using Comm = RecordingCommunicator<px::ThreadCommunicator>;

template <class DensePolicy, class RowPolicy, class P = px::Cyclic, class Scalar = float, class Int = std::int64_t>
struct Model {
  using T = Scalar;
  using Index = Int;
  using Layer = px::Variable<px::Dense, DensePolicy, T>;
  using Words = px::Variable<px::Sparse, RowPolicy, P, T, px::Index<Int>>;
  static constexpr bool naive = std::is_same_v<RowPolicy, baseline::NaivePs>,
                        gathers = std::is_same_v<RowPolicy, px::AllGather>,
                        densified = std::is_same_v<RowPolicy, px::AllReduce>,
                        whole = std::is_same_v<DensePolicy, baseline::WholeOnServer>;
  static std::string name() {
    return std::string{DensePolicy::name} + " + " + std::string{RowPolicy::name} + ", " + std::string{P::name};
  }
};

using Models = std::tuple<Model<px::AllReduce, px::PsShard, px::Cyclic, double, std::int32_t>,
                          Model<px::PsShard, px::AllGather, px::Block>, Model<px::AllReduce, px::AllReduce, px::Hash>,
                          Model<px::PsShard, baseline::NaivePs, px::Hash, float, std::int32_t>,
                          Model<baseline::WholeOnServer, baseline::NaivePs>>;

struct Case {
  int ranks;
  std::vector<int> hosts = {};
  px::Reduce reduce = px::Reduce::mean;
  std::uint64_t seed = 1;
  Shape shape = {{40, 7, 1, 333}, 97, 5};

  std::string text() const {
    std::string out = std::to_string(ranks) + " ranks";
    for (std::size_t r = 0; r < hosts.size(); ++r) out += (r ? "," : " on hosts ") + std::to_string(hosts[r]);
    return out + ", " + std::string{px::to_string(reduce)} + ", seed " + std::to_string(seed);
  }
};

std::vector<Case> cases() {
  return {{2, {}, px::Reduce::mean, 1},
          {3, {}, px::Reduce::mean_by_count, 2},
          {4, {}, px::Reduce::sum, 3},
          {8, {}, px::Reduce::mean, 4},
          {8, {}, px::Reduce::mean_by_count, 5},
          {2, {0, 0}, px::Reduce::mean, 6},
          {3, {0, 0, 1}, px::Reduce::mean_by_count, 7},
          {4, {0, 0, 1, 1}, px::Reduce::mean, 8},
          {4, {0, 1, 0, 1}, px::Reduce::mean_by_count, 9},
          {5, {0, 0, 0, 1, 1}, px::Reduce::mean, 10},
          {8, {0, 0, 0, 0, 1, 1, 1, 1}, px::Reduce::mean, 11},
          {8, {0, 0, 0, 1, 1, 2, 2, 2}, px::Reduce::mean_by_count, 12}};
}

// The counters of one operation on one rank, and what a communicator saw of it.
struct Measured {
  Flow flow;
  std::uint64_t control_sent = 0, control_received = 0, recorded_sent = 0, recorded_expected = 0;
};

Measured operator-(px::Traffic const& after, px::Traffic const& before) {
  static_assert(px::payloads == 5, "the model knows four kinds of payload, and control");
  Measured delta;
  px::Payload const kinds[] = {px::Payload::dense, px::Payload::rows, px::Payload::ids, px::Payload::counts};
  for (std::size_t k = 0; k < 4; ++k) {
    delta.flow.sent[k] = {after.sent_of(kinds[k]).all - before.sent_of(kinds[k]).all,
                          after.sent_of(kinds[k]).between_hosts - before.sent_of(kinds[k]).between_hosts};
    delta.flow.received[k] = {after.received_of(kinds[k]).all - before.received_of(kinds[k]).all,
                              after.received_of(kinds[k]).between_hosts - before.received_of(kinds[k]).between_hosts};
  }
  delta.control_sent = after.sent_of(px::Payload::control).all - before.sent_of(px::Payload::control).all;
  delta.control_received = after.received_of(px::Payload::control).all - before.received_of(px::Payload::control).all;
  return delta;
}

// What is done in turn, each operation measured by itself.
enum class Operation : unsigned char { broadcast, pull, push_pulled, push_distinct, push_ids, tied, started };
constexpr Operation operations[] = {Operation::broadcast, Operation::pull,     Operation::push_pulled, Operation::push_distinct,
                                    Operation::push_ids,  Operation::tied,     Operation::started,     Operation::push_ids,
                                    Operation::pull,      Operation::push_pulled};

// The batch of a rank in an operation; two of them in the one that is tied.
template <class T>
RowBatch<T> batch_of(Case const& c, std::size_t operation, int rank, std::uint64_t which = 0) {
  Workload<T> const workload{c.shape, c.seed};
  Random random{c.seed, operation, static_cast<std::uint64_t>(rank), which};
  return workload.batch(random, Way::handle);
}

template <class M>
std::vector<std::vector<Measured>> measure(Case const& c) {
  using T = typename M::T;
  std::vector<std::vector<Measured>> measured(static_cast<std::size_t>(c.ranks));
  px::run_threads(c.ranks, [&](px::ThreadCommunicator& world) {
    Comm comm{world};
    px::Session<Comm> session{c.hosts.empty() ? px::Topology<Comm>{comm} : px::Topology<Comm>{comm, c.hosts}, {{200, 400, 64}}};
    std::vector<std::vector<T>> memory;
    for (std::size_t const size : c.shape.layers) memory.emplace_back(size);
    std::vector<typename M::Layer> layers;
    for (auto& values : memory)
      layers.push_back({session, "layer " + std::to_string(layers.size()), px::bind(values), c.reduce});
    typename M::Words words{session, "words", px::Table{c.shape.rows, c.shape.width}, c.reduce};
    std::vector<decltype(px::grad(layers[0], memory[0]))> all_layers;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) all_layers.push_back(px::grad(layers[layer], memory[layer]));

    for (std::size_t number = 0; number < std::size(operations); ++number) {
      auto const operation = operations[number];
      auto const batch = batch_of<T>(c, number, world.rank()), other = batch_of<T>(c, number, world.rank(), 1);
      std::vector<typename M::Index> const ids(batch.ids.begin(), batch.ids.end());
      bool const pulls =
          operation == Operation::push_pulled || operation == Operation::push_distinct || operation == Operation::tied;
      std::optional<px::PulledRows<typename M::Words::State>> handle;
      if (pulls) handle.emplace(session.pull(words, ids));
      px::Traffic const before = session.traffic();
      comm.clear();
      switch (operation) {
        case Operation::broadcast:
          for (auto const& layer : layers) session.broadcast(layer);
          break;
        case Operation::pull: handle.emplace(session.pull(words, ids)); break;
        case Operation::push_pulled: session.step(px::grad(*handle, batch.rows), all_layers); break;
        case Operation::push_distinct: {
          std::vector<T> const rows(handle->size() * static_cast<std::size_t>(c.shape.width), T{1});
          if constexpr (M::naive) session.step(px::grad(*handle, batch.rows));
          else session.step(px::grad(*handle, px::distinct(rows)));
          break;
        }
        case Operation::push_ids: session.step(px::grad(words, batch.ids, batch.rows)); break;
        case Operation::tied: session.step(px::grad(*handle, batch.rows), px::grad(words, other.ids, other.rows)); break;
        case Operation::started:
          session.start(all_layers);
          session.poll();
          session.start(px::grad(words, ids, batch.rows));
          session.step(px::grad(words, other.ids, other.rows));
          break;
      }
      Measured delta = session.traffic() - before;
      delta.recorded_sent = comm.bytes_sent();
      delta.recorded_expected = comm.bytes_expected();
      measured[static_cast<std::size_t>(world.rank())].push_back(delta);
    }
    session.finish();
  });
  return measured;
}

// Owners as the partitioner's documentation says; of those that mix rows as they tell.
template <class P>
std::function<std::size_t(std::int64_t)> owner_function(P, std::int64_t rows, std::size_t owners) {
  if constexpr (std::is_same_v<P, px::Block>)
    return [owners, rows](std::int64_t row) {  // equal ranges, the first ones a row longer
      auto const n = static_cast<std::size_t>(rows), r = static_cast<std::size_t>(row), longer = n % owners * (n / owners + 1);
      return r < longer ? r / (n / owners + 1) : n % owners + (r - longer) / (n / owners);
    };
  else
    return [layout = P{}.layout(rows, static_cast<int>(owners))](std::int64_t row) {
      return static_cast<std::size_t>(layout.locate(row).owner);
    };
}
template <class Policy, class O, class P, class Space, class T, class Int>
P partitioner_of(std::type_identity<px::BasicVariable<px::Sparse, Policy, O, P, Space, T, Int>>) {
  return {};
}

// What an operation must move. `lost`: a row that the model forgets to count, to see that it is missed.
template <class M>
std::vector<Flow> model(Case const& c, std::size_t number, bool lost = false) {
  using T = typename M::T;
  Network network{c.ranks, c.hosts};
  bool const counted = c.reduce == px::Reduce::mean_by_count;
  auto const width = static_cast<std::size_t>(c.shape.width);
  Network::Table const table{
      width * sizeof(T), sizeof(typename M::Index), counted && !M::naive,
      owner_function(partitioner_of(std::type_identity<typename M::Words>{}), c.shape.rows, network.owners())};
  auto const batches = [&](std::uint64_t which = 0) {
    std::vector<bytes::Indices> by_rank;
    for (int rank = 0; rank < c.ranks; ++rank) by_rank.push_back(batch_of<T>(c, number, rank, which).ids);
    if (lost)
      for (bytes::Indices& ids : by_rank)
        if (!ids.empty()) std::erase(ids, bytes::Indices{ids}.back());
    return by_rank;
  };
  auto const push = [&](std::uint64_t which, bool pulled) {
    if (M::naive) network.push_occurrences(table, batches(which));
    else if (M::gathers) network.gather(table, batches(which));
    else if (!M::densified) network.push(table, batches(which), !pulled);
    else network.reduce_and_gather(static_cast<std::size_t>(c.shape.rows) * (width + counted), sizeof(T), width + counted);
  };
  auto const layers = [&](auto&& move) {
    for (std::size_t const size : c.shape.layers) move(size);
  };
  auto sum = [&, layer = std::size_t{0}](std::size_t size) mutable {
    if (M::whole) network.sum_on_server(layer++, size * sizeof(T));
    else network.reduce_and_gather(size, sizeof(T));
  };
  switch (operations[number]) {
    case Operation::broadcast: layers([&](std::size_t size) { network.broadcast(size, sizeof(T)); }); break;
    case Operation::pull:
      if (!M::gathers && !M::densified) network.pull(table, batches(), M::naive);
      break;
    case Operation::push_pulled:
      layers(sum);
      push(0, true);
      break;
    case Operation::push_distinct: push(0, true); break;
    case Operation::push_ids: push(0, false); break;
    case Operation::tied:
      push(0, true);
      push(1, false);
      break;
    case Operation::started:
      layers(sum);
      push(0, false);
      push(1, false);
      break;
  }
  return network.flows;
}

// The first count that differs, in words; empty if none does.
std::string difference(Flow const& counted, Flow const& expected) {
  for (bool const sent : {true, false})
    for (std::size_t k = 0; k < 4; ++k) {
      auto const &is = (sent ? counted.sent : counted.received)[k], &should = (sent ? expected.sent : expected.received)[k];
      if (is == should) continue;
      return std::string{bytes::kind_names[k]} + " bytes " + (sent ? "sent: " : "received: ") + std::to_string(is.all) + " (" +
             std::to_string(is.between_hosts) + " between hosts) instead of " + std::to_string(should.all) + " (" +
             std::to_string(should.between_hosts) + ")";
    }
  return "";
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("counted bytes are those of an independent count over the indices", "[equivalence][bytes]", Models) {
  for (Case const& c : cases()) {
    auto const measured = measure<TestType>(c);
    for (std::size_t number = 0; number < std::size(operations); ++number) {
      auto const expected = model<TestType>(c, number);
      for (std::size_t rank = 0; rank < measured.size(); ++rank) {
        INFO(TestType::name() << ", " << c.text() << ", operation " << number << ", rank " << rank);
        CHECK(difference(measured[rank][number].flow, expected[rank]) == "");
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("a communicator sees the bytes that are counted", "[equivalence][bytes]", Models) {
  for (Case const& c : {cases()[1], cases()[3], cases()[9]})
    for (auto const& of_rank : measure<TestType>(c))
      for (Measured const& operation : of_rank) {
        INFO(TestType::name() << ", " << c.text());
        std::uint64_t received = operation.control_received;
        for (auto const& count : operation.flow.received) received += count.all;
        CHECK(operation.recorded_sent == operation.flow.total_sent() + operation.control_sent);
        CHECK(operation.recorded_expected == received);
      }
}

TEMPLATE_LIST_TEST_CASE("a row that the model forgets is missed", "[equivalence][bytes][planted]", Models) {
  Case const c = cases()[7];
  INFO(TestType::name() << ", " << c.text());
  std::size_t const number = 4;
  static_assert(operations[4] == Operation::push_ids);
  auto const measured = measure<TestType>(c);
  auto const expected = model<TestType>(c, number, true);
  int missed = 0;
  for (std::size_t rank = 0; rank < measured.size(); ++rank)
    missed += difference(measured[rank][number].flow, expected[rank]) != "";
  if (TestType::densified) CHECK(missed == 0);  // its bytes do not depend on the rows
  else CHECK(missed > 0);
}

namespace {

// Bytes that this rank sends while `operation` runs on every rank, by rank.
template <class Body>
std::vector<std::uint64_t> sent_by(int ranks, Body const& body) {
  std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    Comm comm{world};
    px::Session session{comm};
    body(session, [&](auto&&... updates) {
      std::uint64_t const before = session.traffic().payload_sent();
      session.step(updates...);
      sent[static_cast<std::size_t>(world.rank())] = session.traffic().payload_sent() - before;
    });
    session.finish();
  });
  return sent;
}

}  // namespace

TEST_CASE("counted bytes equal the closed forms", "[equivalence][bytes]") {
  std::int64_t const width = 16, rows = 4096;
  std::size_t const elements = 840 * 8, n = 96, b = width * sizeof(float), e = sizeof(std::int64_t),
                    w = elements * sizeof(float);
  std::printf("bytes that a rank sends in a step\n  N  dense: w = %zu   2(N-1)/N w   allgather: n = %zu   (N-1) n (b+e)\n", w,
              n);
  for (std::size_t const ranks : {2u, 3u, 4u, 8u}) {
    auto const dense = sent_by(static_cast<int>(ranks), [&](auto& session, auto const& step) {
      std::vector<float> values(elements), gradient(elements);
      px::Variable<px::Dense> variable{session, "dense", px::bind(values)};
      step(px::grad(variable, gradient));
    });
    auto const gathered = sent_by(static_cast<int>(ranks), [&](auto& session, auto const& step) {
      px::Variable<px::Sparse, px::AllGather> variable{session, "rows", px::Table{rows, width}};
      std::vector<std::int64_t> ids;
      for (std::size_t i = 0; i < n; ++i) ids.push_back((static_cast<std::int64_t>(i) * 37 + session.rank()) % rows);
      std::vector<float> gradient(n * width);
      step(px::grad(variable, ids, gradient));
    });
    std::uint64_t const dense_form = 2 * (ranks - 1) * w / ranks, gather_form = (ranks - 1) * n * (b + e);
    std::printf("  %zu  %15" PRIu64 "  %10" PRIu64 "  %18" PRIu64 "  %14" PRIu64 "\n", ranks, dense[0], dense_form, gathered[0],
                gather_form);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      INFO("rank " << rank << " of " << ranks);
      CHECK(dense[rank] == dense_form);
      CHECK(gathered[rank] == gather_form);
    }
  }
}

namespace {

// Sent and received across the boundary of each host, given the indices of every rank and the host of every row's owner: the
// counts of the paper's comparison, one for a parameter server that pulls and pushes once for a rank, one for once for a host.
std::vector<std::uint64_t> parameter_server_bytes(std::vector<bytes::Distinct> const& sets,
                                                  std::vector<std::size_t> const& host_of_set, std::size_t hosts,
                                                  std::function<std::size_t(std::int64_t)> const& host_of_row,
                                                  std::uint64_t moved) {
  std::vector<std::uint64_t> crossing(hosts, 0);
  for (std::size_t s = 0; s < sets.size(); ++s)
    for (std::int64_t const id : sets[s])
      if (host_of_row(id) != host_of_set[s]) {
        crossing[host_of_set[s]] += moved;
        crossing[host_of_row(id)] += moved;
      }
  return crossing;
}

}  // namespace

TEST_CASE("a pull and a push of a step cross the boundary of hosts once for each host", "[equivalence][bytes]") {
  std::int64_t const rows = 211, width = 6;
  std::size_t const hosts = 2, ranks = 6, b = width * sizeof(float), e = sizeof(std::int64_t);
  Workload<float> const workload{{{}, rows, width}, 31};
  std::vector<RowBatch<float>> batches;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Random random{31, rank};
    batches.push_back(workload.batch(random, Way::handle));
  }
  for (bool const aware : {true, false}) {
    std::vector<bytes::Distinct> sets(aware ? hosts : ranks);
    std::vector<std::size_t> host_of_set(sets.size());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::size_t const set = aware ? rank / 3 : rank;
      sets[set].insert(batches[rank].ids.begin(), batches[rank].ids.end());
      host_of_set[set] = aware ? set : rank;
    }
    std::size_t const places = aware ? hosts : ranks;  // unaware, every rank counts as a host
    auto const layout = px::Cyclic{}.layout(rows, static_cast<int>(ranks));
    auto const host_of_row = [&](std::int64_t row) {  // owner = slot · hosts + host, or the rank
      auto const owner = static_cast<std::size_t>(layout.locate(row).owner);
      return owner % places;
    };
    auto const expected = parameter_server_bytes(sets, host_of_set, places, host_of_row, 2 * b + e);

    std::vector<std::uint64_t> counted(places, 0);
    std::mutex mutex;
    px::run_threads(static_cast<int>(ranks), [&](px::ThreadCommunicator& world) {
      Comm comm{world};
      px::Topology const flat{comm}, two_levels{comm, {0, 0, 0, 1, 1, 1}};
      px::Session session{aware ? two_levels : flat};
      px::Variable<px::Sparse> words{session, "words", px::Table{rows, width}};
      auto const& batch = batches[static_cast<std::size_t>(world.rank())];
      auto const handle = session.pull(words, batch.ids);
      session.step(px::grad(handle, batch.rows));
      session.finish();
      std::lock_guard const lock{mutex};
      counted[static_cast<std::size_t>(aware ? world.rank() / 3 : world.rank())] +=
          session.traffic().payload_sent_between_hosts() + session.traffic().payload_received_between_hosts();
    });
    INFO((aware ? "two levels" : "flat") << ", seed 31");
    CHECK(counted == expected);
  }
}
