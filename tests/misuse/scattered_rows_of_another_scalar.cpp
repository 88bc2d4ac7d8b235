// expect: parallax: scatter calls give(std::span<std::int64_t const>, RowsView<T>), with numbers of rows and the rows to be filled, of the type T of the variable's elements
#include <cstdint>
#include <span>

#include <parallax/checkpoint/whole.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

int main() {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, px::Adam> table{session, "table", {.rows = 8, .width = 2}};
  session.scatter(table, {}, [](std::span<std::int64_t const>, px::RowsView<double>) {});
}
