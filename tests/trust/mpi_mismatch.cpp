// Ranks of MPI that do not do the same.
#include "mismatch.hpp"

#include "parallax/comm/mpi.hpp"

using namespace parallax_test;
using namespace parallax_test::trust_mismatch;

// All but those after which ranks are out of step, which end a job of MPI (see stops.cpp).
TEST_CASE("R1 MPI ranks that differ are told the same, by rank, variable and values", "[trust][mpi][mismatch]") {
  px::MpiCommunicator mpi;
  Table table{"R1 mismatches: " + std::to_string(mpi.size()) + " ranks of MPI, every victim", mpi.rank() == 0};
  for (Kind const& kind : kinds) {
    if (kind.after == After::poisoned) continue;
    for (int victim = 0; victim < mpi.size(); ++victim) {
      World world{std::ref(mpi)};
      Seen const seen = one_rank(world, kind, mpi.rank() == victim, static_cast<std::uint64_t>(victim));
      std::string complaint = complaint_of(kind, {seen}, mpi.size(), victim);
      px::Fingerprint said;
      said.add(std::string_view{seen.answer.what});
      std::vector<std::uint64_t> all(static_cast<std::size_t>(mpi.size()), said.value());
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
      if (std::ranges::count(all, all[0]) != mpi.size()) complaint += "ranks are told different things: " + seen.answer.what;
      table.count(kind.name, complaint);
    }
  }
  table.check(40);
}
