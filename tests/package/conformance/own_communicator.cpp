// A consumer's communicator passes the suite: threads, with nothing but what the concept asks for.
#include <parallax/conformance/main.hpp>

#include <parallax/comm/thread.hpp>
#include <parallax/conformance/communicator.hpp>

namespace px = parallax;

class OwnCommunicator {
 public:
  explicit OwnCommunicator(px::ThreadCommunicator& comm) : comm_{&comm} {}
  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  std::chrono::nanoseconds deadline() const { return comm_->deadline(); }
  void abort(px::Error const& reason) { comm_->abort(reason); }
  auto ialltoallv(int channel, px::Transfer const& transfer) { return comm_->ialltoallv(channel, transfer); }

 private:
  px::ThreadCommunicator* comm_;
};

struct OwnRanks {
  int ranks;
  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::run_threads(ranks, [&](px::ThreadCommunicator& comm) { OwnCommunicator own{comm}; body(own); }, {deadline});
  }
};

TEST_CASE("a communicator of one's own exchanges") { parallax_conformance::check_communicator(OwnRanks{2}); }
TEST_CASE("a communicator of one's own finds failures") { parallax_conformance::check_failures(OwnRanks{2}); }
