// Checkpoints now and then: when they are due, alike on all ranks, and what a run that begins again finds.
#include <unistd.h>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <parallax/checkpoint/checkpoint.hpp>
#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>

#include "../comm/hostile.hpp"
#include "catch.hpp"

namespace parallax_test {
namespace {

namespace px = parallax;
using namespace std::chrono_literals;

// A folder of this process that goes with it.
struct Folder {
  Folder() : path{(std::filesystem::temp_directory_path() / ("parallax-every-" + std::to_string(getpid()))).string()} {
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

// At which steps a run of so many saved: each step takes `takes` by the clock of each rank, of which rank 0's counts.
std::vector<std::int64_t> saved_at(int ranks, std::int64_t last, px::Every const& every,
                                   std::vector<std::chrono::nanoseconds> takes, std::string const& folder) {
  std::vector<std::vector<std::int64_t>> saved(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& inside) {
    auto const rank = static_cast<std::size_t>(inside.rank());
    std::chrono::nanoseconds clock = 0ns;
    Hostility hostility;
    hostility.clock = [&clock] { return clock; };
    HostileCommunicator world{inside, hostility};
    px::Session session{world};
    px::Variable<px::Sparse> words{session, "words", px::Table{.rows = 10, .width = 1}};
    int epoch = 0;
    auto checkpoints = [&] {
      auto value = px::shared_value("epoch", epoch);  // what says where a value is need not stay
      return px::Checkpoints{session, folder, every, words, value};
    }();
    checkpoints.resume();
    while (session.steps() < last) {
      std::vector<int> const ids{1};
      auto const rows = session.pull(words, ids);
      std::vector<float> const gradient(1, 1.0f);
      session.step(px::grad(rows, gradient));
      clock += takes[rank % takes.size()];
      if (std::optional<px::Saved> const now = checkpoints.step()) saved[rank].push_back(now->step);
    }
    session.finish();
  });
  for (auto const& each : saved) CHECK(each == saved[0]);
  return saved[0];
}

}  // namespace

TEST_CASE("a checkpoint is due after so many steps, and so many generations stay", "[checkpoint]") {
  Folder const folder;
  CHECK(saved_at(2, 34, {.steps = 10, .keep = 2, .background = false}, {0ns}, folder.path) ==
        std::vector<std::int64_t>{10, 20, 30});
  CHECK(px::detail::generations_in(folder.path) == std::vector<std::int64_t>{3, 2});
  SECTION("a run that begins again goes on from the last one, and counts from there") {
    CHECK(saved_at(3, 51, {.steps = 10, .keep = 2, .background = false}, {0ns}, folder.path) ==
          std::vector<std::int64_t>{40, 50});
    CHECK(px::detail::generations_in(folder.path) == std::vector<std::int64_t>{5, 4});
  }
  SECTION("in the background one is known to be there when the next is due, and the last when the session has finished") {
    CHECK(saved_at(3, 71, {.steps = 10, .keep = 2}, {0ns}, folder.path) == std::vector<std::int64_t>{40, 50, 60});
    CHECK(px::detail::generations_in(folder.path) == std::vector<std::int64_t>{7, 6});
  }
}

TEST_CASE("a checkpoint is due after so many seconds by rank 0's clock", "[checkpoint]") {
  Folder const folder;
  CHECK(saved_at(2, 250, {.seconds = 100, .keep = 1, .background = false}, {1s, 7s}, folder.path) ==
        std::vector<std::int64_t>{100, 200});
  CHECK(px::detail::generations_in(folder.path) == std::vector<std::int64_t>{2});
}

TEST_CASE("of steps and seconds, whichever comes first", "[checkpoint]") {
  Folder const folder;
  CHECK(saved_at(1, 25, {.steps = 10, .seconds = 7, .background = false}, {1s}, folder.path) ==
        std::vector<std::int64_t>{7, 14, 21});
  std::filesystem::remove_all(folder.path);
  CHECK(saved_at(1, 25, {.steps = 10, .seconds = 70, .background = false}, {1s}, folder.path) ==
        std::vector<std::int64_t>{10, 20});
}

TEST_CASE("generations go that are older than they may be, but for the newest", "[checkpoint]") {
  Folder const folder;
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> words{session, "words", px::Table{.rows = 10, .width = 1}};
  auto const save = [&](px::SaveOptions const& options) {
    session.save(folder.path, options, words);
    return px::detail::generations_in(folder.path);
  };
  for (int i = 0; i < 4; ++i) save({});
  for (int i = 1; i < 5; ++i) {
    std::string const manifest = folder.path + "/generation-00000" + std::to_string(i) + "/manifest.safetensors";
    std::filesystem::last_write_time(manifest, std::filesystem::file_time_type::clock::now() - std::chrono::hours{10 - i});
  }
  CHECK(save({.keep_for = 7.5 * 3600}) == std::vector<std::int64_t>{5, 4, 3});
  CHECK(save({.keep = 3, .keep_for = 7.5 * 3600}) == std::vector<std::int64_t>{6, 5, 4});
  CHECK(save({.keep = 5, .keep_for = 1e-9}) == std::vector<std::int64_t>{7});
  CHECK_THROWS_WITH(save({.keep_for = -1}), "parallax: invalid argument (rank 0) in save: keep_for is a time");
  session.finish();
}

TEST_CASE("a vector of layers is a thing of a checkpoint, as each of its variables", "[checkpoint]") {
  Folder const folder;
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    std::vector<std::vector<float>> memory(30, std::vector<float>(2000));
    auto const train = [&](auto& session, auto& layers, int steps) {
      for (int step = 0; step < steps; ++step)
        for (std::size_t i = 0; i < layers.size(); ++i) {
          std::vector<float> const gradient(2000, static_cast<float>(static_cast<int>(i) + step - world.rank()));
          session.step(px::grad(layers[i], gradient));
        }
    };
    px::Session session{world};
    std::vector<px::Variable<px::Dense, px::Adam>> layers;
    for (std::size_t i = 0; i < memory.size(); ++i)
      layers.emplace_back(session, "layer " + std::to_string(i), px::bind(memory[i]));
    train(session, layers, 2);
    session.save(folder.path, {}, layers);
    train(session, layers, 1);
    auto const last = memory;
    session.finish();
    for (auto& values : memory) values.assign(2000, 7.0f);
    px::Session again{world};
    std::vector<px::Variable<px::Dense, px::Adam>> same;
    for (std::size_t i = 0; i < memory.size(); ++i) same.emplace_back(again, "layer " + std::to_string(i), px::bind(memory[i]));
    again.restore(folder.path, {}, same);
    train(again, same, 1);
    if (memory != last) throw std::runtime_error{"the layers are not what they were"};
    again.finish();
  });
}

TEST_CASE("a run that begins again knows that the first choice of a table is over", "[checkpoint]") {
  Folder const folder;
  using Table = px::Variable<px::Sparse, px::Auto>;
  // Few rows go by AllGather in one round and not in three: faster, but not by so much. Only a first choice goes without a
  // margin.
  px::Costs const costs{.round = 1, .per_byte = 1e-6};
  px::AutoOptions const wary{
      .first_step = 1, .interval = 1, .margin = 100, .horizon = 1e9, .costs = costs, .device_costs = costs};
  auto moves_of_the_next_step = [&](bool first_chosen, bool resumes) {
    std::vector<std::size_t> moves(3);
    px::run_threads(3, [&](px::ThreadCommunicator& world) {
      px::AutoOptions here = wary;
      if (first_chosen && !resumes) here.horizon = 0;  // the first choice is to stay
      px::Session session{world, {.choice = here}};
      Table words{session, "words", px::Table{.rows = 100, .width = 1}};
      std::vector<int> const ids{world.rank()};
      if (resumes) session.restore(folder.path, {}, words);
      auto const rows = session.pull(words, ids);
      session.step(px::grad(rows, std::vector<float>{1}));
      if (first_chosen && !resumes) session.save(folder.path, {}, words);
      moves[static_cast<std::size_t>(world.rank())] = session.decisions().size();
      session.finish();
    });
    for (std::size_t const each : moves) CHECK(each == moves[0]);
    return moves[0];
  };
  CHECK(moves_of_the_next_step(false, false) == 1);  // the first choice of a table
  CHECK(moves_of_the_next_step(true, false) == 0);   // saved
  CHECK(moves_of_the_next_step(true, true) == 0);    // resumed: none is the first any more
}

TEST_CASE("a session goes back behind the beginning of a search, and behind its end", "[checkpoint]") {
  Folder const folder;
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world, {.choice = {.first_step = 1'000'000}}};
    px::Variable<px::Sparse, px::Auto> words{session, "words", px::Table{.rows = 40, .width = 1}};
    std::vector<int> const ids{world.rank(), 7};
    auto const step = [&] { session.step(px::grad(words, ids, std::vector<float>(2, 1.0f))); };
    auto const searches = [&] { return static_cast<bool>(words.state().search); };
    step();
    session.save(folder.path, {}, words);  // generation 1: none
    session.search_pieces(words, {.most = 8, .probes = 3, .steps = 2, .settling = 0});
    step();
    session.save(folder.path, {}, words);  // generation 2: one is on
    step();
    session.restore(folder.path, {.generation = 1}, words);
    if (searches()) throw std::runtime_error{"a search goes on that had not begun"};
    session.restore(folder.path, {.generation = 2}, words);
    if (!searches()) throw std::runtime_error{"a search that was on is none"};
    for (int i = 0; i < 20; ++i) step();
    if (searches()) throw std::runtime_error{"a search that was taken up does not end"};
    session.restore(folder.path, {.generation = 1}, words);
    float const value = session.pull(words, std::vector{7})[0][0];
    if (session.steps() != 1 || value != -0.01f) throw std::runtime_error{"not what was saved"};
    session.finish();
  });
}

TEST_CASE("an interval that is none is refused", "[checkpoint]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> words{session, "words", px::Table{.rows = 10, .width = 1}};
  for (px::Every const& every : {px::Every{}, px::Every{.steps = -1}, px::Every{.seconds = -1}, px::Every{.seconds = NAN}})
    CHECK_THROWS_WITH((px::Checkpoints{session, "nowhere", every, words}),
                      "parallax: invalid argument (rank 0) in Checkpoints: it is due after steps or seconds above 0");
}

TEST_CASE("a pause that nobody could be told of is none", "[checkpoint]") {
  std::vector<std::string> said(4);
  px::run_threads(2, [&](px::ThreadCommunicator& inside) {
    HostileCommunicator world{inside, {}};
    px::Session session{world};
    for (int time = 0; time < 2; ++time) {
      try {
        auto const pause = session.pause("evaluation", 1s);
      } catch (px::Error const& error) {
        said[static_cast<std::size_t>(2 * world.rank() + time)] = error.what();
      }
    }
  });
  for (std::string const& sentence : said) CHECK_THAT(sentence, Catch::Contains("no way to announce a pause"));
}

}  // namespace parallax_test
