// A variable's state, kept by an archive and given to a new variable of a new session: training goes on to the same bits.
#include "state.hpp"

#include <chrono>
#include <string>
#include <vector>

#include "../catch.hpp"

namespace px = parallax;
using namespace parallax_test::state;

TEST_CASE("training that goes on with another variable's state ends with the same bits, under every policy",
          "[variable][state]") {
  using C = px::ThreadCommunicator;
  for (int const ranks : {1, 3}) {
    CAPTURE(ranks);
    CHECK(complaint<DenseTraining<px::AllReduce, px::Adam, C>>(ranks) == "");
    CHECK(complaint<DenseTraining<px::PsShard, px::Adam, C>>(ranks) == "");
    CHECK(complaint<DenseTraining<px::PsShard, px::RowwiseAdagrad, C>>(ranks) == "");
    CHECK(complaint<SparseTraining<px::PsShard, px::Adam, C>>(ranks) == "");
    CHECK(complaint<SparseTraining<px::AllGather, px::Adam, C>>(ranks) == "");
    CHECK(complaint<SparseTraining<px::AllReduce, px::LazyAdam, C>>(ranks) == "");
    CHECK(complaint<SparseTraining<px::PsShard, px::Adam, C>>(ranks, {.settled = true}) == "");
    CHECK(complaint<SparseTraining<px::Auto, px::Adam, C>>(ranks) == "");
    CHECK(complaint<SparseTraining<px::Auto, px::Adam, C>>(ranks, {.choice = moving_after(12)}) == "");
  }
}

TEST_CASE("the state of a variable of one process goes to another session", "[variable][state]") {
  px::SelfCommunicator self;
  CHECK(complaint_on<SparseTraining<px::PsShard, px::WeightDecay<px::RowwiseAdagrad>, px::SelfCommunicator>>(self, {}) == "");
}

namespace {

// What an operation is refused with.
template <class F>
px::Error refusal(F&& f) {
  try {
    f();
  } catch (px::Error const& error) {
    return error;
  }
  return {px::Errc::poisoned, -2, "", "", "nothing was thrown"};
}

// Keeps a number of updates beside every element, by another name than others.
struct Counting {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, std::uint32_t>;
  static constexpr std::string_view name = "Counting";
  static constexpr std::string_view slot_names[] = {"sum", "updates"};
  double learning_rate = 1;

  auto at(std::int64_t) const {
    return [rate = learning_rate](auto& p, auto g, auto& sum, std::uint32_t& updates) noexcept {
      sum += g;
      ++updates;
      p -= static_cast<decltype(g)>(rate) * g;
    };
  }
};
// The same without names.
struct Nameless {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, std::uint32_t>;
  double learning_rate = 1;
  auto at(std::int64_t step) const { return Counting{learning_rate}.at(step); }
};

// What a policy might keep.
struct Kept {
  double residual = 0;
  template <class A>
  void visit(px::Items<A>& items) {
    items.number("policy.residual", residual);
  }
};

template <class O, class... More>
using Table = px::Variable<px::Sparse, O, More...>;

struct Solo {
  px::SelfCommunicator self;
  px::Session<px::SelfCommunicator> session{self};
};

std::vector<int> const ids{3, 1};
std::vector<float> const ones{1, 1, 1, 1};

}  // namespace

TEST_CASE("what a table has counted goes along with its state", "[variable][state]") {
  px::MemoryArchive archive;
  std::vector<int> const some_outside{0, -1, 2, 99};
  std::vector<float> const gradient(8, 1.0f);
  Solo solo;
  Table<px::Sgd> table{solo.session, "table", {4, 2}, px::BadIds::drop_and_count};
  solo.session.step(px::grad(table, some_outside, gradient));
  static_cast<void>(solo.session.pull(table, ids));
  table.visit(archive.writer());
  REQUIRE(table.dropped() == 2);
  Solo other;
  Table<px::Sgd> restored{other.session, "table", {4, 2}, px::BadIds::drop_and_count};
  restored.visit(archive.reader());
  CHECK(restored.dropped() == 2);
  CHECK(restored.steps() == 1);
  CHECK(restored.state().description().use.pushed == table.state().description().use.pushed);
  CHECK(restored.state().description().use.pulled == 2);
}

TEST_CASE("a table under Auto goes on with the use that was measured, and a search with its probes", "[variable][state]") {
  std::vector<std::string> said(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    std::string& mine = said[static_cast<std::size_t>(world.rank())];
    auto const check = [&](bool right, char const* what) { mine += right ? "" : std::string{what} + "; "; };
    px::MemoryArchive archive;
    std::vector<px::PieceSearch::Probe> probes;
    double pushed = 0;
    {
      SparseTraining<px::Auto, px::Adam, px::ThreadCommunicator> training{world, {.choice = moving_after(1'000)}, 0};
      training.session.search_pieces(training.variable, {.probes = 4, .steps = 3, .settling = 0});
      train(training, 0, 4);
      auto const& state = training.variable.state();
      pushed = state.chooser.use().pushed;
      probes.assign(state.search->probes().begin(), state.search->probes().end());
      check(probes.size() == 1 && state.partitioner().pieces == 8 && state.moves() == 1 && pushed > 0, "the search's way");
      training.variable.visit(archive.writer());
      training.session.finish();
    }
    SparseTraining<px::Auto, px::Adam, px::ThreadCommunicator> training{world, {.choice = moving_after(1'000)}, 0.5};
    training.variable.visit(archive.reader());
    auto const& state = training.variable.state();
    check(state.chooser.use().pushed == pushed && state.chooser.steps() == 4, "the use");
    check(state.partitioner().pieces == 8 && state.moves() == 1, "pieces or moves");
    check(static_cast<bool>(state.search) && state.search->steps() == 4 && state.search->pieces() == 8, "the search");
    check(state.search && state.search->probes().size() == 1 && state.search->probes()[0].pieces == probes[0].pieces &&
              state.search->probes()[0].seconds == probes[0].seconds, "the probes");
    train(training, 4, 6);  // one time was kept, so that the second probe ends with two more
    check(state.search->probes().size() == 2, "the times of a probe");
    training.session.finish();
  }, {.deadline = std::chrono::seconds{30}});
  CHECK(said == std::vector<std::string>(2));
}

TEST_CASE("slots have names, by which users read and set them", "[variable][state][slots]") {
  Solo solo;
  Table<px::Adam> table{solo.session, "table", {4, 2}};
  solo.session.step(px::grad(table, ids, ones));
  solo.session.step(px::grad(table, std::vector<int>{0}, std::vector<float>{1, 1}));
  auto const v = table.slot("v"), m = table.slot("m");
  CHECK((v.rows == 4 && v.width == 2));
  CHECK(m[1][0] == Approx(0.1 - 0.1 * 0.1));  // it was touched once, and passed by once
  CHECK(m[2][0] == 0);
  m[1][0] = 0;
  v[1][0] = 100;
  float const before = table.local()[1][0];
  solo.session.step(px::grad(table, ids, ones));
  CHECK(before - table.local()[1][0] < 1e-4f);  // its square is large now
  CHECK(table.slot("v")[1][0] > 99);

  std::vector<float> memory(6);
  px::Variable<px::Dense, px::Adam> dense{solo.session, "dense", px::bind(memory)};
  dense.slot("m")[5] = 2;
  CHECK(dense.slot("m").size() == 6);
  CHECK(dense.first_owned() == 0);
  solo.session.step(px::grad(dense, memory));
  CHECK(memory[5] < 0);
  CHECK(memory[4] == 0);
  px::Variable<px::Dense, px::WeightDecay<px::RowwiseAdagrad>> by_rows{solo.session, "by rows", px::bind(memory, 3)};
  CHECK(by_rows.slot("sum").size() == 2);
}

TEST_CASE("a slot under a name that there is not, or of another type, is refused", "[variable][state][slots]") {
  Solo solo;
  Table<Counting> table{solo.session, "table", {4, 2}};
  solo.session.step(px::grad(table, ids, ones));
  CHECK(table.slot<std::uint32_t>("updates")[3][1] == 1);
  px::Error const unknown = refusal([&] { table.slot("variance"); }), other = refusal([&] { table.slot("updates"); });
  CHECK(unknown.code() == px::Errc::invalid_argument);
  CHECK(unknown.variable() == "table");
  CHECK(unknown.detail() == "Counting has no slot 'variance'; its slots: sum, updates");
  CHECK(other.code() == px::Errc::invalid_argument);
  CHECK(other.detail() == "slot 'updates' is of u32, not of f32");
  Table<Nameless> nameless{solo.session, "nameless", {4, 2}};
  CHECK(nameless.slot<std::uint32_t>("slot1").width == 2);
  Table<px::Sgd> none{solo.session, "none", {4, 2}};
  CHECK(refusal([&] { none.slot("m"); }).detail() == "Sgd has no slot 'm'; its slots: none");
  Table<px::RowwiseAdagrad> by_rows{solo.session, "by rows", {4, 2}};
  CHECK(by_rows.slot("sum").width == 1);
}

TEST_CASE("an archive that holds something else is refused, by variable and item", "[variable][state]") {
  Solo solo;
  px::MemoryArchive archive;
  Table<px::Adam> table{solo.session, "table", {4, 2}};
  table.visit(archive.writer());
  auto const reading = [&](auto make) {
    Solo other;
    return refusal([&] { make(other.session).visit(archive.reader()); });
  };
  px::Error const shape = reading([](auto& session) { return Table<px::Adam>{session, "table", {5, 2}}; });
  CHECK(shape.code() == px::Errc::mismatch);
  CHECK(shape.variable() == "table");
  CHECK(shape.detail() == "item 'values': it is 4 x 2 of f32, not 5 x 2 of f32");
  CHECK(reading([](auto& session) { return Table<px::Adam, double>{session, "table", {4, 2}}; }).detail() ==
        "item 'values': it is 4 x 2 of f32, not 4 x 2 of f64");
  CHECK(reading([](auto& session) { return Table<px::AdamW>{session, "table", {4, 2}}; }).detail() ==
        "item 'optimizer.name': it is of 'Adam', not of 'AdamW'");
  CHECK(reading([](auto& session) { return Table<px::Adam, px::AllGather>{session, "table", {4, 2}}; }).detail() ==
        "item 'values': it is of other rows");
  px::Error const missing = reading([](auto& session) { return Table<px::Adam>{session, "another", {4, 2}}; });
  CHECK(missing.variable() == "another");
  CHECK(missing.detail() == "item 'optimizer.name.length': it was not kept");
  CHECK(reading([](auto& session) { return Table<px::Adam>{session, "table", {4, 2}}; }).detail() == "nothing was thrown");
}

TEST_CASE("an archive that is written again holds what was written last", "[variable][state]") {
  Solo solo, other;
  px::MemoryArchive archive;
  Table<px::Adam> table{solo.session, "table", {4, 2}};
  table.visit(archive.writer());
  std::size_t const items = archive.records().size();
  solo.session.step(px::grad(table, ids, ones));
  table.visit(archive.writer());
  CHECK(archive.records().size() == items);
  Table<px::Adam> restored{other.session, "table", {4, 2}};
  restored.visit(archive.reader());
  CHECK(restored.steps() == 1);
  CHECK(restored.local()[3][0] == table.local()[3][0]);
}

TEST_CASE("what a policy keeps of a variable is shown with it", "[variable][state]") {
  struct State {
    Kept policy_state;
  } kept{{0.25}}, restored;
  struct Nothing {
  } nothing;
  px::MemoryArchive archive;
  auto writer = archive.writer();
  auto reader = archive.reader();
  px::Items writing{writer, "variable"};
  px::Items reading{reader, "variable"};
  px::visit_policy_state(writing, kept);
  px::visit_policy_state(writing, nothing);
  px::visit_policy_state(reading, restored);
  CHECK(restored.policy_state.residual == 0.25);
  CHECK(archive.records().size() == 1);
}
