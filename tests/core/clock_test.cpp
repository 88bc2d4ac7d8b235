// The rest of a thread between two polls, counted: on a core of its own it yields, on one that others want it naps.
#include "parallax/detail/core/clock.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "../catch.hpp"

namespace detail = parallax::detail;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

// A machine whose time passes as it is told: in a poll, in a yield, and after a nap until the thread runs again.
struct Machine {
  nanoseconds time{1h}, poll = 1us, yield_takes = 300ns, late = 50us, napped{0};
  int yields = 0, naps = 0, quick = 0, slow = 0;  // so many yields take no time before each other one, and those others

  nanoseconds now() const { return time; }
  void yield() {
    bool const lasts = ++yields % (quick + 1) == 0;
    slow += lasts, time += lasts ? yield_takes : 300ns;
  }
  void sleep_for(nanoseconds given) { ++naps, napped += given, time += given + late; }
};

// Makes one wait of that length, as Patience has it: it may be late by an eighth of what it has lasted, from 10 us to 5 ms.
// Returns how late it was.
nanoseconds wait(Machine& machine, detail::Rest& rest, nanoseconds length) {
  nanoseconds const began = machine.time;
  for (;;) {
    machine.time += machine.poll;
    nanoseconds const waited = machine.time - began;
    if (waited >= length) return waited - length;
    rest.take(machine, std::clamp<nanoseconds>(waited / 8, 10us, 5ms));
  }
}

}  // namespace

TEST_CASE("on a core of its own a thread yields at every poll, and is late by none", "[core][wait]") {
  Machine machine;
  detail::Rest rest;
  for (nanoseconds const length : {10us, 100us, 1000us, 9900us}) {
    CHECK(wait(machine, rest, length) < 2us);
    CHECK(machine.naps == 0);
  }
  CHECK(machine.yields > 8000);  // of 11 ms, one in 1.3 us
}

TEST_CASE("a long wait yields at every poll likewise, for a communicator may move on by polls alone", "[core][wait]") {
  for (nanoseconds const length : {nanoseconds{12ms}, nanoseconds{100ms}}) {
    Machine machine;
    detail::Rest rest;
    CHECK(wait(machine, rest, length) < 2us);
    CHECK(machine.naps == 0);
  }
}

TEST_CASE("where a yield takes long a thread naps from then on, and tries again now and then", "[core][wait]") {
  Machine machine;
  detail::Rest rest;
  machine.yield_takes = 24ms;  // behind six programs
  nanoseconds const began = machine.time;
  int waits = 0;
  for (; machine.time - began < 60s; ++waits) wait(machine, rest, 200us);
  CHECK(machine.yields >= 20);
  CHECK(machine.yields <= 70);  // in a minute: 10 ms after the first one, then twice as late, up to a second
  CHECK(waits > 150'000);       // of 250,000 that were possible, and 2,500 where each yields

  // Once nobody else wants the core it yields again, and goes on so.
  machine.yield_takes = 300ns;
  wait(machine, rest, 1500ms);
  int const naps = machine.naps;
  for (int i = 0; i < 1000; ++i) wait(machine, rest, 200us);
  CHECK(machine.naps == naps);
}

TEST_CASE("yields that are quick between those that take long do not make a thread try more often", "[core][wait]") {
  Machine machine;
  detail::Rest rest;
  machine.yield_takes = 16ms;
  machine.quick = 40;  // until what a thread may use at once is used up
  nanoseconds const began = machine.time;
  while (machine.time - began < 60s) wait(machine, rest, 200us);
  CHECK(machine.slow >= 20);
  CHECK(machine.slow <= 70);
}

TEST_CASE("one yield that took long makes a thread nap for hundredths of a second, not for more", "[core][wait]") {
  Machine machine;
  detail::Rest rest;
  for (int turn = 0; turn < 10; ++turn) {
    machine.yield_takes = 3ms;
    rest.take(machine, 10us);
    machine.yield_takes = 300ns;
    int const naps = machine.naps;
    nanoseconds const began = machine.time;
    while (machine.time - began < 2s) wait(machine, rest, 50us);
    CHECK(machine.naps > naps);
    CHECK(machine.naps - naps <= 25ms / 70us);
  }
}
