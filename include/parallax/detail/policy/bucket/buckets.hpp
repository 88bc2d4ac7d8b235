// What a step has once for all its updates, by memory space: the buckets of dense gradients, sums that optimizers measure, and
// what is sought in gradients. A flight owns one of each, and the ways find in them what is theirs by their types.
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

// Something that a step has for each memory space in which its updates may be: Of<C, Space>, whose parameters are a
// Communicator and a MemorySpace. This one is for communicators that carry the host's memory only.
template <Communicator C, template <class, class> class Of>
struct BySpace {
  // The host's, whatever space is asked for: there is no other.
  template <MemorySpace>
  Of<C, HostSpace>& of() {
    return host;
  }
  // f(host): called by a flight, which starts and awaits its findings in every space.
  template <class F>
  void each(F&& f) {
    f(host);
  }

  // What updates in the host's memory share.
  Of<C, HostSpace> host;
};
// The same, for communicators that carry memory of a device as well.
template <CarriesDevice C, template <class, class> class Of>
struct BySpace<C, Of> {
  // That of the space where an update's variable lies.
  template <MemorySpace Space>
  auto& of() {
    if constexpr (std::same_as<Space, HostSpace>) return host;
    else return device;
  }
  // f(host), then f(device), even where a step has no update there.
  template <class F>
  void each(F&& f) {
    f(host);
    f(device);
  }

  // What updates in the host's memory share.
  Of<C, HostSpace> host;
  // What updates in the device's memory share.
  Of<C, typename C::device_space> device;
};

namespace detail {

// Whether gradients of T can travel as the wire has them; where not, an assertion says why.
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

// The wire of dense gradients of T under an exchange. Where it cannot encode them an assertion says why, and IdentityWire
// stands in.
template <class T, class Space, class E>
using dense_wire_of = std::conditional_t<detail::check_dense_wire<T, Space, wire_of<E>>(), wire_of<E>, IdentityWire>;

// What a step calls of a bucket, whatever its scalar, its memory and its wire. The phases are those of DenseBucket. `Buckets`
// owns them.
template <Communicator C>
class Bucket {
 public:
  // `its_type` is that of the BucketOf, by which it is found again; `is_sharded` is `sharded`.
  Bucket(TypeTag its_type, bool is_sharded) : type{its_type}, sharded{is_sharded} {}
  virtual ~Bucket() = default;

  // Local. Called before the updates of a flight are prepared, and where a flight turns out to have none because all ranks have
  // joined.
  virtual void clear() = 0;
  // Whether no update at hand has entered it; then it takes part in no exchange.
  virtual bool empty() const = 0;
  // Local, allocates and may throw. Called when the flight's updates have all entered, before the agreement.
  virtual void close(Topology<C> const&, FusionOptions const&, Spread) = 0;
  // Collective in the order of the lane. Polled after the agreement: every owner gets the sums of its parts.
  virtual bool reduce(Lane<C>&) = 0;
  // Collective likewise, of sums of replicated variables. Polled right after `reduce`, if nobody has to see them before they
  // spread.
  virtual bool gather_sums(Lane<C>&) = 0;
  // Collective likewise, of replicated variables. Polled after the commit: all ranks get the sums, unless they have them.
  virtual bool gather_gradients(Lane<C>&) = 0;
  // Collective likewise, of sharded variables. Polled after owners have applied their sums: all ranks get the parameters.
  virtual bool gather_parameters(Lane<C>&) = 0;
  // Local. Called as the flight closes, applied or refused: whatever was in progress is given up.
  virtual void drop() = 0;

  TypeTag const type;  // of the bucket itself
  bool const sharded;  // what is gathered are parameters, else gradients
  bool taken = false;  // by an update of the step at hand
};

// The DenseBucket of one scalar, space and wire, behind the functions of Bucket. Made by `Buckets::of`, and the same from step
// to step.
template <class T, Communicator C, MemorySpace Space, Wire<T> W>
class BucketOf final : public Bucket<C> {
 public:
  // `is_sharded`: of variables of which every rank keeps a part. Those that all ranks keep have another bucket.
  explicit BucketOf(bool is_sharded) : Bucket<C>{type_tag<BucketOf>(), is_sharded} {}

  // No segments, and no update of the step has taken it.
  void clear() override {
    this->taken = false;
    bucket.clear();
  }
  // Of the DenseBucket, in which every update of its kind has a segment.
  bool empty() const override { return bucket.empty(); }
  // Passes on whether sums are needed by their owners only.
  void close(Topology<C> const& topology, FusionOptions const& options, Spread spread) override {
    bucket.close(topology, options, this->sharded, spread);
  }
  // As DenseBucket::reduce.
  bool reduce(Lane<C>& lane) override { return bucket.reduce(lane); }
  // True at once where the wire encodes: such sums are gathered after the commit.
  bool gather_sums(Lane<C>& lane) override {
    // Sums are encoded once, after the mean and what the user makes of it: wherever ranks are, the bits are the same.
    if constexpr (encodes<W>) return true;
    else return bucket.gather_sums(lane);
  }
  // As DenseBucket::gather_gradients: of what the ways have left in the owned parts.
  bool gather_gradients(Lane<C>& lane) override { return bucket.gather_gradients(lane); }
  // As DenseBucket::gather_parameters: from and to the variables' own memory.
  bool gather_parameters(Lane<C>& lane) override { return bucket.gather_parameters(lane); }
  // As DenseBucket::drop; the segments stay until `clear`.
  void drop() override { bucket.drop(); }

  // What the ways add to, and ask for their parts.
  DenseBucket<T, C, Space, W> bucket;
};

// The buckets of a flight, each made when it is first needed: what no variable has is not compiled. They are in the order in
// which the updates of a step need them, which is the same on every rank; those that are empty are before them.
template <Communicator C>
class Buckets {
 public:
  // Local; may allocate. Where the gradient of an update at hand belongs: the bucket of its scalar, space and wire, and of
  // whether its variable is sharded. Valid as long as the flight.
  template <class T, MemorySpace Space, bool sharded, class W = IdentityWire>
  DenseBucket<T, C, Space, W>& of() {
    using Mine = BucketOf<T, C, Space, W>;
    if (!last_ || !last_->taken || last_->type != type_tag<Mine>() || last_->sharded != sharded)
      last_ = &among(type_tag<Mine>(), sharded, [] { return Owned<Bucket<C>>{new Mine(sharded)}; });
    return static_cast<Mine&>(*last_).bucket;
  }
  // For the flight, which closes each, and for its lane, on which they take turns in this order.
  List<Owned<Bucket<C>>> const& all() const { return all_; }

 private:
  // Finds the bucket, or makes it; one that no update of this step has taken yet goes behind those that have been.
  Bucket<C>& among(TypeTag type, bool sharded, FunctionRef<Owned<Bucket<C>>()> make);

  List<Owned<Bucket<C>>> all_;
  Bucket<C>* last_ = nullptr;  // that was asked for
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

// What a step seeks in gradients in memory of one space: norms of clip groups, and what is not finite. One for each space of a
// flight, by BySpace.
template <class, class Space>
struct FindingsIn {
  // Where the gradients are; the flight looks by this space's queue.
  using space = Space;

  // In the gradients of this rank, as they were brought.
  Findings<Space> of_gradients, of_sums;  // in what was summed over ranks
};

}  // namespace parallax
