// Ways to be refused by what takes whole tables out of a session and gives it others.
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "guarantee_table.hpp"
#include "parallax/checkpoint/whole.hpp"

namespace parallax_test::guarantee {
namespace {

using Numbers = std::span<std::int64_t const>;
constexpr auto to_all = px::WholeAt::every_rank;

// Takes a table, or gives it rows of ones. `called(numbers)` is called on every call.
template <bool gathers, class T = float, class V, class Called>
Answer moved(AnyModel& m, V& variable, px::WholeOptions const& options, Called&& called) {
  return answer_of([&] {
    if constexpr (gathers) {
      m.session.gather(variable, options, [&](Numbers numbers, px::RowsView<T const>) { called(numbers); });
    } else {
      m.session.scatter(variable, options, [&](Numbers numbers, px::RowsView<T> rows) {
        for (std::int64_t i = 0; i < rows.rows * rows.width; ++i) rows.data[i] = T{1};
        called(numbers);
      });
    }
  });
}
auto const nothing = [](Numbers) {};

template <bool gathers>
std::vector<Fault> faults_of_both() {
  std::string const operation = gathers ? "gather" : "scatter";
  return {
      {"a slot that is not there, in " + operation,
       {px::Errc::invalid_argument, operation, "words", "Adagrad has no slot 'zz'"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return moved<gathers>(m, m.words, {.slot = bad ? "zz" : "sum", .at = to_all}, nothing);
       }},
      {"pieces of nothing, in " + operation,
       {px::Errc::invalid_argument, operation, "words", "call_bytes is at least 1"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return moved<gathers>(m, m.words, {.at = to_all, .call_bytes = bad ? 0 : 100}, nothing);
       }},
      {"no time, in " + operation,
       {px::Errc::invalid_argument, operation, "hidden", "at_most is a time"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return moved<gathers>(m, m.hidden, {.at_most = bad ? 0.0 : 10.0}, nothing);
       }},
      {"rows of another type, in " + operation,
       {px::Errc::invalid_argument, operation, "short", "and the callable is for rows of something else"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         px::Variable<px::Sparse, px::BFloat16, px::Adagrad> table{m.session, "short", {8, 2}};
         return moved<gathers>(m, table, {.slot = bad ? "" : "sum"}, nothing);
       }},
      {"another session's table in " + operation,
       {px::Errc::misuse, operation, "words", "belongs to another session"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         Stranger other;
         return moved<gathers>(m, bad ? other.words : m.words, {.at = to_all}, nothing);
       }},
      {operation + " while updates are started",
       {px::Errc::misuse, operation, "bias", "no step completed them", Blamed::first},
       [](AnyModel& m, bool, std::uint64_t) { return moved<gathers>(m, m.words, {.at = to_all}, nothing); },
       true},
      {"a callable that throws in " + operation,
       {px::Errc::user_exception, operation, "copy", "the pen is empty"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return moved<gathers>(m, m.copy, {.at = to_all}, [&](Numbers) {
           if (bad) throw std::runtime_error{"the pen is empty"};
         });
       }},
      {"a callable for parts that throws in " + operation,
       {px::Errc::user_exception, operation, "copy", "no std::exception"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return moved<gathers>(m, m.copy, {.at = px::WholeAt::parts}, [&](Numbers) {
           if (bad) throw 42;
         });
       }},
      {"a callable on rank 0 that throws in " + operation,
       {px::Errc::user_exception, operation, "bias", "the pen is empty", Blamed::first},
       [](AnyModel& m, bool, std::uint64_t) {
         return moved<gathers, double>(m, m.bias, {.slot = "v"},
                                       [&](Numbers) { throw std::runtime_error{"the pen is empty"}; });
       }},
      {"a callable that throws an Error of its own in " + operation,
       {px::Errc::bad_id, "archive", "w", "no such page"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return moved<gathers>(m, m.copy, {.slot = "m", .at = to_all}, [&](Numbers) {
           if (bad) throw px::Error{px::Errc::bad_id, m.rank(), "archive", "w", "no such page"};
         });
       }},
      // Rows that are dealt are given by who holds them: on some topologies not by the rank that is bad.
      {"callables that meet a bad file in " + operation,
       {px::Errc::file, operation, "words", "pages: they are torn", Blamed::first},
       [](AnyModel& m, bool, std::uint64_t) {
         return moved<gathers>(m, m.words, {.at = to_all}, [&](Numbers) { throw px::FormatError("pages", "they are torn"); });
       }},
      {"a callable for which memory ends in " + operation,
       {px::Errc::out_of_memory, operation, "copy", "an allocation failed"},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return moved<gathers>(m, m.copy, {.at = to_all}, [&](Numbers) {
           if (bad) throw std::bad_alloc{};
         });
       }},
      {"another slot in " + operation,
       {px::Errc::mismatch, operation, "exact", "slot 'v', "},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return moved<gathers, double>(m, m.exact, {.slot = bad ? "v" : "m", .at = to_all}, nothing);
       }},
      {operation + " where others step",
       {px::Errc::mismatch, "", "", ""},
       [](AnyModel& m, bool bad, std::uint64_t) {
         if (bad) return moved<gathers>(m, m.words, {.at = to_all}, nothing);
         return answer_of([&] { step_both(m); });
       }},
  };
}

}  // namespace

std::vector<Fault> faults_of_whole_tables() {
  std::vector<Fault> all{
      {"replicas that are given different rows",
       {px::Errc::mismatch, "scatter", "copy", "gives others than rank 0", Blamed::anyone},
       [](AnyModel& m, bool bad, std::uint64_t) {
         return answer_of([&] {
           m.session.scatter(m.copy, {.at = to_all}, [&](Numbers, px::RowsView<float> rows) {
             for (std::int64_t i = 0; i < rows.rows * rows.width; ++i) rows.data[i] = bad ? 1.0f : 2.0f;
           });
         });
       }},
  };
  for (auto const& more : {faults_of_both<true>(), faults_of_both<false>()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace parallax_test::guarantee
