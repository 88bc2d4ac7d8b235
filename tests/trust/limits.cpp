// Sizes about a limit of the transport, lowered for most, and once the real one of 2^31 bytes.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../comm/hostile.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/collectives.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "sizes.hpp"
#include "table.hpp"

namespace parallax_test::trust_limits {
namespace {

namespace px = parallax;
using Threads = px::ThreadCommunicator;
using Hostile = HostileCommunicator<Threads>;

std::vector<std::vector<Sized>> train(int ranks, std::size_t limit, std::size_t largest, int sizes) {
  std::vector<std::vector<Sized>> seen(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](Threads& threads) {
    px::AnyCommunicator world{Hostile{threads, {.largest = largest, .limit = limit}}};
    seen[static_cast<std::size_t>(threads.rank())] = train_sizes(world, sizes, limit);
  });
  return seen;
}

// Memory of zeros that costs nothing until it is written.
struct Zeros {
  explicit Zeros(std::size_t count) : data{static_cast<float*>(std::calloc(count, sizeof(float)))} {
    if (!data) throw std::bad_alloc{};
  }
  Zeros(Zeros const&) = delete;
  Zeros& operator=(Zeros const&) = delete;
  ~Zeros() { std::free(data); }
  float* data;
};

}  // namespace

TEST_CASE("R11 sizes about a limit of 1000 bytes are right where what is larger is cut", "[trust][limits]") {
  Table table{"R11 sizes about a limit of 1000 bytes on hostile threads"};
  for (int const ranks : {1, 2, 3, 4}) {
    auto const seen = train(ranks, 1000, 1000, 500);
    for (std::size_t i = 0; i < seen[0].size(); ++i) {
      std::string complaint;
      for (auto const& of_rank : seen)
        if (!of_rank[i].complaint.empty()) complaint = std::to_string(ranks) + " ranks, " + of_rank[i].complaint;
      table.count(seen[0][i].kind, complaint);
    }
  }
  table.check(2000);
  CHECK_THROWS_AS(train(2, 1000, Hostility::unlimited, 500), px::Error);  // uncut, some exceed it
}

TEST_CASE("R11 one dense variable of more than 2^31 bytes takes a step", "[.][trust][big]") {
  std::size_t const n = (std::size_t{1} << 29) + 250;
  std::vector<float> const gradient(n, 1.0f);  // of both ranks
  std::vector<std::string> complaints(2);
  px::run_threads(2, [&](Threads& world) {
    px::Session session{world};
    Zeros const memory{n};
    px::Variable<px::Dense, px::PsShard> huge{session, "huge", px::bind(std::span{memory.data, n}),
                                              px::Sgd{.learning_rate = 0.5}, px::Reduce::sum};
    session.step(px::grad(huge, gradient));
    for (std::size_t i = 0; i < n; ++i)
      if (memory.data[i] != -1.0f) {
        complaints[static_cast<std::size_t>(world.rank())] =
            "element " + std::to_string(i) + " is " + std::to_string(memory.data[i]);
        break;
      }
    session.finish();
  });
  CHECK(complaints == std::vector<std::string>(2));
}

TEST_CASE("R11 one block of more than 2^31 bytes arrives", "[.][trust][big]") {
  std::size_t const n = (std::size_t{1} << 29) + 250;
  std::vector<float> seen(4);
  px::run_threads(2, [&](Threads& world) {
    Zeros const memory{n};
    if (world.rank() == 0)
      for (std::size_t i = 0; i < n; i += 1024) memory.data[i] = static_cast<float>(i / 1024);
    if (world.rank() == 0) memory.data[n - 1] = 7;
    px::broadcast<float>(world, {memory.data, n}, 0);
    if (world.rank() == 1)
      seen = {memory.data[1], memory.data[std::size_t{1} << 28], memory.data[std::size_t{1} << 29], memory.data[n - 1]};
  });
  CHECK(seen == std::vector<float>{0, 1 << 18, 1 << 19, 7});
}

TEST_CASE("R11 rows of more than 2^31 bytes are pulled from one rank, out of a larger table", "[.][trust][big]") {
  constexpr std::int64_t width = 1000, rows = 2'400'000, pulled = 540'000;  // 4.8 GB a shard, 2.16 GB pulled from one
  std::string complaint;
  px::run_threads(2, [&](Threads& world) {
    px::Session session{world};
    std::unique_ptr<Zeros> memory;
    px::Variable<px::Sparse, px::Block> table{session, "table", px::bind_shard(rows, width, [&](std::int64_t local) {
      memory = std::make_unique<Zeros>(static_cast<std::size_t>(local * width));
      return memory->data;
    })};
    auto const local = table.local();
    std::int64_t const first = rows - pulled;
    if (world.rank() == 1)
      for (std::int64_t r = 0; r < local.rows; r += 1000) local[r][width - 1] = static_cast<float>(table.global_row(r));
    std::vector<std::int64_t> ids;
    if (world.rank() == 0)
      for (std::int64_t id = rows; id-- > first;) ids.push_back(id);
    auto const handle = session.pull(table, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      float const wanted = (ids[i] - rows / 2) % 1000 == 0 ? static_cast<float>(ids[i]) : 0.0f;
      if (handle[i][width - 1] != wanted || handle[i][0] != 0) complaint = "row " + std::to_string(ids[i]);
    }
    session.finish();
  });
  CHECK(complaint == "");
}

}  // namespace parallax_test::trust_limits
