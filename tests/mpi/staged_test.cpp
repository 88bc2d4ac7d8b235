#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "../catch.hpp"
#include "../cuda/deferred.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/comm/staged.hpp"
#include "parallax/conformance/device_communicator.hpp"

namespace px = parallax;

namespace {

using StagedMpi = px::Staged<px::MpiCommunicator>;

struct StagedRanks {
  px::MpiOptions options = {};

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::MpiOptions mine = options;
    mine.deadline = deadline;
    px::MpiCommunicator mpi{MPI_COMM_WORLD, mine};
    px::CudaPool pool;
    px::CudaStream const stream;
    StagedMpi comm{mpi, {stream.get(), pool}};
    body(comm);
  }
};

}  // namespace

static_assert(px::CarriesDevice<StagedMpi> && px::BareAllreduce<StagedMpi> && px::VendorAllreduce<StagedMpi> &&
              px::OwnClock<StagedMpi> && px::KnowsThreads<StagedMpi> && px::KeepsJournals<StagedMpi> &&
              px::LendsMemory<StagedMpi> && !px::TellsOfAborts<StagedMpi>);
static_assert(std::same_as<StagedMpi::lent_space, px::SharedSpace>);

TEST_CASE("device memory staged through MPI arrives in every order of streams", "[cuda][comm][mpi]") {
  std::uint64_t const first = emulated::first_seed("staged through MPI");
  for (std::uint64_t seed = first; seed < first + 30; ++seed) {
    emulated::Deferred const deferred{seed};
    parallax_conformance::check_device_exchanges(StagedRanks{{.shared_memory = seed % 2 == 0}}, seed);
  }
}

TEST_CASE("a communicator staged over MPI's carries the host's memory and sums as it does", "[cuda][comm][mpi]") {
  parallax_conformance::check_communicator(StagedRanks{{.order = px::SumOrder::vendor}});
}

TEST_CASE("hosts and what is lent show through a communicator staged over MPI's", "[cuda][comm][mpi]") {
  px::MpiCommunicator mpi;
  px::CudaPool pool;
  StagedMpi comm{mpi, {nullptr, pool}};
  CHECK(comm.hosts() == px::mpi_hosts(mpi));
  CHECK(px::sum_order(comm) == px::SumOrder::fixed);
  CHECK(comm.lends(0, comm.size() - 1) == mpi.lends(0, comm.size() - 1));
  px::Topology const through{comm};
  px::Topology const plain{mpi};
  CHECK(through.hops()[0].lends == plain.hops()[0].lends);
  CHECK(through.hops()[0].in_memory == plain.hops()[0].in_memory);
}
