// What goes wrong in an AsyncSession: a worker's mistakes are its own, and what ends one rank ends all, with its words.
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/async/async_session.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "told.hpp"

namespace px = parallax;
using async_test::told;

namespace {

using World = px::ThreadCommunicator;
using Words = px::Variable<px::Sparse, px::Sgd>;

template <class Body>
std::string thrown(Body&& body) {
  try {
    body();
  } catch (px::Error const& error) {
    return error.what();
  }
  return "";
}
// What goes wrong goes wrong so many times, whatever the threads do meanwhile.
int rounds() { return parallax_test::sized(1, 3, 20); }
bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a worker's mistakes are thrown there alone, before anything is sent, and it goes on", "[async][errors]") {
  CAPTURE(GENERATE(range(0, rounds())));
  std::vector<std::vector<std::string>> said(3);
  std::vector<std::int64_t> clocks(3);
  std::vector<float> first(3);
  px::run_threads(3, [&](World& world) {
    px::AsyncSession session{world, px::Ssp{1}};
    std::vector<float> weights(5, 1.0f);
    Words words{session, "words", {.rows = 10, .width = 2}};
    px::Variable<px::Dense, px::PsShard> layer{session, "layer", px::bind(weights)};
    auto& mine = said[static_cast<std::size_t>(world.rank())];
    session.train([&](auto& worker) {
      for (int step = 0; step < 6; ++step) {
        if (worker.rank() == 1 && step == 2) {
          std::vector<float> const three(3), five(5), rows(2);
          mine.push_back(thrown([&] { worker.pull(words.at(std::vector{3, 10})); }));
          mine.push_back(thrown([&] { worker.push(px::grad(words, std::vector{-1}, rows)); }));
          mine.push_back(thrown([&] { worker.push(px::grad(layer, three)); }));
          mine.push_back(thrown([&] { worker.push(px::grad(words, std::vector{1, 2}, rows)); }));
          mine.push_back(thrown([&] { worker.push(px::grad(layer, five), px::grad(layer, five)); }));
          px::PulledRows<Words::State> const nothing;
          mine.push_back(thrown([&] { worker.push(px::grad(nothing, rows)); }));
          mine.push_back(px::joined({worker.clock()}));
        }
        auto const rows = worker.pull(words.at(std::vector{step}), layer);
        worker.push(px::grad(rows, std::vector<float>{1, 1}), px::grad(layer, std::vector<float>(5, 1.0f)));
      }
      clocks[static_cast<std::size_t>(worker.rank())] = worker.clock();
    });
    session.together([&](auto&) { first[static_cast<std::size_t>(world.rank())] = weights[0]; });
    session.finish();
  });
  REQUIRE(said[1].size() == 7);
  CHECK(has(said[1][0], "bad id (rank 1) in pull of 'words': index 10 at position 1 is outside [0, 10)"));
  CHECK(has(said[1][1], "bad id (rank 1) in push of 'words': index -1 at position 0 is outside [0, 10)"));
  CHECK(has(said[1][2], "invalid argument (rank 1) in push of 'layer': a gradient of 3 elements for 5"));
  CHECK(has(said[1][3], "invalid argument (rank 1) in push of 'words': gradient rows of 1 x 2 for 2 x 2"));
  CHECK(has(said[1][4], "misuse (rank 1) in push: a push brings a variable twice"));
  CHECK(has(said[1][5], "misuse (rank 1) in push: a gradient is of an empty handle"));
  CHECK(said[1][6] == "2");
  CHECK(clocks == std::vector<std::int64_t>(3, 6));
  CHECK(first[0] == first[1]);
  CHECK(first[1] == first[2]);
  CHECK(std::abs(first[0] - (1.0f - 18 * px::Sgd{}.learning_rate)) < 1e-4f);
}

TEST_CASE("a push that is not finite ends its clock without its gradients, or is refused, as the options say",
          "[async][errors]") {
  CAPTURE(GENERATE(range(0, rounds())));
  for (auto const what : {px::NonFinite::skip_step, px::NonFinite::error}) {
    std::vector<std::string> said(2);
    std::vector<float> ends(2);
    px::run_threads(2, [&](World& world) {
      px::AsyncSession session{world, px::Ssp{0}, px::AsyncOptions{.non_finite = what}};
      std::vector<float> weights(3, 1.0f);
      px::Variable<px::Dense, px::PsShard> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 1},
                                                 px::Reduce::sum};
      session.train([&](auto& worker) {
        for (int step = 0; step < 3; ++step) {
          worker.pull(layer);
          std::vector<float> gradient(3, 1.0f);
          if (worker.rank() == 1 && step == 1) gradient[2] = std::numeric_limits<float>::infinity();
          bool applied = true;
          std::string const error = thrown([&] { applied = worker.push(px::grad(layer, gradient)); });
          if (!error.empty()) worker.push();
          if (!applied || !error.empty()) said[1] = error.empty() ? px::joined({"skipped ", step}) : error;
        }
      });
      session.together([&](auto&) { ends[static_cast<std::size_t>(world.rank())] = weights[2]; });
      session.finish();
    });
    if (what == px::NonFinite::skip_step) CHECK(said[1] == "skipped 1");
    else CHECK(has(said[1], "non-finite gradient (rank 1) in push of 'layer': the gradient has inf at row 0, column 2"));
    CHECK(ends == std::vector<float>(2, 1.0f - 5));  // six pushes but one
  }
}

TEST_CASE("what leaves the body of one worker ends all ranks, with its words", "[async][errors]") {
  CAPTURE(GENERATE(range(0, rounds())));
  for (int const servers : {0, 1}) {
    auto const words = told(3, [&](World& world) {
      std::optional<px::AsyncSession<World>> session;
      if (servers) session.emplace(world, px::Asp{}, px::Servers{servers});
      else session.emplace(world, px::Asp{});
      Words table{*session, "words", {.rows = 10, .width = 2}};
      session->train([&](auto& worker) {
        for (int step = 0;; ++step) {
          worker.pull(table.at(std::vector{step % 10}));
          if (worker.rank() == 1 && step == 7) throw std::runtime_error{"the corpus is damaged"};
          worker.push(px::grad(table, std::vector{1}, std::vector<float>{1, 1}));
        }
      });
    });
    for (auto const& word : words) CHECK(has(word, "the corpus is damaged"));
  }
}

TEST_CASE("ranks that differ are told so before the first letter", "[async][errors]") {
  CAPTURE(GENERATE(range(0, rounds())));
  auto const make = [](World& world, int servers, std::int64_t staleness) {
    return servers ? std::make_unique<px::AsyncSession<World>>(world, px::Ssp{staleness}, px::Servers{servers})
                   : std::make_unique<px::AsyncSession<World>>(world, px::Ssp{staleness});
  };
  for (int const servers : {0, 1})
    for (int const who : {0, 2}) {  // a server, where there is one, and a worker
      CAPTURE(servers, who);
      auto const consistency = told(3, [&](World& world) {
        auto const session = make(world, servers, world.rank() == who ? 4 : 3);
        session->train([](auto&) {});
      });
      auto const differs = px::joined({"mismatch between ranks (rank ", who, ") in train of "});
      for (auto const& word : consistency) {
        CHECK(has(word, differs + "'consistency'"));
        CHECK(has(word, px::joined({"rank ", who, " has «consistency Ssp{4}»"})));
      }
      auto const variables = told(3, [&](World& world) {
        auto const session = make(world, servers, 3);
        Words words{*session, "words", {.rows = world.rank() == who ? 11 : 10, .width = 2}};
        session->train([](auto&) {});
      });
      for (auto const& word : variables) CHECK(has(word, differs + "'words'"));
      auto const settings = told(3, [&](World& world) {
        auto const session = make(world, servers, 3);
        Words words{*session, "words", {.rows = 10, .width = 2}, px::Sgd{.learning_rate = world.rank() == who ? 0.1 : 0.2}};
        session->train([](auto&) {});
      });
      for (auto const& word : settings) CHECK(has(word, differs + "'words'"));
    }
}

TEST_CASE("a declaration or a session that makes no sense is refused where it stands", "[async][errors]") {
  auto const mean = told(1, [](World& world) {
    px::AsyncSession session{world, px::Asp{}};
    Words words{session, "words", {.rows = 10, .width = 2}, px::Reduce::mean};
  });
  CHECK(has(mean[0], "misuse (rank 0) in Variable of 'words': a mean is over workers whose pushes are one update"));
  auto const servers = told(2, [](World& world) { px::AsyncSession session{world, px::Asp{}, px::Servers{2}}; });
  CHECK(has(servers[0], "2 servers of 2 ranks leave no worker"));
  auto const negative = told(1, [](World& world) { px::AsyncSession session{world, px::Ssp{-1}}; });
  CHECK(has(negative[0], "invalid argument in AsyncSession: a staleness of -1 is less than 0"));
  auto const stranger = told(1, [](World& world) {
    px::AsyncSession one{world, px::Asp{}};
    Words words{one, "words", {.rows = 10, .width = 2}};
    px::AsyncSession other{world, px::Asp{}};
    other.train([&](auto& worker) { worker.pull(words.at(std::vector{1})); });
  });
  CHECK(has(stranger[0], "misuse (rank 0) in pull of 'words'"));
  CHECK(has(stranger[0], "belongs to another session"));
}

TEST_CASE("workers that would meet within train are told so, and go on", "[async][errors]") {
  std::vector<std::vector<std::string>> said(3);
  std::vector<float> ends(3);
  px::run_threads(3, [&](World& world) {
    px::AsyncSession session{world, px::Ssp{1}, px::Servers{1}};
    std::vector<float> weights(3, 1.0f);
    px::Variable<px::Dense, px::PsShard> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 1}};
    auto& mine = said[static_cast<std::size_t>(world.rank())];
    session.train([&](auto& worker) {
      if (worker.rank() == 1) {
        mine.push_back(thrown([&] { session.together([](auto&) {}); }));
        mine.push_back(thrown([&] { session.train([](auto&) {}); }));
        mine.push_back(thrown([&] { session.finish(); }));
      }
      worker.push(px::grad(layer, std::vector<float>(3, 1.0f)));
    });
    session.together([&](auto&) { ends[static_cast<std::size_t>(world.rank())] = weights[1]; });
    session.finish();
  });
  REQUIRE(said[2].size() == 3);
  for (auto const& words : said[2]) CHECK(has(words, "workers do not meet within train: return from its body first"));
  CHECK(has(said[2][0], "misuse (rank 2) in together"));
  CHECK(has(said[2][1], "misuse (rank 2) in train"));
  CHECK(ends == std::vector<float>(3, -1));
}

TEST_CASE("a push takes ranges of updates, with the bits of one by one", "[async][errors]") {
  std::vector<std::vector<float>> ends[2];
  std::string twice;
  for (bool const ranges : {false, true})
    px::run_threads(2, [&](World& world) {
      px::AsyncSession session{world, px::Ssp{0}};
      constexpr std::size_t count = 5;
      std::vector<std::vector<float>> weights(count, std::vector<float>(4, 1.0f));
      using Layer = px::Variable<px::Dense, px::PsShard, px::Adam>;
      std::vector<Layer> layers;
      for (std::size_t i = 0; i < count; ++i) layers.emplace_back(session, px::joined({"layer ", i}), px::bind(weights[i]));
      Words words{session, "words", {.rows = 10, .width = 2}};
      session.train([&](auto& worker) {
        std::vector<std::vector<float>> gradients(count, std::vector<float>(4));
        for (int step = 0; step < 5; ++step) {
          auto const rows = worker.pull(words.at(std::vector{step, 3}));
          for (std::size_t i = 0; i < count; ++i)
            gradients[i].assign(4, weights[i][0] + static_cast<float>(worker.rank() + 1) * static_cast<float>(step));
          px::Updates<Layer> updates;
          for (std::size_t i = 0; i < count; ++i) updates.push_back(px::grad(layers[i], gradients[i]));
          std::vector<float> const row_gradients{1, 2, 3, 4};
          auto const of_words = px::grad(rows, row_gradients);
          if (!ranges) {
            worker.push(updates[0], updates[1], updates[2], updates[3], updates[4], of_words);
          } else {
            worker.push(updates, of_words);
            auto doubled = updates;
            doubled.push_back(updates[2]);
            auto const what = thrown([&] { worker.push(doubled); });
            if (worker.rank() == 0) twice = what;
          }
        }
      });
      session.together([&](auto&) {
        if (world.rank() == 0) ends[ranges] = weights;
      });
      session.finish();
    });
  CHECK(ends[0] == ends[1]);
  CHECK(has(twice, "misuse (rank 0) in push: a push brings a variable twice: it has each once"));
}

TEST_CASE("who keeps others waiting for longer than the deadline is named by all of them", "[async][errors]") {
  CAPTURE(GENERATE_COPY(range(0, parallax_test::sized(1, 1, 20))));
  using namespace std::chrono_literals;
  for (int const servers : {0, 1})
    for (int const late : {servers, 3}) {
      std::vector<std::string> words(4);
      auto const train = [&](World& world) {
        std::optional<px::AsyncSession<World>> session;
        if (servers) session.emplace(world, px::Ssp{1}, px::Servers{servers});
        else session.emplace(world, px::Ssp{1});
        Words table{*session, "words", {.rows = 10, .width = 2}};
        session->train([&](auto& worker) {
          for (int step = 0; step < 20; ++step) {
            worker.pull(table.at(std::vector{step % 10}));
            if (world.rank() == late && step == 5) std::this_thread::sleep_for(2500ms);
            worker.push(px::grad(table, std::vector{1}, std::vector<float>{1, 1}));
          }
        });
      };
      CHECK_THROWS(px::run_threads(4,
                                   [&](World& world) {
                                     try {
                                       train(world);
                                     } catch (std::exception const& error) {
                                       words[static_cast<std::size_t>(world.rank())] = error.what();
                                       throw;
                                     }
                                   },
                                   {.deadline = 800ms}));
      for (int rank = 0; rank < 4; ++rank) {
        CAPTURE(servers, late, rank, words[static_cast<std::size_t>(rank)]);
        CHECK(has(words[static_cast<std::size_t>(rank)], px::joined({"timeout (rank ", late, ")"})));
      }
    }
}
