// The type-erased edge over any communicator, owned or referred to: every session works on one, and users take one to choose
// their communicator at run time.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/reference.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// Holds the inner communicator's request in place; one of more than 48 bytes, or that may throw as it moves, on the heap.
class AnyRequest {
 public:
  // Takes over the request, and with it its duty to withdraw the operation when it is destroyed.
  template <class R>
    requires(!std::same_as<R, AnyRequest> && Request<R>)
  explicit AnyRequest(R request) : table_{&table_of<Stored<R>>} {
    if constexpr (std::same_as<Stored<R>, R>) ::new (static_cast<void*>(room_)) R(std::move(request));
    else ::new (static_cast<void*>(room_)) Stored<R>{make_owned<R>(std::move(request))};
  }
  // Takes the request over. `other` is empty afterwards: complete, and waiting for nobody.
  AnyRequest(AnyRequest&& other) noexcept { take(other); }
  AnyRequest& operator=(AnyRequest&& other) noexcept {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  ~AnyRequest() { drop(); }

  // Makes progress of the request inside; returns true once it is complete, as without one. Throws its errors.
  bool test() { return !table_ || table_->test(room_); }
  // Returns the answer of the request inside; -1 without one.
  int waiting_for() const { return table_ ? table_->waiting_for(room_) : -1; }

 private:
  // Size, in bytes, up to which the request inside needs no allocation.
  static constexpr std::size_t capacity = 48;

  // A request on the heap.
  template <class R>
  struct Box {
    bool test() { return request->test(); }
    int waiting_for() const { return request->waiting_for(); }
    Owned<R> request;
  };
  template <class R>
  using Stored = std::conditional_t<
      sizeof(R) <= capacity && alignof(R) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<R>, R, Box<R>>;

  // The functions of one kind of request, called with its address. One table for each type ever put inside.
  struct Table {
    bool (*test)(void*);
    int (*waiting_for)(void const*);
    void (*relocate)(void* from, void* to) noexcept;  // null: its bytes are copied
    void (*destroy)(void*) noexcept;                  // null: nothing is to be done
  };
  // The table of requests of type R.
  template <class R>
  static constexpr Table table_of{
      [](void* request) -> bool { return static_cast<R*>(request)->test(); },
      [](void const* request) -> int { return static_cast<R const*>(request)->waiting_for(); },
      std::is_trivially_copyable_v<R> ? nullptr : +[](void* from, void* to) noexcept {
        ::new (to) R(std::move(*static_cast<R*>(from)));
        static_cast<R*>(from)->~R();
      },
      std::is_trivially_destructible_v<R> ? nullptr : +[](void* request) noexcept { static_cast<R*>(request)->~R(); }};

  // Takes the request of `other`, which is empty then, into an empty one.
  void take(AnyRequest& other) noexcept {
    table_ = std::exchange(other.table_, nullptr);
    if (!table_) return;
    if (table_->relocate) table_->relocate(other.room_, room_);
    else std::memcpy(room_, other.room_, capacity);
  }
  // Destroys the request inside, withdrawing it if it is not complete.
  void drop() noexcept {
    auto const* table = std::exchange(table_, nullptr);
    if (table && table->destroy) table->destroy(room_);
  }

  // Null: empty.
  Table const* table_ = nullptr;
  alignas(std::max_align_t) std::byte room_[capacity];
};

}  // namespace detail

// Itself a communicator, at the price of an indirect call for each post and test. Move-only. Posting allocates nothing if the
// Request inside has at most 48 bytes and moves without throwing.
//   AnyCommunicator any{MpiCommunicator{}};     owns it
//   AnyCommunicator any{std::ref(world)};       refers to it: `world` must outlive it and stay in its place
// Abilities of the communicator inside (vendor's all-reduce, clock, oversubscription, mailbox) show through: without a mailbox,
// the window is 0.
class AnyCommunicator {
 public:
  // The request of any communicator inside; does not outlive the communicator.
  using Request = detail::AnyRequest;

  // Local. Owns the communicator, moved in.
  template <class C>
    requires(!std::same_as<C, AnyCommunicator> && Communicator<C>)
  explicit AnyCommunicator(C comm)
      : lent_memory_{detail::lent_memory(comm)},
        keeps_journals_{KeepsJournals<C>},
        edge_{make_owned<EdgeOf<C, C>>(std::move(comm))} {}
  // Local. Refers to the communicator, neither moving nor destroying it.
  template <Communicator C>
  explicit AnyCommunicator(std::reference_wrapper<C> comm)
      : lent_memory_{detail::lent_memory(comm.get())},
        keeps_journals_{KeepsJournals<C>},
        edge_{make_owned<EdgeOf<C, C&>>(comm.get())} {}

// Every function of the list, passed on to the edge: its contract is found at its concept in comm/communicator.hpp.
#define PARALLAX_ABILITY(ability, result, name, parameters, arguments, qualifiers, otherwise) \
  result name parameters qualifiers { return edge_->name arguments; }
// Every operation of the list, passed on to the edge. Error (misuse) if the communicator inside lacks it.
#define PARALLAX_OPERATION(ability, name, parameters, arguments) \
  Request name parameters { return edge_->name arguments; }
#include "parallax/detail/comm/abilities.hpp"
  // Returns true if the communicator inside keeps journals; else there is a journal of this rank alone.
  bool keeps_journals() const { return keeps_journals_; }
  // Returns the two functions of memory that the communicator inside can lend. Called by the engine.
  detail::LentMemory lent_memory() const { return lent_memory_; }

 private:
  // The communicator inside, by virtual calls: all functions of the list.
  struct Edge {
    virtual ~Edge() = default;
// One virtual function for each of the list.
#define PARALLAX_ABILITY(ability, result, name, parameters, arguments, qualifiers, otherwise) \
  virtual result name parameters qualifiers = 0;
// One virtual function for each operation of the list.
#define PARALLAX_OPERATION(ability, name, parameters, arguments) virtual Request name parameters = 0;
#include "parallax/detail/comm/abilities.hpp"
  };
  // The edge over one type: `Stored` is C for an owned communicator, and C& for one referred to.
  template <class C, class Stored>
  struct EdgeOf;

  detail::LentMemory lent_memory_;
  bool keeps_journals_;
  Owned<Edge> edge_;
};

// The edge over communicators of type C, made by the constructors of AnyCommunicator: it answers for abilities absent from C.
template <class C, class Stored>
struct AnyCommunicator::EdgeOf final : Edge {
  // Moves the communicator in, or binds to an lvalue.
  explicit EdgeOf(Stored&& given) : comm{std::forward<Stored>(given)} {}

// C's own function, or the list's last column if C does not model the concept.
#define PARALLAX_ABILITY(ability, result, name, parameters, arguments, qualifiers, otherwise) \
  result name parameters qualifiers override {                                                \
    if constexpr (ability<C>) return comm.name arguments;                                     \
    else return ignore arguments, otherwise;                                                  \
  }
// C's own operation, with its request made an AnyRequest; else Error (misuse).
#define PARALLAX_OPERATION(ability, name, parameters, arguments)   \
  Request name parameters override {                               \
    if constexpr (ability<C>) return Request{comm.name arguments}; \
    ignore arguments;                                              \
    lacks(#name, "all-reduce of its own");                         \
  }
#include "parallax/detail/comm/abilities.hpp"

  // Marks parameters not needed by an answer as used.
  static void ignore(auto const&...) {}
  // Throws Error (misuse). Returns bool only in the type, to fit into the list.
  [[noreturn]] bool lacks(char const* operation, char const* what) const {
    throw Error{Errc::misuse, rank(), operation, "", joined({"the communicator inside has no ", what})};
  }

  // The communicator inside, or a reference to that object.
  Stored comm;
  struct NoJournal {};
  // Of this rank, if C keeps no journals: the session still writes one.
  std::conditional_t<KeepsJournals<C>, NoJournal, Journal> own_journal;
};

// A communicator of host and device memory, its kind chosen at run time. `Queue` is its queue's type. Refers to the
// communicator inside, which must outlive it and stay in its place. Move-only.
//   AnyDeviceCommunicator<CudaSpace, CudaQueue> any{std::ref(world)};
template <MemorySpace Space, class Queue>
class AnyDeviceCommunicator : public AnyCommunicator {
 public:
  // The space carried by the communicator inside beside the host's.
  using device_space = Space;

  // Local. Refers to the communicator. Every ability of C shows through; abilities of host memory do by the base.
  template <CarriesDevice C>
    requires(!std::derived_from<C, AnyCommunicator>)
  explicit AnyDeviceCommunicator(std::reference_wrapper<C> comm)
      : AnyCommunicator{comm}, edge_{make_owned<EdgeOf<C>>(comm.get())} {}

  // Returns the queue of the communicator inside.
  Queue queue() const { return edge_->queue(); }
  // Posts an exchange as CarriesDevice has it, at the price of an indirect call.
  Request ialltoallv_device(int channel, Transfer const& transfer) { return edge_->ialltoallv_device(channel, transfer); }
  // Returns `fixed` if the communicator inside has no all-reduce of device memory.
  SumOrder device_sum_order() const { return edge_->device_sum_order(); }
  // Posts a sum as DeviceAllreduce has it. Throws Error (misuse) if the communicator inside has none.
  Request iallreduce_device(int channel, float const* send, float* receive, std::size_t count) {
    return edge_->iallreduce_device(channel, send, receive, count);
  }
  // Posts a sum of doubles, as the overload for floats.
  Request iallreduce_device(int channel, double const* send, double* receive, std::size_t count) {
    return edge_->iallreduce_device(channel, send, receive, count);
  }

 private:
  // The additions to AnyCommunicator's edge.
  struct Edge {
    virtual ~Edge() = default;
    virtual Queue queue() const = 0;
    virtual Request ialltoallv_device(int channel, Transfer const& transfer) = 0;
    virtual SumOrder device_sum_order() const = 0;
    virtual Request iallreduce_device(int channel, float const* send, float* receive, std::size_t count) = 0;
    virtual Request iallreduce_device(int channel, double const* send, double* receive, std::size_t count) = 0;
  };
  // The edge over communicators of type C, by reference.
  template <class C>
  struct EdgeOf final : Edge {
    explicit EdgeOf(C& given) : comm{&given} {}

    Queue queue() const override { return comm->queue(); }
    Request ialltoallv_device(int channel, Transfer const& transfer) override {
      return Request{comm->ialltoallv_device(channel, transfer)};
    }
    SumOrder device_sum_order() const override {
      if constexpr (DeviceAllreduce<C>) return comm->device_sum_order();
      else return SumOrder::fixed;
    }
    Request iallreduce_device(int channel, float const* send, float* receive, std::size_t count) override {
      return allreduce(channel, send, receive, count);
    }
    Request iallreduce_device(int channel, double const* send, double* receive, std::size_t count) override {
      return allreduce(channel, send, receive, count);
    }
    // Posts a sum of either type of elements; throws Error (misuse) if C has no such all-reduce.
    template <class T>
    Request allreduce(int channel, T const* send, T* receive, std::size_t count) {
      if constexpr (DeviceAllreduce<C>) return Request{comm->iallreduce_device(channel, send, receive, count)};
      throw Error{Errc::misuse, comm->rank(), "iallreduce_device", "", "the communicator inside has no all-reduce of its own"};
    }

    C* comm;
  };

  Owned<Edge> edge_;
};

namespace detail {

// The communicator as seen by an engine: one type for all of host memory alone, and one for all of a device's memory, too. So
// nothing of an engine is compiled again for another communicator.
template <class C>
struct EdgeTo {
  using type = AnyCommunicator;
};
template <CarriesDevice C>
  requires(!std::derived_from<C, AnyCommunicator>)
struct EdgeTo<C> {
  using type = AnyDeviceCommunicator<typename C::device_space, std::remove_cvref_t<decltype(std::declval<C&>().queue())>>;
};
template <std::derived_from<AnyCommunicator> C>
struct EdgeTo<C> {
  using type = C&;
};
// The holder of C inside an engine: an AnyCommunicator made over it, or a reference if C is one already.
template <Communicator C>
using edge_to = typename EdgeTo<C>::type;
// The communicator type an engine is compiled for, given a user's C.
template <Communicator C>
using edge_of = std::remove_reference_t<edge_to<C>>;

}  // namespace detail

static_assert(AnnouncesPauses<AnyCommunicator> && VendorAllreduce<AnyCommunicator> && OwnClock<AnyCommunicator> &&
              KnowsOversubscription<AnyCommunicator> && LendsMemory<AnyCommunicator> && ReadsInPlace<AnyCommunicator> &&
              Mailbox<AnyCommunicator>);

}  // namespace parallax
