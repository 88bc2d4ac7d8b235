// What a variable tells about itself, what its making refuses, and the arrays beside its parameters.
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

struct Solo {
  px::SelfCommunicator self;
  px::Session<px::SelfCommunicator> session{self};
};

template <class Make>
px::Error refusal(Make&& make) {
  try {
    make();
  } catch (px::Error const& error) {
    return error;
  }
  return {px::Errc::misuse, -2, "", "", "nothing was thrown"};
}

}  // namespace

TEST_CASE("a dense variable refers to the user's memory, whatever tensor it is", "[variable]") {
  Solo solo;
  std::array<double, 3> array{1, 2, 3};
  px::Variable<px::Dense, double> variable{solo.session, "array", px::bind(array)};
  CHECK(variable.values().data() == array.data());
  CHECK(variable.name() == "array");
  CHECK(variable.steps() == 0);
  array[1] = 7;  // the user writes it too
  solo.session.step(px::grad(variable, std::array{1.0, 1.0, 1.0}));
  CHECK(array[1] == 7 - 0.01);
  CHECK(variable.steps() == 1);
}

TEST_CASE("settings may come in any order, and an optimizer's can change between steps", "[variable]") {
  Solo solo;
  std::vector<float> memory{1};
  px::Variable<px::Dense> a{solo.session, "a", px::bind(memory), px::Reduce::sum, px::Sgd{.learning_rate = 0.5}};
  px::Variable<px::Sparse, px::Hash> b{
      solo.session, "b", {4, 1}, px::Hash{.pieces = 2}, px::Sgd{.learning_rate = 0.25}, px::Reduce::mean_by_count};
  CHECK(a.optimizer().learning_rate == 0.5);
  CHECK(b.optimizer().learning_rate == 0.25);
  a.optimizer().learning_rate = 2;
  solo.session.step(px::grad(a, memory));
  CHECK(memory[0] == -1);
}

TEST_CASE("a table tells its shape, its shard, and which global row a local one is", "[variable]") {
  std::vector<std::vector<std::int64_t>> held(3);
  px::run_threads(3, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse> shard{session, "shard", {8, 2}};
    px::Variable<px::Sparse, px::AllGather> whole{session, "whole", {8, 2}};
    auto& mine = held[static_cast<std::size_t>(world.rank())];
    for (std::int64_t row = 0; row < shard.local_rows(); ++row) mine.push_back(shard.global_row(row));
    if (shard.rows() != 8 || shard.width() != 2 || whole.local_rows() != 8 || whole.global_row(5) != 5) mine.clear();
    session.finish();
  });
  CHECK(held == std::vector<std::vector<std::int64_t>>{{0, 4, 6}, {1, 5, 7}, {2, 3}});
}

TEST_CASE("names that are empty, taken or break lines are refused, and shapes that make no sense", "[variable]") {
  Solo solo;
  std::vector<float> memory(6);
  px::Variable<px::Dense> taken{solo.session, "taken", px::bind(memory)};
  for (std::string const name : {"", "two\nlines", "a\ttab", "taken"}) {
    CHECK(refusal([&] { px::Variable<px::Dense>{solo.session, name, px::bind(memory)}; }).code() == px::Errc::invalid_argument);
    CHECK(refusal([&] { px::Variable<px::Sparse>{solo.session, name, px::Table{1, 1}}; }).code() == px::Errc::invalid_argument);
  }
  auto const table = [&](std::int64_t rows, std::int64_t width) {
    return refusal([&] { px::Variable<px::Sparse, px::Index<std::int32_t>>{solo.session, "table", px::Table{rows, width}}; });
  };
  CHECK(table(-1, 2).code() == px::Errc::invalid_argument);
  CHECK(table(2, -1).detail() == "a table of 2 x -1");
  CHECK_THAT(table(std::int64_t{1} << 31, 0).detail(), parallax_test::contains("do not fit the index type int32"));
  CHECK(table(10, 2).detail() == "nothing was thrown");
  CHECK(table(10, 2).detail() == "nothing was thrown");  // a name is free again when its variable is gone
}

TEST_CASE("a name with a control byte is refused, and shown without it", "[variable]") {
  Solo solo;
  std::vector<float> memory(6);
  auto const text = [&](std::string const& name) {
    std::string const dense = refusal([&] { px::Variable<px::Dense>{solo.session, name, px::bind(memory)}; }).what();
    CHECK(refusal([&] { px::Variable<px::Sparse>{solo.session, name, px::Table{1, 1}}; }).what() == dense);
    return dense;
  };
  std::string const why = ": a variable's name is not empty and has no control bytes";
  CHECK(text(std::string{"a\0b", 3}) == "parallax: invalid argument (rank 0) in Variable of 'a\\x00b'" + why);
  CHECK(text("two\nlines") == "parallax: invalid argument (rank 0) in Variable of 'two\\x0alines'" + why);
  CHECK(text("a\ttab\x1b[31m\x7f") == "parallax: invalid argument (rank 0) in Variable of 'a\\x09tab\\x1b[31m\\x7f'" + why);
  CHECK(text("") == "parallax: invalid argument (rank 0) in Variable" + why);
  px::Variable<px::Dense> const words{solo.session, "W\xc3\xb6rter", px::bind(memory)};  // bytes of UTF-8 are no control bytes
  CHECK(words.name() == "W\xc3\xb6rter");
}

TEST_CASE("a bound table must have adjacent rows", "[variable]") {
  Solo solo;
  std::vector<float> memory(12);
  CHECK(
      refusal([&] {
        px::Variable<px::Sparse, px::AllGather>{solo.session, "padded", px::bind(px::RowsView<float>{memory.data(), 3, 3, 4})};
      }).code() == px::Errc::invalid_argument);
  px::Variable<px::Sparse, px::AllGather> rows{solo.session, "rows", px::bind_rows(memory, 3)};
  CHECK(rows.rows() == 4);
  CHECK(rows.local().data == memory.data());
}

TEST_CASE("a run of elements that is no whole number of rows is refused as a table", "[variable]") {
  std::vector<float> values(10);
  auto const told = [&](std::int64_t width) {
    try {
      auto const bound = px::bind_rows(values, width);
      return std::to_string(bound.values.rows) + " rows";
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::invalid_argument);
      return error.detail();
    }
  };
  CHECK(told(3) == "10 elements are no whole number of rows of 3");
  CHECK(told(11) == "10 elements are no whole number of rows of 11");
  CHECK(told(5) == "2 rows");
  values.clear();
  CHECK(told(3) == "0 rows");
}

TEST_CASE("an optimizer's state begins as it says, and lies like the parameters", "[variable][slots]") {
  px::OptimizerState<float, px::Adagrad> slots{{}, px::Adagrad{.initial_accumulator = 0.5}, 4, 1};
  CHECK(slots.span<0>().size() == 4);
  for (float const value : slots.span<0>()) CHECK(value == 0.5f);
  std::vector<float> parameters(4, 1.0f);
  std::vector<float> const gradients{1, 2};
  slots.apply(parameters.data() + 2, gradients.data(), 2, 2, 1.0f, px::Adagrad{}.at(1));
  CHECK(slots.span<0>()[1] == 0.5f);
  CHECK(slots.span<0>()[2] == 1.5f);
  CHECK(slots.span<0>()[3] == 4.5f);
  CHECK(parameters[1] == 1.0f);
  CHECK(parameters[3] < 1.0f);
  px::OptimizerState<double, px::Sgd> none{{}, px::Sgd{}, 4, 1};
  double parameter = 1, gradient = 2;
  none.apply(&parameter, &gradient, 1, 0, 0.5, px::Sgd{.learning_rate = 1}.at(1));
  CHECK(parameter == 0);
}

TEST_CASE("gradients of columns, strides and spans reach the right elements", "[variable]") {
  Solo solo;
  px::Variable<px::Sparse, double> table{solo.session, "table", {3, 2}, px::Sgd{.learning_rate = 1}};
  std::vector<double> const padded{1, 2, -1, 3, 4, -1};
  std::array<std::uint8_t, 2> const ids{2, 0};
  solo.session.step(px::grad(table, ids, px::RowsView<double const>{padded.data(), 2, 2, 3}));
  CHECK(table.local()[2][0] == -1);
  CHECK(table.local()[2][1] == -2);
  CHECK(table.local()[0][1] == -4);
  CHECK(table.local()[1][0] == 0);
}
