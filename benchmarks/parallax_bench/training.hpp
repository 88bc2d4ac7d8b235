// A training of a workload under one policy, by a session of the library; templates on the policy and the scalar.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/parallax.hpp"

#include "ranks.hpp"
#include "workload.hpp"

namespace bench {

struct Checked {
  std::int64_t wrong = 0;  // elements that are not what they must be
  double checksum = 0;     // this rank's share of expected_checksum
};

// When a batch is named, and whether the sums may lie over the gradients.
enum class Manner : unsigned char { plain, ahead, in_place };

// On one rank. `step` and `check` are collective.
class Training {
 public:
  virtual ~Training() = default;
  virtual void prepare() {}  // before each step, and not a part of it
  virtual void step() = 0;
  virtual px::Traffic traffic() const = 0;
  // How the rows of each table travel now, where the policy chooses; else nothing.
  virtual std::vector<std::size_t> chosen() const = 0;
  virtual std::vector<px::Decision> decisions() const { return {}; }
  // Whose operations a trace shows; null where there is no session.
  virtual px::Session<px::AnyCommunicator>* traced() { return nullptr; }
  virtual Checked check() = 0;
  virtual void finish() = 0;
};

// The gradients of this rank, and how often each batch was trained on.
template <class T>
struct Gradients {
  std::vector<T> dense;              // of all tensors, one behind the other
  std::vector<std::vector<T>> rows;  // by table, one row for each id of the largest batch
  std::vector<std::int64_t> times;   // by batch
  std::int64_t steps = 0;

  Gradients(Workload const& work, int rank) : dense(work.dense_elements()), times(at(work.batches)) {
    T values[period];
    for (std::uint64_t i = 0; i < period; ++i) values[i] = static_cast<T>(gradient_value(i));
    for (std::size_t i = 0; i < dense.size(); ++i) dense[i] = values[dense_phase(i, rank) % period];
    for (std::size_t t = 0; t < work.tables.size(); ++t) {
      auto const width = at(work.tables[t].width);
      auto& table = rows.emplace_back(work.streams[t].largest() * width);
      for (std::size_t i = 0; i * width < table.size(); ++i)
        for (std::size_t c = 0; c < width; ++c) table[i * width + c] = values[(row_phase(i, rank) + c) % period];
    }
  }

  std::size_t next_batch() {
    std::size_t const batch = at(steps++) % times.size();
    ++times[batch];
    return batch;
  }
};

template <class Policy, class T, Manner manner = Manner::plain>
class SessionTraining final : public Training {
  using Layer = px::Variable<px::Dense, Policy, px::Sgd, T>;
  using Words = px::Variable<px::Sparse, Policy, px::Sgd, ChosenPartitioner, T>;
  using Pulled = px::PulledRows<typename Words::State>;
  static constexpr bool ahead = manner == Manner::ahead, in_place = manner == Manner::in_place;
  static auto update(Layer const& layer, std::span<T> gradient) {
    if constexpr (in_place) return px::grad(layer, px::in_place(gradient));
    else return px::grad(layer, std::span<T const>{gradient});
  }
  using LayerUpdate = decltype(update(std::declval<Layer const&>(), std::span<T>{}));
  using WordsUpdate = decltype(px::grad(std::declval<Pulled const&>(), std::declval<std::span<T const> const&>()));

 public:
  // Where it is `ahead`, the batch of the next step is named before a step, and pulled after it.
  SessionTraining(World const& world, px::AnyCommunicator& comm, Workload const& work)
      : work_{&work},
        rank_{comm.rank()},
        gradients_{work, rank_},
        session_{world.topology(comm), world.options},
        parameters_(work.dense_elements(), static_cast<T>(first_value)) {
    std::size_t begin = 0;
    layers_.reserve(work.dense.size());
    for (auto const& tensor : work.dense) {
      std::span<T> const values{parameters_.data() + begin, at(tensor.elements)};
      layers_.emplace_back(session_, tensor.name, px::bind(values), px::Sgd{.learning_rate = learning_rate}, px::Reduce::sum);
      begin += values.size();
    }
    begin = 0;
    for (auto const& layer : layers_) {
      std::span<T> const gradient{gradients_.dense.data() + begin, layer.values().size()};
      layer_updates_.push_back(update(layer, gradient));
      begin += gradient.size();
    }
    tables_.reserve(work.tables.size());
    for (std::size_t t = 0; t < work.tables.size(); ++t)
      tables_.emplace_back(session_, work.tables[t].name,
                           px::Table{work.tables[t].rows, work.tables[t].width, px::constant(first_value)},
                           px::Sgd{.learning_rate = learning_rate}, work.partitioners[t], px::Reduce::sum);
    pulled_.reserve(tables_.size());
    table_updates_.reserve(tables_.size());
  }

  void prepare() override {
    if constexpr (in_place) {
      if (whole_.empty()) whole_ = gradients_.dense;
      std::copy(whole_.begin(), whole_.end(), gradients_.dense.begin());
    }
  }

  void step() override {
    std::size_t const batch = gradients_.next_batch();
    if (!ahead || pulled_.empty()) pull(batch);
    table_updates_.clear();
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      std::span<T const> const rows{gradients_.rows[t].data(), ids(t, batch).size() * at(work_->tables[t].width)};
      table_updates_.push_back(px::grad(pulled_[t], rows));
    }
    if (ahead) name_batch((batch + 1) % at(work_->batches));
    session_.step(layer_updates_, table_updates_);
    if (ahead) pull_named();
  }

  px::Traffic traffic() const override { return session_.traffic(); }
  std::vector<std::size_t> chosen() const override {
    std::vector<std::size_t> result;
    if constexpr (Words::State::adaptive)
      for (auto const& table : tables_) result.push_back(table.state().choice());
    return result;
  }
  std::vector<px::Decision> decisions() const override { return session_.decisions(); }
  px::Session<px::AnyCommunicator>* traced() override { return &session_; }
  px::Session<px::AnyCommunicator>& session() { return session_; }
  Words& table(std::size_t number) { return tables_[number]; }

  Checked check() override {
    Checked result;
    result.wrong = wrong_dense(parameters_, work_->ranks, gradients_.steps);
    bool const speaks = rank_ == 0;
    if (speaks) result.checksum = checksum_of(parameters_.data(), parameters_.size(), 0);
    if (!tables_.empty()) pull(0);
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      ExpectedRows const expected{*work_, t, gradients_.times};
      Words& table = tables_[t];
      auto const local = table.local();
      auto const width = table.width();
      for (std::int64_t row = 0; row < table.local_rows(); ++row) {
        std::int64_t const global = table.global_row(row);
        result.wrong += expected.wrong(global, local.row(row), width);
        if (table.state().shards() || speaks) result.checksum += checksum_of(local.row(row), at(width), at(global * width));
      }
      for (std::size_t i = 0; i < pulled_[t].size(); ++i)
        result.wrong += expected.wrong(pulled_[t].id(i), pulled_[t].values().row(static_cast<std::int64_t>(i)), width);
    }
    return result;
  }

  void finish() override { session_.finish(); }

 private:
  Ids const& ids(std::size_t table, std::size_t batch) const { return work_->streams[table].ids[at(rank_)][batch]; }

  // Tables share an exchange in groups of four.
  void pull(std::size_t batch) {
    pulled_.clear();
    std::size_t table = 0;
    for (; tables_.size() - table >= 4; table += 4) pull_together(table, batch, std::make_index_sequence<4>{});
    if (tables_.size() - table == 3) pull_together(table, batch, std::make_index_sequence<3>{});
    if (tables_.size() - table == 2) pull_together(table, batch, std::make_index_sequence<2>{});
    if (tables_.size() - table == 1) pulled_.push_back(session_.pull(tables_[table], ids(table, batch)));
  }
  template <std::size_t... I>
  void pull_together(std::size_t first, std::size_t batch, std::index_sequence<I...>) {
    auto handles = session_.pull(tables_[first + I].at(ids(first + I, batch))...);
    (pulled_.push_back(std::move(std::get<I>(handles))), ...);
  }

  void name_batch(std::size_t batch) {
    for (std::size_t t = 0; t < tables_.size(); ++t) named_.push_back(session_.prefetch(tables_[t], ids(t, batch)));
  }
  void pull_named() {
    table_updates_.clear();
    pulled_.clear();
    for (auto& batch : named_) pulled_.push_back(session_.pull(std::move(batch)));
    named_.clear();
  }

  Workload const* work_;
  int rank_;
  Gradients<T> gradients_;
  std::vector<T> whole_;  // the dense gradients, where a step overwrites them
  px::Session<px::AnyCommunicator> session_;
  std::vector<T> parameters_;
  std::vector<Layer> layers_;
  std::vector<Words> tables_;
  std::vector<LayerUpdate> layer_updates_;
  std::vector<WordsUpdate> table_updates_;
  std::vector<Pulled> pulled_;
  std::vector<px::Prefetched<px::AnyCommunicator, Pulled>> named_;
};

}  // namespace bench
