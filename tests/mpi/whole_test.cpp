// Whole tables and slots by ranks of MPI: every row of a formula goes there and back.
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/checkpoint/whole.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

TEST_CASE("every row goes there and back over MPI", "[checkpoint][whole][mpi]") {
  px::MpiCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, px::Adam, px::Hash> words{session, "words", {.rows = 1001, .width = 5}};
  px::Variable<px::Sparse, px::AllReduce> copy{session, "copy", {.rows = 1001, .width = 5}};
  std::string complaint;
  float seed = 0;
  auto const there_and_back = [&](auto& table, char const* slot, px::WholeAt at) {
    px::WholeOptions const options{.slot = slot, .at = at, .call_bytes = 3000};
    ++seed;
    session.scatter(table, options, [&](std::span<std::int64_t const> numbers, px::RowsView<float> rows) {
      for (std::int64_t i = 0; i < rows.rows * 5; ++i)
        rows.data[i] = seed * 16384 + static_cast<float>(numbers[static_cast<std::size_t>(i / 5)] * 5 + i % 5);
    });
    bool const first = at == px::WholeAt::rank_0, parts = at == px::WholeAt::parts;
    std::int64_t next = parts ? 1001 * session.rank() / session.size() : 0;
    session.gather(table, options, [&](std::span<std::int64_t const> numbers, px::RowsView<float const> rows) {
      for (std::int64_t i = 0; i < rows.rows; ++i, ++next)
        for (std::int64_t c = 0; c < 5; ++c)
          if (numbers[static_cast<std::size_t>(i)] != next || rows.row(i)[c] != seed * 16384 + static_cast<float>(next * 5 + c))
            complaint += table.name() + ": row " + std::to_string(next) + " is another; ";
    });
    if (next != (parts ? 1001 * (session.rank() + 1) / session.size() : first && session.rank() > 0 ? 0 : 1001))
      complaint += table.name() + ": some rows are missing; ";
  };
  for (px::WholeAt const at : {px::WholeAt::rank_0, px::WholeAt::every_rank, px::WholeAt::parts})
    there_and_back(words, "", at), there_and_back(words, "v", at), there_and_back(copy, "", at);
  std::string told;
  try {
    session.gather(words, {.call_bytes = 3000}, [](std::span<std::int64_t const> numbers, px::RowsView<float const>) {
      if (numbers[0] > 0) throw std::runtime_error{"the disk is full"};
    });
  } catch (px::Error const& error) {
    told = error.what();
  }
  CHECK(told == "parallax: exception in user code (rank 0) in gather of 'words': the disk is full");
  there_and_back(words, "m", px::WholeAt::parts);
  session.finish();
  CHECK(complaint == "");
}
