// A second file of the same program, in one translation unit with the first where the build is a unity build.
#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>

int another(int size);
int another(int size) {
  int sum = 0;
  parallax::run_threads(size, [&](parallax::ThreadCommunicator& world) {
    parallax::Session session{world};
    if (world.rank() == 0) sum = session.topology().size();
    session.finish();
  });
  return sum;
}
