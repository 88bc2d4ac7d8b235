// Several contributions to one transfer: each says what it sends to whom, all are packed into one message per rank.
#pragma once

#include <cstring>
#include <vector>

#include "parallax/comm/lane.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/memory/buffer.hpp"

namespace parallax {

// The transfer of one leg. Contributors open slips and declare sizes, `layout` assigns memory, contributors write what goes
// out, `post` sends one message per rank, and after `test` is true contributors read what came in. Between ranks of one
// message the slips lie packed, larger units first, so that every slip stays aligned without a byte of padding on the
// wire. What a rank sends to itself is written straight to where it is read. Owns its memory, which is reused.
template <Communicator C>
class Mail {
 public:
  Mail(Topology<C> const& topology, int channel, Traffic& traffic)
      : lane_{topology, channel, traffic}, ranks_{static_cast<std::size_t>(topology.size())} {}

  Topology<C> const& topology() const { return lane_.topology(); }
  Lane<C>& lane() { return lane_; }
  Lane<C> const& lane() const { return lane_; }

  void clear() {
    units_.clear();
    out_.clear();
    in_.clear();
  }

  // A slip holds runs of `unit` bytes (4 or 8: the size of its elements), one run per rank, empty until declared.
  int open(std::size_t unit, Payload payload) {
    units_.push_back({unit, payload});
    out_.resize(units_.size() * ranks_, ByteRange{});
    in_.resize(units_.size() * ranks_, ByteRange{});
    return static_cast<int>(units_.size()) - 1;
  }
  // The same run goes to several ranks (see `write_shared`). A mail of shared slips only holds the message once.
  int open_shared(std::size_t unit, Payload payload) {
    int const slip = open(unit, payload);
    units_.back().shared = true;
    return slip;
  }
  void send(int slip, int rank, std::size_t bytes) { out_[at(slip, rank)].bytes = bytes; }
  void expect(int slip, int rank, std::size_t bytes) { in_[at(slip, rank)].bytes = bytes; }

  void layout() {
    lane_.clear();
    std::size_t const align = alignment();
    bool const shared = std::all_of(units_.begin(), units_.end(), [](Unit const& unit) { return unit.shared; });
    std::size_t sent = 0, received = 0, largest = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      bool const self = static_cast<int>(rank) == topology().rank();
      received = round_up(received, align);
      std::size_t const message = sent = shared ? 0 : round_up(sent, align);
      for (std::size_t const unit : {std::size_t{8}, std::size_t{4}})
        for (std::size_t slip = 0; slip < units_.size(); ++slip) {
          if (units_[slip].unit != unit) continue;
          ByteRange &in = in_[slip * ranks_ + rank], &out = out_[slip * ranks_ + rank];
          in.offset = received;
          received += in.bytes;
          out.offset = self ? in.offset : sent;
          if (self) continue;
          lane_.expect(static_cast<int>(rank), in.offset, in.bytes, units_[slip].payload);
          lane_.send(static_cast<int>(rank), out.offset, out.bytes, units_[slip].payload);
          sent += out.bytes;
        }
      largest = std::max(largest, sent);
      if (shared) sent = message;
    }
    outgoing_.resize_with_slack(largest);
    incoming_.resize_with_slack(received);
  }

  template <class T>
  T* outgoing(int slip, int rank) {
    std::byte* const memory = rank == topology().rank() ? incoming_.data() : outgoing_.data();
    return reinterpret_cast<T*>(memory + out_[at(slip, rank)].offset);
  }
  template <class T>
  T const* incoming(int slip, int rank) const {
    return reinterpret_cast<T const*>(incoming_.data() + in_[at(slip, rank)].offset);
  }
  // Fills a shared slip: `fill(T*)` writes the run once, wherever it goes it is the same.
  template <class T, class Fill>
  void write_shared(int slip, Fill&& fill) {
    T const* first = nullptr;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::size_t const bytes = out_[at(slip, static_cast<int>(rank))].bytes;
      if (bytes == 0) continue;
      T* const run = outgoing<T>(slip, static_cast<int>(rank));
      if (!first) fill(run);
      else if (run != first) std::memcpy(run, first, bytes);
      if (!first) first = run;
    }
  }
  std::size_t incoming_bytes(int slip, int rank) const { return in_[at(slip, rank)].bytes; }

  // Everything that came in on a slip, run after run in the order of `ranks`, moved into `into`: by exchanging buffers
  // where the slip is alone in the mail and the ranks ascend, by copying otherwise.
  template <class Ranks>
  void take(int slip, Ranks const& ranks, Buffer<std::byte>& into) {
    std::size_t bytes = 0;
    for (int const rank : ranks) bytes += incoming_bytes(slip, rank);
    bool const alone = units_.size() == 1 && bytes == incoming_.size();
    if (alone && std::is_sorted(ranks.begin(), ranks.end())) return incoming_.swap(into);
    into.resize_with_slack(bytes);
    std::size_t offset = 0;
    for (int const rank : ranks) {
      std::size_t const run = incoming_bytes(slip, rank);
      if (run > 0) std::memcpy(into.data() + offset, incoming<std::byte>(slip, rank), run);
      offset += run;
    }
  }

  void post() { lane_.post(outgoing_.data(), incoming_.data()); }
  bool test() { return lane_.test(); }

 private:
  struct Unit {
    std::size_t unit;
    Payload payload;
    bool shared = false;
  };

  std::size_t at(int slip, int rank) const { return static_cast<std::size_t>(slip) * ranks_ + static_cast<std::size_t>(rank); }
  std::size_t alignment() const {
    std::size_t largest = 1;
    for (Unit const& unit : units_) largest = std::max(largest, unit.unit);
    return largest;
  }
  static std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

  Lane<C> lane_;
  std::size_t ranks_;
  std::vector<Unit> units_;
  std::vector<ByteRange> out_, in_;  // by slip, then rank
  Buffer<std::byte> outgoing_, incoming_;
};

// Carries journeys, each a sequence of legs, through the same transfers; true once all have arrived. A journey offers
//   bool next(Mail&)     declares its next leg's slips; false when it has arrived
//   void write(Mail&)    fills what it sends on this leg
//   void read(Mail&)     takes what came in on this leg
//   bool travelling      kept here
// and has equally many legs on every rank. `visit(f)` calls f with every journey. Throws what a journey throws.
template <Communicator C, class Visit>
bool carry(Mail<C>& mail, Visit&& visit) {
  while (true) {
    if (mail.lane().in_flight()) {
      if (!mail.test()) return false;
      visit([&](auto& journey) {
        if (journey.travelling) journey.read(mail);
      });
    }
    mail.clear();
    bool any = false;
    visit([&](auto& journey) { any |= journey.travelling = journey.next(mail); });
    if (!any) return true;
    mail.layout();
    visit([&](auto& journey) {
      if (journey.travelling) journey.write(mail);
    });
    mail.post();
  }
}

}  // namespace parallax
