// What is told of a wait that took too long, and of a run that came to its end, or did not.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../comm/hostile.hpp"
#include "../support/lockstep.hpp"
#include "model.hpp"
#include "parallax/comm/collectives.hpp"

namespace parallax_test::watch {
namespace {

using px::grad;

using Report = px::JournalReport<px::ThreadCommunicator>;

bool holds(std::string const& text, std::string const& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// What this process says on stderr while `body` runs.
template <class Body>
std::string said_on_stderr(Body&& body) {
  std::FILE* const kept = std::tmpfile();
  REQUIRE(kept);
  std::fflush(stderr);
  int const before = ::dup(2);
  ::dup2(::fileno(kept), 2);
  body();
  std::fflush(stderr);
  ::dup2(before, 2);
  ::close(before);
  std::string text;
  std::rewind(kept);
  for (int c = std::fgetc(kept); c != EOF; c = std::fgetc(kept)) text += static_cast<char>(c);
  std::fclose(kept);
  return text;
}

}  // namespace

TEST_CASE("a timeout tells who waits, who is silent and what they did last", "[session][watch]") {
  Meeting end{3};
  std::chrono::milliseconds const deadline{300};
  Lockstep time{3, deadline / 100};
  auto const answers = on_ranks(3, [&](px::ThreadCommunicator& threads) {
    int const rank = threads.rank();
    HostileCommunicator<px::ThreadCommunicator> world{threads, {.clock = [&time, rank] { return time.look(rank); }}};
    px::Session session{world};
    std::vector<float> memory(300, 1.0f);
    px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
    px::Variable<px::Sparse> words{session, "words", {9, 2}};
    for (int step = 0; step < 12; ++step) session.step(grad(hidden, memory));
    std::string report;
    if (rank == 1) {
      time.begin(rank);
    } else {
      try {
        auto const rows = session.pull(words, std::vector{1});
      } catch (px::Error const& error) {
        report = error.report();
        if (error.detail().find("for rank 1, agreeing") == std::string::npos) report.clear();
      }
      time.leave(rank);
    }
    end.wait();
    return report;
  }, {.deadline = deadline});
  for (std::size_t const rank : {0u, 2u}) {
    CHECK(holds(answers[rank], "rank 0: waits in pull (operation 13, after step 12, 'words'), agreeing, for rank 1, since "));
    CHECK(holds(answers[rank], "rank 1: silent since it left step (operation 12, after step 11, 'hidden', "));
    CHECK(holds(answers[rank], "before: step (operation 6, after step 5, 'hidden', "));
    CHECK_FALSE(holds(answers[rank], "(operation 4,"));  // eight operations are remembered
  }
}

TEST_CASE("a rank that answers from an older operation is behind", "[session][watch]") {
  px::Journal journal;
  CHECK(Report::status_line(2, std::nullopt, false, 7, 0) == "  rank 2: silent");
  CHECK(Report::status_line(2, journal.status(), true, 7, 0) == "  rank 2: has called nothing yet");
  journal.enter("step", 5, 4, 1'000'000'000);
  journal.name(std::string(60, 'v'));
  journal.advance("exchanging", 512, 2'000'000'000);
  journal.wait(3, 4'500'000'000);
  std::string const named = "(operation 5, after step 4, '" + std::string(37, 'v') + "', 512 bytes sent)";
  CHECK(Report::status_line(2, journal.status(), true, 7, 0) ==
        "  rank 2: behind, in step " + named + ", exchanging, for rank 3, since 2.5 s");
  CHECK(Report::status_line(2, journal.status(), true, 4, 0).find("ahead, in step") != std::string::npos);
  CHECK(Report::status_line(2, journal.status(), false, 7, 9'000'000'000) ==
        "  rank 2: silent in step " + named + ", exchanging, 7.0 s ago");
}

TEST_CASE("a rank that has announced a pause is waited for as much longer, and no more afterwards", "[session][watch]") {
  using namespace std::chrono_literals;
  auto const deadline = 500ms;
  struct Seen {
    bool went_on = false;
    Answer late, pause;
    std::string report;
  };
  Meeting announced{3}, end{3};
  auto const seen = on_ranks(3, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> memory(300, 1.0f);
    px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
    Seen result;
    auto const step = [&] { return answer_of([&] { session.step(grad(hidden, memory)); }); };
    if (world.rank() == 1) {
      auto const pause = session.pause("evaluation", 1min);
      result.pause = answer_of([&] { auto const another = session.pause("saving", 1s); });
      announced.wait();
      std::this_thread::sleep_for(4 * deadline);
    } else {
      announced.wait();
    }
    result.went_on = !step().refused;
    px::allreduce(world, std::span{memory});  // nor is there an end to patience outside of the session
    if (world.rank() == 1) {
      auto const pause = session.pause("saving", deadline);
      announced.wait();
      end.wait();
      return result;
    }
    announced.wait();
    try {
      session.step(grad(hidden, memory));
    } catch (px::Error const& error) {
      result.late = answer_of([&] { throw error; });
      result.report = error.report();
    }
    end.wait();
    return result;
  }, {.deadline = deadline});
  for (Seen const& each : seen) CHECK(each.went_on);
  CHECK(seen[1].pause.code == px::Errc::misuse);
  CHECK(seen[1].pause.detail == "this rank is in a pause already");
  bool named = false;  // one of two gives up first, and tells the other
  for (std::size_t const rank : {0u, 2u}) {
    CHECK(seen[rank].late.code == px::Errc::timeout);
    CHECK(holds(seen[rank].late.detail, " waited longer than the deadline of 0.500000 s and a pause of 0.500000 s for rank 1"));
    named = named || seen[rank].report.find("in a pause for saving of at most 0.5 s") != std::string::npos;
  }
  CHECK(named);
}

TEST_CASE("a pause ends with its scope: who is late afterwards is late", "[session][watch]") {
  using namespace std::chrono_literals;
  Meeting end{2};
  auto const answers = on_ranks(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> memory(3, 1.0f);
    px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
    Answer answer;
    if (world.rank() == 1) {
      auto const refused = answer_of([&] { auto const pause = session.pause("nothing", 0s); });
      auto first = session.pause("evaluation", 1min);
      auto const pause = std::move(first);
      answer = refused;
    } else {
      answer = answer_of([&] { session.step(grad(hidden, memory)); });
    }
    end.wait();
    return answer;
  }, {.deadline = 200ms});
  CHECK(answers[1].code == px::Errc::invalid_argument);
  CHECK(answers[0].code == px::Errc::timeout);
  CHECK_FALSE(holds(answers[0].detail, "pause"));
}

TEST_CASE("finish returns the records of all ranks, and one file proves the run", "[session][completion]") {
  std::string const path = "completion_test.json";
  std::remove(path.c_str());
  auto const completions = on_ranks(3, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> memory(31, 1.0f);  // the last rank owns an element more, and sends more
    px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
    for (int step = 0; step < 4; ++step) session.step(grad(hidden, memory));
    auto const completion = session.finish();
    completion.save(path);
    return completion;
  });
  REQUIRE(completions[2].records.size() == 3);
  for (auto const& completion : completions)
    for (std::size_t rank = 0; rank < 3; ++rank) {
      auto const& record = completion.records[rank];
      CHECK(record.steps == 4);
      CHECK(record.operations == 5);
      CHECK(record.sent == (rank == 2 ? 4 * 168 : 4 * 164));
      CHECK(record.received == (rank == 2 ? 4 * 168 : 4 * 164));
    }
  std::ifstream file{path};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  CHECK(text == completions[1].text());
  CHECK(holds(text, "\"ranks\": 3, \"records\": [{\"steps\": 4, \"operations\": 5, "));
  CHECK(holds(text, "\"bytes_sent\": 656, \"bytes_received\": 656}, "));
  std::remove(path.c_str());
  CHECK_THROWS_AS(completions[0].save("/nowhere/at/all.json"), px::Error);
  completions[1].save("/nowhere/at/all.json");  // not its task
}

TEST_CASE("a session that is left without finish is told of once for all ranks, and no other", "[session][completion]") {
  auto const said_after = [](auto const& end) {
    return said_on_stderr([&] {
      px::run_threads(3, [&](px::ThreadCommunicator& world) {
        px::Session session{world};
        std::vector<float> memory(31, 1.0f);
        px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
        end(session, [&] { session.step(grad(hidden, memory)); });
      }, patient);
    });
  };
  std::string const told =
      "parallax: the session was destroyed without finish: nothing proves that every rank has completed its steps\n";
  CHECK(said_after([](auto&, auto const& step) { step(); }) == told);
  CHECK(said_after([](auto& session, auto const& step) { step(), session.finish(); }) == "");
  CHECK(said_after([](auto& session, auto const& step) { step(), session.finish(), step(); }) == told);
  CHECK(said_after([](auto&, auto const&) {}) == "");
}

TEST_CASE("of two sessions in a process one fails, and the other goes on", "[session]") {
  auto const wrong = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session healthy{world};
    std::vector<float> memory(3, 1.0f);
    px::Variable<px::Dense> kept{healthy, "kept", px::bind(memory)};
    int errors = 0;
    if (world.rank() == 0) {  // another group of ranks in the same process
      errors += !answer_of([] {
        px::run_threads(2, [](px::ThreadCommunicator& other) {
          px::Session doomed{other};
          std::vector<float> values(3);
          px::Variable<px::Dense> lost{doomed, "lost", px::bind(values)};
          doomed.step(grad(lost, values));
          if (other.rank() == 1) throw px::Error{px::Errc::invalid_argument, 1, "training", "", "enough"};
          doomed.step(grad(lost, values));
        });
      }).refused;
    }
    healthy.step(grad(kept, memory));
    errors += memory[0] != 1.0f - 0.01f;
    healthy.finish();
    return errors;
  });
  CHECK(wrong == std::vector<int>{0, 0});
}

}  // namespace parallax_test::watch
