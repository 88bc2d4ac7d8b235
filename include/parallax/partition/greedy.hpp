// Rows dealt by the frequency of their use: for tables with much of the traffic on a few rows. Included by a program with such
// weights; given to a sparse Variable as an option and as a setting.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/math.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/partition/partitioner.hpp"

namespace parallax::inline v0_2 {

// A partitioner. Every row has a weight, say the number of its occurrences in a sample of the data, and owners get rows of
// about equal weight together. The heaviest rows are items of their own; all others are dealt to bundles as Cyclic deals them
// to owners. Item after item, the heaviest first, goes to the owner with the least so far: R. L. Graham, "Bounds on
// Multiprocessing Timing Anomalies", SIAM J. Appl. Math. 17 (1969). A bundle weighs at most about a 64th of an owner's share,
// so the busiest owner has a few hundredths more than the mean, unless one row alone outweighs it. Each row counts a 64th of
// the mean weight besides: rows missing in the sample are spread as well.
//
// Equal weights make the same layout on every rank; ranks with different weights are told so, like ranks with any different
// setting. Without weights all rows weigh the same. With fewer `pieces` than owners, only so many owners get rows; more pieces
// change nothing. Copies share the weights: 8 bytes a row, as long as one lives. Making a layout takes time proportional to the
// rows and 8 bytes for each, and leaves about 100 bytes for each of 128 items per owner, at least 1024.
struct Greedy {
  // The option's axis.
  using axis = partitioner_axis;
  // The type's name, in signatures and errors.
  static constexpr std::string_view name = "Greedy";
  // The number of owners with rows, if less than all; 0: all.
  std::int64_t pieces = 0;

  Greedy() = default;
  // Takes over the weights: weights[r] for row r. Throws Error (invalid_argument) for a negative or non-finite weight, and for
  // weights with a non-finite sum.
  explicit Greedy(std::vector<double> weights);

  // Locates rows by a search of a small table; defined below.
  class Layout;
  // Returns the layout of so many rows. Throws Error (invalid_argument) when there are weights, but not one for each row; for
  // negative numbers; and for no owner.
  Layout layout(std::int64_t rows, int owners) const;

  // Calls `visit` with each setting that ranks compare: the pieces, the number of weights (-1: none) and a hash of them.
  void fields(auto&& visit) const {
    visit(pieces);
    visit(weights_ ? static_cast<std::int64_t>(weights_->size()) : -1);
    visit(fingerprint_);
  }

 private:
  std::shared_ptr<std::vector<double> const> weights_;
  std::uint64_t fingerprint_ = 0;
};

namespace detail {

// Behind the layout: a permutation of rows with some chosen ones first, each in exchange for a row from the front: its own
// inverse. Takes memory in proportion to the chosen rows.
class FrontRows {
 public:
  // Puts these rows first, all of them different: rows not there already, in exchange for rows there that were not chosen.
  explicit FrontRows(std::vector<std::int64_t> chosen) : front_(chosen.size()) {
    std::iota(front_.begin(), front_.end(), std::int64_t{0});
    std::sort(chosen.begin(), chosen.end());
    auto const count = static_cast<std::int64_t>(chosen.size());
    auto const far = std::lower_bound(chosen.begin(), chosen.end(), count);  // chosen rows yet to move
    slots_.resize(std::bit_ceil(2 * static_cast<std::size_t>(chosen.end() - far) + 1), {-1, -1});
    auto next_far = far;
    auto next_near = chosen.begin();
    for (std::int64_t row = 0; row < count; ++row) {
      if (next_near != far && *next_near == row) {
        ++next_near;
        continue;
      }
      front_[static_cast<std::size_t>(row)] = *next_far;
      std::size_t slot = slot_of(*next_far);
      while (slots_[slot].first >= 0) slot = after(slot);
      slots_[slot] = {*next_far++, row};
    }
  }

  // Returns the place of a row, which is also the row at the place of this number.
  std::int64_t operator()(std::int64_t row) const {
    if (row < static_cast<std::int64_t>(front_.size())) return front_[static_cast<std::size_t>(row)];
    for (std::size_t slot = slot_of(row); slots_[slot].first >= 0; slot = after(slot))
      if (slots_[slot].first == row) return slots_[slot].second;
    return row;
  }

 private:
  // Returns the first slot of the search for a row.
  std::size_t slot_of(std::int64_t row) const {
    return static_cast<std::size_t>(scaled_down(static_cast<std::uint64_t>(row) * 0x9e3779b97f4a7c15, std::ssize(slots_)));
  }
  // Returns the slot behind one, around the end.
  std::size_t after(std::size_t slot) const { return (slot + 1) & (slots_.size() - 1); }

  std::vector<std::int64_t> front_;                           // the exchange, for rows at the front
  std::vector<std::pair<std::int64_t, std::int64_t>> slots_;  // for rows from further back; -1: free
};

}  // namespace detail

// Greedy's layout of a table. Copies share the deal, which never changes. The host alone can locate rows.
class Greedy::Layout {
 public:
  // Makes a layout without weights: `bins` is the number of owners with rows.
  Layout(std::int64_t rows, int owners, std::int64_t bins)
      : rows_{rows}, owners_{owners}, light_{Cyclic{bins}.layout(rows, owners)} {}
  // Makes a layout with a weight for each row, read here alone. Takes the time and memory stated at Greedy.
  Layout(std::vector<double> const& weights, int owners, std::int64_t bins)
      : Layout{weights, owners, bins, divide(static_cast<std::int64_t>(weights.size()), bins)} {}

  // Returns the number of rows of the whole table.
  std::int64_t rows() const { return rows_; }
  // Returns the number of owners, with rows dealt to them or without.
  int owners() const { return owners_; }

  // Returns the place of a row, 0 <= row < rows(): of a heavy one its item's, of another one its place in the bundle.
  Location locate(std::int64_t row) const {
    if (!deal_) return light_.locate(row);
    std::int64_t const place = deal_->front(row);
    if (place < heavy_) return deal_->items[static_cast<std::size_t>(place)];
    Location const at = light_.locate(place - heavy_), bundle = deal_->items[static_cast<std::size_t>(heavy_ + at.owner)];
    return {bundle.owner, bundle.local + at.local};
  }

  // Returns the row at a place: the inverse of `locate`, by a search among the owner's items.
  std::int64_t global_row(int owner, std::int64_t local) const {
    if (!deal_) return light_.global_row(owner, local);
    auto const& held = deal_->held[static_cast<std::size_t>(owner)];
    std::int64_t const item =
        *(std::upper_bound(held.begin(), held.end(), local,
                           [&](std::int64_t at, std::int64_t number) { return at < first_local(number); }) -
          1);
    if (item < heavy_) return deal_->front(item);
    return deal_->front(heavy_ + light_.global_row(static_cast<int>(item - heavy_), local - first_local(item)));
  }

  // Returns the number of rows of one owner, heavy ones and those of its bundles.
  std::int64_t local_rows(int owner) const {
    return deal_ ? deal_->local_rows[static_cast<std::size_t>(owner)] : light_.local_rows(owner);
  }

 private:
  // The division of the rows into items.
  struct Division {
    std::int64_t heavy;  // rows that are items of their own
    int bundles;         // items to which the other rows are dealt
  };
  // Returns the division of so many rows for owners that get some: 64 heavy rows for each, at least 1024, and 64 bundles for
  // each; fewer of both if there are fewer rows.
  static Division divide(std::int64_t rows, std::int64_t bins) {
    std::int64_t const heavy = std::min(rows, std::max<std::int64_t>(64 * bins, 1024));
    return {heavy, static_cast<int>(std::clamp<std::int64_t>(rows - heavy, 1, std::min<std::int64_t>(64 * bins, 1 << 30)))};
  }

  // The assignment of items to owners.
  struct Deal {
    detail::FrontRows front;                      // heavy rows first
    std::vector<Location> items;                  // the beginning of each: heavy rows, then bundles
    std::vector<std::vector<std::int64_t>> held;  // by owner: its items, as they lie
    std::vector<std::int64_t> local_rows;         // by owner
  };

  // Chooses the heavy rows, weighs all items, and gives them out.
  Layout(std::vector<double> const& weights, int owners, std::int64_t bins, Division division)
      : rows_{std::ssize(weights)},
        owners_{owners},
        heavy_{division.heavy},
        light_{Cyclic{}.layout(rows_ - heavy_, division.bundles)} {
    auto const weight_of = [&](std::int64_t row) { return weights[static_cast<std::size_t>(row)]; };
    std::vector<std::int64_t> order(weights.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    auto const heavier = [&](std::int64_t a, std::int64_t b) {
      return std::tuple{-weight_of(a), a} < std::tuple{-weight_of(b), b};
    };
    if (heavy_ < rows_) std::nth_element(order.begin(), order.begin() + heavy_, order.end(), heavier);
    order.resize(static_cast<std::size_t>(heavy_));
    auto const deal = std::make_shared<Deal>(Deal{detail::FrontRows{std::move(order)}, {}, {}, {}});

    double const total = std::accumulate(weights.begin(), weights.end(), 0.0);
    double const unseen = total > 0 ? total / static_cast<double>(rows_) / 64 : 1;
    std::vector<double> load(static_cast<std::size_t>(heavy_ + division.bundles));
    for (std::int64_t place = 0; place < rows_; ++place) {
      std::int64_t const item = place < heavy_ ? place : heavy_ + light_.locate(place - heavy_).owner;
      load[static_cast<std::size_t>(item)] += weight_of(deal->front(place)) + unseen;
    }

    std::vector<std::int64_t> items(load.size());
    std::iota(items.begin(), items.end(), std::int64_t{0});
    std::stable_sort(items.begin(), items.end(), [&](std::int64_t a, std::int64_t b) {
      return load[static_cast<std::size_t>(a)] > load[static_cast<std::size_t>(b)];
    });
    using Bin = std::pair<double, int>;  // its load and its owner, the least first
    std::vector<Bin> bin_of;
    for (int owner = 0; owner < bins; ++owner) bin_of.emplace_back(0.0, owner);
    std::priority_queue bin(std::greater<Bin>{}, std::move(bin_of));
    deal->items.resize(items.size());
    deal->held.resize(static_cast<std::size_t>(owners));
    deal->local_rows.resize(static_cast<std::size_t>(owners));
    for (std::int64_t const item : items) {
      auto const [loaded, owner] = bin.top();
      bin.pop();
      bin.emplace(loaded + load[static_cast<std::size_t>(item)], owner);
      std::int64_t& end = deal->local_rows[static_cast<std::size_t>(owner)];
      deal->items[static_cast<std::size_t>(item)] = {owner, end};
      deal->held[static_cast<std::size_t>(owner)].push_back(item);
      end += item < heavy_ ? 1 : light_.local_rows(static_cast<int>(item - heavy_));
    }
    deal_ = deal;
  }

  // Returns the number of the item's first row among the local ones of its owner.
  std::int64_t first_local(std::int64_t item) const { return deal_->items[static_cast<std::size_t>(item)].local; }

  std::int64_t rows_;
  int owners_;
  // The number of rows that are items of their own.
  std::int64_t heavy_ = 0;
  Cyclic::Layout light_;  // of the other rows, to bundles; without weights of all rows to owners
  // The deal; null without weights.
  std::shared_ptr<Deal const> deal_;
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/partition/greedy-inl.hpp"
#endif
