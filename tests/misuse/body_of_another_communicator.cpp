// expect: parallax: the body of run takes a px::AnyCommunicator&, or each of the types of communicators that run is given
#include <parallax/comm/run.hpp>

namespace px = parallax;

int main(int argc, char** argv) {
  return px::run(argc, argv, [](px::ThreadCommunicator&) {});
}
