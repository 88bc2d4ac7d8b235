// Memory that processes share: what an allocation needs is given back where it fails half way.
#include "parallax/memory/shared.hpp"

#include <filesystem>
#include <iterator>
#include <new>
#include <vector>

#include "../catch.hpp"
#include "../support/allocation_counter.hpp"

namespace px = parallax;

namespace {

// Files that this process has open: each block has one.
std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {}));
}

}  // namespace

TEST_CASE("a block that cannot be noted is given back", "[memory][shared]") {
  if (!std::filesystem::exists("/proc/self/fd")) PARALLAX_SKIP("there is no /proc");
  px::detail::SharedBlocks blocks;
  auto const before = open_files();
  std::vector<void*> had;
  had.reserve(100);
  int failed = 0;
  for (int i = 0; i < 20; ++i) {
    {
      parallax_test::FailingAllocation const failing{0};  // where the list of blocks has to grow
      try {
        had.push_back(blocks.allocate(100));
      } catch (std::bad_alloc const&) {
        ++failed;
      }
    }
    had.push_back(blocks.allocate(100));
  }
  CHECK(failed >= 3);
  CHECK(open_files() == before + had.size());
  for (void* const block : had) blocks.deallocate(block);
  CHECK(open_files() == before);
}
