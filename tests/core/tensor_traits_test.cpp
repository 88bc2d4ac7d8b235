// Tensors that the library can look into: contiguous ranges, row views, and types of the user's.
#include "parallax/core/tensor_traits.hpp"

#include <array>
#include <list>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "../catch.hpp"

namespace px = parallax;

namespace {

// A user's tensor: four rows of three, padded to four.
struct Padded {
  std::array<float, 16> memory{};
};

}  // namespace

template <>
struct parallax::tensor_traits<Padded> {
  template <class Self>
  static auto rows(Self& tensor) {
    return RowsView{tensor.memory.data(), 4, 3, 4};
  }
};

TEST_CASE("vectors, arrays, spans and C arrays are flat tensors, const or not", "[core][tensor]") {
  std::vector<float> vector{1, 2, 3};
  std::array<double, 2> array{1, 2};
  int c_array[] = {1, 2, 3, 4};
  STATIC_REQUIRE(std::is_same_v<decltype(px::flat_view(vector))::element_type, float>);
  STATIC_REQUIRE(std::is_same_v<decltype(px::flat_view(std::as_const(vector)))::element_type, float const>);
  STATIC_REQUIRE(std::is_same_v<decltype(px::flat_view(std::span{vector}))::element_type, float>);
  CHECK(px::flat_view(vector).data() == vector.data());
  CHECK(px::flat_view(vector).size() == 3);
  CHECK(px::flat_view(array).size() == 2);
  CHECK(px::flat_view(c_array).size() == 4);
  CHECK(px::flat_view(std::span<int const>{c_array}.subspan(1)).front() == 2);
  STATIC_REQUIRE_FALSE(px::FlatTensor<std::list<float>>);
  STATIC_REQUIRE_FALSE(px::FlatTensor<float>);
  STATIC_REQUIRE_FALSE(px::FlatTensor<px::RowsView<float>>);
  STATIC_REQUIRE(px::FlatTensor<std::vector<float> const>);
}

TEST_CASE("a flat tensor is rows of a width that divides its size", "[core][tensor]") {
  std::vector<float> flat(12);
  std::iota(flat.begin(), flat.end(), 0.0f);
  auto const rows = px::rows_view(flat, 3);
  CHECK(rows.rows == 4);
  CHECK(rows.width == 3);
  CHECK(rows.contiguous());
  CHECK(rows[2][1] == 7);
  CHECK(px::rows_view(flat, 5).rows == -1);
  CHECK(px::rows_view(flat, 0).rows == -1);
  std::vector<float> const nothing;
  CHECK(px::rows_view(nothing, 3).rows == 0);
  CHECK(px::rows_view(nothing, 0).rows == 0);
}

TEST_CASE("a tensor that knows its rows keeps its own shape, whatever width is asked for", "[core][tensor]") {
  Padded tensor;
  tensor.memory[6] = 9;
  auto const rows = px::rows_view(tensor, 5);
  CHECK(rows.rows == 4);
  CHECK(rows.width == 3);
  CHECK_FALSE(rows.contiguous());
  CHECK(rows[1][2] == 9);
  rows[3][0] = 7;
  CHECK(tensor.memory[12] == 7);
  STATIC_REQUIRE(std::is_same_v<decltype(px::rows_view(std::as_const(tensor), 3)), px::RowsView<float const>>);
  STATIC_REQUIRE(px::RowTensor<Padded>);
  STATIC_REQUIRE_FALSE(px::FlatTensor<Padded>);
}

TEST_CASE("a view of rows is a row tensor, is trivially copyable and converts to const", "[core][view]") {
  STATIC_REQUIRE(std::is_trivially_copyable_v<px::RowsView<double>>);
  STATIC_REQUIRE(std::is_convertible_v<px::RowsView<float>, px::RowsView<float const>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<px::RowsView<float const>, px::RowsView<float>>);
  std::array<float, 6> memory{0, 1, 2, 3, 4, 5};
  px::RowsView<float> const view{memory.data(), 2, 2, 3};
  px::RowsView<float const> const constant = view;
  CHECK(constant.stride == 3);
  CHECK(constant[1][1] == 4);
  CHECK(px::rows_view(view, 2).data == memory.data());
  CHECK(px::RowsView<float>{}.rows == 0);
}
