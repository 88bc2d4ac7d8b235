// The folder of checkpoints: generations, each a folder of files that is there as a whole or not at all. Saving calls it on the first
// rank of those that see a folder, and restoring on every rank.
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

namespace parallax::detail {

// Of a generation that is not complete, and of one that is being removed, behind the name.
inline constexpr std::string_view unfinished = ".part";

// The highest number of a generation: ranks tell each other numbers as doubles.
inline constexpr std::int64_t most_generations = 999'999'999'999'999;

// `generation-000012`.
inline std::string generation_name(std::int64_t number) {
  std::string digits = std::to_string(number);
  return "generation-" + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}
// The number in such a name; 0 of any other name.
inline std::int64_t generation_number(std::string_view name) {
  constexpr std::string_view begin = "generation-";
  if (!name.starts_with(begin) || name.size() > begin.size() + 15) return 0;
  std::int64_t number = 0;
  for (char const c : name.substr(begin.size())) {
    if (c < '0' || c > '9') return 0;
    number = 10 * number + (c - '0');
  }
  return generation_name(number) == name ? number : 0;
}
// `shard-00003.safetensors`.
inline std::string shard_name(int rank) {
  std::string const digits = std::to_string(rank);
  return "shard-" + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits + ".safetensors";
}
// Where sizes, checksums and small items of a generation are. Its file is written last.
inline constexpr std::string_view manifest_name = "manifest.safetensors";

// The names in a folder, sorted, but for `.` and `..`. Throws FileError.
inline std::vector<std::string> names_in(std::string const& folder) {
  struct Opened {
    DIR* folder;
    ~Opened() {
      if (folder) ::closedir(folder);
    }
  } const opened{uninterrupted([&] { return ::opendir(folder.c_str()); })};
  if (!opened.folder) throw FileError(folder, "opendir", errno);
  std::vector<std::string> names;
  for (;;) {
    dirent const* const entry = uninterrupted([&] {
      errno = 0;
      return ::readdir(opened.folder);
    });
    if (!entry && errno != 0) throw FileError(folder, "readdir", errno);
    if (!entry) break;
    std::string_view const name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Makes a folder, and those above it that are not there, and brings their names to the disk; its own name even where it is there, for
// who made it may have been interrupted before that. Throws FileError.
inline void make_folder(std::string const& folder) {
  if (folder.empty()) return;
  std::size_t const slash = folder.size() < 2 ? folder.find('/') : folder.find_last_of('/', folder.size() - 2);
  std::string const above = slash == std::string::npos ? "." : slash == 0 ? "/" : folder.substr(0, slash);
  struct ::stat status;
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    make_folder(above);
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) throw FileError(folder, "mkdir", errno);
  }
  sync_folder(above);
}

// Removes a folder and the files in it, as far as that goes. For what no name of a generation leads to any more. Of what is no folder,
// such as a link to one, the name alone.
inline void remove_folder(std::string const& folder) noexcept {
  try {
    struct ::stat status;
    if (::lstat(folder.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) return static_cast<void>(::unlink(folder.c_str()));
    for (std::string const& name : names_in(folder)) ::unlink((folder + "/" + name).c_str());
    ::rmdir(folder.c_str());
  } catch (...) {  // it is found, and removed, by the next save
  }
}

// Returns the numbers of the names of generations in a folder, from the highest on; none where there is no folder. With
// `folders` those of folders alone: a file with the name of a generation is none, though none can be made of its name. Throws
// FileError, and FormatError of a number that is the last.
inline std::vector<std::int64_t> numbers_in(std::string const& folder, bool folders = false) {
  auto const is_folder = [&](std::string const& name) {
    struct ::stat status;
    return ::stat((folder + "/" + name).c_str(), &status) != 0 ? errno != ENOENT : S_ISDIR(status.st_mode);
  };
  std::vector<std::int64_t> numbers;
  try {
    for (std::string const& name : names_in(folder))
      if (std::int64_t const number = generation_number(name); number && (!folders || is_folder(name)))
        numbers.push_back(number);
  } catch (FileError const& error) {
    if (error.code() != ENOENT) throw;
  }
  std::sort(numbers.rbegin(), numbers.rend());
  if (!numbers.empty() && numbers.front() == most_generations)
    throw FormatError(folder, generation_name(most_generations) + " has the highest number of all: no other can follow it");
  return numbers;
}
// Returns the generations in a folder, from the newest on, by their names. A name promises nothing: its reader finds out
// whether the generation is complete. Throws likewise.
inline std::vector<std::int64_t> generations_in(std::string const& folder) { return numbers_in(folder, true); }

// Takes the names from generations older than `newest`, which is there: those with `keep` newer ones among `complete`, and those that
// are older than it by so many seconds as their manifests lie. 0: however many, and however old. Returns their numbers. So none is ever
// there in part, while their files are removed. `complete`: the numbers of those that could be restored. Throws FileError.
inline std::vector<std::int64_t> unname_old(std::string const& folder, std::int64_t newest, std::size_t keep, double seconds,
                                            std::span<std::int64_t const> complete) {
  auto const written = [&](std::int64_t number) {
    std::string const path = folder + "/" + generation_name(number) + "/" + std::string{manifest_name};
    struct ::stat status;
    if (::stat(path.c_str(), &status) != 0) return 0.0;
    return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  };
  std::vector<std::int64_t> gone;
  for (std::int64_t const number : generations_in(folder)) {
    auto const newer = std::count_if(complete.begin(), complete.end(), [&](std::int64_t other) { return other > number; });
    bool const goes = number < newest && ((keep > 0 && static_cast<std::size_t>(newer) >= keep) ||
                                          (seconds > 0 && written(newest) - written(number) > seconds));
    if (!goes) continue;
    std::string const path = folder + "/" + generation_name(number), going = path + std::string{unfinished};
    if (::rename(path.c_str(), going.c_str()) != 0) throw FileError(path, "rename", errno);
    gone.push_back(number);
  }
  if (!gone.empty()) sync_folder(folder);
  return gone;
}
// Of a generation whose name was taken: every `of`-th file, from number `first` on, as far as that goes.
inline void remove_files(std::string const& folder, std::int64_t number, std::size_t first, std::size_t of) noexcept {
  try {
    std::string const going = folder + "/" + generation_name(number) + std::string{unfinished};
    auto const names = names_in(going);
    for (std::size_t i = first; i < names.size(); i += of) ::unlink((going + "/" + names[i]).c_str());
  } catch (...) {  // it is found, and removed, by the next save
  }
}

// The file by which ranks find out whether they see the folder of rank `rank`: there for a moment.
inline constexpr std::string_view sign_begin = "sign-";
inline std::string sign_name(std::uint64_t id, int rank) { return joined({sign_begin, id, "-", rank, unfinished}); }

// Removes what saves have left that did not come to their end.
inline void remove_unfinished(std::string const& folder) {
  for (std::string const& name : names_in(folder))
    if (name.size() > unfinished.size() && name.ends_with(unfinished) &&
        (name.starts_with(sign_begin) || generation_number(std::string_view{name}.substr(0, name.size() - unfinished.size()))))
      remove_folder(folder + "/" + name);
}

// A regular file to be read at places. Throws FormatError of what is none, and FileError.
class ReadFile {
 public:
  // Opens it, and asks for its size.
  explicit ReadFile(std::string path) : path_{std::move(path)}, file_{open_file(path_, O_RDONLY | O_NONBLOCK | O_NOCTTY)} {
    if (!file_.is_open()) throw FileError(path_, "open", errno);
    struct ::stat status;
    if (::fstat(file_.number(), &status) != 0) throw FileError(path_, "fstat", errno);
    check_regular(status, path_);
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::string const& path() const { return path_; }
  // In bytes, as it was opened.
  std::uint64_t size() const { return size_; }
  // Fills `bytes` from byte `at` of the file on. Throws FormatError where it ends before.
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
