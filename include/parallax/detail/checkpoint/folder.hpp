// The folder of checkpoints: generations, each a folder of files, there as a whole or not at all; and the right to save in it.
// Saving calls it on the first rank of all that see a folder, and restoring on every rank.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
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

// Takes the digits, at most 18, at the beginning of `text` off it, as `number`. Returns false, and sets 0, if there is none.
bool take_number(std::string_view& text, std::int64_t& number);

// Returns a name like `generation-000012`.
std::string generation_name(std::int64_t number);
// Returns the number in a name made by `generation_name`; 0 for any other name.
std::int64_t generation_number(std::string_view name);
// Returns a name like `shard-00003.safetensors`.
std::string shard_name(int rank);
// Name of the manifest: sizes, checksums and small items of a generation. Its file is written last.
inline constexpr std::string_view manifest_name = "manifest.safetensors";

// Returns the names in a folder, sorted, without `.` and `..`. Throws FileError if it cannot be read.
std::vector<std::string> names_in(std::string const& folder);

// Makes a folder, and the missing ones above it, and brings their names to the disk; its own name even if it is there, for its
// maker may have been interrupted before. Waits for the disk. Throws FileError if a call fails.
void make_folder(std::string const& folder);

// Removes a folder without a generation's name, and the files in it, as far as possible; failures are passed over. Of anything
// else, such as a link to a folder, the name alone.
void remove_folder(std::string const& folder) noexcept;

// Returns the numbers in the names of generations in a folder, from the highest on; none if there is no folder. With `folders`
// those of folders alone: a file with such a name is no generation, though none can be made of its name. Throws FileError if
// the folder cannot be read, and FormatError if the highest number is most_generations.
std::vector<std::int64_t> numbers_in(std::string const& folder, bool folders = false);
// Returns the generations in a folder, from the newest on, by their names. A name promises nothing: its reader finds out
// whether the generation is complete. Throws as `numbers_in`.
inline std::vector<std::int64_t> generations_in(std::string const& folder) { return numbers_in(folder, true); }

// Removes every `of`-th file of generation `number`'s folder NAME.part, from file `first` on by name, as far as possible.
void remove_files(std::string const& folder, std::int64_t number, std::size_t first, std::size_t of) noexcept;

// Name of rank `rank`'s file in the save `id`, there for a moment: ranks that see the file see one folder with the rank.
inline constexpr std::string_view sign_begin = "sign-";
inline std::string sign_name(std::uint64_t id, int rank) { return joined({sign_begin, id, "-", rank, unfinished}); }

// Removes the remains of unfinished saves, as far as possible. Throws FileError if the folder cannot be read.
void remove_unfinished(std::string const& folder);

// A regular file, open to be read at places. Owns its descriptor.
class ReadFile {
 public:
  // Opens the file, and asks for its size. Throws FormatError unless it is regular, and FileError if a system call fails.
  explicit ReadFile(std::string path) : path_{std::move(path)}, file_{open_file(path_, O_RDONLY | O_NONBLOCK | O_NOCTTY)} {
    if (!file_.is_open()) throw FileError(path_, "open", errno);
    struct ::stat status;
    if (::fstat(file_.number(), &status) != 0) throw FileError(path_, "fstat", errno);
    check_regular(status, path_);
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::string const& path() const { return path_; }
  // Returns the number of the file's bytes when it was opened.
  std::uint64_t size() const { return size_; }
  // Fills `bytes` from byte `at` of the file on. Throws FormatError if the file ends before, FileError if it cannot be read.
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

// The name of the lock's file. The file stays when the lock is gone, and names its last holder.
inline constexpr std::string_view lock_name = "checkpoint.lock";

// Returns this process in words for the lock's file: its number and host, the launcher's name of its job, and the time.
std::string this_holder();

// The lock of one folder, by flock, held until this object is gone or the process ends; on NFS it holds between hosts. Others
// are refused at once, by a FormatError; nobody is on a file system without locks, or in a folder not to be written to.
class FolderLock {
 public:
  // Takes the lock, without a wait. Throws FormatError if another job or session of this process has it, FileError on failures.
  explicit FolderLock(std::string const& folder) : path_{folder + "/" + std::string{lock_name}} {
    file_ = open_file(path_, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
    bool const no_place = errno == ENOTDIR || errno == EACCES || errno == EPERM || errno == EROFS;
    if (!file_.is_open() && no_place) return;  // the save says so
    if (!file_.is_open()) throw FileError(path_, "open", errno);
    struct ::stat status;
    if (::fstat(file_.number(), &status) != 0) throw FileError(path_, "fstat", errno);
    check_regular(status, path_);
    while (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK)
        throw FormatError(folder, joined({"another job saves here: ", holder(), "; in a folder one saves at a time"}));
      return;
    }
    std::array<char, room> text;
    text.fill(' ');
    std::string const mine = this_holder().substr(0, room - 1);
    std::memcpy(text.data(), mine.data(), mine.size());
    text.back() = '\n';
    static_cast<void>(uninterrupted([&] { return ::pwrite(file_.number(), text.data(), text.size(), 0); }));
  }
  // Returns true if this is the lock of the folder of this path, in any spelling; false also if no file could be opened.
  bool is_of(std::string const& folder) const {
    struct ::stat mine, there;
    return file_.is_open() && ::fstat(file_.number(), &mine) == 0 &&
           ::stat((folder + "/" + std::string{lock_name}).c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
  }

 private:
  static constexpr std::size_t room = 256;  // bytes of the file

  // Returns the words of the present holder, from the file, for messages.
  std::string holder() const {
    std::array<char, room> text;
    auto const count = uninterrupted([&] { return ::pread(file_.number(), text.data(), text.size(), 0); });
    std::string said;
    for (char const c : std::string_view{text.data(), count > 0 ? static_cast<std::size_t>(count) : 0}) {
      if (c == '\n') break;
      said += c >= ' ' && c < 127 ? c : '?';
    }
    said.erase(said.find_last_not_of(' ') + 1);
    return said.empty() ? "it does not say which" : said;
  }

  std::string path_;
  Descriptor file_;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/checkpoint/folder-inl.hpp"
#endif
