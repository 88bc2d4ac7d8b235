// What is trained: the tensors and tables of a model, what each rank asks of them, and the results that must come out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "count.hpp"
#include "models.hpp"
#include "partitioners.hpp"

namespace bench {

// Gradients are small multiples of 1/64 and the learning rate is 1/2, so that every sum is exact in float, in any order.
inline constexpr double learning_rate = 0.5, first_value = 1.0;
inline constexpr std::uint64_t period = 9;
constexpr double gradient_value(std::uint64_t phase) { return (real(phase % period) - 4) / 64; }
constexpr std::uint64_t dense_phase(std::size_t element, int rank) { return element + 3 * at(rank); }
constexpr std::uint64_t row_phase(std::size_t position, int rank) { return 7 * position + 5 * at(rank); }

// The same in all processes. Batch b of rank r asks table t for streams[t].ids[r][b].
struct Workload {
  int ranks = 1, batches = 1;
  std::vector<Tensor> dense;
  std::vector<TableShape> tables;
  std::vector<Stream> streams;
  std::vector<ChosenPartitioner> partitioners;  // of the tables

  std::size_t dense_elements() const {
    std::size_t sum = 0;
    for (auto const& tensor : dense) sum += at(tensor.elements);
    return sum;
  }
};

// How one table is asked.
struct Asking {
  double skew = 1;
  std::int64_t draws = 0, distinct = 1;  // draws with repetition, or, if 0, so many different rows each once
  Ids const* recorded = nullptr;
};

inline Stream make_stream(std::int64_t rows, Asking const& asking, Zipf const& zipf, int ranks, int batches,
                          std::uint64_t seed) {
  Stream stream;
  stream.ids.resize(at(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    for (int batch = 0; batch < batches; ++batch) {
      Random random{seed, rank, batch};
      Ids ids;
      if (asking.recorded) {  // consecutive pieces of the file, from the beginning again after its end
        auto const& all = *asking.recorded;
        auto const length = at(asking.draws), first = at(batch * ranks + rank) * length + at(seed);
        for (std::size_t i = 0; i < length; ++i) {
          std::int64_t const id = all[(first + i) % all.size()];
          if (id < 0 || id >= rows)
            throw Refusal{"--ids: the file has id " + std::to_string(id) + " and the table " + std::to_string(rows) + " rows"};
          ids.push_back(id);
        }
      } else if (asking.draws == 0) {
        ids = zipf.distinct(asking.distinct, random);
      } else {
        for (std::int64_t i = 0; i < asking.draws; ++i) ids.push_back(zipf.draw(random));
      }
      stream.ids[at(rank)].push_back(std::move(ids));
    }
  return stream;
}

// How many of the recorded ids, from the first on, name `distinct` rows.
inline std::int64_t recorded_draws(Ids const& ids, std::int64_t distinct) {
  std::unordered_map<std::int64_t, bool> seen;
  std::int64_t draws = 0;
  for (std::int64_t const id : ids) {
    if (static_cast<std::int64_t>(seen.size()) >= distinct) break;
    seen[id] = true;
    ++draws;
  }
  return std::max<std::int64_t>(draws, 1);
}

inline std::vector<double> weights_of(std::int64_t rows, Stream const& sample) {
  std::vector<double> weights(at(rows));
  for (auto const& of_rank : sample.ids)
    for (auto const& batch : of_rank)
      for (std::int64_t const id : sorted_distinct(batch)) weights[at(id)] += 1;
  return weights;
}

// `scale` divides rows; what a rank touches stays, up to half of the rows that are left. `alpha` 0: the table's own. `once`: a
// rank names each of its rows once.
inline Workload make_workload(Options const& options, std::vector<Tensor> dense, std::vector<TableShape> tables, int ranks,
                              int batches, double alpha, bool once, Ids const* recorded) {
  Workload work{ranks, batches, std::move(dense), std::move(tables), {}, {}};
  std::unique_ptr<Zipf> zipf;
  for (std::size_t t = 0; t < work.tables.size(); ++t) {
    TableShape& table = work.tables[t];
    std::int64_t const full = table.rows;
    table.rows = std::max<std::int64_t>(full / options.scale, 1);
    if (!zipf || zipf->rows() != table.rows) zipf = std::make_unique<Zipf>(table.rows, options.skew);
    Asking asking{options.skew, 0, 1, recorded};
    double const share = alpha > 0 ? alpha : table.alpha;
    if (once) {
      asking.distinct = std::max<std::int64_t>(std::llround(share * real(table.rows)), 1);
    } else if (alpha == 0 && table.draws > 0) {
      asking.draws = table.draws;
    } else {
      auto const most = std::max<std::int64_t>(table.rows / (options.scale > 1 ? 2 : 1), 1);
      asking.distinct = std::clamp<std::int64_t>(std::llround(share * real(full)), 1, most);
      // Near all rows of a skewed table, drawing would go on and on: then each is named once.
      asking.draws = zipf->draws_for(real(asking.distinct));
      if (asking.distinct == table.rows || asking.draws > 20 * asking.distinct) asking.draws = 0;
    }
    if (recorded && (alpha > 0 || table.draws == 0)) asking.draws = recorded_draws(*recorded, asking.distinct);
    if (options.smoke && asking.draws > 0) asking.draws = std::min<std::int64_t>(asking.draws, 60);
    work.streams.push_back(make_stream(table.rows, asking, *zipf, ranks, batches, t + 1));
    ChosenPartitioner partitioner{0, options.partition};
    if (options.partition == Partition::greedy)  // by other batches than those that are measured
      partitioner.greedy = px::Greedy{weights_of(table.rows, make_stream(table.rows, asking, *zipf, ranks, 4, t + 1'000))};
    work.partitioners.push_back(std::move(partitioner));
  }
  return work;
}

// The values that some rows of a table must have, from a plain look at the ids of all ranks.
class ExpectedRows {
 public:
  // `times[b]`: how often batch b was trained on.
  ExpectedRows(Workload const& work, std::size_t table, std::vector<std::int64_t> const& times) {
    std::int64_t const rows = work.tables[table].rows;
    auto const some = at(std::max<std::int64_t>(rows / 200, 1));
    for (std::int64_t row = 0; row < rows; ++row)
      if (row < 16 || mixed(at(row)) % some == 0) phases_[row] = std::vector<double>(period);
    for (int rank = 0; rank < work.ranks; ++rank)
      for (std::size_t batch = 0; batch < times.size(); ++batch) {
        Ids const& ids = work.streams[table].ids[at(rank)][batch];
        for (std::size_t i = 0; i < ids.size(); ++i) {
          auto const found = phases_.find(ids[i]);
          if (found != phases_.end()) found->second[row_phase(i, rank) % period] += real(times[batch]);
        }
      }
  }

  // How many elements of the row differ; none if it is not among those that are looked at.
  template <class T>
  std::int64_t wrong(std::int64_t row, T const* values, std::int64_t width) const {
    auto const found = phases_.find(row);
    if (found == phases_.end()) return 0;
    std::int64_t count = 0;
    for (std::int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (std::uint64_t phase = 0; phase < period; ++phase) sum += found->second[phase] * gradient_value(phase + at(c));
      count += values[c] != static_cast<T>(first_value - learning_rate * sum);
    }
    return count;
  }

 private:
  std::unordered_map<std::int64_t, std::vector<double>> phases_;  // of a row: how many gradients began with each phase
};

// How many elements of the dense parameters differ after `steps`.
template <class T>
std::int64_t wrong_dense(std::vector<T> const& parameters, int ranks, std::int64_t steps) {
  T expected[period];
  for (std::size_t i = 0; i < period; ++i) {
    double sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += gradient_value(dense_phase(i, rank));
    expected[i] = static_cast<T>(first_value - learning_rate * real(steps) * sum);
  }
  std::int64_t count = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) count += parameters[i] != expected[i % period];
  return count;
}

// A number that depends on every element and its place, exact in double for the values used here.
inline constexpr std::size_t places = 13;
constexpr double weight_of(std::size_t place) { return real(place % places + 1); }
template <class T>
double checksum_of(T const* values, std::size_t size, std::size_t place) {
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += real(values[i]) * weight_of(place + i);
  return sum;
}

// What it must be after `steps` steps, `times[b]` of them on batch b: of every element, not only of those of some rows.
inline double expected_checksum(Workload const& work, std::int64_t steps, std::vector<std::int64_t> const& times) {
  auto const first = [](std::size_t size) {  // of elements that were never changed
    double sum = real(size / places) * (places * (places + 1) / 2);
    for (std::size_t i = 0; i < size % places; ++i) sum += weight_of(i);
    return first_value * sum;
  };
  std::size_t const size = work.dense_elements(), cycle = period * places;
  double total = first(size);
  for (std::size_t i = 0; i < std::min(size, cycle); ++i) {
    double sum = 0;
    for (int rank = 0; rank < work.ranks; ++rank) sum += gradient_value(dense_phase(i, rank));
    total -= learning_rate * real(steps) * sum * weight_of(i) * real((size - i + cycle - 1) / cycle);
  }
  for (std::size_t t = 0; t < work.tables.size(); ++t) {
    auto const width = at(work.tables[t].width);
    total += first(at(work.tables[t].rows) * width);
    double row_sums[places][period] = {};  // of one row's gradient, by its first place and phase
    for (std::size_t place = 0; place < places; ++place)
      for (std::uint64_t phase = 0; phase < period; ++phase)
        for (std::size_t c = 0; c < width; ++c) row_sums[place][phase] += gradient_value(phase + c) * weight_of(place + c);
    for (int rank = 0; rank < work.ranks; ++rank)
      for (std::size_t batch = 0; batch < times.size(); ++batch) {
        Ids const& ids = work.streams[t].ids[at(rank)][batch];
        double sum = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) sum += row_sums[at(ids[i]) * width % places][row_phase(i, rank) % period];
        total -= learning_rate * real(times[batch]) * sum;
      }
  }
  return total;
}

}  // namespace bench
