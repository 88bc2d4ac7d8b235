// Bodies of parallax/detail/checkpoint/background.hpp.
#pragma once

#include "parallax/detail/checkpoint/background.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void write_note(std::string path, WrittenShard const& shard) {
  std::uint64_t const text = shard.text.size();
  NewFile note{std::move(path), 16 + text + 8 * shard.sums.size()};
  note.write(0, std::as_bytes(std::span{&text, 1}));
  note.write(8, std::as_bytes(std::span{&shard.size, 1}));
  note.write(16, shard.text);
  note.write(16 + text, std::as_bytes(std::span{shard.sums}));
  note.hand_over();
}

PARALLAX_INLINE WrittenShard read_note(std::string path) {
  ReadFile const note{std::move(path)};
  WrittenShard shard;
  std::uint64_t text = 0;
  note.read(0, std::as_writable_bytes(std::span{&text, 1}));
  note.read(8, std::as_writable_bytes(std::span{&shard.size, 1}));
  if (note.size() < 16 || text > note.size() - 16) throw FormatError(note.path(), "it is not as it was written");
  shard.text.resize(static_cast<std::size_t>(text));
  shard.sums.resize(static_cast<std::size_t>((note.size() - 16 - text) / 8));
  note.read(16, shard.text);
  note.read(16 + text, std::as_writable_bytes(std::span{shard.sums}));
  return shard;
}

}  // namespace parallax::detail
