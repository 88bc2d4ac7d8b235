// Files of a checkpoint that are damaged: cut anywhere, with any bit turned, of another generation, of a newer version. Each is found,
// or is of bytes that nobody reads; none makes a value that was not saved.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using namespace parallax_test;

namespace {

// A table whose rows are listed, a replica, and values of both kinds.
template <class C>
struct Trainer {
  explicit Trainer(C& world) : session{world} { seed = 100u + static_cast<unsigned>(session.rank()); }

  void step() {
    std::vector<int> const ids{3 * session.rank(), 5, 39};
    session.step(px::grad(words, ids, std::vector<float>(3, 0.25f)), px::grad(bias, std::vector<float>(5, 0.5f)));
    ++epoch, note += "ab", seed *= 3;
  }
  px::Saved save(std::string const& folder) {
    return session.save(folder, {.block_bytes = 16}, words, bias, px::shared_value("epoch", epoch),
                        px::shared_value("note", note), px::own_value("seed", seed));
  }
  px::Restored restore(std::string const& folder) {
    return session.restore(folder, {}, words, bias, px::shared_value("epoch", epoch), px::shared_value("note", note),
                           px::own_value("seed", seed));
  }
  // Each of this rank's numbers, exactly.
  std::string seen() {
    std::string text = std::to_string(session.steps()) + " " + std::to_string(epoch) + note;
    auto const rows = words.local(), sums = words.slot("sum");
    for (std::int64_t i = 0; i < rows.rows; ++i)
      text += " " + std::to_string(words.global_row(i)) + std::string(reinterpret_cast<char const*>(rows.row(i)), 4) +
              std::string(reinterpret_cast<char const*>(sums.row(i)), 4);
    text.append(reinterpret_cast<char const*>(memory.data()), 20);
    return text + (session.size() > 1 ? std::to_string(seed) : "");
  }

  px::Session<C> session;
  std::vector<float> memory = std::vector<float>(5, 1.0f);
  px::Variable<px::Sparse, px::Adagrad, px::Hash> words{session, "w", {40, 1, px::uniform(0, 1, 3)}};
  px::Variable<px::Dense, px::Sgd> bias{session, "b", px::bind(memory)};
  int epoch = 0;
  std::string note;
  std::uint64_t seed;
};

// A folder with generations 1 and 2 of two ranks, and what each is, as one rank and as two see it.
struct Run : Scratch {
  explicit Run(int generations) {
    px::run_threads(2, [&](px::ThreadCommunicator& world) {
      Trainer trainer{world};
      for (int i = 0; i < generations; ++i) {
        trainer.step();
        trainer.save(folder);
      }
      trainer.session.finish();
    });
    for (auto const& entry : std::filesystem::directory_iterator{folder + "/" + px::detail::generation_name(generations)})
      files.push_back(entry.path().string());
    REQUIRE(files.size() == 3);
  }
  std::string folder = path("run");
  std::vector<std::string> files;  // of the newest
};

// Restores again and again on one rank, in a session that lasts until an error ends it.
class Restorer {
 public:
  explicit Restorer(std::string folder) : folder_{std::move(folder)} {}
  ~Restorer() {
    if (alone_) alone_->trainer.session.finish();
  }

  // "restored N" of generation N, or what was refused; and why that is wrong.
  std::string operator()() {
    if (!alone_) alone_ = std::make_unique<Alone>();
    std::string const before = alone_->trainer.seen();
    try {
      auto const restored = alone_->trainer.restore(folder_);
      std::string const text = alone_->trainer.seen();
      alone_->trainer.session.finish();
      alone_.reset();
      if (static_cast<std::size_t>(restored.generation) > right.size()) right.push_back(text);
      if (right[static_cast<std::size_t>(restored.generation) - 1] != text) return "restored what was not saved";
      return "restored " + std::to_string(restored.generation);
    } catch (px::Error const& error) {
      std::string text = error.code() == px::Errc::file ? error.what() : "another error: " + std::string{error.what()};
      bool ended = false;
      try {
        alone_->trainer.session.broadcast(alone_->trainer.bias);
      } catch (px::Error const&) {
        ended = true;
      }
      if (!ended && alone_->trainer.seen() != before) text = "something has changed: " + text;
      if (ended) alone_.reset();
      return text;
    }
  }

  std::vector<std::string> right;  // by generation, filled by the first that are restored

 private:
  // With a communicator of its own, which an error that ends the session ends as well.
  struct Alone {
    px::SelfCommunicator self;
    Trainer<px::SelfCommunicator> trainer{self};
  };

  std::string folder_;
  std::unique_ptr<Alone> alone_;
};

bool is_manifest(std::string const& file) { return file.ends_with("manifest.safetensors"); }
void write_all(std::string const& path, std::string const& bytes) { std::ofstream{path, std::ios::binary} << bytes; }

// Bytes of a shard that one rank alone reads: of tensors that are a rank's own.
std::vector<bool> own_bytes(std::string const& file) {
  px::safetensors::Reader const reader{file};
  std::vector<bool> own(std::filesystem::file_size(file));
  for (std::size_t i = 0; i < reader.size(); ++i) {
    px::safetensors::Tensor const tensor = reader.tensor(i);
    if (!std::string_view{tensor.name}.ends_with("@rank")) continue;
    for (std::uint64_t at = tensor.begin; at < tensor.end; ++at) own[at] = true;
  }
  return own;
}

}  // namespace

TEST_CASE("a bit that is turned in any file is found", "[checkpoint][damage]") {
  Run const run{1};
  Restorer restore{run.folder};
  REQUIRE(restore() == "restored 1");
  long flips = 0, unread = 0;
  for (std::string const& file : run.files) {
    std::string const bytes = read_all(file);
    std::vector<bool> const own = is_manifest(file) ? std::vector<bool>(bytes.size()) : own_bytes(file);
    std::fstream stream{file, std::ios::binary | std::ios::in | std::ios::out};
    for (std::size_t at = 0; at < bytes.size(); ++at)
      for (int bit = full_size() ? 0 : static_cast<int>(at % (is_manifest(file) ? 8 : 3)); bit < 8;
           bit += is_manifest(file) ? sized(8, 8, 1) : sized(7, 3, 1)) {
        stream.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(bytes[at] ^ 1 << bit)).flush();
        std::string const said = restore();
        bool const right = own[at] ? said == "restored 1" : said.starts_with("parallax: file (rank 0) in restore: ");
        ++flips, unread += own[at];
        if (!right) FAIL_CHECK(file << ", byte " << at << ", bit " << bit << ": " << said);
        stream.seekp(static_cast<std::streamoff>(at)).put(bytes[at]).flush();
      }
  }
  CHECK(restore() == "restored 1");
  std::printf("%ld bits turned, %ld of them in tensors of ranks that are no more\n", flips, unread);
}

TEST_CASE("a byte that is damaged is found in a world of as many ranks, and by all of them", "[checkpoint][damage]") {
  Run const run{1};
  unsigned const seed = std::random_device{}();
  std::mt19937 random{seed};
  std::printf("seed %u\n", seed);
  auto const restored = [&] {
    std::vector<std::string> said(2);
    try {
      px::run_threads(2, [&](px::ThreadCommunicator& world) {
        std::string& text = said[static_cast<std::size_t>(world.rank())];
        Trainer trainer{world};
        try {
          trainer.restore(run.folder);
          text = "restored";
        } catch (px::Error const& error) {
          text = error.code() == px::Errc::file ? error.what() : "another error: " + std::string{error.what()};
        }
        try {
          trainer.session.finish();
        } catch (px::Error const&) {  // the session has ended
        }
      });
    } catch (px::Error const& error) {
      return "left by " + std::string{error.what()};
    }
    return said[0] == said[1] ? said[0] : "ranks differ: " + said[0] + " | " + said[1];
  };
  REQUIRE(restored() == "restored");
  long flips = 0;
  for (std::string const& file : run.files) {
    std::string const bytes = read_all(file);
    std::vector<bool> const own = is_manifest(file) ? std::vector<bool>(bytes.size()) : own_bytes(file);
    std::fstream stream{file, std::ios::binary | std::ios::in | std::ios::out};
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      if (!own[at] && random() % sized(200, 25, 1) != 0) continue;
      stream.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(bytes[at] ^ 1 << random() % 8)).flush();
      std::string const said = restored();
      ++flips;
      if (!said.starts_with("parallax: file (rank ")) FAIL_CHECK(file << ", byte " << at << ": " << said);
      stream.seekp(static_cast<std::streamoff>(at)).put(bytes[at]).flush();
    }
  }
  CHECK(restored() == "restored");
  std::printf("%ld bytes damaged\n", flips);
}

TEST_CASE("a file that is cut, longer or gone is found", "[checkpoint][damage]") {
  Run const run{1};
  Restorer restore{run.folder};
  REQUIRE(restore() == "restored 1");
  long cuts = 0;
  for (std::string const& file : run.files) {
    std::string const bytes = read_all(file);
    for (std::size_t size = bytes.size() + 1; size + 1 > 0; --size) {
      if (size == bytes.size()) continue;
      std::filesystem::resize_file(file, size);
      std::string const said = restore();
      ++cuts;
      if (!said.starts_with("parallax: file (rank 0) in restore: ")) FAIL_CHECK(file << ", of " << size << " bytes: " << said);
    }
    std::filesystem::remove(file);
    CHECK(restore() == "parallax: file (rank 0) in restore: " + run.folder +
                           ": it has no complete generation of a checkpoint: " + file + ": open: No such file or directory");
    write_all(file, bytes);
  }
  CHECK(restore() == "restored 1");
  std::printf("%ld lengths\n", cuts);
}

TEST_CASE("of a newest generation that is not whole the one before it is restored, or none", "[checkpoint][damage]") {
  Run const run{2};
  Restorer restore{run.folder};
  std::string const newest = run.folder + "/generation-000002", away = run.path("away");
  std::filesystem::rename(newest, away);
  REQUIRE(restore() == "restored 1");
  std::filesystem::rename(away, newest);
  REQUIRE(restore() == "restored 2");
  REQUIRE(restore.right[0] != restore.right[1]);
  long older = 0, refused = 0;
  for (std::string const& file : run.files) {
    std::string const bytes = read_all(file);
    std::vector<bool> const own = is_manifest(file) ? std::vector<bool>(bytes.size()) : own_bytes(file);
    for (std::size_t at = 0; at < bytes.size(); at += sized(101u, 5u, 1u)) {
      std::fstream{file, std::ios::binary | std::ios::in | std::ios::out}
          .seekp(static_cast<std::streamoff>(at))
          .put(static_cast<char>(bytes[at] ^ 1 << at % 8));
      std::string const said = restore();
      if (is_manifest(file) ? said != "restored 1"
          : own[at]         ? said != "restored 2"
                            : !said.starts_with("parallax: file (rank 0)"))
        FAIL_CHECK(file << ", byte " << at << ": " << said);
      ++(is_manifest(file) ? older : refused);
      std::fstream{file, std::ios::binary | std::ios::in | std::ios::out}.seekp(static_cast<std::streamoff>(at)).put(bytes[at]);
    }
    std::filesystem::resize_file(file, bytes.size() / 2);
    CHECK(restore() == "restored 1");
    write_all(file, bytes);
    std::filesystem::remove(file);
    CHECK(restore() == "restored 1");
    write_all(file, bytes);
  }
  CHECK(restore() == "restored 2");
  std::printf("%ld bytes of a manifest, for which the older generation came back, and %ld of shards\n", older, refused);
}

TEST_CASE("files of two generations are not one", "[checkpoint][damage]") {
  Run const run{2};
  Restorer restore{run.folder};
  std::string const shard = "/shard-00001.safetensors";
  std::string const one = run.folder + "/generation-000001" + shard, two = run.folder + "/generation-000002" + shard;
  REQUIRE(std::filesystem::file_size(one) == std::filesystem::file_size(two));
  std::string const bytes = read_all(two);
  write_all(two, read_all(one));
  CHECK(restore() == "parallax: file (rank 0) in restore: " + two + ": its header is not the one written with this generation");
  write_all(two, bytes);
  std::string const manifest = run.folder + "/generation-000002/manifest.safetensors";
  write_all(manifest, read_all(run.folder + "/generation-000001/manifest.safetensors"));
  std::filesystem::remove_all(run.folder + "/generation-000001");
  CHECK(restore() == "parallax: file (rank 0) in restore: " + run.folder + ": it has no complete generation of a checkpoint: " +
                         manifest + ": it is the manifest of generation 1");
}

TEST_CASE("a manifest of a newer version is refused by its number", "[checkpoint][damage]") {
  Run const run{1};
  Restorer restore{run.folder};
  std::string const manifest = run.folder + "/generation-000001/manifest.safetensors";
  std::string bytes = read_all(manifest);
  std::string const version = "\"version\":\"";
  std::size_t const at = bytes.find(version + std::to_string(px::detail::checkpoint_version) + "\"");
  REQUIRE(at != std::string::npos);
  std::uint64_t begin = 0;
  {
    px::safetensors::Reader const reader{manifest};
    begin = reader.tensor(reader.at("checksum")).begin;
  }
  auto const with = [&](char digit) {
    bytes[at + version.size()] = digit;
    std::memset(bytes.data() + begin, 0, 8);
    std::uint64_t const sum = px::detail::checksum(bytes.data(), bytes.size());
    std::memcpy(bytes.data() + begin, &sum, 8);
    write_all(manifest, bytes);
    return restore();
  };
  CHECK(with('1') == "restored 1");
  CHECK(with('7') == "parallax: file (rank 0) in restore: " + manifest +
                         ": it is of version 7 of the format, and this library reads up to version 1");
}
