// `Turned<P>`: the rows of P with other owners, all of them turned round by as many. `Columns` includes it and deals the parts
// of a table by it.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/text.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/partition/partitioner.hpp"

namespace parallax::inline v0_2 {

// A partitioner made of another one: P's rows of owner o belong to owner (o + owners · turn / turns) mod owners, rounded down.
// Turns 0, 1, …, turns - 1 spread as evenly as owners allow, and each row of P has as many owners in all. `layout` throws Error
// (invalid_argument) for a turn outside [0, turns).
template <Partitioner P = Cyclic>
struct Turned : P {
  // The type's name, in signatures and errors.
  static constexpr std::string_view name = "Turned";
  // The number of this turn, from 0.
  std::int64_t turn = 0, turns = 1;  // number of turns

  Turned() = default;
  // Makes turn `number` of `of` turns, of the rows as `dealt` deals them.
  explicit Turned(std::int64_t number, std::int64_t of, P dealt = {}) : P{std::move(dealt)}, turn{number}, turns{of} {}

  // Locates rows as P's layout does, and then turns the owner; defined below.
  class Layout;
  // Returns the layout of so many rows. Throws P's errors, and Error (invalid_argument) for a turn outside [0, turns).
  Layout layout(std::int64_t rows, int owners) const {
    auto dealt = P::layout(rows, owners);
    if (turns < 1 || turn < 0 || turn >= turns)
      throw Error{Errc::invalid_argument, -1, "layout", "", joined({"turn ", turn, " of ", turns, " turns"})};
    return Layout{std::move(dealt), static_cast<int>(owners * turn / turns)};
  }

  // Visits the fields for the ranks' comparison: P's settings, and the turn.
  void fields(auto&& visit) const {
    visit_fields(static_cast<P const&>(*this), visit);
    visit(turn);
    visit(turns);
  }
};

// Turned's layout of a table: P's layout, turned by a number of owners.
template <Partitioner P>
class Turned<P>::Layout {
  using Dealt = decltype(std::declval<P const&>().layout(std::int64_t{}, 1));

 public:
  // True if kernels may locate rows: if they may by P's layout.
  static constexpr bool on_device = requires { requires Dealt::on_device; };

  // Made by `Turned::layout`: 0 <= by < owners.
  Layout(Dealt dealt, int by) : dealt_{std::move(dealt)}, by_{by} {}

  // Returns the number of rows of the whole table.
  std::int64_t rows() const { return dealt_.rows(); }
  // Returns the number of owners, with rows dealt to them or without.
  PARALLAX_HOST_DEVICE int owners() const { return dealt_.owners(); }
  // Returns the place of a row: as many rows into the shard as at P's owner.
  PARALLAX_HOST_DEVICE Location locate(std::int64_t row) const {
    Location at = dealt_.locate(row);
    at.owner += at.owner < owners() - by_ ? by_ : by_ - owners();
    return at;
  }
  // Returns the row at a place: the inverse of `locate`.
  std::int64_t global_row(int owner, std::int64_t local) const { return dealt_.global_row(before(owner), local); }
  // Returns the number of rows of one owner: of P's owner whose rows are turned to it.
  std::int64_t local_rows(int owner) const { return dealt_.local_rows(before(owner)); }

 private:
  // Returns the number of P's owner whose rows this owner has.
  int before(int owner) const { return owner < by_ ? owner - by_ + owners() : owner - by_; }

  Dealt dealt_;
  int by_;  // in [0, owners)
};

}  // namespace parallax
