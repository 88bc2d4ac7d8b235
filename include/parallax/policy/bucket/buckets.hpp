// What a step has once for all its updates, by memory space: the buckets of dense gradients, sums that optimizers measure, and
// what is sought in gradients.
#pragma once

#include <concepts>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/core/function_ref.hpp"
#include "parallax/core/pointer.hpp"
#include "parallax/core/type.hpp"
#include "parallax/kernel/findings.hpp"
#include "parallax/policy/bucket/dense_bucket.hpp"
#include "parallax/policy/bucket/measured.hpp"
#include "parallax/policy/policy.hpp"

namespace parallax {

// Something that a step has for each memory space in which its updates may be: Of<C, Space>, whose parameters are a
// Communicator and a MemorySpace.
template <Communicator C, template <class, class> class Of>
struct BySpace {
  template <MemorySpace>
  Of<C, HostSpace>& of() {
    return host;
  }
  template <class F>
  void each(F&& f) {
    f(host);
  }

  Of<C, HostSpace> host;
};
template <CarriesDevice C, template <class, class> class Of>
struct BySpace<C, Of> {
  template <MemorySpace Space>
  auto& of() {
    if constexpr (std::same_as<Space, HostSpace>) return host;
    else return device;
  }
  template <class F>
  void each(F&& f) {
    f(host);
    f(device);
  }

  Of<C, HostSpace> host;
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

// The wire of dense gradients of T under an exchange.
template <class T, class Space, class E>
using dense_wire_of = std::conditional_t<detail::check_dense_wire<T, Space, wire_of<E>>(), wire_of<E>, IdentityWire>;

// What a step calls of a bucket, whatever its scalar, its memory and its wire. The phases are those of DenseBucket.
template <Communicator C>
class Bucket {
 public:
  Bucket(TypeTag its_type, bool is_sharded) : type{its_type}, sharded{is_sharded} {}
  virtual ~Bucket() = default;

  virtual void clear() = 0;
  virtual bool empty() const = 0;
  virtual void close(Topology<C> const&, FusionOptions const&, Spread) = 0;
  virtual bool reduce(Lane<C>&) = 0;
  virtual bool gather_sums(Lane<C>&) = 0;
  virtual bool gather_gradients(Lane<C>&) = 0;
  virtual bool gather_parameters(Lane<C>&) = 0;
  virtual void drop() = 0;

  TypeTag const type;  // of the bucket itself
  bool const sharded;  // what is gathered are parameters, else gradients
  bool taken = false;  // by an update of the step at hand
};

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
class BucketOf final : public Bucket<C> {
 public:
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
  bool gather_sums(Lane<C>& lane) override {
    // Sums are encoded once, after the mean and what the user makes of it: wherever ranks are, the bits are the same.
    if constexpr (encodes<W>) return true;
    else return bucket.gather_sums(lane);
  }
  bool gather_gradients(Lane<C>& lane) override { return bucket.gather_gradients(lane); }
  bool gather_parameters(Lane<C>& lane) override { return bucket.gather_parameters(lane); }
  void drop() override { bucket.drop(); }

  DenseBucket<T, C, Space, W> bucket;
};

// The buckets of a flight, each made when it is first needed: what no variable has is not compiled. They are in the order in which
// the updates of a step need them, which is the same on every rank; those that are empty are before them.
template <Communicator C>
class Buckets {
 public:
  // Local; may allocate. Where the gradient of an update at hand belongs.
  template <class T, MemorySpace Space, bool sharded, class W = IdentityWire>
  DenseBucket<T, C, Space, W>& of() {
    using Mine = BucketOf<T, C, Space, W>;
    if (!last_ || !last_->taken || last_->type != type_tag<Mine>() || last_->sharded != sharded)
      last_ = &among(type_tag<Mine>(), sharded, [] { return Owned<Bucket<C>>{new Mine(sharded)}; });
    return static_cast<Mine&>(*last_).bucket;
  }
  std::vector<Owned<Bucket<C>>> const& all() const { return all_; }

 private:
  Bucket<C>& among(TypeTag type, bool sharded, FunctionRef<Owned<Bucket<C>>()> make);

  std::vector<Owned<Bucket<C>>> all_;
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

template <class, class Space>
struct FindingsIn {
  using space = Space;

  Findings<Space> of_gradients, of_sums;  // as they were brought, and summed over ranks
};

}  // namespace parallax
