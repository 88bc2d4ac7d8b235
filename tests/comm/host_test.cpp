// Memory that ranks of a host map together: it is the same for all or for none, and nothing of it is left.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "parallax/detail/transport/host/memory.hpp"
#include "parallax/detail/transport/host/neighbours.hpp"

namespace px = parallax;

namespace {

// Ranks that are threads.
struct Room {
  explicit Room(std::size_t ranks) : places(ranks), answers(ranks), door(static_cast<std::ptrdiff_t>(ranks)) {}
  std::vector<px::Place> places;
  std::vector<char> answers;
  std::barrier<> door;
};

struct Meeting final : px::detail::HostMeeting {
  Meeting(Room& met_in, std::size_t own) : room{met_in}, self{own} {}
  px::List<px::Place> gather(px::Place const& mine) override {
    room.places[self] = shows ? mine : px::Place{};
    room.door.arrive_and_wait();
    px::List<px::Place> all(room.places.begin(), room.places.end());
    room.door.arrive_and_wait();
    return all;
  }
  bool all(bool mine) override {
    room.answers[self] = mine;
    room.door.arrive_and_wait();
    return std::count(room.answers.begin(), room.answers.end(), 1) == std::ssize(room.answers);
  }
  Room& room;
  std::size_t self;
  bool shows = true;
};

std::size_t entries(char const* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{folder}, {}));
}

// Of memory that processes share by a name: files, among which other tests have folders.
std::ptrdiff_t names() {
  std::filesystem::directory_iterator const all{"/dev/shm"};
  return std::count_if(begin(all), end(all), [](auto const& entry) { return entry.is_regular_file(); });
}

// What each rank of three finds, where rank `hidden` shows nothing.
std::vector<std::unique_ptr<px::detail::HostMemory>> meet(std::size_t hidden) {
  Room room{3};
  std::vector<std::unique_ptr<px::detail::HostMemory>> found(3);
  std::vector<std::jthread> ranks;
  for (std::size_t self = 0; self < 3; ++self)
    ranks.emplace_back([&, self] {
      Meeting meeting{room, self};
      meeting.shows = self != hidden;
      found[self] = std::make_unique<px::detail::HostMemory>(meeting, self, 10'000);
    });
  ranks.clear();
  return found;
}

}  // namespace

TEST_CASE("ranks of a host find the same memory, which outlives the first of them", "[comm][host]") {
  auto const files = entries("/proc/self/fd");
  auto const before = names();
  auto found = meet(3);
  CHECK(entries("/proc/self/fd") == files);
  CHECK(names() == before);
  for (auto const& memory : found) {
    REQUIRE(memory->data());
    CHECK(std::all_of(memory->data(), memory->data() + 10'000, [](std::byte b) { return b == std::byte{0}; }));
  }
  CHECK(found[0]->data() == found[1]->data());  // of one process
  std::memcpy(found[0]->data() + 5000, "it is here", 11);
  found[0].reset();
  CHECK(std::memcmp(found[1]->data() + 5000, "it is here", 11) == 0);
  found[1]->data()[9999] = std::byte{7};
  CHECK(found[2]->data()[9999] == std::byte{7});
}

TEST_CASE("where one rank cannot be reached, none has the memory", "[comm][host]") {
  auto const files = entries("/proc/self/fd");
  for (std::size_t hidden : {0u, 1u, 2u}) {
    CAPTURE(hidden);
    for (auto const& memory : meet(hidden)) CHECK(memory->data() == nullptr);
  }
  CHECK(entries("/proc/self/fd") == files);
}

TEST_CASE("a file of another process is told from the one that is meant", "[comm][host]") {
  auto const file = px::detail::NamelessFile::make(100);
  auto const other = px::detail::NamelessFile::make(100);
  px::Place place = file.place_of(file.memory);
  REQUIRE(px::detail::NamelessFile::find(place).memory);
  place.file = other.file;  // as large, and not the one
  CHECK(px::detail::NamelessFile::find(place).memory == nullptr);
  place.file = 0;
  CHECK(px::detail::NamelessFile::find(place).memory == nullptr);
  place.process = 0;
  CHECK(px::detail::NamelessFile::find(place).memory == nullptr);
  for (auto const& one : {file, other}) {
    one.unmap();
    one.close();
  }
}

TEST_CASE("a block that is given up half way stops its ring, and nothing else", "[comm][host]") {
  constexpr std::size_t large = 1'000'000;
  std::vector<std::byte> memory(px::detail::Neighbours::memory_bytes(2) + 64);
  auto const aligned = (reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64;
  auto* const shared = reinterpret_cast<std::byte*>(aligned);
  px::detail::Neighbours zero{shared, {0, 1}, 0, 2}, one{shared, {0, 1}, 1, 2};
  auto const disagree = [](px::Error const&) { throw std::runtime_error{"ranks disagree"}; };
  std::vector<std::byte> sent(large, std::byte{3}), got(large), next(large, std::byte{4}), small_block(8, std::byte{5});
  zero.send(0, 1, 1, sent.data(), large);
  one.receive(0, 1, 0, got.data(), large);
  for (int pass = 0; pass < 2; ++pass) {
    one.progress(disagree);
    zero.progress(disagree);
  }
  CHECK(zero.needs(0, 1));
  zero.give_up(0);
  std::fill(sent.begin(), sent.end(), std::byte{9});  // nobody reads it any more
  std::vector<std::byte> got_next(large), got_small(8);
  zero.send(1, 1, 1, next.data(), large);
  zero.send(2, 1, 1, small_block.data(), 8);
  one.receive(1, 1, 0, got_next.data(), large);
  one.receive(2, 1, 0, got_small.data(), 8);
  for (int pass = 0; pass < 100; ++pass) {
    one.progress(disagree);
    zero.progress(disagree);
  }
  CHECK(one.complete(2));
  CHECK(got_small == small_block);
  CHECK_FALSE(one.complete(0));
  CHECK_FALSE(one.complete(1));
  CHECK(std::count(got.begin(), got.end(), std::byte{9}) == 0);
  CHECK(std::count(got.begin(), got.end(), std::byte{4}) == 0);
  CHECK(std::count(got_next.begin(), got_next.end(), std::byte{0}) == large);
}
