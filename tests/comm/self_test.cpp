#include "parallax/comm/self.hpp"

#include <vector>

#include "../catch.hpp"
#include "parallax/conformance/communicator.hpp"
#include "parallax/conformance/mailbox.hpp"

namespace px = parallax;

static_assert(px::Communicator<px::SelfCommunicator> && px::Mailbox<px::SelfCommunicator>);

namespace {

struct Self {
  template <class Body>
  void run(std::chrono::nanoseconds /*deadline*/, Body const& body) const {
    px::SelfCommunicator comm{{.window = 3, .largest = 100'000}};
    body(comm);
  }
};

}  // namespace

TEST_CASE("one rank passes the communicators' suite", "[comm][self]") {
  parallax_conformance::check_communicator(Self{});
  parallax_conformance::check_failures(Self{});
}

TEST_CASE("one rank writes letters to itself", "[comm][self]") {
  parallax_conformance::check_mailbox(Self{});
  parallax_conformance::check_mailbox_failures(Self{});
  CHECK_THROWS_AS((px::SelfCommunicator{{.window = 0}}), px::Error);
}

TEST_CASE("a rank that sends itself another size than it expects is told so", "[comm][self]") {
  px::SelfCommunicator comm;
  std::vector<std::byte> memory(16);
  px::ByteRange const out{0, 8}, in{8, 4};
  try {
    comm.ialltoallv(0, {memory.data(), {&out, 1}, memory.data(), {&in, 1}});
    FAIL("no error");
  } catch (px::Error const& error) {
    CHECK(error.code() == px::Errc::mismatch);
    CHECK(error.rank() == 0);
    CHECK(error.detail() == "sends 8 bytes to itself but expects 4");
  }
}
