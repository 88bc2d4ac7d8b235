// Bodies of parallax/detail/checkpoint/find_generation.hpp.
#pragma once

#include "parallax/detail/checkpoint/find_generation.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE Generation open_generation(std::string const& directory, std::int64_t number) {
  ReadFile const file{directory + "/" + generation_name(number) + "/" + std::string{manifest_name}};
  if (file.size() > most_manifest_bytes)
    throw FormatError(file.path(),
                      joined({"it has ", file.size(), " bytes, and a manifest has at most ", most_manifest_bytes}));
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
  file.read(0, bytes);
  Generation manifest{std::move(bytes), file.path()};
  if (manifest.facts().number != number)
    throw FormatError(file.path(), joined({"it is the manifest of generation ", manifest.facts().number}));
  return manifest;
}

PARALLAX_INLINE void check_shard(Generation const& manifest, std::string const& directory, std::size_t rank) {
  ReadFile const shard{directory + "/" + generation_name(manifest.facts().number) + "/" + shard_name(static_cast<int>(rank))};
  if (shard.size() != manifest.shards()[rank].size())
    throw FormatError(shard.path(),
                      joined({"it has ", shard.size(), " bytes, and ", manifest.shards()[rank].size(), " were written"}));
}

PARALLAX_INLINE void check_shards(Generation const& manifest, std::string const& directory) {
  for (std::size_t rank = 0; rank < manifest.shards().size(); ++rank) {
    try {
      check_shard(manifest, directory, rank);
    } catch (FileError const& error) {
      if (error.code() != ENOENT || manifest.facts().homes.empty()) throw;
      throw FormatError(error.path(), "it is in another host's folder; copied into one, the folders of all hosts are complete");
    }
  }
}

PARALLAX_INLINE Generation find_generation(std::string const& directory, std::int64_t wanted) {
  auto const open = [&](std::int64_t number) {
    Generation manifest = open_generation(directory, number);
    check_shards(manifest, directory);
    return manifest;
  };
  if (wanted > 0) return open(wanted);
  PassedOver passed;
  for (std::int64_t const number : generations_in(directory)) {
    std::string why;
    if (auto found = unless_passed(false, why, [&] { return open(number); })) return std::move(*found);
    passed.add(why);
  }
  passed.fail(directory);
}

PARALLAX_INLINE std::uint64_t manifest_tag(std::string const& directory, std::int64_t number) {
  try {
    ReadFile const file{directory + "/" + generation_name(number) + "/" + std::string{manifest_name}};
    std::uint64_t header = 0, tag = 0;
    file.read(0, std::as_writable_bytes(std::span{&header, 1}));
    if (header > file.size()) return 0;
    file.read(8 + header, std::as_writable_bytes(std::span{&tag, 1}));
    return tag;
  } catch (FileError const& error) {
    if (error.code() != ENOENT) throw;
  } catch (FormatError const&) {  // its opener says the damage
  }
  return 0;
}

}  // namespace parallax::detail
