// Every allocation of a session fails once: each rank is told, no bit changes, and the session goes on or says that it cannot.
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../support/allocation_counter.hpp"
#include "model.hpp"

namespace parallax_test::memory {
namespace {

using px::grad;

using ThreadModel = Model<px::ThreadCommunicator>;

// What one rank brings to an operation, made before allocations fail.
struct Material {
  explicit Material(int rank, std::size_t n) {
    Batch batch{4, rank, static_cast<int>(n)};
    auto const fill = [&](auto& ids, std::int64_t rows) {
      for (std::size_t i = 0; i < n; ++i) {
        auto const value = static_cast<std::int64_t>(i * 7 + static_cast<std::size_t>(rank)) % rows;
        ids.push_back(static_cast<typename std::remove_cvref_t<decltype(ids)>::value_type>(value));
      }
    };
    fill(words, 23), fill(exact, 17), fill(copy, 13), fill(whole, 9), fill(naive, 8);
    word_rows = batch.values<float>(n * 3);
    exact_rows = batch.values<double>(n * 2);
    copy_rows = batch.values<float>(n * 2);
    whole_rows = batch.values<double>(n * 2);
    naive_rows = batch.values<float>(n);
    hidden = batch.values<float>(37);
    bias = batch.values<double>(11);
  }
  std::vector<std::int64_t> words, copy;
  std::vector<std::int32_t> exact, whole, naive;
  std::vector<float> word_rows, copy_rows, naive_rows, hidden;
  std::vector<double> exact_rows, whole_rows, bias;
};

struct Operation {
  std::string name;
  bool changes;  // parameters, where it succeeds
  void (*run)(ThreadModel& m, Material const& a);
};

std::vector<Operation> const operations{
    {"pull", false,
     [](ThreadModel& m, Material const& a) {
       auto const rows = m.session.pull(m.words.at(a.words), m.exact.at(a.exact), m.copy.at(a.copy));
     }},
    {"step", true,
     [](ThreadModel& m, Material const& a) {
       m.session.step(px::clip_by_global_norm(0.5, grad(m.hidden, a.hidden), grad(m.words, a.words, a.word_rows)),
                      grad(m.exact, a.exact, a.exact_rows), grad(m.copy, a.copy, a.copy_rows), grad(m.bias, a.bias),
                      grad(m.whole, a.whole, a.whole_rows), grad(m.naive, a.naive, a.naive_rows),
                      grad(m.copy, a.copy, a.copy_rows));
     }},
    {"start and step", true,
     [](ThreadModel& m, Material const& a) {
       m.session.start(grad(m.bias, a.bias));
       m.session.start(grad(m.words, a.words, a.word_rows), grad(m.copy, a.copy, a.copy_rows));
       m.session.poll();
       m.session.step(grad(m.hidden, a.hidden), grad(m.words, a.words, a.word_rows));
     }},
};

struct Seen {
  bool happened = false, unchanged = false;
  Answer answer, again;
  std::uint64_t hash = 0;
};

// Runs the operation with the k-th allocation on `culprit` failing (k < 0: none), and once more if it was refused.
std::vector<Seen> run(int ranks, int culprit, Operation const& operation, bool warm, std::int64_t k,
                      px::Topology<px::ThreadCommunicator> (*topology)(px::ThreadCommunicator&)) {
  Meeting meeting{ranks};
  return on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    ThreadModel m{topology(world)};
    Material const some{world.rank(), 9}, more{world.rank(), 300};
    if (warm)
      for (Operation const& earlier : operations) earlier.run(m, some);
    std::uint64_t const before = m.hash();
    Seen seen;
    meeting.wait();
    seen.answer = answer_of([&] {
      FailingAllocation failing{world.rank() == culprit ? k : -1};
      struct Note {
        FailingAllocation& failing;
        bool& happened;
        ~Note() { happened = failing.happened(); }
      } const note{failing, seen.happened};
      operation.run(m, more);
    });
    seen.happened = seen.happened && world.rank() == culprit && k >= 0;
    seen.unchanged = m.hash() == before;
    if (k >= 0) seen.again = answer_of([&] { seen.answer.refused ? operation.run(m, more) : void(m.session.finish()); });
    seen.hash = m.hash();
    return seen;
  });
}

int failures = 0, refusals = 0, poisonings = 0;

void check(int ranks, int culprit, Operation const& operation, bool warm,
           px::Topology<px::ThreadCommunicator> (*topology)(px::ThreadCommunicator&)) {
  auto const undisturbed = run(ranks, culprit, operation, warm, -1, topology);
  for (std::int64_t k = 0;; ++k) {
    INFO("allocation " << k << " of " << operation.name << (warm ? ", warm," : ", cold,") << " on rank " << culprit << " of "
                       << ranks);
    REQUIRE(k < 2000);
    auto const seen = run(ranks, culprit, operation, warm, k, topology);
    Seen const& one = seen[static_cast<std::size_t>(culprit)];
    if (!one.happened) {
      for (std::size_t rank = 0; rank < seen.size(); ++rank) CHECK(seen[rank].hash == undisturbed[rank].hash);
      return;
    }
    ++failures;
    INFO(one.answer.what << " / " << one.again.what);
    CHECK(one.answer.code == px::Errc::out_of_memory);
    CHECK(one.answer.rank == culprit);
    bool const poisoned = one.again.code == px::Errc::poisoned;
    ++(poisoned ? poisonings : refusals);
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
      INFO("rank " << rank << ": " << seen[rank].answer.what << " / " << seen[rank].again.what);
      CHECK(seen[rank].unchanged);
      if (poisoned) {  // what does not depend on the culprit may still succeed; the next call does not
        CHECK((seen[rank].answer == one.answer || seen[rank].again == one.answer));
      } else {
        CHECK(seen[rank].answer == one.answer);
        CHECK_FALSE(seen[rank].again.refused);
        CHECK(seen[rank].hash == undisturbed[rank].hash);
      }
    }
  }
}

px::Topology<px::ThreadCommunicator> flat(px::ThreadCommunicator& world) { return px::Topology{world}; }
px::Topology<px::ThreadCommunicator> two_hosts(px::ThreadCommunicator& world) { return px::Topology{world, {0, 0, 1}}; }

}  // namespace

TEST_CASE("an allocation that fails is told to every rank and changes nothing", "[session][memory]") {
  bool const warm = GENERATE(false, true);
  for (Operation const& operation : operations) {
    check(2, 0, operation, warm, flat);
    check(3, 2, operation, warm, flat);
    check(3, 1, operation, warm, two_hosts);
  }
}

TEST_CASE("allocations failed at many points, and most failures were refusals", "[session][memory]") {
  INFO(failures << " failures: " << refusals << " refused, " << poisonings << " ended the session");
  CHECK(failures > 500);
  CHECK(refusals > poisonings);
}

}  // namespace parallax_test::memory
