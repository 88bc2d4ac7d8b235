// Checkpoints made by hand, with checksums that are right: of more than there is, of what does not fit, of links, FIFOs and folders in
// the place of files. Each is refused, in a sentence, on all ranks; in little memory; and nothing has changed, unless the session has
// ended. What the readers of files refuse is in tests/interop.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
namespace st = parallax::safetensors;
using namespace parallax_test;

namespace {

// ---- a session, and what it saves --------------------------------------------------------------------------------------------

// A table whose rows are listed, one whose rows are in runs, a replica, and values of both kinds.
struct Trainer {
  explicit Trainer(px::ThreadCommunicator& world) : session{world} {}

  px::Saved save(std::string const& folder) {
    return session.save(folder, {.block_bytes = 16}, w, t, b, px::shared_value("note", note),
                        px::shared_value("history", history), px::own_value("seed", seed), px::own_value("mine", mine));
  }
  px::Restored restore(std::string const& folder, px::RestoreOptions options = {}) {
    options.at_most = 5;
    return session.restore(folder, options, w, t, b, px::shared_value("note", note), px::shared_value("history", history),
                           px::own_value("seed", seed), px::own_value("mine", mine));
  }
  // Each of this rank's numbers, exactly.
  std::string seen() {
    std::string text = std::to_string(session.steps()) + " " + note + std::to_string(seed);
    auto const bytes = [&](auto const* values, std::size_t count) {
      text.append(reinterpret_cast<char const*>(values), count * sizeof(*values));
    };
    for (auto const& rows : {w.local(), w.slot("sum"), t.local(), t.slot("sum")})
      for (std::int64_t i = 0; i < rows.rows; ++i) bytes(rows.row(i), static_cast<std::size_t>(rows.width));
    bytes(memory.data(), memory.size()), bytes(history.data(), history.size()), bytes(mine.data(), mine.size());
    return text;
  }

  px::Session<px::ThreadCommunicator> session;
  std::vector<float> memory = std::vector<float>(5, 1.0f);
  px::Variable<px::Sparse, px::Adagrad, px::Hash> w{session, "w", {60, 1, px::uniform(0, 1, 3)}};
  px::Variable<px::Sparse, px::Adagrad, px::Block> t{session, "t", {40, 2, px::uniform(0, 1, 3)}};
  px::Variable<px::Dense, px::Sgd> b{session, "b", px::bind(memory)};
  std::string note = "ab";
  std::vector<double> history = {1, 2};
  std::vector<float> mine = {1, 2, 3};
  std::uint64_t seed = 100u + static_cast<std::uint64_t>(session.rank());
};

// ---- files by hand -----------------------------------------------------------------------------------------------------------

struct Tensor {
  std::string name, dtype;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};
// What a file consists of, none of which need fit.
struct File {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<Tensor> tensors;  // in the order of their bytes

  std::string& said(std::string_view key) {
    for (auto& [name, text] : metadata)
      if (name == key) return text;
    return metadata.emplace_back(key, "").second;
  }
  std::size_t at(std::string_view name) const {
    std::size_t i = 0;
    while (i < tensors.size() && tensors[i].name != name) ++i;
    return i;
  }
  Tensor& operator[](std::string_view name) {
    if (at(name) == tensors.size()) tensors.push_back({std::string{name}, "U8", {0}, ""});
    return tensors[at(name)];
  }
  void remove(std::string_view name) {
    std::erase_if(tensors, [&](Tensor const& tensor) { return tensor.name == name; });
    std::erase_if(metadata, [&](auto const& entry) { return entry.first == name; });
  }
  // With offsets one after the other; `begins`: where each tensor begins in the whole.
  std::string encoded(std::vector<std::size_t>& begins) const {
    std::string text = "{\"__metadata__\":{";
    for (auto const& [key, value] : metadata) text += (text.back() == '{' ? "\"" : ",\"") + key + "\":\"" + value + "\"";
    text += "}";
    std::size_t offset = 0;
    std::string data;
    for (Tensor const& tensor : tensors) {
      text += ",\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
      for (std::uint64_t const length : tensor.shape) text += (text.back() == '[' ? "" : ",") + std::to_string(length);
      text += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + tensor.bytes.size()) + "]}";
      begins.push_back(offset);
      offset += tensor.bytes.size();
      data += tensor.bytes;
    }
    text += "}";
    text.resize((text.size() + 7) / 8 * 8, ' ');
    for (std::size_t& begin : begins) begin += 8 + text.size();
    return little_endian(std::uint64_t{text.size()}) + text + data;
  }
};
File loaded(std::string const& path) {
  st::Reader const reader{path};
  File file;
  for (auto const& [key, text] : reader.header().metadata()) file.metadata.emplace_back(key, text);
  for (std::size_t i = 0; i < reader.size(); ++i) {
    st::Tensor const tensor = reader.tensor(i);
    auto const bytes = reader.bytes(i);
    file.tensors.push_back({std::string{tensor.name},
                            std::string{st::to_string(tensor.dtype)},
                            tensor.shape,
                            {reinterpret_cast<char const*>(bytes.data()), bytes.size()}});
  }
  return file;
}
std::span<std::byte const> bytes_of(std::string_view text) { return std::as_bytes(std::span{text}); }

// A generation that is changed and written with checksums that are right for it.
struct Made {
  explicit Made(std::string const& folder) : manifest{loaded(folder + "/manifest.safetensors")} {
    for (int rank = 0; std::filesystem::exists(folder + "/" + px::detail::shard_name(rank)); ++rank)
      shards.push_back(loaded(folder + "/" + px::detail::shard_name(rank)));
  }

  // The checksums of a shard's blocks, in the order of its tensors.
  std::string sums(File const& shard) const {
    std::string sums;
    std::map<std::string, std::string> const numbers_of(shard.metadata.begin(), shard.metadata.end());
    for (Tensor const& tensor : shard.tensors) {
      auto const found = numbers_of.find(tensor.name);
      bool const said = found != numbers_of.end();
      bool listed = said && found->second.ends_with(": listed");
      if ((tensor.name.ends_with(":rows") && !said) || tensor.shape.size() != 2 || tensor.shape[0] == 0) continue;
      std::size_t const row = tensor.bytes.size() / static_cast<std::size_t>(tensor.shape[0]);
      std::size_t const rows = std::max<std::size_t>(1, block_bytes / std::max<std::size_t>(row, 1));
      std::vector<std::int64_t> numbers(static_cast<std::size_t>(tensor.shape[0]));
      std::size_t const list = shard.at(tensor.name + ":rows");
      listed = listed && list < shard.tensors.size() && shard.tensors[list].bytes.size() == 8 * numbers.size();
      if (listed) std::memcpy(numbers.data(), shard.tensors[list].bytes.data(), 8 * numbers.size());
      for (std::size_t first = 0; row > 0 && first < numbers.size(); first += rows) {
        std::size_t const count = std::min(rows, numbers.size() - first);
        auto const block = bytes_of(tensor.bytes).subspan(first * row, count * row);
        sums += little_endian(px::detail::block_sum(block, std::span{numbers}.subspan(first, listed ? count : 0)));
      }
    }
    return sums;
  }
  // `late`: changes the manifest when it knows the shards.
  void write(std::string const& folder, std::function<void(File&)> const& late) {
    std::filesystem::create_directories(folder);
    manifest["sizes"].bytes.clear();
    for (std::size_t rank = 0; rank < shards.size(); ++rank) {
      std::string const name = px::detail::shard_name(static_cast<int>(rank));
      std::vector<std::size_t> begins;
      std::string const bytes = shards[rank].encoded(begins);
      std::ofstream{folder + "/" + name, std::ios::binary} << bytes;
      Tensor& header = manifest["header of " + name];
      std::uint64_t length;
      std::memcpy(&length, bytes.data(), 8);
      header.bytes = bytes.substr(0, 8 + static_cast<std::size_t>(length)), header.shape = {header.bytes.size()};
      Tensor& checks = manifest["checksums of " + name];
      checks = {checks.name, "U64", {}, sums(shards[rank])};
      checks.shape = {checks.bytes.size() / 8};
      manifest["sizes"].bytes += little_endian(std::uint64_t{bytes.size()});
    }
    manifest["sizes"].shape = {shards.size()}, manifest["sizes"].dtype = "U64";
    if (late) late(manifest);
    write_manifest(manifest, folder);
  }
  static void write_manifest(File const& manifest, std::string const& folder) {
    std::vector<std::size_t> begins;
    std::string bytes = manifest.encoded(begins);
    if (std::size_t const at = manifest.at("checksum"); at < begins.size() && manifest.tensors[at].bytes.size() == 8) {
      std::memset(bytes.data() + begins[at], 0, 8);
      std::uint64_t const sum = px::detail::checksum(bytes.data(), bytes.size());
      std::memcpy(bytes.data() + begins[at], &sum, 8);
    }
    std::ofstream{folder + "/manifest.safetensors", std::ios::binary} << bytes;
  }

  File manifest;
  std::vector<File> shards;
  std::size_t block_bytes = 16;
};

// ---- cases -------------------------------------------------------------------------------------------------------------------

struct Case {
  char const* name;
  char const* said;  // a part of what all ranks are told; of Errc::mismatch where it begins with ~; empty: it comes back
  std::function<void(Made&)> edit = {};        // before checksums are taken
  std::function<void(File&)> late = {};        // of the manifest, with the checksums of shards
  std::function<void(std::string)> disk = {};  // of the generation's folder, as it lies there
  px::RestoreOptions options = {};
};

Tensor number(std::string name, std::uint64_t value) { return {std::move(name), "U64", {1, 1}, little_endian(value)}; }
template <class... T>
std::string words(T... values) {
  return (std::string{} + ... + little_endian(static_cast<std::uint64_t>(values)));
}
void put(std::string const& path, std::string const& bytes) { std::ofstream{path, std::ios::binary} << bytes; }
std::string const manifest_file = "/manifest.safetensors", shard_0 = "/shard-00000.safetensors",
                  shard_1 = "/shard-00001.safetensors";
void replace(std::string& text, std::string const& from, std::string const& to) {
  std::size_t const at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("there is no " + from);
  text.replace(at, from.size(), to);
}
// The manifest's header as it lies there, changed, with a length that is right.
std::function<void(std::string)> header(std::function<void(std::string&)> const& change) {
  return [change](std::string folder) {
    std::string bytes = read_all(folder + manifest_file);
    std::uint64_t length;
    std::memcpy(&length, bytes.data(), 8);
    std::string text = bytes.substr(8, static_cast<std::size_t>(length));
    change(text);
    put(folder + manifest_file,
        little_endian(std::uint64_t{text.size()}) + text + bytes.substr(8 + static_cast<std::size_t>(length)));
  };
}
std::function<void(std::string)> header(std::string const& from, std::string const& to) {
  return header([=](std::string& text) { replace(text, from, to); });
}
// A file in the place of which something else is.
std::function<void(std::string)> instead(std::string const& file, std::function<void(std::string const&)> const& make) {
  return [=](std::string folder) {
    std::filesystem::remove(folder + file);
    make(folder + file);
  };
}

std::vector<Case> const& cases() {
  static std::vector<Case> const all = {
      // The header of the manifest.
      {.name = "2^40 tensors, by the length of the header",
       .said = "the header's length is",
       .disk = [](std::string folder) { put(folder + manifest_file, words(std::uint64_t{40} << 40) + "{}"); }},
      {.name = "a length as another machine writes it",
       .said = "the header's length is",
       .disk =
           [](std::string folder) {
             std::string bytes = read_all(folder + manifest_file);
             std::reverse(bytes.begin(), bytes.begin() + 8);
             put(folder + manifest_file, bytes);
           }},
      {.name = "offsets that overlap",
       .said = "manifest.safetensors",
       .disk = header("\"data_offsets\":[8,24]", "\"data_offsets\":[0,16]")},
      {.name = "offsets that leave a gap",
       .said = "manifest.safetensors",
       .disk = header("\"data_offsets\":[8,24]", "\"data_offsets\":[16,32]")},
      {.name = "a shape that overflows",
       .said = "more than 2^64 - 1",
       .disk = header("\"shape\":[2],\"data_offsets\":[8,24]", "\"shape\":[4294967296,4294967296,2],\"data_offsets\":[8,24]")},
      {.name = "a tensor of 2^60 numbers",
       .said = "manifest.safetensors",
       .disk = header("\"shape\":[2],\"data_offsets\":[8,24]",
                      "\"shape\":[1152921504606846976],\"data_offsets\":[8,9223372036854775816]")},
      {.name = "two tensors of one name",
       .said = "two tensors are called",
       .late = [](File& m) { m.tensors.push_back(m["sizes"]); }},
      {.name = "two entries of one key",
       .said = "has two keys 'version'",
       .late = [](File& m) { m.metadata.emplace_back("version", "1"); }},
      {.name = "no tensors", .said = "there is no tensor 'checksum'", .late = [](File& m) { m.tensors.clear(); }},
      {.name = "text instead of a manifest",
       .said = "manifest.safetensors",
       .disk = [](std::string folder) { put(folder + manifest_file, "generation 1\n"); }},
      // Links, folders, sizes.
      {.name = "an empty manifest", .said = "too short", .disk = [](std::string folder) { put(folder + manifest_file, ""); }},
      {.name = "a manifest that is a folder",
       .said = "this is a directory",
       .disk = instead(manifest_file, [](std::string const& path) { std::filesystem::create_directory(path); })},
      {.name = "a manifest that is a FIFO",
       .said = "this is a FIFO",
       .disk = instead(manifest_file, [](std::string const& path) { ::mkfifo(path.c_str(), 0600); })},
      {.name = "a manifest that leads to itself",
       .said = "open: Too many levels of symbolic links",
       .disk = instead(manifest_file, [](std::string const& path) { std::filesystem::create_symlink(path, path); })},
      {.name = "a manifest that leads nowhere",
       .said = "open: No such file or directory",
       .disk = instead(manifest_file, [](std::string const& path) { std::filesystem::create_symlink(path + ".gone", path); })},
      {.name = "a manifest that leads to a device",
       .said = "this is a device",
       .disk = instead(manifest_file, [](std::string const& path) { std::filesystem::create_symlink("/dev/zero", path); })},
      {.name = "a manifest that leads to /proc",
       .said = "too short",
       .disk = instead(manifest_file,
                       [](std::string const& path) { std::filesystem::create_symlink("/proc/self/environ", path); })},
      {.name = "a manifest of 1 TB",
       .said = "a manifest has at most",
       .disk = [](std::string folder) { std::filesystem::resize_file(folder + manifest_file, std::uintmax_t{1} << 40); }},
      {.name = "a manifest that is a little too long",
       .said = "a manifest has at most",
       .disk = [](std::string folder) { std::filesystem::resize_file(folder + manifest_file, (48u << 20) + 1); }},
      {.name = "a manifest of zeros, as long as may be",
       .said = "does not begin with {",
       .disk =
           [](std::string folder) {
             put(folder + manifest_file, "");
             std::filesystem::resize_file(folder + manifest_file, 48u << 20);
           }},
      {.name = "a shard that is a folder",
       .said = "this is a directory",
       .disk = instead(shard_1, [](std::string const& path) { std::filesystem::create_directory(path); })},
      {.name = "a shard that is a FIFO",
       .said = "this is a FIFO",
       .disk = instead(shard_1, [](std::string const& path) { ::mkfifo(path.c_str(), 0600); })},
      {.name = "a shard that leads to itself",
       .said = "Too many levels of symbolic links",
       .disk = instead(shard_1, [](std::string const& path) { std::filesystem::create_symlink(path, path); })},
      {.name = "a shard that leads nowhere",
       .said = "No such file or directory",
       .disk = instead(shard_1, [](std::string const& path) { std::filesystem::create_symlink("nowhere", path); })},
      {.name = "a shard that leads to the other one",
       .said = "were written",
       .disk =
           instead(shard_1, [](std::string const& path) { std::filesystem::create_symlink("shard-00000.safetensors", path); })},
      {.name = "a shard of 1 TB",
       .said = "were written",
       .disk = [](std::string folder) { std::filesystem::resize_file(folder + shard_0, std::uintmax_t{1} << 40); }},
      {.name = "a shard of zeros",
       .said = "its header is not that which was written",
       .disk =
           [](std::string folder) {
             auto const size = std::filesystem::file_size(folder + shard_0);
             put(folder + shard_0, ""), std::filesystem::resize_file(folder + shard_0, size);
           }},
      {.name = "a folder that is a file",
       .said = "it has no complete generation of a checkpoint",
       .disk = [](std::string folder) { std::filesystem::remove_all(folder), put(folder, "x"); }},
      {.name = "a folder that leads to itself",
       .said = "Too many levels of symbolic links",
       .disk =
           [](std::string folder) { std::filesystem::remove_all(folder), std::filesystem::create_symlink(folder, folder); }},
      {.name = "a folder that leads nowhere",
       .said = "it has no complete generation of a checkpoint",
       .disk =
           [](std::string folder) {
             std::filesystem::remove_all(folder), std::filesystem::create_symlink(folder + ".gone", folder);
           }},
      {.name = "an empty folder",
       .said = "No such file or directory",
       .disk = [](std::string folder) { std::filesystem::remove_all(folder), std::filesystem::create_directory(folder); }},
      {.name = "the whole is a file",
       .said = "opendir: Not a directory",
       .disk =
           [](std::string folder) {
             std::string const run = std::filesystem::path{folder}.parent_path().string();
             std::filesystem::remove_all(run), put(run, "x");
           }},
      {.name = "a generation that is asked for and is not there",
       .said = "No such file or directory",
       .options = {.generation = 7}},
      {.name = "the highest number of all that is asked for",
       .said = "No such file or directory",
       .options = {.generation = 9223372036854775807}},
      // What the manifest says of the whole.
      {.name = "no format",
       .said = "it is no manifest of a checkpoint",
       .late = [](File& m) { m.said("format") = "parallax shard"; }},
      {.name = "no version", .said = "its version is ''", .late = [](File& m) { m.said("version") = ""; }},
      {.name = "a version to come",
       .said = "it is of version 2 of the format",
       .late = [](File& m) { m.said("version") = "2"; }},
      {.name = "a version far away",
       .said = "it is of version 999999999999999999 of the format",
       .late = [](File& m) { m.said("version") = "999999999999999999"; }},
      {.name = "a version that is no number", .said = "its version is '-1'", .late = [](File& m) { m.said("version") = "-1"; }},
      {.name = "the number of another generation",
       .said = "it is the manifest of generation 2",
       .late = [](File& m) { m.said("generation") = "2"; }},
      {.name = "a number that is too long",
       .said = "its generation is '99999999999999999999'",
       .late = [](File& m) { m.said("generation") = "99999999999999999999"; }},
      {.name = "a name of a folder as its number",
       .said = "its generation is '../1'",
       .late = [](File& m) { m.said("generation") = "../1"; }},
      {.name = "no step", .said = "its step is ''", .late = [](File& m) { m.said("step") = ""; }},
      {.name = "blocks of nothing", .said = "its blocks have 0 bytes", .late = [](File& m) { m.said("block bytes") = "0"; }},
      {.name = "blocks of everything",
       .said = "its blocks have 100000000000000000 bytes",
       .late = [](File& m) { m.said("block bytes") = "100000000000000000"; }},
      {.name = "blocks of another size",
       .said = "not as many checksums of shard-00000.safetensors as blocks",
       .late = [](File& m) { m.said("block bytes") = "64"; }},
      {.name = "no checksum", .said = "there is no tensor 'checksum'", .late = [](File& m) { m.remove("checksum"); }},
      {.name = "a checksum of four bytes",
       .said = "its checksum has no eight bytes",
       .late =
           [](File& m) {
             m["checksum"] = {"checksum", "U32", {1}, "abcd"};
           }},
      {.name = "a checksum that is wrong", .said = "its checksum is wrong", .disk = header("\"step\":\"0\"", "\"step\":\"1\"")},
      {.name = "no hosts", .said = "there is no tensor 'hosts'", .late = [](File& m) { m.remove("hosts"); }},
      {.name = "hosts of nobody",
       .said = "it does not say how long its files are",
       .late =
           [](File& m) {
             m["hosts"] = {"hosts", "I32", {0}, ""};
           }},
      {.name = "fewer sizes than hosts",
       .said = "it does not say how long its files are",
       .late = [](File& m) { m["sizes"].bytes.resize(8), m["sizes"].shape = {1}; }},
      {.name = "more sizes than hosts",
       .said = "it does not say how long its files are",
       .late = [](File& m) { m["sizes"].bytes += words(8), m["sizes"].shape = {3}; }},
      {.name = "a million hosts",
       .said = "there is no tensor 'header of shard-00002.safetensors'",
       .late =
           [](File& m) {
             m["hosts"] = {"hosts", "I32", {1'000'000}, std::string(4'000'000, '\0')};
             m["sizes"].bytes.resize(8'000'000), m["sizes"].shape = {1'000'000};
           }},
      {.name = "folders of nobody",
       .said = "it does not say in which folders its files lie",
       .late =
           [](File& m) {
             m["homes"] = {"homes", "I32", {0}, ""};
           }},
      {.name = "folders of half a number",
       .said = "it does not say in which folders its files lie",
       .late =
           [](File& m) {
             m["homes"] = {"homes", "U8", {5}, "abcde"};
           }},
      {.name = "more folders than ranks",
       .said = "it does not say in which folders its files lie",
       .late =
           [](File& m) {
             m["homes"] = {"homes", "I32", {1'000}, std::string(4'000, '\xff')};
           }},
      {.name = "a file that is said to be on another host, and is on none",
       .said = "no rank sees it as it was written",
       .edit =
           [](Made& made) {
             made.manifest["homes"] = {"homes", "I32", {2}, std::string("\0\0\0\0\1\0\0\0", 8)};
           },
       .disk = [](std::string folder) { std::filesystem::remove(folder + "/shard-00001.safetensors"); }},
      {.name = "fewer checksums than blocks",
       .said = "not as many checksums of shard-00001.safetensors as blocks",
       .late =
           [](File& m) {
             Tensor& sums = m["checksums of shard-00001.safetensors"];
             sums.bytes.resize(sums.bytes.size() - 8), --sums.shape[0];
           }},
      {.name = "more checksums than blocks",
       .said = "not as many checksums of shard-00001.safetensors as blocks",
       .late =
           [](File& m) {
             Tensor& sums = m["checksums of shard-00001.safetensors"];
             sums.bytes += words(1), ++sums.shape[0];
           }},
      {.name = "checksums of bytes",
       .said = "not as many checksums of shard-00001.safetensors as blocks",
       .late =
           [](File& m) {
             m["checksums of shard-00001.safetensors"] = {"checksums of shard-00001.safetensors", "U8", {3}, "abc"};
           }},
      {.name = "no header of a shard",
       .said = "there is no tensor 'header of shard-00001.safetensors'",
       .late = [](File& m) { m.remove("header of shard-00001.safetensors"); }},
      {.name = "a size of 2^63",
       .said = "manifest.safetensors",
       .late = [](File& m) { m["sizes"].bytes = words(std::uint64_t{1} << 63, std::uint64_t{1} << 63); }},
      {.name = "a size of 2^64 - 1",
       .said = "manifest.safetensors",
       .late = [](File& m) { m["sizes"].bytes = words(~0ull, ~0ull); }},
      {.name = "a header of a shard that is none",
       .said = "manifest.safetensors",
       .late = [](File& m) { m["header of shard-00000.safetensors"].bytes.replace(9, 1, "["); }},
      {.name = "a shard of so many rows that the bytes of their checksums are 2^64",
       .said = "there are no checksums of so many blocks",
       .late =
           [](File& m) {
             File wide;
             std::string text = "{";
             for (std::uint64_t i = 0; i < 32; ++i)
               text += (i ? ",\"v" : "\"v") + std::to_string(i) +
                       "\":{\"dtype\":\"U8\",\"shape\":[72057594037927936,1],\"data_offsets\":[" + std::to_string(i << 56) +
                       "," + std::to_string((i + 1) << 56) + "]}";
             std::string const bytes = words(text.size() + 1) + text + "}";
             m.said("block bytes") = "1";
             m["header of shard-00000.safetensors"] = {"header of shard-00000.safetensors", "U8", {bytes.size()}, bytes};
             m["checksums of shard-00000.safetensors"] = {"checksums of shard-00000.safetensors", "U64", {0}, ""};
             m["sizes"].bytes.replace(0, 8, words(bytes.size() + (std::uint64_t{32} << 56)));
           }},
      {.name = "a generation of three ranks, with two files",
       .said = "No such file or directory",
       .edit =
           [](Made& made) {
             made.manifest["hosts"] = {"hosts", "I32", {3}, std::string(12, '\0')};
             made.shards.push_back(made.shards[1]);
             for (char const* const name : {"w/values", "w/slot.sum", "t/values", "t/slot.sum", "b/values"})
               made.shards[2].remove(name);
           },
       .disk = [](std::string folder) { std::filesystem::remove(folder + "/shard-00002.safetensors"); }},
      // Items.
      {.name = "an item without dimensions",
       .said = "tensor 'item /session.steps' has no rows",
       .late = [](File& m) { m["item /session.steps"].shape.clear(); }},
      {.name = "an item of one dimension",
       .said = "tensor 'item w/optimizer' has no rows",
       .late = [](File& m) { m["item w/optimizer"].shape = {3}; }},
      {.name = "an item of three dimensions",
       .said = "tensor 'item w/optimizer' has no rows",
       .late =
           [](File& m) {
             m["item w/optimizer"].shape = {1, 1, 3};
           }},
      {.name = "an item of another dtype",
       .said = "~item 'steps': it is 1 x 1 of F64, not 1 x 1 of I64",
       .late = [](File& m) { m["item w/steps"].dtype = "F64"; }},
      {.name = "an item of more numbers",
       .said = "~item 'optimizer': it is 1 x 4 of U64, not 1 x 3 of U64",
       .late =
           [](File& m) {
             m["item w/optimizer"] = {"item w/optimizer", "U64", {1, 4}, std::string(32, '\0')};
           }},
      {.name = "an item of more rows",
       .said = "~item 'steps': it is 2 x 1 of I64, not 1 x 1 of I64",
       .late =
           [](File& m) {
             m["item w/steps"] = {"item w/steps", "I64", {2, 1}, std::string(16, '\0')};
           }},
      {.name = "an item that is not there",
       .said = "~item 'steps': the checkpoint has no 'w/steps'",
       .late = [](File& m) { m.remove("item w/steps"); }},
      {.name = "a value that is not there",
       .said = "~the checkpoint has no value 'note'",
       .late = [](File& m) { m.remove("item /value.note.length"); }},
      {.name = "another optimizer",
       .said = "~it is of 'adaGrad', not of",
       .late = [](File& m) { m["item w/optimizer.name"].bytes = "adaGrad"; }},
      {.name = "an optimizer with a name of 1 MiB",
       .said = "~it is of 'xxxx",
       .late =
           [](File& m) {
             m["item w/optimizer.name"] = {"item w/optimizer.name", "I8", {1u << 20, 1}, std::string(1u << 20, 'x')};
           }},
      {.name = "a text of another length than it says",
       .said = "~item 'value.note'",
       .late = [](File& m) { m["item /value.note.length"] = number("item /value.note.length", 3); }},
      {.name = "a list of another length than it says",
       .said = "~item 'value.history'",
       .late = [](File& m) { m["item /value.history.length"] = number("item /value.history.length", 1); }},
      {.name = "a list of wider rows",
       .said = "~item 'value.history'",
       .late =
           [](File& m) {
             m["item /value.history"] = {"item /value.history", "U64", {2, 2}, std::string(32, '\0')};
           }},
      {.name = "a list of its length alone",
       .said = "0 rows of 2 have come",
       .late = [](File& m) { m.remove("item /value.history"); }},
      {.name = "2^60 decisions",
       .said = "~item 'session.decision.0.step'",
       .late = [](File& m) { m["item /session.decisions"] = number("item /session.decisions", 1ull << 60); }},
      {.name = "a variable that nothing is said of",
       .said = "the checkpoint has no variable 'elsewhere'",
       .options = {.names = {{"w", "elsewhere"}}}},
      // Rows.
      {.name = "rows of which nothing is said",
       .said = "tensor 't/values': it does not say which rows it has",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "all"; }},
      {.name = "rows that are not in the array",
       .said = "tensor 't/values': it does not say which rows it has",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "of 40: 21 1 20"; }},
      {.name = "rows that overflow",
       .said = "tensor 't/values': it does not say which rows it has",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "of 40: 0 999999999999999999 20"; }},
      {.name = "a row below 0",
       .said = "tensor 't/values': it does not say which rows it has",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "of 40: -1 1 20"; }},
      {.name = "fewer numbers than rows",
       .said = "tensor 't/values': it does not say which rows it has",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "of 40: 0 1 19"; }},
      {.name = "more numbers than rows",
       .said = "tensor 't/values': it does not say which rows it has",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "of 40: 0 1 20, 20 1 1"; }},
      {.name = "a stride of 0",
       .said = "tensor 't/values': it does not say which rows it has",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "of 40: 0 0 20"; }},
      {.name = "fewer rows in all",
       .said = "~it is 39 x 2 of F32, not 40 x 2 of F32",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "of 39: 0 1 20"; }},
      {.name = "another number of rows in the second file",
       .said = "in several shapes",
       .edit = [](Made& made) { made.shards[1].said("t/values") = "of 41: 20 1 20"; }},
      {.name = "rows of which one file has none",
       .said = "~the checkpoint has 20 of its 40 rows",
       .edit = [](Made& made) { made.shards[1].remove("t/values"); }},
      {.name = "rows that two files have",
       .said = "~the checkpoint has 60 of its 40 rows",
       .edit =
           [](Made& made) {
             made.shards[1].said("t/values") = "of 40: 0 1 40";
             made.shards[1]["t/values"].shape = {40, 2}, made.shards[1]["t/values"].bytes.resize(320);
           }},
      {.name = "wider rows",
       .said = "~item 'values'",
       .edit =
           [](Made& made) {
             for (File& shard : made.shards) shard["t/values"].shape = {20, 4}, shard["t/values"].bytes.resize(320);
           }},
      {.name = "rows of doubles",
       .said = "~item 'values'",
       .edit =
           [](Made& made) {
             for (File& shard : made.shards) shard["t/values"].dtype = "F64", shard["t/values"].shape = {20, 1};
           }},
      {.name = "wider rows in the second file",
       .said = "in several shapes",
       .edit =
           [](Made& made) {
             made.shards[1]["t/values"].shape = {20, 4}, made.shards[1]["t/values"].bytes.resize(320);
           }},
      {.name = "rows of nothing",
       .said = "~item 'values'",
       .edit =
           [](Made& made) {
             for (File& shard : made.shards) shard["t/values"].shape = {20, 0}, shard["t/values"].bytes.clear();
           }},
      {.name = "no list of rows that are listed",
       .said = "there is no list of its rows",
       .edit = [](Made& made) { made.shards[0].remove("w/values:rows"); }},
      {.name = "a list of fewer rows",
       .said = "there is no list of its rows",
       .edit =
           [](Made& made) {
             made.shards[0]["w/values:rows"].shape = {29, 1}, made.shards[0]["w/values:rows"].bytes.resize(232);
           }},
      {.name = "a list of half as many bytes",
       .said = "there is no list of its rows",
       .edit =
           [](Made& made) {
             made.shards[0]["w/values:rows"] = {"w/values:rows", "I32", {30, 1}, std::string(120, '\0')};
           }},
      {.name = "listed, of what has no list",
       .said = "there is no list of its rows",
       .edit = [](Made& made) { made.shards[0].said("t/values") = "of 40: listed"; }},
      {.name = "a negative row in a list",
       .said = "row -1 of 60",
       .edit = [](Made& made) { made.shards[0]["w/values:rows"].bytes.replace(0, 8, words(-1)); }},
      {.name = "a row in a list that is beyond the array",
       .said = "row 60 of 60",
       .edit = [](Made& made) { made.shards[1]["w/values:rows"].bytes.replace(232, 8, words(60)); }},
      {.name = "a row in a list of 2^62",
       .said = "row 4611686018427387904 of 60",
       .edit = [](Made& made) { made.shards[1]["w/values:rows"].bytes.replace(16, 8, words(1ull << 62)); }},
      {.name = "a list of all rows at one rank",
       .said = "is there twice",
       .edit = [](Made& made) { made.shards[1]["w/values:rows"].bytes = made.shards[0]["w/values:rows"].bytes; }},
      {.name = "a tensor that has no rows",
       .said = "tensor 'scalar' has no rows",
       .edit =
           [](Made& made) {
             made.shards[0].tensors.push_back({"scalar", "U8", {}, "x"});
           }},
      {.name = "a shard of another generation, with checksums that are right",
       .said = "its header is not that which was written",
       .edit =
           [](Made& made) {
             for (File& shard : made.shards) shard.said("id") = "1234";
           },
       .disk =
           [](std::string folder) {
             std::string bytes = read_all(folder + shard_0);
             replace(bytes, "\"id\":\"1", "\"id\":\"2");
             put(folder + shard_0, bytes);
           }},
      {.name = "bytes of another generation, in a file of the same header",
       .said = "the checksum of",
       .disk =
           [](std::string folder) {
             std::string bytes = read_all(folder + shard_0);
             bytes.back() ^= 1;
             put(folder + shard_0, bytes);
           }},
      // Rows that are there twice, where others are missing.
      {.name = "runs that overlap",
       .said = "is there twice",
       .edit = [](Made& made) { made.shards[1].said("t/values") = "of 40: 0 1 20"; }},
      {.name = "runs that overlap in one file",
       .said = "is there twice",
       .edit = [](Made& made) { made.shards[1].said("t/values") = "of 40: 20 1 10, 20 1 10"; }},
      {.name = "a row twice in a list",
       .said = "is there twice",
       .edit =
           [](Made& made) {
             std::string& list = made.shards[0]["w/values:rows"].bytes;
             list.replace(8, 8, list.substr(0, 8));
           }},
      {.name = "a replica's rows that overlap",
       .said = "is there twice",
       .edit = [](Made& made) { made.shards[1].said("b/values") = "of 5: 1 1 3"; }},
      // Many of something, which takes no more than n log n.
      {.name = "50,000 lists of rows, and as many entries",
       .said = "",
       .edit =
           [](Made& made) {
             File& shard = made.shards[0];
             for (int i = 0; i < 50'000; ++i) {
               std::string const name = std::to_string(100'000 + i);
               shard.metadata.emplace_back(name + ":wors", "of 0:");
               shard.tensors.push_back({name + ":rows", "U8", {0, 1}, ""});
             }
           }},
      {.name = "20,000 runs of rows",
       .said = "t/values",
       .edit =
           [](Made& made) {
             std::string text = "of 40:";
             for (int i = 0; i < 20'000; ++i) text += (i ? ", " : " ") + std::to_string(i % 40) + " 1 1";
             made.shards[0].said("t/values") = text;
           }},
      {.name = "30,000 small items that nobody knows",
       .said = "~item 'steps': the checkpoint has no",
       .late =
           [](File& m) {
             for (int i = 0; i < 30'000; ++i) m.tensors.push_back(number("item unknown/" + std::to_string(i), 1));
             m.remove("item w/steps");
           }},
      {.name = "1,000 generations that are none",
       .said = "; and 996 more",
       .disk =
           [](std::string folder) {
             put(folder + manifest_file, "");
             std::string const run = std::filesystem::path{folder}.parent_path().string();
             for (int i = 2; i <= 1001; ++i) std::filesystem::create_directory(run + "/" + px::detail::generation_name(i));
           }},
      {.name = "a generation of the highest number",
       .said = "generation-999999999999999 has the highest number of all",
       .disk =
           [](std::string folder) {
             std::filesystem::create_directory(std::filesystem::path{folder}.parent_path().string() +
                                               "/generation-999999999999999");
           }},
      // What ranks have of their own.
      {.name = "a value of a rank that is not there",
       .said = "~item 'value.seed': the checkpoint has no '/value.seed@rank'",
       .edit = [](Made& made) { made.shards[1].remove("/value.seed@rank"); }},
      {.name = "a value of a rank that is longer",
       .said = "~item 'value.seed': it has 16 bytes, not 8",
       .edit =
           [](Made& made) {
             made.shards[1]["/value.seed@rank"] = {"/value.seed@rank", "U64", {2, 1}, std::string(16, '\0')};
           }},
      {.name = "a list of a rank that is shorter than it says",
       .said = "~item 'value.mine'",
       .edit = [](Made& made) { made.shards[1]["/value.mine.length@rank"].bytes = words(2); }},
  };
  return all;
}

// Lengths of lists, which are read before the lists are.
std::vector<Case> const& lengths() {
  static std::vector<Case> const all = {
      {.name = "a text of 2^60 letters",
       .said = "~item 'value.note'",
       .late = [](File& m) { m["item /value.note.length"] = number("item /value.note.length", 1ull << 60); }},
      {.name = "a text of 2^64 - 1 letters",
       .said = "~item 'value.note'",
       .late = [](File& m) { m["item /value.note.length"] = number("item /value.note.length", ~0ull); }},
      {.name = "a text of 2^31 letters",
       .said = "~item 'value.note'",
       .late = [](File& m) { m["item /value.note.length"] = number("item /value.note.length", 1ull << 31); }},
      {.name = "a list of 2^60 numbers",
       .said = "~item 'value.history'",
       .late = [](File& m) { m["item /value.history.length"] = number("item /value.history.length", 1ull << 60); }},
      {.name = "a list of 2^27 numbers",
       .said = "~item 'value.history'",
       .late = [](File& m) { m["item /value.history.length"] = number("item /value.history.length", 1ull << 27); }},
      {.name = "a list of 2^27 numbers that is not there",
       .said = "~item 'value.history'",
       .late =
           [](File& m) {
             m["item /value.history.length"] = number("item /value.history.length", 1ull << 27),
             m.remove("item /value.history");
           }},
      {.name = "a name of an optimizer with 2^40 letters",
       .said = "~item 'optimizer.name'",
       .late = [](File& m) { m["item w/optimizer.name.length"] = number("item w/optimizer.name.length", 1ull << 40); }},
      {.name = "a list of a rank with 2^60 numbers",
       .said = "~item 'value.mine'",
       .edit = [](Made& made) { made.shards[1]["/value.mine.length@rank"].bytes = words(1ull << 60); }},
      {.name = "a list of a rank with 2^27 numbers",
       .said = "~item 'value.mine'",
       .edit = [](Made& made) { made.shards[1]["/value.mine.length@rank"].bytes = words(1ull << 27); }},
  };
  return all;
}

// ---- what becomes of them ----------------------------------------------------------------------------------------------------

struct Outcome {
  std::string said;  // what all ranks were told, or what is wrong; "" where nobody was refused
  bool file = false, mismatch = false, ended = false;
};

Outcome outcome_of(std::string const& folder, px::RestoreOptions const& options, int ranks) {
  struct Told {
    std::string what, wrong;
    int code = -1;
    bool ended = false;
  };
  std::vector<Told> told(static_cast<std::size_t>(ranks));
  auto const rank_does = [&](px::ThreadCommunicator& world) {
    Told& mine = told[static_cast<std::size_t>(world.rank())];
    Trainer trainer{world};
    std::string const before = trainer.seen();
    try {
      trainer.restore(folder, options);
    } catch (px::Error const& error) {
      mine.what = error.what(), mine.code = static_cast<int>(error.code());
    } catch (std::exception const& error) {
      mine.wrong = std::string{"not an Error: "} + error.what();
    }
    try {
      trainer.session.broadcast(trainer.b);
    } catch (px::Error const&) {
      mine.ended = true;
    }
    if (!mine.ended && !mine.what.empty() && trainer.seen() != before) mine.wrong += "something has changed";
    try {
      trainer.session.finish();
    } catch (px::Error const&) {  // it has ended
    }
  };
  px::run_threads(ranks, rank_does, {.deadline = std::chrono::seconds{5}});
  Outcome outcome{told[0].what, told[0].code == static_cast<int>(px::Errc::file),
                  told[0].code == static_cast<int>(px::Errc::mismatch), told[0].ended};
  for (Told const& one : told) {
    if (one.what != told[0].what || one.code != told[0].code || one.ended != told[0].ended)
      outcome.said = "ranks were told otherwise: " + told[0].what + " | " + one.what;
    if (!one.wrong.empty()) outcome.said = one.wrong + ": " + one.what;
  }
  return outcome;
}

// In a process of its own, in which the memory is measured: "" where all is as it should be.
std::string in_child(std::string const& folder, Case const& what, int ranks) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  ::pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(60);
    std::string wrong;
    try {
      long const before = peak_kib();
      Outcome const outcome = outcome_of(folder, what.options, ranks);
      long const growth = (peak_kib() - before) / 1024;
      bool const mismatch = what.said[0] == '~';
      bool const good = what.said[0] == '\0' && outcome.said.empty();
      if (outcome.said.find(what.said + mismatch) == std::string::npos) wrong = "not what was expected; ";
      if (!good && !(mismatch || what.options.names.size() > 0 ? outcome.mismatch : outcome.file))
        wrong += "another kind of error; ";
      if (outcome.said.size() > 4096) wrong += "a sentence of " + std::to_string(outcome.said.size()) + " bytes; ";
      if (resident_is_ours && growth > 64) wrong += std::to_string(growth) + " MiB more; ";
      if (!wrong.empty()) wrong += outcome.said.empty() ? "it was restored" : outcome.said.substr(0, 1000);
    } catch (std::exception const& error) {
      wrong = std::string{"left by "} + error.what();
    }
    static_cast<void>(!::write(ends[1], wrong.data(), wrong.size()));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string wrong;
  char buffer[4096];
  for (::ssize_t count; (count = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    wrong.append(buffer, static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) wrong += " ended by signal " + std::to_string(WTERMSIG(status));
  return wrong + (status != 0 && WIFEXITED(status) ? " ended by " + std::to_string(WEXITSTATUS(status)) : "");
}

// A folder with generation 1 of two ranks.
std::string saved_in(Scratch const& scratch) {
  std::string const folder = scratch.path("good");
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    Trainer trainer{world};
    trainer.save(folder);
    trainer.session.finish();
  });
  return folder + "/generation-000001";
}

}  // namespace

TEST_CASE("a generation that is written again by hand comes back", "[checkpoint][hostile]") {
  Scratch const scratch;
  Made made{saved_in(scratch)};
  made.write(scratch.path("again/generation-000001"), {});
  for (int const ranks : {1, 2, 3}) CHECK(outcome_of(scratch.path("again"), {}, ranks).said == "");
}

namespace {

void check_all(std::vector<Case> const& cases) {
  Scratch const scratch;
  std::string const good = saved_in(scratch);
  int number = 0;
  for (Case const& one : cases) {
    std::string const folder = scratch.path("run" + std::to_string(++number)), generation = folder + "/generation-000001";
    Made made{good};
    if (one.edit) one.edit(made);
    made.write(generation, one.late);
    if (one.disk) one.disk(generation);
    auto const begin = std::chrono::steady_clock::now();
    for (int const ranks : {1, 2}) {
      bool const own = std::string_view{one.name}.find("of a rank") != std::string_view::npos;
      if (own && ranks == 1) continue;  // nobody reads it
      std::string const wrong = in_child(folder, one, ranks);
      if (!wrong.empty()) FAIL_CHECK(one.name << ", " << ranks << " ranks: " << wrong);
    }
    double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds > 1) std::printf("%s: %.1f s\n", one.name, seconds);
    std::filesystem::remove_all(folder);
  }
  std::printf("%d cases\n", number);
}

}  // namespace

TEST_CASE("checkpoints made by hand are refused in a sentence", "[checkpoint][hostile]") {
  CHECK(cases().size() >= 60);
  check_all(cases());
}

TEST_CASE("a save does not follow a link that it finds in the place of a leftover", "[checkpoint][hostile]") {
  Scratch const scratch;
  std::string const good = saved_in(scratch), run = std::filesystem::path{good}.parent_path().string();
  std::filesystem::create_directory(scratch.path("elsewhere"));
  put(scratch.path("elsewhere/precious"), "precious");
  std::filesystem::create_symlink(scratch.path("elsewhere"), run + "/generation-000002.part");
  put(run + "/generation-000003.part", "a file");
  std::filesystem::create_symlink(run + "/generation-000004.part", run + "/generation-000004.part");
  CHECK(saved_in(scratch) == good);
  CHECK(read_all(scratch.path("elsewhere/precious")) == "precious");
  CHECK(std::filesystem::exists(run + "/generation-000002/manifest.safetensors"));
  CHECK(px::detail::names_in(run) == std::vector<std::string>{"checkpoint.lock", "generation-000001", "generation-000002"});
}

TEST_CASE("no save follows the highest number of all", "[checkpoint][hostile]") {
  Scratch const scratch;
  std::string const good = saved_in(scratch), run = std::filesystem::path{good}.parent_path().string();
  std::filesystem::rename(good, run + "/generation-999999999999999");
  CHECK_THROWS_AS(saved_in(scratch), px::Error);
  std::filesystem::rename(run + "/generation-999999999999999", run + "/generation-999999999999998");
  CHECK(saved_in(scratch) == good);
  CHECK(std::filesystem::exists(run + "/generation-999999999999999/manifest.safetensors"));
  std::filesystem::create_directory(run + "/generation-1000000000000000");  // none of ours
  CHECK(px::detail::generations_in(run + "/..").empty());
}

TEST_CASE("lists that are longer than they are are refused before there is room for them", "[checkpoint][hostile][lengths]") {
  check_all(lengths());
}
