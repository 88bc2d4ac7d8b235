// Checks of a type for the members of a partitioner, with a lack in one sentence: included by Variable, which refuses such a
// type by it.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <utility>

#include "parallax/partition/partitioner.hpp"

namespace parallax::inline v0_2::detail {

// Possible lacks, in the order of the search.
enum class PartitionerLack {
  nothing, copies, name, pieces, layout, layout_copies, rows, owners, locate, global_row, local_rows
};

// Returns the first missing member, in the order of the concepts; `nothing` if there is none.
template <class P>
consteval PartitionerLack partitioner_lacks() {
  if constexpr (!std::copyable<P>) {
    return PartitionerLack::copies;
  } else if constexpr (!requires { { P::name } -> std::convertible_to<std::string_view>; }) {
    return PartitionerLack::name;
  } else if constexpr (!requires(P partitioner) { { partitioner.pieces } -> std::same_as<std::int64_t&>; }) {
    return PartitionerLack::pieces;
  } else if constexpr (!requires(P const& view, std::int64_t rows, int owners) { view.layout(rows, owners); }) {
    return PartitionerLack::layout;
  } else {
    using L = decltype(std::declval<P const&>().layout(std::int64_t{1}, 1));
    if constexpr (!std::copyable<L>) return PartitionerLack::layout_copies;
    else if constexpr (!requires(L const& layout) { { layout.rows() } -> std::same_as<std::int64_t>; })
      return PartitionerLack::rows;
    else if constexpr (!requires(L const& layout) { { layout.owners() } -> std::same_as<int>; }) return PartitionerLack::owners;
    else if constexpr (!requires(L const& layout, std::int64_t row) { { layout.locate(row) } -> std::same_as<Location>; })
      return PartitionerLack::locate;
    else if constexpr (!requires(L const& layout, std::int64_t row) {
                         { layout.global_row(0, row) } -> std::same_as<std::int64_t>;
                       })
      return PartitionerLack::global_row;
    else if constexpr (!requires(L const& layout) { { layout.local_rows(0) } -> std::same_as<std::int64_t>; })
      return PartitionerLack::local_rows;
    else return PartitionerLack::nothing;
  }
}

// One of its assertions fails if P is no partitioner, and names the lack.
template <class P>
struct check_partitioner {
  static constexpr PartitionerLack lack = partitioner_lacks<P>();
// Asserts that the lack is another one.
#define PARALLAX_DETAIL_PARTITIONER_HAS(member, text)                           \
  static_assert(lack != PartitionerLack::member,                                \
                "parallax: a partitioner has a name, pieces and a layout (see " \
                "partition/partitioner.hpp), and this one" text)
  PARALLAX_DETAIL_PARTITIONER_HAS(copies, " cannot be copied");
  PARALLAX_DETAIL_PARTITIONER_HAS(name, " lacks static constexpr std::string_view name");
  PARALLAX_DETAIL_PARTITIONER_HAS(pieces, " lacks std::int64_t pieces");
  PARALLAX_DETAIL_PARTITIONER_HAS(layout, " lacks layout(rows, owners) const");
  PARALLAX_DETAIL_PARTITIONER_HAS(layout_copies, "'s layout cannot be copied");
  PARALLAX_DETAIL_PARTITIONER_HAS(rows, "'s layout lacks std::int64_t rows() const");
  PARALLAX_DETAIL_PARTITIONER_HAS(owners, "'s layout lacks int owners() const");
  PARALLAX_DETAIL_PARTITIONER_HAS(locate, "'s layout lacks Location locate(row) const");
  PARALLAX_DETAIL_PARTITIONER_HAS(global_row, "'s layout lacks std::int64_t global_row(owner, local) const");
  PARALLAX_DETAIL_PARTITIONER_HAS(local_rows, "'s layout lacks std::int64_t local_rows(owner) const");
#undef PARALLAX_DETAIL_PARTITIONER_HAS
};

}  // namespace parallax::detail
