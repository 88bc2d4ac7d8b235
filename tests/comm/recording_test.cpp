#include <vector>

#include "../catch.hpp"
#include "../support/recording_communicator.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/conformance/communicator.hpp"

namespace px = parallax;
using parallax_test::RecordingCommunicator;

namespace {

struct RecordedThreads {
  int ranks;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::run_threads(ranks,
                    [&](px::ThreadCommunicator& comm) {
                      RecordingCommunicator recording{comm};
                      body(recording);
                    },
                    {deadline});
  }
};

}  // namespace

static_assert(px::KnowsOversubscription<RecordingCommunicator<px::ThreadCommunicator>>);
static_assert(!px::VendorAllreduce<RecordingCommunicator<px::ThreadCommunicator>>);
static_assert(px::VendorAllreduce<RecordingCommunicator<px::AnyCommunicator>>);

TEST_CASE("a recording communicator passes the communicators' suite", "[comm][recording]") {
  parallax_conformance::check_communicator(RecordedThreads{3});
  parallax_conformance::check_failures(RecordedThreads{3});
}

TEST_CASE("what is posted is recorded by channel, peer and section", "[comm][recording]") {
  px::run_threads(2, [](px::ThreadCommunicator& comm) {
    RecordingCommunicator recording{comm};
    int const self = comm.rank(), peer = 1 - self;
    std::vector<std::byte> out(100), in(100);
    std::vector<px::ByteRange> to(2), from(2);
    auto const bytes_from_to = [](int source, int target) {
      return static_cast<std::size_t>(10 * (source + 1) + target);
    };
    for (int r : {0, 1}) {
      to[static_cast<std::size_t>(r)] = {static_cast<std::size_t>(50 * r), bytes_from_to(self, r)};
      from[static_cast<std::size_t>(r)] = {static_cast<std::size_t>(50 * r), bytes_from_to(r, self)};
    }
    auto const exchange = [&](int channel) {
      auto request = recording.ialltoallv(channel, {out.data(), to, in.data(), from});
      px::wait(recording, request, "a test");
    };
    exchange(7);
    {
      auto const start = recording.section("start");
      exchange(8);
      {
        auto const inner = recording.section("inner");
        exchange(9);
      }
      exchange(8);
    }
    auto const& records = recording.records();
    // Checked outside of Catch, whose assertions are not for several threads at once.
    std::size_t const sent = bytes_from_to(self, peer), expected = bytes_from_to(peer, self);
    parallax_conformance::require(records.size() == 4, "four operations");
    parallax_conformance::require(records[0].channel == 7 && records[0].section.empty(), "the first has no section");
    parallax_conformance::require(records[1].section == "start" && records[2].section == "inner", "sections nest");
    parallax_conformance::require(records[3].section == "start" && records[3].channel == 8, "a section goes on");
    parallax_conformance::require(records[0].sent[static_cast<std::size_t>(self)] == bytes_from_to(self, self), "self");
    parallax_conformance::require(recording.bytes_sent() == 4 * sent, "all that was sent to others");
    parallax_conformance::require(recording.bytes_sent("start") == 2 * sent, "what was sent inside start");
    parallax_conformance::require(recording.bytes_expected("inner") == expected, "what was expected inside inner");
    parallax_conformance::require(recording.bytes_expected() == 4 * expected, "all that was expected");
    recording.clear();
    parallax_conformance::require(recording.records().empty() && recording.bytes_sent() == 0, "cleared");
  });
}

TEST_CASE("a vendor's all-reduce is recorded by its bytes", "[comm][recording]") {
  struct Summing : px::SelfCommunicator {
    px::SumOrder sum_order() const { return px::SumOrder::vendor; }
    Request iallreduce(int, float const*, float*, std::size_t) { return {}; }
    Request iallreduce(int, double const*, double*, std::size_t) { return {}; }
  } comm;
  RecordingCommunicator recording{comm};
  double data[5] = {};
  CHECK(recording.iallreduce(3, data, data, 5).test());
  REQUIRE(recording.records().size() == 1);
  CHECK(recording.records()[0].channel == 3);
  CHECK(recording.records()[0].reduced == 40);
  CHECK(recording.records()[0].sent.empty());
}
