// Letters between threads, and the suite's teeth: each defect planted into a sound mailbox is found.
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/forwarding.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/conformance/mailbox.hpp"

namespace px = parallax;

namespace {

enum class Defect {
  none,
  drops_a_letter,
  doubles_a_letter,
  swaps_two_letters,
  mixes_lanes,
  keeps_no_copy,
  loses_a_part,
  one_more_than_the_window,
  refuses_answers,
  serves_itself_first,
  serves_anybody,
  names_itself,
  sends_what_is_too_large,
  hides_an_abort,
};

// Without letters.
class Mute : px::SelfCommunicator {
 public:
  using px::SelfCommunicator::abort;
  using px::SelfCommunicator::deadline;
  using px::SelfCommunicator::ialltoallv;
  using px::SelfCommunicator::rank;
  using px::SelfCommunicator::Request;
  using px::SelfCommunicator::size;
};

// A sound mailbox with a defect.
class Faulty {
 public:
  using Request = px::ThreadCommunicator::Request;

  Faulty(px::ThreadCommunicator& comm, Defect defect) : comm_{&comm}, defect_{defect} {}

  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  std::chrono::nanoseconds deadline() const { return comm_->deadline(); }
  void abort(px::Error const& reason) { comm_->abort(reason); }
  Request ialltoallv(int channel, px::Transfer const& transfer) { return comm_->ialltoallv(channel, transfer); }

  int window() const { return comm_->window() - has(Defect::one_more_than_the_window); }
  std::size_t largest() const { return comm_->largest(); }
  bool post(px::LetterLane lane, int to, px::LetterParts parts) {
    bool const request = lane == px::LetterLane::requests;
    ++posts_;
    if (has(Defect::drops_a_letter) && posts_ % 37 == 0) return true;
    if (has(Defect::refuses_answers) && !request && posts_ % 64 == 0) return false;
    if (has(Defect::mixes_lanes) && posts_ % 37 == 0) lane = px::LetterLane::answers;
    if (has(Defect::loses_a_part) && parts.size() > 2) parts = parts.first(parts.size() - 1);
    if (has(Defect::doubles_a_letter) && posts_ % 37 == 0 && !request) comm_->post(lane, to, parts);
    if (has(Defect::sends_what_is_too_large) && !parts.empty() && parts[0].size() > 99'000) return true;
    if (has(Defect::hides_an_abort)) {
      try {
        return comm_->post(lane, to, parts);
      } catch (px::Error const& error) {
        if (error.code() == px::Errc::user_exception) return false;
        throw;
      }
    }
    if (has(Defect::keeps_no_copy) && !request && parts.size() == 1 && to >= 0 && to < size()) {
      late_.push_back({lane, to, std::vector<std::byte>(parts[0].size(), std::byte{0xEE})});
      return true;
    }
    return comm_->post(lane, to, parts);
  }
  bool take(px::LetterLane lane, int from, px::Letter& letter) {
    for (; !late_.empty(); late_.pop_front()) {
      std::span<std::byte const> const part = late_[0].bytes;
      comm_->post(late_[0].lane, late_[0].to, {&part, 1});
    }
    if (has(Defect::serves_itself_first) && from < 0 && comm_->take(lane, rank(), letter)) return true;
    if (has(Defect::serves_anybody) && from >= 0 && from < size()) from = -1;
    if (has(Defect::swaps_two_letters) && kept_.from >= 0 && kept_lane_ == lane && (from < 0 || from == kept_.from)) {
      letter = std::exchange(kept_, {});
      return true;
    }
    if (!comm_->take(lane, from, letter)) return false;
    if (has(Defect::names_itself)) letter.from = rank();
    px::Letter next;
    if (has(Defect::swaps_two_letters) && kept_.from < 0 && comm_->take(lane, letter.from, next)) {
      kept_ = std::exchange(letter, next);
      kept_lane_ = lane;
    }
    return true;
  }

 private:
  struct Late {
    px::LetterLane lane;
    int to;
    std::vector<std::byte> bytes;  // as who posted it has overwritten its own by now, and given them back
  };

  bool has(Defect defect) const { return defect_ == defect; }

  px::ThreadCommunicator* comm_;
  Defect defect_;
  int posts_ = 0;
  std::deque<Late> late_;
  px::Letter kept_;
  px::LetterLane kept_lane_{};
};
static_assert(px::Mailbox<Faulty>);

struct Threads {
  int ranks, window;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::run_threads(ranks, [&](px::ThreadCommunicator& comm) { body(comm); },
                    {.deadline = deadline, .mailbox = {.window = window, .largest = 100'000}});
  }
};

struct AnyThreads {
  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    Threads{3, 2}.run(deadline, [&](px::ThreadCommunicator& comm) {
      px::AnyCommunicator any{std::ref(comm)};
      body(any);
    });
  }
};

// A communicator over another one.
struct Over : px::Forwarding<px::ThreadCommunicator> {
  explicit Over(px::ThreadCommunicator& comm) : Forwarding{comm, nullptr} {}
};
struct ForwardingThreads {
  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    Threads{3, 2}.run(deadline, [&](px::ThreadCommunicator& comm) {
      Over over{comm};
      body(over);
    });
  }
};

struct FaultyThreads {
  Defect defect;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    Threads{3, 3}.run(deadline, [&](px::ThreadCommunicator& comm) {
      Faulty faulty{comm, defect};
      body(faulty);
    });
  }
};

std::string verdict(Defect defect) {
  try {
    parallax_conformance::check_mailbox(FaultyThreads{defect});
    parallax_conformance::check_mailbox_failures(FaultyThreads{defect});
  } catch (parallax_conformance::Failure const& failure) {
    return failure.what();
  }
  return "passes";
}

}  // namespace

TEST_CASE("threads pass the mailboxes' suite", "[comm][mailbox]") {
  int const ranks = GENERATE(1, 2, 4);
  int const window = GENERATE(1, 3, 8);
  CAPTURE(ranks, window);
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  parallax_conformance::check_mailbox(Threads{ranks, window}, seed);
  parallax_conformance::check_mailbox_failures(Threads{ranks, window});
}

TEST_CASE("mailboxes behind an erased type and over another communicator pass the suite", "[comm][mailbox][any]") {
  parallax_conformance::check_mailbox(AnyThreads{});
  parallax_conformance::check_mailbox_failures(AnyThreads{});
  parallax_conformance::check_mailbox(ForwardingThreads{});
  parallax_conformance::check_mailbox_failures(ForwardingThreads{});
}

TEST_CASE("an erased communicator without a mailbox has no window, and refuses letters", "[comm][mailbox][any]") {
  px::AnyCommunicator any{Mute{}};
  px::Letter letter;
  CHECK(any.window() == 0);
  CHECK(any.largest() == 0);
  CHECK_THROWS_AS(any.post(px::LetterLane::requests, 0, {}), px::Error);
  CHECK_THROWS_AS(any.take(px::LetterLane::requests, -1, letter), px::Error);
}

TEST_CASE("bounds of a mailbox that make no sense are refused", "[comm][mailbox]") {
  CHECK_THROWS_AS((px::ThreadGroup{2, {.mailbox = {.window = 0}}}), px::Error);
}

TEST_CASE("the suite finds a mailbox that does not deliver what it must", "[comm][mailbox][conformance]") {
  CHECK(verdict(Defect::none) == "passes");
  CHECK_THAT(verdict(Defect::drops_a_letter), parallax_test::contains("«letters keep their order»"));
  CHECK_THAT(verdict(Defect::doubles_a_letter), parallax_test::contains("«letters keep their order»"));
  CHECK_THAT(verdict(Defect::swaps_two_letters), parallax_test::contains("«letters keep their order»"));
  CHECK_THAT(verdict(Defect::mixes_lanes), parallax_test::contains("«letters keep their order»"));
  CHECK_THAT(verdict(Defect::keeps_no_copy), parallax_test::contains("«letters keep their order»"));
  CHECK_THAT(verdict(Defect::loses_a_part), parallax_test::contains("«letters keep their order»"));
  CHECK_THAT(verdict(Defect::names_itself), parallax_test::contains("«letters keep their order»"));
  CHECK_THAT(verdict(Defect::serves_anybody), parallax_test::contains("was asked for, one of rank"));
}

TEST_CASE("the suite finds a mailbox that does not bound what it must, or bounds what it must not",
          "[comm][mailbox][conformance]") {
  CHECK_THAT(verdict(Defect::one_more_than_the_window), parallax_test::contains("the window was exceeded"));
  CHECK_THAT(verdict(Defect::refuses_answers), parallax_test::contains("an answer was refused"));
  CHECK_THAT(verdict(Defect::serves_itself_first), parallax_test::contains("«nobody is passed over»"));
  CHECK_THAT(verdict(Defect::sends_what_is_too_large), parallax_test::contains("too large a letter was not refused"));
  CHECK_THAT(verdict(Defect::hides_an_abort), parallax_test::contains("«an abort ends letters»"));
}
