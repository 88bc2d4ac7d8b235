// The stand-in for the library of -fsanitize=thread: loads and stores are counted, those of a kernel's threads held against each other
// where the program is compiled with PARALLAX_EMULATOR_ORDER, atomic operations done, all else left alone. This file is compiled
// without that option.
#include "touched.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#define PARALLAX_EMULATOR_ORDER
#include "emulator/order.hpp"

extern "C" char __data_start, _end;  // what is static in a program: what kernels know of it is shared memory

namespace touched {
namespace {

std::vector<Watch*>& watches() {
  static std::vector<Watch*> list;
  return list;
}

// A thread that has touched something, and when, by the number of meetings so far.
struct Access {
  std::uint32_t block = 0, time = 0;
  std::uint16_t thread = 0;
};
// What a launch has done to two bytes together, or to one of them; of what very many threads have read, what some did.
struct Cell {
  std::uintptr_t at = 0;
  std::uint64_t launch = 0;
  bool written = false;
  std::uint8_t read = 0;   // how many of `reads` there are
  Access write, reads[6];  // the last one, and since then
};

// Accesses of the launch at hand. Two of different threads to the same bytes, of which one writes, must have a barrier in between at
// which both were; of different blocks there is none, but each has shared memory of its own.
struct Order {
  static constexpr std::size_t cells_kept = std::size_t{1} << 19;

  std::vector<Cell> cells = std::vector<Cell>(cells_kept);
  std::uint64_t launch = 0;
  std::uint32_t block = 0, now = 0;
  std::uint32_t all_met = 0;                               // when all threads of the block did
  std::vector<std::array<std::uint32_t, 32>> lanes_met{};  // by thread: when it met each lane of its warp
  std::uintptr_t shared = 0, shared_end = 0;               // what the launch has asked for
  std::uint16_t thread = 0;

  bool is_shared(std::uintptr_t at) const {
    return (at >= shared && at < shared_end) ||
           (at >= reinterpret_cast<std::uintptr_t>(&__data_start) && at < reinterpret_cast<std::uintptr_t>(&_end));
  }
  bool in_order(Access const& before) const {
    if (before.block != block) return false;
    if (before.thread == thread || before.time < all_met) return true;
    return before.thread / 32 == thread / 32 && before.time < lanes_met[thread][before.thread % 32];
  }
  void look_at(Access const& before, std::uintptr_t at, bool writes, char const* what) const {
    if (in_order(before)) return;
    std::fprintf(
        stderr,
        "emulator: thread %u of block %u %s what thread %u of block %u %s, %s memory at %#llx, and no barrier is between\n",
        before.thread, before.block, what, thread, block, writes ? "writes" : "reads", is_shared(at) ? "shared" : "device",
        static_cast<unsigned long long>(at));
    std::fflush(stderr);
    std::_Exit(70);
  }
  // Where it is kept: older launches make room. Of the least that is forgotten nothing is found.
  Cell& cell_of(std::uintptr_t at) {
    for (std::uintptr_t probe = at * 0x9E3779B97F4A7C15u >> 20, last = probe + 16;; ++probe) {
      Cell& cell = cells[probe % cells_kept];
      if (cell.launch == launch && cell.at == at) return cell;
      if (cell.launch != launch || probe == last) return cell = {at, launch}, cell;
    }
  }
  // `bytes`: which of two, 1, 2 or 3 for both. What is moved byte by byte is held against the like.
  void note(std::uintptr_t at, bool writes, unsigned bytes) {
    Cell& cell = cell_of(at / 2 * 4 + bytes);
    if (is_shared(at) && (cell.written ? cell.write : cell.reads[0]).block != block) cell = {cell.at, launch};
    if (cell.written) look_at(cell.write, at, writes, "writes");
    Access const access{block, now, thread};
    if (writes) {
      for (int i = 0; i < cell.read; ++i) look_at(cell.reads[i], at, writes, "reads");
      cell.written = true, cell.read = 0, cell.write = access;
      return;
    }
    for (int i = 0; i < cell.read; ++i)
      if (cell.reads[i].thread == thread && cell.reads[i].block == block) return void(cell.reads[i] = access);
    if (cell.read < std::size(cell.reads)) cell.reads[cell.read++] = access;
    else cell.reads[thread % std::size(cell.reads)] = access;
  }
};
Order& order() {  // one kernel runs at a time
  static Order all;
  return all;
}
thread_local bool watched = false;

// Whether it is on the stack of the fiber that runs, which threads of a block have one after another.
bool on_stack(std::uintptr_t at) {
  constexpr std::uintptr_t bytes = std::uintptr_t{64} << 10;
  return at + bytes - reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < 2 * bytes;
}

void note(void const* at, std::size_t bytes, bool writes) {
  if (auto const first = reinterpret_cast<std::uintptr_t>(at); watched && !on_stack(first)) {
    if (bytes == 1) order().note(first, writes, first % 2 != 0 ? 2 : 1);
    else
      for (std::uintptr_t cell = first / 2; cell <= (first + bytes - 1) / 2; ++cell) order().note(cell * 2, writes, 3);
  }
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

namespace emulator::order {

void begin_launch() { ++touched::order().launch; }
void begin_block(void const* shared, std::size_t bytes) {
  auto& all = touched::order();
  all.shared = reinterpret_cast<std::uintptr_t>(shared), all.shared_end = all.shared + bytes;
  ++all.block;
  all.all_met = 0;
  all.lanes_met.assign(1024, {});
}
void watch(unsigned thread) { touched::watched = true, touched::order().thread = static_cast<std::uint16_t>(thread); }
void look_away() { touched::watched = false; }
void meet() { touched::order().all_met = ++touched::order().now; }
void meet(unsigned first, unsigned mask) {
  auto& all = touched::order();
  ++all.now;
  for (unsigned a = 0; a < 32; ++a)
    for (unsigned b = 0; b < 32; ++b)
      if ((mask >> a & 1) && (mask >> b & 1)) all.lanes_met[first + a][b] = all.now;
}

}  // namespace emulator::order

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
