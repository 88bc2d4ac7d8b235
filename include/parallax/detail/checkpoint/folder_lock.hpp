// The right to save in a folder. One job at a time has it, and the next one is told its holder by name. Saving takes the lock
// on the first rank of all that see the folder, and the session holds it until it goes.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/detail/checkpoint/folder.hpp"
#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// The name of the lock's file. The file stays when the lock is gone, and names its last holder.
inline constexpr std::string_view lock_name = "checkpoint.lock";

// Returns this process in the words of the file: its place, and the launcher's name of its job.
std::string this_holder();

// The lock of one folder, by flock: the kernel gives it back however the process ends, and on NFS it holds between hosts. On a
// file system without locks nobody is kept out.
class FolderLock {
 public:
  // Takes the lock. Throws FileError, and FormatError if another job, or another session of this process, has it.
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
  // Returns true if it is the lock of the folder of this path, in any spelling.
  bool is_of(std::string const& folder) const {
    struct ::stat mine, there;
    return file_.is_open() && ::fstat(file_.number(), &mine) == 0 &&
           ::stat((folder + "/" + std::string{lock_name}).c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
  }

 private:
  static constexpr std::size_t room = 256;  // bytes of the file

  // Returns the holder's words.
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

// The locks of a session, on a leading rank.
class FolderLocks final : public Held {
 public:
  // Takes the folder's lock, unless the session has it. Throws likewise.
  void take(std::string const& folder) {
    for (FolderLock const& lock : locks_)
      if (lock.is_of(folder)) return;
    locks_.emplace_back(folder);
  }

 private:
  std::vector<FolderLock> locks_;
};

// Local, on the first rank of all that see the folder. Keeps other sessions from saving in it, from now on until the session
// goes. Throws FileError, and FormatError with the name of the present holder.
template <Communicator C>
void hold_folder(SessionCore<C>& core, std::string const& folder) {
  if (!core.held) core.held = Owned<Held>{new FolderLocks};
  static_cast<FolderLocks&>(*core.held).take(folder);
}

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/checkpoint/folder_lock-inl.hpp"
#endif
