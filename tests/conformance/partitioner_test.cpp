#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "parallax/conformance/partitioner.hpp"
#include "parallax/detail/partition/block.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/detail/partition/hash.hpp"
#include "parallax/partition/greedy.hpp"

static_assert(parallax::Partitioner<parallax::Block> && parallax::Partitioner<parallax::Cyclic> &&
              parallax::Partitioner<parallax::Hash> && parallax::Partitioner<parallax::Greedy>);

namespace {

// A user's own: everything lies with the last owner.
struct LastOwner {
  using axis = parallax::partitioner_axis;
  static constexpr std::string_view name = "LastOwner";
  std::int64_t pieces = 0;

  struct Layout {
    std::int64_t all;
    int last;
    std::int64_t rows() const { return all; }
    int owners() const { return last + 1; }
    parallax::Location locate(std::int64_t row) const { return {last, row}; }
    std::int64_t global_row(int, std::int64_t local) const { return local; }
    std::int64_t local_rows(int owner) const { return owner == last ? all : 0; }
  };
  Layout layout(std::int64_t rows, int owners) const {
    parallax::detail::checked_pieces(name, pieces, rows, owners);
    return {rows, owners - 1};
  }
};

}  // namespace

TEMPLATE_TEST_CASE("a partitioner is a bijection with its inverse", "[conformance][partition]", parallax::Block,
                   parallax::Cyclic, parallax::Greedy, parallax::Hash, LastOwner) {
  parallax_conformance::check_partitioner<TestType>();
}

TEST_CASE("a partitioner with weights is a bijection with its inverse", "[conformance][partition]") {
  auto const seed = 5u;
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  std::vector<double> any(1023);  // many alike, many 0, a few that outweigh all others
  for (double& weight : any) weight = random() % 3 == 0 ? 0 : static_cast<double>(random() % 5 << random() % 8 * 4);
  parallax_conformance::check_partitioner_of_rows<parallax::Greedy>([&](std::int64_t rows) {
    return rows < 0 || rows > 1023 ? parallax::Greedy{} : parallax::Greedy{{any.begin(), any.begin() + rows}};
  });
}
