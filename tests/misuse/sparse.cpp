// Operations on a Sparse variable that are none.
#include <span>
#include <utility>

#include "world.hpp"

px::Variable<px::Sparse> words{session, "words", {.rows = 4, .width = 2}};
px::Variable<px::Sparse, px::Subtract> edited{session, "edited", {.rows = 4, .width = 2}};

#if defined(accumulated_rows_without_indices)
// expect: parallax: rows are accumulated as updates of the variable: grad(handle, rows) or grad(variable, ids, rows)
px::Accumulator sums{words};
void train(std::vector<float> const& rows) { sums.add(rows); }
#elif defined(archive_without_items)
// expect: parallax: an archive has a constant `reads` and item(Item const&, bytes)
struct File {
  static constexpr bool reads = false;
};
void save(File& file) { words.visit(file); }
#elif defined(assigned_rows_of_another_scalar)
// expect: parallax: assign is given a row of the table's scalar type for each index: a row-major table or a contiguous range
void set() { session.assign(words, std::vector<int>{3}, std::vector<double>(2)); }
#elif defined(bags_of_floats)
// expect: parallax: a table is indexed by integers
void look_up(std::vector<float> const& ids, std::vector<int> const& offsets) {
  auto const rows = session.pull(words.bags(ids, offsets, px::Pool::mean));
}
#elif defined(broadcast_of_a_sharded_variable)
// expect: parallax: a sharded variable has one copy of every row; there is nothing to broadcast
void begin() { session.broadcast(words); }
#elif defined(device_indices_of_a_host_table)
// expect: parallax: a table in the host's memory is indexed by numbers there, not by px::on_device
auto const rows = session.pull(words, px::on_device(std::span<int const>{}));
#elif defined(difference_of_rows_as_pulled)
// expect: parallax: a difference is of rows that the trainer may change: session.pull(table, ids).editable()
void train(std::vector<int> const& ids) {
  auto const rows = session.pull(edited, ids);
  session.step(px::grad(rows, px::difference));
}
#elif defined(difference_under_another_rule)
// expect: parallax: a difference is taken by a table whose optimizer is p -= g: px::Subtract, or one that says
void train(std::vector<int> const& ids) {
  auto const rows = session.pull(words, ids).editable();
  session.step(px::grad(rows, px::difference));
}
#elif defined(distinct_rows_of_bags)
// expect: parallax: the gradient of rows is a row-major table or a contiguous range
void train(std::vector<int> const& ids, std::vector<int> const& offsets, std::vector<float> const& rows) {
  auto const bags = session.pull(words.bags(ids, offsets));
  session.step(px::grad(bags, px::distinct(rows)));
}
#elif defined(editable_rows_of_a_handle_kept)
// expect: parallax: a handle becomes one of editable rows: session.pull(table, ids).editable(), or
void train(std::vector<int> const& ids) {
  auto const rows = session.pull(edited, ids);
  rows.editable()[0][0] = 1;
}
#elif defined(gather_without_its_header)
// expect: parallax: who saves, restores, gathers or scatters includes <parallax/checkpoint/checkpoint.hpp>
void see(px::WholeOptions const& options) {
  session.gather(words, options, [](auto, auto) {});
}
#elif defined(indices_of_floats)
// expect: parallax: a table is indexed by integers
void look_up(std::vector<float> const& ids) { auto const rows = session.pull(words, ids); }
#elif defined(offsets_of_floats)
// expect: parallax: a table is indexed by integers
void look_up(std::vector<int> const& ids, std::vector<float> const& offsets) {
  auto const rows = session.pull(words.bags(ids, offsets));
}
#elif defined(prefetch_of_indices_alone)
// expect: parallax: a prefetch is of a Sparse variable and the next batch's indices
void train(std::vector<int> const& ids, std::vector<float> const& gradient) {
  auto next = session.prefetch(ids);
  auto const rows = session.pull(std::move(next));
  session.step(px::grad(rows, gradient), px::grad(rows, rows.values()));
  if (rows[0][1] > 0) session.finish();
}
#elif defined(pulled_rows_by_pointer_and_count)
// expect: parallax: rows by pointer are a table: px::RowsView{pointer, rows, width}
void train(std::vector<int> const& ids, float const* gradient) {
  auto const rows = session.pull(words, ids);
  session.step(px::grad(rows, gradient, 4));
}
#elif defined(row_gradient_of_bags_of_another_scalar)
// expect: parallax: the gradient's elements are not of the variable's scalar type
void train(std::vector<int> const& ids, std::vector<int> const& offsets, std::vector<double> const& rows) {
  auto const bags = session.pull(words.bags(ids, offsets));
  session.step(px::grad(bags, rows));
}
#elif defined(rows_by_pointer_and_count)
// expect: parallax: rows by pointer are a table: px::RowsView{pointer, rows, width}
void train(std::vector<int> const& ids, float const* gradient) { session.step(px::grad(words, ids, gradient, 4)); }
#elif defined(rows_of_another_scalar)
// expect: parallax: the gradient's elements are not of the variable's scalar type
void train(std::vector<int> const& ids, std::vector<double> const& rows) {
  auto const handle = session.pull(words, ids);
  session.step(px::grad(handle, rows));
}
#elif defined(rows_that_are_no_tensor)
// expect: parallax: the gradient of rows is a row-major table or a contiguous range
void train(std::vector<int> const& ids) { session.step(px::grad(words, ids, 0.5f)); }
#elif defined(search_under_a_fixed_policy)
// expect: parallax: pieces are searched for a variable under Auto: Variable<Sparse, Auto>
void search() { session.search_pieces(words); }
#elif defined(sparse_gradient_without_indices)
// expect: parallax: a Sparse variable takes rows by index
void train(std::vector<float> const& rows) { session.step(px::grad(words, rows)); }
#elif defined(update_by_indices_of_floats)
// expect: parallax: a table is indexed by integers
void train(std::vector<float> const& ids, std::vector<float> const& rows) { session.step(px::grad(words, ids, rows)); }
#elif defined(weights_of_another_scalar)
// expect: parallax: the weights of bags are of the variable's scalar type
void look_up(std::vector<int> const& ids, std::vector<int> const& offsets, std::vector<double> const& weights) {
  auto const rows = session.pull(words.bags(ids, offsets, weights));
}
#endif
