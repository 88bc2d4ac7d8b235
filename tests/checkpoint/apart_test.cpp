// Checkpoints of ranks that do not see the same folder: each host has the files of its own ranks, and what is restored is the newest
// generation that the hosts have together.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "catch.hpp"
#include "hosts.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test {
namespace {

namespace px = parallax;
namespace fs = std::filesystem;

struct Trainer {
  explicit Trainer(px::ThreadCommunicator& world, float initial = 0.5f)
      : memory(1500, initial), session{world}, words{session, "words", {301, 5, px::uniform(initial, 1, 3)}} {
    for (int i = 0; i < 30; ++i) {
      layers.push_back(std::vector<float>(2000, initial + static_cast<float>(i)));
      tensors.emplace_back(session, "layer " + std::to_string(i), px::bind(layers.back()));
    }
    own.assign(static_cast<std::size_t>(40 * (session.rank() + 1)), static_cast<std::uint64_t>(session.rank()));
  }

  void train_to(std::int64_t steps) {
    for (; session.steps() < steps; ++epoch) {
      std::vector<std::int64_t> const ids{7 * session.rank() + session.steps(), 5, 299};
      px::Updates<px::Variable<px::Dense, px::Momentum>> updates;
      for (std::size_t i = 0; i < tensors.size(); ++i) updates.push_back(px::grad(tensors[i], layers[i]));
      session.step(px::grad(words, ids, std::vector<float>(15, 0.25f)), px::grad(bias, memory), updates);
      for (auto& value : own) value = 3 * value + 1;
    }
  }
  auto with(auto&& operation) {
    return operation(words, bias, tensors, px::shared_value("epoch", epoch), px::own_value("numbers", own));
  }
  px::Saved save(px::SaveOptions const& options = {.block_bytes = 500}) {
    return with([&](auto&&... things) { return session.save("run", options, things...); });
  }
  px::Restored restore(std::int64_t generation = 0) {
    return with([&](auto&&... things) { return session.restore("run", {.generation = generation}, things...); });
  }
  // Of all rows and what stands beside them, by their numbers; summed over all ranks it is of the whole state but for own values.
  std::uint64_t digest() {
    std::uint64_t sum = 0;
    auto const rows = words.local(), first = words.slot("m"), second = words.slot("v");
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      auto const by = 2 * static_cast<std::uint64_t>(words.global_row(i)) + 1;
      sum += (px::detail::checksum(rows.row(i), 20) + 3 * px::detail::checksum(first.row(i), 20) +
              5 * px::detail::checksum(second.row(i), 20)) *
             by;
    }
    if (session.rank() != 0) return sum;
    sum += px::detail::checksum(memory.data(), 6000) + static_cast<std::uint64_t>(1000 * epoch + session.steps());
    for (std::size_t i = 0; i < layers.size(); ++i) sum += (2 * i + 3) * px::detail::checksum(layers[i].data(), 8000);
    return sum;
  }
  bool own_is_of(std::int64_t steps) const {
    auto value = static_cast<std::uint64_t>(session.rank());
    for (std::int64_t i = 0; i < steps; ++i) value = 3 * value + 1;
    return own == std::vector<std::uint64_t>(static_cast<std::size_t>(40 * (session.rank() + 1)), value);
  }

  std::vector<float> memory;
  px::Session<px::ThreadCommunicator> session;
  px::Variable<px::Sparse, px::Adam, px::Hash> words;
  px::Variable<px::Dense, px::Momentum> bias{session, "bias", px::bind(memory)};
  std::vector<std::vector<float>> layers = std::vector<std::vector<float>>();
  std::vector<px::Variable<px::Dense, px::Momentum>> tensors;
  int epoch = 0;
  std::vector<std::uint64_t> own;
};

// Which host each rank is on.
using Hosts = std::vector<int>;

// `body(trainer)` on each rank, at its host's place below `root`. Returns the sum of what it returns.
std::uint64_t on_hosts(std::string const& root, Hosts const& hosts, std::function<std::uint64_t(Trainer&)> const& body) {
  std::vector<std::uint64_t> each(hosts.size());
  for (int const host : hosts) fs::create_directories(root + "/host" + std::to_string(host));
  px::run_threads(static_cast<int>(hosts.size()), [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    OnHost const host{root + "/host" + std::to_string(hosts[rank])};
    Trainer trainer{world};
    each[rank] = body(trainer);
    trainer.session.finish();
  });
  std::uint64_t sum = 0;
  for (std::uint64_t const one : each) sum += one;
  return sum;
}
std::uint64_t saved(std::string const& root, Hosts const& hosts, std::int64_t steps,
                    px::SaveOptions const& options = {.block_bytes = 500}) {
  return on_hosts(root, hosts, [&](Trainer& trainer) {
    trainer.train_to(steps);
    trainer.save(options);
    return trainer.digest();
  });
}
struct Seen {
  std::uint64_t digest = 0;
  std::int64_t generation = 0, step = 0;
  bool own = false;   // all ranks have their own values again
  std::string error;  // of rank 0
  std::vector<std::string> lost;
};
Seen restored(std::string const& root, Hosts const& hosts, std::int64_t generation = 0) {
  Seen seen;
  std::vector<char> own(hosts.size());
  std::vector<std::string> errors(hosts.size());
  seen.digest = on_hosts(root, hosts, [&](Trainer& trainer) -> std::uint64_t {
    auto const rank = static_cast<std::size_t>(trainer.session.rank());
    try {
      auto const was = trainer.restore(generation);
      own[rank] = trainer.own_is_of(was.step);
      if (rank == 0) seen.generation = was.generation, seen.step = was.step, seen.lost = was.lost;
    } catch (px::Error const& error) {
      errors[rank] = error.what();
      return 0;
    }
    return trainer.digest();
  });
  for (std::string const& error : errors) CHECK(error == errors[0]);
  seen.error = errors[0];
  seen.own = std::find(own.begin(), own.end(), 0) == own.end();
  return seen;
}
std::vector<std::int64_t> generations(std::string const& root, int host) {
  return px::detail::generations_in(root + "/host" + std::to_string(host) + "/run");
}
using Numbers = std::vector<std::int64_t>;

std::string text(Hosts const& hosts) {
  std::string all;
  for (int const host : hosts) all += std::to_string(host);
  return all;
}

}  // namespace

TEST_CASE("each host keeps the files of its ranks, and all come back", "[checkpoint][apart]") {
  Scratch const scratch;
  std::string const root = scratch.path("hosts");
  Hosts const hosts{0, 0, 1, 1};
  std::uint64_t const digest = saved(root, hosts, 3);
  auto const there = [&](int host, char const* file) {
    return fs::exists(root + "/host" + std::to_string(host) + "/run/generation-000001/" + file);
  };
  CHECK((there(0, "shard-00001.safetensors") && !there(0, "shard-00002.safetensors")));
  CHECK((there(1, "shard-00002.safetensors") && !there(1, "shard-00001.safetensors")));
  CHECK(read_all(root + "/host0/run/generation-000001/manifest.safetensors") ==
        read_all(root + "/host1/run/generation-000001/manifest.safetensors"));
  for (int const host : {0, 1})
    CHECK(px::detail::names_in(root + "/host" + std::to_string(host) + "/run").size() == 2);  // and the lock
  SECTION("on the same hosts, also with what each rank has of its own") {
    Seen const seen = restored(root, hosts);
    CHECK(seen.error == "");
    CHECK(seen.digest == digest);
    CHECK(seen.own);
  }
  SECTION("on hosts that were exchanged, of which no rank sees its own file") {
    Seen const seen = restored(root, {1, 1, 0, 0});
    CHECK(seen.error == "");
    CHECK(seen.digest == digest);
    CHECK(seen.own);
  }
  SECTION("on a host that has nothing beside them") {
    Seen const seen = restored(root, {2, 0, 1});
    CHECK(seen.error == "");
    CHECK(seen.digest == digest);
    CHECK(seen.lost == std::vector<std::string>{"words/dropped", "words/seen", "numbers"});
  }
  SECTION("not where a host is missing") {
    Seen const seen = restored(root, {0, 0, 2});
    CHECK(seen.error ==
          says("it has no complete generation of a checkpoint: run/generation-000001/shard-00002.safetensors: no rank "
               "sees it as it was written"));
    CHECK(restored(root, {0}, 1).error == says("generation-000001/shard-00002.safetensors: no rank sees it as it was written"));
  }
  SECTION("by ranks that share a folder into which all was copied") {
    fs::create_directories(root + "/host3");
    for (int const host : {0, 1})
      fs::copy(root + "/host" + std::to_string(host) + "/run", root + "/host3/run",
               fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    CHECK(restored(root, {3, 3}).digest == digest);
    CHECK(px::detail::find_generation(root + "/host3/run", 0).facts().homes == std::vector<int>{0, 0, 2, 2});
  }
}

TEST_CASE("what was saved in one folder is restored by ranks of which some do not see it", "[checkpoint][apart]") {
  Scratch const scratch;
  std::string const root = scratch.path("hosts");
  std::uint64_t const digest = saved(root, {0, 0, 0}, 3);
  CHECK(px::detail::find_generation(root + "/host0/run", 0).facts().homes.empty());
  for (Hosts const& hosts : {Hosts{0, 0, 0}, Hosts{1, 0, 2}, Hosts{1, 1, 1, 1, 0}}) {
    INFO(text(hosts));
    Seen const seen = restored(root, hosts);
    CHECK(seen.error == "");
    CHECK(seen.digest == digest);
    CHECK(seen.own == (hosts.size() == 3));
  }
}

TEST_CASE("from any hosts to any others", "[checkpoint][apart]") {
  unsigned const seed = std::random_device{}();
  std::mt19937_64 random{seed};
  std::printf("seed %u\n", seed);
  for (int turn = 0; turn < sized(2, 12, 200); ++turn) {
    Scratch const scratch;
    std::string const root = scratch.path("hosts");
    int const count = 1 + static_cast<int>(random() % 3);
    Hosts from(1 + random() % 5);
    for (int& host : from) host = static_cast<int>(random() % static_cast<std::uint64_t>(count));
    Hosts to(1 + random() % 5);
    for (int& host : to) host = static_cast<int>(random() % static_cast<std::uint64_t>(count + 1));
    for (int host = 0; host < count; ++host)
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(random() % (to.size() + 1)), host);
    INFO("seed " << seed << ", from " << text(from) << " to " << text(to));
    std::uint64_t const digest = saved(root, from, 2, {.block_bytes = 1 + static_cast<std::int64_t>(random() % 3000)});
    Seen const seen = restored(root, to);
    CHECK(seen.error == "");
    CHECK(seen.digest == digest);
    if (from.size() == to.size()) CHECK(seen.own);
  }
}

TEST_CASE("what one host has not committed is none, and stays out of the way", "[checkpoint][apart]") {
  Scratch const scratch;
  std::string const root = scratch.path("hosts");
  Hosts const hosts{0, 1, 1};
  std::uint64_t const first = saved(root, hosts, 2);
  saved(root, hosts, 4);
  // As a kill between the two names leaves it.
  fs::rename(root + "/host1/run/generation-000002", root + "/host1/run/generation-000002.part");
  Seen const seen = restored(root, hosts);
  CHECK(seen.error == "");
  CHECK(seen.generation == 1);
  CHECK(seen.digest == first);
  // The next save is the third; of two that stay the second is none, for nobody can restore it.
  std::uint64_t const third = saved(root, hosts, 6, {.keep = 2});
  CHECK(generations(root, 0) == Numbers{3, 2, 1});
  CHECK(generations(root, 1) == Numbers{3, 1});
  CHECK(px::detail::names_in(root + "/host1/run").size() == 3);  // and the lock
  CHECK(restored(root, hosts).digest == third);
  saved(root, hosts, 8, {.keep = 2});
  CHECK(generations(root, 0) == Numbers{4, 3});
  CHECK(generations(root, 1) == Numbers{4, 3});
}

TEST_CASE("a trainer's own save behind the steps is none of its Checkpoints", "[checkpoint][apart]") {
  Scratch const scratch;
  std::atomic<int> told = 0;
  on_hosts(scratch.path("hosts"), {0, 1}, [&](Trainer& trainer) -> std::uint64_t {
    trainer.train_to(1);
    trainer.with([&](auto&&... things) {
      px::Checkpoints every{trainer.session, "run", px::Every{.steps = 1'000}, things...};
      trainer.session.save_async("another", {}, things...);
      for (std::int64_t step = 2; step < 60; ++step) {  // long enough for what is written, and for all ranks to hear of it
        trainer.train_to(step);
        if (every.step()) ++told;
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
      }
    });
    return 0;
  });
  CHECK(told == 0);
}

TEST_CASE("of a generation that one host has a file of too short or too long the one before it is restored",
          "[checkpoint][apart]") {
  Scratch const scratch;
  std::string const root = scratch.path("hosts");
  Hosts const hosts{0, 1, 1};
  std::uint64_t const first = saved(root, hosts, 2), second = saved(root, hosts, 4);
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    std::string const folder = root + "/host" + std::to_string(hosts[rank]) + "/run/generation-000002/";
    std::string const file = folder + px::detail::shard_name(static_cast<int>(rank));
    auto const bytes = fs::file_size(file);
    for (auto const size : {bytes - 1, bytes + 1}) {
      fs::copy_file(file, file + ".whole");
      fs::resize_file(file, size);
      INFO("file " << rank << " of " << size << " bytes for " << bytes);
      Seen const seen = restored(root, hosts);
      CHECK(seen.error == "");
      CHECK(seen.generation == 1);
      CHECK(seen.digest == first);
      CHECK(restored(root, hosts, 2).error == "parallax: file (rank 0) in restore: run/generation-000002/" +
                                                  px::detail::shard_name(static_cast<int>(rank)) +
                                                  ": no rank sees it as it was written");
      fs::rename(file + ".whole", file);
    }
  }
  CHECK(restored(root, hosts).digest == second);
}

TEST_CASE("a host that cannot write is told of on all ranks, and nothing is left", "[checkpoint][apart]") {
  Scratch const scratch;
  std::string const root = scratch.path("hosts");
  fs::create_directories(root + "/host1");
  scratch.write("hosts/host1/run", "no folder");
  std::vector<std::string> said(3);
  on_hosts(root, {0, 0, 1}, [&](Trainer& trainer) -> std::uint64_t {
    try {
      trainer.save();
    } catch (px::Error const& error) {
      said[static_cast<std::size_t>(trainer.session.rank())] = error.what();
    }
    return 0;
  });
  CHECK(said[0] == says("(rank 2)"));
  CHECK(said[0] == says("run"));
  CHECK((said[1] == said[0] && said[2] == said[0]));
  CHECK(px::detail::names_in(root + "/host0/run") == std::vector<std::string>{"checkpoint.lock"});
}

TEST_CASE("behind the steps, a generation is there once all have written and a step has told so", "[checkpoint][apart]") {
  Scratch const scratch;
  std::string const root = scratch.path("hosts");
  Hosts const hosts{0, 0, 1};
  std::vector<std::vector<std::int64_t>> told(hosts.size());
  std::vector<std::uint64_t> cut(hosts.size());
  on_hosts(root, hosts, [&](Trainer& trainer) -> std::uint64_t {
    auto const rank = static_cast<std::size_t>(trainer.session.rank());
    return trainer.with([&](auto&&... things) -> std::uint64_t {
      px::Checkpoints every{trainer.session, "run", {.steps = 5, .keep = 2}, things...};
      while (trainer.session.steps() < 9 || told[rank].empty()) {
        trainer.train_to(trainer.session.steps() + 1);
        if (trainer.session.steps() == 5) cut[rank] = trainer.digest();
        if (auto const now = every.step()) told[rank].push_back(now->step);
        if (trainer.session.steps() > 20'000) break;
      }
      return 0;
    });
  });
  CHECK(told[0] == Numbers{5});
  CHECK((told[1] == told[0] && told[2] == told[0]));
  Seen const seen = restored(root, hosts, 1);
  CHECK(seen.step == 5);
  CHECK(seen.digest == cut[0] + cut[1] + cut[2]);
}

TEST_CASE("behind the steps and without Checkpoints, finish makes the generation", "[checkpoint][apart]") {
  Scratch const scratch;
  std::string const root = scratch.path("hosts");
  std::uint64_t const digest = on_hosts(root, {0, 1}, [&](Trainer& trainer) {
    trainer.train_to(3);
    trainer.with([&](auto&&... things) { return trainer.session.save_async("run", {}, things...); });
    std::uint64_t const mine = trainer.digest();
    trainer.train_to(6);
    return mine;
  });
  Seen const seen = restored(root, {1, 0});
  CHECK(seen.error == "");
  CHECK(seen.step == 3);
  CHECK(seen.digest == digest);
  CHECK(seen.own);
}

}  // namespace parallax_test
