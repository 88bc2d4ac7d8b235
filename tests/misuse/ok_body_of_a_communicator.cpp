// The neighbour of body_of_another_communicator, with the type named.
#include <parallax/comm/run.hpp>

namespace px = parallax;

int main(int argc, char** argv) {
  return px::run<px::ThreadCommunicator>(argc, argv, [](px::ThreadCommunicator&) {});
}
