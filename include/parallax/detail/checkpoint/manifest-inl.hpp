// Bodies of parallax/detail/checkpoint/manifest.hpp.
#pragma once

#include "parallax/detail/checkpoint/manifest.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE safetensors::Dtype dtype_of(ElementType type) {
  using enum safetensors::Dtype;
  std::size_t const by = type.bytes == 1 ? 0 : type.bytes == 2 ? 1 : type.bytes == 4 ? 2 : type.bytes == 8 ? 3 : 4;
  if (by < 4 && type.kind == 'i') return std::array{i8, i16, i32, i64}[by];
  if (by < 4 && type.kind == 'u') return std::array{u8, u16, u32, u64}[by];
  if (type.kind == 'b' && type.bytes == 2) return bf16;
  if (by > 0 && by < 4 && type.kind == 'f') return std::array{f16, f16, f32, f64}[by];
  return u8;
}

PARALLAX_INLINE std::vector<std::uint64_t> shape_of(ElementType type, std::int64_t rows, std::int64_t width) {
  auto const bytes = static_cast<std::uint64_t>(width) * type.bytes;
  return {static_cast<std::uint64_t>(rows), bytes / safetensors::size_of(dtype_of(type))};
}

PARALLAX_INLINE std::string key_of(std::string_view variable, std::string_view item, bool own) {
  return joined({variable, "/", item, own ? "@rank" : ""});
}

PARALLAX_INLINE std::int64_t rows_of_block(std::uint64_t row_bytes, std::int64_t block_bytes) {
  return std::max<std::int64_t>(1, block_bytes / static_cast<std::int64_t>(std::max<std::uint64_t>(row_bytes, 1)));
}

PARALLAX_INLINE std::int64_t blocks_of(std::int64_t rows, std::uint64_t row_bytes, std::int64_t block_bytes) {
  std::int64_t const in_block = rows_of_block(row_bytes, block_bytes);
  return row_bytes == 0 ? 0 : rows / in_block + (rows % in_block != 0);
}

PARALLAX_INLINE std::uint64_t block_sum(std::span<std::byte const> rows, std::span<std::int64_t const> listed) {
  Fingerprint sum;
  sum.add(checksum(rows.data(), rows.size()));
  if (!listed.empty()) sum.add(checksum(listed.data(), listed.size_bytes()));
  return sum.value();
}

PARALLAX_INLINE Generation::Generation(std::vector<std::byte> bytes, std::string path)
    : path_{std::move(path)}, bytes_{std::move(bytes)}, header_{safetensors::parse_header(bytes_, bytes_.size(), path_)} {
  std::string_view const format = said("format"), version = said("version");
  if (format != "parallax checkpoint") throw FormatError(path_, "it is no manifest of a checkpoint");
  std::span<std::byte const> const held = tensor_bytes("checksum");
  if (held.size() != 8) throw FormatError(path_, "its checksum has no eight bytes");
  std::uint64_t sum;
  std::memcpy(&sum, held.data(), 8);
  if (sum != sum_of(bytes_, static_cast<std::size_t>(held.data() - bytes_.data())))
    throw FormatError(path_, "its checksum is wrong: it is damaged");
  if (number_of("version") > checkpoint_version)
    throw NewerFormat(path_, joined({"it is of version ", version, " of the format, and this library reads up to version ",
                                     checkpoint_version}));
  facts_ = {number_of("generation"), number_of("step"), number_of("block bytes"), static_cast<std::uint64_t>(number_of("id"))};
  if (facts_.block_bytes < 1 || facts_.block_bytes > most_block_bytes)
    throw FormatError(path_, joined({"its blocks have ", facts_.block_bytes, " bytes"}));
  for (std::size_t i = 0; i < header_.size(); ++i) {
    safetensors::Tensor const tensor = header_.tensor(i);
    if (tensor.name.starts_with("item ") && (tensor.shape.size() != 2 || tensor.shape[0] > most_manifest_bytes))
      throw FormatError(path_, "tensor " + shown(tensor.name) + " has no rows");
  }
  facts_.hosts = values_of<int>(tensor_bytes("hosts"));
  if (header_.find("homes") < header_.size()) {
    std::span<std::byte const> const homes = tensor_bytes("homes");
    if (homes.empty() || homes.size() != facts_.hosts.size() * sizeof(int))
      throw FormatError(path_, "it does not say in which folders its files lie");
    facts_.homes = values_of<int>(homes);
  }
  std::span<std::byte const> const sizes = tensor_bytes("sizes");
  if (facts_.hosts.empty() || sizes.size() != 8 * facts_.hosts.size())
    throw FormatError(path_, "it does not say how long its files are");
  auto const size_of_file = values_of<std::uint64_t>(sizes);
  for (std::size_t rank = 0; rank < facts_.hosts.size(); ++rank) {
    std::string const name = shard_name(static_cast<int>(rank));
    shards_.emplace_back(tensor_bytes("header of " + name), size_of_file[rank], facts_.block_bytes, path_);
    sums_.push_back(tensor_bytes("checksums of " + name));
    ShardFile const& shard = shards_.back();
    if (sums_.back().size() != static_cast<std::size_t>(shard.first_sum(shard.header().size())) * 8)
      throw FormatError(path_, joined({"there are not as many checksums of ", name, " as blocks"}));
  }
}

PARALLAX_INLINE std::optional<std::span<std::byte const>> Generation::small(std::string_view key,
                                                                            safetensors::Tensor& tensor) const {
  std::size_t const at = header_.find(joined({"item ", key}));
  if (at == header_.size()) return std::nullopt;
  tensor = header_.tensor(at);
  return bytes_of(tensor);
}

PARALLAX_INLINE std::vector<std::byte> Generation::encoded(GenerationFacts const& facts, std::span<SmallItem const> items,
                                                           std::vector<std::pair<std::string, std::string>> const& signatures,
                                                           std::span<WrittenShard const> shards) {
  std::vector<safetensors::Spec> specs;
  std::vector<std::span<std::byte const>> contents;
  auto const add = [&](std::string name, safetensors::Dtype dtype, std::vector<std::uint64_t> shape,
                       std::span<std::byte const> bytes) {
    specs.push_back({std::move(name), dtype, std::move(shape)});
    contents.push_back(bytes);
  };
  std::uint64_t const zero = 0;
  std::vector<std::uint64_t> sizes;
  for (WrittenShard const& shard : shards) sizes.push_back(shard.size);
  add("checksum", safetensors::Dtype::u64, {1}, std::as_bytes(std::span{&zero, 1}));
  add("sizes", safetensors::Dtype::u64, {sizes.size()}, std::as_bytes(std::span{sizes}));
  add("hosts", safetensors::Dtype::i32, {facts.hosts.size()}, std::as_bytes(std::span{facts.hosts}));
  if (!facts.homes.empty()) add("homes", safetensors::Dtype::i32, {facts.homes.size()}, std::as_bytes(std::span{facts.homes}));
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    std::string const name = shard_name(static_cast<int>(rank));
    add("header of " + name, safetensors::Dtype::u8, {shards[rank].text.size()}, shards[rank].text);
    add("checksums of " + name, safetensors::Dtype::u64, {shards[rank].sums.size()},
        std::as_bytes(std::span{shards[rank].sums}));
  }
  for (SmallItem const& item : items)
    add("item " + item.name, dtype_of(item.type), shape_of(item.type, item.rows, item.width), item.bytes);
  safetensors::Metadata metadata{{"format", "parallax checkpoint"},
                                 {"version", std::to_string(checkpoint_version)},
                                 {"generation", std::to_string(facts.number)},
                                 {"id", std::to_string(facts.id)},
                                 {"step", std::to_string(facts.step)},
                                 {"block bytes", std::to_string(facts.block_bytes)}};
  for (auto const& [variable, signature] : signatures) metadata.emplace_back("signature of " + variable, signature);
  safetensors::Layout const layout{std::move(specs), metadata, manifest_name};
  if (layout.file_size() > most_manifest_bytes)
    throw FormatError(manifest_name, joined({"it would have ", layout.file_size(), " bytes, and at most ", most_manifest_bytes,
                                             " are read: save in larger blocks"}));
  std::vector<std::byte> bytes(static_cast<std::size_t>(layout.file_size()));
  auto const header = layout.header();
  std::memcpy(bytes.data(), header.data(), header.size());
  for (std::size_t i = 0; i < contents.size(); ++i)
    if (!contents[i].empty()) std::memcpy(bytes.data() + layout.begin(i), contents[i].data(), contents[i].size());
  std::uint64_t const sum = sum_of(bytes, static_cast<std::size_t>(layout.begin(0)));
  std::memcpy(bytes.data() + layout.begin(0), &sum, 8);
  return bytes;
}

}  // namespace parallax::detail
