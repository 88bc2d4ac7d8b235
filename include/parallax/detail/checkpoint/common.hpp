// The common parts of saving and restoring, called by both: errors of all ranks, and bytes that ranks give each other.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/detail/checkpoint/manifest.hpp"
#include "parallax/detail/checkpoint/options.hpp"
#include "parallax/detail/session/visit.hpp"
#include "parallax/session/session.hpp"

namespace parallax::inline v0_2::detail {

// Local. Runs `body`. Returns its exception as `current_error` does, a FormatError as Errc::file; nothing if none was thrown.
template <class Body>
std::optional<Error> caught(int rank, char const* operation, Body&& body, std::string_view variable = {}) {
  try {
    try {
      body();
    } catch (FormatError const& error) {
      throw Error{Errc::file, rank, operation, variable, error.what()};
    }
  } catch (...) {
    return current_error(rank, operation, variable);
  }
  return std::nullopt;
}

// Collective, and waits. Tells all ranks these words, equally many on each. Returns all words, by rank, valid until the next
// call. Throws Error (timeout) past the deadline, which ends the session; so does every function here that waits.
template <Communicator C>
List<double> const& told_by_all(SessionCore<C>& core, char const* operation, std::initializer_list<double> words) {
  core.rounds.words.assign(words.begin(), words.end());
  core.rounds.tell_all(operation, [] { return std::string{}; });
  return core.rounds.all_told();
}

// Collective, and waits. Tells all ranks this rank's success so far, or its `error`. If any rank has one, all throw it: as a
// Refused, or, with `ends`, as an Error that ends the session.
template <Communicator C>
void agree_so_far(SessionCore<C>& core, char const* operation, std::optional<Error> const& error, bool ends = false) {
  for (double const right : told_by_all(core, operation, {error ? 0.0 : 1.0})) {
    if (right != 0) continue;
    Error const agreed = core.rounds.explain(operation, error ? &*error : nullptr, "");
    if (ends) throw agreed;
    throw Refused{agreed};
  }
}

// Collective, and waits. Runs `body` on every rank. If it throws on one, all throw its error, as a Refused.
template <Communicator C, class Body>
void on_all(SessionCore<C>& core, char const* operation, Body&& body) {
  agree_so_far(core, operation, caught(core.topology.rank(), operation, body));
}

// Collective, and waits. Begins an operation on a checkpoint, once rows on their way are here. Throws Refused on all ranks if
// `text`, the operation in words, is not the same on all (mismatch), or if `check` throws on one.
template <Communicator C, class Check>
void begin_checkpoint(SessionCore<C>& core, Operation operation, std::string const& text, Check&& check) {
  char const* const word = to_string(operation).data();
  core.await_rows(word);
  std::optional<Error> const error = caught(core.topology.rank(), word, [&] {
    core.check_late(word);
    check();
  });
  Fingerprint hash = core.begin(operation);
  hash.add(std::string_view{text});
  core.rounds.agreement.begin(hash.value(), !error, core.joined, 0);
  core.rounds.agree(
      word, error, [] { return std::string{}; }, [&] { return text + '\n'; });
}

// Returns `seconds`, at most 1e9, as a duration: the time beyond the deadline for which ranks wait for one at its files.
inline std::chrono::nanoseconds patience(double seconds) {
  return std::chrono::nanoseconds{static_cast<std::int64_t>(std::min(seconds, 1e9) * 1e9)};
}

// Collective, and waits. Sends each rank r `sizes[r]` bytes of `out`, from byte `offsets[r]` on. Receives `expected[r]` bytes
// from it, into `in`, in the order of ranks; `in` only grows. Bytes for this rank itself do not travel, and are not in `in`.
template <Communicator C>
void swap_bytes(SessionCore<C>& core, char const* operation, std::span<std::byte const> out,
                std::span<std::uint64_t const> offsets, std::span<std::uint64_t const> sizes,
                std::span<std::uint64_t const> expected, std::vector<std::byte>& in) {
  Lane<C>& lane = core.dense;
  lane.clear();
  std::size_t at = 0;
  for (int rank = 0; rank < core.topology.size(); ++rank) {
    auto const r = static_cast<std::size_t>(rank);
    if (rank == core.topology.rank()) continue;
    if (sizes[r]) lane.send(rank, static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(sizes[r]), Payload::rows);
    if (expected[r]) lane.expect(rank, at, static_cast<std::size_t>(expected[r]), Payload::rows);
    at += static_cast<std::size_t>(expected[r]);
  }
  if (in.size() < at) in.resize(at);
  auto const names = [] { return std::string{}; };
  lane.post(out.data(), in.data());
  core.waiting.drive(operation, [&] { return lane.test(); }, {lane, names});
}

// Rows to be sent to one rank. Owns them. `words`: their places there, a word each, or of three and more in a row two words,
// minus their number and the first. `rows`: their bytes, in the same order.
struct Bundle {
  void clear() { words.clear(), rows.clear(); }
  void add(std::int64_t first, std::int64_t count, std::span<std::byte const> those) {
    if (count > 2) words.push_back(-count), words.push_back(first);
    else
      for (std::int64_t i = 0; i < count; ++i) words.push_back(first + i);
    rows.insert(rows.end(), those.begin(), those.end());
  }
  std::size_t size() const { return words.size() * sizeof(std::int64_t) + rows.size(); }

  std::vector<std::int64_t> words;
  std::vector<std::byte> rows;
};

// Collective, and waits. Returns all ranks' `mine`, by rank, at rank 0 or, with `to_all`, everywhere; else this rank's alone.
template <Communicator C>
std::vector<std::vector<std::byte>> gathered_bytes(SessionCore<C>& core, char const* operation, std::span<std::byte const> mine,
                                                   bool to_all = false) {
  auto const ranks = static_cast<std::size_t>(core.topology.size());
  auto const own = static_cast<std::size_t>(core.topology.rank());
  auto const& told = told_by_all(core, operation, {static_cast<double>(mine.size())});
  std::vector<std::uint64_t> offsets(ranks), sizes(ranks), expected(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (to_all || rank == 0) sizes[rank] = mine.size();
    if (to_all || own == 0) expected[rank] = static_cast<std::uint64_t>(told[rank]);
  }
  std::vector<std::byte> in;
  swap_bytes(core, operation, mine, offsets, sizes, expected, in);
  std::vector<std::vector<std::byte>> all(ranks);
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == own) {
      all[rank].assign(mine.begin(), mine.end());
      continue;
    }
    auto const size = static_cast<std::size_t>(expected[rank]);
    all[rank].assign(in.begin() + static_cast<std::ptrdiff_t>(at), in.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return all;
}

// An archive for a value with items of its own: shows them to `archive` as NAME/ITEM, shared like the value. Refers to both.
template <Archive A>
class ValueArchive {
 public:
  static constexpr bool reads = A::reads;

  ValueArchive(A& archive, std::string_view name, Share share) : archive_{&archive}, name_{name}, share_{share} {}

  void item(Item const& item, std::span<std::byte> bytes) {
    std::string const name = joined({name_, "/", item.name});
    Item shown = item;
    shown.name = name, shown.share = share_;
    archive_->item(shown, bytes);
  }

 private:
  A* archive_;
  std::string_view name_;
  Share share_;
};

// Shows an archive a value of the trainer, its items named "value.NAME…": see shared_value. Throws the archive's errors.
template <Archive A, class T>
void visit_value(A& archive, SavedValue<T> const& value) {
  Items<A> items{archive, ""};
  std::string const name = joined({"value.", value.name});
  T& held = *value.value;
  ValueArchive<A> of_value{archive, name, value.share};
  Items<ValueArchive<A>> its_items{of_value, ""};
  if constexpr (requires { held.visit(its_items); }) held.visit(its_items);
  else if constexpr (std::same_as<T, std::string>) items.text(name, held, value.share);
  else if constexpr (requires {
                       typename T::allocator_type;
                       held.size();
                     })
    items.list(name, held, {}, value.share);
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) items.number(name, held, value.share);
  else items.fields(name, held, value.share);
}

// Shows an archive the session, then all things of a checkpoint, in their order. Collective if the archive's `item` is.
template <Communicator C, Archive A, class... Things>
void visit_things(SessionCore<C>& core, A& archive, Things&... things) {
  visit_session(core, archive);
  auto const one = [&](auto& thing) {
    if constexpr (AnyVariable<std::remove_cvref_t<decltype(thing)>>) thing.visit(archive);
    else visit_value(archive, thing);
  };
  (each_of(things, one), ...);
}

// The work of a save or a restore of things, but for `work` itself, which CheckpointWork<operation> has.
template <Operation operation, class Result, class Options>
struct WorkOnThings {
  // Collective, and waits. Returns the result of `work`. Throws its Refused as an Error; anything else thrown ends the session.
  template <class S, class... Things>
  static Result run(S& session, std::string const& directory, Options const& options, Things&... things) {
    if constexpr (check_saved<Things...>())
      return session.core().waiting.guarded(to_string(operation).data(), [&] {
        return CheckpointWork<operation>::work(session.core(), directory, options, things...);
      });
    else return {};
  }
};

// Local. Checks the things of a checkpoint. Throws Error (misuse) if an update is started, if a variable is not the session's
// or is named twice, if two values have one name, or, unless `some`, if a variable of the session is missing.
template <Communicator C, class... Things>
void check_things(SessionCore<C> const& core, char const* operation, bool some, Things&... things) {
  auto const refuse = [&](std::string const& name, char const* why) {
    throw Error{Errc::misuse, core.topology.rank(), operation, name, why};
  };
  if (core.flights.any_started())
    refuse(core.flights.started().front()->names(), "updates were started and no step completed them");
  std::vector<void const*> named;
  std::vector<std::string_view> values;
  auto const one = [&](auto const& thing) {
    if constexpr (AnyVariable<std::remove_cvref_t<decltype(thing)>>) {
      core.check_owned(thing.state(), operation);
      void const* const registration = thing.state().registration().get();
      for (void const* const other : named)
        if (other == registration) refuse(thing.name(), "it is named twice");
      named.push_back(registration);
    } else {
      for (std::string_view const other : values)
        if (other == thing.name) refuse(std::string{thing.name}, "two values have this name");
      values.push_back(thing.name);
    }
  };
  (each_of(things, one), ...);
  for (auto const& known : core.registry.variables()) {
    bool found = some || known->gone;
    for (void const* const registration : named) found = found || registration == known.get();
    if (!found) refuse(known->name, "it is not among the variables of the checkpoint");
  }
}

}  // namespace parallax::detail
