// A model of every optimizer, whose policies and partitioners are the model's own: saved in one world, restored in another, and
// looked at past all archives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/partition/greedy.hpp"
#include "parallax/variable/memory_archive.hpp"

namespace parallax_test::worlds {

namespace px = parallax;

// Replicas of these have more bytes than a manifest takes, and numbers of their rows have fewer.
inline constexpr std::int64_t rows = 151, width = 9;
inline constexpr std::size_t elements = 1200;

using Optimizers = std::tuple<px::Sgd, px::Adam, px::LazyAdam, px::RowwiseAdagrad, px::Ftrl, px::Lamb>;
using SparsePolicies = std::tuple<px::PsShard, px::AllGather, px::AllReduce, px::Auto>;
using Partitioners = std::tuple<px::Cyclic, px::Block, px::Hash, px::Greedy>;
inline constexpr char const* names[] = {"sgd", "adam", "lazy_adam", "rowwise", "ftrl", "lamb"};
inline constexpr int models = 4, optimizers = 6;

// The field of four elements: a plus b is a ^ b, and this is a times 2. Policy o + k and partitioner 2 o + k: over four optimizers and
// four models, each policy meets each partitioner, and each optimizer meets all of both.
constexpr int twice(int a) { return a == 0 ? 0 : a == 1 ? 2 : a == 2 ? 3 : 1; }
constexpr int policy_of(int model, int o) { return (o % 4) ^ model; }
constexpr int partitioner_of(int model, int o) { return twice(o % 4) ^ model; }

// All that all ranks together hold, by the number of the row, and numbers as text.
struct Logical {
  std::map<std::string, std::vector<std::byte>> arrays;
  std::string facts;
};

struct Task {
  int ranks;
  int from = 0, to = 0;                         // steps
  std::string save_in = {}, restore_from = {};  // folders; empty: not
  px::SaveOptions save_options = {};
  px::RestoreOptions restore_options = {};
  bool archive = false;  // all items of each rank are wanted
  float initial = 0;
};
struct Found {
  Logical logical;
  std::vector<px::MemoryArchive> archives;  // by rank
  std::vector<std::string> lost;
  std::string complaint;  // empty: none
  std::size_t decisions = 0;
};

template <int model>
Found work(Task const& task);
using Work = Found (*)(Task const&);

// Empty, or the first array that differs.
inline std::string difference(Logical const& one, Logical const& other) {
  if (one.facts != other.facts) return "\n" + one.facts + "\nis not\n" + other.facts;
  if (one.arrays.size() != other.arrays.size() || one.arrays.size() < 20) return "other arrays";
  for (auto const& [name, bytes] : one.arrays) {
    auto const found = other.arrays.find(name);
    if (found == other.arrays.end()) return name + " is missing";
    if (found->second != bytes) return name + " differs";
  }
  return {};
}
inline std::string difference(std::vector<px::MemoryArchive> const& one, std::vector<px::MemoryArchive> const& other) {
  if (one.size() != other.size()) return "other ranks";
  for (std::size_t rank = 0; rank < one.size(); ++rank) {
    auto const a = one[rank].records(), b = other[rank].records();
    if (a.size() < 50 || a.size() != b.size()) return "other items";
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(a[i] == b[i])) return "rank " + std::to_string(rank) + ": " + a[i].variable + ", " + a[i].name + " differs";
  }
  return {};
}

// Everything below is instantiated by worlds_<model>.cpp alone.

template <class O>
double& rate_of(O& optimizer) {
  if constexpr (requires { optimizer.learning_rate; }) return optimizer.learning_rate;
  else return rate_of(optimizer.optimizer);
}

// The table under Auto is moved in steps 2, 6, 10, …: to AllGather, back to PsShard, …
inline px::AutoOptions choice_of(int step) {
  px::Costs costs;
  if (step / 4 % 2 == 1) costs.per_row = 1, costs.per_stream_byte = 1;
  else costs.round = 1;
  return {.first_step = 2, .interval = 4, .costs = costs, .device_costs = costs};
}

// What one rank holds of an array.
struct Held {
  std::string name;
  std::int64_t rows;
  std::size_t row_bytes;
  std::vector<std::int64_t> numbers;
  std::vector<std::byte> bytes;
};

template <int model>
class Model {
  template <int o>
  using Layer = px::Variable<px::Dense, std::conditional_t<(o + model) % 2 == 0, px::AllReduce, px::PsShard>,
                             std::tuple_element_t<o, Optimizers>>;
  template <int o>
  using Deal = std::tuple_element_t<partitioner_of(model, o), Partitioners>;
  template <int o>
  using Table = px::Variable<px::Sparse, std::tuple_element_t<policy_of(model, o), SparsePolicies>,
                             std::tuple_element_t<o, Optimizers>, Deal<o>>;

 public:
  Model(px::ThreadCommunicator& world, float initial)
      : session{world, {.choice = choice_of(0)}}, memory(optimizers, std::vector<float>(elements, initial)), first{initial} {}

  void step(int number) {
    session.options().choice = choice_of(number);
    each([&](auto& variable, int) {
      if (number == 3 || number == 7) rate_of(variable.optimizer()) /= 1.5;
    });
    int drawn = 0;
    each([&](auto& variable, int o) {
      std::mt19937_64 random{static_cast<std::uint64_t>(1000 * number + 20 * session.rank() + drawn++)};
      auto const values = [&](std::size_t count) {
        std::vector<float> of(count);
        for (float& value : of) value = static_cast<float>(random() % 33) / 8 - 2;
        return of;
      };
      if constexpr (std::same_as<typename std::remove_cvref_t<decltype(variable)>::kind, px::Dense>) {
        session.start(px::grad(variable, values(elements)));
      } else {
        std::vector<std::int64_t> ids(random() % 5);
        for (auto& id : ids) id = static_cast<std::int64_t>(random() % rows);
        if ((number + o) % 3 == 0) {  // rows that are read are settled, by each rank others
          std::vector<std::int64_t> read(1 + random() % 6);
          for (auto& id : read) id = static_cast<std::int64_t>(random() % rows);
          static_cast<void>(session.pull(variable, read));
        }
        session.start(px::grad(variable, ids, values(ids.size() * width)));
      }
    });
    session.step();
    ++epoch, seed = seed * 6364136223846793005u + static_cast<std::uint64_t>(session.rank());
    history.push_back(static_cast<double>(number) / 3);
    note += static_cast<char>('a' + number % 26);
    mine.push_back(static_cast<float>(session.rank() + number));
  }
  template <class F>
  void each(F&& f) {
    f(layer0, 0), f(layer1, 1), f(layer2, 2), f(layer3, 3), f(layer4, 4), f(layer5, 5);
    f(table0, 0), f(table1, 1), f(table2, 2), f(table3, 3), f(table4, 4), f(table5, 5);
  }
  template <class Archive>
  void visit(Archive&& archive) {
    session.visit(archive, table0, table1, table2, layer0, layer1, layer2, table3, table4, table5, layer3, layer4, layer5);
  }
  template <class F>
  auto with_all(F&& f) {
    return f(table0, table1, table2, layer0, layer1, layer2, table3, table4, table5, layer3, layer4, layer5,
             px::shared_value("epoch", epoch), px::own_value("seed", seed), px::shared_value("history", history),
             px::shared_value("note", note), px::own_value("mine", mine));
  }

  std::vector<Held> held() {
    std::vector<Held> all;
    each([&](auto& variable, int o) {
      using Variable = std::remove_cvref_t<decltype(variable)>;
      using State = typename Variable::State;
      using O = typename State::optimizer_type;
      auto& state = variable.state();
      constexpr bool dense = std::same_as<typename Variable::kind, px::Dense>;
      std::string const name = std::string{dense ? "layer_" : "table_"} + names[o];
      auto const add = [&](std::string const& what, auto values, std::int64_t of, std::int64_t here, auto const& number) {
        auto const bytes = std::as_bytes(values);
        std::size_t const row_bytes = here > 0 ? bytes.size() / static_cast<std::size_t>(here) : 0;
        Held array{name + "/" + what, of, row_bytes, {}, {bytes.begin(), bytes.end()}};
        for (std::int64_t i = 0; i < here; ++i) array.numbers.push_back(number(i));
        all.push_back(std::move(array));
      };
      std::int64_t of = rows, here = rows, unit = width, begin = 0;
      if constexpr (dense) {
        unit = static_cast<std::int64_t>(state.unit());
        of = static_cast<std::int64_t>(elements) / unit;
        add("values", state.values(), of, of, [](std::int64_t i) { return i; });
        begin = static_cast<std::int64_t>(state.first_owned()) / unit;
      } else {
        auto const table = variable.local();  // settles all
        here = variable.local_rows();
        add("values", std::span{table.data, static_cast<std::size_t>(here * width)}, of, here,
            [&](std::int64_t i) { return variable.global_row(i); });
      }
      auto const number = [&](std::int64_t i) {
        if constexpr (dense) return begin + i;
        else return variable.global_row(i);
      };
      using Elements = px::SlotArrays<float, typename O::element_slots>;
      using Rows = px::SlotArrays<float, px::row_slots<O>>;
      [&]<std::size_t... i>(std::index_sequence<i...>) {
        (add("element slot " + std::to_string(i), state.optimizer_state().template span<i>(), of,
             static_cast<std::int64_t>(state.optimizer_state().template span<i>().size()) / unit, number),
         ...);
      }
      (std::make_index_sequence<Elements::number>{});
      [&]<std::size_t... i>(std::index_sequence<i...>) {
        (add("row slot " + std::to_string(i), state.optimizer_state().template row_span<i>(), of,
             static_cast<std::int64_t>(state.optimizer_state().template row_span<i>().size()), number),
         ...);
      }
      (std::make_index_sequence<Rows::number>{});
    });
    return all;
  }
  std::string facts() {
    std::string text = "session " + std::to_string(session.steps()) + " epoch " + std::to_string(epoch) + " note " + note;
    for (double const value : history) text += " " + std::to_string(value);
    each([&](auto& variable, int) {
      text += "\n" + std::to_string(variable.state().steps()) + " " + px::settings_text(variable.optimizer());
    });
    return text;
  }

  px::Table made() const { return {.rows = rows, .width = width, .initial = px::uniform(first, 1, 3)}; }
  template <int o>
  static Deal<o> partitioner() {
    if constexpr (std::same_as<Deal<o>, px::Greedy>) {
      std::vector<double> weights(rows, 1.0);
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i % 10 == 3 ? 20.0 : 1.0 / static_cast<double>(1 + i);
      return px::Greedy{weights};
    } else {
      return {};
    }
  }

  px::Session<px::ThreadCommunicator> session;
  std::vector<std::vector<float>> memory;
  float first;
  int epoch = 0;
  std::uint64_t seed = 1;
  std::vector<double> history;
  std::vector<float> mine;
  std::string note;
  Layer<0> layer0{session, "layer_sgd", px::bind(memory[0], 4)};
  Layer<1> layer1{session, "layer_adam", px::bind(memory[1], 4)};
  Layer<2> layer2{session, "layer_lazy_adam", px::bind(memory[2], 4)};
  Layer<3> layer3{session, "layer_rowwise", px::bind(memory[3], 4)};
  Layer<4> layer4{session, "layer_ftrl", px::bind(memory[4], 4)};
  Layer<5> layer5{session, "layer_lamb", px::bind(memory[5], 4)};
  Table<0> table0{session, "table_sgd", made(), partitioner<0>()};
  Table<1> table1{session, "table_adam", made(), partitioner<1>()};
  Table<2> table2{session, "table_lazy_adam", made(), partitioner<2>()};
  Table<3> table3{session, "table_rowwise", made(), partitioner<3>()};
  Table<4> table4{session, "table_ftrl", made(), partitioner<4>()};
  Table<5> table5{session, "table_lamb", made(), partitioner<5>()};
};

// What all ranks hold together; `complaint`: of rows that none has, or that two have otherwise.
inline Logical merged(std::vector<std::vector<Held>> const& ranks, std::string& complaint) {
  Logical logical;
  for (std::size_t i = 0; i < ranks[0].size(); ++i) {
    std::size_t row_bytes = 0;
    for (auto const& arrays : ranks) row_bytes = std::max(row_bytes, arrays[i].row_bytes);
    auto const count = static_cast<std::size_t>(ranks[0][i].rows);
    std::vector<std::byte> whole(count * row_bytes);
    std::vector<bool> there(count);
    for (auto const& arrays : ranks) {
      Held const& held = arrays[i];
      for (std::size_t local = 0; local < held.numbers.size(); ++local) {
        auto const row = static_cast<std::size_t>(held.numbers[local]);
        std::byte const* const from = held.bytes.data() + local * row_bytes;
        if (there[row] && std::memcmp(whole.data() + row * row_bytes, from, row_bytes) != 0)
          complaint += held.name + ": ranks differ in row " + std::to_string(row) + "; ";
        there[row] = true;
        std::memcpy(whole.data() + row * row_bytes, from, row_bytes);
      }
    }
    for (std::size_t row = 0; row < count; ++row)
      if (!there[row] && row_bytes > 0) complaint += ranks[0][i].name + ": no rank has row " + std::to_string(row) + "; ";
    logical.arrays.emplace(ranks[0][i].name, std::move(whole));
  }
  return logical;
}

template <int model>
Found work(Task const& task) {
  Found found;
  auto const ranks = static_cast<std::size_t>(task.ranks);
  std::vector<std::vector<Held>> held(ranks);
  std::vector<std::string> facts(ranks);
  std::vector<std::vector<std::string>> lost(ranks);
  found.archives.resize(ranks);
  px::run_threads(
      task.ranks,
      [&](px::ThreadCommunicator& world) {
        auto const rank = static_cast<std::size_t>(world.rank());
        Model<model> trained{world, task.initial};
        trained.seed += rank;
        auto& session = trained.session;
        if (!task.restore_from.empty())
          lost[rank] = trained.with_all(
              [&](auto&&... things) { return session.restore(task.restore_from, task.restore_options, things...).lost; });
        for (int step = task.from; step < task.to; ++step) trained.step(step);
        if (!task.save_in.empty())
          trained.with_all([&](auto&&... things) { return session.save(task.save_in, task.save_options, things...); });
        held[rank] = trained.held();
        if (task.archive) trained.visit(found.archives[rank].writer());  // all rows are settled
        facts[rank] = trained.facts();
        if (rank == 0) found.decisions = session.decisions().size();
        if (task.archive) {
          facts[rank] += " own " + std::to_string(trained.seed);
          for (float const value : trained.mine) facts[rank] += " " + std::to_string(value);
        }
        session.finish();
      },
      {.deadline = std::chrono::seconds{60}});
  found.logical = merged(held, found.complaint);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (task.archive) found.logical.facts += facts[rank] + "\n";
    else if (facts[rank] != facts[0]) found.complaint += "rank " + std::to_string(rank) + ": " + facts[rank] + "; ";
    if (lost[rank] != lost[0]) found.complaint += "ranks have lost other things; ";
  }
  if (!task.archive) found.logical.facts = facts[0];
  found.lost = lost[0];
  return found;
}

}  // namespace parallax_test::worlds
