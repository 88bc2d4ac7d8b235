// AllReduce: every rank holds all parameters, and gradients are summed for all of them. The default of dense variables.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "parallax/policy/bucket/dense_way.hpp"
#include "parallax/policy/journey/rows_way.hpp"

namespace parallax {

// Dense: reduce-scatter, allgather of the gradient, applied everywhere. Sparse: the gradient is densified first, which pays when
// nearly every row is touched.
struct AllReduce {
  using axis = policy_axis;
  static constexpr std::string_view name = "AllReduce";

  template <class Kind>
  struct exchange;
};

// The way of a sparse update whose rows are scattered into a gradient of the whole table, with a count behind every row where
// the mean goes by counts or a lazy optimizer must know which rows were touched.
template <Communicator C, class Update>
class DensifiedRows : public RowWayBase<C, Update> {
  using Base = RowWayBase<C, Update>;
  using Base::state_, Base::leader_, Base::function_, Base::plan_, Base::own_;
  using F = typename Base::Function;

 public:
  using typename Base::Index;
  using typename Base::S;
  using typename Base::Space;
  using typename Base::T;

  void prepare(Update const& update, Topology<C> const& topology, Preparing how, int group) {
    this->prepare_rows(update, topology, {false, how.joined, how.finite}, group);
    counted_ = state_->counted() || S::lazy;
    stride_ = static_cast<std::size_t>(state_->width()) + (counted_ ? 1 : 0);
    densify();
  }
  NamedRows named() const { return NamedRows::by_index; }
  bool gathers_early() const { return false; }

  void join(Buckets<C>& buckets) {
    static_assert(
        !encodes<wire_of<typename S::Exchange>>,
        "parallax: AllReduce sends rows, and their counts, as they are: leave out the wire of exchange<Sparse>, or take "
        "another policy");
    bucket_ = &buckets.template of<T, Space, false>();
    segment_ = bucket_->add(table_.data(), table_.size(), nullptr, stride_);
  }
  void deposit(int group) { this->enter(ReducedRows<Index, T>{{}, bucket_->owned(segment_).values.data(), nullptr}, group); }
  void merge() {
    if (!leader_) return;
    state_->reserve_update();
    T* const sums = state_->merging.first->rows;
    auto const n = static_cast<std::int64_t>(part().size());
    for (auto const& other : state_->merging.others) state_->ops().add_to(sums, other.rows, n);
    if (state_->reduce() == Reduce::mean && this->divisor() > 1)  // a count stays what it is: none, or not none
      state_->ops().scale_down(sums, n, static_cast<T>(this->divisor()));
    if (state_->counted()) state_->ops().scale_counted_rows_down(sums, rows().rows, state_->width());
  }
  // The transform sees every row of the part, those that nobody touched included.
  void transform() {
    if constexpr (transforms<F>) {
      ids_.resize_with_slack(static_cast<std::size_t>(rows().rows));
      for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<Index>(first_row()) + static_cast<Index>(i);
      (*function_)(RowsGradient<Index, T>{ids_.span(), rows()});
    }
  }
  RowsView<T const> result() const {
    return {part().data(), rows().rows, static_cast<std::int64_t>(stride_)};  // counts are finite
  }
  std::string place_of(NonFiniteElement const& found, bool of_result) const {
    return this->place_text(of_result ? first_row() + found.row : found.row, found);
  }
  RowsView<T const> clipped(Topology<C> const& topology) const {
    if (bucket_->owns_whole() && topology.rank() != 0) return {nullptr, 0, state_->width()};
    return rows();
  }
  void apply(double scale) noexcept(Space::host_readable) {
    bucket_->whole(segment_, [&](std::size_t first, T const* values, std::size_t count) {
      state_->apply_densified(static_cast<std::int64_t>(first / stride_), spaced(values, count), counted_,
                              static_cast<T>(scale));
    });
    state_->end_update();
  }

 private:
  // The variable's result: what this rank holds of the summed table, and the rows in it.
  std::span<T> part() const { return {state_->merging.first->rows, bucket_->owned(segment_).values.size()}; }
  RowsView<T> rows() const { return spaced(part().data(), part().size()); }
  std::int64_t first_row() const { return stride_ ? static_cast<std::int64_t>(bucket_->owned(segment_).first / stride_) : 0; }
  template <class E>
  RowsView<E> spaced(E* values, std::size_t count) const {
    return {values, stride_ ? static_cast<std::int64_t>(count / stride_) : 0, state_->width(),
            static_cast<std::int64_t>(stride_)};
  }

  void densify() {
    std::int64_t const width = state_->width();
    std::size_t const distinct = plan_->size();
    table_.resize(static_cast<std::size_t>(state_->rows()) * stride_);
    if (table_.size() == 0) return;  // a table without rows
    state_->ops().clear(table_.data(), table_.size() * sizeof(T));
    sums_.resize_with_slack(distinct * static_cast<std::size_t>(width));
    write_level(state_->ops(), *plan_, 0, own_, ArrivedRows<T, Space>{}, 0, distinct, sums_.data());
    auto const& groups = plan_->groups;
    shown_rows_.renew();
    auto const named = shown_rows_.of(state_->ops(), state_->rows_of(groups.keys.span()));
    auto const put = [&](std::int64_t column, std::int64_t columns, T const* values) {
      RowsView<T> const into{table_.data() + column, state_->rows(), columns, static_cast<std::int64_t>(stride_)};
      state_->ops().scatter_rows(into, named, {}, values);
    };
    put(0, width, sums_.data());
    if (!counted_) return;
    counts_.resize_with_slack(distinct);
    for (std::size_t i = 0; i < distinct; ++i) counts_[i] = static_cast<T>(groups.offsets[i + 1] - groups.offsets[i]);
    shown_counts_.renew();
    put(width, 1, shown_counts_.of(state_->ops(), counts_.span()).data());
  }

  bool counted_ = false;
  std::size_t stride_ = 1, segment_ = 0;
  Buffer<T, Space> table_, sums_;
  Buffer<T> counts_;
  Shown<Index, Space> shown_rows_;
  Shown<T, Space> shown_counts_;
  Buffer<Index> ids_;
  DenseBucket<T, C, Space>* bucket_ = nullptr;
};

template <>
struct AllReduce::exchange<Dense> {
  static constexpr bool sharded = false;
  template <Communicator C, class Update>
  using way = DenseWay<C, Update>;

  static Prediction predict(TableFacts const& elements, TableUse const&, RankShape const& shape, Costs const& costs) {
    double const whole = elements.rows * elements.row_bytes;
    Bill bill{costs, shape};
    bill.within_host(2, 2 * shape.out_within() * whole);
    bill.between_hosts(2, 2 * shape.out() * whole / shape.per_host);
    bill.streamed((shape.ranks() - 1) / shape.ranks() * whole + 2 * elements.rows * elements.state_bytes);
    return bill.sum();
  }
};

template <>
struct AllReduce::exchange<Sparse> {
  static constexpr bool sharded = false, densified = true;
  template <Communicator C, class Update>
  using way = DensifiedRows<C, Update>;

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
