// Files without a name in memory, mapped by processes of a host together. SharedSpace makes its blocks of them
// (memory/shared.hpp), and communicators the memory for exchange among ranks of a host (detail/transport/host/memory.hpp).
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

// One mapping of such a file into this process: of its own, or of one of another process, found by the file's Place, through
// the list of open files of its owner. Nothing is left behind, however a process ends. At the end lies a page with the file's
// id, and a word on its giving back by the owner. A plain value: it frees nothing by itself.
struct NamelessFile {
  // The bytes of the page at the end, and the unit of sizes: a page of the system, or several. Pages of 64 KiB, in kernels for
  // ARM and POWER, are the largest. A mark in one page with given-back memory would go along with the memory.
  static constexpr std::size_t page = 65536;

  // Content of the page at the end, for all processes. `id`: the file's. `gone`: not 0 once its owner has given it back.
  struct Mark {
    std::uint64_t id, gone;
  };

  // The beginning of the mapping; null if there is no file.
  std::byte* memory = nullptr;
  // The mapped bytes, without the page at the end.
  std::size_t bytes = 0;
  // The file's number, unique on the host.
  std::uint64_t id = 0;
  // The open descriptor of an own file; -1 for a found one, and for a closed one.
  int file = -1;
  // The process that made or found it.
  Birth birth;

  // Local. Returns a new file of this process, of at least so many bytes, all zeros; `unmap` and `close` give it back. Its
  // `memory` is null after a failure, with the reason in `errno`.
  static NamelessFile make(std::size_t at_least);
  // Local. Returns a mapping of a place's file, of any process, for `unmap` to end. `memory` is null on failure: see `errno`.
  static NamelessFile find(Place const& place);

  // Returns the place of the address `at` inside this process's own file, for `find` in other processes.
  Place place_of(std::byte const* at) const { return {id, static_cast<std::uint64_t>(at - memory), bytes, process(), file}; }
  Mark& mark() const { return *reinterpret_cast<Mark*>(memory + bytes); }
  // Ends this process's mapping alone; other processes keep theirs.
  void unmap() const noexcept;
  // Closes the file: nobody can find it any more; mappings stay.
  void close() const noexcept;
  // Moves the bytes of an own file, at the same address, to another file, known as this one from now on. A process that has
  // found it before has the old one. Returns false if there is no other file; then nothing has changed.
  bool renew() noexcept;
  // Marks the file as given back, and frees its pages at once for all processes with a mapping. In a forked child of its
  // process it does nothing.
  void give_back() const noexcept;

 private:
  static std::int32_t process();
  // Maps `bytes` and the page at the end of `from`, a descriptor left open. `memory` is null if the system refuses.
  void map(int from);
};

// Number of files made by this process; counted by twos.
inline std::uint64_t nameless_files = 0;

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/memory/nameless_file-inl.hpp"
#endif
