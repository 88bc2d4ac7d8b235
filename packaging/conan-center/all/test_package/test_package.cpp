#include <parallax/comm/thread.hpp>

#include <atomic>
#include <cstdio>

#ifdef WITH_MPI
#include <parallax/comm/mpi.hpp>
#endif
#ifdef WITH_EIGEN
#include <parallax/interop/eigen.hpp>
#endif

int main(int argc, char** argv) {
  std::atomic<int> sum = 0;
  parallax::run_threads(2, [&](parallax::ThreadCommunicator& world) { sum += 1 + world.rank(); });
  bool good = sum == 3;
#ifdef WITH_EIGEN
  Eigen::VectorXf vector = Eigen::VectorXf::Ones(4);
  good = good && parallax::flat_view(vector).size() == 4;
  std::puts("with Eigen");
#endif
#ifdef WITH_MPI
  good = parallax::run_mpi(argc, argv, [](parallax::MpiCommunicator& world) { return world.size() - 1; }) == 0 && good;
  std::puts("with MPI");
#endif
  std::printf("parallax: %s\n", good ? "good" : "wrong");
  return good && argc > 0 && argv ? 0 : 1;
}
