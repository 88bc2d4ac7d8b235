// The type-erased edge over any communicator, owned or referred to: what every session works on, and what users take whose
// communicator is chosen at run time.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/core/clock.hpp"
#include "parallax/core/pointer.hpp"
#include "parallax/core/reference.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax {

namespace detail {

// Holds the request of the communicator inside in place; one of more than 48 bytes, or that may throw as it moves, on the heap.
class AnyRequest {
 public:
  template <class R>
    requires(!std::same_as<R, AnyRequest> && Request<R>)
  explicit AnyRequest(R request) : table_{&table_of<Held<R>>} {
    if constexpr (std::same_as<Held<R>, R>) ::new (static_cast<void*>(room_)) R(std::move(request));
    else ::new (static_cast<void*>(room_)) Held<R>{make_owned<R>(std::move(request))};
  }
  AnyRequest(AnyRequest&& other) noexcept { take(other); }
  AnyRequest& operator=(AnyRequest&& other) noexcept {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  ~AnyRequest() { drop(); }

  bool test() { return !table_ || table_->test(room_); }
  int waiting_for() const { return table_ ? table_->waiting_for(room_) : -1; }

 private:
  static constexpr std::size_t capacity = 48;

  template <class R>
  struct Box {
    bool test() { return request->test(); }
    int waiting_for() const { return request->waiting_for(); }
    Owned<R> request;
  };
  template <class R>
  using Held = std::conditional_t<sizeof(R) <= capacity && alignof(R) <= alignof(std::max_align_t) &&
                                      std::is_nothrow_move_constructible_v<R>, R, Box<R>>;

  struct Table {
    bool (*test)(void*);
    int (*waiting_for)(void const*);
    void (*relocate)(void* from, void* to) noexcept;  // null: its bytes are copied
    void (*destroy)(void*) noexcept;                  // null: nothing is to be done
  };
  template <class R>
  static constexpr Table table_of{
      [](void* request) -> bool { return static_cast<R*>(request)->test(); },
      [](void const* request) -> int { return static_cast<R const*>(request)->waiting_for(); },
      std::is_trivially_copyable_v<R> ? nullptr : +[](void* from, void* to) noexcept {
        ::new (to) R(std::move(*static_cast<R*>(from)));
        static_cast<R*>(from)->~R();
      },
      std::is_trivially_destructible_v<R> ? nullptr : +[](void* request) noexcept { static_cast<R*>(request)->~R(); }};

  void take(AnyRequest& other) noexcept {
    table_ = std::exchange(other.table_, nullptr);
    if (!table_) return;
    if (table_->relocate) table_->relocate(other.room_, room_);
    else std::memcpy(room_, other.room_, capacity);
  }
  void drop() noexcept {
    auto const* table = std::exchange(table_, nullptr);
    if (table && table->destroy) table->destroy(room_);
  }

  Table const* table_ = nullptr;
  alignas(std::max_align_t) std::byte room_[capacity];
};

}  // namespace detail

// Itself a communicator, at the price of an indirect call for each post and test. Move-only. Posting allocates nothing where
// the Request inside has at most 48 bytes and moves without throwing.
//   AnyCommunicator any{MpiCommunicator{}};     owns it
//   AnyCommunicator any{std::ref(world)};       refers to it: `world` must outlive it and stay where it is
// Abilities of the communicator inside (vendor's all-reduce, clock, oversubscription, mailbox) show through: where it has no
// mailbox, the window is 0.
class AnyCommunicator {
 public:
  using Request = detail::AnyRequest;
  using lent_space = SharedSpace;

  template <class C>
    requires(!std::same_as<C, AnyCommunicator> && Communicator<C>)
  explicit AnyCommunicator(C comm) : AnyCommunicator{make_owned<EdgeOf<C, C>>(std::move(comm)), KeepsJournals<C>} {}
  template <Communicator C>
  explicit AnyCommunicator(std::reference_wrapper<C> comm)
      : AnyCommunicator{make_owned<EdgeOf<C, C&>>(comm.get()), KeepsJournals<C>} {}

#define PARALLAX_ABILITY(ability, result, name, parameters, arguments, qualifiers, otherwise) \
  result name parameters qualifiers { return edge_->name arguments; }
#define PARALLAX_OPERATION(ability, name, parameters, arguments) \
  Request name parameters { return edge_->name arguments; }
#include "parallax/comm/abilities.hpp"
  // Whether the communicator inside keeps journals; else there is a journal of this rank alone.
  bool keeps_journals() const { return keeps_journals_; }

 private:
  struct Edge {
    virtual ~Edge() = default;
#define PARALLAX_ABILITY(ability, result, name, parameters, arguments, qualifiers, otherwise) \
  virtual result name parameters qualifiers = 0;
#define PARALLAX_OPERATION(ability, name, parameters, arguments) virtual Request name parameters = 0;
#include "parallax/comm/abilities.hpp"
  };
  template <class C, class Held>
  struct EdgeOf;

  AnyCommunicator(Owned<Edge> edge, bool keeps_journals) : edge_{std::move(edge)}, keeps_journals_{keeps_journals} {}

  Owned<Edge> edge_;
  bool keeps_journals_;
};

template <class C, class Held>
struct AnyCommunicator::EdgeOf final : Edge {
  explicit EdgeOf(Held&& given) : comm{std::forward<Held>(given)} {}

#define PARALLAX_ABILITY(ability, result, name, parameters, arguments, qualifiers, otherwise) \
  result name parameters qualifiers override {                                                \
    if constexpr (ability<C>) return comm.name arguments;                                     \
    else return ignore arguments, otherwise;                                                  \
  }
#define PARALLAX_OPERATION(ability, name, parameters, arguments)    \
  Request name parameters override {                                \
    if constexpr (ability<C>) return Request{comm.name arguments};  \
    ignore arguments;                                               \
    lacks(#name, "all-reduce of its own");                          \
  }
#include "parallax/comm/abilities.hpp"

  static void ignore(auto const&...) {}
  [[noreturn]] bool lacks(char const* operation, char const* what) const {
    throw Error{Errc::misuse, rank(), operation, "", std::string{"the communicator inside has no "} + what};
  }

  Held comm;
  struct None {};
  std::conditional_t<KeepsJournals<C>, None, Journal> own_journal;
};

// A communicator that carries memory of a device, too, whose kind is chosen at run time. `Queue` is its queue's type. Refers to
// the communicator inside, which must outlive it and stay where it is. Move-only.
//   AnyDeviceCommunicator<CudaSpace, CudaQueue> any{std::ref(world)};
template <MemorySpace Space, class Queue>
class AnyDeviceCommunicator : public AnyCommunicator {
 public:
  using device_space = Space;

  template <CarriesDevice C>
    requires(!std::derived_from<C, AnyCommunicator>)
  explicit AnyDeviceCommunicator(std::reference_wrapper<C> comm)
      : AnyCommunicator{comm}, edge_{make_owned<EdgeOf<C>>(comm.get())} {}

  Queue queue() const { return edge_->queue(); }
  Request ialltoallv_device(int channel, Transfer const& transfer) { return edge_->ialltoallv_device(channel, transfer); }
  SumOrder device_sum_order() const { return edge_->device_sum_order(); }
  Request iallreduce_device(int channel, float const* send, float* receive, std::size_t count) {
    return edge_->iallreduce_device(channel, send, receive, count);
  }
  Request iallreduce_device(int channel, double const* send, double* receive, std::size_t count) {
    return edge_->iallreduce_device(channel, send, receive, count);
  }

 private:
  struct Edge {
    virtual ~Edge() = default;
    virtual Queue queue() const = 0;
    virtual Request ialltoallv_device(int channel, Transfer const& transfer) = 0;
    virtual SumOrder device_sum_order() const = 0;
    virtual Request iallreduce_device(int channel, float const* send, float* receive, std::size_t count) = 0;
    virtual Request iallreduce_device(int channel, double const* send, double* receive, std::size_t count) = 0;
  };
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

// What an engine sees of a communicator: one type for all that carry host memory, and one for all that carry a device's, too.
// So nothing of an engine is compiled again for another communicator.
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
template <Communicator C>
using edge_to = typename EdgeTo<C>::type;
template <Communicator C>
using edge_of = std::remove_reference_t<edge_to<C>>;

}  // namespace detail

static_assert(AnnouncesPauses<AnyCommunicator> && VendorAllreduce<AnyCommunicator> && OwnClock<AnyCommunicator> &&
              KnowsOversubscription<AnyCommunicator> && LendsMemory<AnyCommunicator> && ReadsInPlace<AnyCommunicator> &&
              Mailbox<AnyCommunicator>);

}  // namespace parallax
