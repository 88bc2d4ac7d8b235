// Kernels on a CPU: the threads of a block are fibers that take turns, in an order drawn from a seed, and stop at barriers and
// at what a warp does together. A thread that a barrier waits for in vain, lanes that disagree and blocks that cannot go on are
// reported, and the program ends. Blocks run one after another, in an order drawn from the seed, too, so that a block that
// needs what another block of its launch leaves there is found out. ThreadSanitizer takes each fiber for a thread whose only
// order with others comes from barriers, so that it reports what a missing barrier makes a race; plain programs that are compiled to
// tell of their accesses do without it (order.hpp).
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define PARALLAX_EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PARALLAX_EMULATOR_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define PARALLAX_EMULATOR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PARALLAX_EMULATOR_TSAN 1
#endif
#endif

#if defined(PARALLAX_EMULATOR_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(PARALLAX_EMULATOR_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#endif

#include "order.hpp"

struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x{a}, y{b}, z{c} {}
};

namespace emulator {

// Where in a source file, like std::source_location, which clang 14 does not have.
struct Place {
  char const* file = "";
  int line = 0;

  static constexpr Place current(char const* here = __builtin_FILE(), int at = __builtin_LINE()) { return {here, at}; }
};

inline std::uint64_t seed = 1;      // of the order in which blocks and threads take turns
inline std::uint64_t launches = 0;  // so far
// How many blocks of a launch are run, at least two. Where it has more, these are its first, its last, and some that are drawn:
// a test says so that looks at offsets into arrays which no test could fill.
inline std::uint64_t most_blocks = std::numeric_limits<std::uint64_t>::max();

inline std::uint64_t draw() {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return seed;
}

[[noreturn]] inline void fail(char const* what, Place place) {
  std::fprintf(stderr, "emulator: %s, at %s:%d\n", what, place.file, place.line);
  std::fflush(stderr);
  std::_Exit(70);
}

// What happened before `release` in one fiber has happened for another after its `acquire`.
inline void release([[maybe_unused]] void* where) {
#if defined(PARALLAX_EMULATOR_TSAN)
  __tsan_release(where);
#endif
}
inline void acquire([[maybe_unused]] void* where) {
#if defined(PARALLAX_EMULATOR_TSAN)
  __tsan_acquire(where);
#endif
}

// A stack and where it stands. The first one is that of the program itself.
struct Fiber {
  static constexpr std::size_t stack_bytes = std::size_t{64} << 10;

  ucontext_t context{};
  void* stack = nullptr;
  int number = -1;
  unsigned thread = 0;  // that it runs, and its place in the block
  uint3 thread_index{};
  void* sanitizer = nullptr;
  void* fake_stack = nullptr;
  void const* bottom = nullptr;
  std::size_t bytes = 0;
};

// What the lanes of a mask do together: each leaves a word, all read all words.
struct Exchange {
  unsigned mask = 0, arrived = 0;
  int parity = 0;
  char const* kind = nullptr;
  Place place;
  std::uint64_t words[2][32] = {};
  int waiting[32] = {};
};

struct Warp {
  unsigned ended = 0;  // lanes whose thread has returned
  std::vector<Exchange> exchanges;
};

// While it lives, nobody takes notice of what this thread or fiber reads and writes, the emulator's own state: ThreadSanitizer, and
// who watches the order of accesses.
struct Unwatched {
  Unwatched();
  ~Unwatched();
};

struct Body {
  virtual void operator()() const = 0;

 protected:
  ~Body() = default;
};

class Block {
 public:
  static Block& instance() {
    static Block block;
    return block;
  }

  Body const* body = nullptr;
  dim3 block, grid;
  uint3 index{};
  std::vector<unsigned char> shared;
  Fiber* running = nullptr;

  // Runs all threads of one block. Threads of the program take turns, and fibers go from one to the other between blocks.
  void run(std::size_t shared_bytes) {
    Unwatched const unwatched;
    threads_ = block.x * block.y * block.z;
    shared.assign(shared_bytes, 0xCD);
    shared.shrink_to_fit();
    warps_.assign((threads_ + 31) / 32, {});
    order_.resize(threads_);
    for (unsigned i = 0; i < threads_; ++i) order_[i] = i;
    for (unsigned i = threads_; i > 1; --i) std::swap(order_[i - 1], order_[draw() % i]);
    started_ = ended_ = at_barrier_ = 0;
    running = &program_;
    program_.bottom = nullptr, program_.bytes = 0;
#if defined(PARALLAX_EMULATOR_TSAN)
    program_.sanitizer = __tsan_get_current_fiber();
#endif
    while (one_thread_a_fiber && fibers_.size() < threads_) new_fiber();  // what makes a fiber has happened before all it does
    ready_.clear();
    idle_.clear();
    for (std::size_t i = fibers_.size(); i > 0; --i) idle_.push_back(static_cast<int>(i - 1));
    order::begin_block(shared.data(), shared_bytes);
    release(&start_);
    go_on();
    acquire(&end_);
  }

  void barrier(Place place) {
    Unwatched const unwatched;
    if (ended_ > 0) fail("a barrier that other threads of the block have left behind by returning", place);
    if (at_barrier_ == 0) barrier_place_ = place;
    else if (barrier_place_.line != place.line) fail("threads of a block wait at different barriers", place);
    release(&barrier_sync_);
    waiting_.push_back(running->number);
    if (++at_barrier_ == threads_) {
      at_barrier_ = 0;
      order::meet();
      make_ready(waiting_.data(), waiting_.size());
      waiting_.clear();
    }
    go_on();
    acquire(&barrier_sync_);
  }

  // The words that the lanes of `mask` brought, by lane. Only __syncwarp puts what lanes do to memory in order.
  std::uint64_t const* exchange(unsigned mask, std::uint64_t word, char const* kind, Place place, bool orders_memory = false) {
    Unwatched const unwatched;
    unsigned const lane = running->thread % 32;
    Warp& warp = warps_[running->thread / 32];
    if (!(mask >> lane & 1)) fail("a lane calls with a mask that leaves it out", place);
    if (mask & warp.ended) fail("a mask names lanes whose threads have returned", place);
    if (std::size_t const lanes = std::min<std::size_t>(32, threads_ - running->thread / 32 * 32);
        lanes < 32 && mask >> lanes)
      fail("a mask names lanes that the block does not have", place);
    Exchange& all = find(warp, mask, place);
    if (all.arrived == 0) all.kind = kind, all.place = place;
    else if (all.kind != kind || all.place.line != place.line) fail("lanes of a warp do different things together", place);
    int const parity = all.parity;
    all.words[parity][lane] = word;
    all.arrived |= 1u << lane;
    all.waiting[lane] = running->number;
    if (orders_memory) release(&all);
    std::uint64_t const* const words = all.words[parity];
    if (all.arrived == mask) {
      all.arrived = 0;
      all.parity ^= 1;
      if (orders_memory) order::meet(running->thread / 32 * 32, mask);
      int ready[32];
      std::size_t count = 0;
      for (unsigned k = 0; k < 32; ++k)
        if ((mask >> k & 1) && k != lane) ready[count++] = all.waiting[k];
      make_ready(ready, count);
    } else {
      go_on();
    }
    if (orders_memory) acquire(&all);
    return words;
  }

 private:
  static Exchange& find(Warp& warp, unsigned mask, Place place) {
    if (warp.exchanges.empty()) warp.exchanges.reserve(32);
    Exchange* found = nullptr;
    for (Exchange& each : warp.exchanges) {
      if (each.mask == mask) found = &each;
      else if (each.arrived != 0 && (each.mask & mask)) fail("lanes of a warp wait with different masks", place);
    }
    if (found) return *found;
    if (warp.exchanges.size() == warp.exchanges.capacity()) fail("too many different masks", place);
    warp.exchanges.emplace_back();
    warp.exchanges.back().mask = mask;
    return warp.exchanges.back();
  }

  void make_ready(int const* fibers, std::size_t count) {
    std::size_t const first = ready_.size();
    ready_.insert(ready_.end(), fibers, fibers + count);
    for (std::size_t i = count; i > 1; --i) std::swap(ready_[first + i - 1], ready_[first + draw() % i]);
  }

  // Leaves the fiber that runs for one that can go on, or for a thread that has not begun, or, when all have ended, for the
  // program.
  void go_on() {
    Fiber* next = nullptr;
    if (!ready_.empty()) {
      next = fibers_[static_cast<std::size_t>(ready_.back())].get();
      ready_.pop_back();
    } else if (started_ < threads_) {
      next = &idle_fiber();
    } else if (ended_ == threads_) {
      next = &program_;
    } else {
      fail(at_barrier_ > 0 ? "a block cannot go on: some threads wait at a barrier, others for their warp"
                           : "a block cannot go on: lanes wait for others of their warp",
           at_barrier_ > 0 ? barrier_place_ : stuck_place());
    }
    if (next != running) switch_to(*next);
  }
  Place stuck_place() const {
    for (Warp const& warp : warps_)
      for (Exchange const& each : warp.exchanges)
        if (each.arrived != 0) return each.place;
    return barrier_place_;
  }

  void switch_to(Fiber& next) {
    Fiber& self = *running;
    running = &next;
#if defined(PARALLAX_EMULATOR_ASAN)
    __sanitizer_start_switch_fiber(&self.fake_stack, next.bottom, next.bytes);
#endif
#if defined(PARALLAX_EMULATOR_TSAN)
    __tsan_switch_to_fiber(next.sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
    ::swapcontext(&self.context, &next.context);
    arrive(self);
  }
  void arrive([[maybe_unused]] Fiber& self) {
#if defined(PARALLAX_EMULATOR_ASAN)
    void const* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(self.fake_stack, &bottom, &bytes);
    if (&self != &program_ && program_.bytes == 0) program_.bottom = bottom, program_.bytes = bytes;
#endif
  }

  Fiber& idle_fiber() {
    if (idle_.empty()) idle_.push_back(new_fiber().number);
    Fiber& fiber = *fibers_[static_cast<std::size_t>(idle_.back())];
    idle_.pop_back();
    return fiber;
  }
  Fiber& new_fiber() {
    Fiber& fiber = *fibers_.emplace_back(std::make_unique<Fiber>());
    fiber.number = static_cast<int>(fibers_.size()) - 1;
    fiber.stack = ::mmap(nullptr, Fiber::stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fiber.stack == MAP_FAILED || ::getcontext(&fiber.context) != 0)
      fail("no memory for a thread's stack", Place::current());
    fiber.bottom = fiber.stack;
    fiber.bytes = Fiber::stack_bytes;
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = Fiber::stack_bytes;
    fiber.context.uc_link = nullptr;
    ::makecontext(&fiber.context, &Block::enter, 0);
#if defined(PARALLAX_EMULATOR_TSAN)
    fiber.sanitizer = __tsan_create_fiber(0);
#endif
    return fiber;
  }

  // What a fiber does: threads that have not begun, until one that waited can go on.
  static void enter() {
    Block& self = instance();
    self.arrive(*self.running);
    for (;;) {
      self.run_thread();
      Unwatched const unwatched;
      if (!one_thread_a_fiber) {
        if (self.ready_.empty() && self.started_ < self.threads_) continue;
        self.idle_.push_back(self.running->number);
      }
      self.go_on();
    }
  }
  void run_thread() {
    unsigned thread = 0;
    {
      Unwatched const unwatched;
      thread = order_[started_++];
      running->thread = thread;
      running->thread_index = {thread % block.x, thread / block.x % block.y, thread / block.x / block.y};
    }
    acquire(&start_);
    (*body)();
    release(&end_);
    Unwatched const unwatched;
    if (at_barrier_ > 0) fail("a thread returns while others of its block wait at a barrier", barrier_place_);
    Warp& warp = warps_[thread / 32];
    warp.ended |= 1u << thread % 32;
    for (Exchange const& each : warp.exchanges)
      if (each.arrived != 0 && (each.mask >> thread % 32 & 1))
        fail("a lane returns while others of its warp wait for it", each.place);
    ++ended_;
  }
#if defined(PARALLAX_EMULATOR_TSAN)
  static constexpr bool one_thread_a_fiber = true;
#else
  static constexpr bool one_thread_a_fiber = false;
#endif

  unsigned threads_ = 0, started_ = 0, ended_ = 0, at_barrier_ = 0;
  Place barrier_place_;
  std::vector<Warp> warps_;
  std::vector<unsigned> order_;
  std::vector<int> ready_, idle_, waiting_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber program_;
  std::uint64_t start_ = 0, end_ = 0, barrier_sync_ = 0;  // a word each, for ThreadSanitizer tells words apart
};

inline Unwatched::Unwatched() {
  order::look_away();
#if defined(PARALLAX_EMULATOR_TSAN)
  __tsan_ignore_thread_begin();
#endif
}
inline Unwatched::~Unwatched() {
  if (Fiber const* const fiber = Block::instance().running; fiber && fiber->number >= 0) order::watch(fiber->thread);
#if defined(PARALLAX_EMULATOR_TSAN)
  __tsan_ignore_thread_end();
#endif
}

// The order of a launch's blocks: each is `step` behind the one before, counted around. Every fourth launch, by draw, runs from
// the last block to the first. It takes no memory, for there may be millions of blocks.
struct BlockOrder {
  std::uint64_t count, block = 0, step = 1;

  explicit BlockOrder(std::uint64_t blocks) : count{blocks} {
    if (count == 1) return;
    block = count - 1, step = count - 1;
    if (draw() % 4 == 0) return;
    block = draw() % count;
    do step = draw() % count;
    while (std::gcd(step, count) != 1);
  }
  std::uint64_t next() {
    std::uint64_t const now = block;
    block = (block + step) % count;
    return now;
  }
};

// Runs a kernel: body() once for every thread.
template <class Call>
void run(dim3 grid, dim3 block, std::size_t shared_bytes, Call const& call) {
  struct Calls final : Body {
    Call const* call;
    void operator()() const override { (*call)(); }
  } body;
  body.call = &call;
  if (block.x * block.y * block.z == 0 || block.x * block.y * block.z > 1024)
    fail("a block of no or of too many threads", Place::current());
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) fail("a grid of no blocks", Place::current());
  if (shared_bytes > (std::size_t{48} << 10)) fail("more shared memory than a block has", Place::current());
  ++launches;
  order::begin_launch();
  Block& all = Block::instance();
  all.body = &body;
  all.block = block, all.grid = grid;
  BlockOrder order{std::uint64_t{grid.x} * grid.y * grid.z};
  auto const run_block = [&](std::uint64_t number) {
    all.index = {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                 static_cast<unsigned>(number / grid.x / grid.y)};
    all.run(shared_bytes);
  };
  if (order.count <= most_blocks) {
    for (std::uint64_t left = order.count; left > 0; --left) run_block(order.next());
    return;
  }
  run_block(order.count - 1);
  run_block(0);
  for (std::uint64_t left = most_blocks - 2; left > 0;) {
    std::uint64_t const number = order.next();
    if (number == 0 || number == order.count - 1) continue;
    run_block(number);
    --left;
  }
}

}  // namespace emulator
