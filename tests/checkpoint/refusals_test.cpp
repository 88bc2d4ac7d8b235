// What saving and restoring refuse: in these words, on all ranks, after which nothing has changed and the session goes on. And
// values of the trainer, whatever they are.
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using parallax_test::Scratch;

namespace {

using World = px::ThreadCommunicator;
using Words = px::Variable<px::Sparse, px::Adam>;
using Bias = px::Variable<px::Dense, px::Adam>;

// A session of two variables and a number, and all that can be seen of them.
struct Trainer {
  explicit Trainer(World& world, std::int64_t rows = 40)
      : session{world}, words{session, "words", {rows, 2, px::uniform(0, 1, 3)}} {}

  void step() {
    std::vector<int> const ids{session.rank(), 5};
    session.step(px::grad(words, ids, std::vector<float>(4, 0.25f)), px::grad(bias, std::vector<float>(6, 0.5f)));
    ++epoch;
  }
  std::string seen() {
    std::string text = std::to_string(session.steps()) + " " + std::to_string(epoch);
    auto const rows = words.local();
    for (std::int64_t i = 0; i < rows.rows * rows.width; ++i) text += " " + std::to_string(rows.data[i]);
    for (float const value : memory) text += " " + std::to_string(value);
    return text;
  }

  px::Session<World> session;
  std::vector<float> memory = std::vector<float>(6, 1.0f);
  Words words;
  Bias bias{session, "bias", px::bind(memory)};
  int epoch = 0;
};

// What each rank was told by `operation`, and then what all of them have in common: "" where it differs from the first's, or where
// something has changed, or where the session does not go on.
std::string said(int ranks, std::function<void(Trainer&)> const& operation, std::int64_t rows = 40) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  px::run_threads(ranks,
                  [&](World& world) {
                    std::string& text = texts[static_cast<std::size_t>(world.rank())];
                    Trainer trainer{world, rows};
                    trainer.step();
                    std::string const before = trainer.seen();
                    try {
                      operation(trainer);
                      text = "accepted";
                    } catch (px::Error const& error) {
                      text = error.what();
                    }
                    if (text != "accepted" && trainer.seen() != before) text += ", and something has changed";
                    trainer.step();
                    trainer.session.finish();
                  },
                  {.deadline = std::chrono::seconds{20}});
  for (std::string const& text : texts)
    if (text != texts[0]) return "ranks were told otherwise: " + texts[0] + " | " + text;
  return texts[0];
}

// A folder with a checkpoint of a Trainer, by two ranks.
struct Run : Scratch {
  Run() {
    REQUIRE(said(2, [&](Trainer& t) { t.session.save(folder, {}, t.words, t.bias, px::shared_value("epoch", t.epoch)); }) ==
            "accepted");
  }
  std::string folder = path("run");
};

}  // namespace

TEST_CASE("a checkpoint that is not there is named", "[checkpoint][refusals]") {
  Run const run;
  auto const restored_from = [](std::string const& folder, px::RestoreOptions const& options = {}) {
    return said(3,
                [&](Trainer& t) { t.session.restore(folder, options, t.words, t.bias, px::shared_value("epoch", t.epoch)); });
  };
  std::string const none = run.path("none"), empty = run.path("empty"), file = run.write("file", "text");
  std::filesystem::create_directory(empty);
  CHECK(restored_from(none) ==
        "parallax: file (rank 0) in restore: " + none + ": it has no complete generation of a checkpoint");
  CHECK(restored_from(empty) ==
        "parallax: file (rank 0) in restore: " + empty + ": it has no complete generation of a checkpoint");
  CHECK(restored_from(file) == "parallax: file (rank 0) in restore: " + file + ": opendir: Not a directory");
  CHECK(restored_from("") == "parallax: invalid argument (rank 0) in restore: the folder has no name");
  CHECK(restored_from(run.folder, {.generation = 9}) == "parallax: file (rank 0) in restore: " + run.folder +
                                                            "/generation-000009/manifest.safetensors: open: No such file or "
                                                            "directory");
  CHECK(restored_from(run.folder, {.generation = -1}) ==
        "parallax: invalid argument (rank 0) in restore: there is no generation -1");
  CHECK(restored_from(run.folder, {.at_most = 0}) == "parallax: invalid argument (rank 0) in restore: at_most is a time");
  CHECK(restored_from(run.folder) == "accepted");
}

TEST_CASE("a variable that is another one is not restored", "[checkpoint][refusals]") {
  Run const run;
  auto const epoch = [](Trainer& t) { return px::shared_value("epoch", t.epoch); };
  CHECK(said(
            2, [&](Trainer& t) { t.session.restore(run.folder, {}, t.words, t.bias, epoch(t)); }, 41) ==
        "parallax: mismatch between ranks in visit of 'words': item 'values': it is 40 x 2 of F32, not 41 x 2 of F32");
}

TEST_CASE("things of a checkpoint are all that there are, each once", "[checkpoint][refusals]") {
  Run const run;
  std::string const& folder = run.folder;
  CHECK(said(2, [&](Trainer& t) { t.session.save(folder, {}, t.words); }) ==
        "parallax: misuse (rank 0) in save of 'bias': it is not among the variables of the checkpoint");
  CHECK(said(2, [&](Trainer& t) { t.session.restore(folder, {}, t.bias); }) ==
        "parallax: misuse (rank 0) in restore of 'words': it is not among the variables of the checkpoint");
  CHECK(said(2, [&](Trainer& t) { t.session.save(folder, {}, t.words, t.bias, t.words); }) ==
        "parallax: misuse (rank 0) in save of 'words': it is named twice");
  CHECK(said(2, [&](Trainer& t) {
          t.session.save(folder, {}, t.words, t.bias, px::shared_value("epoch", t.epoch), px::own_value("epoch", t.epoch));
        }) == "parallax: misuse (rank 0) in save of 'epoch': two values have this name");
  CHECK(said(2, [&](Trainer& t) {
          int other = 0;
          t.session.restore(folder, {}, t.words, t.bias, px::shared_value("other", other));
        }) == "parallax: mismatch between ranks in restore: the checkpoint has no value 'other'");
  CHECK(said(2,
             [&](Trainer& t) {
               std::vector<float> gradient(6, 0.0f);
               t.session.start(px::grad(t.bias, gradient));
               std::string text;
               try {
                 t.session.save(folder, {}, t.words, t.bias);
               } catch (px::Error const& error) {
                 text = error.what();
               }
               t.session.step();
               throw px::Error{px::Errc::misuse, 0, "", "", text};
             })
            .find("parallax: misuse (rank 0) in save of 'bias': updates were started and no step completed them") !=
        std::string::npos);
  CHECK(px::detail::generations_in(folder) == std::vector<std::int64_t>{1});
}

TEST_CASE("options of a checkpoint are checked before anything is written", "[checkpoint][refusals]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  auto const saved_with = [&](px::SaveOptions const& options, std::string const& where) {
    return said(2, [&](Trainer& t) { t.session.save(where, options, t.words, t.bias); });
  };
  std::string const refused = "parallax: invalid argument (rank 0) in save: ";
  CHECK(saved_with({.keep = -1}, folder) == refused + "at least one generation is kept");
  CHECK(saved_with({.block_bytes = 0}, folder) == refused + "block_bytes is from 1 to 1 MiB");
  CHECK(saved_with({.block_bytes = (1 << 20) + 1}, folder) == refused + "block_bytes is from 1 to 1 MiB");
  CHECK(saved_with({.at_most = 0}, folder) == refused + "at_most is a time");
  CHECK(saved_with({}, "") == refused + "the folder has no name");
  CHECK(scratch.is_empty());
  std::string const file = scratch.write("file", "text");
  CHECK(saved_with({}, file) == "parallax: file (rank 0) in save: " + file + ": opendir: Not a directory");
  std::string const different =
      said(2, [&](Trainer& t) { t.session.save(folder + (t.session.rank() == 0 ? "" : "2"), {}, t.words, t.bias); });
  CHECK_THAT(different, parallax_test::contains("parallax: mismatch between ranks"));
  CHECK_THAT(different, parallax_test::contains("save in '" + folder + "', {0, 0, 1048576, 600}"));
  CHECK_THAT(different, parallax_test::contains("save in '" + folder + "2', {0, 0, 1048576, 600}"));
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK(saved_with({.keep = 1}, folder) == "accepted");
  CHECK(saved_with({.keep = 1}, folder) == "accepted");
  CHECK(px::detail::generations_in(folder) == std::vector<std::int64_t>{2});
}

namespace {

enum class Phase : std::uint8_t { begin, middle };
struct Plain {
  double mean = 0;
  int count = 0;
};
struct Generator {
  std::uint64_t state = 0;
  std::vector<double> kept;
  template <class Items>
  void visit(Items& items) {
    items.number("state", state);
    items.list("kept", kept);
  }
};

// Values of each kind, for all ranks and for each.
struct Values {
  std::int64_t number = 0;
  Phase phase = Phase::begin;
  bool flag = false;
  std::string text;
  std::vector<float> list;
  Plain plain;
  Generator generator;

  void set(int rank, std::size_t size) {
    number = -7 - rank, phase = Phase::middle, flag = true;
    text = std::string(size, 'x') + std::to_string(rank);
    list.assign(size, 0.5f + static_cast<float>(rank));
    if (size > 0) list.back() = 7;
    plain = {1.25 + rank, 3};
    generator.state = 99u + static_cast<unsigned>(rank);
    generator.kept.assign(size / 2, rank);
  }
  bool equals(Values const& other) const {
    return number == other.number && phase == other.phase && flag == other.flag && text == other.text && list == other.list &&
           plain.mean == other.plain.mean && plain.count == other.plain.count && generator.state == other.generator.state &&
           generator.kept == other.generator.kept;
  }
};

// Values of this rank, and of all.
template <class F>
auto with(Values& all, Values& own, F&& f) {
  return f(px::shared_value("number", all.number), px::shared_value("phase", all.phase), px::shared_value("flag", all.flag),
           px::shared_value("text:rows", all.text), px::shared_value("list:rows", all.list),
           px::shared_value("plain", all.plain), px::shared_value("generator", all.generator),
           px::own_value("own number", own.number), px::own_value("own text", own.text), px::own_value("own list", own.list),
           px::own_value("own plain", own.plain), px::own_value("own generator", own.generator));
}

std::string values_come_back(int saved_by, int restored_by, std::size_t size) {
  Scratch const scratch;
  std::vector<std::string> texts(8);
  px::run_threads(saved_by, [&](World& world) {
    Trainer t{world};
    Values all, own;
    all.set(3, size), own.set(world.rank(), size + static_cast<std::size_t>(world.rank()));
    with(all, own, [&](auto const&... values) { t.session.save(scratch.path("run"), {}, t.words, t.bias, values...); });
    t.session.finish();
  });
  px::run_threads(restored_by, [&](World& world) {
    std::string& text = texts[static_cast<std::size_t>(world.rank())];
    Trainer t{world};
    Values all, own, there, mine;
    all.set(5, 10), own.set(50, 70);
    there.set(3, size), mine.set(world.rank(), size + static_cast<std::size_t>(world.rank()));
    if (saved_by != restored_by) mine.set(50, 70);  // as they were
    mine.flag = own.flag, mine.phase = own.phase;   // not in the checkpoint
    auto const lost = with(all, own, [&](auto const&... values) {
      return t.session.restore(scratch.path("run"), {}, t.words, t.bias, values...).lost;
    });
    if (!all.equals(there)) text += "shared values are others; ";
    if (!own.equals(mine)) text += "own values are others; ";
    for (std::string const& name : lost) text += name + ", ";
    t.session.finish();
  });
  for (int rank = 1; rank < restored_by; ++rank)
    if (texts[static_cast<std::size_t>(rank)] != texts[0])
      return "ranks differ: " + texts[0] + " | " + texts[static_cast<std::size_t>(rank)];
  return texts[0];
}

}  // namespace

TEST_CASE("values of the trainer come back, and own ones in a world of as many ranks", "[checkpoint][values]") {
  for (std::size_t const size : {0, 1, 100, 5000, 70'000, 140'000}) {
    INFO(size);
    CHECK(values_come_back(2, 2, size) == "");
    CHECK(values_come_back(3, 2, size) ==
          "words/dropped, words/seen, own number, own text, own list, own plain, own generator, ");
  }
  CHECK(values_come_back(1, 4, 100) == "words/dropped, words/seen, own number, own text, own list, own plain, own generator, ");
}

TEST_CASE("some variables are restored, and under other names", "[checkpoint][refusals]") {
  Run const run;
  std::vector<std::string> texts(2);
  px::run_threads(2, [&](World& world) {
    std::string& text = texts[static_cast<std::size_t>(world.rank())];
    Trainer like{world};
    like.step();
    std::string const saved = like.seen();
    {
      auto const t = std::make_unique<Trainer>(world);
      t->step(), t->step();
      t->session.restore(run.folder, {}, t->words, t->bias, px::shared_value("epoch", t->epoch));
      if (t->seen() != saved) text += "another state; ";
      t->session.finish();
    }
    like.session.finish();
    px::Session session{world};
    std::vector<float> memory(6, 2.0f);
    Words tokens{session, "tokens", {40, 2}};
    Words fresh{session, "fresh", {3, 2, px::constant(7)}};
    Bias bias{session, "bias", px::bind(memory)};
    px::Variable<px::Dense, px::Sgd> other{session, "other", px::bind(memory)};
    auto const refusal = [&](px::RestoreOptions const& options, auto&... variables) {
      try {
        session.restore(run.folder, options, variables...);
      } catch (px::Error const& error) {
        text += std::string{error.what()} + "\n";
      }
    };
    refusal({}, tokens, fresh, bias, other);
    refusal({.names = {{"tokens", "words"}}}, tokens, fresh, bias, other);
    refusal({.partial = true, .names = {{"other", "bias"}}}, other);
    refusal({.partial = true, .names = {{"fresh", "words"}}}, fresh);
    if (tokens.local().rows > 0 && tokens.local().row(0)[0] != 0) text += "changed; ";
    session.restore(run.folder, {.partial = true, .names = {{"tokens", "words"}}}, tokens, fresh, bias);
    for (std::int64_t i = 0; i < fresh.local_rows(); ++i)
      if (fresh.local().row(i)[0] != 7) text += "fresh has changed; ";
    auto const is = tokens.local(), was = like.words.local();
    for (std::int64_t i = 0; i < is.rows * is.width; ++i)
      if (is.data[i] != was.data[i]) text += "tokens are others; ";
    if (memory != like.memory) text += "the bias is another; ";
    if (session.steps() != 1 || tokens.steps() != 1) text += "other steps; ";
    session.finish();
  });
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0] ==
        "parallax: mismatch between ranks in restore of 'tokens': the checkpoint has no variable 'tokens'\n"
        "parallax: mismatch between ranks in restore of 'fresh': the checkpoint has no variable 'fresh'\n"
        "parallax: mismatch between ranks in visit of 'other': item 'optimizer.name': it is of 'Adam', not of 'Sgd'\n"
        "parallax: mismatch between ranks in visit of 'fresh': item 'values': it is 40 x 2 of F32, not 3 x 2 of F32\n");
}

TEST_CASE("a variable of another scalar is not restored", "[checkpoint][refusals]") {
  Run const run;
  std::string text;
  px::SelfCommunicator self;
  px::Session session{self};
  std::vector<double> memory(6, 2.0);
  px::Variable<px::Dense, px::Adam, double> bias{session, "bias", px::bind(memory)};
  try {
    session.restore(run.folder, {}, bias);
  } catch (px::Error const& error) {
    text = error.what();
  }
  CHECK(text == "parallax: mismatch between ranks in visit of 'bias': item 'values': it is 6 x 1 of F32, not 6 x 1 of F64");
  CHECK(memory == std::vector<double>(6, 2.0));
  session.step(px::grad(bias, memory));
  session.finish();
}

TEST_CASE("replicas that differ take no good checkpoint's place", "[checkpoint][replicas]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  constexpr int ranks = 3;
  std::vector<std::vector<std::string>> told(ranks);
  px::run_threads(ranks, [&](World& world) {
    auto& mine = told[static_cast<std::size_t>(world.rank())];
    Trainer trainer{world};
    auto const save = [&](bool behind) {
      try {
        if (behind) trainer.session.save_async(folder, {}, trainer.words, trainer.bias), trainer.session.finish();
        else trainer.session.save(folder, {.keep = 1}, trainer.words, trainer.bias);
        mine.push_back("");
      } catch (px::Error const& error) {
        mine.push_back(error.code() == px::Errc::mismatch && error.rank() == 1 && error.variable() == "bias" ? error.detail()
                                                                                                             : "?");
      }
    };
    trainer.step();
    save(false);
    auto const other = [&](float by, float& value) {
      if (world.rank() == 1) value += by;
    };
    float& slot = trainer.bias.slot<float>("m")[4];
    for (float* const value : {&trainer.memory[2], &slot}) {
      float const before = *value;
      other(0.5f, *value);
      save(false);
      save(true);
      *value = before;
    }
    trainer.session.finish();
    trainer.step();
    save(true);
    trainer.session.finish();
  });
  for (auto const& mine : told) {
    CHECK(mine == told[0]);
    REQUIRE(mine.size() == 6);
    CHECK(mine[0].empty());
    for (std::size_t i = 1; i < 5; ++i) CHECK(mine[i].starts_with("rank 1 has «bias values and slots of checksum "));
    CHECK(mine[5].empty());
  }
  CHECK(px::detail::generations_in(folder) == std::vector<std::int64_t>{2, 1});
}
