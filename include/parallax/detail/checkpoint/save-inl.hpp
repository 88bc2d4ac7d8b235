// Bodies of parallax/detail/checkpoint/save.hpp.
#pragma once

#include "parallax/detail/checkpoint/save.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void write_manifest(NewGeneration const& made, std::span<WrittenShard const> shards) {
  auto const manifest = Generation::encoded(made.facts, made.small, made.signatures, shards);
  NewFile file{made.making + "/" + std::string{manifest_name}, manifest.size()};
  file.write(0, manifest);
  file.finish();
  sync_folder(made.making);
}

PARALLAX_INLINE void give_name(NewGeneration& made) {
  if (::rename(made.making.c_str(), made.path.c_str()) != 0) throw FileError(made.path, "rename", errno);
  made.folder.keep();
  sync_folder(made.directory);
}

PARALLAX_INLINE std::vector<std::int64_t> unname_old(NewGeneration const& made, std::span<std::int64_t const> complete) {
  return unname_old(made.directory, made.facts.number, made.keep, made.keep_for, complete);
}

}  // namespace parallax::detail
