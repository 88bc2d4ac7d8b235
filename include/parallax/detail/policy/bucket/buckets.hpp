// A step's shared objects for all its updates, by memory space: the buckets of dense gradients, sums measured by optimizers,
// and findings in gradients. A flight owns one of each, and the ways find their own in them by type.
#pragma once

#include <concepts>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/type.hpp"
#include "parallax/detail/kernel/findings.hpp"
#include "parallax/detail/policy/bucket/dense_bucket.hpp"
#include "parallax/detail/policy/bucket/measured.hpp"
#include "parallax/policy/policy.hpp"

namespace parallax::inline v0_2 {

// An object of a step for each memory space of its updates: Of<C, Space>, whose parameters are a Communicator and a
// MemorySpace. This one is for communicators that carry the host's memory only.
template <Communicator C, template <class, class> class Of>
struct BySpace {
  // Returns the host's object, for any space: there is no other.
  template <MemorySpace>
  Of<C, HostSpace>& of() {
    return host;
  }
  // Calls f(host): a flight starts and awaits its findings so.
  template <class F>
  void each(F&& f) {
    f(host);
  }

  // Shared by updates in the host's memory.
  Of<C, HostSpace> host;
};
// An object of a step for each memory space, for communicators that carry memory of a device as well.
template <CarriesDevice C, template <class, class> class Of>
struct BySpace<C, Of> {
  // Returns the object of the space of an update's variable.
  template <MemorySpace Space>
  auto& of() {
    if constexpr (std::same_as<Space, HostSpace>) return host;
    else return device;
  }
  // Calls f(host), then f(device), even if a step has no update there.
  template <class F>
  void each(F&& f) {
    f(host);
    f(device);
  }

  // Shared by updates in the host's memory.
  Of<C, HostSpace> host;
  // Shared by updates in the device's memory.
  Of<C, typename C::device_space> device;
};

namespace detail {

// Returns true if gradients of T can travel by the wire; if not, an assertion gives the reason.
template <class T, class Space, class W>
consteval bool check_dense_wire() {
  constexpr bool of_scalar = Wire<W, T>, in_reach = !encodes<W> || Space::host_readable;
  static_assert(of_scalar,
                "parallax: the wire of this policy's exchange<Dense> does not encode the variable's scalar: see Wire "
                "in comm/wire.hpp");
  static_assert(in_reach,
                "parallax: the wire of this policy's exchange<Dense> needs memory that the host reads: leave out the "
                "wire, or the memory space");
  return of_scalar && in_reach;
}

}  // namespace detail

// The wire of dense gradients of T under an exchange. If it cannot encode them an assertion gives the reason, and IdentityWire
// stands in.
template <class T, class Space, class E>
using dense_wire_of = std::conditional_t<detail::check_dense_wire<T, Space, wire_of<E>>(), wire_of<E>, IdentityWire>;

// A step's view of a bucket of any scalar, memory and wire, owned by Buckets. The phases are those of DenseBucket.
template <Communicator C>
class Bucket {
 public:
  // Takes the BucketOf's type, by which it is found again; `is_sharded` is `sharded`.
  Bucket(TypeTag its_type, bool is_sharded) : type{its_type}, sharded{is_sharded} {}
  virtual ~Bucket() = default;

  // Clears the bucket, local: before the updates of a flight are prepared, and if a flight turns out to have none because all
  // ranks have joined.
  virtual void clear() = 0;
  // Returns true if no update at hand has entered the bucket; then it takes part in no exchange.
  virtual bool empty() const = 0;
  // Local, allocates and may throw. Closes the bucket after all of the flight's updates have entered, before the agreement.
  virtual void close(Topology<C> const&, FusionOptions const&, Spread) = 0;
  // Reduces; polled after the agreement: true once every owner has its sums. Collective in the order of the lane, only polls;
  // throws the communicator's errors. So do the three functions below.
  virtual bool reduce(Lane<C>&) = 0;
  // Gathers the sums of replicated variables, collective; polled right after `reduce` until true, if nobody has to see them
  // before they spread.
  virtual bool gather_sums(Lane<C>&) = 0;
  // Gathers the gradients of replicated variables, collective; polled after the commit until true: all ranks have the sums.
  // Returns true at once if they have them.
  virtual bool gather_gradients(Lane<C>&) = 0;
  // Gathers the parameters of sharded variables, collective; polled after owners have applied their sums, until true: all ranks
  // have them.
  virtual bool gather_parameters(Lane<C>&) = 0;
  // Gives up whatever was in progress, local. Called as the flight closes, applied or refused.
  virtual void drop() = 0;

  TypeTag const type;  // of the bucket itself
  bool const sharded;  // parameters are gathered, else gradients
  bool taken = false;  // by an update of the step at hand
};

// The DenseBucket of one scalar, space and wire, behind the functions of Bucket. Made by `Buckets::of`, and the same from step
// to step.
template <class T, Communicator C, MemorySpace Space, Wire<T> W>
class BucketOf final : public Bucket<C> {
 public:
  // Makes an empty bucket. `is_sharded`: for variables that ranks keep in parts. Variables kept whole by all ranks have another
  // bucket.
  explicit BucketOf(bool is_sharded) : Bucket<C>{type_tag<BucketOf>(), is_sharded} {}

  void clear() override {
    this->taken = false;
    bucket.clear();
  }
  bool empty() const override { return bucket.empty(); }
  void close(Topology<C> const& topology, FusionOptions const& options, Spread spread) override {
    bucket.close(topology, options, this->sharded, spread);
  }
  bool reduce(Lane<C>& lane) override { return bucket.reduce(lane); }
  // Returns true at once if the wire encodes. Such sums are encoded once, after the mean and the user's transform, and gathered
  // after the commit: the bits are the same on any ranks.
  bool gather_sums(Lane<C>& lane) override {
    if constexpr (encodes<W>) return true;
    else return bucket.gather_sums(lane);
  }
  bool gather_gradients(Lane<C>& lane) override { return bucket.gather_gradients(lane); }
  bool gather_parameters(Lane<C>& lane) override { return bucket.gather_parameters(lane); }
  void drop() override { bucket.drop(); }

  // The bucket for the ways, to add to and to ask for their parts.
  DenseBucket<T, C, Space, W> bucket;
};

// The buckets of a flight, each made at its first use: code without a variable is not compiled. They are in the order of their
// use by the updates of a step, the same on every rank; empty ones are before them.
template <Communicator C>
class Buckets {
 public:
  // Local; may allocate. Returns the bucket for the gradient of an update at hand: by its scalar, space and wire, and apart for
  // sharded variables. Valid as long as the flight.
  template <class T, MemorySpace Space, bool sharded, class W = IdentityWire>
  DenseBucket<T, C, Space, W>& of() {
    using Mine = BucketOf<T, C, Space, W>;
    if (!last_ || !last_->taken || last_->type != type_tag<Mine>() || last_->sharded != sharded)
      last_ = &among(type_tag<Mine>(), sharded, [] { return Owned<Bucket<C>>{new Mine(sharded)}; });
    return static_cast<Mine&>(*last_).bucket;
  }
  // Returns all buckets, owned by this object, in the order of their turns on the flight's lane: the flight closes each.
  List<Owned<Bucket<C>>> const& all() const { return all_; }

 private:
  // Returns the bucket of a type, found, or made by `make`; if this step has not used it, puts it behind the used ones.
  Bucket<C>& among(TypeTag type, bool sharded, FunctionRef<Owned<Bucket<C>>()> make);

  List<Owned<Bucket<C>>> all_;
  Bucket<C>* last_ = nullptr;  // the last one asked for
};

template <Communicator C>
Bucket<C>& Buckets<C>::among(TypeTag type, bool sharded, FunctionRef<Owned<Bucket<C>>()> make) {
  std::size_t at = 0;
  while (at < all_.size() && (all_[at]->type != type || all_[at]->sharded != sharded)) ++at;
  if (at == all_.size()) all_.push_back(make());
  if (all_[at]->taken) return *all_[at];
  for (; at + 1 < all_.size(); ++at) std::swap(all_[at], all_[at + 1]);
  all_.back()->taken = true;
  return *all_.back();
}

// A step's findings in gradients in memory of one space: norms of clip groups, and elements that are not finite. One for each
// space of a flight, by BySpace.
template <class, class Space>
struct FindingsIn {
  // The space of the gradients; the flight looks by its queue.
  using space = Space;

  // Findings in the gradients of this rank, as the user gave them.
  Findings<Space> of_gradients, of_sums;  // in sums over ranks
};

}  // namespace parallax
