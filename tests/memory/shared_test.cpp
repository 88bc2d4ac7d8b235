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

TEST_CASE("a block that gets other pages keeps its address and its bytes, and its peers the old ones", "[memory][shared]") {
  px::detail::SharedBlocks blocks;
  auto* const memory = static_cast<char*>(blocks.allocate(5000));
  memory[4999] = 'a';
  px::Place const place = blocks.place_of(memory);
  auto const theirs = px::detail::NamelessFile::find(place);  // as another process finds it
  if (!theirs.memory) PARALLAX_SKIP("there is no /proc");
  auto const files = open_files();
  CHECK(blocks.renew(place.id));
  CHECK(open_files() == files);
  CHECK(memory[4999] == 'a');
  theirs.memory[4999] = std::byte{'b'};
  CHECK(memory[4999] == 'a');
  CHECK(px::detail::NamelessFile::find(place).memory == nullptr);
  auto const again = px::detail::NamelessFile::find(blocks.place_of(memory));
  memory[0] = 'c';
  REQUIRE(again.memory);
  CHECK(again.memory[0] == std::byte{'c'});
  CHECK(blocks.renew(place.id));  // of which there is no block any more
  theirs.unmap();
  again.unmap();
  blocks.deallocate(memory);
}
