// The calls by which files are made, written, read and removed, as a program's own definitions: each goes through `on_call` of the
// program, which does it, fails it, records it or ends there. Replaces functions of the whole program, so that only one source file of
// a test includes it, and defines `on_call`. No disk is waited for: fsync does nothing.
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "parallax/detail/core/function_ref.hpp"

namespace parallax_test {

// A call, before it is done.
struct FileCall {
  char const* name;
  std::string path = {}, to = {};  // of the file, without a slash behind it; `to`: of rename
  int flags = 0;                   // of open
  void const* bytes = nullptr;     // of pwrite
  std::size_t size = 0;            // of pwrite and pread
  long at = 0;                     // of pwrite and pread

  // Whether it leaves the files as they are. An open is none of these, whatever it is for.
  bool reads() const {
    for (char const* const reading : {"opendir", "readdir", "stat", "fstat", "lstat", "pread"})
      if (std::string_view{name} == reading) return true;
    return false;
  }
};

// Defined by the program. Is shown each call on what lies below `calls_below` while `calls_armed`, and returns what it does: `call`
// does it; `cut` does less of it, where there is less; -1 fails it by what errno is.
long on_call(FileCall const& call, parallax::FunctionRef<long()> done, parallax::FunctionRef<long()> cut);

inline std::string calls_below;
inline std::atomic<bool> calls_armed{false};

// What descriptors and open folders are of.
struct OpenFiles {
  std::string of(int fd) {
    std::lock_guard const lock{mutex};
    auto const found = files.find(fd);
    return found == files.end() ? std::string{} : found->second;
  }
  std::string of(DIR* folder) {
    std::lock_guard const lock{mutex};
    auto const found = folders.find(folder);
    return found == folders.end() ? std::string{} : found->second;
  }

  std::mutex mutex;
  std::map<int, std::string> files;
  std::map<DIR*, std::string> folders;
};
inline OpenFiles open_files;

inline std::string folder_of(std::string const& path) { return path.substr(0, path.rfind('/')); }
inline std::string clean(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}
inline bool is_below(std::string_view path) { return calls_armed && path.starts_with(calls_below); }
// A path as the calling thread means it, from the root on: threads may work in folders of their own.
inline std::string whole(char const* path) {
  if (!calls_armed || *path == '/') return clean(path);
  char folder[4096];
  long const size = syscall(SYS_readlink, "/proc/thread-self/cwd", folder, sizeof(folder));
  if (size <= 0) return clean(path);
  std::string const here(folder, static_cast<std::size_t>(size));
  return std::string_view{path} == "." ? here : here + "/" + clean(path);
}

template <class Done, class Cut>
long shown_call(FileCall const& call, Done const& done, Cut const& cut) {
  return is_below(call.path) ? on_call(call, done, cut) : done();
}
template <class Done>
long shown_call(FileCall const& call, Done const& done) {
  return shown_call(call, done, done);
}
// The definition behind this program's own.
template <class F>
F* next_definition(char const* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace parallax_test

extern "C" {

int open(char const* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t const mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  using namespace parallax_test;
  FileCall const call{.name = "open", .path = whole(path), .flags = flags};
  auto const fd = static_cast<int>(shown_call(call, [&] { return syscall(SYS_openat, AT_FDCWD, path, flags, mode); }));
  if (fd >= 0 && is_below(call.path)) {
    std::lock_guard const lock{open_files.mutex};
    open_files.files[fd] = call.path;
  }
  return fd;
}
int close(int fd) {
  using namespace parallax_test;
  FileCall const call{.name = "close", .path = open_files.of(fd)};
  {
    std::lock_guard const lock{open_files.mutex};
    open_files.files.erase(fd);  // before another thread is given the number
  }
  return static_cast<int>(shown_call(call, [&] { return syscall(SYS_close, fd); }));
}
ssize_t pwrite(int fd, void const* bytes, size_t size, off_t at) {
  using namespace parallax_test;
  FileCall const call{.name = "pwrite", .path = open_files.of(fd), .bytes = bytes, .size = size, .at = at};
  return shown_call(
      call, [&] { return syscall(SYS_pwrite64, fd, bytes, size, at); },
      [&] { return syscall(SYS_pwrite64, fd, bytes, size > 1 ? size / 2 : size, at); });
}
ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  using namespace parallax_test;
  FileCall const call{.name = "pread", .path = open_files.of(fd), .size = size, .at = at};
  return shown_call(
      call, [&] { return syscall(SYS_pread64, fd, bytes, size, at); },
      [&] { return syscall(SYS_pread64, fd, bytes, size > 1 ? size / 2 : size, at); });
}
int fsync(int fd) {
  using namespace parallax_test;
  return static_cast<int>(shown_call({.name = "fsync", .path = open_files.of(fd)}, [] { return 0L; }));
}
int rename(char const* from, char const* to) noexcept {
  using namespace parallax_test;
  FileCall const call{.name = "rename", .path = whole(from), .to = whole(to)};
  return static_cast<int>(shown_call(call, [&] { return syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to); }));
}
int mkdir(char const* path, mode_t mode) noexcept {
  using namespace parallax_test;
  auto const done = [&] { return syscall(SYS_mkdirat, AT_FDCWD, path, mode); };
  return static_cast<int>(shown_call({.name = "mkdir", .path = whole(path)}, done));
}
int unlink(char const* path) noexcept {
  using namespace parallax_test;
  auto const done = [&] { return syscall(SYS_unlinkat, AT_FDCWD, path, 0); };
  return static_cast<int>(shown_call({.name = "unlink", .path = whole(path)}, done));
}
int rmdir(char const* path) noexcept {
  using namespace parallax_test;
  auto const done = [&] { return syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR); };
  return static_cast<int>(shown_call({.name = "rmdir", .path = whole(path)}, done));
}
int stat(char const* path, struct stat* status) noexcept {
  using namespace parallax_test;
  auto const done = [&] { return syscall(SYS_newfstatat, AT_FDCWD, path, status, 0); };
  return static_cast<int>(shown_call({.name = "stat", .path = whole(path)}, done));
}
int lstat(char const* path, struct stat* status) noexcept {
  using namespace parallax_test;
  auto const done = [&] { return syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW); };
  return static_cast<int>(shown_call({.name = "lstat", .path = whole(path)}, done));
}
int fstat(int fd, struct stat* status) noexcept {
  using namespace parallax_test;
  auto const done = [&] { return syscall(SYS_fstat, fd, status); };
  return static_cast<int>(shown_call({.name = "fstat", .path = open_files.of(fd)}, done));
}
DIR* opendir(char const* path) {
  using namespace parallax_test;
  static auto* const next = next_definition<DIR*(char const*)>("opendir");
  DIR* folder = nullptr;
  FileCall const call{.name = "opendir", .path = whole(path)};
  shown_call(call, [&] { return folder = next(path), folder ? 0L : -1L; });
  if (folder && is_below(call.path)) {
    std::lock_guard const lock{open_files.mutex};
    open_files.folders[folder] = call.path;
  }
  return folder;
}
dirent* readdir(DIR* folder) {
  using namespace parallax_test;
  static auto* const next = next_definition<dirent*(DIR*)>("readdir");
  dirent* entry = nullptr;
  shown_call({.name = "readdir", .path = open_files.of(folder)}, [&] { return entry = next(folder), 0L; });
  return entry;
}
int closedir(DIR* folder) {
  using namespace parallax_test;
  static auto* const next = next_definition<int(DIR*)>("closedir");
  {
    std::lock_guard const lock{open_files.mutex};
    open_files.folders.erase(folder);
  }
  return next(folder);
}

}  // extern "C"
