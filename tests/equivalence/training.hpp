// A small model trained by the library on any communicator: what its ranks see, step by step.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "diary.hpp"
#include "memory.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/memory/shared.hpp"
#include "parallax/parallax.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test {

namespace px = parallax;

// A user's own optimizer, with two slots of different types.
struct Tempered {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, std::int32_t>;
  double learning_rate = 0.125;
  auto at(std::int64_t) const {
    return [rate = learning_rate](auto& p, auto g, auto& squares, auto& count) noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      count += g != T{0};
      squares += g * g;
      if (count > 0) p -= static_cast<T>(rate) * g / (T{1} + squares / static_cast<T>(count));
    };
  }
};

inline oracle::Formula formula_of(px::Sgd const& o) { return {oracle::Rule::sgd, o.learning_rate, 0, 0, 0}; }
inline oracle::Formula formula_of(px::Momentum const& o) { return {oracle::Rule::momentum, o.learning_rate, 0, o.momentum, 0}; }
inline oracle::Formula formula_of(px::CenteredRmsProp const& o) {
  return {oracle::Rule::centered_rms_prop, o.learning_rate, o.epsilon, o.decay, 0};
}
inline oracle::Formula formula_of(px::ProximalSgd const& o) {
  return {.rule = oracle::Rule::proximal_sgd, .rate = o.learning_rate, .l1 = o.l1, .l2 = o.l2};
}
inline oracle::Formula formula_of(px::ProximalAdagrad const& o) {
  return {
      .rule = oracle::Rule::proximal_adagrad, .rate = o.learning_rate, .first = o.initial_accumulator, .l1 = o.l1, .l2 = o.l2};
}
inline oracle::Formula formula_of(px::Adagrad const& o) { return {oracle::Rule::adagrad, o.learning_rate, o.epsilon, 0, 0}; }
inline oracle::Formula formula_of(px::Adam const& o) {
  return {oracle::Rule::adam, o.learning_rate, o.epsilon, o.beta1, o.beta2};
}
inline oracle::Formula formula_of(px::LazyAdam const& o) {
  return {oracle::Rule::lazy_adam, o.learning_rate, o.epsilon, o.beta1, o.beta2};
}
inline oracle::Formula formula_of(px::Adadelta const& o) {
  return {oracle::Rule::adadelta, o.learning_rate, o.epsilon, o.decay, 0};
}
inline oracle::Formula formula_of(px::AdagradDa const& o) {
  return {.rule = oracle::Rule::adagrad_da, .rate = o.learning_rate, .second = o.initial_accumulator, .l1 = o.l1, .l2 = o.l2};
}
inline oracle::Formula formula_of(Tempered const& o) { return {oracle::Rule::tempered, o.learning_rate, 0, 0, 0}; }

// The types of a model: layers of one, a table of the other.
template <class DensePolicy, class RowPolicy, class O, class P = px::Cyclic, class Scalar = float, class Int = std::int64_t,
          class Space = px::HostSpace>
struct Model {
  using T = Scalar;
  using Index = Int;
  using Optimizer = O;
  using Partitioner = P;
  using Layer = px::Variable<px::Dense, DensePolicy, O, T, Space>;
  using Words = px::Variable<px::Sparse, RowPolicy, O, P, T, px::Index<Int>, Space>;
  using Exchange = typename RowPolicy::template exchange<px::Sparse>;

  static constexpr oracle::Rows rows = px::is_direct<Exchange>  ? oracle::Rows::occurrences
                                       : px::is_densified<Exchange> ? oracle::Rows::densified
                                                             : oracle::Rows::by_hops;
  static std::string name() {
    return std::string{DensePolicy::name} + " + " + std::string{RowPolicy::name} + ", " + std::string{P::name} + ", " +
           (sizeof(T) == 4 ? "float" : "double");
  }
};

// One training: how many ranks on which hosts, what is averaged, and what must not change a bit.
struct Case {
  int ranks = 1;
  std::vector<int> hosts = {};  // of each rank; empty: the flat topology
  px::Reduce reduce = px::Reduce::mean;
  bool integers = false;
  bool clips = false;
  std::uint64_t seed = 1;
  int steps = 50;
  bool overlap = true;             // start what the script lets start early, poll and name batches ahead; else all in `step`
  px::FusionOptions fusion = {256, 200, 24};
  std::int64_t pieces = 0;         // of the partitioner
  std::uint64_t delays = 0;        // ranks sleep at random moments, as this seed says; 0: never
  bool lent = false;               // the table lies in the user's memory
  bool in_place = false;           // dense gradients lie in a row, and may be overwritten
  Shape shape = {};

  std::string text() const {
    std::ostringstream out;
    out << ranks << " ranks";
    for (std::size_t r = 0; r < hosts.size(); ++r) out << (r ? "," : " on hosts ") << hosts[r];
    out << ", " << px::to_string(reduce) << (integers ? ", integers" : "") << (clips ? ", clipped" : "")
        << (overlap ? "" : ", nothing started early") << (lent ? ", lent memory" : "") << (in_place ? ", in place" : "") << ", "
        << pieces << " pieces, fusion " << fusion.fusion_bytes << "/" << fusion.direct_bytes << "/" << fusion.round_bytes
        << ", seed " << seed;
    return out.str();
  }
};

template <class M>
Workload<typename M::T> workload_of(Case const& c) {
  return {c.shape, c.seed, c.integers, !px::is_direct<typename M::Exchange>, c.clips};
}
template <class M>
oracle::Settings oracle_of(Case const& c) {
  auto const average = c.reduce == px::Reduce::mean  ? oracle::Average::mean
                       : c.reduce == px::Reduce::sum ? oracle::Average::sum
                                                     : oracle::Average::by_count;
  return {c.ranks, c.hosts, formula_of(typename M::Optimizer{}), average, M::rows};
}

template <px::Communicator C>
px::Topology<C> topology_of(C& world, Case const& c) {
  return c.hosts.empty() ? px::Topology<C>{world} : px::Topology<C>{world, c.hosts};
}

// The rows of a table that this rank holds, brought up to date.
template <class T, class Table>
Seen<T> held_rows(Table& table, int step) {
  Seen<T> seen{Seen<T>::What::held, step, 0, {}, {}};
  auto const mine = table.local();
  for (std::int64_t row = 0; row < mine.rows; ++row) seen.ids.push_back(table.global_row(row));
  seen.values = values_of(table.state().ops(), mine);
  return seen;
}

// One rank's training. The model, the gradients and the diary are its own; everything else is the session's.
template <class M, px::Communicator C>
class Trainer {
 public:
  using T = typename M::T;

  Trainer(C& world, Case const& c)
      : case_{c},
        workload_{workload_of<M>(c)},
        session_{topology_of(world, c), {c.fusion}},
        delays_{c.delays, static_cast<std::uint64_t>(session_.rank())},
        coins_{c.seed, 4},
        ops_{px::detail::ops_for<Space>(session_.topology())},
        words_{make_words()} {
    std::size_t const count = c.shape.layers.size();
    memory_.reserve(count);
    for (std::size_t layer = 0; layer < count; ++layer) {
      std::size_t const size = c.shape.layers[layer];
      memory_.emplace_back(ops_, session_.rank() == 0 ? workload_.first_values(layer, size) : std::vector<T>(size, T{-77}));
      layers_.push_back({session_, "layer " + std::to_string(layer), px::bind(memory_[layer].span()), c.reduce});
    }
    auto const table = workload_.first_values(count, static_cast<std::size_t>(c.shape.rows * c.shape.width));
    auto const mine = words_.local();
    for (std::int64_t row = 0; row < mine.rows; ++row)
      ops_.from_host(mine.row(row), table.data() + words_.global_row(row) * c.shape.width,
                     static_cast<std::size_t>(c.shape.width));
    words_.adopt();
  }

  Diary<T> train() {
    for (auto const& layer : layers_) session_.broadcast(layer);
    for (int step = 0; step < case_.steps; ++step) {
      delay();
      one_step(step);
      for (std::size_t layer = 0; layer < layers_.size(); ++layer)
        diary_.push_back({Seen<T>::What::layer, step + 1, layer, {}, memory_[layer].read()});
      if (step % 10 == 9 || step + 1 == case_.steps) diary_.push_back(held_rows<T>(words_, step + 1));
    }
    session_.finish();
    return std::move(diary_);
  }

 private:
  using Words = typename M::Words;
  using Space = typename Words::State::space;
  using Handle = px::PulledRows<typename Words::State>;
  using LayerUpdate = px::DenseUpdate<typename M::Layer::State>;
  using RowsUpdate = px::RowUpdate<typename Words::State, typename M::Index>;

  Words make_words() {
    px::Table const table{case_.shape.rows, case_.shape.width};
    typename M::Partitioner const partitioner{.pieces = case_.pieces};
    if (!case_.lent) return {session_, "words", table, partitioner, case_.reduce};
    if constexpr (Words::State::sharded) {
      auto const allocate = [this](std::int64_t rows) {
        lent_.resize(static_cast<std::size_t>(rows * case_.shape.width));
        return lent_.data();
      };

      return {session_, "words", px::bind_shard(table.rows, table.width, allocate), partitioner, case_.reduce};
    } else {
      lent_.resize(static_cast<std::size_t>(table.rows * table.width));
      return {session_, "words", px::bind_rows(lent_.span(), table.width), partitioner, case_.reduce};
    }
  }

  void one_step(int step) {
    Script const script = workload_.script(step);
    gradients_ = workload_.gradients(step, session_.rank());
    keep(layer_memory_), keep(row_gradients_);
    place_layer_gradients();
    for (auto const& batch : gradients_.batches) row_gradients_.emplace_back(ops_, batch.rows);
    for (auto& layer : layers_) layer.optimizer().learning_rate = typename M::Optimizer{}.learning_rate * script.rate;
    words_.optimizer().learning_rate = typename M::Optimizer{}.learning_rate * script.rate;

    bool const clipped = script.clip > 0, all_early = clipped && case_.overlap && script.early_layers > 0;
    std::size_t const early_layers = case_.overlap && !clipped ? script.early_layers : 0;
    std::size_t const early_batches = case_.overlap && !clipped ? script.early_batches : 0;
    handles_.clear();
    handles_.resize(script.batches.size());
    if (early_layers > 0) {
      session_.start(layer_updates(script, 0, early_layers));
      for (std::size_t u = 0; u < early_layers; ++u) scribble(layer_gradients_[u]);
    }
    session_.poll();
    delay();
    for (std::size_t b = 0; b < script.batches.size(); ++b)
      if (script.batches[b] != Way::ids) pull(step, b);
    for (std::size_t b = 0; b < early_batches; ++b) {
      session_.start(row_updates(script, b, b + 1));
      scribble(row_gradients_[b].span());
      if (b == 0) handles_[b] = {};  // an update in flight needs no handle
      session_.poll();
    }
    delay();
    if (case_.overlap) name_ahead(step);
    auto const layers = layer_updates(script, early_layers, script.layers.size());
    auto const rows = row_updates(script, early_batches, script.batches.size());
    if (all_early) {
      session_.start(px::clip_by_global_norm(script.clip, layers, rows));
      session_.poll();
      session_.step(std::vector<LayerUpdate>{}, std::vector<RowsUpdate>{});
    } else if (clipped) {
      session_.step(px::clip_by_global_norm(script.clip, layers, rows));
    } else {
      session_.step(layers, rows);
    }
  }

  // A range of updates of one type each, as the layers of a network are.
  std::vector<LayerUpdate> layer_updates(Script const& script, std::size_t first, std::size_t last) const {
    std::vector<LayerUpdate> updates;
    for (std::size_t u = first; u < last; ++u) {
      auto const& layer = layers_[script.layers[u]];
      if (case_.in_place) updates.push_back(px::grad(layer, px::in_place(layer_gradients_[u])));
      else updates.push_back(px::grad(layer, layer_gradients_[u]));
    }
    return updates;
  }
  // Each by itself, or as views of one buffer.
  void place_layer_gradients() {
    layer_gradients_.clear();
    if (!case_.in_place) {
      for (auto const& gradient : gradients_.layers)
        layer_gradients_.push_back(layer_memory_.emplace_back(ops_, gradient).span());
      return;
    }
    std::vector<T> all;
    for (auto const& gradient : gradients_.layers) all.insert(all.end(), gradient.begin(), gradient.end());
    T* at;
    if constexpr (Space::host_readable) {
      shared_.resize(all.size());
      std::ranges::copy(all, shared_.data());
      at = shared_.data();
    } else {
      at = layer_memory_.emplace_back(ops_, all).span().data();
    }
    for (auto const& gradient : gradients_.layers) layer_gradients_.emplace_back(at, gradient.size()), at += gradient.size();
  }
  std::vector<RowsUpdate> row_updates(Script const& script, std::size_t first, std::size_t last) {
    std::vector<RowsUpdate> updates;
    ids_.resize(script.batches.size());
    for (std::size_t b = first; b < last; ++b) {
      auto const& batch = gradients_.batches[b];
      ids_[b].assign(batch.ids.begin(), batch.ids.end());
      auto const rows = row_gradients_[b].span();
      if (script.batches[b] == Way::handle) updates.push_back(px::grad(handles_[b], rows));
      if (script.batches[b] == Way::ids) updates.push_back(px::grad(words_, ids_[b], rows));
      if (script.batches[b] == Way::distinct) updates.push_back(px::grad(handles_[b], px::distinct(rows)));
    }
    return updates;
  }
  // Memory of a device is given back when the training is over: ranks that share one would wait for each other.
  void keep(std::vector<Memory<T, Space>>& gradients) {
    if constexpr (!Space::host_readable) std::ranges::move(gradients, std::back_inserter(kept_));
    gradients.clear();
  }
  void scribble(std::span<T> copied) {
    std::vector<T> const marks(copied.size(), std::numeric_limits<T>::quiet_NaN());
    ops_.from_host(copied.data(), marks.data(), marks.size());
  }

  // Some batches of the next step, and of the one after it, whose rows will have changed again by then. All ranks alike.
  void name_ahead(int step) {
    for (int later = step + 1; later <= step + 2 && later < case_.steps; ++later) {
      Script const script = workload_.script(later);
      Gradients<T> const gradients = workload_.gradients(later, session_.rank());
      for (std::size_t b = 0; b < script.batches.size(); ++b) {
        if (script.batches[b] == Way::ids || find_named(later, b) != named_.end()) continue;
        if (!coins_.percent(later == step + 1 ? 50 : 20)) continue;
        auto const& ids = gradients.batches[b].ids;
        std::vector<typename M::Index> const named(ids.begin(), ids.end());
        if (on_device(later, b)) named_.push_back({later, b, session_.prefetch(words_, there(named))});
        else named_.push_back({later, b, session_.prefetch(words_, named)});
        if (coins_.percent(10)) named_.pop_back();
      }
    }
  }
  // Of tables on a device a rank names every second batch by indices in the device's memory, and another rank the others.
  bool on_device(int step, std::size_t b) const {
    return !Space::host_readable && (static_cast<std::size_t>(step + session_.rank()) + b) % 2 == 0;
  }
  // Indices in memory of the table's space, which stay until the training is over.
  auto there(std::vector<typename M::Index> const& ids) {
    auto const here = ids_there_.emplace_back(ops_, ids).span();
    if constexpr (Space::host_readable) return std::span<typename M::Index const>{here};
    else return px::on_device(here);
  }
  auto find_named(int step, std::size_t b) {
    return std::find_if(named_.begin(), named_.end(), [&](auto const& n) { return n.step == step && n.batch == b; });
  }

  void pull(int step, std::size_t b) {
    RowBatch<T>& batch = gradients_.batches[b];
    std::vector<typename M::Index> const ids(batch.ids.begin(), batch.ids.end());
    Handle& handle = handles_[b];
    if (auto const found = find_named(step, b); found != named_.end()) {
      handle = session_.pull(std::move(found->rows));
      named_.erase(found);
    } else if (on_device(step, b)) {
      handle = session_.pull(words_, there(ids));
    } else {
      handle = session_.pull(words_, ids);
    }
    auto const distinct = ascending_distinct(batch.ids);
    if (handle.indices() != ids.size() || handle.size() != distinct.size() || handle.inverse().size() != ids.size())
      throw std::runtime_error("a pull of " + std::to_string(distinct.size()) + " distinct indices brought " +
                               std::to_string(handle.size()));
    Seen<T> seen{Seen<T>::What::pulled, step, 0, batch.ids, {}};
    Seen<T> by_row{Seen<T>::What::pulled, step, 0, {}, values_of(ops_, handle.values())};
    for (std::size_t j = 0; j < handle.size(); ++j) by_row.ids.push_back(handle.id(j));
    std::vector<std::uint32_t> inverse(ids.size());
    ops_.to_host(inverse.data(), handle.inverse().data(), inverse.size());
    auto const width = static_cast<std::ptrdiff_t>(case_.shape.width);
    for (std::uint32_t const number : inverse) {
      auto const row = by_row.values.begin() + width * static_cast<std::ptrdiff_t>(number);
      seen.values.insert(seen.values.end(), row, row + width);
    }
    diary_.push_back(std::move(seen));
    if (batch.distinct) {
      reorder(batch, distinct, by_row.ids);
      row_gradients_[b].write(batch.rows);
    }
    diary_.push_back(std::move(by_row));
  }

  // From one row per distinct index ascending to the order of the handle.
  void reorder(RowBatch<T>& batch, std::vector<std::int64_t> const& ascending, std::vector<std::int64_t> const& wanted) const {
    auto const width = static_cast<std::size_t>(case_.shape.width);
    std::vector<T> rows;
    for (std::int64_t const id : wanted) {
      auto const at = static_cast<std::size_t>(std::ranges::find(ascending, id) - ascending.begin());
      if (at == ascending.size()) throw std::runtime_error("a handle names a row that was not pulled");
      auto const first = batch.rows.begin() + static_cast<std::ptrdiff_t>(at * width);
      rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(width));
    }
    batch.rows = std::move(rows);
  }

  void delay() {
    if (case_.delays && delays_.percent(30)) std::this_thread::sleep_for(std::chrono::microseconds{delays_.below(300)});
  }

  struct Named {
    int step;
    std::size_t batch;
    px::Prefetched<C, Handle> rows;
  };

  Case case_;
  Workload<T> workload_;
  px::Session<C> session_;
  Random delays_, coins_;
  px::RowOps<Space> ops_;
  std::vector<Memory<T, Space>> memory_;
  px::Buffer<T, Space> lent_;
  std::vector<typename M::Layer> layers_;
  Words words_;
  Gradients<T> gradients_;
  std::vector<Memory<T, Space>> layer_memory_, row_gradients_, kept_;
  px::SharedBuffer<T> shared_;
  std::vector<std::span<T>> layer_gradients_;
  std::vector<std::vector<typename M::Index>> ids_;
  std::deque<Memory<typename M::Index, Space>> ids_there_;
  std::vector<Handle> handles_;  // declared after the table: they go first
  std::vector<Named> named_;
  Diary<T> diary_;
};

// One model for each policy of a table, all four optimizers with state.
using MixedModels = std::tuple<Model<px::AllReduce, px::PsShard, px::Adam, px::Hash>,
                               Model<px::PsShard, px::AllGather, px::Adagrad, px::Cyclic, double, std::int32_t>,
                               Model<px::AllReduce, px::AllReduce, px::LazyAdam>,
                               Model<px::PsShard, baseline::NaivePs, Tempered, px::Block>>;

// Trains as one of the ranks of a communicator: what this rank saw.
template <class M>
Diary<typename M::T> train(px::AnyCommunicator& world, Case const& c) {
  return Trainer<M, px::AnyCommunicator>{world, c}.train();
}

// Trains on thread ranks; the diaries by rank.
template <class M>
std::vector<Diary<typename M::T>> train_on_threads(Case const& c) {
  std::vector<Diary<typename M::T>> diaries(static_cast<std::size_t>(c.ranks));
  px::run_threads(c.ranks, [&](px::ThreadCommunicator& world) {
    px::AnyCommunicator any{std::ref(world)};
    diaries[static_cast<std::size_t>(world.rank())] = train<M>(any, c);
  });
  return diaries;
}

}  // namespace parallax_test
