// What travels: letters and bytes of an AsyncSession are the closed form of its documents, for any number of workers and owners.
#include <cstdint>
#include <vector>

#include "../catch.hpp"
#include "parallax/async/async_session.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::uint64_t steps = 9, rows = 40, width = 3, elements = 17;

std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

// Of one worker and one owner that are apart, which has so many elements of the layer, where each batch names u of its rows.
struct Expected {
  std::uint64_t letters, control, ids, row_bytes, dense;
};
Expected expected(std::uint64_t u, std::uint64_t part) {
  std::uint64_t const pad_keys = padded(4 * u) - 4 * u, pad_rows = padded(4 * u * width) - 4 * u * width,
                      pad_part = padded(4 * part) - 4 * part;
  // Each step a pull, an answer and a push, of a section for each of two variables.
  std::uint64_t const control = 3 * (32 + 2 * 16) + 2 * (pad_keys + pad_rows + pad_part);
  return {3 * steps + 1, steps * control + 32, 2 * steps * 4 * u, 2 * steps * 4 * u * width, 2 * steps * 4 * part};
}

void check(int workers, int servers) {
  int const ranks = workers + servers, owners = servers ? servers : workers;
  std::vector<px::Traffic> traffic(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    std::optional<px::AsyncSession<px::ThreadCommunicator>> session;
    if (servers) session.emplace(world, px::Ssp{2}, px::Servers{servers});
    else session.emplace(world, px::Ssp{2});
    std::vector<float> weights(elements, 1.0f);
    px::Variable<px::Sparse, px::Block, px::Index<std::int32_t>> table{
        *session, "table", {.rows = static_cast<std::int64_t>(rows) * owners, .width = width}};
    px::Variable<px::Dense, px::PsShard> layer{*session, "layer", px::bind(weights)};
    px::Traffic before;
    session->train([&](auto& worker) {
      before = session->traffic();
      std::vector<std::int32_t> ids;  // five distinct rows of each owner, some twice
      for (int owner = 0; owner < owners; ++owner)
        for (int i = 0; i < 7; ++i) ids.push_back(static_cast<std::int32_t>(owner * static_cast<int>(rows) + i % 5 * 3));
      for (std::uint64_t step = 0; step < steps; ++step) {
        auto const pulled = worker.pull(table.at(ids), layer);
        worker.push(px::grad(pulled, std::vector<float>(ids.size() * width, 1.0f)),
                    px::grad(layer, std::vector<float>(elements, 1.0f)));
      }
    });
    auto& mine = traffic[static_cast<std::size_t>(world.rank())] = session->traffic();
    if (world.rank() < servers)
      before.messages = mine.messages - steps * static_cast<std::uint64_t>(workers), before.sent[4].all = mine.sent[4].all;
    mine.messages -= before.messages;
    mine.sent[4].all -= before.sent[4].all;
    session->finish();
  });
  px::Traffic sum;
  for (auto const& one : traffic) {
    sum.messages += one.messages;
    for (std::size_t p = 0; p < px::payloads; ++p)
      sum.sent[p].all += one.sent[p].all, sum.received[p].all += one.received[p].all;
  }
  Expected all{0, 0, 0, 0, 0};
  for (int owner = 0; owner < owners; ++owner)
    for (int worker = 0; worker < workers; ++worker) {
      if (!servers && worker == owner) continue;
      std::uint64_t const part = px::part_begin(elements, owner + 1, owners) - px::part_begin(elements, owner, owners);
      Expected const pair = expected(5, part);
      all.letters += pair.letters, all.ids += pair.ids, all.row_bytes += pair.row_bytes, all.dense += pair.dense;
    }
  CAPTURE(workers, servers);
  CHECK(sum.messages == all.letters);
  CHECK(sum.sent_of(px::Payload::ids).all == all.ids);
  CHECK(sum.sent_of(px::Payload::rows).all == all.row_bytes);
  CHECK(sum.sent_of(px::Payload::dense).all == all.dense);
  CHECK(sum.received_of(px::Payload::ids).all == all.ids);
  CHECK(sum.received_of(px::Payload::rows).all == all.row_bytes);
  CHECK(sum.received_of(px::Payload::dense).all == all.dense);
}

}  // namespace

TEST_CASE("letters and bytes are the closed form, for any number of workers and owners", "[async][bytes]") {
  for (int workers = 1; workers <= 7; ++workers) check(workers, 1);
  for (auto const& [workers, servers] : {std::pair{1, 3}, {2, 2}, {4, 2}, {1, 0}, {3, 0}, {8, 0}}) check(workers, servers);
}
