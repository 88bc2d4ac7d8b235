// Buckets of dense gradients that travel encoded: what a step calls of them, whatever their wires.
#pragma once

#include <utility>

#include "parallax/core/pointer.hpp"
#include "parallax/core/type.hpp"
#include "parallax/policy/bucket/dense_bucket.hpp"
#include "parallax/policy/policy.hpp"

namespace parallax {

namespace detail {

// Whether gradients of T can travel as the wire has them; where not, an assertion says why.
template <class T, class Space, class W>
consteval bool check_dense_wire() {
  constexpr bool of_scalar = Wire<W, T>, in_reach = !encodes<W> || Space::host_readable;
  static_assert(of_scalar, "parallax: the wire of this policy's exchange<Dense> does not encode the variable's scalar: see Wire "
                           "in comm/wire.hpp");
  static_assert(in_reach, "parallax: the wire of this policy's exchange<Dense> needs memory that the host reads: leave out the "
                          "wire, or the memory space");
  return of_scalar && in_reach;
}

}  // namespace detail

// The wire of dense gradients of T under an exchange.
template <class T, class Space, class E>
using dense_wire_of = std::conditional_t<detail::check_dense_wire<T, Space, wire_of<E>>(), wire_of<E>, IdentityWire>;

// A bucket, whatever its wire, and those behind it. Each phase is that of all of them, one after the other. Where no variable has
// such a wire there is none, and nothing of them is compiled but the calls.
template <class C>
class EncodedBucket {
 public:
  explicit EncodedBucket(TypeTag its_type) : type{its_type} {}
  virtual ~EncodedBucket() = default;

  virtual void clear() = 0;
  virtual bool empty() const = 0;
  virtual void close(Topology<C> const&, FusionOptions const&, bool sharded, Spread) = 0;
  virtual bool reduce(Lane<C>&) = 0;
  // Sums are encoded once, after the mean and what the user makes of it: wherever ranks are, the bits are the same.
  bool gather_sums(Lane<C>&) const { return true; }
  virtual bool gather_gradients(Lane<C>&) = 0;
  virtual bool gather_parameters(Lane<C>&) = 0;
  virtual void drop() = 0;

  TypeTag const type;  // of the bucket itself
  Owned<EncodedBucket> next;
};

template <class T, class C, class Space, class W>
class EncodedBucketOf final : public EncodedBucket<C> {
  using EncodedBucket<C>::next;

 public:
  EncodedBucketOf() : EncodedBucket<C>{type_tag<EncodedBucketOf>()} {}

  void clear() override {
    bucket.clear();
    if (next) next->clear();
  }
  bool empty() const override { return bucket.empty() && (!next || next->empty()); }
  void close(Topology<C> const& topology, FusionOptions const& options, bool sharded, Spread spread) override {
    bucket.close(topology, options, sharded, spread);
    if (next) next->close(topology, options, sharded, spread);
  }
  bool reduce(Lane<C>& lane) override {
    return pass([&](auto& each) { return each.reduce(lane); });
  }
  bool gather_gradients(Lane<C>& lane) override {
    return pass([&](auto& each) { return each.gather_gradients(lane); });
  }
  bool gather_parameters(Lane<C>& lane) override {
    return pass([&](auto& each) { return each.gather_parameters(lane); });
  }
  void drop() override {
    passed_ = false;
    bucket.drop();
    if (next) next->drop();
  }

  DenseBucket<T, C, Space, W> bucket;

 private:
  template <class Phase>
  bool pass(Phase phase) {
    if (!passed_ && !bucket.empty() && !phase(bucket)) return false;
    passed_ = true;
    if (next && !phase(*next)) return false;
    passed_ = false;
    return true;
  }

  bool passed_ = false;  // in the phase that is under way
};

// Local; may allocate. The bucket that gets the gradient of an update at hand, made when it is first needed. Buckets are in the
// order in which the updates of a step need them, which is the same on every rank; those that are empty are before them.
template <class T, class Space, class W, class C>
DenseBucket<T, C, Space, W>& bucket_among(Owned<EncodedBucket<C>>& first) {
  using Mine = EncodedBucketOf<T, C, Space, W>;
  auto* at = &first;
  while (*at && (*at)->type != type_tag<Mine>()) at = &(*at)->next;
  if (*at && !static_cast<Mine&>(**at).bucket.empty()) return static_cast<Mine&>(**at).bucket;
  Owned<EncodedBucket<C>> mine = *at ? std::move(*at) : make_owned<Mine>();
  *at = std::move(mine->next);
  while (*at) at = &(*at)->next;
  *at = std::move(mine);
  return static_cast<Mine&>(**at).bucket;
}

}  // namespace parallax
