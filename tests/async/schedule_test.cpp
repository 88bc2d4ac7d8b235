// Settings as functions of the number of updates: the owner gives them to its optimizer before each one.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "told.hpp"
#include "training.hpp"

using namespace async_test;

namespace {

using TheModel = Model<float, px::Adagrad, px::Adam, px::Cyclic>;
constexpr int workers = 3, steps = 25;
auto const rate = px::warmup(px::cosine(0.3, 40), 5);

// A Session's user sets the rate before each step.
px::MemoryArchive by_hand(px::ThreadCommunicator& world, int servers) {
  px::Session session{servers ? px::Topology{world, px::Servers{servers}} : px::Topology{world},
                      {.join_divisor = px::JoinDivisor::active}};
  TheModel model{session};
  auto const iterate = [&](Batch const& batch) {
    auto const pulled = session.pull(model.table, batch.ids);
    model.differentiate(pulled, batch);
    model.layer.optimizer().learning_rate = rate(session.steps());
    model.table.optimizer().learning_rate = rate(session.steps());
    session.step(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
  };
  if (world.rank() >= servers)
    for (int step = 0; step < steps; ++step) iterate(batch_of(5, world.rank() - servers, step, TheModel::rows));
  session.join([&] { iterate({{}, std::vector<double>(64)}); });
  auto kept = model.state();
  session.finish();
  return kept;
}

// Two trainings, so that settings are compared again once there were updates.
px::MemoryArchive by_schedule(px::ThreadCommunicator& world, int servers, bool meets) {
  std::optional<px::AsyncSession<px::ThreadCommunicator>> session;
  if (servers) session.emplace(world, px::Ssp{0}, px::Servers{servers});
  else session.emplace(world, px::Ssp{0});
  TheModel model{*session};
  session->schedule(model.layer, [](px::Adagrad& rule, std::int64_t update) { rule.learning_rate = rate(update); });
  session->schedule(model.table, [](px::Adam& rule, std::int64_t update) { rule.learning_rate = rate(update); });
  for (int const until : {10, steps}) {
    session->train([&](auto& worker) {
      for (auto step = static_cast<int>(worker.clock()); step < until; ++step) {
        Batch const batch = batch_of(5, worker.rank(), step, TheModel::rows);
        auto const pulled = worker.pull(model.table.at(batch.ids), model.layer);
        model.differentiate(pulled, batch);
        worker.push(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
      }
    });
    if (meets) session->together([](auto&) {});
  }
  px::MemoryArchive kept;
  session->together([&](auto&) {
    if (model.table.optimizer().learning_rate == rate(steps)) kept = model.state();  // that of the next update
  });
  session->finish();
  return kept;
}

}  // namespace

TEST_CASE("by clock, a schedule has the bits of a session whose user sets the rate", "[async][schedule]") {
  for (int const servers : {0, 2})
    for (bool const meets : {false, true}) {
      int const ranks = workers + servers;
      States together(static_cast<std::size_t>(ranks)), apart = together;
      px::run_threads(ranks, [&](auto& world) { together[static_cast<std::size_t>(world.rank())] = by_hand(world, servers); });
      px::run_threads(ranks,
                      [&](auto& world) { apart[static_cast<std::size_t>(world.rank())] = by_schedule(world, servers, meets); });
      for (std::size_t rank = 0; rank < apart.size(); ++rank) {
        REQUIRE(apart[rank].records().size() == together[rank].records().size());
        for (std::size_t i = 0; i < apart[rank].records().size(); ++i) {
          auto const &one = together[rank].records()[i], &other = apart[rank].records()[i];
          CAPTURE(servers, meets, rank, one.variable, one.name);
          bool const of_ranks = one.name == "seen" || one.name.starts_with("optimizer.") || one.name.starts_with("history");
          CHECK((of_ranks || one == other));
        }
      }
    }
}

TEST_CASE("apart, each push has the rate of its number at the owner", "[async][schedule]") {
  double end = 0;
  px::run_threads(4, [&](px::ThreadCommunicator& world) {
    px::AsyncSession session{world, px::Asp{}, px::Servers{1}};
    std::vector<double> weights(3);
    px::Variable<px::Dense, px::PsShard, double> layer{session, "layer", px::bind(weights)};
    session.schedule(layer,
                     [](px::Sgd& rule, std::int64_t update) { rule.learning_rate = 1 / (1.0 + static_cast<double>(update)); });
    session.train([&](auto& worker) {
      for (int step = 0; step < 50; ++step) worker.push(px::grad(layer, std::vector<double>(3, 1.0)));
    });
    session.together([&](auto&) {
      if (world.rank() == 3) end = weights[2];
    });
    session.finish();
  });
  double expected = 0;
  for (int update = 0; update < 150; ++update) expected -= 1 / (1.0 + update);
  CHECK(end == expected);
}

TEST_CASE("ranks with other schedules are told so, and a schedule within train is refused", "[async][schedule]") {
  for (bool const none : {false, true})
    for (auto const& words : told(3, [&](px::ThreadCommunicator& world) {
           px::AsyncSession session{world, px::Ssp{1}};
           px::Variable<px::Sparse, px::Adagrad> table{session, "words", {.rows = 10, .width = 2}};
           double const of_rank = world.rank() == 2 ? 0.2 : 0.1;
           if (!none || world.rank() != 2)
             session.schedule(table, [=](px::Adagrad& rule, std::int64_t update) {
               rule.learning_rate = of_rank / (1.0 + static_cast<double>(update));
             });
           session.train([](auto&) {});
         })) {
      CAPTURE(words);
      CHECK(words.find("mismatch between ranks (rank 2) in train of") != std::string::npos);
      CHECK(words.find("words'") != std::string::npos);
    }
  auto const within = told(1, [&](px::ThreadCommunicator& world) {
    px::AsyncSession session{world, px::Ssp{1}};
    px::Variable<px::Sparse> table{session, "words", {.rows = 10, .width = 2}};
    session.train([&](auto&) { session.schedule(table, [](px::Sgd&, std::int64_t) {}); });
  });
  CHECK(within[0].find("misuse (rank 0) in schedule of 'words': a schedule is given before train, not within it") !=
        std::string::npos);
}
