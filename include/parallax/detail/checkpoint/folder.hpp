// The folder of checkpoints: generations, each a folder of files, there as a whole or not at all. Saving calls it on the first
// rank of all that see a folder, and restoring on every rank.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/detail/core/text.hpp"
#include "parallax/detail/interop/file.hpp"

namespace parallax::inline v0_2::detail {

// Ending of the names of incomplete generations, and of those under removal.
inline constexpr std::string_view unfinished = ".part";

// The highest number of a generation: ranks tell each other numbers as doubles.
inline constexpr std::int64_t most_generations = 999'999'999'999'999;

// Returns a name like `generation-000012`.
std::string generation_name(std::int64_t number);
// Returns the number in such a name; 0 for any other name.
std::int64_t generation_number(std::string_view name);
// Returns a name like `shard-00003.safetensors`.
std::string shard_name(int rank);
// Name of the manifest: sizes, checksums and small items of a generation. Its file is written last.
inline constexpr std::string_view manifest_name = "manifest.safetensors";

// Returns the names in a folder, sorted, without `.` and `..`. Throws FileError.
std::vector<std::string> names_in(std::string const& folder);

// Makes a folder, and the missing ones above it, and brings their names to the disk; its own name even if it is there, for its
// maker may have been interrupted before. Throws FileError.
void make_folder(std::string const& folder);

// Removes a folder and the files in it, as far as possible. For folders without a generation's name. Of anything else, such as
// a link to a folder, the name alone.
void remove_folder(std::string const& folder) noexcept;

// Returns the numbers of the names of generations in a folder, from the highest on; none if there is no folder. With `folders`
// the numbers of folders alone: a file with the name of a generation is none, though none can be made of its name. Throws
// FileError, and FormatError of a number that is the last.
std::vector<std::int64_t> numbers_in(std::string const& folder, bool folders = false);
// Returns the generations in a folder, from the newest on, by their names. A name promises nothing: its reader finds out
// whether the generation is complete. Throws likewise.
inline std::vector<std::int64_t> generations_in(std::string const& folder) { return numbers_in(folder, true); }

// Takes the names from generations older than `newest`, which is there. They go if there are `keep` newer ones among
// `complete`, or if they are older by so many seconds, by their manifests' times. 0: any number, and any age. Returns their
// numbers. So none is ever there in part, while their files are removed. `complete`: the numbers of restorable generations.
// Throws FileError.
std::vector<std::int64_t> unname_old(std::string const& folder, std::int64_t newest, std::size_t keep, double seconds,
                                     std::span<std::int64_t const> complete);
// Removes, of a generation without its name, every `of`-th file, from number `first` on, as far as possible.
void remove_files(std::string const& folder, std::int64_t number, std::size_t first, std::size_t of) noexcept;

// Name of the file by which ranks find out that they see the folder of rank `rank`: there for a moment.
inline constexpr std::string_view sign_begin = "sign-";
inline std::string sign_name(std::uint64_t id, int rank) { return joined({sign_begin, id, "-", rank, unfinished}); }

// Removes the remains of unfinished saves.
void remove_unfinished(std::string const& folder);

// A regular file to be read at places. Throws FormatError of anything else, and FileError.
class ReadFile {
 public:
  // Opens the file, and asks for its size.
  explicit ReadFile(std::string path) : path_{std::move(path)}, file_{open_file(path_, O_RDONLY | O_NONBLOCK | O_NOCTTY)} {
    if (!file_.is_open()) throw FileError(path_, "open", errno);
    struct ::stat status;
    if (::fstat(file_.number(), &status) != 0) throw FileError(path_, "fstat", errno);
    check_regular(status, path_);
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::string const& path() const { return path_; }
  // Returns its bytes at the opening.
  std::uint64_t size() const { return size_; }
  // Fills `bytes` from byte `at` of the file on. Throws FormatError if it ends before.
  void read(std::uint64_t at, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      auto const count =
          uninterrupted([&] { return ::pread(file_.number(), bytes.data(), bytes.size(), static_cast<::off_t>(at)); });
      if (count < 0) throw FileError(path_, "pread", errno);
      if (count == 0) throw FormatError(path_, "it ends at byte " + std::to_string(at) + ", before what was written");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      at += static_cast<std::uint64_t>(count);
    }
  }

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/checkpoint/folder-inl.hpp"
#endif
