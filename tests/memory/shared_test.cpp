// Memory that processes share: what an allocation needs is given back where it fails half way, and a child gives back nothing.
#include "parallax/memory/shared.hpp"

#include <sys/wait.h>
#include <unistd.h>

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

TEST_CASE("a block is its process's: what a forked child gives back stays the parent's", "[memory][shared][child]") {
  px::SharedBuffer<float> buffer(2000), renewed(2000);
  if (!px::detail::shared_blocks.place_of(buffer.data()).id) PARALLAX_SKIP("processes share no memory here");
  for (std::size_t i = 0; i < 2000; ++i) buffer[i] = renewed[i] = 1;
  auto const found = px::detail::NamelessFile::find(px::detail::shared_blocks.place_of(buffer.data()));
  pid_t const child = ::fork();
  if (child == 0) {
    { px::SharedBuffer<float> const gone{std::move(buffer)}; }
    // A block that the child has given pages of its own is the child's to give back.
    bool const fresh = px::detail::shared_blocks.renew(px::detail::shared_blocks.place_of(renewed.data()).id);
    renewed[0] = 2;
    { px::SharedBuffer<float> const gone{std::move(renewed)}; }
    px::SharedBuffer<float> own(100);  // a child may have blocks of its own
    own[99] = 3;
    ::_exit(fresh && own[99] == 3 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  for (std::size_t i = 0; i < 2000; ++i) REQUIRE((buffer[i] == 1 && renewed[i] == 1));
  CHECK(found.mark().gone == 0);
  found.unmap();
}
