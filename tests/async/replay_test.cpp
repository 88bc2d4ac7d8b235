// A log says in which order an owner served: whoever follows it has the same bits, whatever the clocks of its threads, and a log by
// hand is a script of a test.
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "training.hpp"

using namespace async_test;

namespace {

using TheModel = Model<float, px::Adam, px::Adagrad, px::Cyclic>;

template <class Rule>
States train(int ranks, int servers, Rule const& rule, std::vector<px::RunLog>& logs, bool record, std::uint64_t naps) {
  States states(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    px::AsyncOptions options;
    if (record) options.record = &logs[rank];
    else options.replay = &logs[rank];
    std::mt19937_64 random{naps * 31 + rank};
    states[rank] = train_apart<TheModel>(
        world, rule, servers, 40, 77,
        [&](auto& worker, int) {
          if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds{random() % 400});
          worker.poll();
        },
        options);
  });
  return states;
}

bool differ(States const& one, States const& other) {
  for (std::size_t rank = 0; rank < one.size(); ++rank)
    for (std::size_t i = 0; i < one[rank].records().size(); ++i)
      if (one[rank].records()[i].name == "values" && !(one[rank].records()[i] == other[rank].records()[i])) return true;
  return false;
}

}  // namespace

TEST_CASE("a run that follows a log has every bit of the run that wrote it", "[async][replay]") {
  bool any_differ = false;
  for (auto const& shape : {std::pair{3, 0}, {4, 2}, {2, 1}}) {
    int const ranks = shape.first, servers = shape.second;
    auto const check = [&](auto const& rule, std::uint64_t naps) {
      std::vector<px::RunLog> logs(static_cast<std::size_t>(ranks)), others = logs;
      States const first = train(ranks, servers, rule, logs, true, naps);
      any_differ = any_differ || differ(first, train(ranks, servers, rule, others, true, naps + 1));
      for (auto& log : logs) log = px::RunLog{log.numbers()};  // as from a file
      States const again = train(ranks, servers, rule, logs, false, naps + 2);
      for (std::size_t rank = 0; rank < first.size(); ++rank)
        for (std::size_t i = 0; i < first[rank].records().size(); ++i) {
          CAPTURE(ranks, servers, rank, first[rank].records()[i].name);
          CHECK((first[rank].records()[i].name == "seen" || first[rank].records()[i] == again[rank].records()[i]));
        }
    };
    check(px::Asp{}, 1);
    check(px::Ssp{3}, 2);
    check(px::Ssp{0}, 3);
    if (ranks - servers > 1) check(px::Backup{1}, 4);
  }
  CHECK(any_differ);  // or the logs decided nothing
}

TEST_CASE("a log that was changed or cut is an error at its entry", "[async][replay]") {
  std::vector<px::RunLog> logs(2);
  train(2, 1, px::Asp{}, logs, true, 5);
  auto const told = [&](std::vector<std::uint64_t> const& numbers) -> std::string {
    std::vector<px::RunLog> changed{px::RunLog{numbers}, px::RunLog{}};
    try {
      train(2, 1, px::Asp{}, changed, false, 6);
    } catch (px::Error const& error) {
      return error.what();
    }
    return "";
  };
  auto const& numbers = logs[0].numbers();
  REQUIRE(numbers.size() == 2 * 40 + 1);
  auto swapped = numbers, cut = numbers, longer = numbers, stranger = numbers;
  std::swap(swapped[20], swapped[21]);
  cut.resize(50);
  longer.push_back(longer.back());
  stranger[3] = px::RunLog{numbers}.numbers()[3] | std::uint64_t{9} << 50;
  CHECK(told(numbers) == "");
  CHECK(told(swapped).find("the log cannot be followed at entry 20: worker 0 does something else, after 10 pushes") !=
        std::string::npos);
  CHECK(told(cut).find("the log cannot be followed at entry 50: it ends, and worker 0 goes on") != std::string::npos);
  CHECK(told(longer).find("the log cannot be followed at entry 81: it goes on, and all workers have left") !=
        std::string::npos);
  CHECK(told(stranger).find("the log cannot be followed at entry 3: there is no worker 9") != std::string::npos);
}

TEST_CASE("by_staleness divides old pushes by their age, and ages are counted", "[async][replay]") {
  // Two workers and one server: worker 1 reads at the beginning, and pushes after so many pushes of worker 0.
  using Kind = px::RunLog::Kind;
  for (int const age : {0, 1, 2, 3, 7, 70})
    for (auto const scale : {px::PushScale::one, px::PushScale::by_staleness}) {
      px::RunLog script;
      script.add({1, Kind::answer, 0});
      for (int push = 0; push < age; ++push) script.add({0, Kind::answer, push}), script.add({0, Kind::push, push});
      script.add({1, Kind::push, 0});
      script.add({0, Kind::leave, age});
      script.add({1, Kind::leave, 1});
      float end = 0;
      px::ServiceCounts counts;
      px::run_threads(3, [&](px::ThreadCommunicator& world) {
        px::AsyncSession session{world, px::Asp{}, px::Servers{1}, px::AsyncOptions{.scale = scale, .replay = &script}};
        std::vector<float> weight(1, 0.0f);
        px::Variable<px::Dense, px::PsShard> layer{session, "layer", px::bind(weight), px::Sgd{.learning_rate = 0.1}};
        session.train([&](auto& worker) {
          for (int push = 0; push < (worker.rank() == 0 ? age : 1); ++push) {
            worker.pull(layer);
            worker.push(px::grad(layer, std::vector{worker.rank() == 0 ? 0.3f : 0.7f}));
          }
        });
        session.together([&](auto&) {
          if (world.rank() == 0) end = weight[0], counts = session.counts();
        });
        session.finish();
      });
      float expected = 0;
      for (int push = 0; push < age; ++push) expected -= 0.1f * 0.3f;
      bool const old = scale == px::PushScale::by_staleness && age > 1;
      expected -= 0.1f * (old ? 0.7f * static_cast<float>(1.0 / age) : 0.7f);
      CAPTURE(age, old);
      CHECK(end == expected);
      CHECK(counts.ages[1][static_cast<std::size_t>(std::min(age, 64))] == 1);
      CHECK(counts.ages[0][0] == static_cast<std::uint64_t>(age));
    }
}
