// Checkpoints of released versions, a folder for each version of the format: all are read, and the newest is still written alike.
// PARALLAX_WRITE_FORMATS=<folder> writes the newest there, with its values in words.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
namespace fs = std::filesystem;

namespace {

using World = px::ThreadCommunicator;
using Values = std::map<std::string, std::string>;  // of all ranks, by name, floats in hexadecimal

// Two tables, one of 16 bits with an optimizer of exact semantics, a dense variable, a value of all ranks and one of each.
class Trainer {
 public:
  static constexpr int ranks = 2;

  explicit Trainer(World& world) : session_{world} {}

  void train_to(std::int64_t steps) {
    own_ = 100 + session_.rank();
    for (; session_.steps() < steps; ++epoch_) {
      std::vector<std::int64_t> const ids{(3 * session_.steps() + session_.rank()) % 11, 7};
      session_.step(px::grad(words_, ids, std::vector{0.5f, -0.25f, 1.0f, 2.0f}),
                    px::grad(narrow_, ids, std::vector{1.0f, 0.5f}), px::grad(bias_, std::vector{0.5f, 0.25f, -2.0f}));
    }
  }
  void save(std::string const& folder) {
    session_.save(folder, {.block_bytes = 16}, words_, narrow_, bias_, px::shared_value("epoch", epoch_),
                  px::own_value("own", own_));
  }
  // A rank's own value comes back to as many ranks as have saved it.
  void restore(std::string const& folder) {
    auto const epoch = px::shared_value("epoch", epoch_);
    if (session_.size() == ranks) session_.restore(folder, {}, words_, narrow_, bias_, epoch, px::own_value("own", own_));
    else session_.restore(folder, {}, words_, narrow_, bias_, epoch);
  }
  void finish() { session_.finish(); }
  void tell(Values& values) {
    tell_rows(values, "words", words_, words_.local());
    tell_rows(values, "words, sum", words_, words_.slot("sum"));
    tell_rows(values, "narrow", narrow_, narrow_.local());
    tell_rows(values, "narrow, m", narrow_, narrow_.slot("m"));
    tell_rows(values, "narrow, v", narrow_, narrow_.slot("v"));
    values["bias"] = in_words(std::span<float const>{memory_});
    values["bias, v"] = in_words(bias_.slot("v"));
    values["epoch"] = std::to_string(epoch_);
    values["steps"] = std::to_string(session_.steps());
    if (session_.size() == ranks) values["own of " + std::to_string(session_.rank())] = std::to_string(own_);
  }

 private:
  template <class Range>
  static std::string in_words(Range const& range) {
    std::string words;
    for (auto const value : range) {
      char text[40];
      std::snprintf(text, sizeof text, " %a", static_cast<double>(static_cast<float>(value)));
      words += text;
    }
    return words;
  }
  template <class Table, class Rows>
  static void tell_rows(Values& values, std::string const& name, Table const& table, Rows const& rows) {
    for (std::int64_t i = 0; i < rows.rows; ++i)
      values[name + " of " + std::to_string(table.global_row(i))] =
          in_words(std::span{rows.row(i), static_cast<std::size_t>(rows.width)});
  }

  px::Session<World> session_;
  std::vector<float> memory_ = std::vector<float>(3, 1.0f);
  px::Variable<px::Sparse, px::Adagrad, px::Hash> words_{session_, "words", {11, 2, px::uniform(0, 1, 3)}};
  px::Variable<px::Sparse, px::BFloat16, px::Adam> narrow_{session_, "narrow", {11, 1, px::uniform(0, 1, 5)}};
  px::Variable<px::Dense, px::Momentum> bias_{session_, "bias", px::bind(memory_)};
  int epoch_ = 0, own_ = 0;
};

// Runs a training on so many ranks, and returns the values of all of them.
template <class F>
Values values_of(int ranks, F&& body) {
  Values values;
  std::mutex mutex;
  px::run_threads(ranks, [&](World& world) {
    Trainer trainer{world};
    body(trainer);
    trainer.finish();
    std::lock_guard const lock{mutex};
    trainer.tell(values);
  });
  return values;
}

std::string in_lines(Values const& values) {
  std::string lines;
  for (auto const& [name, value] : values) lines += name + ":" + value + "\n";
  return lines;
}

std::string bytes_of(fs::path const& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

// Returns the header of a file of safetensors: names, types, shapes and places of all items, without the number drawn for a save.
std::string header_of(fs::path const& file) {
  std::string const bytes = bytes_of(file);
  std::uint64_t size = 0;
  REQUIRE(bytes.size() > 8);
  std::memcpy(&size, bytes.data(), 8);
  std::string header = std::regex_replace(bytes.substr(8, size), std::regex{"\"id\":\"[0-9]+\""}, "\"id\":\"…\"");
  while (header.ends_with(' ')) header.pop_back();
  return header;
}

void train_and_save(std::string const& folder, Values& values) {
  values = values_of(Trainer::ranks, [&](Trainer& trainer) {
    trainer.train_to(5);
    trainer.save(folder);
  });
}

}  // namespace

TEST_CASE("checkpoints of every version of the format so far are read to the bit", "[checkpoint][formats]") {
  parallax_test::Scratch scratch;
  std::int64_t versions = 0;
  for (auto const& entry : fs::directory_iterator{PARALLAX_TEST_FORMATS}) {
    ++versions;
    CAPTURE(entry.path());
    fs::path const copy = scratch.path(entry.path().filename().string());
    fs::copy(entry.path(), copy, fs::copy_options::recursive);  // what is restored is locked
    std::string const said = bytes_of(entry.path() / "values.txt");
    for (int const ranks : {1, 2, 3}) {
      std::string expected = said;
      if (ranks != Trainer::ranks) expected = std::regex_replace(said, std::regex{"own of [0-9]+:.*\n"}, "");
      CHECK(in_lines(values_of(ranks, [&](Trainer& trainer) { trainer.restore(copy.string()); })) == expected);
    }
  }
  CHECK(versions == px::detail::checkpoint_version);
}

TEST_CASE("a format that changes has a new version: the files of the newest are laid out as they were",
          "[checkpoint][formats]") {
  parallax_test::Scratch scratch;
  fs::path const kept = fs::path{PARALLAX_TEST_FORMATS} / std::to_string(px::detail::checkpoint_version);
  fs::path here = scratch.path("new");
  if (char const* const folder = std::getenv("PARALLAX_WRITE_FORMATS"))
    here = fs::path{folder} / std::to_string(px::detail::checkpoint_version);
  Values values;
  train_and_save(here.string(), values);
  if (std::getenv("PARALLAX_WRITE_FORMATS")) {
    std::ofstream{here / "values.txt"} << in_lines(values);
    fs::remove(here / "checkpoint.lock");
  }
  int files = 0;
  for (auto const& entry : fs::directory_iterator{kept / "generation-000001"}) {
    CAPTURE(entry.path());
    CHECK(header_of(here / "generation-000001" / entry.path().filename()) == header_of(entry.path()));
    ++files;
  }
  CHECK(files == 1 + Trainer::ranks);
}
