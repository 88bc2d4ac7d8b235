// Eigen's matrices as tensors: what the library sees in an expression are the coefficients that Eigen sees, or it says that it
// cannot.
#include "parallax/interop/eigen.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

using InColumns = Eigen::MatrixXf;
using InRows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// 4 x 6, every element another number.
template <class M>
M numbered() {
  M matrix(4, 6);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j) matrix(i, j) = static_cast<float>(10 * i + j);
  return matrix;
}

enum class Seen { right, wrong, refused };

template <class See>
Seen seen(See&& see) {
  try {
    return see() ? Seen::right : Seen::wrong;
  } catch (px::Error const& error) {
    return error.code() == px::Errc::invalid_argument ? Seen::refused : Seen::wrong;
  }
}

// The coefficients in the order of the expression's storage.
template <class M>
Seen as_run(M&& matrix) {
  return seen([&] {
    auto const run = px::flat_view(matrix);
    bool right = run.size() == static_cast<std::size_t>(matrix.size());
    for (Eigen::Index k = 0; right && k < matrix.size(); ++k) {
      Eigen::Index const inner = k % matrix.innerSize(), outer = k / matrix.innerSize();
      bool const by_rows = std::remove_cvref_t<M>::IsRowMajor;
      right = run[static_cast<std::size_t>(k)] == (by_rows ? matrix.coeff(outer, inner) : matrix.coeff(inner, outer));
    }
    return right;
  });
}

template <class M>
Seen as_rows(M&& matrix) {
  return seen([&] {
    auto const rows = px::rows_view(matrix, 1);
    bool right = rows.rows == matrix.rows() && rows.width == matrix.cols();
    for (Eigen::Index i = 0; right && i < matrix.rows(); ++i)
      for (Eigen::Index j = 0; right && j < matrix.cols(); ++j)
        right = rows[i][static_cast<std::size_t>(j)] == matrix.coeff(i, j);
    return right;
  });
}

// The text of the Error of a call, or nothing.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (px::Error const& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a run is seen in an Eigen expression without gaps, and refused in one with gaps", "[interop][eigen]") {
  auto m = numbered<InColumns>();
  auto r = numbered<InRows>();
  CHECK(as_run(m) == Seen::right);
  CHECK(as_run(std::as_const(r)) == Seen::right);
  CHECK(as_run(m.array()) == Seen::right);
  CHECK(as_run(m.transpose()) == Seen::right);
  CHECK(as_run(m.leftCols(2)) == Seen::right);
  CHECK(as_run(m.col(1)) == Seen::right);
  CHECK(as_run(m.col(1).segment(1, 2)) == Seen::right);
  CHECK(as_run(m.topRows(4)) == Seen::right);
  CHECK(as_run(m.topRows(2)) == Seen::refused);
  CHECK(as_run(m.topRows(2).leftCols(1)) == Seen::right);
  CHECK(as_run(m.topRows(0)) == Seen::right);
  CHECK(as_run(m.topRows(2).transpose()) == Seen::refused);
  CHECK(as_run(m.row(1)) == Seen::refused);
  CHECK(as_run(m.row(1).head(1)) == Seen::right);
  CHECK(as_run(m.diagonal()) == Seen::refused);
  CHECK(as_run(r.row(1)) == Seen::right);
  CHECK(as_run(r.topRows(2)) == Seen::right);
  CHECK(as_run(r.leftCols(2)) == Seen::refused);
  CHECK(as_run(r.col(1)) == Seen::refused);
  CHECK(as_run(Eigen::Ref<InColumns>{m}) == Seen::right);
  CHECK(as_run(Eigen::Ref<InColumns>{m.block(1, 1, 2, 3)}) == Seen::refused);
  Eigen::Matrix<float, 4, 6> fixed = m;
  CHECK(as_run(fixed) == Seen::right);
  CHECK(as_run(fixed.leftCols<2>()) == Seen::right);
  CHECK(as_run(fixed.topRows<1>().leftCols<1>()) == Seen::right);
}

TEST_CASE("rows are seen in an Eigen expression by their stride, and refused where a row has gaps", "[interop][eigen]") {
  auto m = numbered<InColumns>();
  auto r = numbered<InRows>();
  CHECK(as_rows(r) == Seen::right);
  CHECK(as_rows(r.bottomRows(3)) == Seen::right);
  CHECK(as_rows(r.middleCols(1, 3)) == Seen::right);
  CHECK(as_rows(r.block(1, 2, 2, 3)) == Seen::right);
  CHECK(as_rows(r.row(2)) == Seen::right);
  CHECK(as_rows(r.row(2).segment(1, 3)) == Seen::right);
  CHECK(as_rows(r.col(2)) == Seen::right);  // rows of one element
  CHECK(as_rows(m.transpose()) == Seen::right);
  CHECK(as_rows(m.topRows(3).transpose()) == Seen::right);
  CHECK(as_rows(m.col(2)) == Seen::right);
  CHECK(as_rows(m.diagonal()) == Seen::right);
  CHECK(as_rows(m.row(2)) == Seen::refused);
  CHECK(as_rows(m.row(2).head(1)) == Seen::right);
  CHECK(as_rows(Eigen::Ref<InRows>{r.block(1, 2, 2, 3)}) == Seen::right);
  Eigen::Matrix<float, 4, 6, Eigen::RowMajor> fixed = r;
  CHECK(as_rows(fixed.leftCols<2>()) == Seen::right);
  CHECK(as_rows(fixed.col(3)) == Seen::right);
}

TEST_CASE("a map of any strides shows Eigen's coefficients or is refused", "[interop][eigen]") {
  auto const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  auto const up_to = [&](int most) { return std::uniform_int_distribution{0, most}(random); };
  std::vector<float> memory(500);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  using Strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  int runs = 0, tables = 0;
  for (int i = 0; i < 2'000; ++i) {
    int const rows = up_to(4), columns = up_to(4), inner = 1 + up_to(2), outer = up_to(10);
    CAPTURE(rows, columns, inner, outer);
    Eigen::Map<InColumns, 0, Strides> const m{memory.data(), rows, columns, Strides{outer, inner}};
    Eigen::Map<InRows, 0, Strides> const r{memory.data(), rows, columns, Strides{outer, inner}};
    // A run: each coefficient one element behind the one before it.
    auto const is_run = [&](int inner_size, int outer_size) {
      int next = 0;
      for (int o = 0; o < outer_size; ++o)
        for (int k = 0; k < inner_size; ++k)
          if (o * outer + k * inner != next++) return false;
      return true;
    };
    REQUIRE(as_run(m) == (is_run(rows, columns) ? Seen::right : Seen::refused));
    REQUIRE(as_run(r) == (is_run(columns, rows) ? Seen::right : Seen::refused));
    REQUIRE(as_rows(r) == (inner == 1 || columns <= 1 || rows == 0 ? Seen::right : Seen::refused));
    runs += is_run(rows, columns);
    tables += inner == 1;
  }
  CHECK(runs > 100);
  CHECK(tables > 100);
}

TEST_CASE("a step by blocks of Eigen matrices takes their coefficients", "[interop][eigen]") {
  px::SelfCommunicator world;
  px::Session session{world};
  Eigen::MatrixXf weights = Eigen::MatrixXf::Zero(4, 2);
  InRows table = InRows::Zero(5, 2);
  px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 1}};
  px::Variable<px::Sparse, px::AllGather, px::Sgd> words{session, "words", px::bind_rows(table, 2),
                                                         px::Sgd{.learning_rate = 1}};
  auto const m = numbered<InColumns>();
  auto const r = numbered<InRows>();
  std::vector<int> const ids{3, 0};
  session.step(px::grad(layer, m.middleCols(3, 2)), px::grad(words, ids, r.block(1, 2, 2, 2)));
  session.finish();
  CHECK(weights == -m.middleCols(3, 2));
  CHECK(table.row(3) == -r.block(1, 2, 1, 2));
  CHECK(table.row(0) == -r.block(2, 2, 1, 2));
  CHECK(table.row(1).isZero());
}

TEST_CASE("what has gaps is told by its shape and strides", "[interop][eigen]") {
  auto m = numbered<InColumns>();
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> memory(12);
  px::Variable<px::Dense> layer{session, "layer", px::bind(memory)};
  CHECK(
      refusal([&] { session.step(px::grad(layer, m.topRows(2))); }) ==
      "parallax: invalid argument: an Eigen expression of 2 x 6 with inner stride 1 and outer stride 4 is no contiguous run of "
      "elements: copy it, as by eval()");
  CHECK(
      refusal([&] { px::bind(m.row(1)); }) ==
      "parallax: invalid argument: an Eigen expression of 1 x 6 with inner stride 4 and outer stride 1 is no contiguous run of "
      "elements: copy it, as by eval()");
  CHECK(refusal([&] { px::rows_view(m.row(1), 6); }) ==
        "parallax: invalid argument: an Eigen expression of 1 x 6 with inner stride 4 has no contiguous rows: copy it, as by "
        "eval()");
  session.finish();
}
