// Several tables as one variable. A trainer with such tables includes this file beside parallax.hpp, and gives a Stack to the
// constructor of a Sparse variable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/text.hpp"
#include "parallax/detail/variable/table.hpp"

namespace parallax::inline v0_2 {

// Tables of one width, one behind the other in one variable: they are pulled, updated, dealt to owners and saved as one, by as
// many messages, and on a device by as many kernels, as one table. All ranks give the same.
//   px::Variable<px::Sparse, px::CudaSpace> tables{session, "tables", px::Stack{{{1000, 16}, {50, 16}}}};
//   auto const pooled = session.pull(tables.bags(ids, offsets));  // the bags of table 0, then as many of table 1
// A row has its number in its own table if bags name it, and everywhere else its number in the whole: `first_row(table)` and
// on.
class Stack {
 public:
  // Takes their rows in this order; each has first values of its own, by the name of the variable and the row's number in the
  // whole. The variable refuses tables of different widths, and none.
  explicit Stack(std::vector<Table> tables) : tables_{std::move(tables)} {}
  // Returns the tables of the constructor, in its order.
  std::vector<Table> const& tables() const { return tables_; }

  // Returns, for the variable of this name, the first row of each table, and behind them the number of rows. Throws Error
  // (invalid_argument) for no tables, a negative size, different widths, and more rows than 64 bits count.
  std::vector<std::int64_t> first_rows(std::string_view name, int rank) const {
    auto const refuse = [&](std::string_view why) { throw Error{Errc::invalid_argument, rank, "Variable", name, why}; };
    if (tables_.empty()) refuse("a stack of no tables");
    std::vector<std::int64_t> firsts{0};
    for (Table const& table : tables_) {
      std::size_t const number = firsts.size() - 1;
      if (table.rows < 0 || table.width < 0) refuse(joined({"a table of ", table.rows, " x ", table.width}));
      if (table.width != tables_.front().width)
        refuse(joined({"tables of one width are stacked: table 0 has ", tables_.front().width, " elements a row, table ",
                       number, " has ", table.width}));
      if (table.rows > std::numeric_limits<std::int64_t>::max() - firsts.back()) refuse("more rows than a number counts");
      firsts.push_back(firsts.back() + table.rows);
    }
    return firsts;
  }
  // Returns, for the variable, the stack's part of its signature: the rows of each table and their first values.
  std::string text() const {
    std::string text = joined({", a stack of ", tables_.size(), ":"});
    std::string before;
    for (Table const& table : tables_) {
      append(text, {" ", table.rows});
      std::string initial = fields_text(table.initial);
      if (initial != before) text += initial;
      before = std::move(initial);
    }
    return text;
  }

 private:
  std::vector<Table> tables_;
};

}  // namespace parallax
