// Several contributions to one transfer: each declares its bytes by rank, and all are packed into one message per rank. The
// legs of journeys call it.
#pragma once

#include <bit>
#include <span>
#include <string>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/transfer/lane.hpp"

namespace parallax::inline v0_2 {

// The transfer of one leg, in memory of one space. Contributors open slips and declare sizes, `layout` assigns memory,
// contributors write outgoing runs, `post` sends one message per rank, and after `test` is true contributors read incoming
// runs. In one message the slips lie packed, larger units first, so that every slip stays aligned without a byte of padding on
// the wire. A rank's bytes to itself are written straight to the place they are read from. Owns its memory, which is reused.
template <Communicator C, MemorySpace Space = HostSpace>
class Mail {
 public:
  // Local; the first `layout` allocates. Refers to the topology and to the counts, which must outlive it.
  Mail(Topology<C> const& topology, int channel, Traffic& traffic)
      : lane_{topology, channel, traffic},
        queue_{queue_of<Space>(topology.world())},
        ranks_{static_cast<std::size_t>(topology.size())} {}

  // Returns the topology of the ranks that a slip has runs for.
  Topology<C> const& topology() const { return lane_.topology(); }
  // Returns the lane of the mail: for those who wait for it, or withdraw it.
  Lane<C>& lane() { return lane_; }
  // Returns the lane, to be looked at only.
  Lane<C> const& lane() const { return lane_; }

  // Returns true if no slip is open.
  bool empty() const { return units_.empty(); }
  // Forgets all slips, and keeps the memory. Local, before the first slip of a leg.
  void clear() {
    units_.clear();
    sizes_ = 0;
  }

  // Bytes of the largest element that a slip may have.
  static constexpr std::size_t largest_unit = 16;

  // Local. Opens a slip of elements of `unit` bytes, with an empty run for each rank, and returns its number, from 0. Throws
  // Error (misuse) unless `unit` is a power of two up to `largest_unit`.
  int open(std::size_t unit, Payload payload);
  // Opens, as `open`, a slip with one run for several ranks, for `write_shared`. If all slips are so, the message is held once.
  int open_shared(std::size_t unit, Payload payload) {
    int const slip = open(unit, payload);
    units_.back().shared = true;
    return slip;
  }
  // Local, before `layout`. Declares so many bytes of the slip for `rank`, this one too; of several calls the last counts.
  void send(int slip, int rank, std::size_t bytes) { out_[at(slip, rank)].bytes = bytes; }
  // Local, before `layout`. Declares so many bytes of the slip from `rank`, which declares as many for this one.
  void expect(int slip, int rank, std::size_t bytes) { in_[at(slip, rank)].bytes = bytes; }

  // Lays out the messages. Local; allocates. Throws Error (misuse) if a run is not of whole elements. Every message begins at a
  // multiple of the largest unit of all slips.
  void layout();

  // Returns the place of the run for `rank`, to be written between `layout` and `post`: memory of the space, owned by the mail.
  template <class T>
  T* outgoing(int slip, int rank) {
    std::byte* const memory = rank == topology().rank() ? incoming_.data() : outgoing_.data();
    return reinterpret_cast<T*>(memory + out_[at(slip, rank)].offset);
  }
  // Returns the run from `rank`, from the moment that `test` is true until the next `layout` or `take`.
  template <class T>
  T const* incoming(int slip, int rank) const {
    return reinterpret_cast<T const*>(incoming_.data() + in_[at(slip, rank)].offset);
  }
  // Fills a shared slip, between `layout` and `post`: `fill(T*)` writes the run once for all ranks. Not called for 0 bytes.
  template <class T, class Fill>
  void write_shared(int slip, Fill&& fill) {
    T const* first = nullptr;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::size_t const bytes = out_[at(slip, static_cast<int>(rank))].bytes;
      if (bytes == 0) continue;
      T* const run = outgoing<T>(slip, static_cast<int>(rank));
      if (!first) fill(run);
      else if (run != first) copy_bytes(queue_, run, first, bytes);
      if (!first) first = run;
    }
  }
  // Returns the declared bytes of the run for `rank`.
  std::size_t outgoing_bytes(int slip, int rank) const { return out_[at(slip, rank)].bytes; }
  // Returns the declared bytes of the run from `rank`.
  std::size_t incoming_bytes(int slip, int rank) const { return in_[at(slip, rank)].bytes; }

  // Local, once `test` is true. Moves a slip's arrivals, run after run in the order of `ranks`, into `into`, resized for them:
  // by exchanging buffers if the slip is alone in the mail and the ranks ascend, else by copying, in the order of the queue.
  template <class Ranks>
  void take(int slip, Ranks const& ranks, Buffer<std::byte, Space>& into) {
    std::size_t bytes = 0;
    for (int const rank : ranks) bytes += incoming_bytes(slip, rank);
    bool const alone = units_.size() == 1 && bytes == incoming_.size();
    if (alone && std::is_sorted(ranks.begin(), ranks.end())) return incoming_.swap(into);
    into.resize_with_slack(bytes);
    std::size_t offset = 0;
    auto copies = copies_of(queue_);
    for (int const rank : ranks) {
      std::size_t const run = incoming_bytes(slip, rank);
      if (run > 0) copies.add(into.data() + offset, incoming<std::byte>(slip, rank), run);
      offset += run;
    }
    copies.start();
  }

  // Collective in the order of the channel. Posts one message per rank that gets anything; does not wait. Throws as Lane::post.
  void post() { lane_.template post<Space>(outgoing_.data(), incoming_.data()); }
  // Makes progress; returns true once all has arrived, and sent memory may be written again. Throws a Request's errors.
  bool test() { return lane_.test(); }

  // Memory of outgoing and incoming messages.
  struct Memory {
    // Bytes for other ranks.
    Buffer<std::byte, Space> outgoing;
    // Bytes from other ranks, and from this one.
    Buffer<std::byte, Space> incoming;
  };
  // Local, between messages. Returns its memory, owned by the caller from now on; the next `layout` allocates other. For memory
  // that a graph goes on using.
  Memory leave_memory() { return {std::move(outgoing_), std::move(incoming_)}; }

 private:
  // An open slip: bytes of an element, their kind, and true if all runs are one.
  struct Unit {
    std::size_t unit;
    Payload payload;
    bool shared = false;
  };

  // Returns the index of a run in `out_` or `in_`.
  std::size_t at(int slip, int rank) const { return static_cast<std::size_t>(slip) * ranks_ + static_cast<std::size_t>(rank); }
  // Returns the largest unit of all slips: a power of two, as each is.
  std::size_t alignment() const { return std::bit_floor(sizes_ > 0 ? sizes_ : 1); }
  // Returns the Error (misuse) of a contributor that declares an impossible layout. `what`: the declaration.
  PARALLAX_COLD Error misuse(std::string const& what) const { return {Errc::misuse, topology().rank(), "mail", "", what}; }
  static std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

  // The lane; `post` hands it the memory.
  Lane<C> lane_;
  [[no_unique_address]] decltype(queue_of<Space>(std::declval<C&>())) queue_;
  std::size_t ranks_;
  // By slip.
  List<Unit> units_;
  std::size_t sizes_ = 0;     // the sum of the different units
  List<ByteRange> out_, in_;  // by slip, then rank; entries of open slips count
  Buffer<std::byte, Space> outgoing_, incoming_;
};

template <Communicator C, MemorySpace Space>
int Mail<C, Space>::open(std::size_t unit, Payload payload) {
  if (unit == 0 || unit > largest_unit || (unit & (unit - 1)) != 0)
    throw misuse(joined({"a slip of ", unit, " bytes an element: only 1, 2, 4, 8 and 16 can be laid out"}));
  units_.push_back({unit, payload});
  sizes_ |= unit;
  int const slip = static_cast<int>(units_.size()) - 1;
  std::size_t const first = at(slip, 0), last = first + ranks_;
  if (out_.size() < last) out_.resize(last), in_.resize(last);
  std::fill(out_.data() + first, out_.data() + last, ByteRange{});
  std::fill(in_.data() + first, in_.data() + last, ByteRange{});
  return slip;
}

template <Communicator C, MemorySpace Space>
void Mail<C, Space>::layout() {
  lane_.clear();
  std::size_t const align = alignment();
  bool const shared = detail::all_of(units_, [](Unit const& unit) { return unit.shared; });
  std::size_t sent = 0, received = 0, largest = 0, part_of_unit = 0;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    bool const self = static_cast<int>(rank) == topology().rank();
    received = round_up(received, align);
    std::size_t const message = sent = shared ? 0 : round_up(sent, align);
    for (std::size_t unit = align; unit > 0; unit /= 2) {
      if (!(sizes_ & unit)) continue;
      for (std::size_t slip = 0; slip < units_.size(); ++slip) {
        if (units_[slip].unit != unit) continue;
        ByteRange &in = in_[slip * ranks_ + rank], &out = out_[slip * ranks_ + rank];
        part_of_unit |= (in.bytes | out.bytes) & (unit - 1);
        in.offset = received;
        received += in.bytes;
        out.offset = self ? in.offset : sent;
        if (self) continue;
        lane_.expect(static_cast<int>(rank), in.offset, in.bytes, units_[slip].payload);
        lane_.send(static_cast<int>(rank), out.offset, out.bytes, units_[slip].payload);
        sent += out.bytes;
      }
    }
    largest = std::max(largest, sent);
    if (shared) sent = message;
  }
  if (part_of_unit) throw misuse("a run that is not of whole elements");
  outgoing_.resize_with_slack(largest);
  incoming_.resize_with_slack(received);
}

namespace detail {

// The mail in memory of the communicator's device, if it carries any.
template <class C>
struct DeviceMail {
  DeviceMail(Topology<C> const&, int, Traffic&) {}
};
template <CarriesDevice C>
struct DeviceMail<C> : Mail<C, typename C::device_space> {
  using Mail<C, typename C::device_space>::Mail;
};

}  // namespace detail

// The mails of one channel: in memory of the host, and of the communicator's device. A leg may use both; they then travel one
// after the other.
template <Communicator C>
class Mails {
 public:
  // Local. Refers to the topology and to the counts, which must outlive both mails.
  Mails(Topology<C> const& topology, int channel, Traffic& traffic)
      : host_{topology, channel, traffic}, device_{topology, channel, traffic} {}

  // Returns the mail of one space, for a leg to open slips in.
  template <MemorySpace Space = HostSpace>
  auto& of() {
    static_assert(Carries<C, Space>);
    if constexpr (std::same_as<Space, HostSpace>) return host_;
    else return device_;
  }
  // Returns the lane of the host's mail.
  Lane<C>& lane() { return host_.lane(); }
  // Returns a rank that has not delivered to the mail in flight, or -1.
  int waiting_for() const;
  // Withdraws both mails, after an abort alone; returns once no peer touches their memory any more.
  void withdraw() noexcept;

  // Local, before the first slip of a leg. Forgets the slips of both mails, and keeps the memory.
  void clear();
  // Local; allocates. Lays out both mails. Throws Error (misuse) if a run is not of whole elements.
  void layout();
  // Collective in the channel's order, all ranks with the same slips. Posts the host's mail, if any; `test` posts the device's.
  void post();
  // Returns true if one of the two mails is on its way.
  bool in_flight() const;
  // Makes progress; returns true once both mails have arrived. Throws the errors of posting and of a Request's `test`.
  bool test();

 private:
  void post_device() {
    device_waits_ = false;
    if constexpr (CarriesDevice<C>) device_.post();
  }

  // Both use one channel, one after the other.
  Mail<C> host_;
  [[no_unique_address]] detail::DeviceMail<C> device_;
  bool device_waits_ = false;  // for the host's
};

template <Communicator C>
int Mails<C>::waiting_for() const {
  if constexpr (CarriesDevice<C>)
    if (device_.lane().in_flight()) return device_.lane().waiting_for();
  return host_.lane().waiting_for();
}

template <Communicator C>
void Mails<C>::withdraw() noexcept {
  host_.lane().withdraw();
  if constexpr (CarriesDevice<C>) device_.lane().withdraw();
}

template <Communicator C>
void Mails<C>::clear() {
  host_.clear();
  if constexpr (CarriesDevice<C>) device_.clear();
}

template <Communicator C>
void Mails<C>::layout() {
  host_.layout();
  if constexpr (CarriesDevice<C>) device_.layout();
}

template <Communicator C>
bool Mails<C>::in_flight() const {
  if constexpr (CarriesDevice<C>)
    if (device_.lane().in_flight()) return true;
  return host_.lane().in_flight();
}

template <Communicator C>
void Mails<C>::post() {
  if constexpr (CarriesDevice<C>) {
    device_waits_ = !device_.empty();
    if (host_.empty()) return post_device();
  }
  host_.post();
}

template <Communicator C>
bool Mails<C>::test() {
  if (!host_.test()) return false;
  if constexpr (CarriesDevice<C>) {
    if (device_waits_) post_device();
    return device_.test();
  }
  return true;
}

// A journey by mail, which is a sequence of legs, or several journeys that go together. It has equally many legs on every rank.
// The sender owns an object of a derived class, and keeps it longer than the journey.
template <Communicator C>
class Traveller {
 public:
  virtual bool next(Mails<C>&) = 0;   // declares its next leg's slips, if there is one; returns false when it has arrived
  virtual void write(Mails<C>&) = 0;  // fills its outgoing runs of this leg
  virtual void read(Mails<C>&) = 0;   // takes the arrivals of this leg

  bool travelling = false;  // set by `carry`: it has a leg in the mail at hand

 protected:
  Traveller() = default;
  Traveller(Traveller const&) = default;
  Traveller& operator=(Traveller const&) = default;
  ~Traveller() = default;
};

// Collective in the order of the channel, with the same travellers on every rank. Carries travellers through the same
// transfers; returns true once all have arrived. Call it until then: each call finishes as many legs as it can, and never
// waits. Throws the errors of the travellers and of the mail.
template <Communicator C>
bool carry(Mails<C>& mail, std::span<Traveller<C>* const> travellers) {
  while (true) {
    if (mail.in_flight()) {
      if (!mail.test()) return false;
      for (Traveller<C>* const traveller : travellers)
        if (traveller->travelling) traveller->read(mail);
    }
    mail.clear();
    bool any = false;
    for (Traveller<C>* const traveller : travellers) any |= traveller->travelling = traveller->next(mail);
    if (!any) return true;
    mail.layout();
    for (Traveller<C>* const traveller : travellers)
      if (traveller->travelling) traveller->write(mail);
    mail.post();
  }
}

}  // namespace parallax
