// A journal is kept in the words of its owner, whoever that is.
#include "parallax/detail/comm/journal.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/detail/transfer/agreement/journal_report.hpp"

namespace px = parallax;

using Report = px::JournalReport<px::ThreadCommunicator>;

static_assert(std::is_trivially_copyable_v<px::RankStatus> && std::is_trivially_copyable_v<px::TraceEvent>);

TEST_CASE("a report is in the words of the journal's owner, also once it has travelled as bytes", "[comm][journal]") {
  px::Journal journal;
  journal.enter("serve", 3, 7, 1'000'000'000);
  journal.name("words");
  auto const travelled = [&] {
    px::RankStatus const told = journal.status();
    std::array<char, sizeof told> bytes;
    std::memcpy(bytes.data(), &told, sizeof told);
    px::RankStatus heard;
    std::memcpy(&heard, bytes.data(), sizeof heard);
    return heard;
  };
  CHECK(Report::status_line(1, travelled(), false, 3, 2'000'000'000) ==
        "  rank 1: silent in serve (operation 3, after step 7, 'words'), called, 1.0 s ago");
  journal.advance("parked", 0, 2'000'000'000);
  journal.wait(2, 3'000'000'000);
  CHECK(Report::status_line(1, travelled(), true, 3, 0) ==
        "  rank 1: waits in serve (operation 3, after step 7, 'words'), parked, for rank 2, since 1.0 s");
  journal.leave(64, 4'000'000'000);
  CHECK(Report::status_line(1, travelled(), false, 3, 9'000'000'000) ==
        "  rank 1: silent since it left serve (operation 3, after step 7, 'words', 64 bytes sent), done, 5.0 s ago");
  journal.enter("push", 4, 7, 5'000'000'000);
  CHECK_FALSE(travelled().latest()->done);
  CHECK(Report::history_lines(travelled()) ==
        "\n    before: serve (operation 3, after step 7, 'words', 64 bytes sent), done, took 3000000 us");
}

TEST_CASE("a word that is too long is cut", "[comm][journal]") {
  CHECK(px::JournalWord{"fifteen letters"}.text() == "fifteen letters");
  CHECK(px::JournalWord{"sixteen letters."}.text() == "sixteen letters");
  CHECK(px::JournalWord{}.text().empty());
  CHECK(px::JournalWord{std::string_view{"step and more", 4}}.text() == "step");
}

TEST_CASE("a trace has the call, every phase and the return of an operation", "[comm][journal]") {
  std::array<px::TraceEvent, 3> events;
  px::TraceRoom room{events.data(), 0, events.size(), 0};
  px::Journal journal;
  journal.record(&room);
  journal.advance("before anything", 0, 0);  // of no operation
  journal.enter("serve", 1, 0, 10);
  journal.advance("parked", 8, 20);
  journal.leave(9, 30);
  journal.enter("push", 2, 0, 40);
  REQUIRE(room.size == 3);
  CHECK(room.dropped == 1);
  char const* const phases[] = {"called", "parked", "done"};
  px::TraceEvent::Kind const kinds[] = {px::TraceEvent::called, px::TraceEvent::advanced, px::TraceEvent::done};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(events[i].operation.text() == "serve");
    CHECK(events[i].phase.text() == phases[i]);
    CHECK(events[i].kind == kinds[i]);
    CHECK(events[i].at == static_cast<std::int64_t>(10 * (i + 1)));
  }
}
