#include "parallax/comm/communicator.hpp"

#include <optional>
#include <string>

#include "../catch.hpp"
#include "parallax/comm/self.hpp"

namespace px = parallax;

namespace {

// One rank whose time passes only when it is told to, and whose operations never end.
struct Stuck {
  struct Request {
    bool test() { return false; }
    int waiting_for() const { return 3; }
  };
  mutable std::chrono::nanoseconds time{0};
  std::chrono::nanoseconds tick{0};
  bool crowded = false;
  std::string reason;

  int rank() const { return 1; }
  int size() const { return 4; }
  std::chrono::nanoseconds deadline() const { return std::chrono::seconds{2}; }
  std::chrono::nanoseconds now() const { return time += tick; }
  bool oversubscribed() const { return crowded; }
  Request ialltoallv(int, px::Transfer const&) { return {}; }
  void abort(px::Error const& error) { reason = error.what(); }
};
static_assert(px::Communicator<Stuck> && px::OwnClock<Stuck> && px::KnowsOversubscription<Stuck>);

// A communicator with that clock, beside a rank that may be in a pause.
struct Pausing : Stuck {
  std::chrono::nanoseconds announced{0};
  px::Journal own;

  px::Journal& journal() { return own; }
  std::optional<px::RankStatus> status_of(int, bool&) const { return std::nullopt; }
  void answer() const {}
  void announce() const {}
  std::chrono::nanoseconds longest_pause() const { return announced; }
};
static_assert(px::AnnouncesPauses<Pausing>);

}  // namespace

TEST_CASE("a wait that outlasts the deadline aborts the communicator and names who is missing", "[comm]") {
  Stuck comm;
  comm.tick = std::chrono::milliseconds{100};
  auto request = comm.ialltoallv(0, {});
  try {
    px::wait(comm, request, "step");
    FAIL("no error");
  } catch (px::Error const& error) {
    CHECK(error.code() == px::Errc::timeout);
    CHECK(error.rank() == 3);
    CHECK(error.operation() == "step");
    CHECK(error.detail().find("rank 1 waited longer than the deadline of 2") == 0);
    CHECK(comm.reason == error.what());
  }
}

TEST_CASE("patience ends when the deadline has passed since the first pause, by the communicator's own clock", "[comm]") {
  Stuck comm;
  comm.crowded = true;
  px::Patience<Stuck> patience{comm};
  comm.time = std::chrono::seconds{1000};
  CHECK(patience.pause());
  comm.time += std::chrono::milliseconds{1999};
  CHECK(patience.pause());
  CHECK(patience.waited() == std::chrono::milliseconds{1999});
  comm.time += std::chrono::milliseconds{2};
  CHECK_FALSE(patience.pause());
}

TEST_CASE("a pause that ends before the deadline is followed by a whole one", "[comm]") {
  for (bool const pauses : {true, false}) {
    Pausing comm;
    comm.crowded = true;
    px::Patience<Pausing> patience{comm};
    auto const goes_on_after = [&](int milliseconds) {
      comm.time += std::chrono::milliseconds{milliseconds};
      return patience.pause();
    };
    CHECK(goes_on_after(1));
    CHECK(goes_on_after(250));
    comm.announced = std::chrono::seconds{pauses ? 5 : 0};
    CHECK(goes_on_after(250));
    CHECK(goes_on_after(1000));
    comm.announced = {};
    CHECK(goes_on_after(450));
    CHECK(goes_on_after(100) == pauses);
    if (!pauses) continue;
    CHECK(goes_on_after(1900));
    CHECK_FALSE(goes_on_after(200));  // nobody is in a pause by now
  }
}

TEST_CASE("patience yields once it has spun for some microseconds, and at once where ranks outnumber cores", "[comm]") {
  Stuck comm;
  comm.tick = std::chrono::microseconds{1};
  px::Patience<Stuck> spinning{comm};
  int pauses = 0;
  while (!spinning.idles() && pauses < 1000) spinning.pause(), ++pauses;
  CHECK(pauses == 64);  // a long wait, but it began by spinning
  comm.crowded = true;
  comm.tick = std::chrono::nanoseconds{1};
  px::Patience<Stuck> yielding{comm};
  for (pauses = 0; !yielding.idles() && pauses < 1000; ++pauses) yielding.pause();
  CHECK(pauses == 64);
  comm.crowded = false;
  px::Patience<Stuck> short_wait{comm};
  for (pauses = 0; !short_wait.idles() && pauses < 1000; ++pauses) short_wait.pause();
  CHECK(pauses == 1000);  // a microsecond: still spinning
}

TEST_CASE("who seldom gets a turn gives a sign of life in each", "[comm]") {
  Stuck comm;
  comm.tick = std::chrono::milliseconds{3};
  px::Patience<Stuck> patience{comm};
  CHECK_FALSE(patience.idles());
  patience.pause();
  CHECK_FALSE(patience.idles());  // the wait has just begun
  int signs = 0;
  for (int turn = 0; turn < 20; ++turn) {
    patience.pause();
    signs += patience.idles() + patience.idles();
  }
  CHECK(signs == 20);
}

TEST_CASE("a communicator without a clock or an order of its own has the steady clock and fixed sums", "[comm]") {
  px::SelfCommunicator comm;
  auto const before = std::chrono::steady_clock::now().time_since_epoch();
  CHECK(px::now(comm) >= before);
  CHECK(px::sum_order(comm) == px::SumOrder::fixed);
}
