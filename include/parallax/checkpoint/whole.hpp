// `Session::gather` and `Session::scatter`: whole tables, layers and slots, out of a session and into it, some rows a call.
// Trainers that call them include this header; the session calls `CheckpointWork::run`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/common.hpp"
#include "parallax/detail/core/checksum.hpp"
#include "parallax/detail/core/math.hpp"
#include "parallax/detail/transfer/dense.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// The rows of a variable, or of a slot: this rank's, packed from `here` on, and the places of all others. Owns nothing.
template <class S, MemorySpace Space>
struct WholeItem {
  RowOps<Space> ops;
  S* here;
  std::int64_t rows, width;  // of all ranks together; elements of a row
  std::int64_t count;        // rows here
  bool dealt;                // each row to one owner; else every rank has all, row i is its row i
  FunctionRef<RowPlace(std::int64_t)> where;
  FunctionRef<std::int64_t(std::int64_t)> number;  // of a row here
};

// Local. Calls f with the item named by `slot` (empty: the values), all of its rows settled. Throws Error (invalid_argument)
// for an unknown slot, with the names of the known ones; and the exceptions of f.
template <Communicator C, class State, class F>
void with_whole_item(SessionCore<C>& core, State& state, std::string const& slot, char const* operation, F const& f) {
  using T = typename State::scalar_type;
  using O = typename State::optimizer_type;
  using Space = typename State::space;
  constexpr bool dense = std::same_as<typename State::kind, Dense>;
  auto const show = [&]<class S>(S* here, std::int64_t width, [[maybe_unused]] bool of_slot) {
    if constexpr (dense) {
      std::size_t const rows = state.size() / state.unit();
      int const owner = core.topology.owner(), owners = core.topology.owners();
      bool const dealt = State::sharded && of_slot;
      auto const begin = [&](int of) { return static_cast<std::int64_t>(part_begin(rows, of, owners)); };
      std::int64_t const first = !dealt || owner < 0 ? 0 : begin(owner);
      std::int64_t const end = !dealt ? static_cast<std::int64_t>(rows) : owner < 0 ? 0 : begin(owner + 1);
      auto const number = [&](std::int64_t local) { return first + local; };
      auto const where = [&](std::int64_t row) {
        int low = 0;
        for (int high = owners; high - low > 1;) (begin((low + high) / 2) <= row ? low : high) = (low + high) / 2;
        return RowPlace{low, row - begin(low)};
      };
      f(WholeItem<S, Space>{state.ops(), here, static_cast<std::int64_t>(rows), width, end - first, dealt, where, number});
    } else {
      auto const number = [&](std::int64_t local) { return state.global_row(local); };
      auto const where = [&](std::int64_t row) {
        auto const at = state.placement().layout().locate(row);
        return RowPlace{at.owner, at.local};
      };
      f(WholeItem<S, Space>{state.ops(), here, state.rows(), width, state.local_rows(), state.shards(), where, number});
    }
  };
  std::int64_t width;
  if constexpr (dense) width = static_cast<std::int64_t>(state.unit());
  else width = state.width();
  if (slot.empty()) {
    if constexpr (dense) return show(state.values().data(), width, false);
    else return show(state.local().data, width, false);
  }
  bool found = false;
  std::string known;
  auto const look = [&]<class S>(std::type_identity<S>, std::string const& name, std::int64_t of_row) {
    (known += known.empty() ? "" : ", ") += name;
    if (found || name != slot) return;
    found = true;
    if constexpr (dense) show(state.template slot<S>(slot).data(), of_row, true);
    else show(state.template slot<S>(slot).data, of_row, true);
  };
  [&]<class... E, class... R>(std::type_identity<slot_types<E...>>, std::type_identity<slot_types<R...>>) {
    [[maybe_unused]] std::size_t element = 0, row = 0;
    (look(std::type_identity<slot_type<E, T>>{}, slot_name<O>(element++), width), ...);
    (look(std::type_identity<slot_type<R, T>>{}, row_slot_name<O>(row++), 1), ...);
  }(std::type_identity<typename O::element_slots>{}, std::type_identity<row_slots<O>>{});
  if (found) return;
  throw Error{Errc::invalid_argument, core.topology.rank(), operation, state.name(),
              joined({optimizer_name<O>(), " has no slot '", slot, "'; its slots: ", known.empty() ? "none" : known})};
}

// One gather or scatter of an item, after the ranks have agreed on it. All ranks go through the same rounds: in each they tell
// all of their success so far, and rows travel to receivers without them. Senders and receivers follow from the places of rows,
// so that no numbers travel: every rank looks up the owner of every row taken by itself or by others. Refers to core and name.
template <bool gathers, Communicator C, class S, MemorySpace Space>
class WholeRows {
 public:
  using Numbers = std::span<std::int64_t const>;

  WholeRows(SessionCore<C>& core, std::string const& name, WholeOptions const& options, WholeItem<S, Space> const& item)
      : core_{&core},
        name_{&name},
        at_{options.at},
        item_{item},
        ranks_{core.topology.size()},
        rank_{core.topology.rank()},
        row_bytes_{static_cast<std::size_t>(item.width) * sizeof(S)} {
    by_holders_ = !gathers && (at_ == WholeAt::every_rank || (at_ == WholeAt::parts && item.dealt));
    travels_ = gathers ? item.dealt : !by_holders_;
    auto const row = static_cast<std::int64_t>(row_bytes_ + 2 * sizeof(std::int64_t));  // its number, and its place
    at_once_ = options.call_bytes / row / (travels_ && at_ == WholeAt::parts ? ranks_ : 1);
    at_once_ = std::max<std::int64_t>(1, std::min(at_once_, item.rows));
  }

  // Collective, and waits. Calls `take` as WholeOptions says. Throws an exception of one rank's `take` on all, as a Refused.
  void gather(FunctionRef<void(Numbers, RowsView<S const>)> take) {
    std::optional<Error> error = attempt([&] { make_room(); });
    for (std::int64_t round = 0; round < rounds(); ++round) {
      agree(error);
      Window const mine = window(rank_, round);
      S const* rows = whole_.data();
      if (travels_) collect(round, mine);
      else if constexpr (on_host) rows = item_.here + mine.first * item_.width;
      else if (mine.count > 0) item_.ops.to_host(whole_.data(), item_.here + mine.first * item_.width, elements(mine.count));
      if (mine.count > 0) error = attempt([&] { take(numbered(mine), {rows, mine.count, item_.width}); });
    }
    agree(error);
  }
  // Collective, and waits. Calls `give`, and throws as `gather`: rows of earlier rounds have been set then, on all holders.
  void scatter(FunctionRef<void(Numbers, RowsView<S>)> give) {
    std::optional<Error> error = attempt([&] { make_room(); });
    if (by_holders_) return set_own(error, give);
    for (std::int64_t round = 0; round < rounds(); ++round) {
      Window const mine = window(rank_, round);
      if (mine.count > 0 && !error) error = attempt([&] { give(numbered(mine), {whole_.data(), mine.count, item_.width}); });
      agree(error);
      if (item_.dealt) deal(window(0, round));
      else spread(round, mine);
    }
    if (rounds() == 0) agree(error);
  }

 private:
  static constexpr char const* operation = to_string(gathers ? Operation::gather : Operation::scatter).data();
  static constexpr bool on_host = Space::host_readable;
  // Rows taken or given by a rank in a round: they ascend by one.
  struct Window {
    std::int64_t first, count;
  };

  std::size_t elements(std::int64_t of_rows) const { return static_cast<std::size_t>(of_rows * item_.width); }
  template <class Body>
  std::optional<Error> attempt(Body&& body) const {
    return caught(rank_, operation, body, *name_);
  }
  // Allocates all that a rank will ever need, so that memory fails before anything has been done.
  void make_room() {
    auto const most = static_cast<std::size_t>(at_once_), row = static_cast<std::size_t>(item_.width);
    std::size_t const all = at_ == WholeAt::parts ? static_cast<std::size_t>(ranks_) * most : most;  // of all ranks
    numbers_.reserve(most);
    if (travels_ || !gathers || !on_host) whole_.resize(most * row);
    if (!travels_) return;
    sizes_.resize(static_cast<std::size_t>(ranks_));
    offsets_ = expected_ = sizes_;
    in_.resize((item_.dealt ? most : all) * row_bytes_);
    if (!item_.dealt) return;
    places_.reserve(all), owners_.reserve(most);
    out_.resize(all * row);
    if constexpr (!on_host) moved_.resize(out_.size());
  }
  // Returns the number of rounds, alike on all ranks: as many as needed by the rank with the most rows to take or give.
  std::int64_t rounds() const {
    std::int64_t const most = at_ == WholeAt::parts ? item_.rows / ranks_ + (item_.rows % ranks_ > 0) : item_.rows;
    return most / at_once_ + (most % at_once_ > 0);
  }
  Window window(int rank, std::int64_t round) const {
    auto const rows = static_cast<std::size_t>(item_.rows);
    std::int64_t begin = 0, end = at_ == WholeAt::rank_0 && rank > 0 ? 0 : item_.rows;
    if (at_ == WholeAt::parts)
      begin = static_cast<std::int64_t>(part_begin(rows, rank, ranks_)),
      end = static_cast<std::int64_t>(part_begin(rows, rank + 1, ranks_));
    std::int64_t const first = std::min(end, begin + round * at_once_);
    return {first, std::min(end - first, at_once_)};
  }
  Numbers numbered(Window const& window) {
    numbers_.clear();
    for (std::int64_t i = 0; i < window.count; ++i) numbers_.push_back(window.first + i);
    return numbers_;
  }
  static std::uint64_t& of(std::vector<std::uint64_t>& list, int rank) { return list[static_cast<std::size_t>(rank)]; }

  // Collective, and waits. Throws the error of any rank on all, as a Refused; else each rank's `more` words are known to all.
  void agree(std::optional<Error> const& error, std::initializer_list<double> more = {}) {
    auto& rounds = core_->rounds;
    rounds.words.assign(1, error ? 0.0 : 1.0);
    rounds.words.append(more.begin(), more.end());
    rounds.tell_all(operation, [&] { return *name_; });
    bool right = true;
    for (int rank = 0; rank < ranks_; ++rank) right = right && rounds.told(rank)[0] != 0;
    if (!right) throw Refused{rounds.explain(operation, error ? &*error : nullptr, "")};
  }
  // Adds a window's rows: to `places_` those here and, with `holders`, to `owners_` each one's holder, to `bytes` its size.
  void look_up(Window const& window, bool holders, std::vector<std::uint64_t>& bytes) {
    for (std::int64_t i = 0; i < window.count; ++i) {
      RowPlace const place = item_.where(window.first + i);
      int const held_by = core_->topology.owner_rank(place.owner);
      if (held_by == rank_) places_.push_back(place.local);
      if (holders) owners_.push_back(held_by), of(bytes, held_by) += row_bytes_;
    }
  }
  void begin_swap() {
    places_.clear(), owners_.clear();
    for (auto* const list : {&offsets_, &sizes_, &expected_}) std::fill(list->begin(), list->end(), 0);
  }

  // Collective, and waits. Sends the rows of this round's windows to their takers: this rank's lie in `whole_` then.
  void collect(std::int64_t round, Window const& mine) {
    begin_swap();
    bool const alike = at_ == WholeAt::every_rank;  // all take the same rows, packed once
    for (int rank = 0; rank < (alike ? 1 : ranks_); ++rank) {
      std::size_t const begin = places_.size();
      look_up(window(rank, round), alike || rank == rank_, expected_);
      of(offsets_, rank) = begin * row_bytes_, of(sizes_, rank) = (places_.size() - begin) * row_bytes_;
    }
    if (alike) std::fill(sizes_.begin(), sizes_.end(), std::uint64_t{sizes_[0]});
    pack<false>(out_.data());
    swap_bytes(*core_, operation, std::as_bytes(out_.span()), offsets_, sizes_, expected_, in_);
    // Each rank's rows ascend; `offsets_` becomes the place of its next one.
    auto const own = reinterpret_cast<std::byte const*>(out_.data()) + of(offsets_, rank_);
    std::uint64_t at = 0;
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank == rank_) of(offsets_, rank) = 0;
      else of(offsets_, rank) = at, at += of(expected_, rank);
    for (std::int64_t i = 0; i < mine.count && row_bytes_ > 0; ++i) {
      int const from = owners_[static_cast<std::size_t>(i)];
      std::byte const* const rows = from == rank_ ? own : in_.data();
      std::uint64_t& next = of(offsets_, from);
      std::memcpy(whole_.data() + elements(i), rows + std::exchange(next, next + row_bytes_), row_bytes_);
    }
  }

  // Collective, and waits. Sends the rows in rank 0's `whole_` to their owners, and sets them there.
  void deal(Window const& given) {
    begin_swap();
    look_up(given, rank_ == 0, sizes_);
    if (rank_ != 0) expected_[0] = places_.size() * row_bytes_;
    std::uint64_t at = 0;
    for (int rank = 0; rank < ranks_; ++rank) of(offsets_, rank) = std::exchange(at, at + of(sizes_, rank));
    for (std::size_t i = 0; i < owners_.size() && row_bytes_ > 0; ++i) {
      std::uint64_t& to = of(offsets_, owners_[i]);
      std::memcpy(reinterpret_cast<std::byte*>(out_.data()) + std::exchange(to, to + row_bytes_),
                  whole_.data() + elements(static_cast<std::int64_t>(i)), row_bytes_);
    }
    for (int rank = 0; rank < ranks_; ++rank) of(offsets_, rank) -= of(sizes_, rank);
    swap_bytes(*core_, operation, std::as_bytes(out_.span()), offsets_, sizes_, expected_, in_);
    pack<true>(rank_ == 0 ? out_.data() : reinterpret_cast<S*>(in_.data()));
  }

  // Collective, and waits. Sends the rows in the `whole_` of this round's givers to all ranks, and sets them there.
  void spread(std::int64_t round, Window const& mine) {
    begin_swap();
    std::fill(sizes_.begin(), sizes_.end(), static_cast<std::uint64_t>(mine.count) * row_bytes_);
    for (int rank = 0; rank < ranks_; ++rank)
      of(expected_, rank) = static_cast<std::uint64_t>(window(rank, round).count) * row_bytes_;
    swap_bytes(*core_, operation, std::as_bytes(whole_.span()), offsets_, sizes_, expected_, in_);
    auto const* next = reinterpret_cast<S const*>(in_.data());
    for (int rank = 0; rank < ranks_; ++rank) {
      auto const [first, count] = window(rank, round);
      set(first, rank == rank_ ? whole_.data() : std::exchange(next, next + elements(count)), count);
    }
  }

  // Collective, and waits. Each rank gives its own rows. Throws Refused (mismatch) if ranks give others for rows held by all.
  void set_own(std::optional<Error>& error, FunctionRef<void(Numbers, RowsView<S>)> give) {
    bool any = true;
    for (std::int64_t first = 0; any; first += at_once_) {
      std::int64_t const count = std::clamp<std::int64_t>(item_.count - first, 0, at_once_);
      numbers_.clear();
      for (std::int64_t i = 0; i < count && !error; ++i) numbers_.push_back(item_.number(first + i));
      if (!numbers_.empty()) error = attempt([&] { give(numbers_, {whole_.data(), count, item_.width}); });
      std::uint64_t const sum = item_.dealt || error ? 0 : checksum(whole_.data(), elements(count) * sizeof(S));
      double const more = first + count < item_.count ? 1 : 0;
      agree(error, {more, static_cast<double>(sum >> 32), static_cast<double>(sum & 0xffffffffu)});
      any = false;
      for (int rank = 0; rank < ranks_; ++rank) {
        auto const told = core_->rounds.told(rank), first_told = core_->rounds.told(0);
        any = any || told[1] != 0;
        if (told[2] == first_told[2] && told[3] == first_told[3]) continue;
        std::string const which = joined({"of the rows ", first, " to ", first + count - 1});
        throw Refused{{Errc::mismatch, rank, operation, *name_, joined({which, " rank ", rank, " gives others than rank 0"})}};
      }
      set(first, whole_.data(), count);
    }
  }

  // Local. Sets `count` rows of this rank, from its row `first` on, to those in the host's memory.
  void set(std::int64_t first, S const* rows, std::int64_t count) {
    if (elements(count) > 0) item_.ops.from_host(item_.here + elements(first), rows, elements(count));
  }
  // Local. Copies the rows at `places_` to `packed` in the host's memory or, with `back`, from there.
  template <bool back>
  void pack(S* packed) {
    std::size_t const all = places_.size() * static_cast<std::size_t>(item_.width);
    S* const beside = on_host ? packed : moved_.data();
    if constexpr (back && !on_host) item_.ops.from_host(beside, packed, all);
    auto copies = item_.ops.copies();
    for (std::size_t i = 0; i < places_.size() && row_bytes_ > 0; ++i) {
      S *const there = item_.here + elements(places_[i]), *const here = beside + elements(static_cast<std::int64_t>(i));
      copies.add(back ? there : here, back ? here : there, row_bytes_);
    }
    copies.start();
    if constexpr (back && !on_host) item_.ops.wait();  // `moved_` may go
    if constexpr (!back && !on_host) item_.ops.to_host(packed, beside, all);
  }

  SessionCore<C>* core_;
  std::string const* name_;
  WholeAt at_;
  WholeItem<S, Space> item_;
  int ranks_, rank_;
  std::size_t row_bytes_;
  bool by_holders_, travels_;
  std::int64_t at_once_;                                   // rows of a call
  std::vector<std::int64_t> numbers_, places_;             // of a call's rows; here, of packed rows
  std::vector<int> owners_;                                // the holders' ranks, of a call's rows
  std::vector<std::uint64_t> offsets_, sizes_, expected_;  // by rank
  Buffer<S> whole_, out_;                                  // the rows of a call as the callable sees them; outgoing rows
  std::vector<std::byte> in_;                              // incoming rows
  Buffer<S, Space> moved_;                                 // on a device: packed rows
};

// True if a callable takes, or fills, rows of elements S.
template <class Call, bool gathers, class S>
inline constexpr bool calls_with_rows =
    std::is_invocable_v<Call&, std::span<std::int64_t const>, RowsView<std::conditional_t<gathers, S const, S>>>;
// True if a callable takes, or fills, rows of the elements of any item of a variable.
template <class State, class Call, bool gathers>
consteval bool calls_with_some_rows() {
  using T = typename State::scalar_type;
  using Kept = typename State::stored_type;
  return []<class... E, class... R>(std::type_identity<slot_types<E...>>, std::type_identity<slot_types<R...>>) {
    return (calls_with_rows<Call, gathers, Kept> || ... || calls_with_rows<Call, gathers, slot_type<E, T>>) ||
           (false || ... || calls_with_rows<Call, gathers, slot_type<R, T>>);
  }(std::type_identity<typename State::optimizer_type::element_slots>{},
         std::type_identity<row_slots<typename State::optimizer_type>>{});
}
// Returns true if gather or scatter may take these arguments; else false, after an assertion that says why.
template <class V, class Call, bool gathers>
consteval bool check_whole() {
  static_assert(AnyVariable<V>, "parallax: gather and scatter are given a variable, options, and what takes or gives its rows");
  if constexpr (AnyVariable<V>) {
    constexpr bool right = calls_with_some_rows<typename V::State, Call, gathers>();
    static_assert(right || !gathers,
                  "parallax: gather calls take(std::span<std::int64_t const>, RowsView<T const>), with numbers of rows and the "
                  "rows, of the type T of the variable's elements");
    static_assert(right || gathers,
                  "parallax: scatter calls give(std::span<std::int64_t const>, RowsView<T>), with numbers of rows and the rows "
                  "to be filled, of the type T of the variable's elements");
    return right;
  }
  return false;
}

// Collective, and waits. Agrees, then moves the item's rows. Throws Refused: misuse for started updates, else invalid_argument.
template <bool gathers, Communicator C, class State, class Call>
void move_whole(SessionCore<C>& core, State& state, WholeOptions const& options, Call& call) {
  constexpr Operation operation = gathers ? Operation::gather : Operation::scatter;
  using Space = typename State::space;
  char const* const word = to_string(operation).data();
  int const rank = core.topology.rank();
  core.await_rows(word);
  std::string const text =
      joined({state.registration()->signature, options.slot.empty() ? ", values" : ", slot '", options.slot,
              options.slot.empty() ? "" : "'", gathers ? ", to " : ", from ", to_string(options.at), ", by ",
              options.call_bytes, " bytes a call, at most ", options.at_most, " s for each"});
  Fingerprint common;
  common.add(std::string_view{text});
  common.add(state.registration()->hash);
  core.agree_on(state, operation, text, common.value(), [&] {
    if (core.flights.any_started())
      throw Error{Errc::misuse, rank, word, core.flights.started().front()->names(),
                  "updates were started and no step completed them"};
    auto const refuse = [&](std::string const& why) { throw Error{Errc::invalid_argument, rank, word, state.name(), why}; };
    if (options.call_bytes < 1) refuse("call_bytes is at least 1");
    if (!is_positive(options.at_most)) refuse("at_most is a time");
    if (!gathers && options.slot.empty()) state.reserve_adoption();
    with_whole_item(core, state, options.slot, word, [&]<class S>(WholeItem<S, Space> const&) {
      if constexpr (!calls_with_rows<Call, gathers, S>)
        refuse(joined({options.slot.empty() ? "its parameters are" : "the slot is", " of ", type_text(element_type<S>),
                       ", and the callable is for rows of something else"}));
    });
  });
  core.waiting.allow(patience(options.at_most));
  with_whole_item(core, state, options.slot, word, [&]<class S>(WholeItem<S, Space> const& item) {
    if constexpr (calls_with_rows<Call, gathers, S>) {
      WholeRows<gathers, C, S, Space> rows{core, state.name(), options, item};
      auto const called = [&](auto numbers, auto given) { static_cast<void>(call(numbers, given)); };
      if constexpr (gathers) return rows.gather(called);
      bool const values = options.slot.empty();  // rows named ahead are old; given slots stay as they are
      try {
        rows.scatter(called);
      } catch (...) {
        if (values) state.adopt();  // some have been set
        throw;
      }
      if (values) state.adopt();
    }
  });
}

// The work of `Session::gather` and `Session::scatter`.
template <bool gathers>
struct WholeWork {
  // Collective, and waits. Throws a Refused of `move_whole` as an Error; anything else thrown ends the session.
  template <class S, class V, class Call>
  static void run(S& session, V& variable, WholeOptions const& options, Call& call) {
    if constexpr (check_whole<V, Call, gathers>())
      session.core().waiting.guarded(to_string(gathers ? Operation::gather : Operation::scatter).data(),
                                     [&] { move_whole<gathers>(session.core(), variable.state(), options, call); });
  }
};
// The work of `Session::gather`.
template <>
struct CheckpointWork<Operation::gather> : WholeWork<true> {};
// The work of `Session::scatter`.
template <>
struct CheckpointWork<Operation::scatter> : WholeWork<false> {};

}  // namespace detail
}  // namespace parallax
