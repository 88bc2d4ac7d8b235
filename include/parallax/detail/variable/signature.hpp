// The signature of a variable in words, compared by ranks. Variables make it as they are made, after checks of their name and
// shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2::detail {

// Throws Error (invalid_argument) for an empty name, and one with a control byte: lines and fields of the ranks' comparison end
// at such bytes, and what() ends at a NUL.
void check_name(std::string_view name, int rank);
// Throws Error (invalid_argument) for a table with a negative size, and for one with more rows than numbers of the index type.
void check_shape(std::string_view name, std::int64_t rows, std::int64_t width, int rank, std::int64_t most_rows,
                 std::string_view index_type);
// The words of a variable's signature, as its constructor knows them by type.
struct SignatureWords {
  // The names of the scalar type, the memory space (empty for the host's), the policy and the optimizer.
  std::string_view scalar, space, policy, optimizer;
  // The reduction of the ranks' gradients.
  Reduce reduce;
  // Of a table: the names of its index type and its partitioner.
  std::string_view index = {}, partitioner = {};
  // The partitioner's settings as text.
  std::string partitioner_fields = {};
  // The answer to indices outside the table.
  BadIds bad_ids = BadIds::error;
};
// Returns the signature of a dense variable of `size` elements, whose optimizer measures rows of `row` elements; -1 if it does
// not.
PARALLAX_COLD std::string dense_signature(SignatureWords const& words, std::size_t size,
                                          std::int64_t row);  // row: -1 if it has none
// Returns the signature of a table; `initial`: its first values in words, or empty if the user owns it.
PARALLAX_COLD std::string table_signature(SignatureWords const& words, std::int64_t rows, std::int64_t width,
                                          std::string_view initial);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/variable/signature-inl.hpp"
#endif
