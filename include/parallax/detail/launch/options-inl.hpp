// Bodies of parallax/detail/launch/options.hpp.
#pragma once

#include "parallax/detail/launch/options.hpp"

namespace parallax::inline v0_2::detail {

// Notes a mistake, unless there was one before.
inline void mistaken(RunArguments& read, std::initializer_list<TextFragment> sentence) {
  if (read.mistake.empty()) read.mistake = joined(sentence);
}
// Returns a wrong or missing value as a message shows it.
inline std::string shown_value(char const* text) { return text ? joined({"not «", text, "»"}) : "and has none"; }

// Readers of the options' values; null: the value is missing.
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

// An option with a value, behind a space or «=».
struct OptionWithValue {
  std::string_view name;
  void (*read)(RunArguments&, char const*);
};
inline constexpr OptionWithValue options_with_value[] = {
    {"--px-ranks", read_ranks}, {"--px-hosts", read_hosts}, {"--px-output", read_output}};

// Returns true if the option is --px-mpi. Its value can only stand behind «=».
inline bool read_mpi(RunArguments& read, std::string_view option) {
  constexpr std::string_view name = "--px-mpi";
  if (!option.starts_with(name)) return false;
  std::string_view const rest = option.substr(name.size());
  if (!rest.empty() && rest[0] != '=') return false;
  read.by_mpi = true;
  if (!rest.empty()) read.mpiexec = rest.data() + 1;
  return true;
}

// Returns true if the argument is an option of `run`. `next`: the argument after it, null at the end. `both`: set if `next` was
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

}  // namespace parallax::detail
