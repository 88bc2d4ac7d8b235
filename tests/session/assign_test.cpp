// `Session::assign` and `Session::scale`: the rows of a table, set and multiplied by id on all ranks, or on none.
#include "assign.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <limits>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"

namespace px = parallax;
using parallax_test::assigning::complaint;

namespace {

// What each rank's body returns.
template <class Result, class Body>
std::vector<Result> on_ranks(int ranks, Body body) {
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) { results[static_cast<std::size_t>(world.rank())] = body(world); },
                  {.deadline = std::chrono::seconds{30}});
  return results;
}

template <class Policy>
using Table = px::Variable<px::Sparse, Policy, px::Sgd>;

struct Refusal {
  px::Errc code = px::Errc::poisoned;
  int rank = -2;
  std::string operation, detail;
  std::vector<float> after;  // all rows
};
// What a rank's call is refused with, and the table after it.
template <class Policy, class Call>
std::vector<Refusal> refusals(int ranks, Call call) {
  return on_ranks<Refusal>(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    Table<Policy> table{session, "table", {.rows = 9, .width = 2, .initial = px::constant(1)}};
    Refusal refusal;
    try {
      call(session, table);
    } catch (px::Error const& error) {
      refusal = {error.code(), error.rank(), error.operation(), error.detail(), {}};
    }
    std::vector<int> const all{0, 1, 2, 3, 4, 5, 6, 7, 8};
    auto const rows = session.pull(table, all);
    for (std::size_t i = 0; i < all.size(); ++i) refusal.after.insert(refusal.after.end(), rows[i].begin(), rows[i].end());
    session.finish();
    return refusal;
  });
}
template <class Call>
void check_refused(px::Errc code, int rank, std::string const& operation, std::string const& detail, Call call) {
  auto const check = [&](std::vector<Refusal> const& refusals) {
    for (Refusal const& refusal : refusals) {
      CHECK(refusal.code == code);
      CHECK(refusal.rank == rank);
      CHECK(refusal.operation == operation);
      CHECK(refusal.detail == detail);
      CHECK(refusal.after == std::vector<float>(18, 1.0f));
    }
  };
  check(refusals<px::PsShard>(3, call));
  check(refusals<px::AllGather>(3, call));
  check(refusals<px::AllReduce>(3, call));
}

}  // namespace

TEST_CASE("rows that are assigned and scaled are those by hand, under every policy, whatever else goes on",
          "[session][assign]") {
  for (std::uint64_t const seed : {1, 2, 3, 4}) {
    for (int const ranks : {1, 2, 3}) {
      auto const said = on_ranks<std::string>(ranks, [&](auto& world) { return complaint(px::Topology{world}, seed); });
      CHECK(said == std::vector<std::string>(said.size()));
    }
    auto const on_hosts = on_ranks<std::string>(4, [&](auto& world) {
      return complaint(px::Topology{world, std::vector<int>{0, 1, 0, 1}}, seed);
    });
    CHECK(on_hosts == std::vector<std::string>(4));
  }
}

TEST_CASE("a row that ranks give different values is refused by both, and nothing is assigned", "[session][assign]") {
  check_refused(px::Errc::mismatch, -1, "assign", "row 5, column 1: rank 0 gives 0.25, rank 2 gives 0.5",
                [](auto& session, auto& table) {
                  std::vector<int> ids{session.rank()};
                  std::vector<float> rows{7, 7};
                  if (session.rank() != 1) {
                    ids.push_back(5);
                    rows.insert(rows.end(), {3, session.rank() == 0 ? 0.25f : 0.5f});
                  }
                  session.assign(table, ids, rows);
                });
}

TEST_CASE("a row that one rank gives twice has the same bits", "[session][assign]") {
  check_refused(px::Errc::invalid_argument, 1, "assign", "row 5, column 0: position 0 gives 2, position 2 gives 3",
                [](auto& session, auto& table) {
                  float const last = session.rank() == 1 ? 3 : 2;
                  session.assign(table, std::vector{5, 6, 5}, std::vector<float>{2, 2, 4, 4, last, 2});
                });
  float const nan = std::numeric_limits<float>::quiet_NaN();
  auto const alike = refusals<px::PsShard>(2, [&](auto& session, auto& table) {
    session.assign(table, std::vector{5, 5}, std::vector<float>{nan, 2, nan, 2});
  });
  for (Refusal const& none : alike) {
    CHECK(none.rank == -2);
    CHECK(std::memcmp(&none.after[10], &nan, sizeof nan) == 0);
  }
}

TEST_CASE("what is wrong with ids, rows or a factor on one rank is the same error on all", "[session][assign]") {
  check_refused(px::Errc::bad_id, 2, "assign", "index 9 at position 1 is outside [0, 9)", [](auto& session, auto& table) {
    session.assign(table, std::vector{3, session.rank() == 2 ? 9 : 4}, std::vector<float>{7, 7, 8, 8});
  });
  check_refused(px::Errc::invalid_argument, 0, "assign", "rows of 1 x 2 for 2 x 2 named", [](auto& session, auto& table) {
    session.assign(table, std::vector{3, 4}, std::vector<float>(session.rank() == 0 ? 2 : 4));
  });
  check_refused(px::Errc::invalid_argument, 1, "assign", "rows of 2 x 3 for 2 x 2 named", [](auto& session, auto& table) {
    std::vector<float> const memory(6);
    session.assign(table, std::vector{3, 4}, px::RowsView<float const>{memory.data(), 2, session.rank() == 1 ? 3 : 2});
  });
  std::vector<Refusal> const factors = refusals<px::PsShard>(3, [](auto& session, auto& table) {
    session.scale(table, std::vector{3}, session.rank() == 1 ? 2.0 : 3.0);
  });
  for (Refusal const& refusal : factors) {
    CHECK(refusal.code == px::Errc::mismatch);
    CHECK(refusal.rank == 1);
    CHECK(refusal.detail.find("factor 2") != std::string::npos);
    CHECK(refusal.after == std::vector<float>(18, 1.0f));
  }
  std::vector<Refusal> const operations = refusals<px::PsShard>(2, [](auto& session, auto& table) {
    if (session.rank() == 0) session.scale(table, std::vector{3}, 2.0);
    else session.assign(table, std::vector{3}, std::vector<float>{1, 1});
  });
  for (Refusal const& refusal : operations) CHECK(refusal.code == px::Errc::mismatch);
}

TEST_CASE("indices outside the table are treated as the variable says", "[session][assign]") {
  auto const dropped = on_ranks<std::pair<std::uint64_t, float>>(2, [](auto& world) {
    px::Session session{world};
    Table<px::PsShard> table{session, "table", {.rows = 4, .width = 1, .initial = px::constant(1)}, px::BadIds::drop_and_count};
    session.assign(table, std::vector{7, 3, -1}, std::vector<float>{5, 6, 7});
    session.scale(table, std::vector{3, 4}, 0.5);
    float const value = session.pull(table, std::vector{3})[0][0];
    session.finish();
    return std::pair{table.dropped(), value};
  });
  CHECK(dropped == std::vector<std::pair<std::uint64_t, float>>(2, {3, 3.0f}));
}

TEST_CASE("a sharded table's rows go to their owners alone, a replicated one's to all", "[session][assign]") {
  using Bytes = std::array<std::uint64_t, 3>;
  auto const sent = on_ranks<Bytes>(3, [](auto& world) {
    px::Session session{world};
    Table<px::PsShard> sharded{session, "sharded", {.rows = 12, .width = 4}};
    Table<px::AllGather> gathered{session, "gathered", {.rows = 12, .width = 4}};
    std::vector<int> const all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    auto const ids = session.rank() == 0 ? all : std::vector<int>{};
    std::vector<float> const rows(ids.size() * 4, 2.0f);
    Bytes bytes{};
    auto const measured = [&](auto const& operation) {
      std::uint64_t const before = session.traffic().payload_sent();
      operation();
      return session.traffic().payload_sent() - before;
    };
    bytes[0] = measured([&] { session.assign(sharded, ids, rows); });
    bytes[1] = measured([&] { session.assign(gathered, ids, rows); });
    bytes[2] = measured([&] { session.scale(sharded, ids, 2); });
    session.finish();
    return bytes;
  });
  CHECK(sent[0] == Bytes{8 * (8 + 16), 2 * 12 * (8 + 16), 8 * 8});  // ids of 8 bytes, rows of 16
  CHECK(sent[1] == Bytes{0, 0, 0});
}
