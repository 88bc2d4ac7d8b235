// Several contributions to one transfer: each says what it sends to whom, all are packed into one message per rank. The legs of
// journeys call it.
#pragma once

#include <span>
#include <string>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/transfer/lane.hpp"

namespace parallax::inline v0_2 {

// The transfer of one leg, in memory of one space. Contributors open slips and declare sizes, `layout` assigns memory,
// contributors write what goes out, `post` sends one message per rank, and after `test` is true contributors read what came in.
// In one message the slips lie packed, larger units first, so that every slip stays aligned without a byte of padding on the
// wire. What a rank sends to itself is written straight to where it is read. Owns its memory, which is reused.
template <Communicator C, MemorySpace Space = HostSpace>
class Mail {
 public:
  // Local; the first `layout` allocates. Refers to the topology and to the counts, which must outlive it.
  Mail(Topology<C> const& topology, int channel, Traffic& traffic);

  // Of the ranks that a slip has runs for.
  Topology<C> const& topology() const { return lane_.topology(); }
  // By which the mail travels: for those who wait for it, or withdraw it.
  Lane<C>& lane() { return lane_; }
  // The same, to look at.
  Lane<C> const& lane() const { return lane_; }

  // Whether no slip is open.
  bool empty() const { return units_.empty(); }
  // Local, before the first slip of a leg: forgets all slips, and keeps the memory.
  void clear();

  // Bytes of the largest element that a slip may have.
  static constexpr std::size_t largest_unit = 16;

  // A slip holds elements of `unit` bytes (a power of two up to `largest_unit`, else Error misuse), one run per rank, empty
  // until declared.
  int open(std::size_t unit, Payload payload);
  // The same run goes to several ranks (see `write_shared`). A mail of shared slips only holds the message once.
  int open_shared(std::size_t unit, Payload payload);
  // Local, before `layout`: so many bytes of the slip go to that rank. Said again, the last number counts.
  void send(int slip, int rank, std::size_t bytes) { out_[at(slip, rank)].bytes = bytes; }
  // Local, before `layout`: so many bytes of the slip come from that rank, which sends as many.
  void expect(int slip, int rank, std::size_t bytes) { in_[at(slip, rank)].bytes = bytes; }

  // Local; allocates. Error misuse where a run is not of whole elements.
  // Every message begins at a multiple of the largest unit of all slips.
  void layout();

  // Where the run for that rank is written, between `layout` and `post`: in the memory of the space.
  template <class T>
  T* outgoing(int slip, int rank) {
    std::byte* const memory = rank == topology().rank() ? incoming_.data() : outgoing_.data();
    return reinterpret_cast<T*>(memory + out_[at(slip, rank)].offset);
  }
  // What came from that rank, from the moment that `test` is true until the next `layout` or `take`.
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
      else if (run != first) copy_bytes(queue_, run, first, bytes);
      if (!first) first = run;
    }
  }
  // Bytes of the run that goes to that rank, as declared.
  std::size_t outgoing_bytes(int slip, int rank) const { return out_[at(slip, rank)].bytes; }
  // Bytes of the run that comes from that rank, as declared.
  std::size_t incoming_bytes(int slip, int rank) const { return in_[at(slip, rank)].bytes; }

  // Everything that came in on a slip, run after run in the order of `ranks`, moved into `into`: by exchanging buffers
  // where the slip is alone in the mail and the ranks ascend, by copying otherwise.
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

  // Collective in the order of the channel. One message per rank that gets anything.
  void post() { lane_.template post<Space>(outgoing_.data(), incoming_.data()); }
  // Makes progress; true once everything has arrived and all that was sent may be written again.
  bool test() { return lane_.test(); }

  // What messages are written in and come into.
  struct Memory {
    // What goes to other ranks.
    Buffer<std::byte, Space> outgoing;
    // What comes from them, and from this one.
    Buffer<std::byte, Space> incoming;
  };
  // Local, between messages: gives its memory to the caller, and takes other for the next. Of memory that a graph goes on using.
  Memory leave_memory() { return {std::move(outgoing_), std::move(incoming_)}; }

 private:
  // An open slip: bytes of an element, what they are, and whether all runs are one.
  struct Unit {
    std::size_t unit;
    Payload payload;
    bool shared = false;
  };

  // A run in `out_` or `in_`.
  std::size_t at(int slip, int rank) const { return static_cast<std::size_t>(slip) * ranks_ + static_cast<std::size_t>(rank); }
  // The largest unit of all slips: a power of two, as each is.
  std::size_t alignment() const;
  // Of a contributor that declares what cannot be laid out.
  PARALLAX_COLD Error misuse(std::string const& what) const { return {Errc::misuse, topology().rank(), "mail", "", what}; }
  static std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

  // The memory is handed to it by `post`.
  Lane<C> lane_;
  [[no_unique_address]] decltype(queue_of<Space>(std::declval<C&>())) queue_;
  std::size_t ranks_;
  // By slip.
  List<Unit> units_;
  std::size_t sizes_ = 0;     // the sum of the different units
  List<ByteRange> out_, in_;  // by slip, then rank; those of open slips count
  Buffer<std::byte, Space> outgoing_, incoming_;
};

template <Communicator C, MemorySpace Space>
Mail<C, Space>::Mail(Topology<C> const& topology, int channel, Traffic& traffic)
    : lane_{topology, channel, traffic},
      queue_{queue_of<Space>(topology.world())},
      ranks_{static_cast<std::size_t>(topology.size())} {}

template <Communicator C, MemorySpace Space>
void Mail<C, Space>::clear() {
  units_.clear();
  sizes_ = 0;
}

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
int Mail<C, Space>::open_shared(std::size_t unit, Payload payload) {
  int const slip = open(unit, payload);
  units_.back().shared = true;
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

template <Communicator C, MemorySpace Space>
std::size_t Mail<C, Space>::alignment() const {
  std::size_t largest = largest_unit;
  while (largest > std::max<std::size_t>(sizes_, 1)) largest /= 2;
  return largest;
}

namespace detail {

// The mail in memory of the device that a communicator carries, if it does.
template <class C>
struct DeviceMail {
  DeviceMail(Topology<C> const&, int, Traffic&) {}
};
template <CarriesDevice C>
struct DeviceMail<C> : Mail<C, typename C::device_space> {
  using Mail<C, typename C::device_space>::Mail;
};

}  // namespace detail

// The mails of one channel: in memory of the host, and of the device that the communicator carries. A leg may use both, which
// then travel one after the other.
template <Communicator C>
class Mails {
 public:
  // Local. Both refer to the topology and to the counts, which must outlive them.
  Mails(Topology<C> const& topology, int channel, Traffic& traffic)
      : host_{topology, channel, traffic}, device_{topology, channel, traffic} {}

  // The mail of one space, in which a leg opens slips.
  template <MemorySpace Space = HostSpace>
  auto& of() {
    static_assert(Carries<C, Space>);
    if constexpr (std::same_as<Space, HostSpace>) return host_;
    else return device_;
  }
  // Of the host's mail.
  Lane<C>& lane() { return host_.lane(); }
  // A rank that has not delivered to the mail that is in flight, or -1.
  int waiting_for() const;
  // Legal after an abort: gives both up.
  void withdraw() noexcept;

  // Forgets the slips of both.
  void clear();
  // Lays both out. Error (misuse) where a run is not of whole elements.
  void layout();
  // Collective in the order of the channel. The host's travels first, unless it has no slip; all ranks open the same slips.
  void post();
  // Whether one of the two is on its way.
  bool in_flight() const;
  // True once both have arrived.
  bool test();

 private:
  void post_device();

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
void Mails<C>::post() {
  if constexpr (CarriesDevice<C>) {
    device_waits_ = !device_.empty();
    if (host_.empty()) return post_device();
  }
  host_.post();
}

template <Communicator C>
bool Mails<C>::in_flight() const {
  if constexpr (CarriesDevice<C>)
    if (device_.lane().in_flight()) return true;
  return host_.lane().in_flight();
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

template <Communicator C>
void Mails<C>::post_device() {
  device_waits_ = false;
  if constexpr (CarriesDevice<C>) device_.post();
}

// What travels by mail: a journey, which is a sequence of legs, or several that go together. It has equally many legs on every
// rank. Derived classes are owned by whoever sends them, and outlive the journey.
template <Communicator C>
class Traveller {
 public:
  virtual bool next(Mails<C>&) = 0;   // declares its next leg's slips, of which there is one; false when it has arrived
  virtual void write(Mails<C>&) = 0;  // fills what it sends on this leg
  virtual void read(Mails<C>&) = 0;   // takes what came in on this leg

  bool travelling = false;  // the mail's

 protected:
  Traveller() = default;
  Traveller(Traveller const&) = default;
  Traveller& operator=(Traveller const&) = default;
  ~Traveller() = default;
};

// Carries travellers through the same transfers; true once all have arrived. Throws what they throw.
// Collective in the order of the channel, with the same travellers on every rank. Called again and again; legs that can be
// finished are.
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
