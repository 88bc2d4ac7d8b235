// Which memory kernels touch: every load and store of a file that is compiled with -fsanitize=thread calls touched.cpp, which stands
// in for that sanitizer's library, and counts those within arrays that a test watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace touched {

inline constexpr std::size_t sector = 32;  // bytes that a device moves at least

// What was touched of an array since it is watched: sectors, each once in a launch, that were read, written, or both; all bytes of
// loads and stores; and the smallest load or store in bytes.
struct Count {
  std::uint64_t sectors = 0, bytes_read = 0, bytes_written = 0, least = ~std::uint64_t{0};
};

// Watches an array as long as it lives. Of sectors that lie half in it each counts as one.
class Watch {
 public:
  // `launches`: how many launches there were so far, counted elsewhere.
  Watch(void const* first, std::size_t bytes, std::uint64_t const& launches);
  Watch(Watch const&) = delete;
  ~Watch();
  Count const& count() const { return count_; }

  // By the stand-in.
  void note(std::uintptr_t at, std::size_t bytes, bool writes);

 private:
  std::uintptr_t first_, end_;
  std::uint64_t const* launches_;
  std::vector<std::uint64_t> seen_;  // by sector: in which launch, counted from 1
  Count count_;
};

}  // namespace touched
