// The options of `run` on the command line, all of which begin with --px-. `run` takes them out of the arguments before its body
// sees them.
#pragma once

#include <charconv>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>

#include "parallax/detail/core/text.hpp"
#include "parallax/detail/launch/bodies.hpp"

namespace parallax::detail {

// As many ranks one process may have as threads: their boxes take 2 KiB for each pair.
inline constexpr int most_thread_ranks = 1024;
// What a program exits with whose command line is wrong.
inline constexpr int usage_code = 2;

// What --px-help prints.
inline constexpr std::string_view run_help =
    "options of parallax, before any --:\n"
    "  --px-ranks N     N ranks as threads of this process, from 1 to 1024\n"
    "  --px-hosts FILE  ranks as processes on the hosts that the file names, started here and by ssh\n"
    "  --px-mpi[=PATH]  these processes by mpiexec, that of PATH, of MPIEXEC, or as it is found\n"
    "  --px-output X    of these processes all are heard, with the rank before each line of others than rank 0 (all), or\n"
    "                   rank 0 alone (rank0)\n"
    "  --px-no-guard    do not compare the ranks that were joined with the processes that were launched\n"
    "  --px-help        print this, and exit\n"
    "Without --px-ranks and --px-hosts the ranks are those of the launcher (mpiexec, srun, torchrun), or one that is alone.\n";

// What the command line said.
struct RunArguments {
  // 0: nothing was said.
  int ranks = 0;
  // Of hosts; null: nothing was said.
  char const* hosts = nullptr;
  // Whether they are started by mpiexec, and by which; null: as it is found.
  bool by_mpi = false;
  char const* mpiexec = nullptr;
  // Whether ranks on hosts are heard, beside rank 0.
  bool all_speak = true;
  bool guard = true;
  bool help = false;
  // What is wrong with the command line, in a sentence; else empty.
  std::string mistake;
};

// Reads the options of `run`, and takes them out of the arguments, also where one is wrong. The first of several mistakes is kept.
// What comes after `--`, and `--` itself, stay as they are.
RunArguments take_run_arguments(int& argc, char** argv);

#if PARALLAX_LAUNCH_BODIES
// Notes a mistake, unless there was one before.
inline void mistaken(RunArguments& read, std::initializer_list<TextFragment> sentence) {
  if (read.mistake.empty()) read.mistake = joined(sentence);
}
// What is there instead of a value that makes sense.
inline std::string shown_value(char const* text) { return text ? joined({"not «", text, "»"}) : "and has none"; }

// The values of options; of one that is missing, null.
inline void read_ranks(RunArguments& read, char const* text) {
  std::string_view const digits = text ? text : "";
  char const* const last = digits.data() + digits.size();
  int ranks = 0;
  auto const [end, error] = std::from_chars(digits.data(), last, ranks);
  bool const right = error == std::errc{} && end == last && ranks >= 1 && ranks <= most_thread_ranks;
  if (right) read.ranks = ranks;
  else mistaken(read, {"--px-ranks takes a number from 1 to ", most_thread_ranks, ", ", shown_value(text)});
}
inline void read_hosts(RunArguments& read, char const* text) {
  if (text && *text) read.hosts = text;
  else mistaken(read, {"--px-hosts takes the name of a file, ", shown_value(text)});
}
inline void read_output(RunArguments& read, char const* text) {
  std::string_view const who = text ? text : "";
  if (who == "all" || who == "rank0") read.all_speak = who == "all";
  else mistaken(read, {"--px-output takes all or rank0, ", shown_value(text)});
}

// The options that have a value, behind a space or «=».
struct OptionWithValue {
  std::string_view name;
  void (*read)(RunArguments&, char const*);
};
inline constexpr OptionWithValue options_with_value[] = {
    {"--px-ranks", read_ranks}, {"--px-hosts", read_hosts}, {"--px-output", read_output}};

// Whether the option is --px-mpi, whose value can only stand behind «=».
inline bool read_mpi(RunArguments& read, std::string_view option) {
  constexpr std::string_view name = "--px-mpi";
  if (!option.starts_with(name)) return false;
  std::string_view const rest = option.substr(name.size());
  if (!rest.empty() && rest[0] != '=') return false;
  read.by_mpi = true;
  if (!rest.empty()) read.mpiexec = rest.data() + 1;
  return true;
}

// Whether the argument is an option of `run`; `next` is the argument after it, which is null at the end, and `both` whether that was
// taken as well.
inline bool read_option(RunArguments& read, std::string_view option, char const* next, bool& both) {
  if (!option.starts_with("--px-")) return false;
  for (auto const& [name, read_value] : options_with_value) {
    if (!option.starts_with(name)) continue;
    std::string_view const rest = option.substr(name.size());
    if (rest.empty()) return both = next != nullptr, read_value(read, next), true;
    if (rest[0] == '=') return read_value(read, rest.data() + 1), true;
  }
  if (read_mpi(read, option)) return true;
  if (option == "--px-no-guard") read.guard = false;
  else if (option == "--px-help") read.help = true;
  else mistaken(read, {"there is no option ", option, " (--px-help tells which there are)"});
  return true;
}

PARALLAX_INLINE RunArguments take_run_arguments(int& argc, char** argv) {
  RunArguments read;
  int kept = argc > 0 ? 1 : 0;
  bool ended = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view const argument = argv[i];
    bool both = false;
    ended = ended || argument == "--";
    if (ended || !read_option(read, argument, i + 1 < argc ? argv[i + 1] : nullptr, both)) argv[kept++] = argv[i];
    i += both;
  }
  if (read.ranks > 0 && read.hosts) mistaken(read, {"--px-ranks and --px-hosts exclude each other"});
  if (read.by_mpi && !read.hosts) mistaken(read, {"--px-mpi starts the ranks of --px-hosts, which is missing"});
  if (read.mpiexec && !*read.mpiexec) mistaken(read, {"--px-mpi= takes the path of an mpiexec, and has none"});
  if (kept < argc) argv[kept] = nullptr;
  argc = kept;
  return read;
}
#endif

}  // namespace parallax::detail
