// The communicators' suite has teeth: each defect planted into a sound communicator is found by the check made for it.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/conformance/communicator.hpp"

namespace px = parallax;

namespace {

enum class Defect {
  none,
  rank_is_always_0,
  flips_a_bit,
  swaps_two_blocks,
  writes_into_a_gap,
  changes_what_is_sent,
  forgets_oneself,
  completes_early,
  completes_twice,
  has_one_channel,
  names_itself,
  accepts_a_busy_channel,
  ignores_sizes,
  blames_no_one,
  aborts_alone,
  names_another,
};

// A sound communicator with a defect. Where a defect makes ranks wait for nothing, the deadline is short as soon as it has shown
// itself, and not before: a busy machine needs its time.
class Faulty {
 public:
  class Request;

  Faulty(px::ThreadCommunicator& comm, Defect defect, std::atomic<bool>& shown) : comm_{&comm}, defect_{defect}, shown_{&shown} {}

  int rank() const { return has(Defect::rank_is_always_0) ? 0 : comm_->rank(); }
  int size() const { return comm_->size(); }
  std::chrono::nanoseconds deadline() const { return *shown_ ? std::chrono::milliseconds{300} : comm_->deadline(); }
  void abort(px::Error const& reason) {
    if (has(Defect::aborts_alone)) *shown_ = true;
    else comm_->abort(reason);
  }
  Request ialltoallv(int channel, px::Transfer const& transfer);

 private:
  bool has(Defect defect) const { return defect_ == defect; }

  px::ThreadCommunicator* comm_;
  Defect defect_;
  std::atomic<bool>* shown_;  // on any rank
};

class Faulty::Request {
 public:
  Request(Faulty& comm, px::Transfer const& transfer, px::ThreadCommunicator::Request inner)
      : comm_{&comm}, transfer_{transfer}, inner_{std::move(inner)} {
    auto const self = static_cast<std::size_t>(comm.comm_->rank());
    if (comm.has(Defect::forgets_oneself)) transfer_.receive[transfer_.from[self].offset] ^= std::byte{1};
  }

  bool test() {
    if (done_ && comm_->has(Defect::completes_twice)) return false;
    if (done_) return true;
    if (comm_->has(Defect::completes_early)) return true;
    try {
      if (!inner_.test()) return false;
    } catch (px::Error const& error) {
      if (error.code() == px::Errc::mismatch && comm_->has(Defect::ignores_sizes)) return done_ = true;
      if (error.code() == px::Errc::mismatch && comm_->has(Defect::blames_no_one))
        throw px::Error{error.code(), -1, error.operation(), error.variable(), error.detail()};
      throw;
    }
    spoil();
    return done_ = true;
  }

  int waiting_for() const {
    int const rank = inner_.waiting_for();
    bool const itself = comm_->has(Defect::names_itself);
    if (rank < 0 || !(itself || comm_->has(Defect::names_another))) return rank;
    *comm_->shown_ = true;
    return itself ? comm_->rank() : (rank + 1) % comm_->size();
  }

 private:
  void spoil() {
    auto const& from = transfer_.from;
    std::byte* const memory = transfer_.receive;
    auto const largest = std::max_element(from.begin(), from.end(), [](auto a, auto b) { return a.bytes < b.bytes; });
    auto const first = std::min_element(from.begin(), from.end(), [](auto a, auto b) { return a.offset < b.offset; });
    if (comm_->has(Defect::flips_a_bit) && largest->bytes > 0)
      memory[largest->offset + largest->bytes - 1] ^= std::byte{1};
    if (comm_->has(Defect::swaps_two_blocks) && from[0].bytes == from[1].bytes)
      std::swap_ranges(memory + from[0].offset, memory + from[0].offset + from[0].bytes, memory + from[1].offset);
    if (comm_->has(Defect::writes_into_a_gap) && first->offset > 0) memory[first->offset - 1] = std::byte{0};
    if (comm_->has(Defect::changes_what_is_sent) && transfer_.to[0].bytes > 0)
      const_cast<std::byte*>(transfer_.send)[transfer_.to[0].offset] ^= std::byte{1};
  }

  Faulty* comm_;
  px::Transfer transfer_;
  px::ThreadCommunicator::Request inner_;
  bool done_ = false;
};

Faulty::Request Faulty::ialltoallv(int channel, px::Transfer const& transfer) {
  try {
    return {*this, transfer, comm_->ialltoallv(has(Defect::has_one_channel) ? 0 : channel, transfer)};
  } catch (px::Error const& error) {
    if (error.code() == px::Errc::misuse && has(Defect::accepts_a_busy_channel)) return {*this, transfer, {}};
    throw;
  }
}
static_assert(px::Communicator<Faulty>);

struct FaultyThreads {
  Defect defect;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    std::atomic<bool> shown{false};
    auto const on_a_rank = [&](px::ThreadCommunicator& comm) {
      Faulty faulty{comm, defect, shown};
      body(faulty);
    };
    px::run_threads(3, on_a_rank, {deadline});
  }
};

// Sound where all ranks agree on sizes: blocks wait in queues, without the number of their operation, and none is put there that
// has no bytes.
class Unnumbered {
 public:
  struct Queues {
    std::mutex mutex;
    std::map<std::array<int, 3>, std::deque<std::vector<std::byte>>> blocks;  // by channel, source and target
    std::optional<px::Error> reason;
  };
  struct Request {
    bool test() {
      std::lock_guard const lock{queues->mutex};
      while (source < static_cast<int>(transfer.from.size())) {
        auto const [offset, bytes] = transfer.from[static_cast<std::size_t>(source)];
        auto& blocks = queues->blocks[{channel, source, rank}];
        if (bytes > 0 && blocks.empty()) {
          if (queues->reason) throw *queues->reason;
          return false;
        }
        if (bytes > 0) {
          if (blocks.front().size() != bytes) throw px::Error{px::Errc::mismatch, source, "", "", std::to_string(bytes)};
          std::ranges::copy(blocks.front(), transfer.receive + offset);
          blocks.pop_front();
        }
        ++source;
      }
      return true;
    }
    int waiting_for() const { return source < static_cast<int>(transfer.from.size()) ? source : -1; }

    Queues* queues;
    px::Transfer transfer;
    int channel, rank, source = 0;
  };

  Unnumbered(int rank, Queues& queues) : rank_{rank}, queues_{&queues} {}
  int rank() const { return rank_; }
  int size() const { return 3; }
  std::chrono::nanoseconds deadline() const { return std::chrono::seconds{60}; }
  void abort(px::Error const& reason) {
    std::lock_guard const lock{queues_->mutex};
    if (!queues_->reason) queues_->reason = reason;
  }
  Request ialltoallv(int channel, px::Transfer const& transfer) {
    std::lock_guard const lock{queues_->mutex};
    if (queues_->reason) throw *queues_->reason;
    for (int target = 0; target < size(); ++target) {
      auto const [offset, bytes] = transfer.to[static_cast<std::size_t>(target)];
      std::byte const* const first = transfer.send + offset;
      if (bytes > 0) queues_->blocks[{channel, rank_, target}].emplace_back(first, first + bytes);
    }
    return {queues_, transfer, channel, rank_};
  }

 private:
  int rank_;
  Queues* queues_;
};

struct UnnumberedThreads {
  template <class Body>
  void run(std::chrono::nanoseconds, Body const& body) const {
    Unnumbered::Queues queues;
    px::run_threads(3, [&](px::ThreadCommunicator& threads) {
      Unnumbered comm{threads.rank(), queues};
      try {
        body(comm);
      } catch (std::exception const& error) {
        comm.abort({px::Errc::user_exception, comm.rank(), "", "", error.what()});
        throw;
      }
    });
  }
};

// What the suites say of a communicator with this defect.
std::string verdict(Defect defect) {
  try {
    parallax_conformance::check_communicator(FaultyThreads{defect});
    parallax_conformance::check_failures(FaultyThreads{defect});
  } catch (parallax_conformance::Failure const& failure) {
    return failure.what();
  }
  return "passes";
}

}  // namespace

TEST_CASE("a sound communicator passes where those with defects fail", "[comm][conformance]") {
  CHECK(verdict(Defect::none) == "passes");
}

TEST_CASE("the suite finds a communicator that does not exchange what it must", "[comm][conformance]") {
  CHECK_THAT(verdict(Defect::rank_is_always_0), parallax_test::contains("«every rank is there once»"));
  CHECK_THAT(verdict(Defect::flips_a_bit), parallax_test::contains("«every rank is there once»"));
  CHECK_THAT(verdict(Defect::swaps_two_blocks), parallax_test::contains("calls itself"));
  CHECK_THAT(verdict(Defect::writes_into_a_gap), parallax_test::contains("which lies outside all blocks"));
  CHECK_THAT(verdict(Defect::changes_what_is_sent), parallax_test::contains("is sent from was changed"));
  CHECK_THAT(verdict(Defect::forgets_oneself), parallax_test::contains("«every rank is there once»"));
  CHECK_THAT(verdict(Defect::completes_early), parallax_test::contains("«"));
  CHECK_THAT(verdict(Defect::completes_twice), parallax_test::contains("is not any more"));
}

TEST_CASE("the suite finds a communicator whose channels or waits are not what they must be", "[comm][conformance]") {
  CHECK_THAT(verdict(Defect::has_one_channel), parallax_test::contains("«channels are independent»"));
  CHECK_THAT(verdict(Defect::names_itself), parallax_test::contains("«a late rank delays the others and is named»"));
  CHECK_THAT(verdict(Defect::accepts_a_busy_channel), parallax_test::contains("was not refused as misuse"));
}

TEST_CASE("the suite finds a communicator that hides failures", "[comm][conformance]") {
  CHECK_THAT(verdict(Defect::ignores_sizes), parallax_test::contains("«different sizes are a mismatch»"));
  CHECK_THAT(verdict(Defect::blames_no_one), parallax_test::contains("which does not blame the sender"));
  CHECK_THAT(verdict(Defect::aborts_alone), parallax_test::contains("«different sizes are a mismatch»"));
  CHECK_THAT(verdict(Defect::names_another), parallax_test::contains("«a late rank delays the others and is named»"));
}

TEST_CASE("the suite tells a communicator that confuses operations what to do about it", "[comm][conformance]") {
  for (auto const& [sent, expected] : {std::pair{16u, 0u}, {0u, 16u}}) {
    std::string said = "nothing";
    try {
      parallax_conformance::check(UnnumberedThreads{}, 1, std::chrono::seconds{60}, "the check",
                                  parallax_conformance::ABlockOfNothingIsNotConfused{sent, expected});
    } catch (parallax_conformance::Failure const& failure) {
      said = failure.what();
    }
    CHECK_THAT(said, parallax_test::contains("from rank 0 is"));
    CHECK_THAT(said, parallax_test::contains("every block must carry the number of its operation on the channel"));
  }
}
