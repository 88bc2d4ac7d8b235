// How far apart workers may be: what a pull may read, and when pushes become an update. An AsyncSession is made with one of
// these; users write their own like them. The room `async` trains without rounds in which all ranks meet.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/slice.hpp"

namespace parallax::inline v0_2 {

// What an owner knows of the workers. A worker's clock is the number of its pushes; that of a worker that has left counts as
// infinite.
struct Clocks {
  // By worker: how many of its pushes have come here.
  Slice<std::int64_t const> of;
  // The least of them.
  std::int64_t least = 0;
  // By clock: the clocks all of whose pushes are in the parameters. Else how many pushes are.
  std::int64_t committed = 0;
};

// A trivially copyable struct of numbers, the same on all ranks:
//   static constexpr std::string_view name    as messages call it
//   bool by_clock() const                     whether the pushes of one clock become one update together, in the order of ranks;
//                                             else each is an update of its own, as it comes
//   bool may_read(std::int64_t clock, Clocks const& clocks) const    whether a worker that has pushed so often may be answered by
//                                             this owner now; asked again after each push until it says yes
// Optional: `void check() const`, which throws Error (invalid_argument) for numbers that make no sense.
// Optional, by clock: `std::int64_t quorum(std::int64_t workers) const`, how many pushes of a clock make its update, where so many
// train: 1 to `workers`. The first owner takes the first ones that it hears, all others the same ones, and who comes later has
// pushed in vain. Else all pushes make it.
template <class S>
concept Consistency = std::is_trivially_copyable_v<S> && requires(S const& rule, std::int64_t clock, Clocks const& clocks) {
  { S::name } -> std::convertible_to<std::string_view>;
  { rule.by_clock() } -> std::same_as<bool>;
  { rule.may_read(clock, clocks) } -> std::same_as<bool>;
};

// Asynchronous: every push is an update, and nobody waits for anybody (Dean et al., NIPS 2012).
struct Asp {
  // As messages call it.
  static constexpr std::string_view name = "Asp";
  // Never.
  bool by_clock() const { return false; }
  // Always.
  bool may_read(std::int64_t, Clocks const&) const { return true; }
};

// Stale synchronous parallel (Ho et al., NIPS 2013): whoever pulls after c pushes sees all pushes of all workers but their last
// `staleness` ones before its own clock: those numbered below c - staleness. With 0 the pushes of a clock are one update, and the
// bits are those of a Session whose variables have PsShard.
struct Ssp {
  // Clocks, 0 or more.
  std::int64_t staleness = 0;

  // As messages call it.
  static constexpr std::string_view name = "Ssp";
  // Error (invalid_argument) for less than no clock.
  void check() const {
    if (staleness < 0)
      throw Error{Errc::invalid_argument, -1, "AsyncSession", "", joined({"a staleness of ", staleness, " is less than 0"})};
  }
  // With staleness 0.
  bool by_clock() const { return staleness == 0; }
  // Once the slowest worker is near enough, by clock once all of it is in the parameters.
  bool may_read(std::int64_t clock, Clocks const& clocks) const {
    return (by_clock() ? clocks.committed : clocks.least) >= clock - staleness;
  }
};

// Synchronous SGD with backup workers (Chen et al., ICLR 2016 workshop): the first pushes of a clock make its update, and those of the
// last `spares` workers are dropped. A worker that is late goes on with the clock that it reads. Whatever is pulled is of one
// clock at all owners, and the bits are those of a Session of the workers whose pushes were taken.
struct Backup {
  // Workers, 0 or more, and fewer than train.
  std::int64_t spares = 1;

  // As messages call it.
  static constexpr std::string_view name = "Backup";
  // Error (invalid_argument) for less than no worker.
  void check() const {
    if (spares < 0)
      throw Error{Errc::invalid_argument, -1, "AsyncSession", "", joined({spares, " spare workers are less than none"})};
  }
  // Always.
  bool by_clock() const { return true; }
  // Once the update of the clock before is made.
  bool may_read(std::int64_t clock, Clocks const& clocks) const { return clocks.committed >= clock; }
  // All but the spare ones.
  std::int64_t quorum(std::int64_t workers) const { return workers - spares; }
};

namespace detail {

// A user's or our own consistency, without its type: what an AsyncSession keeps.
class ConsistencyRule {
 public:
  virtual ~ConsistencyRule() = default;
  virtual bool by_clock() const = 0;
  virtual bool may_read(std::int64_t clock, Clocks const& clocks) const = 0;
  // Of so many workers; none: all pushes of a clock make its update.
  virtual std::optional<std::int64_t> quorum(std::int64_t workers) const = 0;
  // Its name and settings, which ranks compare.
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
