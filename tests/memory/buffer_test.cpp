// A buffer allocates only to grow, never initialises, and is as it was when an allocation fails.
#include "parallax/detail/memory/buffer.hpp"

#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "../catch.hpp"

namespace px = parallax;

namespace {

// Counts what it gives out, and refuses on demand.
struct CountingSpace {
  using axis = px::space_axis;
  static constexpr bool host_readable = true;
  static inline int allocations = 0, living = 0;
  static inline std::size_t last_bytes = 0;
  static inline bool refuses = false;

  static void* allocate(std::size_t bytes) {
    if (refuses) throw std::bad_alloc{};
    ++allocations, ++living;
    last_bytes = bytes;
    return px::HostSpace::allocate(bytes);
  }
  static void deallocate(void* memory, std::size_t bytes) noexcept {
    --living;
    px::HostSpace::deallocate(memory, bytes);
  }
};
using Counted = px::Buffer<double, CountingSpace>;

}  // namespace

TEST_CASE("a buffer allocates when it grows beyond every earlier size, and only then", "[memory][buffer]") {
  CountingSpace::allocations = 0;
  {
    Counted buffer;
    CHECK(buffer.empty());
    CHECK(buffer.data() == nullptr);
    buffer.resize(0);
    CHECK(CountingSpace::allocations == 0);
    buffer.resize(10);
    buffer.resize(3);
    CHECK(buffer.size() == 3);
    CHECK(buffer.capacity() == 10);
    buffer.resize(10);
    CHECK(CountingSpace::allocations == 1);
    buffer.resize(11);
    CHECK(CountingSpace::allocations == 2);
    CHECK(CountingSpace::living == 1);
    CHECK(CountingSpace::last_bytes == 11 * sizeof(double));
  }
  CHECK(CountingSpace::living == 0);
}

TEST_CASE("slack lets a size creep up without an allocation each time", "[memory][buffer]") {
  CountingSpace::allocations = 0;
  Counted buffer;
  for (std::size_t size = 1; size <= 1000; ++size) {
    buffer.resize_with_slack(size);
    CHECK(buffer.size() == size);
  }
  CHECK(CountingSpace::allocations < 20);
}

TEST_CASE("a buffer keeps contents while it shrinks and grows within its capacity", "[memory][buffer]") {
  px::Buffer<int> buffer{4};
  buffer.fill(7);
  buffer.resize(1);
  buffer.resize(4);
  CHECK(buffer[3] == 7);
  buffer[0] = 1;
  CHECK(buffer.span().front() == 1);
  CHECK(std::as_const(buffer).span().size() == 4);
}

TEST_CASE("a buffer is as it was when an allocation fails", "[memory][buffer]") {
  Counted buffer{2};
  buffer.fill(3.0);
  auto const* const data = buffer.data();
  CountingSpace::refuses = true;
  CHECK_THROWS_AS(buffer.resize(5), std::bad_alloc);
  CHECK_THROWS_AS(buffer.resize_with_slack(5), std::bad_alloc);
  CountingSpace::refuses = false;
  CHECK_THROWS_AS(buffer.resize(std::numeric_limits<std::size_t>::max() / 4), std::bad_alloc);
  CHECK(buffer.size() == 2);
  CHECK(buffer.data() == data);
  CHECK(buffer[1] == 3.0);
}

TEST_CASE("moving and swapping buffers moves no element and leaks nothing", "[memory][buffer]") {
  {
    Counted a{3}, b;
    a.fill(1.0);
    auto const* const data = a.data();
    b = std::move(a);
    CHECK(b.data() == data);
    Counted c{std::move(b)};
    CHECK(c.data() == data);
    Counted d{5};
    d.swap(c);
    CHECK(d.data() == data);
    CHECK(c.size() == 5);
    d = std::move(c);
    CHECK(d.size() == 5);
    CHECK(CountingSpace::living == 1);
  }
  CHECK(CountingSpace::living == 0);
}

TEST_CASE("host memory begins at a cache line", "[memory][space]") {
  STATIC_REQUIRE(px::MemorySpace<px::HostSpace>);
  STATIC_REQUIRE(px::MemorySpace<CountingSpace>);
  STATIC_REQUIRE_FALSE(px::MemorySpace<int>);
  for (std::size_t size : {1, 7, 1000}) {
    px::Buffer<char> const buffer{size};
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
  }
}

TEST_CASE("large host memory begins at a huge page, whether the system grants them or not", "[memory][space]") {
  constexpr std::size_t huge = px::HostSpace::huge_page, large = px::HostSpace::large;
  for (std::size_t const size : {large - 1, large, large + 1, large + huge - 64}) {
    INFO(size << " bytes");
    px::Buffer<unsigned char> buffer{size};
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % (size < large ? 64 : huge) == 0);
    for (std::size_t at = 0; at < size; at += 4096) buffer[at] = static_cast<unsigned char>(at >> 12);
    buffer[size - 1] = 77;
    std::size_t right = 0;
    for (std::size_t at = 0; at < size; at += 4096)
      right += buffer[at] == static_cast<unsigned char>(at == size - 1 ? 77 : at >> 12);
    CHECK(right == (size + 4095) / 4096);
    CHECK(buffer[size - 1] == 77);
    buffer.resize(size / 2);  // given back with the size that was allocated
  }
}
