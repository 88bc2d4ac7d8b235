// What ranks compare of a variable: its signature in words. Variables make it as they are made, after their name and shape were
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::detail {

// Throws Error (invalid_argument) for an empty name, and one with a control byte: lines and fields of the ranks' comparison end
// at such bytes, and what() ends at a NUL.
void check_name(std::string_view name, int rank);
// Throws Error (invalid_argument) for a table with a negative size, and one of more rows than the index type has numbers for.
void check_shape(std::string_view name, std::int64_t rows, std::int64_t width, int rank, std::int64_t most_rows,
                 std::string_view index_type);
// The words of a variable's signature, as its constructor knows them by type.
struct SignatureWords {
  // The names of the scalar type, the memory space (empty for the host's), the policy and the optimizer.
  std::string_view scalar, space, policy, optimizer;
  // How gradients of the ranks become one.
  Reduce reduce;
  // Of a table: the names of its index type and its partitioner.
  std::string_view index = {}, partitioner = {};
  // The partitioner's settings as text.
  std::string partitioner_fields = {};
  // What becomes of indices outside the table.
  BadIds bad_ids = BadIds::error;
};
// The signature of a dense variable of `size` elements, whose optimizer measures rows of `row` elements; -1 where it does not.
PARALLAX_COLD std::string dense_signature(SignatureWords const& words, std::size_t size,
                                          std::int64_t row);  // row: -1 where it has none
// The signature of a table; `initial`: its first values in words, or empty where the user owns it.
PARALLAX_COLD std::string table_signature(SignatureWords const& words, std::int64_t rows, std::int64_t width,
                                          std::string_view initial);

#if PARALLAX_BODIES
PARALLAX_INLINE void check_name(std::string_view name, int rank) {
  std::string shown;
  bool printable = !name.empty();
  for (char const letter : name) {
    auto const c = static_cast<unsigned char>(letter);
    bool const control = c < 0x20 || c == 0x7f;
    printable = printable && !control;
    constexpr std::string_view digits = "0123456789abcdef";
    if (control) append(shown, {"\\x", digits[c / 16u], digits[c % 16u]});
    else shown += letter;
  }
  if (!printable)
    throw Error{Errc::invalid_argument, rank, "Variable", shown, "a variable's name is not empty and has no control bytes"};
}
PARALLAX_INLINE void check_shape(std::string_view name, std::int64_t rows, std::int64_t width, int rank, std::int64_t most_rows,
                                 std::string_view index_type) {
  auto const refuse = [&](std::string_view why) { throw Error{Errc::invalid_argument, rank, "Variable", name, why}; };
  if (rows < 0 || width < 0) refuse(joined({"a table of ", rows, " x ", width}));
  if (rows > most_rows) refuse(joined({rows, " x ", width, " rows do not fit the index type ", index_type}));
}
PARALLAX_INLINE std::string dense_signature(SignatureWords const& words, std::size_t size, std::int64_t row) {
  std::string_view const in = words.space.empty() ? "" : " in ";
  std::string text = joined({"Dense ", words.scalar, " of ", size, in, words.space, " by ", words.policy, ", ", words.optimizer,
                             ", ", to_string(words.reduce)});
  if (row >= 0) append(text, {" in rows of ", row});
  return text;
}
PARALLAX_INLINE std::string table_signature(SignatureWords const& words, std::int64_t rows, std::int64_t width,
                                            std::string_view initial) {
  std::string_view const in = words.space.empty() ? "" : " in ";
  return joined({"Sparse ",
                 words.scalar,
                 " of ",
                 rows,
                 " x ",
                 width,
                 in,
                 words.space,
                 " by ",
                 words.index,
                 ", ",
                 words.policy,
                 ", ",
                 words.partitioner,
                 words.partitioner_fields,
                 ", ",
                 words.optimizer,
                 ", ",
                 to_string(words.reduce),
                 ", bad ids ",
                 to_string(words.bad_ids),
                 initial});
}
#endif

}  // namespace parallax::detail
