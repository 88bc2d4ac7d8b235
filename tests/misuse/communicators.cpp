// Communicators that lack something.
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Alone {
  int rank() const { return 0; }
  int size() const { return 1; }
  std::chrono::nanoseconds deadline() const { return std::chrono::seconds{60}; }
};
struct Nameless : Alone {
  struct Request {
    bool test() { return true; }
  };
  Request ialltoallv(int, px::Transfer const&) { return {}; }
  void abort(px::Error const&) {}
};

#if defined(request_that_names_nobody)
// expect: parallax: a Session is made over a communicator (see comm/communicator.hpp), and what this one's ialltoallv(channel, transfer) returns lacks int waiting_for() const
Nameless world;
px::Session session{world};
#elif defined(session_over_no_communicator)
// expect: parallax: a Session is made over a communicator (see comm/communicator.hpp), and this type lacks ialltoallv(channel, transfer)
Alone world;
px::Session session{world};
std::vector<float> memory(8);
px::Variable<px::Dense, px::Adam> weights{session, "weights", px::bind(memory)};
px::Variable<px::Sparse> words{session, "words", {.rows = 4, .width = 2}};

void train(std::vector<int> const& ids, std::vector<float> const& gradient) {
  auto const rows = session.pull(words, ids);
  auto next = session.prefetch(words, ids);
  session.start(px::grad(weights, gradient));
  session.poll();
  bool const applied = session.step(px::grad(rows, rows.values()));
  session.broadcast(weights);
  session.join([&] { session.step(); });
  if (applied && session.rank() == 0 && session.size() == 1) session.finish();
}
#elif defined(suite_of_no_communicator)
// expect: parallax: a Session is made over a communicator (see comm/communicator.hpp), and what this one's ialltoallv(channel, transfer) returns lacks int waiting_for() const
#include <parallax/conformance/communicator.hpp>
#include <parallax/conformance/mailbox.hpp>

struct Ranks {
  template <class Body>
  void run(std::chrono::nanoseconds, Body const& body) const {
    Nameless world;
    body(world);
  }
};

void suite() {
  parallax_conformance::check_communicator(Ranks{});
  parallax_conformance::check_failures(Ranks{});
  parallax_conformance::check_mailbox(Ranks{});
}
#endif
