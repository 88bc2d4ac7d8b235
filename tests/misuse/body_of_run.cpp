// The body of run, which is given a communicator.
#include <parallax/comm/run.hpp>

namespace px = parallax;

#if defined(body_of_another_communicator)
// expect: parallax: the body of run takes a px::AnyCommunicator&, or each of the types of communicators that run is given
int main(int argc, char** argv) {
  return px::run(argc, argv, [](px::ThreadCommunicator&) {});
}
#elif defined(ok_body_of_a_communicator)
int main(int argc, char** argv) {
  return px::run<px::ThreadCommunicator>(argc, argv, [](px::ThreadCommunicator&) {});
}
#endif
