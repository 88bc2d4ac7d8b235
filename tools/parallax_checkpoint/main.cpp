// parallax-checkpoint: what is in a folder of checkpoints, whether it is whole, where two differ, and one file of it. Reads what
// `Session::save` has written, a block at a time, without a session and without a communicator.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "parallax/version.hpp"

namespace {

using namespace checkpoint_tool;

constexpr char const* help = R"(parallax-checkpoint COMMAND FOLDER ...: looks at checkpoints that Session::save has written.

  list FOLDER                       the generations, from the newest on
  show FOLDER                       variables, their items, and the trainer's values
  verify FOLDER                     reads every byte, and compares all checksums
  diff FOLDER OTHER                 where two checkpoints differ
  convert FOLDER FILE.safetensors   all arrays in one file, rows by their numbers

  --generation N         instead of the newest that is complete
  --other-generation M   the same of OTHER
  --variable NAME        convert: this variable alone
  --version, --help

Exits with 0; with 1 where something is damaged, differs or cannot be read; with 2 for a command line that is none.
)";

// A command line that is none.
struct Refusal {
  std::string why;
};

struct Arguments {
  std::string command, variable;
  std::vector<std::string> paths;
  std::int64_t generation = 0, other_generation = 0;
};

Arguments parse(int argc, char** argv) {
  Arguments given;
  auto const value = [&](int& i) -> std::string {
    if (i + 1 == argc) throw Refusal{std::string{argv[i]} + " is given a value"};
    return argv[++i];
  };
  auto const number = [&](int& i) {
    std::string const flag = argv[i], text = value(i);
    if (text.empty() || text.size() > 15 || text.find_first_not_of("0123456789") != text.npos || std::stoll(text) == 0)
      throw Refusal{flag + " is given a generation's number, not '" + text + "'"};
    return std::int64_t{std::stoll(text)};
  };
  for (int i = 1; i < argc; ++i) {
    std::string_view const word = argv[i];
    if (word == "--generation") given.generation = number(i);
    else if (word == "--other-generation") given.other_generation = number(i);
    else if (word == "--variable") given.variable = value(i);
    else if (word.starts_with("-")) throw Refusal{"there is no flag '" + std::string{word} + "': see --help"};
    else if (given.command.empty()) given.command = word;
    else given.paths.emplace_back(word);
  }
  if (given.command.empty()) throw Refusal{"it is given a command: see --help"};
  bool const two = given.command == "diff" || given.command == "convert", lists = given.command == "list";
  if (!two && !lists && given.command != "show" && given.command != "verify")
    throw Refusal{"there is no command '" + given.command + "': see --help"};
  if (given.paths.size() != (two ? 2u : 1u))
    throw Refusal{given.command + (two ? " is given a folder and " : " is given a folder") +
                  (given.command == "diff" ? "another"
                   : two                   ? "a file"
                                           : "")};
  auto const only = [&](bool set, char const* flag, bool there) {
    if (set && !there) throw Refusal{given.command + " has no " + flag};
  };
  only(given.generation != 0, "--generation", !lists);
  only(given.other_generation != 0, "--other-generation", given.command == "diff");
  only(!given.variable.empty(), "--variable", given.command == "convert");
  return given;
}

int run(Arguments const& given) {
  std::string const& folder = given.paths[0];
  if (given.command == "list") return list(folder);
  Opened const opened{folder, given.generation};
  if (given.command == "show") return show(opened);
  if (given.command == "verify") return verify(opened);
  if (given.command == "convert") return convert(opened, given.paths[1], given.variable);
  return diff(opened, Opened{given.paths[1], given.other_generation});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) {
      std::string_view const word = argv[i];
      if (word == "--help") return std::fputs(help, stdout) < 0;
      if (word == "--version")
        return std::printf("parallax-checkpoint %d.%d.%d\n", PARALLAX_VERSION_MAJOR, PARALLAX_VERSION_MINOR,
                           PARALLAX_VERSION_PATCH) < 0;
    }
    return run(parse(argc, argv));
  } catch (Refusal const& refusal) {
    std::fprintf(stderr, "parallax-checkpoint: %s\n", refusal.why.c_str());
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "parallax-checkpoint: %s\n", error.what());
    return 1;
  }
}
