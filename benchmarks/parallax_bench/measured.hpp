// Methods measured in turn on the same ranks: times, what was counted, what the count over the ids says, and what is wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/session/trace.hpp"

#include "calibrate.hpp"
#include "fastest.hpp"
#include "progress.hpp"
#include "training.hpp"

namespace bench {

// The ways of rows; under `tf1` they travel as under `naive`, and dense tensors lie whole on an owner each.
enum class Way : unsigned char { densified, parameter_server, naive, gathered, tf1 };
// Of the policies that px::Auto chooses from, by their numbers.
inline Way way_of(std::size_t choice) {
  constexpr Way ways[] = {Way::parameter_server, Way::gathered, Way::densified};
  return ways[choice];
}

struct Method {
  std::string name;
  Way way;
  bool counted;  // by a session, in the same bytes as the closed form
  std::function<std::unique_ptr<Training>(World const&, Workload const&)> make;
  int settling = 0;  // steps after which it moves no rows any more
};

// The methods that were linked, by their names and the size of the scalar. Each of methods/ brings its own before main.
inline std::map<std::pair<std::string_view, std::size_t>, Method>& methods() {
  static std::map<std::pair<std::string_view, std::size_t>, Method> all;
  return all;
}
template <class T>
bool bring_method(std::string_view key, Method method) {
  return methods().emplace(std::pair{key, sizeof(T)}, std::move(method)).second;
}
// `key`: one of policy_names, or of those below.
template <class T>
Method method_of(std::string_view key) {
  auto const found = methods().find({key, sizeof(T)});
  if (found == methods().end()) throw Refusal{"this program was built without the method " + std::string{key}};
  return found->second;
}
// Hybrid, the next batch named ahead. Counts to the byte where the measured steps train on each batch equally often.
inline constexpr std::string_view ahead_method = "hybrid, ids ahead";
// The session's, and by hand, in MPI's own order; and in place, where the sums lie over the gradients.
inline constexpr std::string_view vendor_method = "session_vendor", raw_method = "raw_mpi", blocking_method = "MPI_Allreduce",
                                  in_place_method = "session, in place", blocking_in_place = "MPI_Allreduce, in place",
                                  raw_in_place = "raw_mpi, in place", vendor_in_place = "session_vendor, in place";

struct Outcome {
  Summary seconds;                         // of a step of the slowest rank
  double messages = 0, most_messages = 0;  // of a rank and step: mean, busiest
  double rounds = 0;                       // transfers of a rank and step
  std::vector<Flow> counted, expected;     // by rank, over all measured steps
  int steps = 0;
  std::int64_t wrong = 0;

  // Bytes of a step.
  double sent_of_rank(std::vector<Flow> const& flows) const {
    double sum = 0;
    for (Flow const& flow : flows) sum += real(flow.sent.all);
    return sum / real(flows.size()) / steps;
  }
  double most_sent(std::vector<Flow> const& flows) const {
    double most = 0;
    for (Flow const& flow : flows) most = std::max(most, real(flow.sent.all));
    return most / steps;
  }
  struct Hosts {
    double mean = 0, busiest = 0;
  };
  Hosts sent_of_host(std::vector<Flow> const& flows, std::vector<int> const& host_of_rank) const {
    std::vector<double> hosts;
    for (std::size_t rank = 0; rank < flows.size(); ++rank) {
      std::size_t const host = host_of_rank.empty() ? rank : at(host_of_rank[rank]);
      hosts.resize(std::max(hosts.size(), host + 1));
      hosts[host] += real(flows[rank].sent.between_hosts) / steps;
    }
    double sum = 0, most = 0;
    for (double const bytes : hosts) sum += bytes, most = std::max(most, bytes);
    return {sum / real(hosts.size()), most};
  }
};

// What a batch asks of every table.
struct Asked {
  std::vector<std::vector<Ids>> drawn, distinct;  // by table and rank
};
inline Asked asked_of(Workload const& work, std::size_t batch) {
  Asked asked{std::vector<std::vector<Ids>>(work.tables.size()), std::vector<std::vector<Ids>>(work.tables.size())};
  for (std::size_t t = 0; t < work.tables.size(); ++t)
    for (auto const& of_rank : work.streams[t].ids) {
      asked.drawn[t].push_back(of_rank[batch]);
      asked.distinct[t].push_back(sorted_distinct(of_rank[batch]));
    }
  return asked;
}

// f(rows) for each table, its rows dealt to so many owners.
template <class F>
void for_tables(Workload const& work, Asked const& asked, std::size_t owners, std::uint64_t scalar_bytes, F&& f) {
  for (std::size_t t = 0; t < work.tables.size(); ++t) {
    auto const layout = work.partitioners[t].layout(work.tables[t].rows, static_cast<int>(owners));
    auto const owner = [&](std::int64_t row) { return at(layout.locate(row).owner); };
    f(ByteCount::Rows<decltype(owner)>{at(work.tables[t].width) * scalar_bytes, sizeof(std::int64_t), asked.distinct[t],
                                       asked.drawn[t], owner});
  }
}

inline void count_dense(ByteCount& count, Workload const& work, std::uint64_t scalar_bytes, bool whole = false) {
  for (std::size_t number = 0; number < work.dense.size(); ++number) {
    std::size_t const elements = at(work.dense[number].elements);
    if (whole) count.dense_whole(elements * scalar_bytes, number);
    else count.dense(elements, scalar_bytes);
  }
}
// The rows of table t travel as ways[t] says, or, where one is given, all as it says.
inline void count_tables(ByteCount& count, Workload const& work, std::vector<Way> const& ways, Asked const& asked,
                         std::uint64_t scalar_bytes) {
  std::size_t table = 0;
  for_tables(work, asked, count.owners(), scalar_bytes, [&](auto const& rows) {
    auto const& shape = work.tables[table];
    Way const way = ways[table++];
    if (way == Way::densified) count.dense(at(shape.rows), at(shape.width) * scalar_bytes);
    else if (way == Way::parameter_server) count.pull_and_push(rows);
    else if (way == Way::gathered) count.gather(rows);
    else count.pull_directly(rows), count.push_occurrences(rows);
  });
}

inline void count_tables(ByteCount& count, Workload const& work, Way way, Asked const& asked, std::uint64_t scalar_bytes) {
  count_tables(count, work, std::vector<Way>(work.tables.size(), way), asked, scalar_bytes);
}

// Returns what a step on a batch must move. `whole`: dense tensors lie whole on an owner each.
inline std::vector<Flow> expected_flows(Ranks const& ranks, Workload const& work, std::vector<Way> const& ways, bool whole,
                                        std::size_t batch, std::uint64_t scalar_bytes) {
  ByteCount count{work.ranks, ranks.hosts()};
  count_dense(count, work, scalar_bytes, whole);
  count_tables(count, work, ways, asked_of(work, batch), scalar_bytes);
  return count.flows;
}

struct Schedule {
  int steps, warmup, block = 1;  // `block` steps are timed as one
  bool check = true;
  std::string* trace = nullptr;  // where the first method's measured steps are traced to

  int blocks() const { return (steps + block - 1) / block; }
  int before(Method const& method) const { return std::max(warmup, method.settling); }
};

// What a rank says of a method: so many facts, then how the rows of each table travel, then the time of every block.
inline constexpr std::size_t facts_of_method = 8;
inline void append_facts(Ranks::Numbers& numbers, px::Traffic const& a, px::Traffic const& b, Checked const& checked) {
  numbers.insert(
      numbers.end(),
      {real(b.messages - a.messages), real(b.transfers - a.transfers), real(b.payload_sent() - a.payload_sent()),
       real(b.payload_sent_between_hosts() - a.payload_sent_between_hosts()), real(b.payload_received() - a.payload_received()),
       real(b.payload_received_between_hosts() - a.payload_received_between_hosts()), real(checked.wrong), checked.checksum});
}

// How the rows of each table travelled.
inline void append_ways(Ranks::Numbers& numbers, Workload const& work, Method const& method, Training const& training) {
  auto const chosen = training.chosen();
  for (std::size_t t = 0; t < work.tables.size(); ++t) numbers.push_back(real(chosen.empty() ? method.way : way_of(chosen[t])));
}

// Collective. Every rank's text, joined, on rank 0.
inline std::string joined_text(px::AnyCommunicator& comm, std::string const& text) {
  auto const sizes = px::allgather(comm, text.size());
  std::string all(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), '\0');
  px::allgatherv<char>(comm, std::span{text.data(), text.size()}, std::span{all.data(), all.size()}, sizes);
  std::string joined;
  std::size_t begin = 0;
  for (std::size_t const size : sizes) {
    if (size > 0) (joined += joined.empty() ? "" : ",\n") += all.substr(begin, size);
    begin += size;
  }
  return joined;
}

// Collective. A block of each method in turn, so that what slows the machine down slows all of them. By rank: what it found.
inline std::vector<Ranks::Numbers> train(Ranks& ranks, Workload const& work, std::vector<Method> const& methods,
                                         Schedule const& plan, Progress& progress) {
  return ranks.run([&](World const& world) {
    std::vector<std::unique_ptr<Training>> trainings;
    for (auto const& method : methods) trainings.push_back(method.make(world, work));
    std::vector<std::vector<double>> times(methods.size());
    std::vector<px::Traffic> before, after;
    for (std::size_t m = 0; m < methods.size(); ++m)
      for (int step = 0; step < plan.before(methods[m]); ++step) trainings[m]->prepare(), trainings[m]->step();
    for (auto& training : trainings) before.push_back(training->traffic());
    std::optional<px::Trace> trace;
    auto* const traced = trainings[0]->traced();
    if (plan.trace && traced) trace.emplace(*traced);
    for (int block = 0; block < plan.blocks(); ++block)
      for (std::size_t m = 0; m < trainings.size(); ++m) {
        px::barrier(world.comm);
        double seconds = 0;
        for (int step = 0; step < plan.block; ++step) {
          trainings[m]->prepare();
          double const begin = seconds_now(world.comm);
          trainings[m]->step();
          seconds += seconds_now(world.comm) - begin;
        }
        times[m].push_back(seconds / plan.block);
        if (world.comm.rank() == 0) progress.advance();
      }
    for (auto& training : trainings) after.push_back(training->traffic());
    if (trace) {
      std::string text = joined_text(world.comm, trace->events());
      if (world.comm.rank() == 0 && !text.empty()) (*plan.trace += plan.trace->empty() ? "" : ",\n") += text;
    }
    trace.reset();
    Ranks::Numbers numbers;
    for (std::size_t m = 0; m < trainings.size(); ++m) {
      Checked const checked = plan.check ? trainings[m]->check() : Checked{};
      trainings[m]->finish();
      append_facts(numbers, before[m], after[m], checked);
      append_ways(numbers, work, methods[m], *trainings[m]);
      numbers.insert(numbers.end(), times[m].begin(), times[m].end());
    }
    return numbers;
  });
}

// Local. What all ranks found, beside what they must have found.
inline std::vector<Outcome> judge(Ranks const& ranks, Workload const& work, std::vector<Method> const& methods,
                                  Schedule const& plan, std::uint64_t scalar_bytes,
                                  std::vector<Ranks::Numbers> const& results) {
  int const blocks = plan.blocks();
  std::size_t const tables = work.tables.size(), facts = facts_of_method + tables;
  int const measured = blocks * plan.block;
  std::vector<Outcome> outcomes(methods.size());
  for (std::size_t m = 0; m < methods.size(); ++m) {
    int const before = plan.before(methods[m]);
    std::vector<std::int64_t> times(at(work.batches));
    for (int step = 0; step < before + measured; ++step) ++times[at(step) % times.size()];
    double const checksum = plan.check ? expected_checksum(work, before + measured, times) : 0;
    Outcome& outcome = outcomes[m];
    outcome.steps = measured;
    double found = 0;
    std::vector<double> slowest(at(blocks));
    outcome.counted.resize(results.size());
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      double const* const of_rank = results[rank].data() + m * (facts + at(blocks));
      double const messages = of_rank[0] / outcome.steps;
      outcome.messages += messages / real(results.size());
      outcome.most_messages = std::max(outcome.most_messages, messages);
      outcome.rounds = std::max(outcome.rounds, of_rank[1] / outcome.steps);
      auto const whole = [&](int fact) { return static_cast<std::uint64_t>(of_rank[fact]); };
      outcome.counted[rank] = {{whole(2), whole(3)}, {whole(4), whole(5)}};
      outcome.wrong += static_cast<std::int64_t>(of_rank[6]);
      found += of_rank[7];
      for (std::size_t block = 0; block < slowest.size(); ++block)
        slowest[block] = std::max(slowest[block], of_rank[facts + block]);
    }
    outcome.seconds = summary_of(slowest);
    outcome.wrong += found != checksum;

    std::vector<Way> ways;
    for (std::size_t t = 0; t < tables; ++t)
      ways.push_back(static_cast<Way>(static_cast<int>(results[0][m * (facts + at(blocks)) + facts_of_method + t])));
    outcome.expected.resize(results.size());
    for (std::int64_t batch = 0; batch < work.batches; ++batch) {
      std::uint64_t often = 0;
      for (std::int64_t step = before; step < before + measured; ++step) often += step % work.batches == batch;
      if (often == 0) continue;
      auto const flows = expected_flows(ranks, work, ways, methods[m].way == Way::tf1, at(batch), scalar_bytes);
      for (std::size_t rank = 0; rank < flows.size(); ++rank) {
        auto const add = [&](Bytes& to, Bytes const& from) {
          to.all += often * from.all;
          to.between_hosts += often * from.between_hosts;
        };
        add(outcome.expected[rank].sent, flows[rank].sent);
        add(outcome.expected[rank].received, flows[rank].received);
      }
    }
    if (methods[m].counted && plan.check)
      for (std::size_t rank = 0; rank < results.size(); ++rank)
        outcome.wrong += !(outcome.counted[rank] == outcome.expected[rank]);
  }
  return outcomes;
}

// Collective.
inline std::vector<Outcome> measure(Ranks& ranks, Workload const& work, std::vector<Method> const& methods,
                                    Schedule const& plan, std::uint64_t scalar_bytes, Progress& progress) {
  return judge(ranks, work, methods, plan, scalar_bytes, train(ranks, work, methods, plan, progress));
}

}  // namespace bench
