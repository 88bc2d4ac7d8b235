// The stand-in for the library of -fsanitize=thread: loads and stores are counted, atomic operations done, all else left alone. This
// file is compiled without that option.
#include "touched.hpp"

#include <algorithm>
#include <cstring>

namespace touched {
namespace {

std::vector<Watch*>& watches() {
  static std::vector<Watch*> list;
  return list;
}
void note(void const* at, std::size_t bytes, bool writes) {
  for (Watch* const watch : watches()) watch->note(reinterpret_cast<std::uintptr_t>(at), bytes, writes);
}

}  // namespace

Watch::Watch(void const* first, std::size_t bytes, std::uint64_t const& launches)
    : first_{reinterpret_cast<std::uintptr_t>(first)}, end_{first_ + bytes}, launches_{&launches}, seen_(bytes / sector + 2) {
  watches().push_back(this);
}
Watch::~Watch() { std::erase(watches(), this); }

void Watch::note(std::uintptr_t at, std::size_t bytes, bool writes) {
  if (at < first_ || at >= end_) return;
  (writes ? count_.bytes_written : count_.bytes_read) += bytes;
  count_.least = std::min<std::uint64_t>(count_.least, bytes);
  for (std::uintptr_t s = at / sector; s <= (at + bytes - 1) / sector; ++s) {
    auto& seen = seen_[s - first_ / sector];
    count_.sectors += seen != *launches_ + 1;
    seen = *launches_ + 1;
  }
}

}  // namespace touched

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_read_range(void* at, unsigned long bytes) { touched::note(at, bytes, false); }
void __tsan_write_range(void* at, unsigned long bytes) { touched::note(at, bytes, true); }
void* __tsan_memcpy(void* to, void const* from, std::size_t bytes) {
  touched::note(from, bytes, false), touched::note(to, bytes, true);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, void const* from, std::size_t bytes) {
  touched::note(from, bytes, false), touched::note(to, bytes, true);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* at, int value, std::size_t bytes) {
  touched::note(at, bytes, true);
  return std::memset(at, value, bytes);
}
#define ACCESS(bytes)                                                              \
  void __tsan_read##bytes(void* at) { touched::note(at, bytes, false); }           \
  void __tsan_write##bytes(void* at) { touched::note(at, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* at) { touched::note(at, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* at) { touched::note(at, bytes, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
#define ATOMIC(bits, T)                                                                                                       \
  T __tsan_atomic##bits##_load(T const volatile* at, int) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }                   \
  void __tsan_atomic##bits##_store(T volatile* at, T value, int) { __atomic_store_n(at, value, __ATOMIC_SEQ_CST); }           \
  T __tsan_atomic##bits##_exchange(T volatile* at, T value, int) { return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_add(T volatile* at, T value, int) { return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_sub(T volatile* at, T value, int) { return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_or(T volatile* at, T value, int) { return __atomic_fetch_or(at, value, __ATOMIC_SEQ_CST); }   \
  T __tsan_atomic##bits##_fetch_and(T volatile* at, T value, int) { return __atomic_fetch_and(at, value, __ATOMIC_SEQ_CST); } \
  int __tsan_atomic##bits##_compare_exchange_strong(T volatile* at, T* expected, T value, int, int) {                         \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                       \
  }                                                                                                                           \
  int __tsan_atomic##bits##_compare_exchange_weak(T volatile* at, T* expected, T value, int, int) {                           \
    return __atomic_compare_exchange_n(at, expected, value, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                        \
  }
ATOMIC(8, std::uint8_t)
ATOMIC(16, std::uint16_t)
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
}
