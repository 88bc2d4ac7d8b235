// Ways to be refused by what sets, multiplies and deals rows of a table, and by a table that is cut by columns.
#include <string>
#include <utility>
#include <vector>

#include "guarantee_table.hpp"
#include "parallax/step/columns.hpp"

namespace parallax_test::guarantee {
namespace {

// Assigns these rows to these ids, or multiplies those of the ids.
template <bool assigns, class V>
Answer changed(AnyModel& m, V& table, std::vector<std::int64_t> const& ids, std::vector<float> const& rows = word_rows) {
  return answer_of([&] {
    if constexpr (assigns) m.session.assign(table, ids, rows);
    else m.session.scale(table, ids, 2.0);
  });
}

// What both refuse.
template <bool assigns>
std::vector<Fault> faults_of_both() {
  std::string const operation = assigns ? "assign" : "scale";
  return {
      {"a bad id in " + operation,
       {px::Errc::bad_id, operation, "words", "is outside [0, 23)"},
       [](AnyModel& m, bool bad, std::uint64_t random) { return changed<assigns>(m, m.words, word_ids(bad, random)); }},
      {"a bad id of a replica in " + operation,
       {px::Errc::bad_id, operation, "copy", "index 13 at position 0"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return changed<assigns>(m, m.copy, std::vector<std::int64_t>{bad ? 13 : 12}, std::vector<float>(2, 1.0f));
       }},
      {"another session's table in " + operation,
       {px::Errc::misuse, operation, "words", "belongs to another session"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Stranger other;
         return changed<assigns>(m, bad ? other.words : m.words, word_ids(false, 0));
       }},
      {"another table in " + operation,
       {px::Errc::mismatch, operation, "", "has «"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         std::vector<std::int64_t> const ids{1};
         return bad ? changed<assigns>(m, m.words, ids, std::vector<float>(3, 1.0f))
                    : changed<assigns>(m, m.copy, ids, std::vector<float>(2, 1.0f));
       }},
      {operation + " where others step",
       {px::Errc::mismatch, "", "", ""},
       [](AnyModel& m, bool bad, std::uint64_t) {
         if (bad) return changed<assigns>(m, m.words, word_ids(false, 0));
         return answer_of([&] { step_both(m); });
       }},
  };
}

using Searched = px::Variable<px::Sparse, px::Auto>;
using Wide = px::Columns<px::Variable<px::Sparse, px::Adagrad>, 3>;

std::vector<Fault> others() {
  return {
      {"too few rows to assign",
       {px::Errc::invalid_argument, "assign", "words", "rows of 4 x 3 for 5 x 3 named"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return changed<true>(m, m.words, word_ids(false, 0), std::vector<float>(bad ? 12 : 15, 0.25f));
       }},
      {"rows to assign of another width",
       {px::Errc::invalid_argument, "assign", "words", "rows of 5 x 4 for 5 x 3 named"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         std::vector<float> const memory(20, 0.25f);
         px::RowsView<float const> const rows{memory.data(), 5, bad ? 4 : 3};
         return answer_of([&] { m.session.assign(m.words, word_ids(false, 0), rows); });
       }},
      {"a row that one rank assigns twice",
       {px::Errc::invalid_argument, "assign", "words", "row 3, column 1: position 0 gives 0.25, position 2 gives 0.5"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         auto rows = word_rows;
         if (bad) rows[7] = 0.5f;
         return changed<true>(m, m.words, word_ids(false, 0), bad ? rows : word_rows);
       }},
      {"a row that two ranks assign",
       {px::Errc::mismatch, "assign", "words", "row 5, column 1: rank ", Blamed::nobody},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return changed<true>(m, m.words, std::vector<std::int64_t>{5}, {1.0f, bad ? 0.25f : 0.5f, 1.0f});
       }},
      {"a row of a replica that two ranks assign",
       {px::Errc::mismatch, "assign", "copy", "row 12, column 0: rank ", Blamed::nobody},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return changed<true>(m, m.copy, std::vector<std::int64_t>{12}, {bad ? 0.25f : 0.5f, 1.0f});
       }},
      {"another factor",
       {px::Errc::mismatch, "scale", "words", "factor 2"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return answer_of([&] { m.session.scale(m.words, word_ids(false, 0), bad ? 2.0 : 3.0); });
       }},
      {"a scale where others assign",
       {px::Errc::mismatch, "", "", ""},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return bad ? changed<false>(m, m.words, word_ids(false, 0)) : changed<true>(m, m.words, word_ids(false, 0));
       }},
      {"pieces searched for another session's table",
       {px::Errc::misuse, "search_pieces", "searched", "belongs to another session"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Stranger other;
         Searched theirs{other.session, "searched", {8, 2}}, ours{m.session, "searched", {8, 2}};
         return answer_of([&] { m.session.search_pieces(bad ? theirs : ours); });
       }},
      {"pieces searched otherwise",
       {px::Errc::mismatch, "search_pieces", "searched", "search {"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Searched ours{m.session, "searched", {8, 2}};
         return answer_of([&] { m.session.search_pieces(ours, {.probes = bad ? 3 : 4}); });
       }},
      {"pieces searched where others step",
       {px::Errc::mismatch, "", "", ""},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Searched ours{m.session, "searched", {8, 2}};
         return answer_of([&] { bad ? m.session.search_pieces(ours) : step_both(m); });
       }},
      {"a bad id in a table cut by columns",
       {px::Errc::bad_id, "pull", "wide.0", "is outside [0, 23)"},
       [](AnyModel& m, bool bad, std::uint64_t random) {
         Wide wide{m.session, "wide", {23, 7}};
         return answer_of([&] { auto const rows = wide.pull(m.session, word_ids(bad, random)); });
       }},
      {"too few rows for a table cut by columns",
       {px::Errc::invalid_argument, "step", "wide.0", "gradient rows of 4 x "},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Wide wide{m.session, "wide", {23, 7}};
         auto const rows = wide.pull(m.session, word_ids(false, 0));
         std::vector<float> const gradient(bad ? 28 : 35, 1.0f);
         return answer_of([&] { m.session.step(px::grad(rows, gradient)); });
       }},
  };
}

}  // namespace

std::vector<Fault> faults_of_rows() {
  std::vector<Fault> all = others();
  for (auto const& more : {faults_of_both<true>(), faults_of_both<false>()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace parallax_test::guarantee
