// What a program does on MPI without a library, method by method: sums of tensors, gathered rows, a table made dense.
#pragma once

#ifdef PARALLAX_HAS_MPI
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "training.hpp"

namespace bench {

// How tensors are summed. `fused`: their gradients lie in one buffer already, nothing is packed.
enum class Sums : unsigned char { in_sequence, at_once, fused };
// How rows are.
enum class Rows : unsigned char { gathered, densified };

// Nothing is agreed on, checked or bounded by a deadline. Every rank holds every parameter: it pulls by copying its rows. Rows
// that are gathered are applied where they stand, which SGD allows: nothing is sorted or merged. `blocking`: by MPI's blocking
// calls one after the other; else all that a step can have under way is, and waiting polls and yields.
template <class T>
class HandTraining final : public Training {
 public:
  HandTraining(World const& world, Workload const& work, Sums sums, Rows rows, bool blocking)
      : work_{&work},
        rank_{world.comm.rank()},
        how_{sums},
        rows_{rows},
        blocking_{blocking},
        gradients_{work, rank_},
        parameters_(work.dense_elements(), static_cast<T>(first_value)),
        sums_(parameters_.size()),
        tables_(work.tables.size()) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    std::size_t begin = 0;
    for (auto const& tensor : work.dense) {
      if (how_ == Sums::fused && !reductions_.empty()) reductions_[0].elements += static_cast<int>(tensor.elements);
      else reductions_.push_back({begin, static_cast<int>(tensor.elements), MPI_REQUEST_NULL});
      begin += at(tensor.elements);
    }
    own_counts_.resize(tables_.size());
    counts_.resize(tables_.size() * at(work.ranks));
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      Table& table = tables_[t];
      std::size_t const elements = at(work.tables[t].rows) * at(work.tables[t].width);
      table.values.assign(elements, static_cast<T>(first_value));
      table.pulled.resize(work.streams[t].largest() * at(work.tables[t].width));
      for (auto* const list : {&table.id_counts, &table.id_begins, &table.row_counts, &table.row_begins})
        list->resize(at(work.ranks));
      if (rows_ == Rows::densified) table.own.resize(elements), table.all.resize(elements);
    }
  }
  ~HandTraining() override { MPI_Comm_free(&comm_); }

  void step() override {
    std::size_t const batch = gradients_.next_batch();
    for (std::size_t t = 0; t < tables_.size(); ++t) pull(t, batch);
    for (Reduction& reduction : reductions_) {
      T const* const own = gradients_.dense.data() + reduction.begin;
      T* const sum = sums_.data() + reduction.begin;
      if (blocking_) MPI_Allreduce(own, sum, reduction.elements, type(), MPI_SUM, comm_);
      else MPI_Iallreduce(own, sum, reduction.elements, type(), MPI_SUM, comm_, &reduction.under_way);
    }
    if (!tables_.empty() && rows_ == Rows::gathered) exchange_counts(batch);
    for (std::size_t t = 0; t < tables_.size(); ++t) rows_ == Rows::gathered ? gather(t, batch) : densify(t, batch);
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      for (MPI_Request& request : tables_[t].under_way) wait(request);
      rows_ == Rows::gathered ? apply_rows(tables_[t], at(work_->tables[t].width)) : apply(tables_[t].values, tables_[t].all);
    }
    for (Reduction& reduction : reductions_) wait(reduction.under_way);
    apply(parameters_, sums_);
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
  struct Reduction {
    std::size_t begin;
    int elements;
    MPI_Request under_way;
  };
  struct Table {
    std::vector<T> values, pulled;
    std::vector<T> own, all;  // gradients: of this rank where the table is made dense, of all ranks
    Ids all_ids, touched;     // `touched`: the rows of `own` that are not 0
    std::vector<int> id_counts, row_counts, id_begins, row_begins;
    MPI_Request under_way[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  };

  static MPI_Datatype type() { return std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE; }

  static void wait(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL) return;
    for (int tests = 0, done = 0; !done; ++tests) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (!done && tests > 200) std::this_thread::yield();
    }
  }

  Ids const& ids(std::size_t table, std::size_t batch) const { return work_->streams[table].ids[at(rank_)][batch]; }

  void pull(std::size_t t, std::size_t batch) {
    auto const width = at(work_->tables[t].width);
    T* out = tables_[t].pulled.data();
    for (std::int64_t const id : ids(t, batch)) out = std::copy_n(tables_[t].values.data() + at(id) * width, width, out);
  }

  void exchange_counts(std::size_t batch) {
    for (std::size_t t = 0; t < tables_.size(); ++t) own_counts_[t] = static_cast<int>(ids(t, batch).size());
    int const many = static_cast<int>(tables_.size());
    if (blocking_) {
      MPI_Allgather(own_counts_.data(), many, MPI_INT, counts_.data(), many, MPI_INT, comm_);
    } else {
      MPI_Request request;
      MPI_Iallgather(own_counts_.data(), many, MPI_INT, counts_.data(), many, MPI_INT, comm_, &request);
      wait(request);
    }
  }

  void gather(std::size_t t, std::size_t batch) {
    Table& table = tables_[t];
    int const width = static_cast<int>(work_->tables[t].width), own = own_counts_[t];
    int all = 0;
    for (std::size_t rank = 0; rank < table.id_counts.size(); ++rank) {
      int const count = counts_[rank * tables_.size() + t];
      table.id_counts[rank] = count, table.id_begins[rank] = all;
      table.row_counts[rank] = count * width, table.row_begins[rank] = all * width;
      all += count;
    }
    table.all_ids.resize(at(all));
    table.all.resize(at(all) * at(width));
    Ids const& own_ids = ids(t, batch);
    T const* const own_rows = gradients_.rows[t].data();
    if (blocking_) {
      MPI_Allgatherv(own_ids.data(), own, MPI_INT64_T, table.all_ids.data(), table.id_counts.data(), table.id_begins.data(),
                     MPI_INT64_T, comm_);
      MPI_Allgatherv(own_rows, own * width, type(), table.all.data(), table.row_counts.data(), table.row_begins.data(), type(),
                     comm_);
    } else {
      MPI_Iallgatherv(own_ids.data(), own, MPI_INT64_T, table.all_ids.data(), table.id_counts.data(), table.id_begins.data(),
                      MPI_INT64_T, comm_, &table.under_way[0]);
      MPI_Iallgatherv(own_rows, own * width, type(), table.all.data(), table.row_counts.data(), table.row_begins.data(), type(),
                      comm_, &table.under_way[1]);
    }
  }

  void densify(std::size_t t, std::size_t batch) {
    Table& table = tables_[t];
    auto const width = at(work_->tables[t].width);
    for (std::int64_t const id : table.touched) std::fill_n(table.own.data() + at(id) * width, width, T{});
    T const* row = gradients_.rows[t].data();
    for (std::int64_t const id : ids(t, batch)) {
      T* const sum = table.own.data() + at(id) * width;
      for (std::size_t c = 0; c < width; ++c) sum[c] += *row++;
    }
    table.touched = ids(t, batch);
    int const elements = static_cast<int>(table.own.size());
    if (blocking_) MPI_Allreduce(table.own.data(), table.all.data(), elements, type(), MPI_SUM, comm_);
    else MPI_Iallreduce(table.own.data(), table.all.data(), elements, type(), MPI_SUM, comm_, &table.under_way[0]);
  }

  static void apply(std::vector<T>& parameters, std::vector<T> const& sums) {
    T* __restrict const p = parameters.data();
    T const* __restrict const g = sums.data();
    for (std::size_t i = 0; i < parameters.size(); ++i) p[i] -= static_cast<T>(learning_rate) * g[i];
  }
  static void apply_rows(Table& table, std::size_t width) {
    T const* __restrict row = table.all.data();
    for (std::int64_t const id : table.all_ids) {
      T* __restrict const p = table.values.data() + at(id) * width;
      for (std::size_t c = 0; c < width; ++c) p[c] -= static_cast<T>(learning_rate) * row[c];
      row += width;
    }
  }

  Workload const* work_;
  int rank_;
  Sums how_;
  Rows rows_;
  bool blocking_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  Gradients<T> gradients_;
  std::vector<T> parameters_, sums_;
  std::vector<Reduction> reductions_;
  std::vector<Table> tables_;
  std::vector<int> own_counts_, counts_;
};

}  // namespace bench
#endif
