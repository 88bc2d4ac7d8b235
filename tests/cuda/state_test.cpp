// What an archive sees of variables on a device: what it sees of the host's, so that a training begun here goes on there. And so do
// checkpoints, and whole tables.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "../interop/scratch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/variable/memory_archive.hpp"
#include "two_ranks.hpp"

namespace {

namespace px = parallax;
using emulated::on_two_ranks, parallax_test::Memory, parallax_test::values_of;

// A layer and a table, of which some rows are not settled after a step.
template <class Space, class C>
struct Model {
  Model(C& world, px::RowOps<Space> const& its_ops, float initial)
      : ops{its_ops},
        session{world},
        memory{ops, std::vector<float>(30, initial)},
        layer{session, "layer", px::bind(memory.span())},
        words{session, "words", px::Table{.rows = 21, .width = 3, .initial = px::uniform(-1, 1)}} {}

  void train(int from, int to) {
    for (int step = from; step < to; ++step) {
      std::mt19937_64 random{static_cast<std::uint64_t>(100 * step + session.rank())};
      std::vector<int> ids(random() % 5);
      for (int& id : ids) id = static_cast<int>(random() % 21);
      auto const draw = [&](std::size_t count) {
        std::vector<float> values(count);
        for (float& value : values) value = static_cast<float>(random() % 33) / 8 - 2;
        return values;
      };
      if (step == 2 || step == 6) words.optimizer().learning_rate /= 2;
      Memory<float, Space> const of_layer{ops, draw(30)}, of_rows{ops, draw(3 * ids.size())};
      session.step(px::grad(layer, of_layer.span()), px::grad(words, ids, of_rows.span()));
    }
  }
  template <class Archive>
  void visit(Archive&& archive) {
    layer.visit(archive);
    words.visit(archive);
  }

  px::RowOps<Space> ops;
  px::Session<C> session;
  Memory<float, Space> memory;
  px::Variable<px::Dense, px::PsShard, px::Adam, Space> layer;
  px::Variable<px::Sparse, px::Adam, Space> words;
};

// What a rank has kept after a training of so many steps that goes on from `archive`, if that is not empty.
template <class Space, class C>
px::MemoryArchive kept(C& world, px::RowOps<Space> const& ops, px::MemoryArchive const& from, int first, int last) {
  Model<Space, C> model{world, ops, from.records().empty() ? 0.5f : -1.0f};
  if (!from.records().empty()) model.visit(from.reader());
  model.train(first, last);
  px::MemoryArchive archive;
  model.visit(archive.writer());
  model.session.finish();
  return archive;
}
std::vector<px::MemoryArchive> kept_by_hosts(std::vector<px::MemoryArchive> const& from, int first, int last) {
  std::vector<px::MemoryArchive> archives(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    archives[rank] = kept<px::HostSpace>(world, px::RowOps<px::HostSpace>{}, from[rank], first, last);
  });
  return archives;
}

}  // namespace

TEST_CASE("a training that the host has begun goes on on a device to the same bits, and back", "[cuda][state]") {
  std::vector<px::MemoryArchive> const nothing(2);
  auto const whole = kept_by_hosts(nothing, 0, 12), begun = kept_by_hosts(nothing, 0, 4);
  auto const middle = on_two_ranks<px::MemoryArchive>([&](auto& world, auto const& ops) {
    return kept<px::CudaSpace>(world, ops, begun[static_cast<std::size_t>(world.rank())], 4, 8);
  });
  auto const ended = kept_by_hosts(middle, 8, 12);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    auto const a = whole[rank].records(), b = ended[rank].records();
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      INFO("rank " << rank << ": " << a[i].variable << ", " << a[i].name);
      CHECK(a[i] == b[i]);
    }
  }
}

TEST_CASE("a checkpoint goes from the host to a device and back, also to another number of ranks",
          "[cuda][state][checkpoint]") {
  parallax_test::Scratch const scratch;
  // Trains from the newest checkpoint in `from` on, if there is one named, and saves in `to`, behind the steps or not.
  auto const part = [&]<class Space>(auto& world, px::RowOps<Space> const& ops, char const* from, char const* to, int first,
                                     int last, bool behind) {
    Model<Space, std::remove_reference_t<decltype(world)>> model{world, ops, *from ? -1.0f : 0.5f};
    if (*from) model.session.restore(scratch.path(from), {}, model.layer, model.words);
    model.train(first, last);
    px::SaveOptions const options{.block_bytes = 50};
    if (behind) model.session.save_async(scratch.path(to), options, model.layer, model.words);
    else model.session.save(scratch.path(to), options, model.layer, model.words);
    model.session.finish();
    return std::vector<float>{};
  };
  auto const on_hosts = [&](int ranks, char const* from, char const* to, int first, int last) {
    px::run_threads(
        ranks, [&](px::ThreadCommunicator& world) { part(world, px::RowOps<px::HostSpace>{}, from, to, first, last, false); });
  };
  auto const on_devices = [&](char const* from, char const* to, int first, int last, bool behind) {
    on_two_ranks<std::vector<float>>(
        [&](auto& world, auto const& ops) { return part(world, ops, from, to, first, last, behind); });
  };
  // All files of a generation but what its identity is in: as Python would see them.
  auto const tensors = [&](char const* folder) {
    std::vector<float> all;
    for (int const rank : {0, 1}) {
      px::safetensors::Reader const shard{scratch.path(folder) + "/generation-000001/" + px::detail::shard_name(rank)};
      for (std::size_t i = 0; i < shard.size(); ++i)
        if (shard.tensor(i).dtype == px::safetensors::Dtype::f32)
          for (float const value : shard.values<float>(shard.tensor(i).name)) all.push_back(value);
    }
    return all;
  };
  on_hosts(3, "", "begun", 0, 4);
  on_hosts(2, "begun", "hosts", 4, 8);
  on_devices("begun", "devices", 4, 8, false);
  on_devices("begun", "behind", 4, 8, true);
  REQUIRE(tensors("hosts").size() > 100);
  CHECK(emulated::same_bits(tensors("hosts"), tensors("devices")));
  CHECK(emulated::same_bits(tensors("hosts"), tensors("behind")));
  on_hosts(2, "hosts", "ended", 8, 12);
  on_hosts(2, "devices", "ended on the host", 8, 12);
  CHECK(emulated::same_bits(tensors("ended"), tensors("ended on the host")));
}

TEST_CASE("a whole table of a device is taken, and given other rows", "[cuda][state][checkpoint]") {
  for (px::WholeAt const at : {px::WholeAt::rank_0, px::WholeAt::every_rank, px::WholeAt::parts}) {
    INFO(px::to_string(at));
    auto const wrong = on_two_ranks<std::vector<float>>([&](auto& world, auto const& ops) {
      px::Session session{world};
      px::Table const made{.rows = 57, .width = 3, .initial = px::uniform(-1, 1)};
      px::Variable<px::Sparse, px::Adagrad, px::CudaSpace> table{session, "table", made};
      px::WholeOptions const options{.at = at, .call_bytes = 300};
      std::vector<float> problems;
      session.scatter(table, options, [&](std::span<std::int64_t const> numbers, px::RowsView<float> rows) {
        for (std::int64_t i = 0; i < rows.rows; ++i)
          for (std::int64_t k = 0; k < 3; ++k)
            rows.row(i)[k] = static_cast<float>(10 * numbers[static_cast<std::size_t>(i)] + k);
      });
      auto const local = values_of(ops, table.local());
      for (std::size_t i = 0; i < local.size(); ++i) {
        std::int64_t const row = table.global_row(static_cast<std::int64_t>(i / 3));
        if (local[i] != static_cast<float>(10 * row + static_cast<std::int64_t>(i % 3))) problems.push_back(local[i]);
      }
      std::int64_t taken = 0;
      session.gather(table, options, [&](std::span<std::int64_t const> numbers, px::RowsView<float const> rows) {
        for (std::int64_t i = 0; i < rows.rows; ++i, ++taken)
          for (std::int64_t k = 0; k < 3; ++k)
            if (rows.row(i)[k] != static_cast<float>(10 * numbers[static_cast<std::size_t>(i)] + k))
              problems.push_back(rows.row(i)[k]);
      });
      std::int64_t const all = at == px::WholeAt::every_rank ? 57
                               : at == px::WholeAt::rank_0   ? (world.rank() == 0 ? 57 : 0)
                               : world.rank() == 0           ? 28
                                                             : 29;
      if (taken != all) problems.push_back(static_cast<float>(taken));
      session.finish();
      return problems;
    });
    CHECK(wrong[0] == std::vector<float>{});
    CHECK(wrong[1] == std::vector<float>{});
  }
}

TEST_CASE("an array of a device that is shown in parts comes back whole", "[cuda][state]") {
  auto const wrong = on_two_ranks<std::vector<float>>([&](auto& world, auto const& ops) {
    px::Table const long_rows{.rows = 9, .width = 400'000, .initial = px::uniform(-1, 1)};
    px::Session session{world};
    px::Variable<px::Sparse, px::AllGather, px::Sgd, px::CudaSpace> table{session, "table", long_rows};
    px::MemoryArchive archive;
    table.visit(archive.writer());
    auto const before = values_of(ops, table.local());
    ops.clear(table.local().data, before.size() * sizeof(float));
    table.visit(archive.reader());
    bool const same = emulated::same_bits(before, values_of(ops, table.local()));
    session.finish();
    return std::vector<float>(same ? 0 : 1);
  });
  CHECK(wrong[0].empty());
  CHECK(wrong[1].empty());
}
