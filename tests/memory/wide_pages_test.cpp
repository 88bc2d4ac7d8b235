// Memory that processes share where the system has pages of 64 KiB: this program's own madvise gives back whole ones of them.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "../catch.hpp"
#include "parallax/memory/shared.hpp"

namespace px = parallax;

namespace {

constexpr std::size_t wide = 65536;

}  // namespace

extern "C" int madvise(void* at, std::size_t bytes, int advice) noexcept {
  if (advice == MADV_REMOVE) bytes = (bytes + wide - 1) / wide * wide;
  return static_cast<int>(syscall(SYS_madvise, at, bytes, advice));
}

TEST_CASE("peers learn that a block was given back, whatever its size and that of the system's pages", "[memory][shared]") {
  for (std::size_t const bytes : {1u, 4096u, 4097u, 61440u, 61441u, 65536u, 65537u, 100'000u, 1u << 20}) {
    px::detail::NamelessFile const own = px::detail::NamelessFile::make(bytes);
    REQUIRE(own.memory);
    px::detail::NamelessFile const theirs =
        px::detail::NamelessFile::find(own.place_of(own.memory));  // as another process has it
    if (!theirs.memory) PARALLAX_SKIP("there is no /proc");
    std::memset(own.memory, 7, bytes);
    CHECK(theirs.memory[bytes - 1] == std::byte{7});
    CHECK(theirs.mark().gone == 0);
    own.give_back();
    CHECK(theirs.mark().gone != 0);
    CHECK(theirs.mark().id == own.id);
    CHECK(theirs.memory[bytes - 1] == std::byte{0});
    theirs.unmap(), own.unmap(), own.close();
  }
}
