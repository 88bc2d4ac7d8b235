// The folder of checkpoints: generations, each a folder of files that is there as a whole or not at all. Saving and restoring call it
// on rank 0.
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

#include "parallax/core/text.hpp"
#include "parallax/interop/file.hpp"

namespace parallax::detail {

// Of a generation that is not complete, and of one that is being removed, behind the name.
inline constexpr std::string_view unfinished = ".part";

// `generation-000012`.
inline std::string generation_name(std::int64_t number) {
  std::string digits = std::to_string(number);
  return "generation-" + std::string(digits.size() < 6 ? 6 - digits.size() : 0, '0') + digits;
}
// The number in such a name; 0 of any other name.
inline std::int64_t generation_number(std::string_view name) {
  constexpr std::string_view begin = "generation-";
  if (!name.starts_with(begin) || name.size() > begin.size() + 18) return 0;
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
  } const opened{::opendir(folder.c_str())};
  if (!opened.folder) throw FileError(folder, "opendir", errno);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    dirent const* const entry = ::readdir(opened.folder);
    if (!entry && errno != 0) throw FileError(folder, "readdir", errno);
    if (!entry) break;
    std::string_view const name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Brings the names in a folder to the disk. Throws FileError.
inline void sync_folder(std::string const& folder) {
  Descriptor const opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened.is_open()) throw FileError(folder, "open", errno);
  while (::fsync(opened.number()) != 0)
    if (errno != EINTR) throw FileError(folder, "fsync", errno);
}

// Makes a folder, and those above it that are not there, and brings their names to the disk. Throws FileError.
inline void make_folder(std::string const& folder) {
  struct ::stat status;
  if (folder.empty() || (::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode))) return;
  std::size_t const slash = folder.find_last_of('/', folder.size() - 2);
  std::string const above = slash == std::string::npos ? "." : slash == 0 ? "/" : folder.substr(0, slash);
  make_folder(above);
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) throw FileError(folder, "mkdir", errno);
  sync_folder(above);
}

// Removes a folder and the files in it, as far as that goes. For what no name of a generation leads to any more.
inline void remove_folder(std::string const& folder) noexcept {
  try {
    for (std::string const& name : names_in(folder)) ::unlink((folder + "/" + name).c_str());
    ::rmdir(folder.c_str());
  } catch (...) {  // it is found, and removed, by the next save
  }
}

// The numbers of the generations in a folder, from the newest on; of none where there is no folder. By their names alone, which
// promise nothing: who reads one finds out whether it is complete. Throws FileError.
inline std::vector<std::int64_t> generations_in(std::string const& folder) {
  std::vector<std::int64_t> numbers;
  try {
    for (std::string const& name : names_in(folder))
      if (std::int64_t const number = generation_number(name)) numbers.push_back(number);
  } catch (FileError const& error) {
    if (error.code() != ENOENT) throw;
  }
  std::sort(numbers.rbegin(), numbers.rend());
  return numbers;
}

// Removes all generations but the newest `keep`. Each first loses its name, so that none is ever there in part.
inline void remove_old(std::string const& folder, std::size_t keep) {
  std::vector<std::int64_t> const numbers = generations_in(folder);
  for (std::size_t i = keep; i < numbers.size(); ++i) {
    std::string const path = folder + "/" + generation_name(numbers[i]), going = path + std::string{unfinished};
    if (::rename(path.c_str(), going.c_str()) != 0) throw FileError(path, "rename", errno);
    sync_folder(folder);
    remove_folder(going);
  }
}

// Removes what saves have left that did not come to their end.
inline void remove_unfinished(std::string const& folder) {
  for (std::string const& name : names_in(folder))
    if (name.size() > unfinished.size() && name.ends_with(unfinished) &&
        generation_number(std::string_view{name}.substr(0, name.size() - unfinished.size())))
      remove_folder(folder + "/" + name);
}

// A regular file to be read at places. Throws FormatError of what is none, and FileError.
class ReadFile {
 public:
  // Opens it, and asks for its size.
  explicit ReadFile(std::string path)
      : path_{std::move(path)}, file_{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)} {
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
      ::ssize_t const count = ::pread(file_.number(), bytes.data(), bytes.size(), static_cast<::off_t>(at));
      if (count < 0 && errno == EINTR) continue;
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
