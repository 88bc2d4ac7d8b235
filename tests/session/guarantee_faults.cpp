// One way after the other to be refused, and what is expected of each.
#include "guarantee.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "../catch.hpp"

namespace parallax_test::guarantee {
namespace {

using px::grad;

using AnyModel = Model<px::AnyCommunicator>;

// What is expected of an error. `culprit` false: no single rank is to blame.
struct Expected {
  px::Errc code;
  std::string operation, variable, detail;
  bool culprit = true;
};

// One way to be refused. `inject` runs on every rank, and does on the one that is `bad` what the others do not.
struct Fault {
  std::string name;
  Expected expected;
  Answer (*inject)(AnyModel& m, bool bad, std::uint64_t random);
  bool leaves_bias_started = false;
};

std::vector<std::int64_t> word_ids(bool bad, std::uint64_t random) {
  std::vector<std::int64_t> ids{3, 22, 3, 0, 7};
  constexpr std::int64_t outside[] = {-1, 23, std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 32};
  if (bad) ids[random % ids.size()] = outside[random / 8 % std::size(outside)];
  return ids;
}
std::vector<float> const word_rows(15, 0.25f), hidden_gradient(37, 0.125f), short_gradient(36, 0.125f);
std::vector<double> const bias_gradient(11, 1.0), long_gradient(12, 1.0);
std::vector<std::int32_t> const exact_ids{16, 0, 0};

void step_hidden(AnyModel& m) { m.session.step(grad(m.hidden, hidden_gradient)); }
void step_both(AnyModel& m) { m.session.step(grad(m.hidden, hidden_gradient), grad(m.bias, bias_gradient)); }

std::vector<Fault> const faults{
    {"a bad id in a pull", {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto const ids = word_ids(bad, random);
       return answer_of([&] { auto const rows = m.session.pull(m.words, ids); });
     }},
    {"a bad id in the second table of a pull", {px::Errc::bad_id, "pull", "exact", "index 17 at position 0"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<std::int32_t> const ids{bad ? 17 : 16};
       return answer_of([&] { auto const rows = m.session.pull(m.words.at(word_ids(false, 0)), m.exact.at(ids)); });
     }},
    {"a bad id in a pull while updates are started", {px::Errc::bad_id, "pull", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto const ids = word_ids(bad, random);
       m.session.poll();
       auto const answer = answer_of([&] { auto const rows = m.session.pull(m.words, ids); });
       m.session.poll();
       return answer;
     }, true},
    {"a bad id in an update by indices", {px::Errc::bad_id, "step", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       auto const ids = word_ids(bad, random);
       return answer_of([&] { m.session.step(grad(m.words, ids, word_rows)); });
     }},
    {"a bad id in a started update", {px::Errc::bad_id, "step", "words", "is outside [0, 23)"},
     [](AnyModel& m, bool bad, std::uint64_t random) {
       m.session.start(grad(m.bias, bias_gradient));
       m.session.start(grad(m.words, word_ids(bad, random), word_rows));
       m.session.poll();
       return answer_of([&] { step_hidden(m); });
     }},
    {"a dense gradient of a wrong size", {px::Errc::invalid_argument, "step", "hidden", "36 elements for a variable of 37"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] { m.session.step(grad(m.hidden, bad ? short_gradient : hidden_gradient)); });
     }},
    {"a started gradient of a wrong size", {px::Errc::invalid_argument, "step", "bias", "12 elements for a variable of 11"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       m.session.start(grad(m.bias, bad ? long_gradient : bias_gradient));
       return answer_of([&] { step_hidden(m); });
     }},
    {"too few rows for a pull", {px::Errc::invalid_argument, "step", "words", "gradient rows of 4 x 3 for 5 x 3"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto const rows = m.session.pull(m.words, word_ids(false, 0));
       std::vector<float> const gradient(bad ? 12 : 15, 1.0f);
       return answer_of([&] { m.session.step(grad(m.bias, bias_gradient), grad(rows, gradient)); });
     }},
    {"rows that do not divide", {px::Errc::invalid_argument, "step", "words", "gradient rows of ? x 3"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<float> const gradient(bad ? 14 : 15, 1.0f);
       return answer_of([&] { m.session.step(grad(m.words, word_ids(false, 0), gradient)); });
     }},
    {"a transform that throws", {px::Errc::user_exception, "step", "hidden", "the gradient looks odd"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(grad(m.bias, bias_gradient), grad(m.hidden, hidden_gradient).transform([bad](auto) {
           if (bad) throw std::runtime_error{"the gradient looks odd"};
         }), grad(m.words, word_ids(false, 0), word_rows));
       });
     }},
    {"a transform that throws no std::exception", {px::Errc::user_exception, "step", "words", "no std::exception"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(grad(m.words, word_ids(false, 0), word_rows).transform([bad](auto) {
           if (bad) throw 42;
         }), grad(m.bias, bias_gradient));
       });
     }},
    {"a transform that throws in a started update", {px::Errc::user_exception, "step", "bias", "not today\nnor tomorrow"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       m.session.start(grad(m.bias, bias_gradient).transform([bad](auto) {
         if (bad) throw std::runtime_error{"not today\nnor tomorrow"};
       }));
       return answer_of([&] { m.session.step(grad(m.hidden, hidden_gradient)); });
     }},
    {"a transform that throws an Error of its own", {px::Errc::invalid_argument, "clipping", "w", "too large"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(grad(m.whole, std::vector{1, 1, 2}, std::vector<double>(6)).transform([&](auto) {
           if (bad) throw px::Error{px::Errc::invalid_argument, m.rank(), "clipping", "w", "too large"};
         }));
       });
     }},
    {"another learning rate", {px::Errc::mismatch, "step", "hidden", "update"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       double const rate = m.hidden.optimizer().learning_rate;
       if (bad) m.hidden.optimizer().learning_rate = std::nextafter(rate, 1.0);
       auto const answer = answer_of([&] { step_both(m); });
       m.hidden.optimizer().learning_rate = rate;
       return answer;
     }},
    {"another learning rate after a start", {px::Errc::mismatch, "step", "exact", "Adam{.learning_rate = 0.5, .beta1 = "},
     [](AnyModel& m, bool bad, std::uint64_t) {
       double const rate = m.exact.optimizer().learning_rate;
       m.session.start(grad(m.exact, exact_ids, std::vector<double>(6, 1.0)));
       if (bad) m.exact.optimizer().learning_rate = 0.5;
       auto const answer = answer_of([&] { step_hidden(m); });
       m.exact.optimizer().learning_rate = rate;
       return answer;
     }},
    {"updates in another order", {px::Errc::mismatch, "step", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) m.session.step(grad(m.bias, bias_gradient), grad(m.hidden, hidden_gradient));
         else step_both(m);
       });
     }},
    {"a missing update", {px::Errc::mismatch, "step", "bias", "nothing"},
     [](AnyModel& m, bool bad, std::uint64_t) { return answer_of([&] { bad ? step_hidden(m) : step_both(m); }); }},
    {"another variable started", {px::Errc::mismatch, "step", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       if (bad) m.session.start(grad(m.hidden, hidden_gradient));
       else m.session.start(grad(m.bias, bias_gradient));
       return answer_of([&] { m.session.step(grad(m.words, word_ids(false, 0), word_rows)); });
     }},
    {"a pull where others step", {px::Errc::mismatch, "", "", ""},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (!bad) return step_both(m);
         auto const rows = m.session.pull(m.words, word_ids(false, 0));
       });
     }},
    {"a pull where others step what they started", {px::Errc::mismatch, "", "", ""},
     [](AnyModel& m, bool bad, std::uint64_t) {
       m.session.start(grad(m.bias, bias_gradient));
       return answer_of([&] {
         if (!bad) return step_hidden(m);
         auto const rows = m.session.pull(m.words, word_ids(false, 0));
       });
     }},
    {"a finish where others step", {px::Errc::mismatch, "", "", ""},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] { bad ? void(m.session.finish()) : step_both(m); });
     }},
    {"another table pulled", {px::Errc::mismatch, "pull", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) auto const rows = m.session.pull(m.exact, exact_ids);
         else auto const rows = m.session.pull(m.words, word_ids(false, 0));
       });
     }},
    {"fewer tables pulled", {px::Errc::mismatch, "pull", "exact", "nothing"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) auto const rows = m.session.pull(m.words.at(exact_ids));
         else auto const rows = m.session.pull(m.words.at(exact_ids), m.exact.at(exact_ids));
       });
     }},
    {"rows by index where others have a pull", {px::Errc::mismatch, "step", "words", "rows by index"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto const ids = word_ids(false, 0);
       auto const rows = m.session.pull(m.words, ids);
       return answer_of([&] {
         if (bad) m.session.step(grad(m.words, ids, word_rows));
         else m.session.step(grad(rows, word_rows));
       });
     }},
    {"another limit of the norm", {px::Errc::mismatch, "step", "hidden", "clipped to 1.0000000000000002"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         m.session.step(px::clip_by_global_norm(bad ? std::nextafter(1.0, 2.0) : 1.0, grad(m.hidden, hidden_gradient)));
       });
     }},
    {"another variable broadcast", {px::Errc::mismatch, "broadcast", "", "has «"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] { bad ? m.session.broadcast(m.hidden) : m.session.broadcast(m.copy); });
     }},
    {"other fusion options", {px::Errc::mismatch, "step", "", "options {"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       if (bad) m.session.options().fusion.direct_bytes = 16;
       auto const answer = answer_of([&] { step_both(m); });
       m.session.options().fusion = {};
       return answer;
     }},
    {"a batch named ahead that one rank pulls twice", {px::Errc::misuse, "pull", "", "this batch was pulled before"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto next = m.session.prefetch(m.words, word_ids(false, 0));
       auto const rows = m.session.pull(std::move(next));
       return answer_of([&] {
         if (!bad) return step_both(m);
         auto const again = m.session.pull(std::move(next));
       });
     }},
    {"replicas that do not begin alike", {px::Errc::mismatch, "step", "fresh", "first values of checksum"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       std::vector<float> memory(4, bad ? 2.0f : 1.0f);
       px::Variable<px::Dense> fresh{m.session, "fresh", px::bind(memory)};
       return answer_of([&] { m.session.step(grad(m.bias, bias_gradient), grad(fresh, std::vector<float>(4, 1.0f))); });
     }},
    {"a join that calls nothing", {px::Errc::misuse, "join", "", "called no operation of the session"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] { bad ? m.session.join([] {}) : step_both(m); });
     }},
    {"a join that calls nothing where others pull", {px::Errc::misuse, "join", "", "called no operation of the session"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) m.session.join([] {});
         else auto const rows = m.session.pull(m.words, word_ids(false, 0));
       });
     }},
    {"the gradient of an empty handle", {px::Errc::misuse, "step", "", "a handle is empty"},
     [](AnyModel& m, bool bad, std::uint64_t) {
       auto rows = m.session.pull(m.words, word_ids(false, 0));
       auto const moved = std::move(rows);
       return answer_of([&] {
         m.session.step(grad(m.bias, bias_gradient), px::clip_by_global_norm(1.0, grad(bad ? rows : moved, word_rows)));
       });
     }},
    {"updates of one variable in two clip groups", {px::Errc::misuse, "step", "hidden", "different clip groups", false},
     [](AnyModel& m, bool, std::uint64_t) {
       return answer_of([&] {
         m.session.step(px::clip_by_global_norm(1.0, grad(m.hidden, hidden_gradient)), grad(m.bias, bias_gradient),
                        grad(m.hidden, hidden_gradient));
       });
     }},
};

}  // namespace

std::vector<std::size_t> plan_of(std::uint64_t seed) {
  std::vector<std::size_t> plan(faults.size());
  for (std::size_t i = 0; i < plan.size(); ++i) plan[i] = i;
  std::shuffle(plan.begin(), plan.end(), std::mt19937_64{seed + 1});
  return plan;
}

Job train(px::Topology<px::AnyCommunicator> const& topology, std::uint64_t seed, std::vector<std::size_t> const& plan,
          bool with_faults) {
  int const rank = topology.rank(), ranks = topology.size();
  Job job;
  AnyModel m{topology};
  m.train(seed, 0);
  std::mt19937_64 random{seed};  // alike on all ranks
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Fault const& fault = faults[plan[i]];
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
    Fault const& fault = faults[plan[i]];
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
    if (fault.expected.culprit) CHECK(first.rank == (no_majority ? 1 : culprit));
    else CHECK(first.rank == -1);
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
