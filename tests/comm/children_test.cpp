// A forked child of a rank over sockets: the rank's peers hear nothing of all that it destroys and calls.
#include <optional>

#include "../catch.hpp"
#include "../support/children.hpp"
#include "parallax/parallax.hpp"
#include "socket_job.hpp"

namespace px = parallax;
using namespace socket_job;
using parallax_test::must_be_refused, parallax_test::status_of;

TEST_CASE("a forked child of a rank over sockets is not heard by its peers", "[comm][socket][child]") {
  Job job{[](px::SocketCommunicator& comm) {
    auto const must = [&](int status, char const* what) {
      if (status != 0) throw px::Error{px::Errc::mismatch, comm.rank(), "a child", "", what};
    };
    All all{comm, 3'000'000};
    for (int k = 0; k < 3; ++k) {
      exchange(comm, 100);
      auto request = comm.ialltoallv(1, all.transfer());
      if (comm.rank() == 1) {
        must(status_of([&] {
               must_be_refused(1, [&] { exchange(comm, 8); });
               must_be_refused(1, [&] { comm.check(); });
               must_be_refused(1, [&] { comm.announce(); });
               comm.abort({px::Errc::user_exception, 1, "a child", "", "this is nobody's business"});
             }),
             "it calls");
        must(status_of([&] { px::SocketCommunicator::Request{std::move(request)} = {}; }), "it withdraws what is under way");
        must(status_of([&] { px::SocketCommunicator const gone{std::move(comm)}; }), "it destroys its copy");
        must(status_of([&] {
               try {
                 px::SocketCommunicator const gone{std::move(comm)};
                 throw 1;
               } catch (int) {}
             }),
             "it leaves by an exception");
      }
      px::wait(comm, request, "a test");
    }
    comm.abort({px::Errc::user_exception, 2, "the end", "", "all went well"});  // by all, who tell it so
    comm.check();
  }};
  job.together();
  for (int i = 0; i < Job::ranks; ++i) {
    Report const report = job.next();
    CAPTURE(report.rank, report.words);
    CHECK(report.code == static_cast<int>(px::Errc::user_exception));
    CHECK(report.blamed == 2);
  }
}
