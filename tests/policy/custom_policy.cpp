#include "custom_policy.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "../../examples/custom_policy/top_k.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test::top_k {
namespace {

constexpr std::size_t k = 3, size = 40, others = 64;
using Numbers = std::vector<float>;

px::Topology<px::AnyCommunicator> topology_of(px::AnyCommunicator& world, bool hosts) {
  if (!hosts) return px::Topology{world};
  std::vector<int> of_rank;
  for (int rank = 0; rank < world.size(); ++rank) of_rank.push_back(rank % 2);
  return {world, of_rank};
}
bool same_bits(std::span<float const> a, std::span<float const> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// By the definition: the k largest, one after the other, of equal ones the first. Takes them out of `left`.
Numbers taken_from(Numbers& left) {
  Numbers sent(left.size(), 0.0f);
  std::vector<bool> chosen(left.size());
  for (std::size_t n = 0; n < std::min(k, left.size()); ++n) {
    std::size_t best = left.size();
    for (std::size_t i = 0; i < left.size(); ++i)
      if (!chosen[i] && (best == left.size() || std::fabs(left[i]) > std::fabs(left[best]))) best = i;
    chosen[best] = true;
    sent[best] = left[best];
    left[best] = 0;
  }
  return sent;
}

// What every rank has not sent, and the parameters of all.
struct Reference {
  Reference(int ranks, Numbers const& first)
      : left(static_cast<std::size_t>(ranks), Numbers(first.size(), 0.0f)), parameters{first} {}

  // One update of every rank: what is sent, by rank, and its sum in the order of ranks.
  Numbers sum_of(std::vector<Numbers> const& gradients) {
    Numbers sum(parameters.size(), 0.0f);
    sent.clear();
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      for (std::size_t i = 0; i < sum.size(); ++i) left[rank][i] += gradients[rank][i];
      sent.push_back(taken_from(left[rank]));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += sent[rank][i];
    }
    return sum;
  }
  void apply(Numbers const& sum, float divisor, float rate) {
    for (std::size_t i = 0; i < sum.size(); ++i) parameters[i] -= rate * (sum[i] / divisor);
  }

  std::vector<Numbers> left, sent;
  Numbers parameters;
};

struct MayThrow {
  bool throws = false;
  template <class Gradient>
  void operator()(Gradient const&) const {
    if (throws) throw std::runtime_error{"the transform has failed"};
  }
};

// A layer under TopK, beside a layer under AllReduce and a table that refusals need.
struct Model {
  Model(px::AnyCommunicator& world, bool hosts, px::Sgd const& rate, px::Reduce reduce, std::size_t of_layer = size)
      : session{topology_of(world, hosts)},
        memory(of_layer, 0.0f),
        layer{session, "layer", px::bind(memory), rate, reduce},
        other{session, "other", px::bind(other_memory), rate, reduce},
        table{session, "table", {5, 2, px::constant(0)}, rate} {}

  using Layer = px::Variable<px::Dense, TopK<k>, px::Sgd>;
  using Update = decltype(px::grad(std::declval<Layer const&>(), std::declval<Numbers const&>()).transform(MayThrow{}));

  Update update(Numbers const& gradient, bool throws = false) const {
    return px::grad(layer, gradient).transform(MayThrow{throws});
  }
  bool step(std::vector<Update> const& updates, std::vector<int> const& ids = {}) {
    return session.step(updates, px::grad(other, of_other), px::grad(table, ids, Numbers(2 * ids.size(), 1.0f)));
  }
  std::span<float const> left() const { return layer.state().policy_state.values(); }

  px::Session<px::AnyCommunicator> session;
  Numbers memory, other_memory = Numbers(others, 0.0f), of_other = Numbers(others, 0.0f);
  Layer layer;
  px::Variable<px::Dense, px::Sgd> other;
  px::Variable<px::Sparse, px::Sgd> table;
};

// A gradient of every rank. `integers`: small ones, with many ties.
std::vector<Numbers> gradients_of(unsigned seed, int step, int ranks, bool integers, std::size_t count = size) {
  std::vector<Numbers> all;
  for (int rank = 0; rank < ranks; ++rank) {
    std::mt19937 random{seed + static_cast<unsigned>(1000 * step + rank)};
    Numbers& gradient = all.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      auto const whole = static_cast<float>(static_cast<int>(random() % 15) - 7);
      gradient.push_back(integers ? whole : std::ldexp(whole + 1 / static_cast<float>(1 + random() % 97),
                                                        static_cast<int>(random() % 30) - 15));
    }
  }
  return all;
}

struct Notes {
  explicit Notes(int its_rank) : rank{its_rank} {}
  void check(bool right, std::string const& what) {
    if (!right) text += "rank " + std::to_string(rank) + ": " + what + '\n';
  }
  int rank;
  std::string text;
};

}  // namespace

std::string every_step(px::AnyCommunicator& world, bool hosts, unsigned seed) {
  Notes notes{world.rank()};
  auto const rank = static_cast<std::size_t>(world.rank());
  for (std::size_t const count : {size, std::size_t{2}}) {  // of two elements all are sent
    Model model{world, hosts, {.learning_rate = 0.5}, px::Reduce::mean, count};
    Reference reference{world.size(), model.memory};
    for (int step = 0; step < 24; ++step) {
      std::string const where = "step " + std::to_string(step) + " of " + std::to_string(count) + " elements: ";
      auto const first = gradients_of(seed, 2 * step, world.size(), step % 5 == 0, count);
      Numbers before(model.left().begin(), model.left().end());
      before.resize(count);
      Numbers sum = reference.sum_of(first);
      Numbers all_sent = reference.sent[rank], given = before;
      for (std::size_t i = 0; i < count; ++i) given[i] += first[rank][i];
      if (step % 3 == 0) {
        model.step({model.update(first[rank])});
      } else {  // two updates of one variable, both in the step, or one of them started
        auto const second = gradients_of(seed, 2 * step + 1, world.size(), step % 5 == 0, count);
        Numbers left = given;
        for (std::size_t i = 0; i < count; ++i) left[i] -= all_sent[i];
        Numbers const sum_of_second = reference.sum_of(second);
        for (std::size_t i = 0; i < count; ++i) {
          sum[i] += sum_of_second[i];
          given[i] = left[i] + second[rank][i];
        }
        all_sent = reference.sent[rank];
        if (step % 3 == 1) {
          model.step({model.update(first[rank]), model.update(second[rank])});
        } else {
          model.session.start(std::vector{model.update(first[rank])});
          model.step({model.update(second[rank])});
        }
      }
      reference.apply(sum, static_cast<float>(world.size()), 0.5f);
      notes.check(same_bits(model.memory, reference.parameters), where + "the parameters are not what was sent makes of them");
      notes.check(same_bits(model.left(), reference.left[rank]), where + "what is left differs");
      bool conserved = model.left().size() == count;
      for (std::size_t i = 0; conserved && i < count; ++i) conserved = given[i] == all_sent[i] + model.left()[i];
      notes.check(conserved, where + "residual + gradient is not what was sent and what is left");
    }
    model.session.finish();
  }
  return notes.text;
}

std::string whole_runs(px::AnyCommunicator& world, bool hosts, unsigned seed) {
  Notes notes{world.rank()};
  auto const rank = static_cast<std::size_t>(world.rank());
  Model model{world, hosts, {.learning_rate = 1}, px::Reduce::sum, others};
  Numbers all(others, 0.0f);
  for (int step = 0; step < 50; ++step) {
    auto const gradients = gradients_of(seed, step, world.size(), true, others);
    for (Numbers const& gradient : gradients)
      for (std::size_t i = 0; i < others; ++i) all[i] += gradient[i];
    if (step % 4 == 3) model.session.start(std::vector{model.update(gradients[rank])});
    model.step(step % 4 == 3 ? std::vector<Model::Update>{} : std::vector{model.update(gradients[rank])});
  }
  model.of_other.assign(model.left().begin(), model.left().end());  // `other` becomes minus what all have left
  model.step({});
  bool something_left = false;
  for (std::size_t i = 0; i < others; ++i) {
    notes.check(-model.memory[i] - model.other_memory[i] == all[i],
                "element " + std::to_string(i) + ": what was applied and what is left are not all gradients");
    something_left |= model.other_memory[i] != 0;
  }
  notes.check(something_left, "nothing was left");
  model.session.finish();
  return notes.text;
}

std::string refusals(px::AnyCommunicator& world, bool hosts, unsigned seed) {
  enum Case { wrong_size, bad_id, transform, infinity, no_number, infinity_told, started, started_wrong_size, of_two,
              other_operation, cases };
  static constexpr char const* names[] = {
      "a gradient of a wrong size", "a bad id", "a transform that throws", "an infinity, skipped", "what is no number, skipped",
      "an infinity, refused", "a started update", "a started gradient of a wrong size", "two updates", "another operation"};
  Notes notes{world.rank()};
  auto const rank = static_cast<std::size_t>(world.rank());
  Model model{world, hosts, {.learning_rate = 0.5}, px::Reduce::mean};
  Reference reference{world.size(), model.memory};
  int number = 0;
  auto const train = [&](std::string const& name) {
    auto const gradients = gradients_of(seed, number++, world.size(), false);
    notes.check(model.step({model.update(gradients[rank])}), name + ": a good step was not applied");
    reference.apply(reference.sum_of(gradients), static_cast<float>(world.size()), 0.5f);
    notes.check(same_bits(model.memory, reference.parameters) && same_bits(model.left(), reference.left[rank]),
                name + ": training goes on otherwise");
  };
  train("the first step");
  for (int const culprit : {0, world.size() - 1})
    for (int at = 0; at < cases; ++at) {
      if (at == other_operation && world.size() == 1) continue;
      bool const mine = world.rank() == culprit;
      std::string const name = std::string{names[at]} + " on rank " + std::to_string(culprit);
      Numbers gradient = gradients_of(seed, number++, world.size(), false)[rank], more = gradient;
      if (mine && (at == wrong_size || at == started_wrong_size)) gradient.pop_back();
      if (mine && (at == infinity || at == infinity_told)) gradient[17] = -std::numeric_limits<float>::infinity();
      if (mine && at == no_number) gradient[31] = std::numeric_limits<float>::quiet_NaN();
      std::vector<int> ids;
      if (mine && (at == bad_id || at == started || at == of_two)) ids = {1, 5};
      std::vector<Model::Update> updates{model.update(gradient, mine && at == transform)};
      if (at == of_two) updates.push_back(model.update(more));
      model.session.options().non_finite = at == infinity || at == no_number ? px::NonFinite::skip_step
                                           : at == infinity_told             ? px::NonFinite::error
                                                                             : px::NonFinite::propagate;
      Numbers const parameters = model.memory, left(model.left().begin(), model.left().end());
      auto const steps = model.layer.steps();
      std::string outcome = "was applied";
      try {
        if (at == started || at == started_wrong_size || at == other_operation) {
          model.session.start(updates);
          updates = {model.update(more)};
        }
        if (at == other_operation && mine) static_cast<void>(model.session.pull(model.table, std::vector<int>{1}));
        else if (!model.step(updates, ids)) outcome = "skipped";
      } catch (px::Error const& error) {
        outcome = to_string(error.code());
      }
      static constexpr char const* expected[] = {"invalid argument", "bad id", "exception in user code", "skipped", "skipped",
                                                 "non-finite gradient", "bad id", "invalid argument", "bad id",
                                                 "mismatch between ranks"};
      notes.check(outcome == expected[at], name + " was answered by: " + outcome);
      notes.check(same_bits(model.memory, parameters), name + " has changed parameters");
      notes.check(same_bits(model.left(), left), name + " has changed what is left");
      notes.check(model.layer.steps() == steps, name + " was counted as a step");
      model.session.options().non_finite = px::NonFinite::propagate;
      train("after " + name);
    }
  model.session.finish();
  return notes.text;
}

std::string joined_ranks(px::AnyCommunicator& world, bool hosts, unsigned seed) {
  Notes notes{world.rank()};
  auto const rank = static_cast<std::size_t>(world.rank());
  Model model{world, hosts, {.learning_rate = 0.5}, px::Reduce::mean};
  Reference reference{world.size(), model.memory};
  int number = 0;  // rank r has r + 2 batches; one that has joined sends of what it has left
  Numbers parameters, left;
  bool applied = true;
  auto const iteration = [&](bool joined) {
    auto gradients = gradients_of(seed, number, world.size(), false);
    if (joined) gradients[rank].assign(size, std::numeric_limits<float>::quiet_NaN());  // is not looked at
    parameters = model.memory;
    left.assign(model.left().begin(), model.left().end());
    applied = model.step({model.update(gradients[rank])});
    if (!applied) return;
    for (std::size_t r = 0; r < gradients.size(); ++r)
      if (number >= static_cast<int>(r) + 2) gradients[r].assign(size, 0.0f);
    reference.apply(reference.sum_of(gradients), static_cast<float>(world.size()), 0.5f);
    ++number;
  };
  while (number < world.rank() + 2) iteration(false);
  model.session.join([&] { iteration(true); });
  notes.check(number == world.size() + 1, "other steps were applied");
  notes.check(!applied && same_bits(model.memory, parameters), "the step of ranks that all have joined has changed parameters");
  notes.check(same_bits(model.left(), left), "the step of ranks that all have joined has changed what is left");
  notes.check(same_bits(model.memory, reference.parameters), "the parameters differ");
  notes.check(same_bits(model.left(), reference.left[rank]), "what is left differs");
  model.session.finish();
  return notes.text;
}

namespace {

template <class T, std::size_t most>
void check_bytes(px::AnyCommunicator& world, bool hosts, Notes& notes) {
  px::Session session{topology_of(world, hosts)};
  std::vector<T> memory(size);
  px::Variable<px::Dense, TopK<most>, px::Sgd, T> layer{session, "layer", px::bind(memory)};
  constexpr int steps = 9;
  for (int step = 0; step < steps; ++step) {
    Numbers const mine = gradients_of(0, step, world.size(), true)[static_cast<std::size_t>(world.rank())];
    session.step(px::grad(layer, std::vector<T>(mine.begin(), mine.end())));
  }
  constexpr std::size_t pairs = most < size ? most : size, bytes = pairs * (4 + sizeof(T));
  auto const ranks = static_cast<std::size_t>(world.size());
  std::size_t elsewhere = 0;  // ranks of the other host, or all but this one
  for (int rank = 0; rank < world.size(); ++rank) elsewhere += hosts ? rank % 2 != world.rank() % 2 : rank != world.rank();
  notes.check(session.traffic().payload_sent() == steps * (ranks - 1) * bytes,
              "it sent " + std::to_string(session.traffic().payload_sent()) + " bytes");
  notes.check(session.traffic().payload_sent_between_hosts() == steps * elsewhere * bytes,
              "it sent " + std::to_string(session.traffic().payload_sent_between_hosts()) + " bytes to other hosts");
  double const n = world.size();
  char predicted[48];
  std::snprintf(predicted, sizeof predicted, "%.4g", (n - (hosts ? n / 2 : 1)) * static_cast<double>(bytes) / 1e6);
  std::string const table = session.describe();
  std::size_t const row = table.find('\n') + 1;
  std::istringstream line{table.substr(row, table.find('\n', row) - row)};
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  notes.check(words.size() == 10 && words[0] == "layer" && words[1] == "Dense" && words[2] == "TopK" && words[3] == "TopK" &&
                  words[4] == std::to_string(size) && words[8] == predicted, "the description is:\n" + session.describe());
  session.finish();
}

}  // namespace

std::string bytes_sent(px::AnyCommunicator& world, bool hosts, unsigned) {
  Notes notes{world.rank()};
  check_bytes<float, k>(world, hosts, notes);
  check_bytes<double, 50>(world, hosts, notes);
  return notes.text;
}

// Sums of 64 elements, all of one magnitude, between the two layers: norm 8 times that. In the first step every rank sends
// three elements ±8 of its own and keeps three of 2, which it sends in the second.
std::string clipped(px::AnyCommunicator& world, bool hosts, unsigned) {
  Notes notes{world.rank()};
  auto const ranks = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
  Model model{world, hosts, {.learning_rate = 1}, px::Reduce::sum};
  std::size_t const rest = others - k * ranks;
  auto const step = [&](Numbers const& gradient, float magnitude, double limit) {
    for (std::size_t i = 0; i < rest; ++i)
      model.of_other[i] = rank == 0 ? (i % 2 ? -magnitude : magnitude) - static_cast<float>(ranks - 1) : 1.0f;
    std::vector<Model::Update> const updates{model.update(gradient)};
    model.session.step(px::clip_by_global_norm(limit, updates, px::grad(model.other, model.of_other)));
  };
  Numbers gradient(size, 0.0f), layer(size, 0.0f), other(others, 0.0f);
  for (std::size_t i = 0; i < k; ++i) {
    gradient[k * rank + i] = i == 1 ? -8 : 8;
    gradient[20 + k * rank + i] = 2;
    for (std::size_t r = 0; r < ranks; ++r) {
      layer[k * r + i] = i == 1 ? 2 : -2;  // 8 · 16 / 64
      layer[20 + k * r + i] = -1;          // 2 · 8 / 16
    }
  }
  for (std::size_t i = 0; i < rest; ++i) other[i] = i % 2 ? 3 : -3;
  step(gradient, 8, 16);
  step(Numbers(size, 0.0f), 2, 8);
  notes.check(model.memory == layer, "the layer under TopK differs");
  notes.check(model.other_memory == other, "the layer under AllReduce differs");
  notes.check(std::ranges::count(model.left(), 0.0f) == static_cast<long>(size), "something is left");
  step(gradient, 8, 64);  // not above the limit
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t r = 0; r < ranks; ++r) layer[k * r + i] += i == 1 ? 8 : -8;
  notes.check(model.memory == layer, "what is within the limit was scaled");
  model.session.finish();
  return notes.text;
}

}  // namespace parallax_test::top_k
