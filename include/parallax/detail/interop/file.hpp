// Whole files for formats of tensors: one mapped into memory, one written under another name until it is complete, and the
// exception of both. safetensors.hpp, npy.hpp and npz.hpp include it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/system.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2 {

static_assert(std::endian::native == std::endian::little, "the files are little-endian, and this machine is not");

// Error of a file unlike its format, of a question for anything not in it, and of a writer's mistake. what(): "PATH: DETAIL".
class FormatError : public std::runtime_error {
 public:
  // `path` as the caller named the file; `detail` names the tensor or field and the offending value.
  FormatError(std::string_view path, std::string_view detail)
      : std::runtime_error(std::string{path}.append(": ").append(detail)), path_{path}, detail_{detail} {}

  // Returns the path of the file, in the caller's words.
  std::string const& path() const noexcept { return path_; }
  // Returns the sentence without the path.
  std::string const& detail() const noexcept { return detail_; }

 private:
  std::string path_, detail_;
};

// Error of a failed system call: "PATH: CALL: TEXT OF ERRNO".
class FileError : public FormatError {
 public:
  // `call` is the system call, `code` its errno.
  FileError(std::string_view path, std::string_view call, int code)
      : FormatError(path, std::string{call}.append(": ").append(std::generic_category().message(code))), code_{code} {}

  // Returns the errno of the system call.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

namespace detail {

// Returns the position of the first byte in no character of UTF-8 (RFC 3629), or the text's size if there is none.
std::size_t end_of_utf8(std::string_view text) noexcept;

// Returns text of a file for messages: in quotes, at most 64 bytes, without control characters.
std::string shown(std::string_view text);

// Returns true, and sets `product` to a · b; false if it is above 2^64 - 1, with another `product`.
inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) noexcept {
  return !__builtin_mul_overflow(a, b, &product);
}

// Sorts in place by `less`, in O(n log n) whatever the order was. Not stable.
template <class T, class Less>
void heap_sort(std::span<T> list, Less const& less) {
  auto const sink = [&](std::size_t at, std::size_t size) {
    for (std::size_t child; (child = 2 * at + 1) < size; at = child) {
      if (child + 1 < size && less(list[child], list[child + 1])) ++child;
      if (!less(list[at], list[child])) return;
      std::swap(list[at], list[child]);
    }
  };
  for (std::size_t i = list.size() / 2; i-- > 0;) sink(i, list.size());
  for (std::size_t size = list.size(); size-- > 1;) {
    std::swap(list[0], list[size]);
    sink(0, size);
  }
}

// A type of elements: its name in a format, and its bytes.
struct DtypeFacts {
  std::string_view name;
  std::size_t size;
};
// Returns the dtype of T, of bool, float, double or an integer. `of_signed` and `of_unsigned`: of 1, 2, 4 and 8 bytes.
template <class T, class Dtype>
constexpr Dtype dtype_among(Dtype boolean, Dtype single, Dtype twofold, Dtype const (&of_signed)[4],
                            Dtype const (&of_unsigned)[4]) {
  if constexpr (std::is_same_v<T, bool>) return boolean;
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? single : twofold;
  return (std::is_signed_v<T> ? of_signed : of_unsigned)[std::bit_width(sizeof(T)) - 1];
}

// The text of a file's header, read by its format's parser from the beginning on. Refers to text and path. Errors name a byte.
class HeaderText {
 protected:
  // `begin`: the text's first byte in the file.
  HeaderText(std::string_view text, std::uint64_t begin, std::string_view path)
      : text_{text}, begin_of_text_{begin}, path_{path} {}

  [[noreturn]] void refuse(std::string_view detail) const { throw FormatError(path_, detail); }
  // Throws FormatError of this detail about the next character, or the end of the text.
  [[noreturn]] void fail(std::string_view detail) const {
    refuse(joined({detail, ", at byte ", begin_of_text_ + at_, at_ < text_.size() ? "" : ", where the header ends"}));
  }
  // Returns true if the next character is `c`.
  bool is_at(char c) const { return at_ < text_.size() && text_[at_] == c; }

  void skip_space() {
    while (is_at(' ') || is_at('\n') || is_at('\r') || is_at('\t')) ++at_;
  }
  // Skips spaces and a `c` behind them. Returns false if there is another character, which stays the next one.
  bool closes(char c) {
    skip_space();
    if (!is_at(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!closes(c)) fail(std::string{"expected "} + c);
  }
  // Reads an integer from 0 on. `subject`: its name in errors; `none`: the error without a digit. FormatError: another text.
  std::uint64_t number(std::string const& subject, std::string_view none) {
    skip_space();
    if (is_at('-')) fail(subject + " is negative");
    std::size_t const begin = at_;
    std::uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (!multiply(value, 10, value) || __builtin_add_overflow(value, static_cast<std::uint64_t>(text_[at_] - '0'), &value))
        fail(subject + " is above 2^64 - 1");
    if (at_ == begin) fail(none);
    if (text_[begin] == '0' && at_ > begin + 1) fail(subject + " begins with 0");
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;  // the next character

 private:
  std::uint64_t begin_of_text_;
  std::string_view path_;
};

// Returns a view of `bytes` as elements of T; a rest is left out. FormatError, with `subject`: they are not aligned for T.
template <class T>
std::span<T const> elements(std::span<std::byte const> bytes, std::string_view path, std::string_view subject) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) != 0)
    throw FormatError(
        path, joined({subject, ": the data begin at an address that no multiple of ", alignof(T), " is: copy the bytes"}));
  return {reinterpret_cast<T const*>(bytes.data()), bytes.size() / sizeof(T)};
}

// A file descriptor, or -1 for none. Owns the descriptor: closes it at the end. A move assignment swaps two.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_{number} {}
  Descriptor(Descriptor&& other) noexcept : number_{std::exchange(other.number_, -1)} {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const noexcept { return number_; }
  bool is_open() const noexcept { return number_ >= 0; }
  // Closes the descriptor. Returns the result of close(), -1 with errno after a failure; this has none then.
  int close() noexcept { return ::close(std::exchange(number_, -1)); }

 private:
  int number_;
};

// Opens a file, not to be inherited by programs. If the call fails, the descriptor is not open, and errno says why.
inline Descriptor open_file(std::string const& path, int flags) noexcept {
  return Descriptor{open_descriptor(path.c_str(), flags)};
}

// Makes a new file, to be written. If it exists, or the call fails, the descriptor is not open, and errno says why.
inline Descriptor make_file(std::string const& path, ::mode_t mode) noexcept {
  return Descriptor{make_descriptor(path.c_str(), O_WRONLY, mode)};
}

// Brings the names in a folder to the disk, and waits, as far as its mount can: a folder that cannot be opened to be read, or
// cannot be brought to the disk at all, is left to the system. Throws FileError of other failures.
void sync_folder(std::string const& folder);

// Throws FormatError, with the kind of the file `path`, unless its `status` is a regular file's.
void check_regular(struct ::stat const& status, std::string_view path);

// The written bytes of a file: intervals in any order, any number of times. Owns their list.
class Intervals {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    if (!list_.empty() && begin >= list_.back().begin && begin <= list_.back().end) {
      if (end > list_.back().end) list_.back().end = end;
      return;
    }
    list_.push_back({begin, end});
    if (list_.size() < limit_) return;
    merge();
    limit_ = 2 * list_.size() + 1024;  // all merging together then takes n log n
  }

  // Returns the first unwritten byte of [0, size), or `size`.
  std::uint64_t first_missing(std::uint64_t size) {
    merge();
    return list_.empty() || list_[0].begin > 0 ? 0 : list_[0].end < size ? list_[0].end : size;
  }

 private:
  struct Interval {
    std::uint64_t begin, end;
  };

  void merge() {
    heap_sort(std::span{list_}, [](Interval const& a, Interval const& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (Interval const& next : list_) {
      if (kept > 0 && next.begin <= list_[kept - 1].end) {
        if (next.end > list_[kept - 1].end) list_[kept - 1].end = next.end;
      } else {
        list_[kept++] = next;
      }
    }
    list_.resize(kept);
  }

  std::vector<Interval> list_;
  std::size_t limit_ = 1024;
};

}  // namespace detail

// A regular file mapped into memory, to be read. Owns the mapping, not the file: cutting the file while it is mapped brings
// SIGBUS from the kernel, as with every mapping. Only touched pages take memory.
class MappedFile {
 public:
  // Opens, checks and maps. Symbolic links are followed. Never blocks: a FIFO, a directory, a socket and a device are refused
  // by FormatError, a failing system call by FileError.
  explicit MappedFile(std::string path) : path_{std::move(path)} {
    detail::Descriptor const file = detail::open_file(path_, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!file.is_open()) throw FileError(path_, "open", errno);
    struct ::stat status;
    if (::fstat(file.number(), &status) != 0) throw FileError(path_, "fstat", errno);
    detail::check_regular(status, path_);
    if (status.st_size == 0) return;  // nothing is mapped of an empty file
    void* const begin = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file.number(), 0);
    if (begin == MAP_FAILED) throw FileError(path_, "mmap", errno);
    bytes_ = {static_cast<std::byte const*>(begin), static_cast<std::size_t>(status.st_size)};
  }
  // Views of `other`'s bytes stay valid, as long as this object; `other` has none.
  MappedFile(MappedFile&& other) noexcept : path_{std::move(other.path_)}, bytes_{std::exchange(other.bytes_, {})} {}
  // Swaps the mappings: `other` takes over this object's. Views stay valid as long as their mapping's new owner.
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  // Returns the path in the caller's words.
  std::string const& path() const noexcept { return path_; }
  // Returns the whole file. Valid until this object is destroyed.
  std::span<std::byte const> bytes() const noexcept { return bytes_; }

 private:
  std::string path_;
  std::span<std::byte const> bytes_;
};

// A file of known size, written in pieces, in any order, as PATH.part, and named PATH once it is complete. One object a path at
// a time; a PATH.part left behind is removed. Not thread-safe.
class NewFile {
 public:
  // Creates PATH.part, for `size` bytes. FormatError: PATH is there, and no regular file. `early`: the disk begins with written
  // bytes while the rest is still to come. finish() then waits for less; meanwhile it takes more of other threads' time.
  // FileError: a system call failed, or the process may write no file of this size (RLIMIT_FSIZE: EFBIG, no signal).
  NewFile(std::string path, std::uint64_t size, bool early = false)
      : path_{std::move(path)}, part_{path_ + ".part"}, size_{size}, early_{early} {
    struct ::stat status;
    if (::stat(path_.c_str(), &status) == 0) detail::check_regular(status, path_);
    if (size > static_cast<std::uint64_t>(std::numeric_limits<::off_t>::max()))
      throw FormatError(path_, joined({"a file has no ", size, " bytes"}));
    if (!detail::may_have_bytes(size)) throw FileError(part_, "pwrite", EFBIG);
    if (::unlink(part_.c_str()) != 0 && errno != ENOENT) throw FileError(part_, "unlink", errno);
    file_ = detail::make_file(part_, 0666);
    if (!file_.is_open()) throw FileError(part_, "open", errno);
  }
  // Leaves `other` as after finish().
  NewFile(NewFile&& other) noexcept = default;
  NewFile& operator=(NewFile&& other) = delete;
  // Removes the written bytes if there was no finish(); an earlier file at PATH stays. Does nothing in a forked child.
  ~NewFile() {
    if (file_.is_open() && !birth_.in_child() && is_ours()) ::unlink(part_.c_str());
  }

  // Returns the path in the caller's words.
  std::string const& path() const noexcept { return path_; }
  // Returns the number of bytes of the complete file.
  std::uint64_t size() const noexcept { return size_; }
  // Returns the number of the first byte not written yet, or size() if there is none.
  std::uint64_t first_missing() { return written_.first_missing(size_); }

  // Writes `bytes` at byte `at` of the file. A byte written again has its last value. FormatError: behind the end, or after
  // finish(). FileError: the disk is full, …; the piece can be written once more.
  void write(std::uint64_t at, std::span<std::byte const> bytes) {
    if (!file_.is_open()) throw FormatError(path_, "written to after finish()");
    if (at > size_ || bytes.size() > size_ - at)
      throw FormatError(path_, joined({bytes.size(), " bytes at byte ", at, " of a file of ", size_}));
    std::uint64_t const begin = at;
    std::uint64_t const end = at + bytes.size();
    while (!bytes.empty()) {
      if (!detail::may_have_bytes(at + 1)) throw FileError(part_, "pwrite", EFBIG);
      auto const count =
          detail::uninterrupted([&] { return ::pwrite(file_.number(), bytes.data(), bytes.size(), static_cast<::off_t>(at)); });
      if (count <= 0) throw FileError(part_, "pwrite", count < 0 ? errno : EIO);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      at += static_cast<std::uint64_t>(count);
    }
    written_.add(begin, end);
    if (early_) begin_writing_back(end - begin);
  }

  // Brings the file to the disk (fsync, which waits), names it PATH, and brings the name to the disk if the mount can. An
  // earlier file at PATH is replaced at once or not at all. FormatError: bytes are missing, somebody else replaced PATH.part,
  // or it is finished. FileError: a system call failed. Either leaves PATH as it was, unless it was the folder's fsync.
  void finish() {
    hand_over();
    std::size_t const slash = path_.rfind('/');
    detail::sync_folder(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
  }
  // Finishes as finish() does, with its errors, but the name need not be on the disk, and the folder is not touched behind it.
  // For a file whose reader may take it away, folder and all, as soon as it is there.
  void hand_over() {
    if (!file_.is_open()) throw FormatError(path_, "finished already");
    if (std::uint64_t const missing = first_missing(); missing < size_)
      throw FormatError(path_, joined({"byte ", missing, " of ", size_, " was not written"}));
    if (detail::uninterrupted([&] { return ::fsync(file_.number()); }) != 0) throw FileError(part_, "fsync", errno);
    if (!is_ours()) throw FormatError(path_, "another writer replaced " + part_);
    if (::rename(part_.c_str(), path_.c_str()) != 0) throw FileError(path_, "rename", errno);
    if (file_.close() != 0 && errno != EINTR) throw FileError(path_, "close", errno);
  }

 private:
  // Returns true if PATH.part still names the file opened by this object.
  bool is_ours() const noexcept {
    struct ::stat opened, named;
    return ::fstat(file_.number(), &opened) == 0 && ::lstat(part_.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
  }
  // Lets the disk begin with the written bytes, some megabytes at a time. fsync tells of failures there.
  void begin_writing_back(std::uint64_t bytes) noexcept {
    waiting_ += bytes;
    if (waiting_ < most_waiting) return;
    waiting_ = 0;
#if defined(__linux__) && defined(SYNC_FILE_RANGE_WRITE)
    static_cast<void>(::sync_file_range(file_.number(), 0, 0, SYNC_FILE_RANGE_WRITE));
#endif
  }
  static constexpr std::uint64_t most_waiting = std::uint64_t{8} << 20;

  std::string path_, part_;
  std::uint64_t size_, waiting_ = 0;
  bool early_;
  detail::Birth birth_;
  detail::Descriptor file_;
  detail::Intervals written_;
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/interop/file-inl.hpp"
#endif
