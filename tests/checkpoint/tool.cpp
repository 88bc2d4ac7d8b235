// parallax-checkpoint, run as a user runs it: what it says of checkpoints whose values this file knows.
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../interop/scratch.hpp"
#include "catch.hpp"
#include "hosts.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/interop/safetensors.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test {
namespace {

namespace px = parallax;

// What the tool prints on both streams, and its exit code.
std::pair<int, std::string> tool(std::string const& arguments) {
  std::FILE* const pipe = popen((std::string{PARALLAX_CHECKPOINT_TOOL} + " " + arguments + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  while (std::size_t const count = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, count);
  int const status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}
bool has(std::string const& text, std::string const& words) { return text.find(words) != std::string::npos; }

float value_of(std::int64_t row, std::int64_t column) { return static_cast<float>(row) + static_cast<float>(column) / 16; }

// A generation in `folder` of rows that are known by their numbers; `changed` of them by a step of one of 0.5.
template <class Partitioner>
void save(std::string const& folder, int ranks, std::vector<std::int64_t> const& changed, std::string const& name) {
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, px::Sgd, Partitioner> words{
        session, "words", {.rows = 500, .width = 6}, px::Sgd{.learning_rate = 1}};
    px::Variable<px::Sparse, px::Adam> more{session, "more", {.rows = 40, .width = 2}};
    std::vector<float> memory(3000, 0.25f);
    px::Variable<px::Dense> bias{session, "bias", px::bind(memory)};
    std::vector<std::int64_t> numbers;
    std::vector<float> rows;
    for (std::int64_t row = 0; row < 500; ++row) {
      numbers.push_back(row);
      for (std::int64_t column = 0; column < 6; ++column) rows.push_back(value_of(row, column));
    }
    session.assign(words, numbers, px::RowsView<float const>{rows.data(), 500, 6});
    std::vector<std::int64_t> const own = world.rank() == 0 ? changed : std::vector<std::int64_t>{};
    session.step(px::grad(words, own, std::vector<float>(own.size() * 6, 0.5f)));
    std::string text = name;
    int epoch = 7;
    std::uint64_t seed = 40 + static_cast<std::uint64_t>(world.rank());
    session.save(folder, {.block_bytes = 700}, words, more, bias, px::shared_value("name", text),
                 px::shared_value("epoch", epoch), px::own_value("seed", seed));
    session.finish();
  });
}

}  // namespace

TEST_CASE("the tool lists, shows and verifies", "[checkpoint][tool]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  save<px::Cyclic>(folder, 1, {3}, "first");
  save<px::Hash>(folder, 3, {3, 499}, "second");
  std::filesystem::create_directory(folder + "/generation-000003.part");
  auto const [listed, list] = tool("list " + folder);
  CHECK(listed == 0);
  CHECK(has(list, "           2            1      3          3"));
  CHECK(has(list, "           1            1      1          3"));
  CHECK(has(list, "generation-000003.part is what an interrupted save has left"));
  auto const [shown, show] = tool("show " + folder);
  CHECK(shown == 0);
  for (char const* const words :
       {"generation 2, step 1, by 3 ranks", "variable words: Sparse float of 500 x 6", "500 x 6 of F32", "40 x 2 of F32",
        "3000 x 1 of F32", "\"second\"", "1 x 1 of I32: 7", "seed of rank 2", "\"Adam\""})
    CHECK(has(show, words));
  CHECK(has(tool("show " + folder + " --generation 1").second, "\"first\""));
  CHECK(tool("verify " + folder).first == 0);
  CHECK(has(tool("verify " + folder).second, "generation 2 is right"));

  SECTION("a byte that is damaged, and a file that is cut") {
    std::string const shard = folder + "/generation-000002/shard-00001.safetensors";
    std::uint64_t at = 0;
    {
      px::safetensors::Reader const reader{shard};
      at = reader.tensor(reader.at("words/values")).begin + 100;
    }
    {
      std::fstream file{shard, std::ios::binary | std::ios::in | std::ios::out};
      file.seekg(static_cast<std::streamoff>(at));
      char const byte = static_cast<char>(file.get() ^ 4);
      file.seekp(static_cast<std::streamoff>(at)).put(byte);
    }
    auto const [code, said] = tool("verify " + folder);
    CHECK(code == 1);
    CHECK(has(said, shard + ": tensor 'words/values': the checksum of"));
    CHECK(tool("verify " + folder + " --generation 1").first == 0);
    CHECK(tool("convert " + folder + " " + scratch.path("all.safetensors")).first == 1);
    CHECK(!std::filesystem::exists(scratch.path("all.safetensors")));
    std::filesystem::resize_file(shard, at);
    auto const [now, list_now] = tool("list " + folder);
    CHECK(now == 1);
    CHECK(has(list_now, "2  not complete: " + shard + ": it has"));
  }
}

TEST_CASE("the tool says where two checkpoints differ, whoever has saved them", "[checkpoint][tool]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run"), other = scratch.path("other");
  save<px::Cyclic>(folder, 3, {3, 400}, "same");
  save<px::Hash>(other, 3, {3, 400}, "same");
  auto const alike = tool("diff " + folder + " " + other);
  CHECK(!has(alike.second, "words/values"));
  save<px::Hash>(other, 2, {3, 401, 402}, "another");
  auto const [code, said] = tool("diff " + folder + " " + other);
  CHECK(code == 1);
  CHECK(has(said, "words/values: 4 of 500 rows differ, by up to 0.25"));
  CHECK(has(said, "value.seed of rank 2: only in the first"));
  CHECK(has(said, "value.name: 4 x 1 of I8 in the first, 7 x 1 of I8 in the second"));
  CHECK(!has(said, "bias/values"));
  CHECK(!has(said, "more/slot"));
  CHECK(has(tool("diff " + other + " " + folder + " --generation 1").second + ".", alike.second + "."));
  CHECK(tool("diff " + folder + " " + folder) == std::pair{0, std::string{"alike\n"}});
  CHECK(tool("diff " + other + " " + other + " --other-generation 1").first == 1);
}

TEST_CASE("the tool knows of hosts that share no folder", "[checkpoint][tool]") {
  Scratch const scratch;
  std::filesystem::create_directory(scratch.path("host0")), std::filesystem::create_directory(scratch.path("host1"));
  px::run_threads(3, [&](px::ThreadCommunicator& world) {
    OnHost const host{scratch.path(world.rank() == 1 ? "host1" : "host0")};
    px::Session session{world};
    px::Variable<px::Sparse> words{session, "words", {.rows = 500, .width = 6}};
    session.save("run", {}, words);
    session.finish();
  });
  auto const [listed, list] = tool("list " + scratch.path("host0/run"));
  CHECK(listed == 0);
  CHECK(has(list, "2 of 3 files are here, the others on other hosts"));
  auto const [code, said] = tool("verify " + scratch.path("host1/run"));
  CHECK(code == 1);
  CHECK(has(said,
            "shard-00000.safetensors: it is in another host's folder; copied into one, the folders of all hosts are complete"));
  std::filesystem::copy(scratch.path("host1/run"), scratch.path("host0/run"),
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::skip_existing);
  CHECK(tool("verify " + scratch.path("host0/run")).first == 0);
  CHECK(!has(tool("list " + scratch.path("host0/run")).second, "are here"));
}

TEST_CASE("the tool makes one file, rows by their numbers", "[checkpoint][tool]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run"), file = scratch.path("all.safetensors");
  save<px::Hash>(folder, 3, {3, 400}, "x");
  CHECK(tool("convert " + folder + " " + file).first == 0);
  px::safetensors::Reader const reader{file};
  auto const words = reader.values<float>("words/values");
  REQUIRE(words.size() == 3000);
  int wrong = 0;
  for (std::int64_t row = 0; row < 500; ++row)
    for (std::int64_t column = 0; column < 6; ++column)
      wrong += words[static_cast<std::size_t>(6 * row + column)] !=
               value_of(row, column) - (row == 3 || row == 400 ? 0.5f / 3 : 0.0f);
  CHECK(wrong == 0);
  CHECK(reader.values<float>("bias/values")[2999] == 0.25f);
  CHECK(reader.values<std::int32_t>("value.epoch")[0] == 7);
  CHECK(reader.values<float>("more/slot.m").size() == 80);
  CHECK(tool("convert " + folder + " " + scratch.path("bias.safetensors") + " --variable bias").first == 0);
  px::safetensors::Reader const alone{scratch.path("bias.safetensors")};
  for (std::size_t i = 0; i < alone.size(); ++i) CHECK(alone.tensor(i).name.starts_with("bias/"));
}

TEST_CASE("what the tool cannot do is one sentence", "[checkpoint][tool]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  save<px::Cyclic>(folder, 1, {}, "x");
  std::string const begin = "parallax-checkpoint: ";
  std::map<std::string, std::string> const refused{
      {"", "it is given a command: see --help"},
      {"look " + folder, "there is no command 'look': see --help"},
      {"list", "list is given a folder"},
      {"list a b", "list is given a folder"},
      {"diff a", "diff is given a folder and another"},
      {"convert a", "convert is given a folder and a file"},
      {"list a --generation 1", "list has no --generation"},
      {"show a --other-generation 1", "show has no --other-generation"},
      {"verify a --variable b", "verify has no --variable"},
      {"verify a --generation", "--generation is given a value"},
      {"verify a --generation x", "--generation is given a generation's number, not 'x'"},
      {"verify a --generation 0", "--generation is given a generation's number, not '0'"},
      {"verify a --pigeons", "there is no flag '--pigeons': see --help"}};
  for (auto const& [arguments, why] : refused) CHECK(tool(arguments) == std::pair{2, begin + why + "\n"});
  CHECK(tool("list " + scratch.path("none")) ==
        std::pair{1, begin + scratch.path("none") + ": it has no generation of a checkpoint\n"});
  CHECK(tool("verify " + folder + " --generation 9").first == 1);
  CHECK(tool("convert " + folder + " " + scratch.path("f") + " --variable none") ==
        std::pair{1, begin + folder + "/generation-000001: it has no variable 'none'\n"});
  CHECK(tool("--help").first == 0);
  CHECK(has(tool("--version").second, "parallax-checkpoint 0."));
}

}  // namespace parallax_test
