#include "parallax/comm/any.hpp"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/conformance/communicator.hpp"

namespace px = parallax;

namespace {

// Every second rank's edge owns its communicator, the others refer to one.
struct AnyThreads {
  int ranks;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::run_threads(ranks,
                    [&](px::ThreadCommunicator& comm) {
                      px::AnyCommunicator any =
                          comm.rank() % 2 ? px::AnyCommunicator{std::move(comm)} : px::AnyCommunicator{std::ref(comm)};
                      body(any);
                    },
                    {deadline});
  }
};

// One rank with every ability, to see them show through.
struct Able : px::SelfCommunicator {
  std::chrono::nanoseconds now() const { return std::chrono::nanoseconds{42}; }
  std::chrono::nanoseconds deadline() const { return std::chrono::nanoseconds{7}; }
  bool oversubscribed() const { return true; }
  px::SumOrder sum_order() const { return px::SumOrder::vendor; }
  Request iallreduce(int, float const*, float* data, std::size_t) { return *data = 1, Request{}; }
  Request iallreduce(int, double const*, double* data, std::size_t) { return *data = 2, Request{}; }
};

// One rank whose requests are larger than an edge has room for, and complete when they are asked for the second time.
struct Roomy : px::SelfCommunicator {
  struct Request {
    explicit Request(int& count) : alive{&count} { ++*alive; }
    Request(Request&& other) : alive{std::exchange(other.alive, nullptr)} {}
    Request& operator=(Request&& other) {
      std::swap(alive, other.alive);
      return *this;
    }
    ~Request() {
      if (alive) --*alive;
    }
    bool test() { return ++asked > 1; }
    int waiting_for() const { return 0; }

    int* alive;
    int asked = 0;
    std::byte more[200]{};
  };
  explicit Roomy(int& count) : alive{&count} {}
  Request ialltoallv(int channel, px::Transfer const& transfer) {
    static_cast<void>(px::SelfCommunicator::ialltoallv(channel, transfer));
    return Request{*alive};
  }
  int* alive;
};

}  // namespace

static_assert(!std::is_copy_constructible_v<px::AnyCommunicator>);
static_assert(std::is_nothrow_move_constructible_v<px::AnyCommunicator>);
static_assert(!std::is_copy_constructible_v<px::AnyCommunicator::Request>);

TEST_CASE("a type-erased communicator over threads passes the communicators' suite", "[comm][any]") {
  int const ranks = GENERATE(1, 2, 4);
  CAPTURE(ranks);
  parallax_conformance::check_communicator(AnyThreads{ranks});
  if (ranks == 4) parallax_conformance::check_failures(AnyThreads{ranks});
}

TEST_CASE("the abilities of a communicator show through its erased type", "[comm][any]") {
  px::AnyCommunicator any{Able{}};
  float f = 0;
  double d = 0;
  CHECK(any.now().count() == 42);
  CHECK(any.deadline().count() == 7);
  CHECK(any.oversubscribed());
  CHECK(px::sum_order(any) == px::SumOrder::vendor);
  CHECK(any.iallreduce(0, &f, &f, 1).test());
  CHECK(any.iallreduce(0, &d, &d, 1).test());
  CHECK((f == 1 && d == 2));
}

TEST_CASE("a request may be larger than the edge has room for, and throw as it moves", "[comm][any]") {
  int alive = 0;
  px::AnyCommunicator any{Roomy{alive}};
  std::byte const sent{7};
  std::byte received{0};
  px::ByteRange const block{0, 1};
  {
    auto request = any.ialltoallv(0, {&sent, {&block, 1}, &received, {&block, 1}});
    CHECK(alive == 1);
    CHECK(!request.test());
    auto moved = std::move(request);
    CHECK(alive == 1);
    CHECK(moved.waiting_for() == 0);
    CHECK(moved.test());
    CHECK(received == sent);
  }
  CHECK(alive == 0);
}

TEST_CASE("an erased communicator without a vendor's all-reduce sums in fixed order and refuses to do otherwise",
          "[comm][any]") {
  px::AnyCommunicator any{px::SelfCommunicator{}};
  float f = 0;
  CHECK(px::sum_order(any) == px::SumOrder::fixed);
  CHECK_FALSE(any.oversubscribed());
  CHECK_THROWS_AS(any.iallreduce(0, &f, &f, 1), px::Error);
}

TEST_CASE("an edge that refers aborts the communicator it refers to", "[comm][any]") {
  px::SelfCommunicator comm;
  px::ByteRange const none;
  px::AnyCommunicator{std::ref(comm)}.abort({px::Errc::aborted, 0, "", "", "the end"});
  CHECK_THROWS_AS(comm.ialltoallv(0, {nullptr, {&none, 1}, nullptr, {&none, 1}}), px::Error);
}

TEST_CASE("an erased edge may replace another", "[comm][any]") {
  px::AnyCommunicator any{px::SelfCommunicator{}};
  any = px::AnyCommunicator{Able{}};
  CHECK(any.now().count() == 42);
  any = px::AnyCommunicator{px::AnyCommunicator{Able{}}};
  CHECK(any.now().count() == 42);
}
