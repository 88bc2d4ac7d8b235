// Bodies of parallax/detail/launch/launcher.hpp.
#pragma once

#include "parallax/detail/launch/launcher.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::string shell_word(std::string_view word) {
  std::string text = "'";
  for (char const c : word) {
    if (c == '\'') text += "'\\''";
    else text += c;
  }
  return text + "'";
}

PARALLAX_INLINE std::string_view name_in(std::string_view setting) {
  std::size_t const end = setting.find('=');
  return setting.substr(0, end == setting.npos ? 0 : end);
}

PARALLAX_INLINE bool goes_along(std::string_view setting) {
  for (std::string_view const begin : {"PARALLAX_", "OMP_", "NCCL_", "CUDA_", "LD_LIBRARY_PATH="})
    if (setting.starts_with(begin)) return setting.find('=') != setting.npos;
  return false;
}

PARALLAX_INLINE bool can_be_exported(std::string_view name) {
  for (char const c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9');
}

PARALLAX_INLINE void say_what_stays() {
  for (char** one = environ; *one; ++one) {
    std::string_view const name = name_in(*one);
    if (!goes_along(*one) || can_be_exported(name)) continue;
    std::string shown{name.substr(0, 100)};
    for (char& c : shown)
      if (c < ' ' || c > '~') c = '?';
    std::fprintf(stderr, "parallax: the variable '%s' does not go to other hosts: no shell can export that name\n",
                 shown.c_str());
  }
}

// Removes an mpiexec's variables for this process: they are no business of its ranks, who join by other ways.
inline void forget_launchers() {
  std::vector<std::string> names;
  for (char** one = environ; *one; ++one)
    for (std::string_view const begin : {"PMI_", "PMIX_", "OMPI_"})
      if (std::string_view const setting{*one}; setting.starts_with(begin)) names.emplace_back(name_in(setting));
  for (std::string const& name : names) ::unsetenv(name.c_str());
}

// Returns a port: one free here at this moment; for another host any number of the range left alone by systems.
inline int port_for_rank_0(bool here) {
  if (here) {
    ::sockaddr_in any{};
    any.sin_family = AF_INET;
    ::socklen_t size = sizeof(any);
    int const socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool const found = socket >= 0 && ::bind(socket, reinterpret_cast<::sockaddr*>(&any), size) == 0 &&
                       ::getsockname(socket, reinterpret_cast<::sockaddr*>(&any), &size) == 0;
    if (socket >= 0) ::close(socket);
    if (found) return ntohs(any.sin_port);
  }
  std::uint16_t number = 0;
  static_cast<void>(::getentropy(&number, sizeof(number)));
  return 20000 + number % 12000;
}

// Returns 32 bytes that nobody can guess, in hexadecimal digits. Throws Error (transport) if the system has none.
inline std::string new_job_key() {
  std::array<unsigned char, 32> bytes{};
  if (::getentropy(bytes.data(), bytes.size()) != 0)
    throw Error{Errc::transport, -1, "launch", "", "the system gives no random numbers for the job's key"};
  std::string key;
  for (unsigned char const byte : bytes) key += "0123456789abcdef"[byte >> 4], key += "0123456789abcdef"[byte & 15];
  return key;
}

// Makes a pipe from `to` to `from`, which own its ends. No started program inherits an end. Throws Error (transport).
inline void join_pipe(OwnedDescriptor& from, OwnedDescriptor& to) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error{Errc::transport, -1, "launch", "", joined({"no pipe can be made (errno ", errno, ")"})};
  from = OwnedDescriptor{ends[0]}, to = OwnedDescriptor{ends[1]};
}

// Makes a descriptor another name of an open file.
inline void redirect(int descriptor, OwnedDescriptor const& to) {
  static_cast<void>(uninterrupted([&] { return ::dup2(to.get(), descriptor); }));
}

// Writes all, waiting. Says nothing of a missing reader.
inline void write_all(int to, std::string_view bytes) { static_cast<void>(write_all(to, bytes.data(), bytes.size())); }

// A rank's output into one file, line by line. Of a line begun anew by a carriage return, like a bar of progress, the last
// state is shown. A line of more than 64 KiB is parted.
class PrefixedLines {
 public:
  // Refers to `to`, the descriptor of the file for the lines.
  explicit PrefixedLines(int to) : to_{to} {}

  // Sets the prefix, before anything is added. Without `heard` no line is shown.
  void begin(std::string prefix, bool heard) { prefix_ = std::move(prefix), heard_ = heard; }
  void add(std::string_view bytes) {
    if (!heard_) return;
    while (!bytes.empty()) {
      std::size_t const stop = bytes.find_first_of("\r\n");
      std::string_view const part = bytes.substr(0, stop);
      if (!part.empty() && std::exchange(anew_, false)) line_.clear();
      line_ += part;
      bytes.remove_prefix(part.size());
      if (line_.size() > most) show();
      if (bytes.empty()) return;
      if (bytes[0] == '\n') show();
      else anew_ = true;
      bytes.remove_prefix(1);
    }
  }
  // Shows an unfinished line.
  void end() {
    if (!line_.empty()) show();
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 16;

  // Writes in one call, so lines of several ranks do not mix.
  void show() {
    line_.insert(0, prefix_), line_ += '\n';
    write_all(to_, line_);
    line_.clear(), anew_ = false;
  }

  int to_;
  bool heard_ = true, anew_ = false;
  std::string prefix_, line_;
};

PARALLAX_INLINE void pass_on_lines(std::string const& prefix, bool heard) {
  std::array<OwnedDescriptor, 2> from, to;
  for (std::size_t i = 0; i < 2; ++i) join_pipe(from[i], to[i]);
  ::pid_t const child = ::fork();
  if (child < 0) throw Error{Errc::transport, -1, "launch", "", joined({"no process can be made (errno ", errno, ")"})};
  if (child > 0) {
    for (std::size_t i = 0; i < 2; ++i) redirect(static_cast<int>(i) + 1, to[i]);
    static_cast<void>(uninterrupted([&] { return ::waitpid(child, nullptr, 0); }));
    return;
  }
  if (::fork() != 0) ::_exit(0);
  ::setpgid(0, 0);  // ending the rank by its group lets its last words pass
  for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) ::signal(number, SIG_IGN);
  std::array<PrefixedLines, 2> lines{PrefixedLines{STDOUT_FILENO}, PrefixedLines{STDERR_FILENO}};
  std::array<::pollfd, 2> polled{};
  for (std::size_t i = 0; i < 2; ++i) to[i].close(), lines[i].begin(prefix, heard), polled[i] = {from[i].get(), POLLIN, 0};
  char bytes[16384];
  for (int open = 2; open > 0;) {
    if (uninterrupted([&] { return ::poll(polled.data(), polled.size(), -1); }) < 0) break;
    for (std::size_t i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      auto const count = uninterrupted([&] { return ::read(polled[i].fd, bytes, sizeof(bytes)); });
      if (count > 0) lines[i].add({bytes, static_cast<std::size_t>(count)});
      if (count <= 0) lines[i].end(), polled[i].fd = -1, --open;
    }
  }
  ::_exit(0);
}

// Signals to the launcher: to end, and those for the ranks alone.
struct LaunchSignals {
  static constexpr std::array for_ranks{SIGUSR1, SIGUSR2, SIGXCPU};
  static inline volatile ::sig_atomic_t last = 0, count = 0;
  static inline volatile ::sig_atomic_t noted[for_ranks.size()] = {};
  static void note(int number) {
    last = number;
    count = count + 1;
  }
  static void note_for_ranks(int number) {
    for (std::size_t i = 0; i < for_ranks.size(); ++i)
      if (for_ranks[i] == number) noted[i] = 1;
  }
};

// A note of signals. While it lives, SIGINT, SIGTERM and SIGHUP are noted, and so are SIGUSR1, SIGUSR2 and SIGXCPU, for the
// ranks. Writing to a pipe without a reader is an error then, and no end.
class SignalsNoted {
 public:
  SignalsNoted() {
    LaunchSignals::last = 0;
    LaunchSignals::count = 0;
    struct ::sigaction noted {};
    noted.sa_handler = &LaunchSignals::note;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i >= ends) noted.sa_handler = numbers[i] == SIGPIPE ? SIG_IGN : &LaunchSignals::note_for_ranks;
      ::sigaction(numbers[i], &noted, &before_[i]);
    }
  }
  SignalsNoted(SignalsNoted&&) = delete;
  ~SignalsNoted() {
    for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGXCPU};
  static constexpr std::size_t ends = 3;
  std::array<struct ::sigaction, numbers.size()> before_{};
};

// A rank of the job as a process of this host: the rank itself, or its ssh.
struct LaunchedRank {
  int rank = 0, status = 0;  // status: as wait tells it
  std::string host;
  ::pid_t process = -1;  // -1: has ended
  bool by_ssh = false;
  OwnedDescriptor to;                   // of ssh's standard input
  std::array<OwnedDescriptor, 2> from;  // standard output and error, of other ranks than rank 0
  std::array<PrefixedLines, 2> lines{PrefixedLines{STDOUT_FILENO}, PrefixedLines{STDERR_FILENO}};

  bool failed() const { return status != 0; }
  int exit_status() const { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }
  // Returns its end in words.
  std::string end() const {
    if (WIFSIGNALED(status)) return joined({"by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")"});
    if (by_ssh && exit_status() == 255) return "with exit status 255, the sign of ssh that it failed itself";
    return joined({"with exit status ", exit_status()});
  }
};

// A job from its first process to its last. Refers to its arguments, which must outlive it.
class LaunchedJob {
 public:
  LaunchedJob(Resources const& resources, std::span<std::string const> command, LaunchOptions const& options)
      : resources_{resources}, command_{command}, options_{options} {
    char name[256] = {};
    if (::gethostname(name, sizeof(name) - 1) == 0) this_host_ = name;
    if (command.empty()) throw Error{Errc::invalid_argument, -1, "launch", "", "there is no command to run"};
    HostResources const& first = resources.hosts.at(0);
    bool alone = true;
    for (HostResources const& host : resources.hosts) alone = alone && is_here(host);
    if (first.here() && !alone)
      throw Error{Errc::invalid_argument, -1, "launch", "",
                  joined({"line ", first.line, " of the hosts: others cannot reach rank 0 at ", first.name,
                          "; name it as they know it, or put another host first"})};
    address_ = first.here() ? "127.0.0.1" : first.name;
    port_ = options.port != 0 ? options.port : port_for_rank_0(is_here(first));
    char const* const key = std::getenv("PARALLAX_JOB_KEY");
    key_ = key && *key ? key : new_job_key();
    if (!alone) say_what_stays();
  }
  LaunchedJob(LaunchedJob&&) = delete;
  ~LaunchedJob() { kill_all(SIGKILL), collect(true); }

  int run() {
    int rank = 0;
    for (HostResources const& host : resources_.hosts)
      for (int local = 0; local < host.ranks; ++local) start(host, rank++, local);
    while (running_ > 0) {
      pass_on(20);
      collect(false);
      heed_signals();
      end_survivors();
    }
    for (int turn = 0; turn < 100 && pass_on(0); ++turn) {  // the last words: pipes hold 64 KiB, and nobody refills them
    }
    for (LaunchedRank& one : ranks_)
      for (PrefixedLines& lines : one.lines) lines.end();
    if (first_failed_ < 0) return 0;
    LaunchedRank const& one = ranks_[static_cast<std::size_t>(first_failed_)];
    std::fflush(stdout);
    std::fprintf(stderr, "parallax: rank %d on %s ended first, %s\n", one.rank, one.host.c_str(), one.end().c_str());
    return one.exit_status();
  }

 private:
  bool is_here(HostResources const& host) const {
    return host.here() || (host.user.empty() && host.port == 0 && host.name == this_host_);
  }

  // Returns the settings for a rank's environment.
  std::vector<std::pair<std::string, std::string>> settings(HostResources const& host, int rank, int local) const {
    std::vector<std::pair<std::string, std::string>> all{
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(resources_.ranks())},
        {"LOCAL_RANK", std::to_string(local)},
        {"LOCAL_WORLD_SIZE", std::to_string(host.ranks)},
        {"MASTER_ADDR", address_},
        {"MASTER_PORT", std::to_string(port_)},
        {"PARALLAX_JOB_KEY", key_},
    };
    if (!host.devices.empty())
      all.emplace_back("CUDA_VISIBLE_DEVICES", std::to_string(host.devices[static_cast<std::size_t>(local)]));
    if (!resources_.mode.empty()) all.emplace_back("PARALLAX_MODE", resources_.mode);
    return all;
  }

  // Returns the script for a shell on another host. It ends the rank when this end of ssh is gone, and passes signals on. Their
  // names come a line each.
  std::string script(HostResources const& host, int rank, int local) const {
    std::string text;
    char folder[4096];
    if (::getcwd(folder, sizeof(folder))) text += "cd " + shell_word(folder) + " || exit 86\n";
    for (char** one = environ; *one; ++one)
      if (std::string_view const setting{*one}, name = name_in(setting); goes_along(setting) && can_be_exported(name))
        text += "export " + std::string{name} + "=" + shell_word(setting.substr(name.size() + 1)) + "\n";
    for (auto const& [name, value] : settings(host, rank, local)) text += "export " + name + "=" + shell_word(value) + "\n";
    text += "exec 3<&0\n";
    for (std::string const& word : command_) text += shell_word(word) + " ";
    return text +
           "</dev/null 3<&- &\n"
           "px_rank=$!\n"
           "(while read -r px_signal; do kill -\"$px_signal\" \"$px_rank\"; done <&3; kill -KILL \"$px_rank\") 2>/dev/null &\n"
           "px_watch=$!\n"
           "exec 2>/dev/null 3<&-\n"
           "wait \"$px_rank\"\n"
           "px_status=$?\n"
           "kill \"$px_watch\" 2>/dev/null\n"
           "exit \"$px_status\"\n";
  }

  // Returns the command of this host for a rank.
  std::vector<std::string> arguments(HostResources const& host, std::size_t script_bytes) const {
    if (is_here(host)) return {command_.begin(), command_.end()};
    std::vector<std::string> words = options_.ssh;
    words.push_back("-T");
    if (host.port != 0) words.insert(words.end(), {"-p", std::to_string(host.port)});
    words.push_back(host.user.empty() ? host.name : host.user + "@" + host.name);
    // The script comes by standard input, seen by its owner alone. Not a byte more is read, for the rest are signals.
    words.push_back(joined({"sh -c 'eval \"$(dd bs=1 count=", script_bytes, " 2>/dev/null)\"'"}));
    return words;
  }

  void start(HostResources const& host, int rank, int local) {
    LaunchedRank& one = ranks_.emplace_back();
    one.rank = rank, one.host = host.name, one.by_ssh = !is_here(host);
    std::string const text = one.by_ssh ? script(host, rank, local) : std::string{};
    std::vector<std::string> words = arguments(host, text.size());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    auto const environment = settings(host, rank, local);

    std::array<OwnedDescriptor, 3> theirs;
    if (one.by_ssh) join_pipe(theirs[0], one.to);
    else theirs[0] = OwnedDescriptor{open_descriptor("/dev/null", O_RDONLY)};
    for (std::size_t i = 0; i < 2 && rank > 0; ++i) join_pipe(one.from[i], theirs[i + 1]);
    for (PrefixedLines& lines : one.lines) lines.begin(joined({"[", rank, "] "}), options_.all_speak);

    ::pid_t const parent = ::getpid();
    std::fflush(nullptr);
    ::pid_t const child = ::fork();
    if (child < 0) throw Error{Errc::transport, rank, "launch", "", joined({"no process can be made (errno ", errno, ")"})};
    if (child == 0) become(parent, pointers.data(), theirs, one.by_ssh ? nullptr : &environment);
    one.process = child;
    ++running_;
    if (one.by_ssh) write_all(one.to.get(), text);
  }

  // Becomes the rank, in the new process: its parent's end ends it, and signals from the terminal come by way of the parent.
  template <class Settings>
  [[noreturn]] static void become(::pid_t parent, char** words, std::array<OwnedDescriptor, 3>& ends,
                                  Settings const* environment) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(86);
    for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGXCPU}) ::signal(number, SIG_DFL);
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (ends[i]) redirect(static_cast<int>(i), ends[i]);
    forget_launchers();
    if (environment)
      for (auto const& [name, value] : *environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(words[0], words);
    int const error = errno;
    std::fprintf(stderr, "parallax: %s cannot be run: %s\n", words[0], std::strerror(error));
    std::fflush(stderr);
    ::_exit(127);
  }

  // Waits at most so many milliseconds for the ranks' output, or for a signal, and passes on a piece of output from each.
  // Returns true if there was any.
  bool pass_on(int at_most) {
    std::vector<::pollfd> polled;
    std::vector<std::pair<OwnedDescriptor*, PrefixedLines*>> sources;
    for (LaunchedRank& one : ranks_)
      for (std::size_t i = 0; i < 2; ++i)
        if (one.from[i]) {
          polled.push_back({one.from[i].get(), POLLIN, 0});
          sources.emplace_back(&one.from[i], &one.lines[i]);
        }
    int const ready = ::poll(polled.data(), static_cast<::nfds_t>(polled.size()), at_most);
    if (ready <= 0) return ready < 0 && errno == EINTR;
    char bytes[16384];
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      auto const count = uninterrupted([&] { return ::read(polled[i].fd, bytes, sizeof(bytes)); });
      if (count > 0) sources[i].second->add({bytes, static_cast<std::size_t>(count)});
      if (count <= 0) sources[i].first->close();
    }
    return true;
  }

  // Notes ended ranks; with `waits`, waits for all.
  void collect(bool waits) {
    for (LaunchedRank& one : ranks_) {
      if (one.process < 0) continue;
      int status = 0;
      ::pid_t const ended = uninterrupted([&] { return ::waitpid(one.process, &status, waits ? 0 : WNOHANG); });
      if (ended == 0) continue;
      one.process = -1, one.status = status, --running_;
      one.to.close();
      if (one.failed() && first_failed_ < 0) first_failed_ = one.rank, failed_at_ = std::chrono::steady_clock::now();
    }
  }

  // Passes the first signal on, and ends all ranks at the second. Signals for the ranks are passed on whenever they come.
  void heed_signals() {
    for (std::size_t i = 0; i < LaunchSignals::for_ranks.size(); ++i)
      if (LaunchSignals::noted[i] != 0) LaunchSignals::noted[i] = 0, kill_all(LaunchSignals::for_ranks[i]);
    int const count = LaunchSignals::count;
    if (count == heeded_) return;
    kill_all(heeded_ == 0 && count == 1 ? LaunchSignals::last : SIGKILL);
    heeded_ = count;
  }

  // Ends the ranks left after a failure: for the grace they may speak, and end; then they get SIGTERM, and SIGKILL 2 s later.
  void end_survivors() {
    if (first_failed_ < 0) return;
    double const since = std::chrono::duration<double>{std::chrono::steady_clock::now() - failed_at_}.count();
    if (since > options_.grace && asked_ == 0) kill_all(SIGTERM), asked_ = 1;
    if (since > options_.grace + 2 && asked_ == 1) kill_all(SIGKILL), asked_ = 2;
  }

  // Sends a signal to all. SIGKILL ends an ssh as it is: the shell on the other host then finds its standard input at an end,
  // and ends the rank.
  void kill_all(int number) {
    for (LaunchedRank& one : ranks_) {
      if (one.process < 0) continue;
      if (!one.by_ssh || number == SIGKILL) ::kill(one.process, number);
      else write_all(one.to.get(), line_of(number));
    }
  }

  // Returns a signal as a line for the shell of another host. A shell in the background lets its programs ignore SIGINT.
  static std::string_view line_of(int number) {
    return number == SIGHUP    ? "HUP\n"
           : number == SIGUSR1 ? "USR1\n"
           : number == SIGUSR2 ? "USR2\n"
           : number == SIGXCPU ? "XCPU\n"
                               : "TERM\n";
  }

  Resources const& resources_;
  std::span<std::string const> command_;
  LaunchOptions const& options_;
  std::string this_host_, address_, key_;
  int port_ = 0, running_ = 0, first_failed_ = -1, heeded_ = 0, asked_ = 0;
  std::chrono::steady_clock::time_point failed_at_{};
  std::vector<LaunchedRank> ranks_;
};

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE int launch(Resources const& resources, std::span<std::string const> command, LaunchOptions const& options) {
  detail::SignalsNoted const noted;
  return detail::LaunchedJob{resources, command, options}.run();
}

}  // namespace parallax
