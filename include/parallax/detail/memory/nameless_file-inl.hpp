// Bodies of parallax/detail/memory/nameless_file.hpp.
#pragma once

#include "parallax/detail/memory/nameless_file.hpp"

namespace parallax::inline v0_2::detail {

#if defined(__linux__)
PARALLAX_INLINE std::int32_t NamelessFile::process() { return static_cast<std::int32_t>(::getpid()); }

PARALLAX_INLINE void NamelessFile::map(int from) {
  void* const at = ::mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_SHARED, from, 0);
  memory = at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

PARALLAX_INLINE NamelessFile NamelessFile::make(std::size_t at_least) {
  NamelessFile made;
  made.bytes = (at_least + page - 1) / page * page;
  auto const size = static_cast<off_t>(made.bytes + page);
  if (may_have_bytes(made.bytes + page)) made.file = uninterrupted([] { return ::memfd_create("parallax", MFD_CLOEXEC); });
  else errno = EFBIG;
  if (made.file >= 0 && uninterrupted([&] { return ::ftruncate(made.file, size); }) == 0) made.map(made.file);
  if (!made.memory) {
    int const why = errno;
    made.close();
    errno = why;
    return {};
  }
  // Of the process, the time and a counter, scrambled.
  auto const time = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  made.id = (time << 20) + __atomic_add_fetch(&nameless_files, 2, __ATOMIC_RELAXED);
  made.id ^= static_cast<std::uint64_t>(process()) * 0x9e3779b97f4a7c15u;
  made.id |= 1;
  made.mark().id = made.id;
  return made;
}

// Compares the mark with the place, for the owner may have given the descriptor to another file since; and of another
// container's process it may be any file.
PARALLAX_INLINE NamelessFile NamelessFile::find(Place const& place) {
  NamelessFile found;
  found.bytes = static_cast<std::size_t>(place.bytes);
  found.id = place.id;
  char name[64];
  std::snprintf(name, sizeof name, "/proc/%d/fd/%d", static_cast<int>(place.process), static_cast<int>(place.file));
  int const file = place.id ? open_descriptor(name, O_RDWR | O_NONBLOCK) : -1;
  if (file < 0) {
    if (!place.id) errno = ENOENT;
    return {};
  }
  int why = ENOENT;
  if (::lseek(file, 0, SEEK_END) == static_cast<off_t>(found.bytes + page)) found.map(file), why = found.memory ? why : errno;
  ::close(file);
  if (found.memory && found.mark().id == found.id) return found;
  found.unmap();
  errno = why;
  return {};
}

PARALLAX_INLINE void NamelessFile::unmap() const noexcept {
  if (memory) ::munmap(memory, bytes + page);
}

PARALLAX_INLINE void NamelessFile::close() const noexcept {
  if (file >= 0) ::close(file);
}

PARALLAX_INLINE bool NamelessFile::renew() noexcept {
  NamelessFile fresh = make(bytes);
  if (!fresh.memory) return false;
  std::memcpy(fresh.memory, memory, bytes);
  if (::mremap(fresh.memory, bytes + page, bytes + page, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == MAP_FAILED) {
    fresh.unmap();
    fresh.close();
    return false;
  }
  close();
  id = fresh.id;
  file = fresh.file;
  birth = fresh.birth;
  return true;
}

PARALLAX_INLINE void NamelessFile::give_back() const noexcept {
  if (birth.in_child()) return;
  __atomic_store_n(&mark().gone, 1, __ATOMIC_RELEASE);
  static_cast<void>(::madvise(memory, bytes, MADV_REMOVE));
}
#else
PARALLAX_INLINE std::int32_t NamelessFile::process() { return 0; }
PARALLAX_INLINE void NamelessFile::map(int) {}
PARALLAX_INLINE NamelessFile NamelessFile::make(std::size_t) { return {}; }
PARALLAX_INLINE NamelessFile NamelessFile::find(Place const&) { return {}; }
PARALLAX_INLINE void NamelessFile::unmap() const noexcept {}
PARALLAX_INLINE void NamelessFile::close() const noexcept {}
PARALLAX_INLINE bool NamelessFile::renew() noexcept { return false; }
PARALLAX_INLINE void NamelessFile::give_back() const noexcept {}
#endif

}  // namespace parallax::detail
