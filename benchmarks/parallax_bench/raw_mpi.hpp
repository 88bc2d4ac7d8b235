// The same training by hand on MPI: one all-reduce of all dense gradients, allgatherv of (ids, rows), a merge, one update.
#pragma once

#ifdef PARALLAX_HAS_MPI
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <thread>
#include <type_traits>
#include <vector>

#include "training.hpp"

namespace bench {

// What a program without a library could reach: the dense gradients lie in one buffer already; nothing is agreed on, checked or
// bounded by a deadline. Every rank sums its own duplicates, then ids and rows of all tables are under way at once, and the
// sorted lists of all ranks are merged row by row into one update. Waiting polls and yields, as blocking calls do badly where
// ranks outnumber cores. `blocking`: the dense sum by MPI_Allreduce. `in_place`: it lies over the gradients.
template <class T>
class RawTraining final : public Training {
 public:
  RawTraining(World const& world, Workload const& work, bool blocking, bool in_place)
      : work_{&work},
        rank_{world.comm.rank()},
        blocking_{blocking},
        in_place_{in_place},
        gradients_{work, rank_},
        parameters_(work.dense_elements(), static_cast<T>(first_value)),
        sums_(parameters_.size()),
        tables_(work.tables.size()) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    auto const ranks = at(work.ranks);
    counts_of_ranks_.resize(ranks * tables_.size());
    own_counts_.resize(tables_.size());
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      Table& table = tables_[t];
      auto const width = at(work.tables[t].width);
      table.values.assign(at(work.tables[t].rows) * width, static_cast<T>(first_value));
      table.id_counts.resize(ranks), table.row_counts.resize(ranks), table.id_begins.resize(ranks),
          table.row_begins.resize(ranks);
      table.next.resize(ranks);
      table.sum.resize(width);
    }
  }
  ~RawTraining() override { MPI_Comm_free(&comm_); }

  void prepare() override {
    if (in_place_) std::copy(gradients_.dense.begin(), gradients_.dense.end(), sums_.begin());
  }

  void step() override {
    std::size_t const batch = gradients_.next_batch();
    MPI_Request dense = MPI_REQUEST_NULL;
    int const elements = static_cast<int>(sums_.size());
    void const* const given = in_place_ ? MPI_IN_PLACE : gradients_.dense.data();
    if (elements > 0 && !blocking_) MPI_Iallreduce(given, sums_.data(), elements, type(), MPI_SUM, comm_, &dense);
    if (!tables_.empty()) gather(batch);
    if (elements > 0 && blocking_) MPI_Allreduce(given, sums_.data(), elements, type(), MPI_SUM, comm_);
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      wait(tables_[t].ids_under_way);
      wait(tables_[t].rows_under_way);
      apply(tables_[t], at(work_->tables[t].width));
    }
    wait(dense);
    T* __restrict const p = parameters_.data();
    T const* __restrict const g = sums_.data();
    for (std::size_t i = 0; i < parameters_.size(); ++i) p[i] -= static_cast<T>(learning_rate) * g[i];
  }

  std::vector<std::size_t> chosen() const override { return {}; }
  px::Traffic traffic() const override { return {}; }

  Checked check() override {
    Checked result;
    result.wrong = wrong_dense(parameters_, work_->ranks, gradients_.steps);
    if (rank_ == 0) result.checksum = checksum_of(parameters_.data(), parameters_.size(), 0);
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      ExpectedRows const expected{*work_, t, gradients_.times};
      std::int64_t const width = work_->tables[t].width;
      for (std::int64_t row = 0; row < work_->tables[t].rows; ++row)
        result.wrong += expected.wrong(row, tables_[t].values.data() + row * width, width);
      if (rank_ == 0) result.checksum += checksum_of(tables_[t].values.data(), tables_[t].values.size(), 0);
    }
    return result;
  }

  void finish() override {}

 private:
  struct Table {
    std::vector<T> values, own_rows, all_rows, sum;
    std::vector<std::uint64_t> keys, spare;  // id and position of this rank's draws
    Ids own_ids, all_ids;
    std::vector<int> id_counts, row_counts, id_begins, row_begins;
    std::vector<std::size_t> next;
    MPI_Request ids_under_way = MPI_REQUEST_NULL, rows_under_way = MPI_REQUEST_NULL;
  };

  static MPI_Datatype type() { return std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE; }

  static void wait(MPI_Request& request) {
    for (int tests = 0, done = 0; !done; ++tests) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (!done && tests > 200) std::this_thread::yield();
    }
  }

  void gather(std::size_t batch) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      coalesce(tables_[t], work_->streams[t].ids[at(rank_)][batch], gradients_.rows[t].data(), work_->tables[t]);
      own_counts_[t] = static_cast<int>(tables_[t].own_ids.size());
    }
    int const many = static_cast<int>(tables_.size());
    MPI_Request counts;
    MPI_Iallgather(own_counts_.data(), many, MPI_INT, counts_of_ranks_.data(), many, MPI_INT, comm_, &counts);
    wait(counts);
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      Table& table = tables_[t];
      int const width = static_cast<int>(work_->tables[t].width);
      int all = 0;
      for (std::size_t rank = 0; rank < table.id_counts.size(); ++rank) {
        int const count = counts_of_ranks_[rank * tables_.size() + t];
        table.id_counts[rank] = count, table.id_begins[rank] = all;
        table.row_counts[rank] = count * width, table.row_begins[rank] = all * width;
        all += count;
      }
      table.all_ids.resize(at(all));
      table.all_rows.resize(at(all) * at(width));
      MPI_Iallgatherv(table.own_ids.data(), own_counts_[t], MPI_INT64_T, table.all_ids.data(), table.id_counts.data(),
                      table.id_begins.data(), MPI_INT64_T, comm_, &table.ids_under_way);
      MPI_Iallgatherv(table.own_rows.data(), own_counts_[t] * width, type(), table.all_rows.data(), table.row_counts.data(),
                      table.row_begins.data(), type(), comm_, &table.rows_under_way);
    }
  }

  // Sums the rows of equal ids: positions sorted by id, by a radix sort of as many digits as the table's ids have.
  static void coalesce(Table& table, Ids const& ids, T const* rows, TableShape const& shape) {
    auto const width = at(shape.width);
    table.keys.clear();
    for (std::size_t i = 0; i < ids.size(); ++i) table.keys.push_back(at(ids[i]) << 24 | i);
    table.spare.resize(table.keys.size());
    constexpr int digit = 10;
    for (int shift = 24; shift < 64 && (at(shape.rows - 1) << 24) >> shift > 0; shift += digit) {
      std::size_t begins[(1 << digit) + 1] = {};
      auto const digit_of = [&](std::uint64_t key) { return key >> shift & ((1 << digit) - 1); };
      for (std::uint64_t const key : table.keys) ++begins[digit_of(key) + 1];
      for (std::size_t d = 0; d < 1 << digit; ++d) begins[d + 1] += begins[d];
      for (std::uint64_t const key : table.keys) table.spare[begins[digit_of(key)]++] = key;
      table.keys.swap(table.spare);
    }
    table.own_ids.clear();
    table.own_rows.resize(ids.size() * width);
    T *out = nullptr, *free = table.own_rows.data();
    for (std::uint64_t const key : table.keys) {
      T const* const row = rows + (key & ((1 << 24) - 1)) * width;
      auto const id = static_cast<std::int64_t>(key >> 24);
      if (table.own_ids.empty() || table.own_ids.back() != id) {
        table.own_ids.push_back(id);
        out = free;
        free = std::copy_n(row, width, out);
      } else {
        for (std::size_t c = 0; c < width; ++c) out[c] += row[c];
      }
    }
  }

  // Goes through the sorted lists of all ranks at once. The sum of a row stays in the nearest cache.
  static void apply(Table& table, std::size_t width) {
    std::size_t const ranks = table.next.size();
    auto const end = [&](std::size_t rank) { return at(table.id_begins[rank]) + at(table.id_counts[rank]); };
    for (std::size_t rank = 0; rank < ranks; ++rank) table.next[rank] = at(table.id_begins[rank]);
    T* __restrict const sum = table.sum.data();
    while (true) {
      std::int64_t id = std::numeric_limits<std::int64_t>::max();
      for (std::size_t rank = 0; rank < ranks; ++rank)
        if (table.next[rank] < end(rank)) id = std::min(id, table.all_ids[table.next[rank]]);
      if (id == std::numeric_limits<std::int64_t>::max()) return;
      bool first = true;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (table.next[rank] == end(rank) || table.all_ids[table.next[rank]] != id) continue;
        T const* __restrict const row = table.all_rows.data() + table.next[rank]++ * width;
        if (first) std::copy_n(row, width, sum);
        else
          for (std::size_t c = 0; c < width; ++c) sum[c] += row[c];
        first = false;
      }
      T* __restrict const p = table.values.data() + at(id) * width;
      for (std::size_t c = 0; c < width; ++c) p[c] -= static_cast<T>(learning_rate) * sum[c];
    }
  }

  Workload const* work_;
  int rank_;
  bool blocking_, in_place_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  Gradients<T> gradients_;
  std::vector<T> parameters_, sums_;
  std::vector<Table> tables_;
  std::vector<int> own_counts_, counts_of_ranks_;
};

}  // namespace bench
#endif
