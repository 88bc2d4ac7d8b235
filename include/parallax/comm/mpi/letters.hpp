// Letters between ranks that wait: where is yours?
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "parallax/comm/journal.hpp"
#include "parallax/comm/mpi/job.hpp"
#include "parallax/comm/mpi/messages.hpp"

namespace parallax::detail {

// This rank's journal, and what others wrote of theirs: questions and answers beside the channels. A rank that asks is about to
// give up, so that the letters of a job are few.
class MpiLetters {
 public:
  Journal journal;

  void join(MPI_Comm comm) {
    comm_ = comm;
    int size = 0;
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size);
    heard_.resize(static_cast<std::size_t>(size));
    asked_.resize(static_cast<std::size_t>(size));
  }
  // Whether a letter was written: then one may be under way until the job ends.
  bool used() const { return used_; }

  // Asks another rank once; what it has answered so far. `fresh`: whether that is its answer to this question.
  std::optional<Status> status_of(int other, bool& fresh) {
    if (other == rank_) return journal.status();
    auto const at = static_cast<std::size_t>(other);
    if (!std::exchange(asked_[at], 1)) {
      heard_[at].reset();
      write(other, true);
    }
    fresh = heard_[at].has_value();
    return heard_[at];
  }
  // Takes in what has come, and answers it.
  void answer() {
    MpiErrorsAreReturned const returned;
    while (auto const from = waiting()) {
      Letter letter;
      mpi_check(MPI_Recv(&letter, sizeof letter, MPI_BYTE, *from, mpi_letters, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
      used_ = true;
      heard_[static_cast<std::size_t>(*from)] = letter.status;
      if (letter.asks) write(*from, false);
    }
  }
  // Looks for a letter, which moves MPI on: the rank that wrote it.
  std::optional<int> waiting() const {
    int found = 0;
    MPI_Status from;
    mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, mpi_letters, comm_, &found, &from), "MPI_Iprobe");
    return found ? std::optional{from.MPI_SOURCE} : std::nullopt;
  }

 private:
  struct Letter {
    int asks = 0;
    Status status;
  };

  void write(int other, bool asks) {
    used_ = true;
    auto& letter = *sent_.emplace_back(std::make_unique<Letter>(Letter{asks, journal.status()}));
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_check(MPI_Isend(&letter, sizeof letter, MPI_BYTE, other, mpi_letters, comm_, &request), "MPI_Isend", other);
    MPI_Request_free(&request);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  bool used_ = false;
  std::vector<std::unique_ptr<Letter>> sent_;  // MPI may read them until the job ends
  std::vector<std::optional<Status>> heard_;   // by rank, since this rank asked
  std::vector<char> asked_;
};

}  // namespace parallax::detail
