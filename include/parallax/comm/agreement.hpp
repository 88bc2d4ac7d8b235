// The agreement of all ranks before anything is exchanged: that they do the same, that none refuses, and how much follows.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "parallax/comm/lane.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/core/fields.hpp"

namespace parallax {

// One round: every rank tells every other {hash of what it is about to do, whether it can and has data, counts}. Ranks agree
// when all are ok and all hashes are equal; every rank sees the same words and reaches the same verdict. A rank can leave out
// what was named ahead, and then all do. Control bytes.
template <Communicator C>
class Agreement {
 public:
  static constexpr std::size_t inline_counts = 6;

  Agreement(Topology<C> const& topology, int channel, Traffic& traffic)
      : lane_{topology, channel, traffic}, out_(ranks()), in_(ranks()) {}

  // Local. Room for so many numbers, so that `begin` allocates nothing.
  void reserve(std::size_t counts);
  // Local. `counts` numbers will be told to each rank.
  void begin(std::uint64_t hash, bool ok, bool joined, std::size_t counts, bool ahead = true);
  void tell(int rank, std::size_t which, std::uint64_t count) { slot(out_, extra_out_, rank, which) = count; }
  std::uint64_t told(int rank, std::size_t which) { return slot(in_, extra_in_, rank, which); }

  // Collective in the order of the channel.
  void post() { post_words(out_.data(), in_.data(), sizeof(Record)); }
  bool poll();
  bool in_flight() const { return lane_.in_flight(); }
  int waiting_for() const { return lane_.waiting_for(); }
  void withdraw() noexcept { lane_.withdraw(); }

  bool unanimous() const;
  // Whether every rank can do what was named ahead.
  bool ahead() const {
    return std::all_of(in_.begin(), in_.end(), [](Record const& r) { return (r.flags & looks_ahead) != 0; });
  }
  // How many ranks have data.
  int active() const {
    return static_cast<int>(std::count_if(in_.begin(), in_.end(), [](Record const& r) { return !(r.flags & has_joined); }));
  }

 private:
  enum Flag : std::uint64_t { is_ok = 1, has_joined = 2, looks_ahead = 4 };
  struct Record {
    std::uint64_t hash = 0, flags = 0;
    std::uint64_t counts[inline_counts] = {};
  };
  enum class Stage : unsigned char { records, extra, done };

  std::size_t ranks() const { return static_cast<std::size_t>(lane_.topology().size()); }
  std::size_t extra_words(std::size_t counts) const { return counts > inline_counts ? (counts - inline_counts) * ranks() : 0; }
  std::uint64_t& slot(std::vector<Record>& records, std::vector<std::uint64_t>& extra, int rank, std::size_t which);

  void post_words(void const* out, void* in, std::size_t bytes);

  Lane<C> lane_;
  std::size_t counts_ = 0;
  Stage stage_ = Stage::done;
  std::vector<Record> out_, in_;
  std::vector<std::uint64_t> extra_out_, extra_in_;
};

template <Communicator C>
void Agreement<C>::reserve(std::size_t counts) {
  extra_out_.reserve(extra_words(counts));
  extra_in_.reserve(extra_words(counts));
}

template <Communicator C>
void Agreement<C>::begin(std::uint64_t hash, bool ok, bool joined, std::size_t counts, bool ahead) {
  counts_ = counts;
  std::uint64_t const flags =
      is_ok * std::uint64_t{ok} + has_joined * std::uint64_t{joined} + looks_ahead * std::uint64_t{ahead};
  for (Record& record : out_) record = {hash, flags, {}};
  extra_out_.assign(extra_words(counts), 0);
  extra_in_.assign(extra_out_.size(), 0);
  stage_ = Stage::records;
}

template <Communicator C>
bool Agreement<C>::poll() {
  while (stage_ != Stage::done) {
    if (!lane_.test()) return false;
    if (stage_ == Stage::records && unanimous() && !extra_out_.empty()) {
      stage_ = Stage::extra;
      post_words(extra_out_.data(), extra_in_.data(), extra_out_.size() / ranks() * sizeof(std::uint64_t));
    } else {
      stage_ = Stage::done;
    }
  }
  return true;
}

template <Communicator C>
bool Agreement<C>::unanimous() const {
  return std::all_of(in_.begin(), in_.end(), [&](Record const& r) { return (r.flags & is_ok) && r.hash == in_.front().hash; });
}

template <Communicator C>
std::uint64_t& Agreement<C>::slot(std::vector<Record>& records, std::vector<std::uint64_t>& extra, int rank,
                                  std::size_t which) {
  auto const r = static_cast<std::size_t>(rank);
  if (which < inline_counts) return records[r].counts[which];
  return extra[r * (counts_ - inline_counts) + which - inline_counts];
}

template <Communicator C>
void Agreement<C>::post_words(void const* out, void* in, std::size_t bytes) {
  int const self = lane_.topology().rank();
  lane_.clear();
  for (int rank = 0; rank < lane_.topology().size(); ++rank) {
    if (rank == self) continue;
    lane_.send(rank, static_cast<std::size_t>(rank) * bytes, bytes, Payload::control);
    lane_.expect(rank, static_cast<std::size_t>(rank) * bytes, bytes, Payload::control);
  }
  std::memcpy(static_cast<std::byte*>(in) + static_cast<std::size_t>(self) * bytes,
              static_cast<std::byte const*>(out) + static_cast<std::size_t>(self) * bytes, bytes);
  lane_.post(out, in);
}

}  // namespace parallax
