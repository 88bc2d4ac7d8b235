// Steps that are captured once and replayed: the bits of steps that are taken, with other ids, counts, gradients and settings in each;
// and what is told of steps that cannot be captured.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "communicators.hpp"
#include "deferred.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"
#include "parallax/session/capture.hpp"
#include "parallax/variable/memory_archive.hpp"
#include "parallax/variable/stack.hpp"

namespace {

namespace px = parallax;
using parallax_test::Memory, parallax_test::values_of;
using Ops = px::RowOps<px::CudaSpace>;

constexpr std::int64_t rows = 97, width = 4;
constexpr std::size_t ids_of_batch = 60, bags = 12, weights = 50;

// A trainer's kernel: the gradient of an id's row is that row times a factor.
__global__ void row_gradients(px::RowsView<float const> values, std::uint32_t const* inverse, float const* factors,
                              std::size_t ids, float* gradient) {
  for (std::uint64_t e = px::device::detail::thread_number(); e < ids * width; e += px::device::detail::thread_count())
    gradient[e] = values.data[inverse[e / width] * width + e % width] * factors[e / width];
}

struct Seen {
  std::vector<std::vector<float>> steps;  // what all memory holds behind each step
  std::vector<std::int64_t> counts;       // of steps, of the session and of variables, likewise
  std::uint64_t sent = 0, dropped = 0;
};

void append(std::vector<float>& to, std::vector<float> const& from) { to.insert(to.end(), from.begin(), from.end()); }

// A table of rows, a stack in bags, and two dense variables: pulled, differentiated by a kernel, and updated together. Ids, where bags
// begin, gradients, and rates are others in every step.
template <class Communicator>
Seen train(Communicator& world, bool captures, int count, std::uint64_t seed) {
  px::Session session{world, px::SessionOptions{.non_finite = px::NonFinite::propagate}};
  Ops const ops{world.queue()};
  px::Variable<px::Sparse, px::CudaSpace, px::LazyAdam> words{session, "words", px::Table{rows, width, px::uniform(-1, 1)},
                                                              px::BadIds::drop_and_count, px::Padded{97}};
  px::Variable<px::Sparse, px::CudaSpace, px::Adam> exact{session, "exact", px::Table{rows, width, px::uniform(-1, 1)},
                                                          px::BadIds::drop_and_count, px::Padded{97}};
  px::Variable<px::Sparse, px::CudaSpace, px::RowwiseAdagrad> fields{
      session, "fields", px::Stack{{{20, width, px::uniform(-1, 1)}, {30, width, px::uniform(-1, 1)}}}, px::Padded{50}};
  Memory<float, px::CudaSpace> layer_memory{ops, std::vector<float>(weights, 1)},
      head_memory{ops, std::vector<float>(weights, 2)};
  px::Variable<px::Dense, px::CudaSpace, px::Adam> layer{session, "layer", px::bind(layer_memory.span())};
  px::Variable<px::Dense, px::CudaSpace, px::PsShard, px::Adagrad> head{session, "head", px::bind(head_memory.span())};

  Memory<std::int64_t, px::CudaSpace> ids{ops, std::vector<std::int64_t>(ids_of_batch)}, of_bags{ops, ids.read()},
      offsets{ops, std::vector<std::int64_t>(2 * bags + 1)};
  Memory<float, px::CudaSpace> factors{ops, std::vector<float>(ids_of_batch)},
      gradient{ops, std::vector<float>(ids_of_batch * width)}, of_exact{ops, gradient.read()},
      of_fields{ops, std::vector<float>(2 * bags * width)}, of_layer{ops, std::vector<float>(weights)},
      of_head{ops, std::vector<float>(weights)};
  std::mt19937_64 random{seed * 100 + static_cast<std::uint64_t>(world.rank())};
  auto const draw = [&](Memory<float, px::CudaSpace>& memory) {
    std::vector<float> values(memory.span().size());
    for (float& value : values) value = static_cast<float>(random() % 1000) / 250 - 2;
    memory.write(values);
  };
  auto const draw_all = [&] {
    std::vector<std::int64_t> drawn(ids_of_batch);
    std::int64_t const bound =
        1 + static_cast<std::int64_t>(random() % (rows + 40));  // few distinct ones, or many, or bad ones
    for (auto& id : drawn) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
    ids.write(drawn);
    for (auto& id : drawn) id = static_cast<std::int64_t>(random() % 20);
    of_bags.write(drawn);
    std::vector<std::int64_t> begins(2 * bags + 1);
    for (auto& begin : begins) begin = static_cast<std::int64_t>(random() % (ids_of_batch + 1));
    begins.front() = 0, begins.back() = ids_of_batch;
    std::sort(begins.begin(), begins.end());
    offsets.write(begins);
    for (auto* const memory : {&factors, &of_fields, &of_layer, &of_head}) draw(*memory);
  };
  auto const step = [&] {
    auto const [pulled, of_all_steps, pooled] =
        session.pull(words.at(px::on_device(ids.span())), exact.at(px::on_device(ids.span())),
                     fields.bags(px::on_device(of_bags.span()), px::on_device(offsets.span()), px::on_device(factors.span())));
    px::device::launch(world.queue().stream, 2, 64, 0, row_gradients, pulled.values(), pulled.inverse().data(),
                       factors.span().data(), ids_of_batch, gradient.span().data());
    px::device::launch(world.queue().stream, 2, 64, 0, row_gradients, of_all_steps.values(), of_all_steps.inverse().data(),
                       factors.span().data(), ids_of_batch, of_exact.span().data());
    session.step(px::grad(of_all_steps, of_exact.span()), px::grad(pulled, gradient.span()),
                 px::grad(words, px::on_device(ids.span()), gradient.span()), px::grad(layer, of_layer.span()),
                 px::grad(pooled, of_fields.span()), px::grad(head, of_head.span()));
  };
  std::optional<px::CapturedStep> captured;
  Seen seen;
  for (int number = 0; number < count; ++number) {
    draw_all();
    words.optimizer().learning_rate = 0.05 / (1 + number % 7);
    exact.optimizer().learning_rate = 0.01 * (1 + number % 5);
    layer.optimizer().learning_rate = 0.02 * (1 + number % 3);
    head.optimizer().learning_rate = 0.5 / (1 + number);
    if (!captures || number < 2) step();
    else if (!captured) captured.emplace(px::capture(session, step));
    else captured->replay();
    std::vector<float> all;
    for (auto const& values :
         {values_of(ops, words.local()), values_of(ops, fields.local()), layer_memory.read(), head_memory.read(),
          gradient.read(), of_exact.read(), values_of(ops, words.template slot<float>("m"))})
      append(all, values);
    if (number % 10 == 9) append(all, values_of(ops, exact.local()));  // which brings all rows up to date
    seen.steps.push_back(std::move(all));
    seen.counts.push_back(session.steps() + words.state().steps() + fields.state().steps() + layer.state().steps() +
                          exact.state().steps());
  }
  auto const done = session.finish();
  seen.sent = done.records[static_cast<std::size_t>(world.rank())].sent;
  seen.dropped = words.dropped();
  return seen;
}

void check(communicators::NcclThreads const& ranks, int steps, std::uint64_t seed) {
  auto const n = static_cast<std::size_t>(ranks.ranks);
  std::vector<Seen> expected(n), found(n);
  for (bool const captures : {false, true})
    ranks.run(std::chrono::minutes{1}, [&](auto& world) {
      (captures ? found : expected)[static_cast<std::size_t>(world.rank())] = train(world, captures, steps, seed);
    });
  for (std::size_t rank = 0; rank < n; ++rank) {
    REQUIRE(found[rank].steps.size() == expected[rank].steps.size());
    for (std::size_t step = 0; step < found[rank].steps.size(); ++step) {
      CAPTURE(n, rank, step);
      auto const &a = found[rank].steps[step], &b = expected[rank].steps[step];
      REQUIRE(a.size() == b.size());
      REQUIRE(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    }
    CHECK(found[rank].counts == expected[rank].counts);
    CHECK(found[rank].sent == expected[rank].sent);
    CHECK(found[rank].dropped == expected[rank].dropped);
    CHECK(found[rank].dropped > 0);
    CHECK(found[rank].steps.front() != found[rank].steps.back());
  }
}

}  // namespace

TEST_CASE("a step that is captured once and replayed 50 times has the bits of steps that are taken", "[cuda][capture]") {
  std::uint64_t const first = emulated::first_seed("capture");
  for (std::uint64_t seed = first; seed < first + 2; ++seed) {
    INFO("PARALLAX_SEED=" << seed);
    emulated::Deferred const deferred{seed};
    for (int const ranks : {1, 2}) check(communicators::NcclThreads{ranks}, 53, seed);
    check(communicators::NcclThreads{2, true, false}, 12, seed);
    check(communicators::NcclThreads{2, false}, 12, seed);
  }
}

namespace {

// Adam, whose rules are few on a device before rows are settled for their sake.
struct Swept {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, px::scalar>;
  static constexpr std::string_view name = "Swept";
  static constexpr px::Untouched untouched = px::Untouched::moves;
  double learning_rate = 0.001;
  px::Adam::Rule at(std::int64_t step) const { return px::Adam{learning_rate}.at(step); }
};

}  // namespace

template <>
inline constexpr std::size_t parallax::most_note_bytes<Swept> = 4'000;

namespace {

// Steps of a table of exact Adam, begun elsewhere: most rows are named now and then, row 0 once in 1300 steps, and settings change
// now and then, at last in every step. Returns what is kept, rows as they lie, or, where no step is taken, all up to date. `at` shows ids as the table
// takes them.
template <class O, class Space, class At, class C, class... Padded>
px::MemoryArchive train_on(C& world, px::RowOps<Space> const& ops, bool captures, px::MemoryArchive const& begun, int from,
                           int to, At const& at, Padded... padded) {
  constexpr std::int64_t narrow = 3;
  px::Session<C> session{world, px::SessionOptions{.non_finite = px::NonFinite::propagate}};
  px::Variable<px::Sparse, O, Space> words{session, "words", px::Table{12, narrow, px::uniform(-1, 1)}, padded...};
  if (!begun.records().empty()) words.visit(begun.reader());
  Memory<int, Space> ids{ops, std::vector<int>(2)};
  Memory<float, Space> gradient{ops, std::vector<float>(2 * narrow)};
  auto const step = [&] { session.step(px::grad(words, at(ids), gradient.span())); };
  std::optional<px::CapturedStep> captured;
  for (int number = from; number < to; ++number) {
    ids.write({number % 1300 == 1 ? 0 : 1 + number % 11, 1 + number / 7 % 11});
    std::vector<float> values(2 * narrow);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(number % 13) / 4 - static_cast<float>(i);
    gradient.write(values);
    words.optimizer().learning_rate = number < 1310 ? 0.01 + number / 10 * 1e-4 : 1.0 / number;
    if (captured) captured->replay();
    else if (number < from + 2) step();
    else if constexpr (!Space::host_readable) captures ? captured.emplace(px::capture(session, step)), void() : step();
    else step();
  }
  if (from == to) words.local();
  px::MemoryArchive archive;
  words.visit(archive.writer());
  session.finish();
  return archive;
}

}  // namespace

TEMPLATE_TEST_CASE("rows stay behind for long, and are swept, in graphs and without, and have the bits of the host",
                   "[cuda][capture]", px::Adam, Swept) {
  using O = TestType;
  px::MemoryArchive const nothing;
  auto const on_host = [&](px::MemoryArchive const& begun, int from, int to) {
    px::MemoryArchive kept;
    px::run_threads(1, [&](px::ThreadCommunicator& world) {
      kept = train_on<O, px::HostSpace>(world, px::RowOps<px::HostSpace>{}, false, begun, from, to,
                                        [](auto& ids) { return ids.span(); });
    });
    return kept;
  };
  auto const on_device = [&](bool captures, px::MemoryArchive const& begun, int from, int to) {
    px::MemoryArchive kept;
    communicators::NcclThreads{1}.run(std::chrono::minutes{2}, [&](auto& world) {
      kept = train_on<O, px::CudaSpace>(
          world, Ops{world.queue()}, captures, begun, from, to, [](auto& ids) { return px::on_device(ids.span()); },
          px::Padded{12});
    });
    return kept;
  };
  auto const values = [](px::MemoryArchive const& archive) {
    std::vector<std::vector<std::byte>> all;
    for (auto const& record : archive.records())
      if (record.name == "values" || record.name.starts_with("slot")) all.push_back(record.bytes);
    return all;
  };
  auto const settled_by_host = [&](px::MemoryArchive const& archive) { return values(on_host(archive, 1620, 1620)); };
  auto const expected = on_host(nothing, 0, 1620);
  for (bool const captures : {false, true}) {
    CAPTURE(captures);
    auto const whole = on_device(captures, nothing, 0, 1620);
    auto const later = on_device(captures, on_host(nothing, 0, 1150), 1150, 1620);  // of rows that the host left behind
    CHECK(settled_by_host(whole) == settled_by_host(expected));
    CHECK(settled_by_host(later) == settled_by_host(expected));
  }
}

namespace {

using Words = px::Variable<px::Sparse, px::CudaSpace, px::Adagrad>;
constexpr px::SessionOptions propagates{.non_finite = px::NonFinite::propagate};

// What `call` is refused with, or "no error".
template <class Call>
std::string told(Call&& call) {
  try {
    call();
    return "no error";
  } catch (px::Error const& error) {
    return error.what();
  }
}

// A padded table, its ids and gradients, and a step of it.
template <class Session>
struct Trainer {
  explicit Trainer(Session& of, auto const& queue)
      : session{of}, ops{queue}, words{of, "words", {rows, width, px::uniform(-1, 1)}, px::Padded{50}} {}

  void step() { session.step(px::grad(session.pull(words, px::on_device(ids.span())), gradient.span())); }
  std::vector<float> values() { return values_of(ops, words.local()); }

  Session& session;
  Ops ops;
  Words words;
  Memory<int, px::CudaSpace> ids{ops, {3, 1, 3, 96}};
  Memory<float, px::CudaSpace> gradient{ops, std::vector<float>(4 * width, 1)};
};

// Calls the body on two ranks, with a session and a trainer, and what that has.
template <class Body>
void with_trainers(Body const& body) {
  communicators::NcclThreads{2}.run(std::chrono::minutes{1}, [&](auto& world) {
    px::Session session{world, propagates};
    Trainer trainer{session, world.queue()};
    body(world, session, trainer, std::as_const(trainer.ops), trainer.words, trainer.ids, trainer.gradient);
  });
}

}  // namespace

TEST_CASE("a step that cannot be captured says why, on all ranks, and the next one can be", "[cuda][capture]") {
  std::vector<std::vector<std::string>> errors(2);
  std::vector<std::vector<float>> before(2), after(2);
  with_trainers([&](auto& world, auto& session, auto& trainer, auto const& ops, auto& words, auto& ids, auto& gradient) {
    auto const rank = static_cast<std::size_t>(world.rank());
    Words plain{session, "plain", {rows, width}};
    px::Variable<px::Sparse, px::CudaSpace, px::Adam> exact{session, "exact", {rows, width}};
    Memory<float, px::CudaSpace> of_layer{ops, std::vector<float>(4 * width)};
    px::Variable<px::Dense, px::CudaSpace, px::Sgd> layer{session, "layer", px::bind(of_layer.span())};
    trainer.step();
    before[rank] = trainer.values();
    auto const indices = px::on_device(ids.span());
    auto const attempt = [&](auto&& body) {
      errors[rank].push_back(told([&] { static_cast<void>(px::capture(session, body)); }));
    };
    attempt([&] { session.step(px::grad(plain, indices, gradient.span())); });
    attempt([&] { session.step(px::grad(session.pull(exact, indices), gradient.span())); });
    attempt([&] { session.step(px::grad(session.pull(words, std::vector<int>{1}), gradient.span().first(width))); });
    attempt([&] { session.step(px::clip_by_global_norm(1.0, px::grad(layer, gradient.span()))); });
    attempt([&] {
      session.step(px::grad(words, indices, gradient.span()).transform([](auto const& rows_of_all) {
        static_cast<void>(rows_of_all.ids.size());
      }));
    });
    attempt([&] { static_cast<void>(session.pull(words, indices)); });
    attempt([&] { session.step(); });
    attempt([&] {
      session.start(px::grad(layer, gradient.span()));
      session.step();
    });
    attempt([&] { static_cast<void>(px::capture(session, [&] { trainer.step(); })); });
    world.queue().caller->follow(px::CudaStream{}.get());
    px::CudaStream const other;
    world.queue().caller->follow(other.get());
    attempt([&] { trainer.step(); });
    world.queue().caller->follow(world.queue().stream);
    session.start(px::grad(layer, gradient.span()));
    attempt([&] { trainer.step(); });
    session.step();
    try {
      static_cast<void>(px::capture(session, [] { throw std::runtime_error{"a word of the body"}; }));
    } catch (std::runtime_error const& error) {
      errors[rank].emplace_back(error.what());
    }
    after[rank] = trainer.values();
    attempt([&] { trainer.step(); });
    session.finish();
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    auto const& texts = errors[rank];
    CHECK(after[rank] == before[rank]);
    CHECK(texts == errors[0]);
    std::size_t at = 0;
    auto const next = [&](std::string const& said) {
      REQUIRE(at < texts.size());
      CHECK_THAT(texts[at++], parallax_test::contains(said));
    };
    std::string const padded =
        "only batches of padded tables are captured, see px::Padded: for others the host waits for each rank's count of rows";
    next("in step of 'plain': " + padded);
    next("in pull of 'exact': " + padded);
    next("a padded table is indexed on its device: px::on_device(ids)");
    next("in step of 'layer': a step that clips is not captured: the host forms the norm of its gradients");
    next("in step of 'words': a transform of rows is not captured: the host brings their numbers to it");
    next("in capture: the body that is to be captured takes no step");
    next("in step: a step without updates is not captured");
    next("in step: updates that were started are not captured");
    next("in capture: another step is being captured");
    next("in capture: what is captured is put in the queue's own stream, and its caller follows another one");
    next("in capture: updates were started and no step completed them");
    next("a word of the body");
    next("no error");
  }
  std::vector<std::string> others;
  communicators::NcclThreads{1}.run(std::chrono::minutes{1}, [&](auto& world) {
    px::Session session{world, px::SessionOptions{.non_finite = px::NonFinite::error}};
    others.push_back(told([&] { static_cast<void>(px::capture(session, [] {})); }));
    px::Session fresh{world, propagates};
    Trainer trainer{fresh, world.queue()};
    others.push_back(told([&] { static_cast<void>(px::capture(fresh, [&] { trainer.step(); })); }));
  });
  communicators::CudaThreads{1}.run(std::chrono::minutes{1}, [&](auto& world) {
    px::Session session{world, propagates};
    others.push_back(told([&] { static_cast<void>(px::capture(session, [] {})); }));
  });
  REQUIRE(others.size() == 3);
  CHECK_THAT(others[0], parallax_test::contains("a captured one wants NonFinite::propagate"));
  CHECK_THAT(others[1], parallax_test::contains("what is captured cannot wait for the device, or bring it what the host has"));
  CHECK_THAT(others[2], parallax_test::contains("only steps over NcclCommunicator are captured"));
}

TEST_CASE("a body that goes on behind its step and fails ends the session", "[cuda][capture]") {
  std::vector<std::vector<std::string>> errors(2);
  communicators::NcclThreads{2}.run(std::chrono::minutes{1}, [&](auto& world) {
    auto& mine = errors[static_cast<std::size_t>(world.rank())];
    px::Session session{world, propagates};
    Trainer trainer{session, world.queue()};
    trainer.step();
    mine.push_back(told([&] {
      static_cast<void>(px::capture(session, [&] {
        trainer.step();
        trainer.step();
      }));
    }));
    mine.push_back(told([&] { trainer.step(); }));
  });
  for (auto const& texts : errors) {
    REQUIRE(texts.size() == 2);
    CHECK_THAT(texts[0],
               parallax_test::contains("in step of 'words': one step is captured at a time, and this is another one"));
    CHECK_THAT(texts[1], parallax_test::contains("an earlier failure ended the session"));
  }
}

TEST_CASE("a replay that cannot be is refused on all ranks, and the next one works", "[cuda][capture]") {
  std::vector<std::vector<std::string>> errors(2);
  std::vector<std::vector<float>> values(2);
  with_trainers([&](auto& world, auto& session, auto& trainer, auto const& ops, auto& words, auto& ids, auto& gradient) {
    auto const rank = static_cast<std::size_t>(world.rank());
    std::optional<Words> more{std::in_place, session, "more", px::Table{rows, width}, px::Padded{50}};
    auto const both = [&] {
      session.step(px::grad(words, px::on_device(ids.span()), gradient.span()),
                   px::grad(*more, px::on_device(ids.span()), gradient.span()));
    };
    trainer.step();
    both();
    auto captured = px::capture(session, [&] { trainer.step(); });
    auto of_both = px::capture(session, both);
    auto const attempt = [&](auto&& call) { errors[rank].push_back(told(call)); };
    std::vector<float> const before = trainer.values();
    double const rate = words.optimizer().learning_rate;
    words.optimizer().learning_rate = rate * static_cast<double>(1 + rank);
    attempt([&] { captured.replay(); });
    words.optimizer().learning_rate = rank == 0 ? rate : -1;
    attempt([&] { captured.replay(); });
    words.optimizer().learning_rate = rate;
    attempt([&] { rank == 0 ? captured.replay() : of_both.replay(); });
    attempt([&] { rank == 0 ? captured.replay() : trainer.step(); });
    if (rank == 1) attempt([&] { captured.replay(); });
    else attempt([&] { static_cast<void>(session.pull(words, px::on_device(ids.span()))); });
    session.start(px::grad(words, px::on_device(ids.span()), gradient.span()));
    attempt([&] { captured.replay(); });
    errors[rank].push_back(trainer.values() == before ? "unchanged" : "changed");
    session.step();
    more.reset();
    attempt([&] { of_both.replay(); });
    if (rank == 1) ids.write({3, 1, 500, 96});
    captured.replay();  // its update is left out
    errors[rank].push_back("left out");
    ids.write({3, 1, 3, 96});
    ops.wait();
    px::barrier(world);
    attempt([&] { captured.replay(); });
    attempt([&] { captured.replay(); });
    values[rank] = trainer.values();
    attempt([&] { session.finish(); });
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    auto const& texts = errors[rank];
    CAPTURE(rank);
    std::size_t at = 0;
    auto const next = [&](std::string const& said) {
      REQUIRE(at < texts.size());
      CHECK_THAT(texts[at++], parallax_test::contains(said));
    };
    next("learning_rate");
    next("(rank 1) in replay");
    next("captured by operation");
    next("mismatch");
    next("mismatch");
    next("(rank 0) in replay: updates were started and no step completed them");
    next("unchanged");
    next("in replay of 'more': the variable was destroyed, which the captured step updates");
    next("left out");
    next("(rank 1) in replay of 'words': earlier batches named 1 indices that are outside the table");
    next("no error");
    next("no error");
  }
}

TEST_CASE("replays leave alone what handles show, and the host waits for none of them", "[cuda][capture]") {
  bool const together = GENERATE(false, true);  // pulls of one table, or of two
  CAPTURE(together);
  std::atomic<bool> over{false};
  std::atomic<int> ahead{0}, right{0};
  with_trainers([&](auto& world, auto& session, auto& trainer, auto const& ops, auto& words, auto& ids, auto& gradient) {
    Words more{session, "more", px::Table{rows, width}, px::Padded{50}};
    auto const both = [&] {
      auto const [rows_of_words, rows_of_more] =
          session.pull(words.at(px::on_device(ids.span())), more.at(px::on_device(ids.span())));
      session.step(px::grad(rows_of_words, gradient.span()), px::grad(rows_of_more, gradient.span()));
    };
    trainer.step();
    both();
    auto captured = px::capture(session, both);
    std::vector<decltype(session.pull(words, px::on_device(ids.span())))> held;  // memory goes around among plans and mails
    for (int i = 0; i < 4; ++i) {
      if (together) {
        auto pulled = session.pull(words.at(px::on_device(ids.span())), more.at(px::on_device(ids.span())));
        held.push_back(std::move(std::get<0>(pulled)));
      } else {
        trainer.step();
      }
      held.push_back(session.pull(words, px::on_device(ids.span())));
    }
    auto const values = [&] {
      std::vector<float> all;
      for (auto const& rows_of_pull : held) append(all, values_of(ops, rows_of_pull.values()));
      return all;
    };
    auto const shown = values();
    px::barrier(world);
    auto const [allocations, copies] = [] {
      emulator::Locked const locked{emulator::mutex};
      return std::pair{emulator::allocations, emulator::copies};
    }();
    px::barrier(world);
    emulator::put(emulator::of(world.queue().stream), {{}, nullptr, 0, [&] { return over.load(); }});
    for (int i = 0; i < 3; ++i) captured.replay();
    ++ahead;
    if (world.rank() == 0) {
      while (ahead < 2) std::this_thread::yield();
      over = true;
    }
    auto const now = values();
    px::barrier(world);
    {
      emulator::Locked const locked{emulator::mutex};
      right += now == shown && emulator::allocations == allocations &&
               emulator::copies <= copies + 30;  // of what was told of batches, and what is read here
    }
    px::barrier(world);
    trainer.step();  // of memory that a handle and a graph have not
    captured.replay();
    session.finish();
  });
  CHECK(ahead == 2);
  CHECK(right == 2);
}
