// The concepts of communicators: one non-blocking exchange of bytes, carrying everything, and the means never to hang. Every
// backend includes this header and models the core and its own abilities; all exchanges are written against these concepts. The
// room `comm` carries bytes between ranks, and forms sums and agreements out of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/place.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// A run of bytes inside a transfer's memory, going to or coming from one rank.
struct ByteRange {
  // The begin of the run: bytes from the start of the transfer's memory.
  std::size_t offset = 0, bytes = 0;  // how many from there on
};

// Does not own. One rank's part of an alltoallv: `to[r]` of `send` goes to rank r, `from[r]` of `receive` comes from rank r.
// Both lists have `size` entries; to[r].bytes here equals from[this rank].bytes there. Blocks of `receive` do not overlap.
// Blocks of 0 bytes send no message. The block for the rank itself is copied.
struct Transfer {
  // Outgoing data, read until the request is complete. May be null if every block of `to` has 0 bytes.
  std::byte const* send = nullptr;
  // By receiver: its block of `send`.
  Slice<ByteRange const> to;
  // Incoming data, written until the request is complete.
  std::byte* receive = nullptr;
  // By sender: its block of `receive`.
  Slice<ByteRange const> from;
};

// Independent lanes: operations on one channel happen in the order of their posting, operations on different channels in
// any order. At most one operation is in flight per channel and rank.
inline constexpr int channels = 32;
inline constexpr int collectives_channel = channels - 1;  // of the free functions in comm/collectives.hpp

// An operation in flight. `test` makes progress and returns true once the operation is complete on this rank: everything
// arrived and the memory of the transfer is this rank's again. It throws when the communicator was aborted or has failed.
// `waiting_for` names a rank still to deliver, or -1. Destroying an unfinished request withdraws it, is legal only after an
// abort, and returns once no peer touches the transfer's memory any more.
template <class R>
concept Request = std::movable<R> && requires(R& request) {
  { request.test() } -> std::same_as<bool>;
  { std::as_const(request).waiting_for() } -> std::same_as<int>;
};

namespace detail {

// A token on an operation of `End`, which it does not outlive: a Request by the end's `progress(channel)`, true once the
// operation is complete, `waiting_for(channel)`, and `withdraw(channel)`. As it is by default, it is complete.
template <class End>
class InFlight {
 public:
  InFlight() = default;
  InFlight(End* end, int channel) : end_{end}, channel_{channel} {}
  InFlight(InFlight&& other) noexcept : end_{std::exchange(other.end_, nullptr)}, channel_{other.channel_} {}
  InFlight& operator=(InFlight other) noexcept {
    std::swap(end_, other.end_);
    std::swap(channel_, other.channel_);
    return *this;
  }
  ~InFlight() {
    if (end_) end_->withdraw(channel_);
  }
  bool test() {
    if (end_ && end_->progress(channel_)) end_ = nullptr;
    return !end_;
  }
  int waiting_for() const { return end_ ? end_->waiting_for(channel_) : -1; }

 private:
  End* end_ = nullptr;
  int channel_ = 0;
};

template <class>
concept Core = true;  // in the list of abilities: common to every communicator

}  // namespace detail

// The core, written by a backend. Everything else, optional abilities, is found by concepts of its own, below; code passing a
// communicator through reads all of it from detail/comm/abilities.hpp.
//   rank, size   constant, local
//   ialltoallv   collective on a channel: every rank posts as many operations per channel, in the same order. The transfer's
//                memory and block lists must stay until the request's `test` returned true. A size disputed between sender
//                and receiver is an Error (mismatch), never silent. It posts, and does not wait
//   abort        local: makes every rank's pending and later operations fail with this error, or ends the job
//   deadline     how long a wait may last before it is a failure
template <class C>
concept Communicator = requires(C& comm, C const& view, int channel, Transfer const& transfer, Error const& reason) {
  { view.rank() } -> std::same_as<int>;
  { view.size() } -> std::same_as<int>;
  { comm.ialltoallv(channel, transfer) } -> Request;
  { comm.abort(reason) };
  { view.deadline() } -> std::convertible_to<std::chrono::nanoseconds>;
};

// Returns the Error (misuse) of a communicator of this rank, for a second operation on a channel. `operation`: its function.
PARALLAX_COLD Error busy_channel(int rank, std::string_view operation, int channel);

// Throws Error (invalid_argument), of `operation`, for a channel out of range. Called before a communicator posts anything.
void check_channel(int rank, std::string_view operation, int channel);
// Throws Error (invalid_argument) unless both lists of the transfer have `size` entries. Called before anything is posted.
void check_lists(int rank, int size, std::string_view operation, Transfer const& transfer);

// The Request returned by an exchange of C, held and polled by the poster.
template <Communicator C>
using request_of = decltype(std::declval<C&>().ialltoallv(0, std::declval<Transfer const&>()));

// The order of sums over ranks: `fixed` in rank order by this library, the same bits everywhere; `vendor` by the communicator's
// own all-reduce, in whatever order it likes.
enum class SumOrder : unsigned char { fixed, vendor };

// Optional ability: the vendor's own all-reduce (sum) over float and double on a channel, from `send` to `receive`: one range,
// or two without overlap. Collective and posted as ialltoallv; all ranks name the same count of elements.
template <class C>
concept VendorAllreduce = Communicator<C> && requires(C& comm, C const& view, float* f, double* d, std::size_t count) {
  { view.sum_order() } -> std::same_as<SumOrder>;
  { comm.iallreduce(0, static_cast<float const*>(f), f, count) } -> std::same_as<request_of<C>>;
  { comm.iallreduce(0, static_cast<double const*>(d), d, count) } -> std::same_as<request_of<C>>;
};

// Local. Returns this communicator's order of sums: `fixed` if it has no all-reduce of its own.
template <Communicator C>
SumOrder sum_order(C const& comm) {
  if constexpr (VendorAllreduce<C>) return comm.sum_order();
  return SumOrder::fixed;
}

// Optional ability: the vendor's all-reduce with nothing in between, on a communicator of its own.
//   bare()       collective: an object with iallreduce(send, receive, count, request), collective, and test(request), local
template <class B>
concept BareSums = requires(B& bare, typename B::Request& request, float* f, double* d, std::size_t count) {
  bare.iallreduce(static_cast<float const*>(f), f, count, request);
  bare.iallreduce(static_cast<double const*>(d), d, count, request);
  { bare.test(request) } -> std::same_as<bool>;
};
template <class C>
concept BareAllreduce = VendorAllreduce<C> && requires(C& comm) {
  { comm.bare() } -> BareSums;
};

// Optional ability: a clock of its own (simulated time). The default is the steady clock.
template <class C>
concept OwnClock = requires(C const& comm) {
  { comm.now() } -> std::convertible_to<std::chrono::nanoseconds>;
};

// Local. Returns the time by the communicator's clock, used for its deadlines and journals. By default: the steady clock.
template <Communicator C>
std::chrono::nanoseconds now(C const& comm) {
  if constexpr (OwnClock<C>) return comm.now();
  return std::chrono::steady_clock::now().time_since_epoch();
}

// Optional ability: every rank's journal can be asked for, so that an overlong wait can list the ranks behind and the silent
// ranks.
//   journal()          local: this rank's own, written by its session
//   status_of(rank)    local: that rank's account of itself, if any; asks it if need be, and the answer may come with a
//                      later call. `fresh`: it answered just now, from inside a wait. A status not fresh has the times of
//                      this rank's clock
//   answer()           local: answers ranks that asked. Called now and then while waiting
template <class C>
concept KeepsJournals = requires(C& comm, int rank, bool& fresh) {
  { comm.journal() } -> std::same_as<Journal&>;
  { comm.status_of(rank, fresh) } -> std::same_as<std::optional<RankStatus>>;
  comm.answer();
};

// Optional ability: a rank announces a pause before being busy for a while, and peers wait longer than the deadline by as much.
//   announce()        local: tells the other ranks of the pause in this rank's journal, or of its end
//   longest_pause()   local: the longest announced by other ranks and not ended; 0: none
template <class C>
concept AnnouncesPauses = KeepsJournals<C> && requires(C& comm, C const& view) {
  comm.announce();
  { view.longest_pause() } -> std::convertible_to<std::chrono::nanoseconds>;
};

// A mailbox's lanes. A refused request is posted again later; an answer is never refused, for its asker has made room.
enum class LetterLane : unsigned char { requests, answers };

// A letter taken: its writer's rank, and its bytes. The next `take` into it uses its memory again.
struct Letter {
  int from = -1;                 // the writer; -1 as long as nothing was taken
  std::vector<std::byte> bytes;  // all parts of the letter, one behind the other
};

// The parts of a letter, in this order. Does not own: list and bytes are read during the call alone.
using LetterParts = Slice<std::span<std::byte const> const>;

// The capacity of a mailbox. `window`: requests from one rank to another not yet taken. `largest`: bytes of a letter.
struct MailboxBounds {
  int window = 8;                               // at least 1: for each pair of writer and receiver
  std::size_t largest = std::size_t{64} << 20;  // all parts of a letter together
};

// Optional ability: letters from one rank to another, or to itself, expected by no operation.
//   post(lane, to, parts)     local: sends the parts as one letter; they are copied. False, and nothing is sent, while
//                             window() requests of this rank to the receiver lie untaken; answers are never refused.
//                             Error invalid_argument: more than largest() bytes, or no such rank
//   take(lane, from, letter)  local: the next letter of that rank, or of any (-1). False, with `letter` as it was, if none
//                             has come. The letters of one rank on one lane come in the order of their posting; of any: from
//                             rank to rank in turn. Makes progress: letters come while somebody takes
//   window(), largest()       local, the same on every rank: as in MailboxBounds
// Both throw the reason once the communicator was aborted, and neither ever waits. Letters not taken are lost with the
// communicator. At most window() x largest() bytes of requests lie at a rank per writer.
template <class C>
concept Mailbox = Communicator<C> &&
    requires(C& comm, C const& view, LetterLane lane, int rank, LetterParts parts, Letter& letter) {
  { comm.post(lane, rank, parts) } -> std::same_as<bool>;
  { comm.take(lane, rank, letter) } -> std::same_as<bool>;
  { view.window() } -> std::same_as<int>;
  { view.largest() } -> std::same_as<std::size_t>;
};

namespace detail {

// Returns the bytes of one part, in place: of a contiguous range's elements, or of the value itself. Called by `post_letter`.
template <class Part>
std::span<std::byte const> letter_part(Part const& part) {
  if constexpr (requires { std::span{part}; }) {
    return std::as_bytes(std::span{part});
  } else {
    static_assert(std::is_trivially_copyable_v<Part>, "a part of a letter is a trivially copyable value, or a run of such");
    return std::as_bytes(std::span{&part, 1});
  }
}

}  // namespace detail

// Posts, as Mailbox's `post`, a letter of these parts: values, or contiguous runs of them (vectors, strings), as their bytes.
template <Mailbox C, class... Parts>
bool post_letter(C& comm, LetterLane lane, int to, Parts const&... parts) {
  std::span<std::byte const> const runs[] = {std::span<std::byte const>{}, detail::letter_part(parts)...};
  return comm.post(lane, to, LetterParts{runs}.subspan(1));
}

// Optional ability: `oversubscribed` is true if this host has more ranks than cores; waiting must then yield at once.
template <class C>
concept KnowsOversubscription = requires(C const& comm) {
  { comm.oversubscribed() } -> std::convertible_to<bool>;
};

// Optional ability: `serialized` is true if threads other than its maker may use it, one at a time. Without it, they may.
template <class C>
concept KnowsThreads = requires(C const& comm) {
  { comm.serialized() } -> std::convertible_to<bool>;
};

// Optional ability: a waiting rank may sleep in it, woken by news from outside of the process.
//   sleep(at_most)   local: returns when something has come to move a request's `test` on, or after so long; earlier
//                    for any reason. Throws nothing
template <class C>
concept SleepsUntilNews = requires(C const& comm, std::chrono::nanoseconds at_most) {
  comm.sleep(at_most);
};

// Optional ability: tells of an abort to a rank not waiting for a peer.
//   check()   local: throws the reason once the communicator was aborted
template <class C>
concept TellsOfAborts = requires(C& comm) {
  comm.check();
};

// Optional ability: tells for two ranks if their blocks go through memory, and not over a wire: the same on every rank.
template <class C>
concept KnowsSharedMemory = requires(C const& comm, int one, int other) {
  { comm.shares_memory(one, other) } -> std::convertible_to<bool>;
};

// Optional ability: ranks that share memory read and write each other's in place. Lent memory is found by peers through its
// Place, sent between them as bytes.
//   lends(one, other)      true if these two may lend to each other: the same on every rank
//   place_of(memory)       local: its place, for the peers; with id 0 if they cannot reach it
//   window(channel, n)     local: n bytes within reach of peers, the channel's own; its contents are lost when it grows.
//                          Error out_of_memory
//   address_of(place)      local: this rank's address of a peer's lent memory. Error transport
//   lend(channel)          local: opens a loan of this rank's on the channel, which has none open, and returns its number;
//                          its peers must hear the number
//   hold(channel, rank, number)   local: true if this loan of that rank is still open. If so, its memory stays until `release`
//   release(channel, rank)        local: ends a successful `hold`
//   reclaim(channel)       local: closes the loan and returns once no peer holds it
// If only some memory can be lent, `lent_space` is its MemorySpace.
template <class C>
concept LendsMemory = KnowsSharedMemory<C> && requires(C& comm, C const& view, int channel, int rank, void const* memory,
                                                       std::size_t bytes, Place const& place, std::uint64_t number) {
  { view.lends(rank, rank) } -> std::convertible_to<bool>;
  { view.place_of(memory) } -> std::same_as<Place>;
  { comm.window(channel, bytes) } -> std::same_as<std::byte*>;
  { comm.address_of(place) } -> std::same_as<std::byte*>;
  { comm.lend(channel) } -> std::same_as<std::uint64_t>;
  { comm.hold(channel, rank, number) } -> std::same_as<bool>;
  { comm.release(channel, rank) } noexcept;
  { comm.reclaim(channel) } noexcept;
};

// Optional ability: exchanges blocks in memory of another space than the host's, in the order of that space's queue (of CUDA: a
// stream).
//   device_space                    the MemorySpace
//   queue()                         local: this rank's; RowOps<device_space> are made of it. A ProgressThread begins by
//                                   make_current(queue), and a session's calls by begin_call(queue), if such stand beside its
//                                   type (see CudaQueue)
//   ialltoallv_device(channel, t)   as ialltoallv, of blocks in that memory. It sees the effects of work queued before; after
//                                   `test` was true, work queued afterwards sees the arrived data, and may change the data
//                                   sent. `test` is true as soon as that order is certain: it does not wait for the
//                                   device. Shares the channel's order with ialltoallv: at most one operation of either kind
//                                   is in flight per channel. A rank's block for itself is sent from the place of its receipt,
//                                   or from memory without overlap
template <class C>
concept CarriesDevice = Communicator<C> && requires(C& comm, int channel, Transfer const& transfer) {
  requires MemorySpace<typename C::device_space>;
  comm.queue();
  { comm.ialltoallv_device(channel, transfer) } -> Request;
};

// The Request returned by an exchange of device memory, for a C with such memory.
template <CarriesDevice C>
using device_request_of = decltype(std::declval<C&>().ialltoallv_device(0, std::declval<Transfer const&>()));

// Optional ability: the vendor's own all-reduce (sum) over float and double in that memory, from `send` to `receive`: one
// range, or two without overlap; posted and ordered as ialltoallv_device. All ranks name the same count.
template <class C>
concept DeviceAllreduce = CarriesDevice<C> && requires(C& comm, C const& view, float* f, double* d, std::size_t count) {
  { view.device_sum_order() } -> std::same_as<SumOrder>;
  { comm.iallreduce_device(0, static_cast<float const*>(f), f, count) } -> std::same_as<device_request_of<C>>;
  { comm.iallreduce_device(0, static_cast<double const*>(d), d, count) } -> std::same_as<device_request_of<C>>;
};

// Optional ability: all ranks find memory of each other by its address. They tell each other addresses in an agreement, and
// read in place. Memory announced by a rank stays until the rank knows that all have read it.
//   reads_in_place()                  the same on every rank
//   begin_reading(), end_reading()    around this rank's reading; the first one throws the reason of an abort
//   await_readers()                   after an abort: returns once no rank reads
//   take_turn()                       collective in its order: this rank has read all it was told of so far
//   unread()                          a rank with fewer turns taken than this one, else -1; throws the reason of an abort
// A rank's work before a turn happens before all work of another rank that follows an `unread` aware of this turn.
template <class C>
concept ReadsInPlace = requires(C& comm, C const& view) {
  { view.reads_in_place() } -> std::convertible_to<bool>;
  comm.begin_reading();
  comm.end_reading();
  view.await_readers();
  comm.take_turn();
  { view.unread() } -> std::convertible_to<int>;
};

// Local. Returns true if peers read each other's memory by its address, the same on every rank: false if C is silent.
template <Communicator C>
bool reads_in_place(C const& comm) {
  if constexpr (ReadsInPlace<C>) return comm.reads_in_place();
  return false;
}

namespace detail {

// The space of the memory that C can lend: its `lent_space`; without one C lends all of the host's memory.
template <class C>
struct LentSpace {
  using type = HostSpace;
};
template <class C>
  requires requires { typename C::lent_space; }
struct LentSpace<C> {
  using type = typename C::lent_space;
};

// The two functions of that space: `allocate`, to a caller who owns the block (throws as MemorySpace says), and `deallocate`.
struct LentMemory {
  void* (*allocate)(std::size_t bytes);
  void (*deallocate)(void* memory, std::size_t bytes) noexcept;
};
// Local. Returns the two functions of a communicator: by its type, or as told by one standing for another.
template <class C>
LentMemory lent_memory(C const& comm) {
  if constexpr (requires { comm.lent_memory(); }) {
    return comm.lent_memory();
  } else {
    using Space = typename LentSpace<C>::type;
    return {[](std::size_t bytes) -> void* { return Space::allocate(bytes); },
            [](void* memory, std::size_t bytes) noexcept { Space::deallocate(memory, bytes); }};
  }
}

}  // namespace detail

// The back-off of a polling loop with a deadline: spins for some microseconds, longer than a peer in step with this rank needs,
// then yields, and naps if yielding or the wait takes long (detail::Rest); at once when oversubscribed. By time, not by polls:
// a poll of a network may be a system call. If the communicator `SleepsUntilNews` it sleeps instead, in naps growing with the
// wait: news from peers wakes it. Anything else, such as a device, is seen late by an eighth of the wait at most.
template <Communicator C>
class Patience {
 public:
  // Local. Refers to the communicator, which must outlive this. One object serves one wait. `more`: an addition to the
  // communicator's deadline.
  explicit Patience(C const& comm, std::chrono::nanoseconds more = {}) : comm_{&comm}, allowed_{more} {
    if constexpr (KnowsOversubscription<C>) spin_ = comm.oversubscribed() ? std::chrono::nanoseconds{-1} : spin_;
  }

  // Notes partial success of the wait: the deadline is counted from the next call of `pause`.
  void begin() { polls_ = 0, waited_ = more_ = looked_ = {}, paused_ = false, quiet_ = std::chrono::microseconds{100}; }

  // Rests after a poll without news. Returns false, at once, when the communicator's deadline, and another rank's announced
  // pause, if any, have passed since the first call; a pause ended meanwhile is followed by another deadline.
  bool pause() {
    auto const time = now(*comm_);
    if (polls_++ == 0) started_ = time;
    waited_ = time - started_;
    if (waited_ <= spin_) return true;
    if (waited_ > comm_->deadline() + allowed_ + more_) {
      if (!paused()) return false;
    } else if (waited_ - looked_ > comm_->deadline() / 16) {
      look();
    }
    rest();
    return true;
  }

  // Returns true now and then, once the wait is a long one: every 64 polls, and in every turn of a rank given few turns.
  bool idles() {
    if ((polls_ == 0 || polls_ % 64 != 0 || waited_ <= spin_) && waited_ < quiet_) return false;
    quiet_ = waited_ + std::chrono::microseconds{100};
    return true;
  }

  // Returns the time at the latest `pause`; 0 before the first.
  std::chrono::nanoseconds paused_at() const { return started_ + waited_; }
  // Returns the duration of the wait since the first `pause`; 0 before.
  std::chrono::nanoseconds waited() const { return polls_ == 0 ? std::chrono::nanoseconds{0} : now(*comm_) - started_; }

 private:
  // Lets others run: the peers, or whoever else uses this core.
  void rest() {
    constexpr std::chrono::nanoseconds least{10'000}, most{5'000'000};
    std::chrono::nanoseconds const part = waited_ / 8, at_most = part < least ? least : part > most ? most : part;
    if constexpr (SleepsUntilNews<C>) comm_->sleep(at_most);
    else detail::rest(at_most);
  }
  // Looks for a rank in a pause, now and then: a pause ended before the deadline would not be seen later.
  void look() {
    looked_ = waited_;
    if constexpr (AnnouncesPauses<C>) paused_ = paused_ || comm_->longest_pause().count() > 0;
  }
  // Returns true if a wait past the deadline may go on: a rank is in a pause, or is back from one and gets a whole deadline.
  bool paused() {
    if constexpr (AnnouncesPauses<C>) {
      std::chrono::nanoseconds const longest = comm_->longest_pause();
      bool const was_paused = std::exchange(paused_, longest.count() > 0);
      if (paused_ || was_paused) more_ = paused_ && longest < waited_ ? longest : waited_;
    }
    return waited_ <= comm_->deadline() + allowed_ + more_;
  }

  C const* comm_;
  std::chrono::nanoseconds allowed_;
  std::uint32_t polls_ = 0;
  bool paused_ = false;  // a rank was in a pause when it was last looked, or before the deadline had passed
  std::chrono::nanoseconds spin_{5'000}, started_{0}, waited_{0}, quiet_{100'000}, more_{0}, looked_{0};
};

// Returns the Error (timeout) of a wait longer than the deadline: names the operation, the variable, a rank still to deliver
// (`missing`, or -1) and the operation's progress (`phase`). `report`: the last lines of its text. Does not abort.
template <Communicator C>
PARALLAX_COLD Error timeout_error(C const& comm, int missing, std::string_view operation, std::string_view variable = {},
                                  std::string_view phase = {}, std::string_view report = {}) {
  auto const limit = std::chrono::duration<double>{std::chrono::nanoseconds{comm.deadline()}}.count();
  std::string said = joined({"rank ", comm.rank(), " waited longer than the deadline of ", std::to_string(limit), " s"});
  if constexpr (AnnouncesPauses<C>)
    if (auto const pause = comm.longest_pause(); pause.count() > 0)
      append(said, {" and a pause of ", std::to_string(std::chrono::duration<double>{pause}.count()), " s"});
  if (missing >= 0) append(said, {" for rank ", missing});
  if (!phase.empty()) append(said, {", ", phase});
  return {Errc::timeout, missing, operation, variable, said, report};
}

// Waits until the request is complete. Past the deadline aborts the communicator, and throws Error (timeout). Throws what
// `test` of the request throws, without an abort of its own. `operation`: its name in the error.
template <Communicator C, Request R>
void wait(C& comm, R& request, std::string_view operation) {
  Patience<C> patience{comm};
  while (!request.test()) {
    if (patience.pause()) continue;
    Error const error = timeout_error(comm, request.waiting_for(), operation);
    comm.abort(error);
    throw error;
  }
}

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/comm/communicator-inl.hpp"
#endif
