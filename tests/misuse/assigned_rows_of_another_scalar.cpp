// expect: parallax: assign is given a row of the table's scalar type for each index: a row-major table or a contiguous range
#include <parallax/parallax.hpp>
#include <vector>

namespace px = parallax;

int main() {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> table{session, "table", {.rows = 8, .width = 2}};
  session.assign(table, std::vector<int>{3}, std::vector<double>(2));
}
