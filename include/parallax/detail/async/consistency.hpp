// The distance between workers: the content of a pull, and the time for pushes to become an update. An AsyncSession is made
// with one of these; users write their own like them. The room `async` trains without rounds in which all ranks meet.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/list.hpp"

namespace parallax::inline v0_2 {

// An owner's knowledge of the workers; a view. A worker's clock is the number of its pushes; infinite for one that has left.
struct Clocks {
  // By worker: number of its pushes that have come here.
  Slice<std::int64_t const> of;
  // The least of them.
  std::int64_t least = 0;
  // If the pushes of a clock are one update, the number of clocks in the parameters; else the number of pushes in them.
  std::int64_t committed = 0;
};

// A trivially copyable struct of numbers, the same on all ranks:
//   static constexpr std::string_view name    for messages
//   bool by_clock() const                     true: the pushes of one clock become one update together, in the order of ranks;
//                                             false: each is an update of its own, as it comes
//   bool may_read(std::int64_t clock, Clocks const& clocks) const    true if this owner may now answer a worker after so many
//                                             pushes; asked again after each push until it says yes
// Optional: `void check() const`, which throws Error (invalid_argument) for numbers that make no sense.
// Optional, by clock: `std::int64_t quorum(std::int64_t workers) const`, the number of pushes of a clock that make its update,
// of so many workers: 1 to `workers`. The first owner takes the first ones it hears, all others the same ones, and later ones
// were pushed in vain. Else all pushes make it.
template <class S>
concept Consistency = std::is_trivially_copyable_v<S> && requires(S const& rule, std::int64_t clock, Clocks const& clocks) {
  { S::name } -> std::convertible_to<std::string_view>;
  { rule.by_clock() } -> std::same_as<bool>;
  { rule.may_read(clock, clocks) } -> std::same_as<bool>;
};

// Asynchronous: every push is an update, and nobody waits for anybody (Dean et al., NIPS 2012).
struct Asp {
  // Name in messages.
  static constexpr std::string_view name = "Asp";
  // Returns false.
  bool by_clock() const { return false; }
  // Returns true.
  bool may_read(std::int64_t, Clocks const&) const { return true; }
};

// Stale synchronous parallel (Ho et al., NIPS 2013): a pull after c pushes sees all pushes of all workers but their last
// `staleness` ones before its own clock: those numbered below c - staleness. With 0 the pushes of a clock are one update, and
// the bits are those of a Session whose variables have PsShard.
struct Ssp {
  // Clocks, 0 or more.
  std::int64_t staleness = 0;

  // Name in messages.
  static constexpr std::string_view name = "Ssp";
  // Throws Error (invalid_argument) for less than no clock.
  void check() const {
    if (staleness < 0)
      throw Error{Errc::invalid_argument, -1, "AsyncSession", "", joined({"a staleness of ", staleness, " is less than 0"})};
  }
  // Returns true with staleness 0.
  bool by_clock() const { return staleness == 0; }
  // Returns true once the slowest worker has come near enough; with staleness 0, once its pushes are in the parameters.
  bool may_read(std::int64_t clock, Clocks const& clocks) const {
    return (by_clock() ? clocks.committed : clocks.least) >= clock - staleness;
  }
};

// Synchronous SGD with backup workers (Chen et al., ICLR 2016 workshop): the first pushes of a clock make its update, and those
// of the last `spares` workers are dropped. A late worker goes on with the clock read by its pull. Every pull is of one clock
// at all owners, and the bits are those of a Session of the workers whose pushes were taken.
struct Backup {
  // Workers, 0 or more, and fewer than train.
  std::int64_t spares = 1;

  // Name in messages.
  static constexpr std::string_view name = "Backup";
  // Throws Error (invalid_argument) for less than no worker.
  void check() const {
    if (spares < 0)
      throw Error{Errc::invalid_argument, -1, "AsyncSession", "", joined({spares, " spare workers are less than none"})};
  }
  // Returns true.
  bool by_clock() const { return true; }
  // Returns true once the update of the clock before is made.
  bool may_read(std::int64_t clock, Clocks const& clocks) const { return clocks.committed >= clock; }
  // Returns all but the spare ones.
  std::int64_t quorum(std::int64_t workers) const { return workers - spares; }
};

namespace detail {

// A user's or our own consistency, without its type, for an AsyncSession to keep. Members are those of the user's rule.
class ConsistencyRule {
 public:
  virtual ~ConsistencyRule() = default;
  virtual bool by_clock() const = 0;
  virtual bool may_read(std::int64_t clock, Clocks const& clocks) const = 0;
  // Returns the quorum of so many workers; none: all pushes of a clock make its update.
  virtual std::optional<std::int64_t> quorum(std::int64_t workers) const = 0;
  // Returns its name and settings; ranks compare them.
  virtual std::string text() const = 0;
};
template <Consistency S>
class ConsistencyOf final : public ConsistencyRule {
 public:
  explicit ConsistencyOf(S const& rule) : rule_{rule} {
    if constexpr (requires { rule.check(); }) rule.check();
  }
  bool by_clock() const override { return rule_.by_clock(); }
  bool may_read(std::int64_t clock, Clocks const& clocks) const override { return rule_.may_read(clock, clocks); }
  std::optional<std::int64_t> quorum(std::int64_t workers) const override {
    if constexpr (requires { rule_.quorum(workers); }) return rule_.quorum(workers);
    return std::nullopt;
  }
  std::string text() const override { return joined({S::name, fields_text(rule_)}); }

 private:
  S rule_;
};

}  // namespace detail
}  // namespace parallax
