// Values that are not saved, and rows that are not given whole.
#include <cstdint>
#include <span>

#include "world.hpp"

#include <parallax/checkpoint/whole.hpp>

px::Variable<px::Sparse, px::Adam> table{session, "table", {.rows = 8, .width = 2}};

#if defined(gather_of_a_tensor)
// expect: parallax: gather and scatter are given a variable, options, and what takes or gives its rows
void see(std::vector<float>& memory) {
  session.gather(memory, {}, [](auto, auto) {});
}
#elif defined(gathered_rows_of_another_scalar)
// expect: parallax: gather calls take(std::span<std::int64_t const>, RowsView<T const>), with numbers of rows and the rows, of the type T of the variable's elements
void see() {
  session.gather(table, {}, [](std::span<std::int64_t const>, px::RowsView<double const>) {});
}
#elif defined(save_of_a_number)
// expect: a checkpoint is of variables, ranges of variables, and values: shared_value("name", value) or own_value("name", value)
#include <parallax/checkpoint/checkpoint.hpp>
void save(int epoch) { session.save("run", {}, epoch); }
#elif defined(scattered_rows_of_another_scalar)
// expect: parallax: scatter calls give(std::span<std::int64_t const>, RowsView<T>), with numbers of rows and the rows to be filled, of the type T of the variable's elements
void fill() {
  session.scatter(table, {}, [](std::span<std::int64_t const>, px::RowsView<double>) {});
}
#endif
