// Bodies of parallax/detail/variable/signature.hpp.
#pragma once

#include "parallax/detail/variable/signature.hpp"

namespace parallax::inline v0_2::detail {

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

}  // namespace parallax::detail
