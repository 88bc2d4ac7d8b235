// A worker: pulls and pushes for the body of `AsyncSession::train`. The session makes one for each rank that trains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/detail/async/core.hpp"
#include "parallax/detail/async/shard_letters.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/session/pull.hpp"
#include "parallax/step/grad.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// Arguments of a worker's push: updates and ranges of them. An assertion for each refuses clip groups and transforms.
template <class U>
concept OneUpdate = is_update<U> && requires(U const& update) {
  update.function;
};
template <class U>
inline constexpr bool is_transformed = false;
template <OneUpdate U>
inline constexpr bool is_transformed<U> = transforms<decltype(U::function)>;
template <class U>
inline constexpr bool is_clip_group = false;
template <class... Updates>
inline constexpr bool is_clip_group<ClipGroup<Updates...>> = true;

}  // namespace detail

// The handle of a worker's pull: it owns the rows, with their age. `grad` takes it like a pull's.
template <class Handle>
class Aged : public Handle {
 public:
  Aged() = default;
  // Made by the worker, once all owners have answered.
  Aged(Handle handle, std::int64_t version, std::int64_t staleness)
      : Handle{std::move(handle)}, version_{version}, staleness_{staleness} {}

  // Returns the number of updates in the rows, at the owner with fewest: clocks, if pushes of one are an update, else pushes.
  std::int64_t version() const { return version_; }
  // Returns this worker's pushes ahead of the slowest one that still trains, as known to the owner furthest behind; 0: none.
  std::int64_t staleness() const { return staleness_; }

 private:
  std::int64_t version_ = 0, staleness_ = 0;
};

// One rank that trains, in an AsyncSession. Everything is local: an error in an argument is thrown here alone, before anything
// is sent, and the worker goes on. Error (timeout) names the rank that others wait for, and ends the session. C: the edge to
// the communicator.
template <Communicator C>
class Worker {
 public:
  // Made by `train`. Refers to the session's engine, which outlives it.
  explicit Worker(detail::AsyncCore<C>& core) : core_{&core} {}
  Worker(Worker const&) = delete;
  Worker& operator=(Worker const&) = delete;

  // Returns its number among the ranks that train, from 0: for shard, shard_block and shard_cyclic.
  int rank() const { return core_->worker(); }
  // Returns the number of ranks that train.
  int size() const { return core_->workers(); }
  // Returns the number of this worker's pushes so far, those of an earlier `train` included.
  std::int64_t clock() const { return core_->clock(); }

  // Asks the owners for rows, `table.at(ids)` or `table.bags(ids, offsets…)`, and for dense variables: their memory has the
  // owners' parts once this returns. Waits until the consistency lets each owner answer; meanwhile this rank serves. Returns
  // the handles of the tables, an Aged each, as a tuple if there are several; nothing if there is none. Errors: bad_id, as of a
  // Session's pull; invalid_argument for offsets of bags; misuse for a variable of another session.
  template <class... Arguments>
  auto pull(Arguments const&... arguments) {
    constexpr bool right = (true && ... && (detail::NamesRows<Arguments> || detail::DenseVariable<Arguments>));
    static_assert(right, "parallax: a worker pulls table.at(ids), table.bags(ids, offsets) and Dense variables");
    if constexpr (right) return pull_all(std::index_sequence_for<Arguments...>{}, arguments...);
    else return detail::Mistaken{};
  }
  // Pulls the rows `ids` of one table, as pull(variable.at(ids)).
  template <detail::SparseVariable V, class Ids>
    requires(!detail::AnyVariable<Ids> && !detail::NamesRows<Ids>)
  auto pull(V const& variable, Ids const& ids) { return pull(variable.at(ids)); }

  // Brings the owners gradients, and ends a clock: grad(…), and ranges of them (px::Updates), of each variable once. They are
  // sent, or copied, when it returns. False: a gradient is not finite, NonFinite::skip_step, and the clock ends without any.
  // Errors, after which the clock has not ended: invalid_argument, bad_id, non_finite, misuse.
  template <class... Updates>
  bool push(Updates const&... updates) {
    static_assert((true && ... && !detail::is_clip_group<Updates>),
                  "parallax: a norm over all ranks is known to none of them alone: an AsyncSession has no clip_by_global_norm");
    static_assert((true && ... && (detail::OneUpdate<detail::update_in<Updates>> || detail::is_clip_group<Updates>)),
                  "parallax: a worker pushes grad(...), of each variable once, and ranges of grad(...)");
    static_assert((true && ... && !detail::is_transformed<detail::update_in<Updates>>),
                  "parallax: a transform is called with the sum of all ranks, at its owner: an AsyncSession has none");
    if constexpr ((true && ... &&
                   (detail::OneUpdate<detail::update_in<Updates>> && !detail::is_transformed<detail::update_in<Updates>>)))
      return push_all(std::index_sequence_for<Updates...>{}, updates...);
    else return false;
  }

  // Lets this rank's share serve others, without a wait: between layers, if every rank owns rows. An error ends the session.
  void poll() {
    core_->core().waiting.guarded("poll", [&] { core_->serve(); });
  }

 private:
  // Returns the state behind an argument of a pull, not owned here.
  template <detail::DenseVariable V>
  static auto& state_of(V const& variable) {
    return variable.state();
  }
  template <detail::NamesRows Indices>
  static auto& state_of(Indices const& indices) {
    return *indices.state;
  }
  // The policy's form of the arguments of a pull and a push.
  template <class State>
  using Letters = typename State::policy::template letters<typename State::kind>;
  template <class Argument>
  using Asks =
      typename Letters<std::remove_cvref_t<decltype(state_of(std::declval<Argument const&>()))>>::template Asks<C, Argument>;
  template <class Update>
  using Brings = typename Letters<typename Update::State>::template Brings<C, Update>;
  // The letters' parts of an argument of a push: one, or as many as the range has. Owns them.
  template <class Argument>
  using Seats = std::vector<Owned<Brings<detail::update_in<Argument>>>>;

  // Runs `body`, before anything is sent. Throws its error as a Refused: the session goes on.
  template <class Body>
  void prepare(char const* operation, Body&& body) {
    try {
      body();
    } catch (...) {
      throw detail::Refused{current_error(core_->core().topology.rank(), operation, core_->core().waiting.current)};
    }
  }

  template <std::size_t... Nth, class... Arguments>
  auto pull_all(std::index_sequence<Nth...>, Arguments const&... arguments) {
    return core_->guarded(Operation::pull, [&] {
      auto const& topology = core_->core().topology;
      std::tuple<std::optional<Asks<Arguments>>...> seats;
      prepare("pull", [&] {
        [[maybe_unused]] auto const one = [&](auto& seat, auto const& argument) {
          auto& state = state_of(argument);
          core_->core().waiting.current = state.name();
          auto const number = core_->keeper_of(state.registration(), "pull").number;
          seat.emplace(topology, argument);
          seat->variable = number;
        };
        (one(std::get<Nth>(seats), arguments), ...);
      });
      Asked* const asked[] = {&*std::get<Nth>(seats)..., nullptr};
      auto const answered = core_->ask({asked, sizeof...(Nth)});
      auto const behind = std::max<std::int64_t>(0, core_->clock() - answered.least);
      auto handles = std::tuple_cat(handle_of(*std::get<Nth>(seats), answered.version, behind)...);
      if constexpr (std::tuple_size_v<decltype(handles)> == 1) return std::get<0>(std::move(handles));
      else if constexpr (std::tuple_size_v<decltype(handles)> > 1) return handles;
    });
  }
  template <class Seat>
  static auto handle_of(Seat& seat, std::int64_t version, std::int64_t behind) {
    if constexpr (requires { seat.finish(); }) return std::tuple{Aged{seat.finish(), version, behind}};
    else return std::tuple<>{};
  }

  template <std::size_t... Nth, class... Arguments>
  bool push_all(std::index_sequence<Nth...>, Arguments const&... arguments) {
    return core_->guarded(Operation::push, [&] {
      bool finite = true;
      std::tuple<Seats<Arguments>...> seats;
      std::vector<Brought*> brought;
      prepare("push", [&] { (bring_all(std::get<Nth>(seats), arguments, brought, finite), ...); });
      core_->bring({brought.data(), finite ? brought.size() : 0});
      return finite;
    });
  }
  // Makes the letters' part of an argument, and enters it in `brought`. Clears `finite` for one left out. Throws Error.
  template <class Argument>
  void bring_all(Seats<Argument>& seats, Argument const& argument, std::vector<Brought*>& brought, bool& finite) {
    auto const bring = [&](auto const& update) {
      if (!update.state) throw refusal("a gradient is of an empty handle, whose rows were moved or never pulled");
      core_->core().waiting.current = update.state->name();
      seats.push_back(
          make_owned<Brings<detail::update_in<Argument>>>(core_->core().topology, update, core_->options.non_finite));
      auto& seat = *seats.back();
      seat.variable = core_->keeper_of(update.state->registration(), "push").number;
      for (Brought const* const other : brought)
        if (other->variable == seat.variable) throw refusal("a push brings a variable twice: it has each once");
      brought.push_back(&seat);
      finite = finite && seat.finite;
    };
    if constexpr (UpdateRange<Argument>)
      for (auto const& update : argument) bring(update);
    else bring(argument);
  }
  Error refusal(char const* why) const { return {Errc::misuse, core_->core().topology.rank(), "push", "", why}; }

  detail::AsyncCore<C>* core_;
};

}  // namespace parallax
