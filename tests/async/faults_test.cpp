// Processes that train apart and are killed or stopped, workers and owners alike; and letters that nobody should have written.
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../comm/socket_job.hpp"
#include "parallax/async/async_session.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

using namespace socket_job;

namespace {

// Trains until that fails. Rank 0 serves alone, or all of them own a share.
template <class Rule>
Work apart(Rule const& rule, int servers) {
  return [=](px::SocketCommunicator& comm) {
    using Session = px::AsyncSession<px::SocketCommunicator>;
    std::optional<Session> session;
    if (servers) session.emplace(comm, rule, px::Servers{servers});
    else session.emplace(comm, rule);
    std::vector<float> weights(5000, 1.0f);
    px::Variable<px::Dense, px::PsShard> layer{*session, "layer", px::bind(weights)};
    px::Variable<px::Sparse, px::Adagrad> table{*session, "table", {.rows = 100, .width = 8}};
    session->train([&](auto& worker) {
      std::vector<float> const gradient(weights.size(), 0.01f), rows(3 * 8, 0.5f);
      for (int step = 0;; ++step) {
        auto const pulled = worker.pull(table.at(std::vector{step % 100, 5, 7}), layer);
        worker.push(px::grad(layer, gradient), px::grad(pulled, rows));
      }
    });
  };
}
// The consistencies under which every rank hears of a rank that stops.
std::vector<std::pair<std::string, Work>> ways() {
  return {{"Ssp{1}, all own", apart(px::Ssp{1}, 0)},
          {"Ssp{1}, a server", apart(px::Ssp{1}, 1)},
          {"Ssp{0}, a server", apart(px::Ssp{0}, 1)},
          {"Asp, a server", apart(px::Asp{}, 1)},
          {"Backup{1}, all own", apart(px::Backup{1}, 0)}};
}

}  // namespace

TEST_CASE("a worker or an owner that is killed is named by the others", "[async][faults][processes]") {
  for (int round = 0; round < parallax_test::sized(1, 3, 20); ++round)
    for (auto const& [name, work] : ways())
      for (int const victim : {0, 1, 2}) {
        CAPTURE(name, victim);
        Job job{work};
        job.together();
        std::this_thread::sleep_for(10ms);
        strike(job, victim, SIGKILL, px::Errc::transport, 0s);
      }
}

TEST_CASE("a worker or an owner that is stopped is named when the deadline is over", "[async][faults][processes]") {
  for (int round = 0; round < parallax_test::sized(1, 3, 20); ++round)
    for (std::size_t way = 0; way < 3; ++way)
      for (int const victim : {0, 2}) {
        CAPTURE(ways()[way].first, victim);
        Job job{ways()[way].second, {.deadline = 1s}};
        job.together();
        std::this_thread::sleep_for(50ms);
        strike(job, victim, SIGSTOP, px::Errc::timeout, 2s);
      }
}

TEST_CASE("a letter that cannot be read ends all ranks, which hear who wrote it", "[async][faults]") {
  CAPTURE(GENERATE_COPY(range(0, parallax_test::sized(1, 3, 20))));
  struct Fault {
    std::string words;
    std::vector<std::byte> letter;
  };
  auto const of = [](auto const&... parts) {
    std::vector<std::byte> letter;
    auto const add = [&](auto const& part) {
      auto const* const bytes = reinterpret_cast<std::byte const*>(&part);
      letter.insert(letter.end(), bytes, bytes + sizeof part);
    };
    (add(parts), ...);
    return letter;
  };
  using Kind = px::LetterKind;
  std::int64_t const key = 3, stranger = 77;
  std::vector<Fault> const faults{
      {"it ends too early", std::vector<std::byte>(4)},
      {"it is of no kind that an owner knows", of(px::LetterHeader{static_cast<Kind>(9), 0, 0})},
      {"it is of no kind that an owner knows", of(px::LetterHeader{Kind::orders, 0, 0})},
      {"it is of another clock", of(px::LetterHeader{Kind::push, 0, 5})},
      {"it names a variable that is not there", of(px::LetterHeader{Kind::pull, 1, 0}, px::SectionHeader{4, 0, 0})},
      {"it ends too early", of(px::LetterHeader{Kind::pull, 1, 0}, px::SectionHeader{0, 0, 2}, key)},
      {"a row of 'table' is not this owner's", of(px::LetterHeader{Kind::pull, 1, 0}, px::SectionHeader{0, 0, 1}, stranger)},
      {"it ends too early", of(px::LetterHeader{Kind::push, 1, 0}, px::SectionHeader{0, 0, 1}, key, 1.0f)},
      {"it ends too early",
       of(px::LetterHeader{Kind::push, 1, 0}, px::SectionHeader{0, 0, std::uint64_t{1} << 62}, key, 1.0f, 1.0f)},
      {"it has more bytes than sections", of(px::LetterHeader{Kind::push, 0, 0}, key)},
      {"it asks for rows of a dense variable", of(px::LetterHeader{Kind::pull, 1, 0}, px::SectionHeader{1, 0, 1})},
      {"it brings another number of elements of 'layer'",
       of(px::LetterHeader{Kind::push, 1, 0}, px::SectionHeader{1, 0, 1}, key)},
      {"it brings a variable twice", of(px::LetterHeader{Kind::push, 2, 0}, px::SectionHeader{0, 0, 1}, key, 1.0f, 1.0f,
                                        px::SectionHeader{0, 0, 1}, key, 1.0f, 1.0f)}};
  for (int const servers : {0, 1})
    for (Fault const& fault : faults) {
      std::vector<std::string> told(3);
      try {
        px::run_threads(3, [&](px::ThreadCommunicator& world) {
          try {
            std::optional<px::AsyncSession<px::ThreadCommunicator>> session;
            if (servers) session.emplace(world, px::Asp{}, px::Servers{servers});
            else session.emplace(world, px::Asp{});
            std::vector<float> weights(12, 1.0f);
            px::Variable<px::Sparse, px::Sgd, px::Block> table{*session, "table", {.rows = 30, .width = 2}};
            px::Variable<px::Dense, px::PsShard> layer{*session, "layer", px::bind(weights)};
            session->train([&](auto& worker) {
              if (world.rank() == 2) {
                std::span<std::byte const> const parts[] = {fault.letter};
                world.post(px::LetterLane::requests, 0, px::LetterParts{parts});
              }
              for (int step = 0; world.rank() != 2 || step == 0; ++step) worker.pull(layer);
            });
          } catch (std::exception const& error) {
            told[static_cast<std::size_t>(world.rank())] = error.what();
            throw;
          }
        });
      } catch (std::exception const&) {}
      for (auto const& what : told) {
        CAPTURE(servers, what);
        CHECK(what.find("mismatch between ranks (rank 2)") != std::string::npos);
        CHECK(what.find("a letter of rank 2 cannot be read: " + fault.words) != std::string::npos);
      }
    }
}
