// What a training apart has learnt is a Session's as any other: saved in `together`, restored by a Session of another kind, and back.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "training.hpp"

using namespace async_test;

TEST_CASE("a checkpoint of together goes to a session, and one of a session comes back", "[async][checkpoint]") {
  using TheModel = Model<float, px::Adam, px::Adagrad, px::Cyclic>;
  std::string folder = (std::filesystem::temp_directory_path() / "parallax-async-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()));
  for (int const servers : {0, 1}) {
    std::string const run = folder + "/" + std::to_string(servers);
    std::vector<int> wrong(3), idle(3);
    px::run_threads(3, [&](px::ThreadCommunicator& world) {
      auto const rank = static_cast<std::size_t>(world.rank());
      auto const same = [&](px::MemoryArchive const& one, px::MemoryArchive const& other) {
        for (std::size_t i = 0; i < one.records().size(); ++i)
          wrong[rank] += one.records()[i].name != "seen" && !(one.records()[i] == other.records()[i]);
      };
      auto const apart = [&](bool resumes, px::MemoryArchive& before, px::MemoryArchive& after) {
        std::optional<px::AsyncSession<px::ThreadCommunicator>> session;
        if (servers) session.emplace(world, px::Ssp{0}, px::Servers{servers});
        else session.emplace(world, px::Ssp{0});
        TheModel model{*session};
        if (resumes) session->together([&](auto& all) { all.restore(run, {}, model.layer, model.table); });
        session->together([&](auto&) { before = model.state(); });
        session->train([&](auto& worker) {
          for (int step = 0; step < 7; ++step) {
            Batch const batch = batch_of(3, worker.rank(), step, TheModel::rows);
            auto const pulled = worker.pull(model.table.at(batch.ids), model.layer);
            model.differentiate(pulled, batch);
            worker.push(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
          }
        });
        session->together([&](auto& all) {
          after = model.state();
          if (!resumes) all.save(run, {}, model.layer, model.table);
        });
        session->finish();
      };
      px::MemoryArchive fresh, saved, there, resumed, ahead;
      apart(false, fresh, saved);
      {
        px::Session session{servers ? px::Topology{world, px::Servers{servers}} : px::Topology{world}};
        TheModel model{session};
        session.restore(run, {}, model.layer, model.table);
        there = model.state();
        session.save(run, {}, model.layer, model.table);
        session.finish();
      }
      apart(true, resumed, ahead);
      same(saved, there);
      same(saved, resumed);
      for (std::size_t i = 0; i < ahead.records().size(); ++i)  // and what came back trains on
        idle[rank] += ahead.records()[i].variable == "layer" && ahead.records()[i].name == "values" &&
                      ahead.records()[i] == resumed.records()[i];
    });
    CHECK(wrong == std::vector<int>(3));
    CHECK(idle == std::vector<int>(3));
  }
  std::filesystem::remove_all(folder);
}
