// expect: parallax: a partitioner has a name, pieces and a layout (see partition/partitioner.hpp), and this one's layout lacks std::int64_t global_row(owner, local) const
#include "world.hpp"

struct OneOwner {
  using axis = px::partitioner_axis;
  static constexpr std::string_view name = "OneOwner";
  std::int64_t pieces = 0;
  struct Layout {
    std::int64_t all;
    int number;
    std::int64_t rows() const { return all; }
    int owners() const { return number; }
    px::Location locate(std::int64_t row) const { return {0, row}; }
    std::int64_t local_rows(int owner) const { return owner == 0 ? all : 0; }
  };
  Layout layout(std::int64_t rows, int owners) const { return {rows, owners}; }
};
px::Variable<px::Sparse, OneOwner> words{session, "words", {.rows = 4, .width = 2}};
void train(std::vector<int> const& ids) {
  auto const rows = session.pull(words, ids);
  session.step(px::grad(rows, rows.values()));
}
