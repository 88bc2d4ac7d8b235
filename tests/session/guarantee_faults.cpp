// One way after the other to be refused by a pull or by a step, and what is expected of each; and the training that meets all.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "guarantee_table.hpp"
#include "parallax/comm/collectives.hpp"
#include "parallax/variable/stack.hpp"

namespace parallax_test::guarantee {
namespace {

using px::grad;

std::vector<float> const short_gradient(36, 0.125f);
std::vector<double> const long_gradient(12, 1.0);
std::vector<std::int32_t> const exact_ids{16, 0, 0};

// What `f`, which is given a NaN, is answered in a session that refuses what is not finite.
template <class F>
Answer with_finite_only(AnyModel& m, F&& f) {
  m.session.options().non_finite = px::NonFinite::error;
  auto const answer = answer_of([&] { f(std::numeric_limits<float>::quiet_NaN()); });
  m.session.options().non_finite = px::NonFinite::propagate;
  return answer;
}
// Of three bags of five indices. On the rank that is bad the third number is `third`, and the last one `last`.
std::vector<int> bag_offsets(bool bad, int third, int last = 5) {
  std::vector<int> offsets{0, 3, 3, 5};
  if (bad) offsets[2] = third, offsets[3] = last;
  return offsets;
}

std::vector<Fault> const faults_of_steps{
    {"a bad id in a pull",
     {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto const ids = word_ids(bad, random);
       return answer_of([&] { auto const rows = m.session.pull(m.words, ids); });
     }},
    {"a bad id in the second table of a pull",
     {px::Errc::bad_id, "pull", "exact", "index 17 at position 0"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<std::int32_t> const ids{bad ? 17 : 16};
       return answer_of([&] { auto const rows = m.session.pull(m.words.at(word_ids(false, 0)), m.exact.at(ids)); });
     }},
    {"a bad id in a pull while updates are started",
     {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto const ids = word_ids(bad, random);
       m.session.poll();
       auto const answer = answer_of([&] { auto const rows = m.session.pull(m.words, ids); });
       m.session.poll();
       return answer;
     },
     true},
    {"a bad id in an update by indices",
     {px::Errc::bad_id, "step", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto const ids = word_ids(bad, random);
       return answer_of([&] { m.session.step(grad(m.words, ids, word_rows)); });
     }},
    {"a bad id in a started update",
     {px::Errc::bad_id, "step", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       m.session.start(grad(m.bias, bias_gradient));
       m.session.start(grad(m.words, word_ids(bad, random), word_rows));
       m.session.poll();
       return answer_of([&] { step_hidden(m); });
     }},
    {"a dense gradient of a wrong size",
     {px::Errc::invalid_argument, "step", "hidden", "36 elements for a variable of 37"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] { m.session.step(grad(m.hidden, bad ? short_gradient : hidden_gradient)); });
     }},
    {"a started gradient of a wrong size",
     {px::Errc::invalid_argument, "step", "bias", "12 elements for a variable of 11"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       m.session.start(grad(m.bias, bad ? long_gradient : bias_gradient));
       return answer_of([&] { step_hidden(m); });
     }},
    {"too few rows for a pull",
     {px::Errc::invalid_argument, "step", "words", "gradient rows of 4 x 3 for 5 x 3"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto const rows = m.session.pull(m.words, word_ids(false, 0));
       std::vector<float> const gradient(bad ? 12 : 15, 1.0f);
       return answer_of([&] { m.session.step(grad(m.bias, bias_gradient), grad(rows, gradient)); });
     }},
    {"rows that do not divide",
     {px::Errc::invalid_argument, "step", "words", "gradient rows of ? x 3"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<float> const gradient(bad ? 14 : 15, 1.0f);
       return answer_of([&] { m.session.step(grad(m.words, word_ids(false, 0), gradient)); });
     }},
    {"a transform that throws",
     {px::Errc::user_exception, "step", "hidden", "the gradient looks odd"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(grad(m.bias, bias_gradient), grad(m.hidden, hidden_gradient).transform([bad](auto) {
           if (bad) throw std::runtime_error{"the gradient looks odd"};
         }), grad(m.words, word_ids(false, 0), word_rows));
       });
     }},
    {"a transform that throws no std::exception",
     {px::Errc::user_exception, "step", "words", "no std::exception"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(grad(m.words, word_ids(false, 0), word_rows).transform([bad](auto) {
           if (bad) throw 42;
         }), grad(m.bias, bias_gradient));
       });
     }},
    {"a transform that throws in a started update",
     {px::Errc::user_exception, "step", "bias", "not today\nnor tomorrow"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       m.session.start(grad(m.bias, bias_gradient).transform([bad](auto) {
         if (bad) throw std::runtime_error{"not today\nnor tomorrow"};
       }));
       return answer_of([&] { m.session.step(grad(m.hidden, hidden_gradient)); });
     }},
    {"a transform that throws an Error of its own",
     {px::Errc::invalid_argument, "clipping", "w", "too large"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(grad(m.whole, std::vector{1, 1, 2}, std::vector<double>(6)).transform([&](auto) {
           if (bad) throw px::Error{px::Errc::invalid_argument, m.rank(), "clipping", "w", "too large"};
         }));
       });
     }},
    {"another learning rate",
     {px::Errc::mismatch, "step", "hidden", "update"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       double const rate = m.hidden.optimizer().learning_rate;
       if (bad) m.hidden.optimizer().learning_rate = std::nextafter(rate, 1.0);
       auto const answer = answer_of([&] { step_both(m); });
       m.hidden.optimizer().learning_rate = rate;
       return answer;
     }},
    {"another learning rate after a start",
     {px::Errc::mismatch, "step", "exact", "Adam{.learning_rate = 0.5, .beta1 = "},
     [](AnyModel& m, bool bad, std::uint64_t) {
       double const rate = m.exact.optimizer().learning_rate;
       m.session.start(grad(m.exact, exact_ids, std::vector<double>(6, 1.0)));
       if (bad) m.exact.optimizer().learning_rate = 0.5;
       auto const answer = answer_of([&] { step_hidden(m); });
       m.exact.optimizer().learning_rate = rate;
       return answer;
     }},
    {"updates in another order",
     {px::Errc::mismatch, "step", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) m.session.step(grad(m.bias, bias_gradient), grad(m.hidden, hidden_gradient));
         else step_both(m);
       });
     }},
    {"a missing update",
     {px::Errc::mismatch, "step", "bias", "nothing"},
     [](AnyModel& m, bool bad, std::uint64_t) { return answer_of([&] { bad ? step_hidden(m) : step_both(m); }); }},
    {"another variable started",
     {px::Errc::mismatch, "step", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       if (bad) m.session.start(grad(m.hidden, hidden_gradient));
       else m.session.start(grad(m.bias, bias_gradient));
       return answer_of([&] { m.session.step(grad(m.words, word_ids(false, 0), word_rows)); });
     }},
    {"a pull where others step",
     {px::Errc::mismatch, "", "", ""},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (!bad) return step_both(m);
         auto const rows = m.session.pull(m.words, word_ids(false, 0));
       });
     }},
    {"a pull where others step what they started",
     {px::Errc::mismatch, "", "", ""},
     [](AnyModel& m, bool bad, std::uint64_t) {
       m.session.start(grad(m.bias, bias_gradient));
       return answer_of([&] {
         if (!bad) return step_hidden(m);
         auto const rows = m.session.pull(m.words, word_ids(false, 0));
       });
     }},
    {"a finish where others step",
     {px::Errc::mismatch, "", "", ""},
     [](AnyModel& m, bool bad, std::uint64_t) { return answer_of([&] { bad ? void(m.session.finish()) : step_both(m); }); }},
    {"another table pulled",
     {px::Errc::mismatch, "pull", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) auto const rows = m.session.pull(m.exact, exact_ids);
         else auto const rows = m.session.pull(m.words, word_ids(false, 0));
       });
     }},
    {"fewer tables pulled",
     {px::Errc::mismatch, "pull", "exact", "nothing"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) auto const rows = m.session.pull(m.words.at(exact_ids));
         else auto const rows = m.session.pull(m.words.at(exact_ids), m.exact.at(exact_ids));
       });
     }},
    {"rows by index where others have a pull",
     {px::Errc::mismatch, "step", "words", "rows by index"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto const ids = word_ids(false, 0);
       auto const rows = m.session.pull(m.words, ids);
       return answer_of([&] {
         if (bad) m.session.step(grad(m.words, ids, word_rows));
         else m.session.step(grad(rows, word_rows));
       });
     }},
    {"another limit of the norm",
     {px::Errc::mismatch, "step", "hidden", "clipped to 1.0000000000000002"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(px::clip_by_global_norm(bad ? std::nextafter(1.0, 2.0) : 1.0, grad(m.hidden, hidden_gradient)));
       });
     }},
    {"another variable broadcast",
     {px::Errc::mismatch, "broadcast", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] { bad ? m.session.broadcast(m.hidden) : m.session.broadcast(m.copy); });
     }},
    {"other fusion options",
     {px::Errc::mismatch, "step", "", "options {"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       if (bad) m.session.options().fusion.direct_bytes = 16;
       auto const answer = answer_of([&] { step_both(m); });
       m.session.options().fusion = {};
       return answer;
     }},
    {"a batch named ahead that one rank pulls twice",
     {px::Errc::misuse, "pull", "", "this batch was pulled before"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto next = m.session.prefetch(m.words, word_ids(false, 0));
       auto const rows = m.session.pull(std::move(next));
       return answer_of([&] {
         if (!bad) return step_both(m);
         auto const again = m.session.pull(std::move(next));
       });
     }},
    {"replicas that do not begin alike",
     {px::Errc::mismatch, "step", "fresh", "first values of checksum"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<float> memory(4, bad ? 2.0f : 1.0f);
       px::Variable<px::Dense> fresh{m.session, "fresh", px::bind(memory)};
       return answer_of([&] { m.session.step(grad(m.bias, bias_gradient), grad(fresh, std::vector<float>(4, 1.0f))); });
     }},
    {"a join that calls nothing",
     {px::Errc::misuse, "join", "", "called no operation of the session"},
     [](AnyModel& m, bool bad, std::uint64_t) { return answer_of([&] { bad ? m.session.join([] {}) : step_both(m); }); }},
    {"a join that calls nothing where others pull",
     {px::Errc::misuse, "join", "", "called no operation of the session"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) m.session.join([] {});
         else auto const rows = m.session.pull(m.words, word_ids(false, 0));
       });
     }},
    {"a handle of an earlier step",
     {px::Errc::misuse, "step", "words", "the handle was stepped before"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto const rows = m.session.pull(m.words, word_ids(false, 0));
       return answer_of([&] { m.session.step(grad(m.bias, bias_gradient), grad(bad ? m.stepped : rows, word_rows)); });
     }},
    {"the gradient of an empty handle",
     {px::Errc::misuse, "step", "", "a handle is empty"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto rows = m.session.pull(m.words, word_ids(false, 0));
       auto const moved = std::move(rows);
       return answer_of([&] {
         m.session.step(grad(m.bias, bias_gradient), px::clip_by_global_norm(1.0, grad(bad ? rows : moved, word_rows)));
       });
     }},
    {"updates of one variable in two clip groups",
     {px::Errc::misuse, "step", "hidden", "different clip groups", Blamed::nobody},
     [](AnyModel& m, bool, std::uint64_t) {
       return answer_of([&] {
         m.session.step(px::clip_by_global_norm(1.0, grad(m.hidden, hidden_gradient)), grad(m.bias, bias_gradient),
                        grad(m.hidden, hidden_gradient));
       });
     }},
    {"a gradient that is not finite",
     {px::Errc::non_finite, "step", "hidden", "of the gradient, element 7 is nan"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return with_finite_only(m, [&](float odd) {
         auto gradient = hidden_gradient;
         if (bad) gradient[7] = odd;
         m.session.step(grad(m.bias, bias_gradient), grad(m.hidden, gradient));
       });
     }},
    {"rows that are not finite",
     {px::Errc::non_finite, "step", "words", "of the gradient, row 2, column 1 is nan"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return with_finite_only(m, [&](float odd) {
         auto rows = word_rows;
         if (bad) rows[7] = odd;
         m.session.step(grad(m.words, word_ids(false, 0), rows));
       });
     }},
    {"a started gradient that is not finite",
     {px::Errc::non_finite, "step", "hidden", "of the gradient, element 36 is nan"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return with_finite_only(m, [&](float odd) {
         auto gradient = hidden_gradient;
         if (bad) gradient[36] = odd;
         m.session.start(grad(m.hidden, gradient));
         m.session.step(grad(m.bias, bias_gradient));
       });
     }},
    {"a sum over ranks that is not finite",
     {px::Errc::non_finite, "step", "hidden", "of the sum over ranks", Blamed::anyone},
     [](AnyModel& m, bool, std::uint64_t) {
       return with_finite_only(
           m, [&](float) { m.session.step(grad(m.hidden, std::vector<float>(37, std::numeric_limits<float>::max()))); });
     }},
    {"a gradient in_place that shares its memory",
     {px::Errc::invalid_argument, "step", "hidden", "the gradient of fresh shares"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<float> memory(4, 1.0f), gradients(50, 0.125f);
       px::Variable<px::Dense> fresh{m.session, "fresh", px::bind(memory)};
       std::span<float> const whole{gradients.data(), 37}, other{gradients.data() + (bad ? 36 : 40), 4};
       return answer_of([&] { m.session.step(grad(m.hidden, px::in_place(whole)), grad(fresh, other)); });
     }},
    {"a transform for which memory ends",
     {px::Errc::out_of_memory, "step", "hidden", "an allocation failed"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(grad(m.bias, bias_gradient), grad(m.hidden, hidden_gradient).transform([bad](auto) {
           if (bad) throw std::bad_alloc{};
         }));
       });
     }},
    {"a gradient of a wrong size in a list of them",
     {px::Errc::invalid_argument, "step", "hidden", "36 elements"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<decltype(grad(m.hidden, hidden_gradient))> list{grad(m.hidden, hidden_gradient)};
       list.push_back(grad(m.hidden, bad ? short_gradient : hidden_gradient));
       return answer_of([&] { m.session.step(grad(m.bias, bias_gradient), list); });
     }},
    {"a setting with which an optimizer makes no sense",
     {px::Errc::invalid_argument, "step", "", "Ftrl's learning_rate is -1, and has to be more than 0", Blamed::nobody},
     [](AnyModel& m, bool, std::uint64_t) {
       std::vector<float> memory(4, 1.0f);
       px::Variable<px::Dense, px::Ftrl> fresh{m.session, "fresh", px::bind(memory)};
       fresh.optimizer().learning_rate = -1;
       return answer_of([&] { m.session.step(grad(m.bias, bias_gradient), grad(fresh, std::vector<float>(4, 1.0f))); });
     }},
    {"rows by distinct index where each occurrence is pushed",
     {px::Errc::invalid_argument, "step", "naive", "pushes every occurrence: give one gradient row per index"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto const rows = m.session.pull(m.naive, std::vector{3, 1});
       std::vector<float> const gradient(2, 1.0f);
       return answer_of([&] {
         if (bad) m.session.step(grad(rows, px::distinct(gradient)));
         else m.session.step(grad(rows, gradient));
       });
     }},
    {"a rank that has joined and names indices",
     {px::Errc::misuse, "step", "words", "has no data, but names 5 indices"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto const iteration = [&] { m.session.step(grad(m.words, word_ids(false, 0), word_rows)); };
       return answer_of([&] {
         if (bad) m.session.join(iteration);
         else iteration();
       });
     }},
    {"a variable that is destroyed after a start",
     {px::Errc::misuse, "step", "brief", "destroyed with an update in flight"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<float> memory(4, 1.0f);
       auto brief = std::make_unique<px::Variable<px::Dense>>(m.session, "brief", px::bind(memory));
       m.session.start(grad(*brief, std::vector<float>(4, 1.0f)));
       if (bad) brief.reset();
       return answer_of([&] { step_hidden(m); });
     }},
    {"an empty handle in a started update",
     {px::Errc::misuse, "step", "", "a handle is empty"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto rows = m.session.pull(m.words, word_ids(false, 0));
       auto const moved = std::move(rows);
       m.session.start(grad(bad ? rows : moved, word_rows));
       return answer_of([&] { step_hidden(m); });
     }},
    {"a bad id that was accumulated",
     {px::Errc::bad_id, "step", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       px::Accumulator sums{m.words};
       sums.add(grad(m.words, word_ids(bad, random), word_rows));
       sums.add(grad(m.words, word_ids(false, 0), word_rows));
       return answer_of([&] { m.session.step(sums.grad()); });
     }},
    {"another priority of a start",
     {px::Errc::mismatch, "step", "", "", Blamed::anyone},
     [](AnyModel& m, bool bad, std::uint64_t) {
       m.session.start(px::Priority{bad ? 1 : 0}, grad(m.bias, bias_gradient));
       return answer_of([&] { step_hidden(m); });
     }},
    {"another table named ahead",
     {px::Errc::mismatch, "step", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       px::Variable<px::Sparse, px::Adagrad> others{m.session, "others", {23, 3}};
       auto const next = m.session.prefetch(bad ? others : m.words, word_ids(false, 0));
       return answer_of([&] { step_both(m); });
     }},
    {"a pull of another session's table",
     {px::Errc::misuse, "pull", "words", "belongs to another session"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       Stranger other;
       return answer_of([&] { auto const rows = m.session.pull(bad ? other.words : m.words, word_ids(false, 0)); });
     }},
    {"a step on another session's variable",
     {px::Errc::misuse, "step", "hidden", "belongs to another session"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       Stranger other;
       return answer_of(
           [&] { m.session.step(grad(m.bias, bias_gradient), grad(bad ? other.hidden : m.hidden, hidden_gradient)); });
     }},
    {"another session's variable started",
     {px::Errc::misuse, "step", "words", "belongs to another session"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       Stranger other;
       m.session.start(grad(bad ? other.words : m.words, word_ids(false, 0), word_rows));
       return answer_of([&] { step_hidden(m); });
     }},
    {"a broadcast of another session's variable",
     {px::Errc::misuse, "broadcast", "hidden", "belongs to another session"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       Stranger other;
       return answer_of([&] { m.session.broadcast(bad ? other.hidden : m.hidden); });
     }},
    {"a bad id in a list of a pull",
     {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto const first = word_ids(false, 0), second = word_ids(bad, random);
       std::vector const list{m.words.at(first), m.words.at(second)};
       return answer_of([&] { auto const rows = m.session.pull(list); });
     }},
    {"a bad id in a pull with rows named ahead",
     {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto next = m.session.prefetch(m.words, word_ids(false, 0));
       auto const answer = answer_of([&] { auto const rows = m.session.pull(m.words, word_ids(bad, random)); });
       auto const rows = m.session.pull(std::move(next));
       return answer;
     }},
    {"a bad id that was named ahead",
     {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto next = m.session.prefetch(m.words, word_ids(bad, random));
       return answer_of([&] { auto const rows = m.session.pull(std::move(next)); });
     }},
    {"a bad id that a step took along",
     {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto next = m.session.prefetch(m.words, word_ids(bad, random));
       m.session.options().non_finite = px::NonFinite::skip_step;  // the step changes nothing
       bool const applied = m.session.step(grad(m.hidden, std::vector<float>(37, std::numeric_limits<float>::infinity())));
       m.session.options().non_finite = px::NonFinite::propagate;
       if (applied) return Answer{};
       return answer_of([&] { auto const rows = m.session.pull(std::move(next)); });
     }},
    {"bags that were named ahead and do not fit",
     {px::Errc::invalid_argument, "pull", "words", "descend from 3 to 2 at bag 1"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto next = m.session.prefetch(m.words.bags(word_ids(false, 0), bag_offsets(bad, 2)));
       return answer_of([&] { auto const bags = m.session.pull(std::move(next)); });
     }},
    {"a batch that was named to another session",
     {px::Errc::misuse, "pull", "", "or named to another session"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       Stranger other;
       auto next = other.session.prefetch(other.words, word_ids(false, 0));
       return answer_of([&] {
         if (!bad) return step_both(m);
         auto const rows = m.session.pull(std::move(next));
       });
     }},
    {"offsets of bags that do not end with the indices",
     {px::Errc::invalid_argument, "pull", "words", "begin with 0 and end with the number of indices, 5"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] { auto const bags = m.session.pull(m.words.bags(word_ids(false, 0), bag_offsets(bad, 3, 4))); });
     }},
    {"offsets of bags that descend",
     {px::Errc::invalid_argument, "pull", "words", "descend from 3 to 2 at bag 1"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] { auto const bags = m.session.pull(m.words.bags(word_ids(false, 0), bag_offsets(bad, 2))); });
     }},
    {"too few weights of bags",
     {px::Errc::invalid_argument, "pull", "words", "4 weights for 5 indices"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<float> const weights(bad ? 4 : 5, 0.5f);
       return answer_of(
           [&] { auto const bags = m.session.pull(m.words.bags(word_ids(false, 0), bag_offsets(false, 0), weights)); });
     }},
    {"a bad id in a bag",
     {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       return answer_of([&] {
         auto const bags = m.session.pull(m.words.bags(word_ids(bad, random), bag_offsets(false, 0), px::Pool::mean));
       });
     }},
    {"too few pooled gradients",
     {px::Errc::invalid_argument, "step", "words", "gradient rows of 2 x 3 for 3 x 3"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto const bags = m.session.pull(m.words.bags(word_ids(false, 0), bag_offsets(false, 0)));
       return answer_of([&] { m.session.step(grad(bags, std::vector<float>(bad ? 6 : 9, 1.0f))); });
     }},
    {"bags of a stack that its tables do not share",
     {px::Errc::invalid_argument, "pull", "stack", "3 bags for a stack of 2 tables"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       px::Variable<px::Sparse> stack{m.session, "stack", px::Stack{{{10, 3}, {4, 3}}}};
       std::vector<int> const ids{9, 3, 0}, offsets{0, 1, 3}, more{0, 1, 2, 3};
       return answer_of([&] { auto const bags = m.session.pull(stack.bags(ids, bad ? more : offsets)); });
     }},
    {"an id that is bad for its table of a stack",
     {px::Errc::bad_id, "pull", "stack", "is outside [0, 4) of table 1"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       px::Variable<px::Sparse> stack{m.session, "stack", px::Stack{{{10, 3}, {4, 3}}}};
       std::vector<int> const ids{9, bad ? 4 : 3, 0}, offsets{0, 1, 3};
       return answer_of([&] { auto const bags = m.session.pull(stack.bags(ids, offsets)); });
     }},
};

// All tables, one behind the other.
std::vector<Fault> const& faults() {
  static std::vector<Fault> const all = [] {
    std::vector<Fault> list = faults_of_steps;
    for (auto const& more : {faults_of_rows(), faults_of_whole_tables(), faults_of_checkpoints()})
      list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

// Collective. A new folder for all ranks, which rank 0 makes and removes.
std::string shared_folder(px::AnyCommunicator& world, std::optional<Scratch>& scratch) {
  char name[256] = {};
  if (world.rank() == 0) {
    std::string const path = scratch.emplace().path("");
    std::memcpy(name, path.data(), std::min(path.size(), sizeof name - 1));
  }
  px::broadcast(world, std::span{name});
  return name;
}

}  // namespace

std::vector<std::size_t> plan_of(std::uint64_t seed) {
  std::vector<std::size_t> plan(faults().size());
  for (std::size_t i = 0; i < plan.size(); ++i) plan[i] = i;
  std::shuffle(plan.begin(), plan.end(), std::mt19937_64{seed + 1});
  return plan;
}

Job train(px::Topology<px::AnyCommunicator> const& topology, std::uint64_t seed, std::vector<std::size_t> const& plan,
          bool with_faults) {
  int const rank = topology.rank(), ranks = topology.size();
  Job job;
  std::optional<Scratch> scratch;
  AnyModel m{topology};
  if (with_faults) m.folder = shared_folder(topology.world(), scratch);
  m.train(seed, 0);
  std::mt19937_64 random{seed};  // alike on all ranks
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Fault const& fault = faults()[plan[i]];
    auto const culprit = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
    std::uint64_t const detail = random();
    int const step = static_cast<int>(i) + 1;
    if (with_faults) {
      if (fault.leaves_bias_started) m.start_bias(seed, step);
      std::uint64_t const before = m.hash();
      Answer const answer = fault.inject(m, rank == culprit, detail);
      job.seen.push_back({answer, m.hash() == before});
    }
    m.train(seed, step, !with_faults || !fault.leaves_bias_started);
  }
  m.session.finish();
  job.hash = m.hash();
  return job;
}

int check(std::vector<Job> const& jobs, std::vector<Job> const& undisturbed, std::uint64_t seed,
          std::vector<std::size_t> const& plan) {
  int const ranks = static_cast<int>(jobs.size());
  int refusals = 0;
  std::mt19937_64 random{seed};
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Fault const& fault = faults()[plan[i]];
    auto const culprit = static_cast<int>(random() % static_cast<std::uint64_t>(ranks));
    random();
    INFO(fault.name << " on rank " << culprit << " of " << ranks << ", seed " << seed);
    Answer const& first = jobs[0].seen[i].answer;
    INFO(first.what);
    CHECK(first.refused);
    CHECK(first.code == fault.expected.code);
    if (!fault.expected.operation.empty()) CHECK(first.operation == fault.expected.operation);
    if (!fault.expected.variable.empty()) CHECK(first.variable == fault.expected.variable);
    CHECK_THAT(first.detail, contains(fault.expected.detail));
    bool const no_majority = first.code == px::Errc::mismatch && ranks == 2;
    switch (fault.expected.blamed) {
      case Blamed::culprit: CHECK(first.rank == (no_majority ? 1 : culprit)); break;
      case Blamed::nobody: CHECK(first.rank == -1); break;
      case Blamed::first: CHECK(first.rank == 0); break;
      case Blamed::anyone: break;
    }
    for (Job const& job : jobs) {
      CHECK(job.seen[i].answer == first);
      CHECK(job.seen[i].unchanged);
    }
    ++refusals;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank << " of " << ranks << ", seed " << seed);
    CHECK(jobs[static_cast<std::size_t>(rank)].hash == undisturbed[static_cast<std::size_t>(rank)].hash);
  }
  return refusals;
}

}  // namespace parallax_test::guarantee
