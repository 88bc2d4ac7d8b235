// Files without a name in memory, which processes of a host map together. SharedSpace makes its blocks of them
// (memory/shared.hpp), and communicators the memory through which ranks of a host exchange (detail/transport/host/memory.hpp).
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/memory/place.hpp"

#if defined(__linux__)
#include "parallax/detail/core/system.hpp"
#endif

namespace parallax::inline v0_2::detail {

// One mapping of such a file into this process: of its own, or of one of another process, which it finds by the file's Place,
// through the list of open files of its owner. Nothing is left behind, however a process ends. At the end lies a page that says
// which file it is, and when its owner has given it back. A plain value, which frees nothing by itself.
struct NamelessFile {
  // The bytes of the page at the end, and the unit that sizes are rounded up to: a page of the system, or several. Pages of 64
  // KiB, which kernels for ARM and POWER have, are the largest. A mark in one page with given-back memory would go along with
  // it.
  static constexpr std::size_t page = 65536;

  // What the page at the end says to all processes. `id`: which file it is. `gone`: not 0 once its owner has given it back.
  struct Mark {
    std::uint64_t id, gone;
  };

  // Null where the file could not be had.
  std::byte* memory = nullptr;
  // Without the page at the end.
  std::size_t bytes = 0;
  // Unique on the host.
  std::uint64_t id = 0;
  // The open descriptor of an own file; -1 of one that was found, and where it is closed.
  int file = -1;
  // The process that made or found it.
  Birth birth;

  // Local. Makes a file of this process, of at least so many bytes, all zeros. Null where that fails, with the reason in
  // `errno`, as of `find`.
  static NamelessFile make(std::size_t at_least);
  // Local. The file in which a place lies, of this process or another one.
  static NamelessFile find(Place const& place);

  // Of memory inside this process's own file.
  Place place_of(std::byte const* at) const { return {id, static_cast<std::uint64_t>(at - memory), bytes, process(), file}; }
  Mark& mark() const { return *reinterpret_cast<Mark*>(memory + bytes); }
  // Ends this process's mapping alone; those of others stay.
  void unmap() const noexcept;
  // Nobody can find it any more; mappings stay.
  void close() const noexcept;
  // Own files only: the same bytes at the same address, in another file, as which this one is known from now on. Who has found
  // it before has the old one. False where that cannot be had; then nothing has changed.
  bool renew() noexcept;
  // Marks it as given back, and frees its pages at once for all processes that have mapped it. In a forked child of its process
  // it does nothing.
  void give_back() const noexcept;

 private:
  static std::int32_t process();
  // Maps the bytes and the page at the end; null where the system refuses.
  void map(int from);
};

// How many this process has made; counted by twos.
inline std::uint64_t nameless_files = 0;

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/memory/nameless_file-inl.hpp"
#endif
