// A communicator whose kind is chosen at run time: the type-erased edge over any other, owned or referred to.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax {

// Itself a communicator, at the price of an indirect call for each post and test; posting allocates nothing. Move-only.
//   AnyCommunicator any{MpiCommunicator{}};     owns it
//   AnyCommunicator any{std::ref(world)};       refers to it: `world` must outlive it and stay where it is
// Abilities of the communicator inside (vendor's all-reduce, clock, oversubscription) show through.
class AnyCommunicator {
 public:
  class Request;
  using lent_space = SharedSpace;

  template <class C>
    requires(!std::same_as<C, AnyCommunicator> && Communicator<C>)
  explicit AnyCommunicator(C comm) : edge_{std::make_unique<EdgeOf<C, C>>(std::move(comm))} {}
  template <Communicator C>
  explicit AnyCommunicator(std::reference_wrapper<C> comm) : edge_{std::make_unique<EdgeOf<C, C&>>(comm.get())} {}

  int rank() const { return edge_->rank(); }
  int size() const { return edge_->size(); }
  std::chrono::nanoseconds deadline() const { return edge_->deadline(); }
  std::chrono::nanoseconds now() const { return edge_->now(); }
  bool oversubscribed() const { return edge_->oversubscribed(); }
  bool serialized() const { return edge_->serialized(); }
  bool shares_memory(int one, int other) const { return edge_->shares_memory(one, other); }
  SumOrder sum_order() const { return edge_->sum_order(); }

  Request ialltoallv(int channel, Transfer const& transfer);
  Request iallreduce(int channel, float const* send, float* receive, std::size_t count);
  Request iallreduce(int channel, double const* send, double* receive, std::size_t count);
  void abort(Error const& reason) { edge_->abort(reason); }
  void check() { edge_->check(); }
  Journal& journal() { return edge_->journal(); }
  std::optional<Status> status_of(int rank, bool& fresh) { return edge_->status_of(rank, fresh); }
  void answer() { edge_->answer(); }

  bool lends(int one, int other) const { return edge_->lends(one, other); }
  Place place_of(void const* memory) const { return edge_->place_of(memory); }
  std::byte* window(int channel, std::size_t bytes) { return edge_->window(channel, bytes); }
  std::byte* address_of(Place const& place) { return edge_->address_of(place); }
  std::uint64_t lend(int channel) { return edge_->lend(channel); }
  bool hold(int channel, int rank, std::uint64_t number) { return edge_->hold(channel, rank, number); }
  void release(int channel, int rank) noexcept { edge_->release(channel, rank); }
  void reclaim(int channel) noexcept { edge_->reclaim(channel); }

 private:
  struct Edge {
    virtual ~Edge() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual std::chrono::nanoseconds deadline() const = 0;
    virtual std::chrono::nanoseconds now() const = 0;
    virtual bool oversubscribed() const = 0;
    virtual bool serialized() const = 0;
    virtual bool shares_memory(int one, int other) const = 0;
    virtual SumOrder sum_order() const = 0;
    virtual Request ialltoallv(int channel, Transfer const& transfer) = 0;
    virtual Request iallreduce(int channel, float const* send, float* receive, std::size_t count) = 0;
    virtual Request iallreduce(int channel, double const* send, double* receive, std::size_t count) = 0;
    virtual void abort(Error const& reason) = 0;
    virtual void check() = 0;
    virtual Journal& journal() = 0;
    virtual std::optional<Status> status_of(int rank, bool& fresh) = 0;
    virtual void answer() = 0;
    virtual bool lends(int one, int other) const = 0;
    virtual Place place_of(void const* memory) const = 0;
    virtual std::byte* window(int channel, std::size_t bytes) = 0;
    virtual std::byte* address_of(Place const& place) = 0;
    virtual std::uint64_t lend(int channel) = 0;
    virtual bool hold(int channel, int rank, std::uint64_t number) = 0;
    virtual void release(int channel, int rank) noexcept = 0;
    virtual void reclaim(int channel) noexcept = 0;
  };
  template <class C, class Held>
  struct EdgeOf;

  std::unique_ptr<Edge> edge_;
};

// Holds the request of the communicator inside in place.
class AnyCommunicator::Request {
 public:
  template <class R>
    requires(!std::same_as<R, Request> && parallax::Request<R>)
  explicit Request(R request) : table_{&table_of<R>} {
    static_assert(sizeof(R) <= capacity && alignof(R) <= alignof(std::max_align_t),
                  "AnyCommunicator: this communicator's Request is larger than AnyCommunicator has room for; let it "
                  "hold a pointer to state that the communicator owns");
    static_assert(std::is_nothrow_move_constructible_v<R>, "AnyCommunicator: a Request must move without throwing");
    ::new (static_cast<void*>(room_)) R(std::move(request));
  }
  Request(Request&& other) noexcept { take(other); }
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  ~Request() { drop(); }

  bool test() { return !table_ || table_->test(room_); }
  int waiting_for() const { return table_ ? table_->waiting_for(room_) : -1; }

 private:
  static constexpr std::size_t capacity = 48;

  struct Table {
    bool (*test)(void*);
    int (*waiting_for)(void const*);
    void (*relocate)(void* from, void* to) noexcept;
    void (*destroy)(void*) noexcept;
  };
  template <class R>
  static constexpr Table table_of{
      [](void* request) -> bool { return static_cast<R*>(request)->test(); },
      [](void const* request) -> int { return static_cast<R const*>(request)->waiting_for(); },
      [](void* from, void* to) noexcept {
        ::new (to) R(std::move(*static_cast<R*>(from)));
        static_cast<R*>(from)->~R();
      },
      [](void* request) noexcept { static_cast<R*>(request)->~R(); }};

  void take(Request& other) noexcept {
    table_ = std::exchange(other.table_, nullptr);
    if (table_) table_->relocate(other.room_, room_);
  }
  void drop() noexcept {
    if (auto const* table = std::exchange(table_, nullptr)) table->destroy(room_);
  }

  Table const* table_ = nullptr;
  alignas(std::max_align_t) std::byte room_[capacity];
};

template <class C, class Held>
struct AnyCommunicator::EdgeOf final : Edge {
  explicit EdgeOf(Held&& given) : comm{std::forward<Held>(given)} {}

  int rank() const override { return view().rank(); }
  int size() const override { return view().size(); }
  std::chrono::nanoseconds deadline() const override { return view().deadline(); }
  std::chrono::nanoseconds now() const override { return parallax::now(view()); }
  bool shares_memory([[maybe_unused]] int one, [[maybe_unused]] int other) const override {
    if constexpr (KnowsSharedMemory<C>) return view().shares_memory(one, other);
    return false;
  }
  bool oversubscribed() const override {
    if constexpr (KnowsOversubscription<C>) return view().oversubscribed();
    return false;
  }
  bool serialized() const override {
    if constexpr (KnowsThreads<C>) return view().serialized();
    return true;
  }
  SumOrder sum_order() const override { return parallax::sum_order(view()); }
  Request ialltoallv(int channel, Transfer const& transfer) override {
    return Request{comm.ialltoallv(channel, transfer)};
  }
  Request iallreduce(int channel, float const* send, float* receive, std::size_t count) override {
    return sum(channel, send, receive, count);
  }
  Request iallreduce(int channel, double const* send, double* receive, std::size_t count) override {
    return sum(channel, send, receive, count);
  }
  void abort(Error const& reason) override { comm.abort(reason); }
  void check() override {
    if constexpr (TellsOfAborts<C>) comm.check();
  }

  Journal& journal() override {
    if constexpr (KeepsJournals<C>) return comm.journal();
    else return own_journal;
  }
  std::optional<Status> status_of(int rank, [[maybe_unused]] bool& fresh) override {
    if constexpr (KeepsJournals<C>) return comm.status_of(rank, fresh);
    else if (rank == this->rank()) return own_journal.status();
    else return std::nullopt;
  }
  void answer() override {
    if constexpr (KeepsJournals<C>) comm.answer();
  }

  bool lends([[maybe_unused]] int one, [[maybe_unused]] int other) const override {
    if constexpr (LendsMemory<C>) return view().lends(one, other);
    return false;
  }
  Place place_of([[maybe_unused]] void const* memory) const override {
    if constexpr (LendsMemory<C>) return view().place_of(memory);
    return {};
  }
  std::byte* window([[maybe_unused]] int channel, [[maybe_unused]] std::size_t bytes) override {
    if constexpr (LendsMemory<C>) return comm.window(channel, bytes);
    return nullptr;
  }
  std::byte* address_of([[maybe_unused]] Place const& place) override {
    if constexpr (LendsMemory<C>) return comm.address_of(place);
    return nullptr;
  }
  std::uint64_t lend([[maybe_unused]] int channel) override {
    if constexpr (LendsMemory<C>) return comm.lend(channel);
    return 0;
  }
  bool hold([[maybe_unused]] int channel, [[maybe_unused]] int rank, [[maybe_unused]] std::uint64_t number) override {
    if constexpr (LendsMemory<C>) return comm.hold(channel, rank, number);
    return false;
  }
  void release([[maybe_unused]] int channel, [[maybe_unused]] int rank) noexcept override {
    if constexpr (LendsMemory<C>) comm.release(channel, rank);
  }
  void reclaim([[maybe_unused]] int channel) noexcept override {
    if constexpr (LendsMemory<C>) comm.reclaim(channel);
  }

  C const& view() const { return comm; }
  template <class T>
  Request sum(int channel, T const* send, T* receive, std::size_t count) {
    if constexpr (VendorAllreduce<C>) return Request{comm.iallreduce(channel, send, receive, count)};
    throw Error{Errc::misuse, rank(), "iallreduce", "", "the communicator inside has no all-reduce of its own"};
  }

  Held comm;
  Journal own_journal;  // where the communicator inside keeps none
};

inline AnyCommunicator::Request AnyCommunicator::ialltoallv(int channel, Transfer const& transfer) {
  return edge_->ialltoallv(channel, transfer);
}
inline AnyCommunicator::Request AnyCommunicator::iallreduce(int channel, float const* send, float* receive, std::size_t count) {
  return edge_->iallreduce(channel, send, receive, count);
}
inline AnyCommunicator::Request AnyCommunicator::iallreduce(int channel, double const* send, double* receive,
                                                            std::size_t count) {
  return edge_->iallreduce(channel, send, receive, count);
}

static_assert(KeepsJournals<AnyCommunicator> && VendorAllreduce<AnyCommunicator> && OwnClock<AnyCommunicator> &&
              KnowsOversubscription<AnyCommunicator> && LendsMemory<AnyCommunicator>);

}  // namespace parallax
