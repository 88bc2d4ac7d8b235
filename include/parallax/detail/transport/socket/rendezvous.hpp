// The means of ranks over sockets to find rank 0's address: told to all, or left by rank 0 as one word in a file ("file:PATH")
// or with the launcher ("pmi:"). Such a word may come from a stranger: it is read within bounds. A meeting
// (detail/transport/socket/meeting.hpp) has one.
#pragma once

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/checksum.hpp"
#include "parallax/detail/transport/socket/greeting.hpp"
#include "parallax/detail/transport/socket/options.hpp"
#include "parallax/detail/transport/socket/pmi.hpp"

namespace parallax::inline v0_2::detail {

// A look-up of a name, again and again. The system's resolver may take longer than any deadline: it has a thread of its own,
// left to itself if nobody waits for it any more. Digits need no thread.
class NameLookUp {
 public:
  using Resolver = std::vector<SocketAddress> (*)(HostAndPort const&);
  // The resolver, which may block. Tests have one of their own.
  static inline Resolver resolver = &addresses_of;

  explicit NameLookUp(HostAndPort name) : name_{std::move(name)}, digits_{addresses_in_digits(name_)} {}

  // Waits 20 ms at most, but longer if no thread can be had. Returns all addresses of the name at its last look-up, the
  // system's best first; empty if nobody knows it (yet). Throws Error (transport) like addresses_of.
  std::vector<SocketAddress> look() {
    if (!digits_.empty()) return digits_;
    if (!answer_.valid()) begin();
    if (answer_.wait_for(moment) != std::future_status::ready) return {};
    return answer_.get();  // the next call asks anew
  }

 private:
  static constexpr std::chrono::milliseconds moment{20};

  void begin() {
    std::packaged_task<std::vector<SocketAddress>()> task{[ask = resolver, name = name_] { return ask(name); }};
    answer_ = task.get_future();
    try {
      std::thread{std::move(task)}.detach();
    } catch (std::system_error const&) {  // no thread can be had: then it takes as long as it takes
      std::promise<std::vector<SocketAddress>> here;
      here.set_value(resolver(name_));
      answer_ = here.get_future();
    }
  }

  HostAndPort name_;
  std::vector<SocketAddress> digits_;
  std::future<std::vector<SocketAddress>> answer_;
};

// Returns the addresses of this host for other hosts, IPv4 first: of all interfaces that are up, without loopback and without
// addresses of one link alone. Ports are 0. Empty if the system tells none.
std::vector<SocketAddress> own_addresses();

// Content of the word that rank 0 leaves for the others.
struct MeetingPlace {
  std::uint16_t port = 0;
  std::string key;                     // of this job alone, by chance, in hexadecimal digits; empty: the ranks have one already
  std::uint64_t host = 0;              // of rank 0, by host_mark
  std::vector<std::string> addresses;  // at least one, to be called in this order: addresses in digits, then perhaps a name
};

// The most bytes of a word of rank 0.
inline constexpr std::size_t most_place_bytes = 4096;

// Returns a mark of the host in `facts`, equal for two processes on one host.
std::uint64_t host_mark(RankFacts const& facts);

// Returns a key that nobody can guess, in 32 hexadecimal digits. Throws Error (transport) if the system gives no random bytes.
std::string new_key();

// Returns "px1/PORT/KEY/HOST/ADDRESS,ADDRESS", with "-" for no key: letters, digits and "/.,:-_" alone, fit for any launcher.
// It has as many addresses as fit into `most` bytes in all. Throws Error (transport) if not even one does.
std::string word_of(MeetingPlace const& place, std::size_t most);

// Returns the place told by a word in the form of `word_of`; nothing, for any other text.
std::optional<MeetingPlace> place_in(std::string_view word);

// Returns Error (file) about the file used as a meeting place. `what`: its fault, in words behind its name.
Error place_file_error(std::string const& path, std::string_view what);

// Returns the word in that file, without the line's end; nothing, if there is no file (yet). Throws Error (file) unless it can
// be read, is the user's own and unreadable by others: its writer decides the partner of this process.
std::optional<std::string> word_in_file(std::string const& path);

// Rank 0's file. It is there, all at once, from its construction on, and gone with it, unless another job has written it since,
// or this is a forked child. Move-only.
class PlaceFile {
 public:
  // Writes the file. Throws Error (file) if it cannot be written, transport like `new_key`.
  PlaceFile(std::string path, std::string const& word) : path_{std::move(path)} {
    std::string const fresh = joined({path_, ".", new_key()}), line = word + "\n";
    file_ = OwnedDescriptor{make_descriptor(fresh.c_str(), O_WRONLY | O_NOFOLLOW, S_IRUSR | S_IWUSR)};
    bool const fits = may_have_bytes(line.size());
    bool const written = file_ && fits && write_all(file_.get(), line.data(), line.size()) &&
                         uninterrupted([&] { return ::fsync(file_.get()); }) == 0 &&
                         ::rename(fresh.c_str(), path_.c_str()) == 0;
    int const error = file_ && !fits ? EFBIG : errno;
    if (!written && file_) ::unlink(fresh.c_str());
    if (!written) throw place_file_error(path_, joined({"cannot be written: ", std::strerror(error)}));
  }
  PlaceFile(PlaceFile&& other) noexcept
      : path_{std::exchange(other.path_, {})}, file_{std::move(other.file_)}, birth_{other.birth_} {}
  PlaceFile& operator=(PlaceFile&&) = delete;
  // Removes the file if it is still there. An open file proves it: reading it would take a descriptor, and there may be none.
  ~PlaceFile() {
    struct stat own {};
    struct stat there {};
    if (path_.empty() || birth_.in_child() || ::fstat(file_.get(), &own) != 0 || ::lstat(path_.c_str(), &there) != 0) return;
    if (own.st_dev == there.st_dev && own.st_ino == there.st_ino) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
  OwnedDescriptor file_;
  Birth birth_;
};

// A rank's means to find rank 0's address, by the options. Refers to these, and to this rank's facts; both outlive it.
class Rendezvous {
 public:
  // `until`: the last moment to wait for a launcher. Throws Error (invalid_argument) for a wrong address.
  Rendezvous(SocketOptions const& options, RankFacts const& mine, Moment until)
      : options_{&options}, mine_{&mine}, until_{until}, key_{options.key} {
    std::string_view const address = options.address;
    if (address == "pmi:") means_ = Means::launcher;
    else if (address.starts_with("file:")) means_ = Means::file, path_ = address.substr(5);
    else name_.emplace(split_address(address));
    if (means_ == Means::file && path_.empty())
      throw Error{Errc::invalid_argument, options.rank, "SocketCommunicator", "", "'file:' names no file"};
  }

  // Returns true if rank 0 leaves word of its address.
  bool leaves_word() const { return means_ != Means::address; }
  // Leaves word, by rank 0, if `leaves_word`: others find it at this address, or at all of its host's if it listens everywhere,
  // and have a key. Waits for all at a launcher's barrier. Throws Error: file, transport, and those of PmiClient.
  void leave_word(SocketAddress const& listener);
  // Returns the addresses of rank 0 known now, to be called in this order; perhaps none. By other ranks, and by rank 0 of an
  // address told to all. At a launcher waits for all ranks. Throws Error: file not to be trusted, transport, and PmiClient's.
  std::vector<SocketAddress> look();
  // Returns the reason why the last `look` found nothing, in words behind the name of the address.
  std::string const& why() const { return why_; }
  // Returns the key of the job, the options' or rank 0's; empty: there is none, or none is known yet.
  std::string const& key() const { return key_; }
  // Takes rank 0's file away, if this rank has left one: the world is together.
  void close() { file_.reset(); }
  // Returns true if the launcher brings ranks with these options together.
  static bool by_launcher(SocketOptions const& options) { return options.address == "pmi:" && options.size > 1; }

 private:
  enum class Means { address, file, launcher };
  static constexpr std::string_view key_of_word = "parallax-rank-0";

  // Returns the launcher, and begins with it at first. Throws Error: misuse, and those of PmiClient.
  PmiClient& launcher() {
    if (!client_) client_ = &OwnLauncher::client(), client_->begin(until_);
    return *client_;
  }
  // Returns the place left by rank 0; nothing, if there is none yet. Waits and throws like `look`.
  std::optional<MeetingPlace> find_place();
  // Returns rank 0's addresses in the order of this rank's calls. Waits 20 ms at most if one is a name.
  std::vector<SocketAddress> in_order(MeetingPlace const& place);

  SocketOptions const* options_;
  RankFacts const* mine_;
  Moment until_;
  std::string key_, path_, why_ = "has an address that nobody knows";
  Means means_ = Means::address;
  std::optional<NameLookUp> name_;  // as all were told, or as rank 0 says
  std::optional<PlaceFile> file_;
  PmiClient* client_ = nullptr;
  std::string word_;  // the word found last
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/rendezvous-inl.hpp"
#endif
