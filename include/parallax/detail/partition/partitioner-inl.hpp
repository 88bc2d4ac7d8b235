// Bodies of parallax/partition/partitioner.hpp.
#pragma once

#include "parallax/partition/partitioner.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::int64_t checked_pieces(std::string_view name, std::int64_t pieces, std::int64_t rows, int owners) {
  if (rows < 0 || owners < 1 || pieces < 0)
    throw Error{Errc::invalid_argument, -1, "layout", "",
                joined({name, " cannot deal ", rows, " rows in ", pieces, " pieces to ", owners, " owners"})};
  return pieces == 0 ? owners : pieces;
}

}  // namespace parallax::detail
