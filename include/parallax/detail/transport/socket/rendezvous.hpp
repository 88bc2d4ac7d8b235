// The way of ranks over sockets to rank 0's address: told to all, or left by rank 0 in a file ("file:PATH") or with the
// launcher ("pmi:"). A meeting (detail/transport/socket/meeting.hpp) has one.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/transport/socket/names.hpp"
#include "parallax/detail/transport/socket/options.hpp"
#include "parallax/detail/transport/socket/place.hpp"
#include "parallax/detail/transport/socket/pmi.hpp"

namespace parallax::inline v0_2::detail {

// Returns Error (file) of a file used as a meeting place.
Error place_file_error(std::string const& path, std::string_view what);

// Returns the word in that file, without its end; nothing, if it is not there (yet). Only the user's own file, unreadable by
// others, is read: its writer decides the partner of this process. Error (file).
std::optional<std::string> word_in_file(std::string const& path);

// Rank 0's file. It is there, all at once, from its construction on, and gone with it, unless another job has written it since,
// or this is a forked child. Move-only.
class PlaceFile {
 public:
  // Error (file) if it cannot be written.
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

// A rendezvous. Refers to the options, and to this rank's facts.
class Rendezvous {
 public:
  // Error (invalid_argument) for a wrong address.
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
  // By rank 0, if so: leaves word. The others will find it at this address, or at all of its host's if it listens everywhere,
  // and have a key. Error: file, or of the launcher.
  void leave_word(SocketAddress const& listener);
  // By others, and by rank 0 of an address told to all: returns the addresses of rank 0 known now, to be called in this order.
  // There may be none. Error: file for one that must not be trusted, or of the launcher.
  std::vector<SocketAddress> look();
  // Returns the reason for finding nothing.
  std::string const& why() const { return why_; }
  // Returns the key of the job; empty: there is none.
  std::string const& key() const { return key_; }
  // Takes rank 0's word away: the world is together.
  void close() { file_.reset(); }
  // Returns true if the launcher brings ranks with these options together.
  static bool by_launcher(SocketOptions const& options) { return options.address == "pmi:" && options.size > 1; }

 private:
  enum class Means { address, file, launcher };
  static constexpr std::string_view key_of_word = "parallax-rank-0";

  // Returns the launcher, after this rank's beginning.
  PmiClient& launcher() {
    if (!client_) client_ = &OwnLauncher::client(), client_->begin(until_);
    return *client_;
  }
  // Returns the place left by rank 0; nothing, if it is not there.
  std::optional<MeetingPlace> find_place();
  // Returns rank 0's addresses in the order of this rank's calls.
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
