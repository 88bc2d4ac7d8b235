// A folder for the files of a test case, what is said where one is refused, and how much memory a call takes.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "parallax/detail/interop/file.hpp"

namespace parallax_test {

// Where tests put files: in memory where there is much of it, since what is saved is flushed, which takes a disk a tenth of a second
// while compilers write to it; the temporary folder if TMPDIR names one, and elsewhere.
inline std::filesystem::path folder_of_files() {
  std::filesystem::path const memory{"/dev/shm"};
  std::error_code none;
  bool const roomy = std::filesystem::space(memory, none).available >= std::uintmax_t{1} << 30 && !none;
  bool const taken = !std::getenv("TMPDIR") && roomy && ::access(memory.c_str(), W_OK | X_OK) == 0;
  return taken ? memory : std::filesystem::temp_directory_path();
}

// A new folder, removed with all that is in it.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (folder_of_files() / "parallax-files-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp " + pattern);
    folder_ = pattern;
  }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  ~Scratch() { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  std::string write(std::string_view name, std::string_view bytes) const {
    std::ofstream{path(name), std::ios::binary} << bytes;
    return path(name);
  }
  // Changes one byte of a file, which costs a disk less than a new file.
  void overwrite(std::string_view name, std::size_t at, char byte) const {
    std::fstream stream{path(name), std::ios::binary | std::ios::in | std::ios::out};
    stream.seekp(static_cast<std::streamoff>(at)).put(byte);
  }
  bool is_empty() const { return std::filesystem::is_empty(folder_); }

 private:
  std::filesystem::path folder_;
};

// All bytes of a file.
inline std::string read_all(std::string const& path) {
  std::ifstream stream{path, std::ios::binary};
  if (!stream) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>{stream}, {}};
}

// What a FormatError of `call` says, or "accepted".
template <class Call>
std::string refusal(Call const& call) {
  try {
    call();
  } catch (parallax::FormatError const& error) {
    return error.what();
  }
  return "accepted";
}

// Equal to every text that it is part of, for `CHECK(text == says("..."))`.
struct Says {
  std::string part;
  friend bool operator==(std::string const& text, Says const& says) { return text.find(says.part) != text.npos; }
  friend std::ostream& operator<<(std::ostream& out, Says const& says) { return out << "..." << says.part << "..."; }
};
inline Says says(std::string part) { return {std::move(part)}; }

// The bytes of a value's representation, for numbers as text of a file.
template <class T>
std::string little_endian(T value) {
  return {reinterpret_cast<char const*>(&value), sizeof(T)};
}

// Whether what is resident says something of the program: sanitizers have memory of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool resident_is_ours = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool resident_is_ours = false;
#else
inline constexpr bool resident_is_ours = true;
#endif
#else
inline constexpr bool resident_is_ours = true;
#endif

// The most memory that was resident so far, in KiB, pages of mapped files among it: VmHWM, which begins anew with a process.
inline long peak_kib() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6);
  return -1;
}

// By how many MiB `call` raises what is resident, at its peak: in a process of its own. -1 where that process ends otherwise.
template <class Call>
double resident_growth(Call const& call) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  std::fflush(nullptr);
  ::pid_t const child = ::fork();
  if (child == 0) {
    long const before = peak_kib();
    call();
    long const growth = peak_kib() - before;
    bool const told = ::write(ends[1], &growth, sizeof(growth)) == sizeof(growth);
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  long growth = -1;
  bool const told = ::read(ends[0], &growth, sizeof(growth)) == sizeof(growth);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return told && status == 0 ? static_cast<double>(growth) / 1024 : -1;
}

}  // namespace parallax_test
