// Counts, or makes fail, what a thread allocates: operator new in all its forms, and malloc where no sanitizer owns it.
// Replaces functions of the whole program, so that only one source file of a test includes it.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PARALLAX_TEST_OWNS_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PARALLAX_TEST_OWNS_MALLOC 0
#endif
#endif
#if !defined(PARALLAX_TEST_OWNS_MALLOC) && defined(__GLIBC__)
#define PARALLAX_TEST_OWNS_MALLOC 1
#elif !defined(PARALLAX_TEST_OWNS_MALLOC)
#define PARALLAX_TEST_OWNS_MALLOC 0
#endif

namespace parallax_test {

inline thread_local std::int64_t news = 0;          // calls of operator new by this thread
inline thread_local std::int64_t mallocs = 0;       // calls of malloc and its kin, those behind operator new included
inline thread_local std::int64_t failing_new = -1;  // so many calls of operator new until one throws; negative: none does
inline thread_local bool failing_lasts = false;     // all that follow throw as well

// While it lives, the k-th allocation of this thread, counted from 0, throws std::bad_alloc; earlier and later ones succeed.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::int64_t k) { failing_new = k; }
  FailingAllocation(FailingAllocation const&) = delete;
  FailingAllocation& operator=(FailingAllocation const&) = delete;
  ~FailingAllocation() { failing_new = -1; }
  bool happened() const { return failing_new < 0; }
};

inline void* counted_new(std::size_t bytes, std::size_t alignment) {
  ++news;
  if (failing_new >= 0 && failing_new-- == 0) {
    if (failing_lasts) failing_new = 0;
    throw std::bad_alloc{};
  }
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) memory = std::malloc(bytes > 0 ? bytes : 1);
  else memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment + (bytes == 0 ? alignment : 0));
  if (!memory) throw std::bad_alloc{};
  return memory;
}
inline void* counted_new_or_null(std::size_t bytes) noexcept {
  try {
    return counted_new(bytes, 1);
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
}

}  // namespace parallax_test

// All forms of new, for a sanitizer replaces those that are not replaced here. Not inline: g++ would take free for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return parallax_test::counted_new(bytes, 1); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return parallax_test::counted_new(bytes, 1); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return parallax_test::counted_new(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return parallax_test::counted_new(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  return parallax_test::counted_new_or_null(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::nothrow_t const&) noexcept {
  return parallax_test::counted_new_or_null(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::nothrow_t const&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::nothrow_t const&) noexcept { std::free(memory); }

#if PARALLAX_TEST_OWNS_MALLOC
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) noexcept {
  ++parallax_test::mallocs;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  ++parallax_test::mallocs;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  ++parallax_test::mallocs;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  ++parallax_test::mallocs;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  ++parallax_test::mallocs;
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}
}
#endif
