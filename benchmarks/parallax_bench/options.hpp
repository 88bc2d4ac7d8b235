// The command line: what is measured, on which ranks, and where the results go.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "text.hpp"

namespace bench {

// What cannot be done as it was asked for: one sentence, and exit code 2.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Command {
  std::string_view name, help;
};
inline constexpr Command commands[] = {
    {"allreduce", "a dense variable, by size"},
    {"collectives", "reduce-scatter, allgather and alltoallv by size, beside MPI's"},
    {"ps", "a sparse table: pull and push, by policy"},
    {"crossing", "one table by size and by the share of it that a step touches: where all-reduce begins to be the cheaper one"},
    {"compare", "a whole model under every policy: bytes, messages, time"},
    {"partition", "how evenly partitioners spread the rows of a batch over owners"},
    {"count", "bytes of a step on machines that are not there, counted over the ids, and the time that they make"},
    {"kernels", "row operations of one thread beside memcpy, loops by hand and std::sort"},
    {"auto", "what Auto chooses beside every fixed policy, and the search for pieces, on a simulated network's clock"},
    {"converge", "the language model and the classifier of examples/, trained to the end under every policy"},
    {"async", "workers at their own pace beside rounds, by consistency, by who serves and by who is late"},
    {"staleness", "the language model trained in rounds and apart: how good it is after equally many batches"},
    {"report", "throughput by ranks, compare, partition and converge, on one page"},
    {"peers", "sums of dense and sparse gradients beside those that MPI makes by hand; only under mpiexec"}};

enum class Comm : unsigned char { self, threads, mpi };
enum class Partition : unsigned char { block, cyclic, hash, greedy };
inline constexpr std::string_view partition_names[] = {"block", "cyclic", "hash", "greedy"};
inline constexpr std::string_view comm_names[] = {"self", "threads", "mpi"};
inline constexpr std::string_view policy_names[] = {
    "hybrid", "all_reduce", "parameter_server", "naive_parameter_server", "tf1_parameter_server", "all_gather", "auto"};
inline constexpr std::string_view workload_names[] = {"w1", "w1t", "inception3", "w4", "w2", "w3b"};
inline constexpr std::string_view model_names[] = {"resnet50", "inception3", "vgg16", "pixelcnn", "lm1b", "nmt", "dlrm"};

inline bool under_mpiexec() {
  return std::getenv("PMI_RANK") || std::getenv("PMIX_RANK") || std::getenv("OMPI_COMM_WORLD_RANK");
}

// What a byte and a message cost: alpha-beta, between machines by each direction of each machine's link, within one by what all
// its ranks copy together.
struct Network {
  double latency = 2e-6, bandwidth = 12.5e9;  // seconds, bytes per second: 100 Gb/s
  double local_latency = 0.5e-6, local_bandwidth = 30e9;
};

// Machines of equally many ranks.
struct Machines {
  int machines = 1, ranks = 1;  // `ranks`: of each
};

struct Options {
  std::string command;
  std::size_t begin = 0, end = 0, factor = 0;  // bytes; 0: as the command has it
  int iterations = 0, warmup = 3;              // 0: as many as suit the size
  bool check = true, doubles = false, smoke = false, help = false, version = false;
  std::string model = "lm1b";
  std::vector<std::string> policies, workloads;
  std::int64_t rows = 0, width = 0, scale = 1;  // 0: as the command or model has it
  double alpha = 0, skew = 1;                   // alpha 0: as the model has it
  std::vector<double> alpha_sweep{.001, .01, .1, .5, 1};
  bool alpha_sweep_given = false;
  Partition partition = Partition::cyclic;
  Comm comm = Comm::threads;
  int ranks = 0, hosts = 0;  // hosts 0: every rank is a host
  bool real_hosts = false, shared_memory = true;
  std::int64_t payload = 1;
  Network network;
  std::vector<Machines> machines{{2, 1}, {4, 1}, {8, 1}, {8, 6}};
  double rounds = 18;
  std::string csv, json, html, trace, ids, wire, line;

  bool local() const {  // asks no rank
    return command == "partition" || command == "count" || command == "auto" || command == "kernels";
  }
};

namespace detail {

template <class N>
N number(std::string_view flag, std::string_view text, N least, N most) {
  N value{};
  auto const end = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= least && value <= most))
    throw Refusal{"the value of " + std::string{flag} + " is a number from " + shown(real(least)) + " to " + shown(real(most)) +
                  ", not '" + std::string{text} + "'"};
  return value;
}

inline std::size_t size(std::string_view flag, std::string_view text) {
  std::string_view const whole = text;
  std::size_t unit = 1;
  if (!text.empty()) {
    constexpr std::string_view suffixes = "KMG";
    auto const power = suffixes.find(static_cast<char>(text.back() & ~0x20));
    if (power != std::string_view::npos) unit = std::size_t{1} << (10 * (power + 1)), text.remove_suffix(1);
  }
  std::size_t value = 0;
  auto const [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size() || value == 0 || value > (std::size_t{1} << 40) / unit)
    throw Refusal{"the value of " + std::string{flag} + " is a number of bytes such as 4096, 64K or 1G, not '" +
                  std::string{whole} + "'"};
  return value * unit;
}

template <class Names>
std::size_t choice(std::string_view flag, std::string_view text, Names const& names) {
  std::string list;
  std::size_t number = 0;
  for (std::string_view const name : names) {
    if (name == text) return number;
    (list += number++ ? ", " : "") += name;
  }
  throw Refusal{"the value of " + std::string{flag} + " is one of " + list + ", not '" + std::string{text} + "'"};
}

// `commands`: those that have it, apart by spaces; none are all.
struct Flag {
  std::string_view name, value, help, commands;
  std::function<void(Options&, std::string_view)> set;

  bool belongs_to(std::string_view command) const {
    return commands.empty() || (' ' + std::string{commands} + ' ').find(' ' + std::string{command} + ' ') != std::string::npos;
  }
};

inline std::vector<Flag> const& flags() {
  using O = Options;
  using S = std::string_view;
  static std::vector<Flag> const all{
      {"-b", "bytes", "the smallest size (1K; crossing: 1M)", "allreduce collectives crossing",
       [](O& o, S v) { o.begin = size("-b", v); }},
      {"-e", "bytes", "the largest size (16M; crossing: 64M)", "allreduce collectives crossing",
       [](O& o, S v) { o.end = size("-e", v); }},
      {"-f", "factor", "from one size to the next (2; crossing: 8)", "allreduce collectives crossing",
       [](O& o, S v) { o.factor = number<std::size_t>("-f", v, 2, 1 << 20); }},
      {"-n", "steps", "measured steps (by default as many as suit the size)",
       "allreduce collectives ps crossing compare partition kernels async report peers",
       [](O& o, S v) { o.iterations = number("-n", v, 1, 100'000); }},
      {"-w", "steps", "steps before those that are measured (3)", "allreduce collectives ps compare report peers",
       [](O& o, S v) { o.warmup = number("-w", v, 0, 100'000); }},
      {"-c", "0|1", "whether results are checked (1)", "allreduce collectives ps crossing compare partition report peers",
       [](O& o, S v) { o.check = number("-c", v, 0, 1) == 1; }},
      {"-d", "type", "float or double (float)", "allreduce collectives ps crossing compare report peers",
       [](O& o, S v) {
         o.doubles = choice("-d", v, std::vector<S>{"float", "double"}) == 1;
       }},
      {"--model", "name", "resnet50, inception3, vgg16, pixelcnn, lm1b, nmt or dlrm (lm1b)", "compare count report",
       [](O& o, S v) { o.model = model_names[choice("--model", v, model_names)]; }},
      {"--policy", "list",
       "hybrid, all_reduce, parameter_server, naive_parameter_server, tf1_parameter_server, all_gather, auto (all)",
       "ps compare report",
       [](O& o, S v) {
         o.policies.clear();
         for (auto const& name : split(v)) o.policies.emplace_back(policy_names[choice("--policy", name, policy_names)]);
       }},
      {"--workload", "list", "w1, w1t, inception3, w4, w2, w3b (all)", "peers",
       [](O& o, S v) {
         o.workloads.clear();
         for (auto const& name : split(v)) o.workloads.emplace_back(workload_names[choice("--workload", name, workload_names)]);
       }},
      {"--wire", "device", "whose bytes the kernel counts, such as eth0, where every rank has a host of its own", "peers",
       [](O& o, S v) { o.wire = v; }},
      {"--rows", "n",
       "ps, partition, kernels: rows of the table (800000); count: of one table instead of a model; peers: as the workload has "
       "it",
       "ps partition kernels count peers",
       [](O& o, S v) { o.rows = number<std::int64_t>("--rows", v, 1, std::int64_t{1} << 40); }},
      {"--width", "n",
       "ps, kernels, count: elements of a row (128; crossing: 64); compare: of DLRM's rows (16); peers: as the workload has it",
       "ps crossing compare kernels count auto report peers",
       [](O& o, S v) { o.width = number<std::int64_t>("--width", v, 1, 1 << 20); }},
      {"--alpha", "x",
       "share of a table's rows that a rank touches in a step (ps .0032, partition .0087, compare: the model's own)",
       "ps compare partition count report peers", [](O& o, S v) { o.alpha = number("--alpha", v, 1e-12, 1.0); }},
      {"--alpha-sweep", "list", "shares at which all-reduce and parameter server meet (compare: .001,.01,.1,.5,1), or none",
       "crossing compare count auto report",
       [](O& o, S v) {
         o.alpha_sweep.clear(), o.alpha_sweep_given = true;
         if (v == "none") return;
         for (auto const& x : split(v)) o.alpha_sweep.push_back(number("--alpha-sweep", S{x}, 1e-12, 1.0));
         std::sort(o.alpha_sweep.begin(), o.alpha_sweep.end());
       }},
      {"--skew", "s", "exponent of the ids' Zipf distribution, 0: uniform (1)",
       "ps crossing compare partition count kernels report peers", [](O& o, S v) { o.skew = number("--skew", v, 0.0, 10.0); }},
      {"--ids", "file", "recorded ids instead: integers in a text file", "ps compare partition count report",
       [](O& o, S v) { o.ids = v; }},
      {"--partition", "name", "how rows are dealt: block, cyclic, hash or greedy (cyclic)", "ps crossing compare report peers",
       [](O& o, S v) { o.partition = static_cast<Partition>(choice("--partition", v, partition_names)); }},
      {"--comm", "name", "self, threads or mpi (mpi under mpiexec, else threads)",
       "allreduce collectives ps crossing compare async peers",
       [](O& o, S v) { o.comm = static_cast<Comm>(choice("--comm", v, comm_names)); }},
      {"--ranks", "n", "thread ranks (2); partition: ranks that draw ids (8); async, staleness: workers (4)",
       "allreduce collectives ps crossing compare partition converge async staleness report",
       [](O& o, S v) { o.ranks = number("--ranks", v, 1, 1024); }},
      {"--hosts", "n|auto", "declares n equal hosts over the ranks, auto: those of MPI (every rank is a host)",
       "allreduce collectives ps crossing compare peers",
       [](O& o, S v) {
         o.real_hosts = v == "auto";
         if (!o.real_hosts) o.hosts = number("--hosts", v, 1, 1024);
       }},
      {"--scale", "s", "divides the rows of every table, not the rows that a rank touches (1)", "compare count report peers",
       [](O& o, S v) { o.scale = number<std::int64_t>("--scale", v, 1, std::int64_t{1} << 40); }},
      {"--payload", "s", "divides the elements of dense tensors and the width of tables (1)", "compare count report peers",
       [](O& o, S v) { o.payload = number<std::int64_t>("--payload", v, 1, 1 << 20); }},
      {"--shared-memory", "0|1", "whether MPI ranks of one host exchange through memory (1)",
       "allreduce collectives ps crossing compare async peers",
       [](O& o, S v) { o.shared_memory = number("--shared-memory", v, 0, 1) == 1; }},
      {"--machines", "list", "machines x ranks of each (2x1,4x1,8x1,8x6)", "count",
       [](O& o, S v) {
         o.machines.clear();
         for (auto const& layout : split(v)) {
           auto const parts = split(layout, 'x');
           if (parts.size() != 2)
             throw Refusal{"the value of --machines is a list such as 2x1,8x6, not '" + std::string{v} + "'"};
           o.machines.push_back({number("--machines", S{parts[0]}, 1, 1 << 14), number("--machines", S{parts[1]}, 1, 1024)});
         }
       }},
      {"--rounds", "n", "messages of a step that wait for each other (18)", "count",
       [](O& o, S v) { o.rounds = number("--rounds", v, 0.0, 1e6); }},
      {"--latency", "us", "of a message between machines (2)", "count",
       [](O& o, S v) { o.network.latency = 1e-6 * number("--latency", v, 0.0, 1e6); }},
      {"--bandwidth", "GB/s", "of a machine's link, each way (12.5)", "count",
       [](O& o, S v) { o.network.bandwidth = 1e9 * number("--bandwidth", v, 1e-6, 1e6); }},
      {"--local-latency", "us", "of a message within a machine (0.5)", "count",
       [](O& o, S v) { o.network.local_latency = 1e-6 * number("--local-latency", v, 0.0, 1e6); }},
      {"--local-bandwidth", "GB/s", "what a machine's ranks hand to each other in all (30)", "count",
       [](O& o, S v) { o.network.local_bandwidth = 1e9 * number("--local-bandwidth", v, 1e-6, 1e6); }},
      {"--csv", "file", "writes the rows as CSV", "", [](O& o, S v) { o.csv = v; }},
      {"--json", "file", "writes the rows and facts of the machine as JSON", "", [](O& o, S v) { o.json = v; }},
      {"--html", "file", "writes charts and tables, all in one file", "", [](O& o, S v) { o.html = v; }},
      {"--trace", "file", "writes what every rank did when, for chrome://tracing or Perfetto", "ps compare",
       [](O& o, S v) { o.trace = v; }},
      {"--smoke", "", "tiny sizes: are the results right?", "", [](O& o, S) { o.smoke = true; }},
      {"--version", "", "prints the version, and what it was compiled by", "", [](O& o, S) { o.version = true; }},
      {"--help", "", "prints the flags of the command", "", [](O& o, S) { o.help = true; }}};
  return all;
}

}  // namespace detail

// Of a command, or what commands there are.
inline void print_help(std::string_view of) {
  if (of.empty()) {
    std::puts("parallax-bench COMMAND [flags]: all-reduce beside parameter server");
    for (auto const& command : commands)
      std::printf("  %-11s %.*s\n", std::string{command.name}.c_str(), static_cast<int>(command.help.size()),
                  command.help.data());
    std::puts(
        "parallax-bench COMMAND --help says which flags it has. With --comm mpi it is run under mpiexec.\n"
        "Exit code: 0, 1 where a result is wrong, 2 for a wrong flag. --version: of the program.");
    return;
  }
  std::string const name{of};
  for (auto const& command : commands)
    if (command.name == of) std::printf("parallax-bench %s [flags]: %s\n", name.c_str(), std::string{command.help}.c_str());
  for (auto const& flag : detail::flags())
    if (flag.belongs_to(of))
      std::printf("  %-22s %.*s\n", (std::string{flag.name} + ' ' + std::string{flag.value}).c_str(),
                  static_cast<int>(flag.help.size()), flag.help.data());
}

// Reads the options. `only`: the one command of a program that has no other; it need not be named. `also`: a command whose flags the
// one at hand has as well.
inline Options parse(int argc, char** argv, std::string_view only = {}, std::string_view also = {}) {
  Options options;
  options.command = only;
  options.comm = under_mpiexec() ? Comm::mpi : Comm::threads;
  for (int i = 0; i < argc; ++i) (options.line += i ? " " : "") += argv[i];
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i], value;
    if (i == 1 && !name.starts_with('-')) {
      std::vector<std::string_view> names;
      for (Command const& command : commands) names.push_back(command.name);
      options.command = commands[detail::choice("the command", name, names)].name;
      continue;
    }
    auto const equal = name.starts_with("--") ? name.find('=') : std::string_view::npos;
    bool const attached = equal != std::string_view::npos;
    if (attached) value = name.substr(equal + 1), name = name.substr(0, equal);
    auto const& all = detail::flags();
    auto const flag = std::find_if(all.begin(), all.end(), [&](auto const& known) { return known.name == name; });
    std::string const help = "; 'parallax-bench " + options.command + (options.command.empty() ? "" : " ") + "--help' lists ";
    if (flag == all.end()) throw Refusal{"there is no flag '" + std::string{name} + "'" + help + "what there is"};
    if (!options.command.empty() && !flag->belongs_to(options.command) && (also.empty() || !flag->belongs_to(also)))
      throw Refusal{options.command + " has no flag " + std::string{name} + help + "those that it has"};
    if (flag->value.empty() && attached) throw Refusal{std::string{name} + " takes no value"};
    if (!flag->value.empty() && !attached) {
      if (++i == argc) throw Refusal{std::string{name} + " needs a value: " + std::string{flag->value}};
      value = argv[i];
    }
    flag->set(options, value);
  }
  if (options.help || options.version) return options;
  if (options.command.empty()) {
    std::string list;
    for (Command const& command : commands) (list += list.empty() ? "" : ", ") += command.name;
    throw Refusal{"a command is needed: " + list + "; see --help"};
  }
  bool const crosses = options.command == "crossing";
  if (!options.begin) options.begin = crosses ? 1 << 20 : 1 << 10;
  if (!options.end) options.end = std::max<std::size_t>(options.begin, crosses ? 64 << 20 : 16 << 20);
  if (!options.factor) options.factor = crosses ? 8 : 2;
  if (options.begin > options.end) throw Refusal{"-b is larger than -e"};
  if (options.comm == Comm::self && options.ranks > 1) throw Refusal{"--comm self has one rank"};
  if (options.comm == Comm::mpi && options.ranks > 0 && !options.local())
    throw Refusal{"--ranks is for threads: under mpiexec its -n says how many ranks there are"};
  if (options.command == "peers" && options.comm != Comm::mpi) throw Refusal{"peers is measured under mpiexec"};
  bool const trains = options.command == "converge" || options.command == "staleness";
  if ((trains || options.command == "report") && options.comm != Comm::threads)
    throw Refusal{options.command + " trains thread ranks, each a host, in one process"};
  if (options.real_hosts && options.comm != Comm::mpi) throw Refusal{"--hosts auto needs --comm mpi"};
  if (options.comm != Comm::mpi && under_mpiexec() && !options.local())
    throw Refusal{"under mpiexec --comm is mpi: every process would measure for itself"};
#ifndef PARALLAX_HAS_EIGEN
  if (trains) throw Refusal{"this program was built without Eigen: " + options.command + " cannot be had"};
#endif
#ifndef PARALLAX_HAS_MPI
  if (options.comm == Comm::mpi) throw Refusal{"this program was built without MPI: --comm mpi cannot be had"};
#endif
  return options;
}

}  // namespace bench
