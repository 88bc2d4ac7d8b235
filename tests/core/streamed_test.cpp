// What is copied past the caches arrives, to the byte, whatever its place and size.
#include "parallax/detail/core/streamed.hpp"

#include <vector>

#include "../catch.hpp"

TEST_CASE("bytes are streamed from and to any place, and none beside them", "[core][streamed]") {
  std::vector<unsigned char> from(300), to(300);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(2 + i % 251);
  std::size_t wrong = 0;
  for (std::size_t out = 0; out < 33; ++out)
    for (std::size_t in = 0; in < 18; ++in)
      for (std::size_t n = 0; n < 200; ++n) {
        std::fill(to.begin(), to.end(), static_cast<unsigned char>(1));
        parallax::detail::stream_bytes(to.data() + out, from.data() + in, n);
        for (std::size_t i = 0; i < to.size(); ++i) wrong += to[i] != (i < out || i >= out + n ? 1 : from[in + i - out]);
      }
  CHECK(wrong == 0);
}
