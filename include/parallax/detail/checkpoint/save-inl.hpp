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
  auto const written = [&](std::int64_t number) {
    std::string const path = made.directory + "/" + generation_name(number) + "/" + std::string{manifest_name};
    struct ::stat status;
    if (::stat(path.c_str(), &status) != 0) return 0.0;
    return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  };
  std::int64_t const newest = made.facts.number;
  std::vector<std::int64_t> gone;
  for (std::int64_t const number : generations_in(made.directory)) {
    auto const newer = std::count_if(complete.begin(), complete.end(), [&](std::int64_t other) { return other > number; });
    bool const goes = number < newest && ((made.keep > 0 && static_cast<std::size_t>(newer) >= made.keep) ||
                                          (made.keep_for > 0 && written(newest) - written(number) > made.keep_for));
    if (!goes) continue;
    std::string const path = made.directory + "/" + generation_name(number), going = path + std::string{unfinished};
    if (::rename(path.c_str(), going.c_str()) != 0) throw FileError(path, "rename", errno);
    gone.push_back(number);
  }
  if (!gone.empty()) sync_folder(made.directory);
  return gone;
}

}  // namespace parallax::detail
