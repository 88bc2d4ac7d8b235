// When messages are posted: what `start` begins travels while the backward pass goes on, and leaves little to the step.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../support/recording_communicator.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test::overlap {
namespace {

namespace px = parallax;
using Recording = parallax_test::RecordingCommunicator<px::ThreadCommunicator>;

// What one rank posted, in bytes that went to other ranks, by section of the training loop.
struct Posted {
  std::size_t pull = 0, start = 0, poll = 0, step = 0;

  static Posted of(Recording const& world) {
    return {world.bytes_sent("pull"), world.bytes_sent("start"), world.bytes_sent("poll"), world.bytes_sent("step")};
  }
};

// Runs `body(recording communicator)` on thread ranks and returns what each posted.
template <class Body>
std::vector<Posted> posted_by(int ranks, Body const& body) {
  std::vector<Posted> posted(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& comm) {
    Recording world{comm};
    body(world);
    posted[static_cast<std::size_t>(comm.rank())] = Posted::of(world);
  });
  return posted;
}

// Polls until this rank has posted so many bytes in start and here, for at most ten seconds.
template <class Session>
void poll_until(Recording& world, Session& session, std::size_t bytes) {
  auto const section = world.section("poll");
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (world.bytes_sent("start") + world.bytes_sent("poll") < bytes && std::chrono::steady_clock::now() < deadline) {
    session.poll();
    std::this_thread::yield();
  }
}

// One dense layer that every rank owns an equal part of, and its gradient.
template <class Policy>
struct Layer {
  template <class Session>
  Layer(Session& session, std::string const& name) : variable{session, name, px::bind(values)} {}

  auto grad() const { return px::grad(variable, gradient); }

  static constexpr std::size_t size = 12 * 1024, bytes = size * sizeof(float);
  std::vector<float> values = std::vector<float>(size), gradient = std::vector<float>(size, 1.0f);
  px::Variable<px::Dense, Policy> variable;
};

constexpr std::size_t header = 64;  // of an agreement, to each other rank
constexpr std::size_t commit = 8;   // of a step without clipping, to each other rank

}  // namespace

TEST_CASE("start posts the agreement, poll reduces and gathers, the step applies", "[session][overlap]") {
  for (int const ranks : {2, 3, 4}) {
    auto const posted = posted_by(ranks, [](Recording& world) {
      px::Session session{world};
      Layer<px::AllReduce> layer{session, "layer"};
      {
        auto const section = world.section("start");
        session.start(layer.grad());
      }
      auto const others = static_cast<std::size_t>(world.size() - 1);
      poll_until(world, session, others * header + 2 * others * Layer<px::AllReduce>::bytes / (others + 1));
      {
        auto const section = world.section("step");
        session.step();
      }
      session.finish();
    });
    auto const others = static_cast<std::size_t>(ranks - 1);
    std::size_t const scattered = others * Layer<px::AllReduce>::bytes / static_cast<std::size_t>(ranks);
    for (Posted const& rank : posted) {
      // A rank whose peers have agreed already may go on within start.
      CHECK(rank.start >= others * header);
      CHECK(rank.start + rank.poll == others * header + 2 * scattered);
      CHECK(rank.step == others * (header + commit));
    }
  }
}

TEST_CASE("later starts let an earlier one progress", "[session][overlap]") {
  auto const posted = posted_by(2, [](Recording& world) {
    px::Session session{world};
    Layer<px::AllReduce> first{session, "first"}, second{session, "second"}, third{session, "third"};
    for (auto const* layer : {&first, &second, &third}) {
      {
        auto const section = world.section("start");
        session.start(layer->grad());
      }
      px::barrier(world);  // both have posted an agreement, and read the ones before
    }
    auto const section = world.section("step");
    session.step();
    session.finish();
  });
  for (Posted const& rank : posted) CHECK(rank.start >= 3 * header + Layer<px::AllReduce>::bytes / 2);
}

TEST_CASE("a step without start posts everything itself", "[session][overlap]") {
  auto const posted = posted_by(2, [](Recording& world) {
    px::Session session{world};
    Layer<px::AllReduce> layer{session, "layer"};
    for (int i = 0; i < 100; ++i) {
      auto const section = world.section("poll");
      session.poll();
    }
    {
      auto const section = world.section("step");
      session.step(layer.grad());
    }
    session.finish();
  });
  for (Posted const& rank : posted) {
    CHECK(rank.start + rank.poll == 0);
    CHECK(rank.step == header + commit + Layer<px::AllReduce>::bytes);
  }
}

TEST_CASE("the parameters of PsShard are gathered by the step, whatever was started", "[session][overlap]") {
  auto const posted = posted_by(2, [](Recording& world) {
    px::Session session{world};
    Layer<px::PsShard> layer{session, "layer"};
    {
      auto const section = world.section("start");
      session.start(layer.grad());
    }
    poll_until(world, session, header + Layer<px::PsShard>::bytes / 2);
    {
      auto const section = world.section("step");
      session.step();
    }
    session.finish();
  });
  for (Posted const& rank : posted) {
    CHECK(rank.start + rank.poll == header + Layer<px::PsShard>::bytes / 2);
    CHECK(rank.step == header + commit + Layer<px::PsShard>::bytes / 2);
  }
}

TEST_CASE("sums that an own function changes are gathered by the step", "[session][overlap]") {
  auto const posted = posted_by(2, [](Recording& world) {
    px::Session session{world};
    Layer<px::AllReduce> layer{session, "layer"};
    {
      auto const section = world.section("start");
      session.start(layer.grad().transform([](px::DenseGradient<float>) {}));
    }
    poll_until(world, session, header + Layer<px::AllReduce>::bytes / 2);
    {
      auto const section = world.section("step");
      session.step();
    }
    session.finish();
  });
  for (Posted const& rank : posted) {
    CHECK(rank.start + rank.poll == header + Layer<px::AllReduce>::bytes / 2);
    CHECK(rank.step == header + commit + Layer<px::AllReduce>::bytes / 2);
  }
}

TEST_CASE("rows that were pulled travel to their owners before the step", "[session][overlap]") {
  constexpr std::size_t width = 16, row = width * sizeof(float);
  auto const posted = posted_by(2, [](Recording& world) {
    px::Session session{world};
    px::Variable<px::Sparse> const words{session, "words", {.rows = 100, .width = width}};
    std::vector<std::int64_t> const ids{0, 1, 2, 3, 4, 5, 6, 7};  // dealt in turns: each rank owns half
    std::vector<float> const gradient(ids.size() * width, 1.0f);
    auto pull = world.section("pull");
    auto const rows = session.pull(words, ids);
    {
      auto const section = world.section("start");
      session.start(px::grad(rows, gradient));
    }
    poll_until(world, session, header + 4 * row);
    {
      auto const section = world.section("step");
      session.step();
    }
    session.finish();
  });
  for (Posted const& rank : posted) {
    CHECK(rank.pull >= 4 * row);
    CHECK(rank.start + rank.poll == header + 4 * row);
    CHECK(rank.step == header + commit);
  }
}

TEST_CASE("starting updates changes no bit, also where a variable has several", "[session][overlap]") {
  using Values = std::vector<std::vector<float>>;
  // Two steps of two layers that travel alone and two that are fused; the first has two updates.
  auto const trained = [](bool starts) {
    Values const layers_of_a_rank{std::vector<float>(10'007), std::vector<float>(8'009), std::vector<float>(4'099),
                                  std::vector<float>(3)};
    std::vector<Values> parameters(3, layers_of_a_rank);
    px::run_threads(3, [&](px::ThreadCommunicator& world) {
      px::Session session{world, {.fusion = {.fusion_bytes = 20'000, .direct_bytes = 20'000, .round_bytes = 5'000}}};
      auto& own = parameters[static_cast<std::size_t>(world.rank())];
      std::vector<px::Variable<px::Dense, px::Adagrad>> layers;
      for (auto& values : own) layers.emplace_back(session, "layer " + std::to_string(layers.size()), px::bind(values));
      Values gradients = own;
      unsigned state = 1 + static_cast<unsigned>(world.rank());
      for (int step = 0; step < 2; ++step) {
        for (auto& gradient : gradients)
          for (float& value : gradient) {
            state = state * 1664525 + 1013904223;
            value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
          }
        auto const update = [&](std::size_t layer) { return px::grad(layers[layer], gradients[layer]); };
        if (starts) {
          session.start(update(0), update(3));
          session.start(update(1));
          session.start(update(2));
          session.poll();
          session.step(update(0));
        } else {
          session.step(update(0), update(3), update(1), update(2), update(0));
        }
      }
      session.finish();
    });
    return parameters;
  };
  auto const started = trained(true), at_once = trained(false);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(started[rank] == at_once[0]);
    CHECK(at_once[rank] == at_once[0]);
  }
  for (auto const& values : at_once[0]) CHECK(values.back() != 0);
}

TEST_CASE("clipping adds no message: the norm of a group travels with the commit, 8 bytes of it", "[session][overlap]") {
  struct Sent {
    std::size_t operations = 0, messages = 0, bytes = 0;
    bool operator==(Sent const&) const = default;
  };
  enum Way { plain, clipped, started, started_and_clipped };
  auto const sent = [](int ranks, bool hosts, Way way) {
    std::vector<Sent> by_rank(static_cast<std::size_t>(ranks));
    px::run_threads(ranks, [&](px::ThreadCommunicator& comm) {
      Recording world{comm};
      std::vector<int> host_of(static_cast<std::size_t>(ranks));
      for (std::size_t rank = 0; rank < host_of.size(); ++rank) host_of[rank] = hosts ? static_cast<int>(rank / 2) : int(rank);
      px::Session session{hosts ? px::Topology<Recording>{world, host_of} : px::Topology<Recording>{world}};
      Layer<px::AllReduce> layer{session, "layer"};
      Layer<px::PsShard> shards{session, "shards"};
      px::Variable<px::Sparse, px::Adagrad> words{session, "words", {50, 4}};
      px::Variable<px::Sparse, px::AllGather> copy{session, "copy", {50, 4}};
      px::Variable<px::Sparse, px::AllReduce> whole{session, "whole", {50, 4}};
      std::vector<int> const ids{1, 7, 7, 30 + world.rank()};
      std::vector<float> const rows(4 * ids.size(), 0.5f);
      auto const of = [&](auto& table) { return px::grad(table, ids, rows); };
      world.clear();
      if (way == started) session.start(layer.grad(), of(words));
      if (way == started_and_clipped) session.start(px::clip_by_global_norm(1.0, layer.grad(), of(words)));
      if (way == plain) session.step(layer.grad(), of(words), shards.grad(), of(copy), of(whole));
      if (way == clipped)
        session.step(px::clip_by_global_norm(1.0, layer.grad(), of(words)),
                     px::clip_by_global_norm(0.5, shards.grad(), of(copy), of(whole)));
      if (way == started) session.step(shards.grad(), of(copy), of(whole));
      if (way == started_and_clipped) session.step(px::clip_by_global_norm(0.5, shards.grad(), of(copy), of(whole)));
      Sent& mine = by_rank[static_cast<std::size_t>(comm.rank())];
      for (auto const& record : world.records())
        for (int peer = 0; peer < ranks; ++peer)
          if (peer != comm.rank()) mine.messages += record.sent[static_cast<std::size_t>(peer)] > 0;
      mine.operations = world.records().size();
      mine.bytes = world.bytes_sent();
      session.finish();
    });
    return by_rank;
  };
  for (auto const& [ranks, hosts] : {std::pair{2, false}, {3, false}, {4, false}, {4, true}})
    for (Way const without : {plain, started}) {
      auto expected = sent(ranks, hosts, without);
      for (Sent& each : expected) each.bytes += static_cast<std::size_t>(ranks - 1) * 2 * sizeof(double);  // two groups
      bool const same = sent(ranks, hosts, without == plain ? clipped : started_and_clipped) == expected;
      INFO(ranks << " ranks, " << (hosts ? "two a host" : "flat") << (without == started ? ", started" : ""));
      CHECK(same);
    }
}

TEST_CASE("while updates of a higher priority are exchanged, others wait", "[session][overlap]") {
  auto const dense_posts = [](bool prefers) {  // on which channels, in order, by rank
    std::vector<std::vector<int>> channels(3);
    px::run_threads(3, [&](px::ThreadCommunicator& comm) {
      Recording world{comm};
      px::Session session{world, {.fusion = {.direct_bytes = 1'000, .round_bytes = 1'000}}};
      std::vector<float> last(12'000, 1.0f), first(6'000, 1.0f), gradient(12'000, 0.5f);
      px::Variable<px::Dense> last_layer{session, "last", px::bind(last)}, first_layer{session, "first", px::bind(first)};
      session.start(px::grad(last_layer, gradient));
      session.start(px::Priority{prefers ? 1 : 0}, px::grad(first_layer, std::span{gradient}.first(first.size())));
      session.step();
      session.finish();
      for (auto const& record : world.records())
        if (record.channel == 5 || record.channel == 7) channels[static_cast<std::size_t>(comm.rank())].push_back(record.channel);
    });
    return channels;
  };
  auto const interrupted = [](std::vector<int> const& posts) {
    auto const begin = std::find(posts.begin(), posts.end(), 7), end = std::find(posts.rbegin(), posts.rend(), 7).base();
    return std::count(begin, end, 5);
  };
  for (auto const& posts : dense_posts(true)) {
    CHECK(std::count(posts.begin(), posts.end(), 7) >= 8);
    CHECK(std::count(posts.begin(), posts.end(), 5) >= 16);
    CHECK(interrupted(posts) <= 1);  // posted before all ranks had come to the other
  }
  for (auto const& posts : dense_posts(false)) CHECK(interrupted(posts) > 1);
}

TEST_CASE("ranks that start updates with different priorities are told", "[session][overlap]") {
  std::vector<std::string> told(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> layer(3, 1.0f), gradient(3, 0.5f);
    px::Variable<px::Dense> variable{session, "layer", px::bind(layer)};
    session.start(px::Priority{world.rank()}, px::grad(variable, gradient));
    try {
      session.step();
    } catch (px::Error const& error) {
      told[static_cast<std::size_t>(world.rank())] = error.what();
    }
    session.finish();
  });
  for (auto const& text : told) CHECK(text.find("priority 1") != std::string::npos);
}

}  // namespace parallax_test::overlap
