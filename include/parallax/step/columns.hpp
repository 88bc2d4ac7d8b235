// `Columns`: a wide table cut by columns, so that a row named by everybody has several owners. A trainer makes one instead of a
// Variable, pulls by it, and gives `grad` the pulled rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "parallax/detail/partition/turned.hpp"
#include "parallax/detail/pull/handle.hpp"
#include "parallax/step/grad.hpp"
#include "parallax/variable/variable.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// The parts of a Sparse variable's type taken by Columns: `Part`, the variable of its parts, dealt by a turned partitioner, and
// its own Partitioner and Optimizer, for the settings. Of anything else an assertion says so, and a plain table stands in.
template <class V>
struct ColumnsOf;
template <class Policy, class O, class P, class Space, class T, class IndexType>
struct ColumnsOf<BasicVariable<Sparse, Policy, O, P, Space, T, IndexType>> {
  using Part = BasicVariable<Sparse, Policy, O, Turned<P>, Space, T, IndexType>;
  using Partitioner = P;
  using Optimizer = O;
};
template <class V>
struct ColumnsOf : ColumnsOf<Variable<Sparse>> {
  static_assert(never<V>, "parallax: Columns cuts a Sparse variable: Columns<Variable<Sparse, ...>, parts>");
};

// Returns the first column of part `part` of so many; for `parts`, `width`.
constexpr std::int64_t column_begin(std::int64_t width, int part, int parts) { return width * part / parts; }

}  // namespace detail

// The rows of a pull from every part of a table. Owns a handle for each part of the Columns, which it may outlive. Move-only.
template <class State, int parts>
class PulledColumns {
 public:
  // The scalar of the table's elements.
  using T = typename State::scalar_type;

  PulledColumns() = default;
  // Takes the handles, in the order of the parts. By `Columns::pull`.
  explicit PulledColumns(std::array<PulledRows<State>, static_cast<std::size_t>(parts)> rows) : rows_{std::move(rows)} {}

  // Returns the number of pulled indices, duplicates included.
  std::size_t indices() const { return rows_[0].indices(); }
  // Returns the number of elements of a whole row, with all parts.
  std::int64_t width() const {
    std::int64_t sum = 0;
    for (auto const& rows : rows_) sum += rows.width();
    return sum;
  }
  // Returns the handle of part p, 0 <= p < parts; its rows have the columns of this part. Belongs to this handle.
  PulledRows<State> const& part(int p) const { return rows_[static_cast<std::size_t>(p)]; }

  // Local. Writes the whole row of the i-th index, i below indices(), to `out`, width() elements in the host's memory; returns
  // the end of the written range.
  T* copy_row(std::size_t i, T* out) const requires State::space::host_readable {
    for (auto const& rows : rows_)
      for (T const value : rows[i]) *out++ = value;
    return out;
  }

 private:
  std::array<PulledRows<State>, static_cast<std::size_t>(parts)> rows_;
};

// A table as `parts` tables of some of its columns each, with another owner for every row in each: column c of `width` is in
// part p if width · p / parts <= c < width · (p + 1) / parts, rounded down. A row named by all ranks then burdens `parts`
// owners with a part of its bytes and its update, and not one with all; ids travel once for each part. V is the variable of the
// uncut table, its partitioner deals the first part, and `Turned` the others. An optimizer keeps its state of an element as for
// the whole table; its state of a row (RowwiseAdagrad, Lamb) it keeps for each row of a part.
//   px::Columns<px::Variable<px::Sparse, px::Adagrad>, 4> wide{session, "wide", {.rows = 1'000'000, .width = 1024}};
//   auto const rows = wide.pull(session, ids);
//   for (std::size_t i = 0; i < ids.size(); ++i) rows.copy_row(i, activations.row(i));
//   session.step(px::grad(rows, gradient));  // gradient: a row of 1024 for each id
template <class V, int parts>
class Columns {
  static_assert(parts >= 1, "parallax: Columns has at least one part");

 public:
  // The variable of one part.
  using Part = typename detail::ColumnsOf<V>::Part;
  // This rank's share of a part.
  using State = typename Part::State;
  // The scalar of the table's elements.
  using T = typename Part::scalar_type;

  // Local. Makes the parts: variables `name.0`, `name.1`, …, compared by the ranks as any. `settings` are V's, in any order: an
  // optimizer, a partitioner, a Reduce, a BadIds. Initial values are drawn for each part by its name. Throws Error
  // (invalid_argument) for fewer columns than parts, and as a Variable does.
  template <class Session, class... Settings>
  Columns(Session& session, std::string const& name, Table const& table, Settings const&... settings)
      : Columns{std::make_index_sequence<static_cast<std::size_t>(parts)>{}, session, name, table, settings...} {}

  // Returns the number of the table's rows, the same in every part.
  std::int64_t rows() const { return parts_[0].rows(); }
  // Returns the number of columns of the whole table.
  std::int64_t width() const { return width_; }
  // Returns part p, owned here, as a variable, 0 <= p < parts: for members of a variable, as its optimizer's settings.
  Part& part(int p) { return parts_[static_cast<std::size_t>(p)]; }
  // Returns the first column of part p in the whole table; for `parts` its width.
  std::int64_t first_column(int p) const { return detail::column_begin(width_, p, parts); }

  // Collective. Pulls these indices from all parts at once, as session.pull, with its errors, which name the part.
  template <class Session, class Ids>
  PulledColumns<State, parts> pull(Session& session, Ids const& ids) {
    return std::apply([&](auto&... part) { return taken(session.pull(part.at(ids)...)); }, parts_);
  }

  // Returns all parts, for operations on variables:
  //   std::apply([&](auto&... parts) { session.visit(archive, parts...); }, wide.all())
  std::array<Part, static_cast<std::size_t>(parts)>& all() { return parts_; }

 private:
  using P = typename detail::ColumnsOf<V>::Partitioner;
  using O = typename detail::ColumnsOf<V>::Optimizer;

  template <std::size_t... Nth, class Session, class... Settings>
  Columns(std::index_sequence<Nth...>, Session& session, std::string const& name, Table const& table,
          Settings const&... settings)
      : width_{checked(session, name, table.width)},
        parts_{Part{session, joined({name, ".", Nth}), narrowed(table, static_cast<int>(Nth)),
                    Turned<P>{static_cast<std::int64_t>(Nth), parts, detail::setting_or(P{}, settings...)},
                    detail::setting_or(O{}, settings...), detail::setting_or(Reduce::mean, settings...),
                    detail::setting_or(BadIds::error, settings...)}...} {
    static_assert(
        (true && ... && detail::one_of<Settings, O, P, Reduce, BadIds>),
        "parallax: Columns are made from a session, a name, their table, their own optimizer and partitioner, a Reduce "
        "and a BadIds");
  }

  // Returns `width`. Throws Error (invalid_argument) if it is below `parts`, before any part is known to the session.
  template <class Session>
  static std::int64_t checked(Session& session, std::string const& name, std::int64_t width) {
    if (width < parts)
      throw Error{Errc::invalid_argument, session.rank(), "Columns", name,
                  joined({width, " columns cannot be cut into ", parts, " parts"})};
    return width;
  }
  // Returns the table of part p: as many rows, and its columns.
  static Table narrowed(Table table, int p) {
    auto const begin = detail::column_begin(table.width, p, parts);
    table.width = detail::column_begin(table.width, p + 1, parts) - begin;
    return table;
  }
  // Returns the handles of a pull, of one part a handle and of several a tuple, as PulledColumns.
  static PulledColumns<State, parts> taken(PulledRows<State> rows) requires(parts == 1) {
    return PulledColumns<State, parts>{{std::move(rows)}};
  }
  template <class... Rows>
  static PulledColumns<State, parts> taken(std::tuple<Rows...> rows) {
    return std::apply([](auto&... each) { return PulledColumns<State, parts>{{std::move(each)...}}; }, rows);
  }

  std::int64_t width_;
  std::array<Part, static_cast<std::size_t>(parts)> parts_;
};

// Local. Names the gradient of rows pulled from columns: one row of the whole width per index, [indices x width], in the order
// of the indices. Returns one argument of a step, which refers to `pulled` and `rows` until the step has returned. Rows of
// another number or width are refused by the step, on all ranks, naming a part.
template <class State, int parts, class Rows>
auto grad(PulledColumns<State, parts> const& pulled, Rows const& rows) {
  using T = typename State::scalar_type;
  auto const whole = detail::checked_rows<T>(rows, pulled.width());
  if constexpr (std::is_same_v<decltype(whole), detail::Mistaken const>) {
    return whole;
  } else {
    std::array<RowUpdate<State, typename State::index_type>, static_cast<std::size_t>(parts)> updates;
    std::int64_t column = 0;
    for (int p = 0; p < parts; ++p) {
      auto const& of = pulled.part(p);
      std::int64_t const excess = whole.width - pulled.width();  // a wrong width stays as wrong
      T const* const begin = whole.rows == 0 ? nullptr : whole.data + column;
      RowsView<T const> const view{begin, whole.rows, of.width() + excess, whole.stride};
      updates[static_cast<std::size_t>(p)] = grad(of, view);
      column += of.width();
    }
    return updates;
  }
}

}  // namespace parallax
