// What a session promises when a rank refuses or ranks differ, on ranks of MPI: by memory and by messages.
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../session/guarantee.hpp"
#include "parallax/comm/mpi.hpp"

namespace px = parallax;

namespace {

using parallax_test::guarantee::Job;

// A rank's job as text, a field a line; texts within may have lines of their own, and come with their lengths.
std::string written(Job const& job) {
  std::ostringstream out;
  auto const text = [&](std::string const& words) { out << words.size() << ' ' << words << '\n'; };
  out << job.hash << ' ' << job.seen.size() << '\n';
  for (auto const& [answer, unchanged] : job.seen) {
    out << unchanged << ' ' << answer.refused << ' ' << static_cast<int>(answer.code) << ' ' << answer.rank << '\n';
    for (auto const* const words : {&answer.operation, &answer.variable, &answer.detail, &answer.what}) text(*words);
  }
  return out.str();
}
Job read(std::string const& words) {
  std::istringstream in{words};
  Job job;
  std::size_t count = 0;
  in >> job.hash >> count;
  job.seen.resize(count);
  for (auto& [answer, unchanged] : job.seen) {
    int code = 0;
    in >> unchanged >> answer.refused >> code >> answer.rank;
    answer.code = static_cast<px::Errc>(code);
    for (auto* const text : {&answer.operation, &answer.variable, &answer.detail, &answer.what}) {
      std::size_t size = 0;
      in >> size;
      in.ignore(1);
      text->resize(size);
      in.read(text->data(), static_cast<std::streamsize>(size));
    }
  }
  return job;
}

// Every rank's job, on all ranks.
std::vector<Job> gathered(Job const& own) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::string const text = written(own);
  int const size = static_cast<int>(text.size());
  std::vector<int> sizes(static_cast<std::size_t>(ranks)), begins(sizes.size());
  MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
  for (std::size_t rank = 1; rank < begins.size(); ++rank) begins[rank] = begins[rank - 1] + sizes[rank - 1];
  std::string all(static_cast<std::size_t>(begins.back() + sizes.back()), '\0');
  MPI_Allgatherv(text.data(), size, MPI_CHAR, all.data(), sizes.data(), begins.data(), MPI_CHAR, MPI_COMM_WORLD);
  std::vector<Job> jobs;
  for (std::size_t rank = 0; rank < begins.size(); ++rank)
    jobs.push_back(read(all.substr(static_cast<std::size_t>(begins[rank]), static_cast<std::size_t>(sizes[rank]))));
  return jobs;
}

}  // namespace

TEST_CASE("a refusal on one rank of MPI is the same error on all, changes no bit, and the next step is right", "[session][mpi]") {
  for (bool const shared_memory : {true, false}) {
    CAPTURE(shared_memory);
    px::AnyCommunicator world{px::MpiCommunicator{MPI_COMM_WORLD, {.shared_memory = shared_memory}}};
    std::uint64_t const seed = shared_memory ? 11 : 12;
    auto const plan = parallax_test::guarantee::plan_of(seed);
    auto const jobs = [&](bool with_faults) {
      return gathered(parallax_test::guarantee::train(px::Topology{world}, seed, plan, with_faults));
    };
    auto const disturbed = jobs(true), undisturbed = jobs(false);
    CHECK(parallax_test::guarantee::check(disturbed, undisturbed, seed, plan) == static_cast<int>(plan.size()));
  }
}
