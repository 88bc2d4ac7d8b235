// The options of `run` on the command line, all of which begin with --px-. `run` takes them out of the arguments before its body
// sees them.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "parallax/comm/launch/bodies.hpp"
#include "parallax/core/text.hpp"

namespace parallax::detail {

// As many ranks one process may have as threads: their boxes take 2 KiB for each pair.
inline constexpr int most_thread_ranks = 1024;
// What a program exits with whose command line is wrong.
inline constexpr int usage_code = 2;

// What --px-help prints.
inline constexpr std::string_view run_help =
    "options of parallax, before any --:\n"
    "  --px-ranks N    N ranks as threads of this process, from 1 to 1024\n"
    "  --px-no-guard   do not compare the ranks that were joined with the processes that were launched\n"
    "  --px-help       print this, and exit\n"
    "Without --px-ranks the ranks are those of the launcher (mpiexec, srun), or one that is alone.\n";

// What the command line said.
struct RunArguments {
  // 0: nothing was said.
  int ranks = 0;
  bool guard = true;
  bool help = false;
  // What is wrong with the command line, in a sentence; else empty.
  std::string mistake;
};

// Reads the options of `run`, and takes them out of the arguments, also where one is wrong. The first of several mistakes is kept.
// What comes after `--`, and `--` itself, stay as they are.
RunArguments take_run_arguments(int& argc, char** argv);

#if PARALLAX_LAUNCH_BODIES
// Of a number that is missing, null.
inline void read_ranks(RunArguments& read, char const* text) {
  std::string_view const digits = text ? text : "";
  char const* const last = digits.data() + digits.size();
  int ranks = 0;
  auto const [end, error] = std::from_chars(digits.data(), last, ranks);
  bool const right = error == std::errc{} && end == last && ranks >= 1 && ranks <= most_thread_ranks;
  if (right) read.ranks = ranks;
  else if (read.mistake.empty())
    read.mistake = joined({"--px-ranks takes a number from 1 to ", most_thread_ranks, ", ",
                           text ? joined({"not «", digits, "»"}) : "and has none"});
}

// Whether the argument is an option of `run`; `next` is the argument after it, which is null at the end, and `both` whether that was
// taken as well.
inline bool read_option(RunArguments& read, std::string_view option, char const* next, bool& both) {
  constexpr std::string_view with_number = "--px-ranks=";
  if (!option.starts_with("--px-")) return false;
  if (option == "--px-no-guard") read.guard = false;
  else if (option == "--px-help") read.help = true;
  else if (option == "--px-ranks") both = next != nullptr, read_ranks(read, next);
  else if (option.starts_with(with_number)) read_ranks(read, option.data() + with_number.size());
  else if (read.mistake.empty()) read.mistake = joined({"there is no option ", option, " (--px-help tells which there are)"});
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
  if (kept < argc) argv[kept] = nullptr;
  argc = kept;
  return read;
}
#endif

}  // namespace parallax::detail
