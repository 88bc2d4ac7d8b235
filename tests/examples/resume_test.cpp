// The language model, stopped and resumed: its program is run as a user runs it, and must say what an uninterrupted run says.
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "../catch.hpp"

namespace {

namespace fs = std::filesystem;

// A text of 9000 words, of which 99 are different. `kind`: another text of the same words.
std::string some_text(int kind) {
  std::string text;
  for (int k = 0, word = 1; k < 9000; ++k) {
    word = (word * (k % 5 == 0 ? 7 : 3) + kind + k % 3) % 97;
    text += "word" + std::to_string(word) + (k % 9 == 8 ? "\n\n" : " ");
  }
  return text;
}

// A folder for a test case, with two texts in it.
struct Folder {
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path);
    for (int const kind : {1, 2}) std::ofstream{path / ("text" + std::to_string(kind))} << some_text(kind);
  }
  Folder(Folder&&) = delete;
  ~Folder() { fs::remove_all(path); }
  std::string operator/(std::string const& name) const { return (path / name).string(); }
  // Whether the newest checkpoint in `name` is at least this one.
  bool has(std::string const& name, int number) const {
    if (!fs::exists(path / name)) return false;
    for (auto const& entry : fs::directory_iterator{path / name}) {
      std::string const generation = entry.path().filename().string();
      if (generation.ends_with(".part")) continue;
      if (std::atoi(generation.substr(generation.find('-') + 1).c_str()) >= number) return true;
    }
    return false;
  }

  fs::path path = fs::temp_directory_path() / ("parallax-resume-" + std::to_string(::getpid()));
};

struct Ran {
  int status;
  std::string said;  // on stdout and stderr

  // The rest of the only line that begins so.
  std::string line(std::string const& begin) const {
    std::istringstream lines{said};
    std::string found;
    for (std::string text; std::getline(lines, text);)
      if (text.starts_with(begin)) found += text.substr(begin.size());
    return found;
  }
  std::string perplexity() const { return line("held-out perplexity, to the last bit: "); }
};

// The program under /bin/sh, told that no mpiexec has started it.
::pid_t begun(std::string const& arguments, std::string const& output) {
  std::string const line = std::string{"exec "} + PARALLAX_LANGUAGE_MODEL + " --smoke " + arguments + " > " + output + " 2>&1";
  ::pid_t const child = ::fork();
  if (child != 0) return child;
  for (char const* const name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}) ::unsetenv(name);
  ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
  ::_exit(127);
}
Ran ended(::pid_t child, std::string const& output) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  std::ifstream file{output};
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), {std::istreambuf_iterator<char>{file}, {}}};
}
Ran run(Folder const& folder, std::string const& arguments) {
  std::string const output = folder / "said";
  return ended(
      begun(arguments + (arguments.find("--text") == std::string::npos ? " --text " + (folder / "text1") : ""), output),
      output);
}
Ran trained(Folder const& folder, std::string const& arguments) {
  Ran const ran = run(folder, "--policy hybrid " + arguments);
  INFO(ran.said);
  REQUIRE(ran.status == 0);
  return ran;
}
// Waits until a training of many batches has its so many'th checkpoint, and sends it a signal.
Ran interrupted(Folder const& folder, std::string const& name, int generation, int signal) {
  std::string const output = folder / "said";
  ::pid_t const child = begun(
      "--policy hybrid --ranks 2 --save-every 3 --batches 100000 --save " + (folder / name) + " --text " + (folder / "text1"),
      output);
  for (int i = 0; i < 6000 && !folder.has(name, generation); ++i) ::usleep(10'000);
  ::kill(child, signal);
  return ended(child, output);
}

}  // namespace

TEST_CASE("a training that was stopped after any batch and resumed ends with the perplexity of one that was not, bit for bit",
          "[examples][resume]") {
  Folder const folder;
  Ran const whole = trained(folder, "--ranks 3 --save " + (folder / "whole"));
  REQUIRE(!whole.perplexity().empty());
  CHECK(trained(folder, "--ranks 3 --seed 2 --save " + (folder / "other")).perplexity() != whole.perplexity());
  for (int const batches : {1, 13}) {
    CAPTURE(batches);
    std::string const save = "--ranks 3 --save " + (folder / std::to_string(batches));
    Ran const first = trained(folder, save + " --batches " + std::to_string(batches));
    CHECK(first.perplexity() != whole.perplexity());
    Ran const resumed = trained(folder, save + " --resume");
    CHECK(resumed.line("goes on after ") == std::to_string(batches) + " batches");
    CHECK(resumed.perplexity() == whole.perplexity());
    Ran const again = trained(folder, save + " --resume");  // there is nothing left to be trained
    CHECK(again.line("goes on after ") == "30 batches");
    CHECK(again.perplexity() == whole.perplexity());
  }
}

TEST_CASE("interrupted twice, with checkpoints now and then, a training ends as if it had not been", "[examples][resume]") {
  Folder const folder;
  std::string const whole = trained(folder, "--ranks 2 --batches 24 --save " + (folder / "whole")).perplexity();
  std::string const save = "--ranks 2 --save-every 4 --save " + (folder / "parts");
  trained(folder, save + " --batches 7");
  trained(folder, save + " --batches 18 --resume");
  fs::remove_all(fs::path{folder / "parts"} / "generation-000005");  // of batch 18: a crash before it would have left this
  std::set<std::string> names;
  for (auto const& entry : fs::directory_iterator{folder / "parts"}) names.insert(entry.path().filename().string());
  CHECK(names == std::set<std::string>{"checkpoint.lock", "generation-000003", "generation-000004"});
  Ran const last = trained(folder, save + " --batches 24 --resume");
  CHECK(last.line("goes on after ") == "15 batches");
  CHECK(last.perplexity() == whole);
}

TEST_CASE("killed while it trains and saves, a training goes on from the newest checkpoint", "[examples][resume]") {
  Folder const folder;
  CHECK(interrupted(folder, "run", 4, SIGKILL).status == -SIGKILL);
  std::string const save = "--ranks 2 --save " + (folder / "run");
  Ran const looked = trained(folder, save + " --resume --batches 1");  // which it has had
  int const had = std::atoi(looked.line("goes on after ").c_str());
  CHECK(had >= 12);
  CHECK(had % 3 == 0);
  std::string const batches = " --batches " + std::to_string(had + 5);
  CHECK(trained(folder, save + " --resume" + batches).perplexity() ==
        trained(folder, "--ranks 2 --save " + (folder / "whole") + batches).perplexity());
}

TEST_CASE("asked by SIGTERM to end, a training saves first, and goes on from there", "[examples][resume]") {
  Folder const folder;
  Ran const stopped = interrupted(folder, "run", 2, SIGTERM);
  INFO(stopped.said);
  CHECK(stopped.status == 0);
  CHECK(stopped.said.find("stopped by a signal: --resume goes on from there") != std::string::npos);
  int const had = std::atoi(stopped.line("saved after ").c_str());
  REQUIRE(had > 0);
  std::string const save = "--ranks 2 --save " + (folder / "run"), batches = " --batches " + std::to_string(had + 3);
  Ran const resumed = trained(folder, save + " --resume" + batches);
  CHECK(resumed.line("goes on after ") == std::to_string(had) + " batches");
  CHECK(resumed.perplexity() == trained(folder, "--ranks 2 --save " + (folder / "whole") + batches).perplexity());
}

TEST_CASE("a training goes on with another number of ranks", "[examples][resume]") {
  Folder const folder;
  std::string const save = "--save " + (folder / "run");
  Ran const first = trained(folder, "--ranks 4 --batches 20 " + save);
  double const before = std::stod(first.perplexity());
  for (int const ranks : {1, 3}) {
    CAPTURE(ranks);
    Ran const next = trained(
        folder, "--resume --ranks " + std::to_string(ranks) + " --batches " + std::to_string(60 + 20 * ranks) + " " + save);
    INFO(next.said);
    CHECK(next.line("goes on after ").ends_with(", with another number of ranks: the model has forgotten the words before"));
    CHECK(std::stod(next.perplexity()) < before);
  }
}

TEST_CASE("what cannot be saved or resumed is refused by a sentence", "[examples][resume]") {
  Folder const folder;
  auto const refused = [&](std::string const& arguments) {
    Ran const ran = run(folder, arguments);
    CHECK(ran.status == 2);
    return ran.said;
  };
  CHECK(refused("--policy hybrid --resume") ==
        "language_model: --resume goes on from what --save FOLDER has saved: name the folder\n");
  CHECK(refused("--policy auto --save " + (folder / "run")) == "language_model: --save is for --policy hybrid, not for auto\n");
  trained(folder, "--ranks 2 --batches 2 --save " + (folder / "run"));
  CHECK(refused("--policy hybrid --save " + (folder / "run")) ==
        "language_model: " + (folder / "run") +
            " is not empty: --resume goes on from it, a new training wants another folder\n");
  Ran const empty = trained(folder, "--ranks 2 --batches 2 --resume --save " + (folder / "new"));
  CHECK(empty.line("there is no checkpoint in ") == (folder / "new") + ": from the beginning");

  Ran const other = run(
      folder, "--policy hybrid --ranks 2 --resume --batches 3 --save " + (folder / "run") + " --text " + (folder / "text2"));
  CHECK(other.status == 86);
  CHECK(other.said.find("the checkpoint is of another text, or of another vocabulary") != std::string::npos);
}
