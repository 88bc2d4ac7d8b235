// The suite for every communicator with a mailbox, beside the one of all communicators (communicator.hpp, with the definition
// of a model): letters arrive once, whole and in order; requests are refused beyond the window, answers never. A test of a
// mailbox includes the suite.
//
// `check_mailbox(MyRanks{4})` checks letters. The model's window should be small, and `largest` some 100 KB: letters so large
// are sent. `check_mailbox_failures(MyRanks{4})` is for communicators whose `abort` leaves the process alive.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallax/detail/conformance/letters.hpp"

namespace parallax_conformance::inline v0_2 {

// Checks `window` and `largest` for sense, and that ranks and sizes outside the bounds are invalid arguments.
struct BoundsMakeSense {
  // Collective, and waits. Posts and takes letters to be refused; afterwards nothing may be there.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    require(comm.window() >= 1 && comm.largest() >= 8, "the bounds make no sense");
    Letter letter;
    std::array<std::byte, 8> const word{};
    auto const is_invalid = [](auto const& body) { return refuses(parallax::Errc::invalid_argument, body); };
    for (LetterLane const lane : letter_lanes) {
      for (int const rank : {-1, comm.size()})
        require(is_invalid([&] { parallax::post_letter(comm, lane, rank, word); }), "a letter to no rank was not refused");
      for (int const rank : {-2, comm.size()})
        require(is_invalid([&] { comm.take(lane, rank, letter); }), "a letter of no rank was not refused");
      // One byte more than the largest, in two parts.
      std::vector<std::byte> const much(comm.largest() - 7);
      require(is_invalid([&] { parallax::post_letter(comm, lane, comm.rank(), much, word); }),
              "too large a letter was not refused");
    }
    require_empty(comm, seed);
  }
};

// Checks the order of letters: every rank writes to every rank on both lanes, as fast as it can.
struct LettersKeepTheirOrder {
  // Collective, and waits. Posts 150 letters to each rank and lane, and takes as many from each.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    constexpr std::uint64_t many = 150;
    Correspondence<C> letters{comm, seed};
    until("all letters", [&] {
      bool done = true;
      // Posts as long as it may, then takes all letters there: no rank waits for another's window.
      for (LetterLane const lane : letter_lanes)
        for (int rank = 0; rank < comm.size(); ++rank) {
          while (letters.posted(lane, rank) < many && letters.post(lane, rank)) {}
          while (letters.take(lane, rank)) {}
          done = done && letters.posted(lane, rank) == many && letters.taken(lane, rank) == many;
        }
      return done;
    });
    require_empty(comm, seed);
  }
};

// Checks the bound of requests: as many as the window, and not one more until one was taken; to the next rank, and to oneself.
struct TheWindowIsACredit {
  // Collective, and waits. Fills the window, and is given each credit by the taker.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    // First to itself, then to the next rank.
    for (int const step : {0, 1}) {
      int const next = (comm.rank() + step) % comm.size(), before = (comm.rank() - step + comm.size()) % comm.size();
      auto const window = static_cast<std::uint64_t>(comm.window());
      Correspondence<C> letters{comm, mix(seed, step)};
      for (std::uint64_t k = 0; k < window; ++k)
        require(letters.post(LetterLane::requests, next), "request " + std::to_string(k) + " of a window of " +
                                                              std::to_string(window) + " was refused");
      auto const full = [&] {
        for (int k = 0; k < 50; ++k) require(!letters.post(LetterLane::requests, next), "the window was exceeded");
      };
      full();
      // A full window of requests leaves answers alone.
      for (int k = 0; k < 3; ++k) require(letters.post(LetterLane::answers, next), "a full window of requests refuses answers");
      meet(comm, seed);
      for (std::uint64_t credit = 1; credit <= window + 1; ++credit) {
        full();
        meet(comm, seed);
        until("a request", [&] { return letters.take(LetterLane::requests, credit % 2 ? before : -1).has_value(); });
        until("the credit of a request that was taken", [&] { return letters.post(LetterLane::requests, next); });
        full();
        meet(comm, seed);
      }
      until("the last requests", [&] {
        letters.take(LetterLane::requests, before);
        return letters.taken(LetterLane::requests, before) == 2 * window + 1;
      });
      until("answers", [&] {
        letters.take(LetterLane::answers, -1);
        return letters.taken(LetterLane::answers, before) == 3;
      });
      require_empty(comm, seed);
    }
  }
};

// Checks the absence of a bound on answers: twenty windows of them and more are posted before one is taken.
struct AnswersAreNeverRefused {
  // Collective, and waits. Posts them twice, to the next rank and to this one.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    std::uint64_t const many = 20 * static_cast<std::uint64_t>(comm.window()) + 5;
    int const next = (comm.rank() + 1) % comm.size(), before = (comm.rank() - 1 + comm.size()) % comm.size();
    Correspondence<C> letters{comm, seed};
    for (std::uint64_t round = 1; round <= 2; ++round) {
      for (std::uint64_t k = 0; k < many; ++k)
        for (int const rank : {next, comm.rank()}) require(letters.post(LetterLane::answers, rank), "an answer was refused");
      meet(comm, seed);
      until("all answers", [&] {
        letters.take(LetterLane::answers, -1);
        return letters.taken(LetterLane::answers, before) == letters.posted(LetterLane::answers, next) &&
               letters.taken(LetterLane::answers, comm.rank()) == letters.posted(LetterLane::answers, comm.rank());
      });
      meet(comm, seed);
    }
    require_empty(comm, seed);
  }
};

// Checks fairness: a rank never running out of letters to itself hears of all others nevertheless, and so does one flooded by
// another.
struct NobodyIsPassedOver {
  // Collective, and waits. Checks both cases.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    auto const letters_each = static_cast<std::uint64_t>(comm.window());
    Correspondence<C> letters{comm, seed};
    for (int rank = 0; rank < comm.size(); ++rank)
      while (letters.posted(LetterLane::requests, rank) < letters_each)
        require(letters.post(LetterLane::requests, rank), "a request was refused");
    meet(comm, seed);
    std::uint64_t heard = 0, others = letters_each * static_cast<std::uint64_t>(comm.size() - 1);
    until("letters of others, while its own are always there", [&] {
      while (letters.post(LetterLane::requests, comm.rank())) {}
      auto const writer = letters.take(LetterLane::requests, -1);
      require(writer.has_value(), "no letter was taken where there were some");
      heard += *writer != comm.rank();
      return heard == others;
    }, std::chrono::seconds{2});
    until("its own", [&] { return !letters.take(LetterLane::requests, comm.rank()); });
    meet(comm, seed);
    // Rank 1 floods rank 0; every other rank has one word to say.
    if (comm.size() > 1) flood(comm, mix(seed));
    require_empty(comm, seed);
  }

 private:
  // Runs the second half: rank 0 must hear all others within seconds, and then tells rank 1 to end. Collective, and waits.
  template <class C>
  static void flood(C& comm, std::uint64_t seed) {
    Correspondence<C> letters{comm, seed};
    std::uint64_t others = 0;
    if (comm.rank() > 1) until("a credit", [&] { return letters.post(LetterLane::requests, 0); });
    if (comm.rank() == 1)
      until("the end of the flood", [&] {
        letters.post(LetterLane::requests, 0);
        return letters.take(LetterLane::answers, 0).has_value();
      });
    if (comm.rank() == 0) {
      until("a word of each, in a flood", [&] {
        if (auto const writer = letters.take(LetterLane::requests, -1)) others += *writer > 1;
        return letters.taken(LetterLane::requests, 1) > 100 && others == static_cast<std::uint64_t>(comm.size() - 2);
      }, std::chrono::seconds{10});
      letters.post(LetterLane::answers, 1);
    }
    exchange_while(comm, seed, [&] { while (letters.take(LetterLane::requests, -1)) {} });
    for (int k = 0; k < 100; ++k, std::this_thread::yield()) letters.take(LetterLane::requests, -1);
    meet(comm, seed);
  }
  // Exchanges a byte between all ranks, and waits; calls meanwhile() again and again. Throws a Failure after 30 seconds.
  template <class C, class Meanwhile>
  static void exchange_while(C& comm, std::uint64_t seed, Meanwhile const& meanwhile) {
    CheckedTransfer const part{comm, seed, even(1)};
    auto request = comm.ialltoallv(0, part.transfer());
    until("an exchange beside letters", [&] {
      meanwhile();
      return request.test();
    });
  }
};

// Checks sizes: letters of nothing, of one byte and of the most, posted and taken at once.
struct AllSizes {
  // Collective, and waits. Posts to the next rank, on both lanes, in one part and in several.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    std::size_t const most = comm.largest();
    int const next = (comm.rank() + 1) % comm.size(), before = (comm.rank() - 1 + comm.size()) % comm.size();
    // Nothing, the bounds, and sizes around a word's.
    std::vector<std::size_t> const sizes{0, 1, most, 7, 0, most - 1, 8, most / 2};
    for (LetterLane const lane : letter_lanes) {
      std::size_t posted = 0, taken = 0;
      Letter letter;
      until("letters of all sizes", [&] {
        if (posted < sizes.size()) {
          auto const text = words_of(seed, lane, comm.rank(), next, posted, sizes[posted]);
          std::size_t const third = text.size() / 3;
          std::span<std::byte const> const all{text};
          bool const gone = posted % 2 ? parallax::post_letter(comm, lane, next, all.first(third), std::vector<int>{},
                                                               all.subspan(third))
                            : text.empty() ? comm.post(lane, next, {})
                                           : parallax::post_letter(comm, lane, next, text);
          posted += gone;
        }
        if (comm.take(lane, taken % 2 ? -1 : before, letter)) {
          require(taken < sizes.size() && letter.from == before &&
                      letter.bytes == words_of(seed, lane, before, comm.rank(), taken, sizes[taken]),
                  "letter " + std::to_string(taken) + " of " + std::to_string(letter.bytes.size()) + " bytes is not as it was");
          ++taken;
        }
        return posted == sizes.size() && taken == sizes.size();
      });
      meet(comm, seed);
    }
    // Values of several types in one letter.
    int const number = 7;
    std::vector<double> const values{1.5, 2.5};
    require(parallax::post_letter(comm, LetterLane::answers, next, number, values, std::string{"end"}), "a letter was refused");
    Letter letter;
    until("a letter of values", [&] { return comm.take(LetterLane::answers, before, letter); });
    std::vector<std::byte> expected(sizeof number + 2 * sizeof(double) + 3);
    std::memcpy(expected.data(), &number, sizeof number);
    std::memcpy(expected.data() + sizeof number, values.data(), 2 * sizeof(double));
    std::memcpy(expected.data() + sizeof number + 2 * sizeof(double), "end", 3);
    require(letter.bytes == expected, "a letter of several parts is not what they are, one after another");
    require_empty(comm, seed);
  }
};

// Checks takes by name: a take from one rank leaves the letters of all others.
struct ANamedWriterIsServedAlone {
  // Collective, and waits. Takes a letter from each rank, in the order of ranks backwards.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    Correspondence<C> letters{comm, seed};
    for (int rank = 0; rank < comm.size(); ++rank) require(letters.post(LetterLane::requests, rank), "a request was refused");
    meet(comm, seed);
    for (int rank = comm.size(); rank-- > 0;) {
      until("the letter of a rank that was named", [&] { return letters.take(LetterLane::requests, rank).has_value(); });
      require(!letters.take(LetterLane::requests, rank), "a second letter was there");
    }
    require_empty(comm, seed);
  }
};

// Checks effects of chance: random posts and takes, late and early, beside exchanges. The letters of a rank to itself are known
// exactly: one is refused if the window is full, and taken if there is one.
struct RandomLetters {
  // Collective, and waits until all letters have been posted and taken, as many as the seed says.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    Correspondence<C> letters{comm, seed};
    Dice dice{mix(seed, static_cast<std::uint64_t>(comm.rank()))};
    int const self = comm.rank();
    auto const count = [&](LetterLane lane, int from, int to) {
      return mix(seed, static_cast<std::uint64_t>(lane), from, to) % 60;
    };
    auto const untaken = [&](LetterLane lane) { return letters.posted(lane, self) - letters.taken(lane, self); };
    auto const step = [&] {
      LetterLane const lane = letter_lanes[dice.below(2)];
      int const rank = static_cast<int>(dice.below(static_cast<std::size_t>(comm.size())));
      std::uint64_t const mine = untaken(lane);
      if (dice.below(200) == 0) std::this_thread::sleep_for(std::chrono::microseconds{dice.below(300)});
      if (dice.below(2) == 0) {
        if (letters.posted(lane, rank) == count(lane, self, rank)) return;
        bool const gone = letters.post(lane, rank);
        bool const full = lane == LetterLane::requests && mine >= static_cast<std::uint64_t>(comm.window());
        require(rank != self || gone != full, "a rank's request to itself was refused, or was not");
      } else {
        bool const any = dice.below(2) == 0;
        bool const got = letters.take(lane, any ? -1 : rank).has_value();
        require(got || mine == 0 || (!any && rank != self), "a letter to oneself was there and was not taken");
      }
    };
    CheckedTransfer const part{comm, seed, even(3000)};
    std::optional<parallax::request_of<C>> request;
    until("random letters", [&] {
      if (!request && dice.below(300) == 0) request.emplace(comm.ialltoallv(1, part.transfer()));
      if (request) request->test();
      for (int k = 0; k < 8; ++k) step();
      bool done = request.has_value();
      for (LetterLane const lane : letter_lanes)
        for (int rank = 0; rank < comm.size(); ++rank)
          done = done && letters.posted(lane, rank) == count(lane, self, rank) &&
                 letters.taken(lane, rank) == count(lane, rank, self);
      return done;
    });
    complete(comm, *request);
    part.check();
    require_empty(comm, seed);
  }
};

// Called by a test, in each process: checks the right behaviour of letters, on a model as in communicator.hpp. Throws a Failure
// with the check and the seed. `runs`: how many times random letters are written, each from a seed of its own.
template <class Model>
void check_mailbox(Model const& model, std::uint64_t seed = 1, std::uint64_t runs = 10) {
  constexpr std::chrono::seconds deadline{60};
  check(model, seed, deadline, "a mailbox's bounds make sense and are kept", BoundsMakeSense{});
  check(model, seed, deadline, "letters keep their order", LettersKeepTheirOrder{});
  check(model, seed, deadline, "the window is a credit", TheWindowIsACredit{});
  check(model, seed, deadline, "answers are never refused", AnswersAreNeverRefused{});
  check(model, seed, deadline, "nobody is passed over", NobodyIsPassedOver{});
  check(model, seed, deadline, "letters of all sizes arrive whole", AllSizes{});
  check(model, seed, deadline, "a named writer is served alone", ANamedWriterIsServedAlone{});
  for (std::uint64_t i = 0; i < runs; ++i) check(model, mix(seed, i), deadline, "random letters", RandomLetters{});
}

// Checks aborts: ranks write and wait for letters in vain while one aborts, and all get the reason, now and later.
struct AnAbortEndsLetters {
  // The aborting rank.
  int aborter;

  // Collective, and waits. Demands the reason of every post and take. The seed does not matter.
  template <class C>
  void operator()(C& comm, std::uint64_t) const {
    parallax::Error const reason{parallax::Errc::user_exception, aborter, "step", "words", "the reason"};
    Letter letter;
    int const next = (comm.rank() + 1) % comm.size();
    if (comm.rank() == aborter) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      comm.abort(reason);
    } else {
      require_same(comm.rank(), error_of(comm.rank(), [&] {
        until("an abort", [&] {
          parallax::post_letter(comm, LetterLane::requests, next, 1);
          return comm.take(LetterLane::answers, -1, letter);
        });
      }), reason);
    }
    for (LetterLane const lane : letter_lanes) {
      require_same(comm.rank(), error_of(comm.rank(), [&] { parallax::post_letter(comm, lane, next, 1); }), reason);
      require_same(comm.rank(), error_of(comm.rank(), [&] { comm.take(lane, -1, letter); }), reason);
    }
  }
};

// Called by a test: checks the end of all ranks' letters by an abort of the first rank and of the last. Throws a Failure.
template <class Model>
void check_mailbox_failures(Model const& model, std::uint64_t seed = 1) {
  constexpr std::chrono::seconds ample{60};
  for (int const rank : {0, ranks_of(model) - 1}) check(model, seed, ample, "an abort ends letters", AnAbortEndsLetters{rank});
}

}  // namespace parallax_conformance
