// Trainings that are cut in two, the state of the variable carried over by an archive, beside ones that are not.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/variable/memory_archive.hpp"

namespace parallax_test::state {

namespace px = parallax;

inline constexpr std::int64_t rows = 23, width = 3;
inline constexpr int steps = 20, cut = 10;

template <class... O>
struct Optimizers {};
using All = Optimizers<px::Sgd, px::Adagrad, px::RowwiseAdagrad, px::Adam, px::LazyAdam, px::AdamW, px::LazyAdamW, px::Momentum,
                       px::LazyMomentum, px::Nesterov, px::LazyNesterov, px::RmsProp, px::LazyRmsProp, px::Lamb, px::LazyLamb,
                       px::Ftrl, px::WeightDecay<px::Lamb>, px::WeightDecay<px::RowwiseAdagrad>, px::LazyWeightDecay<px::Sgd>,
                       px::Adadelta, px::CenteredRmsProp, px::ProximalSgd, px::ProximalAdagrad, px::AdagradDa>;

template <class O>
double& rate_of(O& optimizer) {
  if constexpr (requires { optimizer.learning_rate; }) return optimizer.learning_rate;
  else return rate_of(optimizer.optimizer);
}

// The model moves the table when the variable has taken so many steps.
inline px::AutoOptions moving_after(int first_step) {
  px::Costs costs;
  costs.round = 1;  // AllGather has the fewest
  return {.first_step = first_step, .interval = 100, .costs = costs};
}

struct Plan {
  px::AutoOptions choice = moving_after(2);
  bool settled = false;  // all rows at the cut
};

// Numbers that are alike wherever a step is taken again. Steps touch few rows, so that some are passed by for long.
inline std::mt19937_64 random_of(int step, int rank) { return std::mt19937_64{static_cast<std::uint64_t>(100 * step + rank)}; }
inline std::vector<float> gradient_of(std::mt19937_64& random, std::size_t count) {
  std::vector<float> gradient(count);
  for (float& g : gradient) g = static_cast<float>(random() % 33) / 8 - 2;
  return gradient;
}

template <class Policy, class O, class C>
struct SparseTraining {
  SparseTraining(C& comm, Plan const& plan, double initial)
      : session{comm, {.choice = plan.choice}}, variable{session, "variable", {rows, width, px::uniform(initial, 1, 3)}} {}

  void step(int number) {
    auto random = random_of(number, session.rank());
    std::vector<std::int64_t> ids(random() % 4);
    for (auto& id : ids) id = static_cast<std::int64_t>(random() % rows);
    session.step(px::grad(variable, ids, gradient_of(random, ids.size() * width)));
  }
  void settle() { static_cast<void>(variable.local()); }
  std::vector<float> values() {
    auto const table = variable.local();
    return {table.data, table.data + table.rows * table.width};
  }

  px::Session<C> session;
  px::Variable<px::Sparse, Policy, O> variable;
};

template <class Policy, class O, class C>
struct DenseTraining {
  DenseTraining(C& comm, Plan const&, double initial)
      : memory(30, static_cast<float>(initial)), session{comm}, variable{session, "variable", px::bind(memory, 3)} {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] += static_cast<float>(i) / 8;
  }

  void step(int number) {
    auto random = random_of(number, session.rank());
    session.step(px::grad(variable, gradient_of(random, memory.size())));
  }
  void settle() {}
  std::vector<float> values() { return memory; }

  std::vector<float> memory;
  px::Session<C> session;
  px::Variable<px::Dense, Policy, O> variable;
};

template <class Training>
void train(Training& training, int from, int to) {
  for (int step = from; step < to; ++step) {
    if (step == 4 || step == 8 || step == 13) rate_of(training.variable.optimizer()) /= 1.5;
    training.step(step);
  }
}

// What a rank ends with: its rows, and every item of the settled variable.
struct End {
  std::vector<float> values;
  px::MemoryArchive archive;
};
template <class Training>
End end_of(Training& training) {
  End end{training.values(), {}};
  training.variable.visit(end.archive.writer());
  return end;
}

inline std::string difference(End const& whole, End const& cut_in_two) {
  auto const a = whole.archive.records(), b = cut_in_two.archive.records();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!(a[i] == b[i])) return "item " + a[i].name + " differs";
  if (a.size() != b.size() || a.empty()) return "other items";
  if (whole.values.size() != cut_in_two.values.size()) return "other rows";
  if (!whole.values.empty() && std::memcmp(whole.values.data(), cut_in_two.values.data(), 4 * whole.values.size()) != 0)
    return "the values differ";
  return {};
}

// Collective. Empty, or what differs on this rank.
template <class Training, class C>
std::string complaint_on(C& comm, Plan const& plan) {
  End whole, parts;
  px::MemoryArchive archive;
  {
    Training training{comm, plan, 0};
    train(training, 0, steps);
    whole = end_of(training);
    training.session.finish();
  }
  {
    Training training{comm, plan, 0};
    train(training, 0, cut);
    if (plan.settled) training.settle();
    training.variable.visit(archive.writer());
    training.session.finish();
  }
  {
    Training training{comm, plan, 0.5};  // other first values, and the optimizer's default settings
    training.variable.visit(archive.reader());
    train(training, cut, steps);
    parts = end_of(training);
    training.session.finish();
  }
  return difference(whole, parts);
}

template <class Training>
std::string complaint(int ranks, Plan const& plan = {}) {
  std::vector<std::string> of_rank(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    of_rank[static_cast<std::size_t>(world.rank())] = complaint_on<Training>(world, plan);
  }, {.deadline = std::chrono::seconds{30}});
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank)
    if (!of_rank[rank].empty()) return "rank " + std::to_string(rank) + ": " + of_rank[rank];
  return {};
}

// Of every optimizer: its name and complaint, where there is one.
template <template <class, class, class> class Training, class Policy, class... O>
std::string complaints(Optimizers<O...>) {
  std::string text;
  auto const note = [&](std::string const& name, int ranks, std::string const& said) {
    if (!said.empty()) text += name + " on " + std::to_string(ranks) + ": " + said + '\n';
  };
  for (int const ranks : {1, 3})
    (note(px::optimizer_name<O>(), ranks, complaint<Training<Policy, O, px::ThreadCommunicator>>(ranks)), ...);
  return text;
}

}  // namespace parallax_test::state
