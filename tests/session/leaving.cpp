// Ranks that leave, stall or never come, and sessions and variables that end early: the others are told, nothing dangles.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::leaving {
namespace {

using px::grad;
using namespace std::chrono_literals;

using Session = px::Session<px::ThreadCommunicator>;
using Clock = std::chrono::steady_clock;

std::vector<float> const ones(4, 1.0f);
std::vector<int> const ids{0, 1, 5, 5};
std::vector<float> const rows_of_ones(8, 1.0f);

// A session with a dense variable and a table, and what it does collectively.
struct Small {
  explicit Small(px::ThreadCommunicator& world) : session{world} {}
  Session session;
  std::vector<float> memory = std::vector<float>(4, 1.0f);
  px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
  px::Variable<px::Sparse> words{session, "words", {6, 2}};

  void step() { session.step(grad(hidden, ones), grad(words, ids, rows_of_ones)); }
};

struct Operation {
  std::string name, variable;
  void (*run)(Small&);
};
std::vector<Operation> const operations{
    {"step", "hidden, words", [](Small& s) { s.step(); }},
    {"step", "hidden, words", [](Small& s) {
       s.session.start(grad(s.hidden, ones));
       s.session.poll();
       s.session.step(grad(s.words, ids, rows_of_ones));
     }},
    {"pull", "words", [](Small& s) { auto const rows = s.session.pull(s.words, ids); }},
    {"broadcast", "hidden", [](Small& s) { s.session.broadcast(s.hidden); }},
    {"finish", "", [](Small& s) { s.session.finish(); }},
};

struct Batchless : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace

TEST_CASE("an exception that leaves the training loop wakes every other rank, which is told who and why",
          "[session][leaving]") {
  int const ranks = GENERATE(2, 3, 4);
  int const culprit = GENERATE_COPY(range(0, ranks));
  int const moment = GENERATE(0, 1, 2);
  INFO("rank " << culprit << " of " << ranks << " leaves at moment " << moment);
  std::vector<Answer> told(static_cast<std::size_t>(ranks));
  auto const begin = Clock::now();
  CHECK_THROWS_AS(px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    Small s{world};
    bool const leaves = world.rank() == culprit;
    Answer& answer = told[static_cast<std::size_t>(world.rank())];
    answer = answer_of([&] {
      s.step();
      if (leaves && moment == 0) throw Batchless{"no batch left"};
      auto const rows = s.session.pull(s.words, ids);
      if (leaves && moment == 1) throw Batchless{"no batch left"};
      s.session.start(grad(s.hidden, ones));
      s.session.poll();
      if (leaves && moment == 2) throw Batchless{"no batch left"};
      s.session.step(grad(rows, rows_of_ones));
      s.session.finish();
    });
    if (answer.refused) throw px::Error{answer.code, answer.rank, answer.operation, answer.variable, answer.detail};
  }, patient), Batchless);
  CHECK(Clock::now() - begin < 5s);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == culprit) continue;
    Answer const& answer = told[static_cast<std::size_t>(rank)];
    CHECK(answer.refused);
    CHECK(answer.code == px::Errc::user_exception);
    CHECK(answer.rank == culprit);
    CHECK(answer.detail == "no batch left");
  }
}

TEST_CASE("a rank whose own handler stands outside of the session tells the others what was refused", "[session][leaving]") {
  Answer caught, told;
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    std::vector<int> const bad{0, world.rank() == 1 ? 77 : 5};
    if (world.rank() == 1) {
      caught = answer_of([&] {
        Small s{world};
        auto const rows = s.session.pull(s.words, bad);
      });
    } else {
      Small s{world};
      told = answer_of([&] { auto const rows = s.session.pull(s.words, bad); });
      // Rank 1 may be gone before this rank has read what was refused.
      if (told.code != px::Errc::aborted) told = answer_of([&] { s.step(); });
    }
  }, patient);
  CHECK(caught.code == px::Errc::bad_id);
  CHECK(told.code == px::Errc::aborted);
  CHECK(told.rank == 1);
  CHECK_THAT(told.detail, contains("rank 1 left the session by an exception, after parallax: bad id (rank 1) in pull of "
                                   "'words': index 77"));
}

TEST_CASE("a rank that never comes is named by a timeout, with operation and variable, and is told so itself",
          "[session][leaving]") {
  int const ranks = GENERATE(2, 3, 4);
  auto const deadline = 300ms;
  for (Operation const& operation : operations) {
    int const missing = ranks / 2;
    INFO(operation.name << " without rank " << missing << " of " << ranks);
    std::atomic<int> woken{0};
    struct Seen {
      Answer answer, later;
      Clock::duration waited{};
    };
    auto const seen = on_ranks(ranks, [&](px::ThreadCommunicator& world) {
      Small s{world};
      s.step();
      Seen result;
      if (world.rank() == missing)
        for (auto const begin = Clock::now(); woken < ranks - 1 && Clock::now() - begin < 20s;)
          std::this_thread::sleep_for(1ms);
      auto const begin = Clock::now();
      result.answer = answer_of([&] { operation.run(s); });
      result.waited = Clock::now() - begin;
      ++woken;
      result.later = answer_of([&] { s.step(); });
      return result;
    }, {.deadline = deadline});
    for (int rank = 0; rank < ranks; ++rank) {
      Seen const& each = seen[static_cast<std::size_t>(rank)];
      INFO("rank " << rank << ": " << each.answer.what);
      CHECK(each.answer.code == px::Errc::timeout);
      CHECK(each.answer.rank == missing);
      CHECK(each.answer.operation == operation.name);
      CHECK(each.answer.variable == operation.variable);
      CHECK_THAT(each.answer.detail, contains("for rank " + std::to_string(missing)));
      CHECK(each.waited < deadline + 3s);
      CHECK(each.later.code == px::Errc::poisoned);
      CHECK_THAT(each.later.detail, contains("waited longer than the deadline"));
    }
  }
}

TEST_CASE("a rank that is slow, but within the deadline, raises no alarm", "[session][leaving]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    Small s{world};
    return answer_of([&] {
      for (int i = 0; i < 5; ++i) {
        if (world.rank() == i % 3) std::this_thread::sleep_for(100ms);
        for (Operation const& operation : operations) operation.run(s);
      }
    });
  }, {.deadline = 3s});
  for (Answer const& answer : answers) CHECK_FALSE(answer.refused);
}

TEST_CASE("many waits in start, each short, do not add up to a timeout", "[session][leaving]") {
  auto const answers = on_ranks(2, [](px::ThreadCommunicator& world) {
    Small s{world};
    return answer_of([&] {
      for (int round = 0; round < 8; ++round) {
        for (int i = 0; i < 16; ++i) {
          if (world.rank() == 1 && i == 14) std::this_thread::sleep_for(300ms);
          s.session.start(grad(s.hidden, ones));
        }
        s.session.step();
      }
    });
  }, {.deadline = 2s});
  for (Answer const& answer : answers) {
    INFO(answer.what);
    CHECK_FALSE(answer.refused);
  }
}

TEST_CASE("a session destroyed with updates in flight tells the others, naming rank and variable", "[session][leaving]") {
  int const ranks = GENERATE(2, 3);
  std::vector<Answer> told(static_cast<std::size_t>(ranks));
  Meeting meeting{ranks};
  CHECK_THROWS_AS(px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto s = std::make_unique<Small>(world);
    s->step();
    s->session.start(grad(s->hidden, ones), grad(s->words, ids, rows_of_ones));
    meeting.wait();  // or a peer may hear of it earlier
    if (world.rank() == 1) return;
    Answer& answer = told[static_cast<std::size_t>(world.rank())];
    answer = answer_of([&] { s->session.step(); });
    if (answer.refused) throw px::Error{answer.code, answer.rank, "", "", ""};
  }, patient), px::Error);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 1) continue;
    CHECK(told[static_cast<std::size_t>(rank)].code == px::Errc::misuse);
    CHECK(told[static_cast<std::size_t>(rank)].rank == 1);
    CHECK(told[static_cast<std::size_t>(rank)].variable == "hidden, words");
  }
}

TEST_CASE("all ranks may drop a session with updates in flight, their variables before it", "[session][leaving]") {
  for (int round = 0; round < 20; ++round) {
    Meeting meeting{3};
    auto const ends = on_ranks(3, [&](px::ThreadCommunicator& world) {
      Session session{world};
      std::vector<float> memory(4000, 1.0f), gradient(4000, 1.0f);
      px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
      px::Variable<px::Sparse, px::Adam> words{session, "words", {6, 2}};
      auto const rows = session.pull(words, ids);
      session.start(grad(hidden, gradient), grad(rows, rows_of_ones));
      if (round % 2) session.poll();
      meeting.wait();
      return 1;  // destroys the handle, the variables, the memory and then the session
    });
    CHECK(ends == std::vector{1, 1, 1});
  }
}

TEST_CASE("an exception with updates in flight destroys variables and memory before the session", "[session][leaving]") {
  for (int round = 0; round < 20; ++round)
    CHECK_THROWS_AS(px::run_threads(3, [&](px::ThreadCommunicator& world) {
      Session session{world};
      std::vector<float> memory(40'000, 1.0f);
      px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
      px::Variable<px::Sparse, px::Adam> words{session, "words", {6, 2}};
      std::vector<float> gradient(40'000, 1.0f);
      auto const rows = session.pull(words, ids);
      session.start(grad(rows, rows_of_ones));
      session.start(grad(hidden, gradient));
      if (round % 2) session.poll();
      if (world.rank() == round % 3) throw Batchless{"gone"};
      session.step(grad(hidden, gradient));
    }, patient), Batchless);
}

TEST_CASE("a variable destroyed with an update in flight is refused by the step, and memory is left alone",
          "[session][leaving]") {
  struct Seen {
    Answer answer;
    bool unchanged = false;
    float after = 0;
  };
  auto const seen = on_ranks(3, [](px::ThreadCommunicator& world) {
    Small s{world};
    Seen result;
    {
      std::vector<float> memory(4);
      std::optional<px::Variable<px::Dense>> passing;
      passing.emplace(s.session, "passing", px::bind(memory));
      s.session.start(grad(*passing, ones));
      s.session.poll();
      passing.reset();
    }
    result.answer = answer_of([&] { s.step(); });
    result.unchanged = s.memory == std::vector<float>(4, 1.0f) && s.hidden.steps() == 0;
    s.session.step(grad(s.hidden, ones));
    result.after = s.memory[0];
    return result;
  });
  for (Seen const& each : seen) {
    CHECK(each.answer.code == px::Errc::misuse);
    CHECK(each.answer.variable == "passing");
    CHECK(each.answer == seen[0].answer);
    CHECK(each.unchanged);
    CHECK(each.after == 1.0f - 0.01f);
  }
}

TEST_CASE("a handle outlives its variable", "[session][leaving]") {
  auto const sums = on_ranks(2, [](px::ThreadCommunicator& world) {
    Session session{world};
    auto words = std::make_unique<px::Variable<px::Sparse>>(session, "words", px::Table{6, 2, px::constant(1)});
    auto const rows = session.pull(*words, ids);
    words.reset();
    float sum = 0;
    for (std::size_t i = 0; i < rows.indices(); ++i) sum += rows[i][0] + rows[i][1];
    return sum + static_cast<float>(rows.id(1));
  });
  for (float const sum : sums) CHECK(sum == 8.0f + 1.0f);
}

TEST_CASE("finish refuses while updates are in flight, and a step completes them", "[session][leaving]") {
  struct Seen {
    Answer refused, finished;
    bool unchanged = false;
    float after = 0;
  };
  auto const seen = on_ranks(3, [](px::ThreadCommunicator& world) {
    Small s{world};
    s.session.start(grad(s.hidden, ones));
    Seen result;
    result.refused = answer_of([&] { s.session.finish(); });
    result.unchanged = s.memory[0] == 1.0f;
    s.session.step();
    result.after = s.memory[0];
    result.finished = answer_of([&] { s.session.finish(); });
    return result;
  });
  for (Seen const& each : seen) {
    CHECK(each.refused.code == px::Errc::misuse);
    CHECK(each.refused.operation == "finish");
    CHECK(each.refused.variable == "hidden");
    CHECK(each.refused == seen[0].refused);
    CHECK(each.unchanged);
    CHECK(each.after == 1.0f - 0.01f);
    CHECK_FALSE(each.finished.refused);
  }
}

TEST_CASE("after a refused step what was started with it is gone", "[session][leaving]") {
  auto const after = on_ranks(2, [](px::ThreadCommunicator& world) {
    Small s{world};
    s.session.start(grad(s.hidden, ones));
    std::vector<int> const bad{0, 1, 5, 6};
    answer_of([&] { s.session.step(grad(s.words, world.rank() == 0 ? bad : ids, rows_of_ones)); });
    s.session.step(grad(s.words, ids, rows_of_ones));
    s.session.finish();
    return s.memory[0];
  });
  for (float const value : after) CHECK(value == 1.0f);
}

TEST_CASE("a poisoned session throws the first failure's text at every call, local ones excepted", "[session][leaving]") {
  auto const answers = on_ranks(2, [](px::ThreadCommunicator& world) {
    Small s{world};
    std::vector<Answer> result;
    if (world.rank() == 0) world.abort({px::Errc::transport, 1, "cable", "", "the cable was cut"});
    result.push_back(answer_of([&] { s.step(); }));
    result.push_back(answer_of([&] { s.step(); }));
    result.push_back(answer_of([&] { s.session.start(grad(s.hidden, ones)); }));
    result.push_back(answer_of([&] { s.session.poll(); }));
    result.push_back(answer_of([&] { auto const rows = s.session.pull(s.words, ids); }));
    result.push_back(answer_of([&] { s.session.broadcast(s.hidden); }));
    result.push_back(answer_of([&] { s.session.finish(); }));
    result.push_back(answer_of([&] { px::Variable<px::Dense> more{s.session, "more", px::bind(s.memory)}; }));
    return result;
  });
  std::vector<std::string> const operation{"cable", "step", "start", "poll", "pull", "broadcast", "finish"};
  for (auto const& of_rank : answers) {
    CHECK(of_rank[0].code == px::Errc::transport);
    for (std::size_t i = 0; i < operation.size(); ++i) {
      CHECK(of_rank[i].operation == operation[i]);
      CHECK_THAT(of_rank[i].detail, contains("the cable was cut"));
      if (i == 0) continue;
      CHECK(of_rank[i].code == px::Errc::poisoned);
      CHECK(of_rank[i].rank == 1);
    }
    CHECK_FALSE(of_rank.back().refused);
  }
}

TEST_CASE("a name is taken while its variable or a handle of it lives, and free again after", "[session][variable]") {
  px::SelfCommunicator self;
  px::Session session{self};
  using Words = px::Variable<px::Sparse>;
  auto words = std::make_unique<Words>(session, "words", px::Table{6, 2});
  auto const taken = [&] { return answer_of([&] { Words again{session, "words", px::Table{6, 2}}; }); };
  CHECK(taken().code == px::Errc::invalid_argument);
  CHECK(taken().variable == "words");
  {
    auto const rows = session.pull(*words, ids);
    words.reset();
    CHECK(taken().refused);
  }
  CHECK_FALSE(taken().refused);
}

TEST_CASE("variables destroyed and made again under the same name train on", "[session][variable]") {
  auto const after = on_ranks(3, [](px::ThreadCommunicator& world) {
    Session session{world};
    std::vector<float> memory(4, 1.0f);
    for (int round = 0; round < 5; ++round) {
      px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory), px::Sgd{.learning_rate = 0.25}};
      px::Variable<px::Sparse> words{session, "words", {6, 2, px::constant(round)}};
      auto const rows = session.pull(words, ids);
      if (rows[0][0] != static_cast<float>(round)) throw std::runtime_error{"an old table"};
      session.step(grad(hidden, ones), grad(rows, rows_of_ones));
    }
    session.finish();
    return memory[0];
  });
  for (float const value : after) CHECK(value == -0.25f);
}

TEST_CASE("a variable whose making throws leaves no trace in the session", "[session][variable]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    Small s{world};
    if (world.rank() == 1) {  // on one rank only: the others must not notice
      answer_of([&] { px::Variable<px::Sparse> broken{s.session, "broken", {6, 2}, px::Cyclic{.pieces = -1}}; });
      answer_of([&] { px::Variable<px::Sparse> broken{s.session, "broken", {-1, 2}}; });
      answer_of([&] { px::Variable<px::Sparse> broken{s.session, "two\nlines", {1, 2}}; });
      answer_of([&] { px::Variable<px::Dense> broken{s.session, "hidden", px::bind(s.memory)}; });
    }
    return answer_of([&] { s.step(); });
  });
  for (Answer const& answer : answers) {
    INFO(answer.what);
    CHECK_FALSE(answer.refused);
  }
}

TEST_CASE("two sessions of one process train side by side and keep their variables apart", "[session]") {
  auto const second_group = std::make_shared<px::ThreadGroup>(2, patient);
  struct Seen {
    Answer step, pull, broadcast, start;
    float first = 0, second = 0;
  };
  auto const seen = on_ranks(2, [&](px::ThreadCommunicator& world) {
    px::ThreadCommunicator other{second_group, world.rank()};
    Small a{world}, b{other};
    a.session.start(grad(a.hidden, ones));
    b.session.start(grad(b.hidden, ones));
    b.step();
    a.step();
    Seen result;
    result.step = answer_of([&] { a.session.step(grad(b.hidden, ones)); });
    result.pull = answer_of([&] { auto const rows = a.session.pull(b.words, ids); });
    result.broadcast = answer_of([&] { a.session.broadcast(b.hidden); });
    a.session.start(grad(b.hidden, ones));
    result.start = answer_of([&] { a.session.step(); });
    a.step();
    result.first = a.memory[0];
    result.second = b.memory[0];
    return result;
  });
  for (Seen const& each : seen) {
    for (Answer const* answer : {&each.step, &each.pull, &each.broadcast, &each.start}) {
      CHECK(answer->code == px::Errc::misuse);
      CHECK_THAT(answer->detail, contains("belongs to another session"));
    }
    CHECK(each.step == seen[0].step);
    CHECK(each.first == Approx(1 - 0.03));
    CHECK(each.second == Approx(1 - 0.02));
  }
}

}  // namespace parallax_test::leaving
