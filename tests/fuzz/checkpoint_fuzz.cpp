// Any bytes as the manifest of a checkpoint, whose checksum is made right first: it is refused by FormatError, or what is read of it is
// a generation. Twice: as they are, and as the parts of a manifest, of which offsets, sizes and checksums are made to fit. Parts are
// parted by the byte 0xfe: metadata as lines "key=value", hosts, the header of each file, and small items, each of which begins with its
// dtype, how many dimensions it has, and these.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/find_generation.hpp"

namespace px = parallax;
namespace st = parallax::safetensors;
namespace pd = parallax::detail;

namespace {

void demand(bool condition, char const* sentence) {
  if (condition) return;
  std::fprintf(stderr, "checkpoint_fuzz: not so: %s\n", sentence);
  std::abort();
}
void demand_short(std::exception const& error) {
  demand(std::strlen(error.what()) < 600, "a message is short, whatever names are long");
}

constexpr char const* manifest_path = "fuzz";

// What is said of an item of this key, as whoever restores asks for it.
void check_item(px::detail::RestoreCheck& check, std::string_view key, std::int64_t rows, std::int64_t width,
                px::ElementType type) {
  std::size_t const slash = key.find('/');
  if (slash == key.npos) return;
  std::string_view name = key.substr(slash + 1);
  bool const own = name.ends_with("@rank");
  if (own) name.remove_suffix(5);
  auto const row = [](std::int64_t i) { return i; };
  std::vector<std::byte> const bytes(8);
  for (bool const list : {false, true}) {
    try {
      check.item(
          {key.substr(0, slash), name, type, rows, width, own ? px::Share::own : px::Share::any, rows, row, px::no_owner, list},
          bytes);
    } catch (px::Error const& error) {
      demand_short(error);
    } catch (px::FormatError const& error) {
      demand_short(error);
    }
  }
}

void check_shard(pd::Generation const& generation, std::size_t rank) {
  pd::ShardFile const& shard = generation.shards()[rank];
  std::int64_t sums = 0;
  for (std::size_t i = 0; i < shard.header().size(); ++i) {
    demand(shard.first_sum(i) == sums, "checksums follow each other");
    std::int64_t const next = shard.first_sum(i + 1);
    demand(next >= sums, "no tensor has less than no checksum");
    if (next > sums) generation.sum(rank, sums), generation.sum(rank, next - 1);
    sums = next;
    try {
      std::int64_t all = -1;
      pd::RowNumbers const numbers = shard.numbers(i, all, manifest_path);
      demand(numbers.count() == shard.rows(i) && all >= shard.rows(i), "a file has no more rows than there are");
      if (numbers.listed() || numbers.count() > 2000) continue;
      std::vector<std::int64_t> rows(static_cast<std::size_t>(numbers.count()), -1);
      numbers.numbers(0, rows);
      for (std::int64_t const row : rows) demand(row >= 0 && row < all, "each row is one of the array");
      if (rows.size() < 2) continue;
      std::vector<std::int64_t> end(1);
      numbers.numbers(numbers.count() - 1, end);
      demand(end[0] == rows.back(), "a part of the rows is what it is of all");
    } catch (px::FormatError const& error) {
      demand_short(error);
    }
  }
}

void check(std::vector<std::byte> bytes) {
  try {
    st::Header const header = st::parse_header(bytes, bytes.size(), manifest_path);
    std::size_t const sum = header.find("checksum");
    if (sum < header.size() && header.tensor(sum).end - header.tensor(sum).begin == 8) {
      std::byte* const held = bytes.data() + header.tensor(sum).begin;
      std::memset(held, 0, 8);
      std::uint64_t const right = pd::checksum(bytes.data(), bytes.size());
      std::memcpy(held, &right, 8);
    }
    pd::Generation const generation{bytes, manifest_path};
    demand(!generation.shards().empty() && generation.shards().size() == generation.facts().hosts.size(),
           "each rank has a file");
    demand(generation.facts().block_bytes > 0 && generation.facts().block_bytes <= 1 << 20, "a block has bytes");
    for (std::size_t rank = 0; rank < generation.shards().size(); ++rank) check_shard(generation, rank);
    static_cast<void>(generation.signature("words"));

    px::RestoreOptions const options;
    pd::Meaning const meaning{generation, options, generation.facts().hosts, {}};
    pd::RestoreCheck look{generation, meaning};
    for (std::size_t i = 0, items = 0; i < header.size() && items < 8; ++i) {
      st::Tensor const tensor = header.tensor(i);
      if (!tensor.name.starts_with("item ")) continue;
      ++items;
      check_item(look, tensor.name.substr(5), 1, 1, {'u', 8});
    }
    for (pd::ShardFile const& shard : generation.shards())
      for (std::size_t i = 0; i < shard.header().size() && i < 8; ++i)
        check_item(look, shard.header().tensor(i).name, shard.rows(i), 1, {'f', 4});
    for (std::string const& lost : look.lost) demand(lost.size() <= bytes.size(), "what is lost has a name of the file");
  } catch (px::FormatError const& error) {
    demand_short(error);
  }
}

// The parts as a manifest.
std::vector<std::byte> assembled(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    std::size_t const end = text.find('\xfe');
    parts.push_back(text.substr(0, end));
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  std::vector<st::Spec> specs{{"checksum", st::Dtype::u64, {1}}};
  std::vector<std::string> contents{std::string(8, '\0')};
  auto const add = [&](std::string name, st::Dtype dtype, std::vector<std::uint64_t> shape, std::string bytes) {
    specs.push_back({std::move(name), dtype, std::move(shape)});
    contents.push_back(std::move(bytes));
  };
  st::Metadata metadata{{"format", "parallax checkpoint"}};
  std::int64_t block_bytes = 1;
  for (std::string_view lines = parts[0]; !lines.empty();) {
    std::string_view const line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    std::size_t const equals = std::min(line.find('='), line.size());
    metadata.emplace_back(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
    if (metadata.back().first == "block bytes") block_bytes = std::max(1, std::atoi(metadata.back().second.c_str()));
  }
  std::string const hosts{parts.size() > 1 ? parts[1] : ""};
  std::size_t const ranks = hosts.size() / 4;
  add("hosts", st::Dtype::u8, {hosts.size()}, hosts);
  std::string sizes;
  for (std::size_t rank = 0; rank < ranks && 2 + rank < parts.size(); ++rank) {
    std::string_view const header = parts[2 + rank];
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
    bytes += header;
    std::uint64_t last = 0;  // number of the text, which is where the data end
    bool inside = false;
    for (char const c : header) {
      auto const digit = static_cast<std::uint64_t>(c) - '0';
      last = digit > 9 ? last : inside ? 10 * last + digit : digit;
      inside = digit <= 9;
    }
    std::uint64_t const size = bytes.size() + last % (std::uint64_t{1} << 63);
    sizes.append(reinterpret_cast<char const*>(&size), 8);
    std::size_t count = 1;
    try {
      pd::ShardFile const parsed{std::as_bytes(std::span{bytes}), size, block_bytes, manifest_path};
      count = static_cast<std::size_t>(parsed.first_sum(parsed.header().size())) * 8 / 8;  // as bytes are counted
      count = std::min<std::size_t>(count, 1000);
    } catch (px::FormatError const&) {}
    std::string const name = pd::shard_name(static_cast<int>(rank));
    add("header of " + name, st::Dtype::u8, {bytes.size()}, bytes);
    add("checksums of " + name, st::Dtype::u64, {count}, std::string(8 * count, '\7'));
  }
  add("sizes", st::Dtype::u8, {sizes.size()}, sizes);
  for (std::size_t i = 2 + ranks; i < parts.size(); ++i) {
    std::string_view part = parts[i];
    if (part.size() < 2) continue;
    auto const dtype = static_cast<st::Dtype>(static_cast<unsigned char>(part[0]) % std::size(st::detail::dtypes));
    std::size_t const dimensions = static_cast<unsigned char>(part[1]) % 4;
    part.remove_prefix(2);
    std::uint64_t bytes = st::size_of(dtype);
    std::vector<std::uint64_t> shape;
    for (std::size_t d = 0; d < dimensions && !part.empty(); ++d, part.remove_prefix(1))
      shape.push_back(static_cast<unsigned char>(part[0]) % 20), bytes *= shape.back();
    add("item " + std::string{part}, dtype, shape, std::string(bytes, '\3'));
  }
  st::Layout const layout{std::move(specs), metadata, manifest_path};
  std::vector<std::byte> manifest(layout.file_size());
  std::memcpy(manifest.data(), layout.header().data(), layout.header().size());
  for (std::size_t i = 0; i < contents.size(); ++i)
    if (!contents[i].empty()) std::memcpy(manifest.data() + layout.begin(i), contents[i].data(), contents[i].size());
  return manifest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span const bytes = std::as_bytes(std::span{data, size});
  check({bytes.begin(), bytes.end()});
  try {
    check(assembled({reinterpret_cast<char const*>(data), size}));
  } catch (px::FormatError const& error) {  // of parts that are no file at all
    demand_short(error);
  }
  return 0;
}
