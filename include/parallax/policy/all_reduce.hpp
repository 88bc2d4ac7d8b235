// AllReduce: every rank holds all parameters, and gradients are summed for all of them. The default of dense variables.
// Variables name it, a step takes its ways, and other policies take its dense exchange.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "parallax/detail/policy/dense_way.hpp"
#include "parallax/detail/policy/journey/rows_way.hpp"

namespace parallax::inline v0_2 {

// Dense: reduce-scatter, allgather of the gradient, applied everywhere. Sparse: the gradient is densified first, profitable if
// nearly every row is touched.
struct AllReduce {
  // It stands among a variable's options for its policy.
  using axis = policy_axis;
  // The policy's name in messages and `describe`.
  static constexpr std::string_view name = "AllReduce";

  // The exchanges of Dense and of Sparse, below.
  template <class Kind>
  struct exchange;
};

// Way of a sparse update under AllReduce: scatters the rows into a gradient of the whole table, whose sum all ranks form. A
// count lies behind every row if the mean goes by counts or the optimizer is lazy. A step calls its phases. Sends as much as a
// dense variable of the table's size, plus the counts, for any batch. Owns a gradient of the whole table.
template <Communicator C, class Update>
class DensifiedRows : public RowWayBase<C, Update> {
  using Base = RowWayBase<C, Update>;
  using Base::state_, Base::leader_, Base::function_, Base::plan_, Base::own_;
  using F = typename Base::Function;

 public:
  // The type of the table's indices.
  using typename Base::Index;
  // This rank's share of the table.
  using typename Base::S;
  using typename Base::Space;
  using typename Base::T;

  // Plans the batch unless a pull has, checks the rows, and scatters them, local. `how.keep` asks for nothing more, for the
  // table is a copy. On a device it waits. Throws the errors of `prepare_rows`: Error (invalid_argument, bad_id, misuse).
  void prepare(Update const& update, Topology<C> const& topology, Preparing how, int clip) {
    this->prepare_rows(update, topology, {false, how.joined, how.finite}, clip);
    counted_ = state_->counted() || S::lazy;
    stride_ = static_cast<std::size_t>(state_->width()) + (counted_ ? 1 : 0);
    densify();
  }
  // Returns `by_index`: nothing depends on runs told by a pull.
  NamedRows named() const { return NamedRows::by_index; }
  // Returns false: owners average their parts before they spread.
  bool gathers_early() const { return false; }

  // Enters the table into the bucket of its scalar as one segment, cut between rows. Local; may allocate.
  void join(Buckets<C>& buckets) {
    static_assert(
        !encodes<wire_of<typename S::Exchange>>,
        "parallax: AllReduce sends rows, and their counts, as they are: leave out the wire of exchange<Sparse>, or take "
        "another policy");
    bucket_ = &buckets.template of<T, Space, false>();
    segment_ = bucket_->add(table_.data(), table_.size(), nullptr, stride_);
  }
  // Enters this rank's part of the summed table in the variable, `rows` without keys. Throws Error (misuse) as `enter` does.
  void deposit(int clip) {
    this->enter(ReducedRows<Index, T, Space>{{}, bucket_->owned(segment_).values.data(), nullptr}, clip);
  }
  // Adds the later updates' parts to the leader's, and divides by ranks, or rows by counts. Throws as `reserve_update` does.
  void merge() {
    if (!leader_) return;
    state_->reserve_update();
    T* const sums = state_->merging.first->rows;
    auto const n = static_cast<std::int64_t>(part().size());
    for (auto const& other : state_->merging.others) state_->ops().add_to(sums, other.rows, n);
    if (state_->reduce() == Reduce::mean && this->divisor() > 1)  // a count stays as it is: none, or not none
      state_->ops().scale_down(sums, n, static_cast<T>(this->divisor()));
    if (state_->counted()) state_->ops().scale_counted_rows_down(sums, rows().rows, state_->width());
  }
  // Calls the user's function, if there is one, with every row of the part, untouched ones included.
  void transform() {
    if constexpr (transforms<F>) {
      ids_.resize_with_slack(static_cast<std::size_t>(rows().rows));
      for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<Index>(first_row()) + static_cast<Index>(i);
      (*function_)(RowsGradient<Index, T>{ids_.span(), rows()});
    }
  }
  // Returns this rank's part, [rows x width], with a count behind each row if there are counts.
  RowsView<T const> result() const {
    return {part().data(), rows().rows, static_cast<std::int64_t>(stride_)};  // counts are finite
  }
  // Returns the place by the row's number in the table, if `found` is of the result; else by its number in the user's gradient.
  std::string place_of(NonFiniteElement const& found, bool of_result) const {
    return this->place_text(of_result ? first_row() + found.row : found.row, found);
  }
  // Returns the rows of this rank's part without their counts. If the vendor sums, every rank has the whole: rank 0 returns it,
  // the others none.
  RowsView<T const> clipped(Topology<C> const& topology) const {
    if (bucket_->owns_whole() && topology.rank() != 0) return {nullptr, 0, state_->width()};
    return rows();
  }
  // Runs the optimizer over all rows of the table, times `scale`, by the leader, on every rank: owner's part after part.
  void apply(double scale) noexcept(Space::host_readable) {
    bucket_->whole(segment_, [&](std::size_t first, T const* values, std::size_t count) {
      state_->apply_densified(static_cast<std::int64_t>(first / stride_), spaced(values, count), counted_,
                              static_cast<T>(scale));
    });
    state_->end_update();
  }

 private:
  // Returns this rank's part of the summed table, counts included, from `deposit` on; `rows`: the rows in it.
  std::span<T> part() const { return {state_->merging.first->rows, bucket_->owned(segment_).values.size()}; }
  RowsView<T> rows() const { return spaced(part().data(), part().size()); }
  // Returns the number in the table of the part's first row.
  std::int64_t first_row() const { return stride_ ? static_cast<std::int64_t>(bucket_->owned(segment_).first / stride_) : 0; }
  // Returns `count` elements of a table, counts included, as rows of `width` elements; does not own.
  template <class E>
  RowsView<E> spaced(E* values, std::size_t count) const {
    return {values, stride_ ? static_cast<std::int64_t>(count / stride_) : 0, state_->width(),
            static_cast<std::int64_t>(stride_)};
  }

  // Sums this rank's rows by index, into a table of zeros, [rows x stride_]; if rows are counted, behind each the number of
  // indices with this row.
  void densify() {
    std::int64_t const width = state_->width();
    std::size_t const distinct = plan_->size();
    table_.resize(static_cast<std::size_t>(state_->rows()) * stride_);
    if (table_.size() == 0) return;  // a table without rows
    state_->ops().clear(table_.data(), table_.size() * sizeof(T));
    sums_.resize_with_slack(distinct * static_cast<std::size_t>(width));
    write_level(state_->ops(), *plan_, 0, own_, ArrivedRows<T, Space>{}, 0, distinct, sums_.data());
    auto const named = plan_->shown_keys(state_->ops(), state_->rows_named(plan_->groups.named())).first(distinct);
    auto const put = [&](std::int64_t column, std::int64_t columns, T const* values) {
      RowsView<T> const into{table_.data() + column, state_->rows(), columns, static_cast<std::int64_t>(stride_)};
      state_->ops().scatter_rows(into, named, {}, values);
    };
    put(0, width, sums_.data());
    if (!counted_) return;
    counts_.resize_with_slack(distinct);
    times_named_.resize_with_slack(distinct);
    plan_->times_named(state_->ops(), 0, distinct, times_named_.data());
    if constexpr (Space::host_readable) {
      std::copy_n(times_named_.data(), distinct, counts_.data());
    } else {
      times_here_.resize_with_slack(distinct);
      state_->ops().to_host(times_here_.data(), times_named_.data(), distinct);
      std::copy_n(times_here_.data(), distinct, counts_.data());
    }
    shown_counts_.renew();
    put(width, 1, shown_counts_.of(state_->ops(), counts_.span()).data());
  }

  // True if a count stands behind each row.
  bool counted_ = false;
  // Elements from row to row; and the table's number in its bucket.
  std::size_t stride_ = 1, segment_ = 0;
  // The outgoing table, which stays until the step ends; and the distinct rows, scattered into it.
  Buffer<T, Space> table_, sums_;
  // The number of indices of each distinct row, as the table and as the plan have it.
  Buffer<T> counts_;
  Buffer<std::uint32_t, Space> times_named_;
  Buffer<std::uint32_t> times_here_;
  Shown<T, Space> shown_counts_;
  // Numbers of the part's rows, for the user's function.
  Buffer<Index> ids_;
  // The flight's, from `join` on.
  DenseBucket<T, C, Space>* bucket_ = nullptr;
};

// The exchange of dense variables. Exchanges of other policies derive from it, and add a `wire`.
template <>
struct AllReduce::exchange<Dense> {
  // Every rank has all parameters and slots.
  static constexpr bool sharded = false;
  // Through the step's buckets. Sums are gathered before the optimizer.
  template <Communicator C, class Update>
  using way = DenseWay<C, Update>;

  // Returns the needs of a reduce-scatter and an allgather, each within hosts and between them, and of applying all elements.
  static Prediction predict(TableFacts const& elements, TableUse const&, RankShape const& shape, Costs const& costs) {
    double const whole = elements.rows * elements.row_bytes, sent = elements.rows * elements.sent_bytes();
    Bill bill{costs, shape};
    bill.within_host(2, 2 * shape.out_within() * sent);
    bill.between_hosts(2, 2 * shape.out() * sent / shape.per_host);
    bill.streamed((shape.ranks() - 1) / shape.ranks() * whole + 2 * elements.rows * elements.state_bytes);
    return bill.sum();
  }
};

// The exchange of tables. Every rank reads rows in its own copy: a pull sends nothing.
template <>
struct AllReduce::exchange<Sparse> {
  // Every rank has all rows and slots.
  static constexpr bool sharded = false, densified = true;  // nobody learns the rows touched by others
  // Rows travel as a gradient of the whole table.
  template <Communicator C, class Update>
  using way = DensifiedRows<C, Update>;

  // Returns the prediction for a dense variable of as many elements, and the local work of grouping, scattering and gathering
  // rows. Counts behind rows are left out.
  static Prediction predict(TableFacts const& table, TableUse const& use, RankShape const& shape, Costs const& costs) {
    double const b = table.row_bytes, whole = table.rows * b;
    Bill bill{costs, shape};
    bill.keys(std::max(use.pushed, use.pulled));
    bill.rows(use.pushed, b);  // occurrences of a row summed
    bill.within_host(2, 2 * shape.out_within() * whole);
    bill.between_hosts(2, 2 * shape.out() * whole / shape.per_host);
    bill.streamed((1 + shape.out() + shape.out_within()) * whole);
    bill.rows(use.pushed + use.pulled, b);
    bill.rows(table.rows, 0);
    bill.streamed(2 * table.rows * table.state_bytes);
    return bill.sum();
  }
};

}  // namespace parallax
