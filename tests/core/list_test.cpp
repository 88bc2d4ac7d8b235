// A List does what a std::vector does: the same operations on both, drawn at random, of elements that are bytes, that own memory,
// that only move, and that cannot move at all.
#include "parallax/detail/core/list.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../support/allocation_counter.hpp"

namespace px = parallax;

namespace {

// Three bytes, so that elements do not lie as words do.
struct Triple {
  unsigned char a = 7, b = 8, c = 9;
  bool operator==(Triple const&) const = default;
};

template <class T>
T made(std::uint64_t n) {
  if constexpr (std::is_same_v<T, Triple>) return {static_cast<unsigned char>(n), static_cast<unsigned char>(n >> 8), 3};
  else if constexpr (std::is_same_v<T, std::string>) return std::string(n % 40, static_cast<char>('a' + n % 26));
  else if constexpr (std::is_same_v<T, std::unique_ptr<int>>) return std::make_unique<int>(static_cast<int>(n));
  else return static_cast<T>(n);
}
template <class T>
auto const& shown(T const& element) {
  if constexpr (std::is_same_v<T, std::unique_ptr<int>>) return *element;
  else return element;
}

// What is done to both; each is called with a List and with a std::vector.
template <class T, class L>
void change(L& list, std::uint64_t what, std::uint64_t n) {
  std::size_t const room = n % 20;
  switch (what) {
    case 0: list.push_back(made<T>(n)); break;
    case 1: list.emplace_back(made<T>(n)); break;
    case 2:
      if (!list.empty()) list.pop_back();
      break;
    case 3: list.reserve(room); break;
    case 4: list.clear(); break;
    case 5: {
      L taken{std::move(list)};
      list = L{};
      list.swap(taken);
      break;
    }
    case 6:
      if (!list.empty()) {
        std::size_t const first = n % list.size(), count = n / 7 % (list.size() - first + 1);
        if constexpr (requires { list.drop(first, count); }) list.drop(first, count);
        else
          list.erase(list.begin() + static_cast<std::ptrdiff_t>(first),
                     list.begin() + static_cast<std::ptrdiff_t>(first + count));
      }
      break;
    case 7:
      if constexpr (std::is_copy_constructible_v<T>) {
        list.resize(room);
        break;
      } else {
        list.clear();
        list.resize(room);
        for (auto& element : list) element = made<T>(n++);
        break;
      }
  }
  if constexpr (std::is_copy_constructible_v<T>) {
    switch (what) {
      case 8: list.resize(room, made<T>(n)); break;
      case 9: list.assign(room, made<T>(n)); break;
      case 10: {
        L const copy = list;
        list = copy;
        list.assign(copy.begin(), copy.end());
        break;
      }
      case 11: {
        std::vector<T> const others(room, made<T>(n));
        list.assign(others.data(), others.data() + others.size());
        break;
      }
      case 12:  // one of its own, where it may have to grow
        if (!list.empty()) list.push_back(list[n % list.size()]);
        break;
      case 13: list = L{made<T>(n), made<T>(n + 1), made<T>(n + 2)}; break;
      case 14: {
        L& itself = list;
        list = itself;
        break;
      }
      default: break;
    }
  }
}

template <class T>
void check_like_a_vector() {
  auto const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  px::List<T> list;
  std::vector<T> vector;
  for (int i = 0; i < 5000; ++i) {
    std::uint64_t const what = random() % 15, n = random();
    CAPTURE(i, what, n);
    change<T>(list, what, n);
    change<T>(vector, what, n);
    REQUIRE(list.size() == vector.size());
    REQUIRE(list.capacity() >= list.size());
    bool same = list.empty() == vector.empty();
    for (std::size_t k = 0; k < vector.size(); ++k) same = same && shown(list[k]) == shown(vector[k]);
    std::size_t k = 0;
    for (T const& element : std::as_const(list)) same = same && shown(element) == shown(vector[k++]);
    REQUIRE(same);
    if (vector.empty()) continue;
    REQUIRE(shown(list.front()) == shown(vector.front()));
    REQUIRE(shown(list.back()) == shown(vector.back()));
    if constexpr (std::is_copy_constructible_v<T>) {
      REQUIRE(list == px::List<T>(vector.begin(), vector.end()));
      REQUIRE(list == vector);
      vector.back() = made<T>(n + 1);
      bool const differs = !(vector.back() == list.back());
      REQUIRE((list == vector) != differs);
      vector.back() = list.back();
    }
  }
}

// Counts those that live.
struct Living {
  static inline int count = 0;
  Living() { ++count; }
  Living(Living const&) { ++count; }
  Living(Living&&) noexcept { ++count; }
  Living& operator=(Living const&) = default;
  ~Living() { --count; }
};

struct ThrowsThirdTime {
  static inline int made = 0;
  ThrowsThirdTime() {
    if (++made == 3) throw 7;
  }
  ThrowsThirdTime(ThrowsThirdTime&&) noexcept {}
  Living living;
};

}  // namespace

TEST_CASE("a list holds what a vector holds after the same operations", "[core][list]") {
  SECTION("bytes") { check_like_a_vector<unsigned char>(); }
  SECTION("words") { check_like_a_vector<std::uint64_t>(); }
  SECTION("structs of three bytes") { check_like_a_vector<Triple>(); }
  SECTION("strings") { check_like_a_vector<std::string>(); }
  SECTION("what only moves") { check_like_a_vector<std::unique_ptr<int>>(); }
}

TEST_CASE("a list ends each element once", "[core][list]") {
  Living::count = 0;
  {
    px::List<Living> list(5);
    CHECK(Living::count == 5);
    list.resize(100);
    list.drop(10, 20);
    CHECK(Living::count == 80);
    auto copy = list;
    CHECK(Living::count == 160);
    copy = std::move(list);
    CHECK(Living::count == 80);
    copy.assign(3, Living{});
    CHECK(Living::count == 3);
    copy.emplace_back();
    copy.clear();
    CHECK(Living::count == 0);
    copy.push_back({});
  }
  CHECK(Living::count == 0);
}

TEST_CASE("a list whose element cannot be made keeps those that it has", "[core][list]") {
  Living::count = ThrowsThirdTime::made = 0;
  {
    px::List<ThrowsThirdTime> list(1);
    CHECK_THROWS_AS(list.resize(6), int);
    CHECK(list.size() == 2);
    CHECK(Living::count == 2);
  }
  CHECK(Living::count == 0);
  ThrowsThirdTime::made = 0;
  CHECK_THROWS_AS(px::List<ThrowsThirdTime>(6), int);
  CHECK(Living::count == 0);

  px::List<std::string> words{"one", "two"};
  px::List<int> numbers{1, 2};
  bool failed_words = false, failed_numbers = false;
  try {
    parallax_test::FailingAllocation const failing{0};
    words.resize(100);
  } catch (std::bad_alloc const&) {
    failed_words = true;
  }
  try {
    parallax_test::FailingAllocation const failing{0};
    numbers.resize(100);
  } catch (std::bad_alloc const&) {
    failed_numbers = true;
  }
  CHECK((failed_words && failed_numbers));
  std::size_t const most = static_cast<std::size_t>(-1) / sizeof(int) + 2;  // so many bytes that they are counted as 4
  CHECK_THROWS_AS(numbers.reserve(most), std::bad_alloc);
  CHECK_THROWS_AS(numbers.resize(most), std::bad_alloc);
  CHECK(words == px::List<std::string>{"one", "two"});
  CHECK(numbers == px::List<int>{1, 2});
}

TEST_CASE("a list has elements that cannot move, where they are made at once", "[core][list]") {
  px::List<std::atomic<int>> list(3);
  list[1] = 4;
  CHECK(list[0] + list[1] + list[2] == 4);
}

TEST_CASE("a list allocates as seldom as a vector", "[core][list]") {
  auto const allocations = [](auto list) {
    std::int64_t const before = parallax_test::news;
    for (int i = 0; i < 1000; ++i) list.push_back(i);
    for (int round = 0; round < 3; ++round) {
      list.clear();
      list.resize(700);
      list.assign(1000, 3);
    }
    return parallax_test::news - before;
  };
  CHECK(allocations(px::List<int>{}) == allocations(std::vector<int>{}));
}
