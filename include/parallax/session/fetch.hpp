// Pulls on their way: batches of indices planned, agreed on and fetched at once, or named ahead and brought by a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/core/function_ref.hpp"
#include "parallax/core/pointer.hpp"
#include "parallax/policy/row_plan.hpp"
#include "parallax/session/agreement.hpp"
#include "parallax/session/batch.hpp"

namespace parallax {
namespace detail {

// One pull of one or several tables, without their types. As a journey (see `carry`) it is theirs together.
template <Communicator C>
class FetchBase : public Counted {
 public:
  // How far a fetch has come that was named ahead: its ids climb to the owners with a step, its rows come after that step.
  enum class Stage : unsigned char { named, climbed, falling, here };

  virtual ~FetchBase() = default;

  virtual std::size_t counts() const = 0;  // numbers that ride in an agreement
  virtual void tell(FunctionRef<void(int rank, std::size_t which, std::size_t count)>) const = 0;
  virtual void hear(FunctionRef<std::size_t(int rank, std::size_t which)>) = 0;
  // The ids begin to travel; with `held`, what comes after them waits for `release`.
  virtual void begin(Topology<C> const&, bool held) = 0;
  // Whether rows have moved since they were named: then no ids are sent, and its pull plans anew.
  virtual bool outdated() const = 0;
  // The rows begin to travel. False, and nothing happens, where rows have moved since the ids began to.
  virtual bool release() = 0;
  // Tables of which every rank has all rows: reads them, as they are now.
  virtual void read_replicas() = 0;
  // What the handles show of the rows, once they are here.
  virtual void finish() = 0;
  // Whether no update has changed a row since `release`.
  virtual bool current() const = 0;
  // Plans the same ids anew, where rows have moved since.
  virtual void plan_again(Topology<C> const&) = 0;

  // Gives back what it holds of the tables.
  virtual void clear() = 0;

  virtual bool next(Mails<C>&) = 0;
  virtual void write(Mails<C>&) = 0;
  virtual void read(Mails<C>&) = 0;
  bool travelling = false;

  virtual std::uint64_t hash() const = 0;
  virtual std::string names() const = 0;
  virtual std::string_view first_name() const = 0;
  virtual std::string describe() const = 0;

  std::optional<Error> error;  // this rank's refusal
  Stage stage = Stage::named;
  bool dropped = false;  // nobody is going to pull it
};

template <Communicator C, class... Handles>
class Fetch final : public FetchBase<C> {
  template <class State>
  using Journey = PullJourney<C, typename State::index_type, typename State::scalar_type, State>;
  static constexpr auto each = std::index_sequence_for<Handles...>{};

 public:
  // Local. `check(state)` may throw; what goes wrong is kept for the agreement. `current` names the table at hand, for errors.
  template <class Check, class... Indices>
  void plan(Topology<C> const& topology, Check&& check, std::string_view& current, Indices const&... indices) {
    this->error.reset();
    this->stage = FetchBase<C>::Stage::named;
    this->dropped = false;
    states_ = {Shared{indices.state}...};
    try {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (begin_one(topology, check, current, indices, std::get<I>(handles_)), ...);
        (finish_one(topology, current, indices, std::get<I>(handles_)), ...);
      }(each);
    } catch (...) {
      this->error = current_error(topology.rank(), "pull", current);
    }
  }
  std::tuple<Handles...> take() {
    auto taken = std::move(handles_);
    clear();
    return taken;
  }
  void clear() override {
    handles_ = {};
    states_ = {};
  }

  std::size_t counts() const override { return sizeof...(Handles); }
  void tell(FunctionRef<void(int, std::size_t, std::size_t)> tell) const override {
    if (!this->error)
      number([&](std::size_t which, auto& handle, auto&) {
        tell_plan(*handle.plan(), [&](int rank, std::size_t count) { tell(rank, which, count); });
      });
  }
  void hear(FunctionRef<std::size_t(int, std::size_t)> told) override {
    number([&](std::size_t which, auto& handle, auto&) {
      hear_plan(*handle.plan(), [&](int rank) { return told(rank, which); });
    });
  }
  void begin(Topology<C> const& topology, bool held) override {
    number([&](std::size_t, auto& handle, auto& journey) {
      auto& state = handle.state();
      if (state.shards())
        journey.start(*handle.plan(), state, state.placement().bases(), state.rows(), state.width(), topology.owner(), held);
      else journey.stop();
    });
    moves_ = moves();
  }
  bool outdated() const override {
    bool any = false;
    number([&](std::size_t, auto const& handle, auto&) { any = any || handle.plan()->retired; });
    return any;
  }
  bool release() override {
    if (moves_ != moves()) return false;
    changes_ = changes();
    number([](std::size_t, auto&, auto& journey) { journey.release(); });
    return true;
  }
  void read_replicas() override {
    number([](std::size_t, auto& handle, auto&) {
      auto& state = handle.state();
      auto& plan = *handle.plan();
      using T = typename std::remove_cvref_t<decltype(state)>::scalar_type;
      if (state.shards()) return;
      plan.values.resize_with_slack(plan.size() * static_cast<std::size_t>(state.width()) * sizeof(T));
      auto const rows = state.rows_of(plan.levels[0].keys.span());
      state.touch(rows, 0);
      state.gather(plan.shown_keys(state.ops(), rows), 0, reinterpret_cast<T*>(plan.values.data()));
    });
  }
  void finish() override {
    number([](std::size_t, auto& handle, auto&) { finish_pull(handle); });
  }
  bool current() const override { return changes_ == changes(); }
  void plan_again(Topology<C> const& topology) override {
    number([&](std::size_t, auto& handle, auto&) {
      auto& state = handle.state();
      auto& plan = *handle.plan();
      plan.agreed = 0;
      if (!plan.retired) return;
      auto& fresh = state.take_plan();
      remake_plan(topology, state, fresh, plan, false);
      handle = {state, fresh};
    });
  }

  bool next(Mails<C>& mail) override {
    bool any = false;
    number([&](std::size_t, auto&, auto& journey) { any |= journey.travelling = journey.next(mail); });
    return any;
  }
  void write(Mails<C>& mail) override {
    number([&](std::size_t, auto&, auto& journey) {
      if (journey.travelling) journey.write(mail);
    });
  }
  void read(Mails<C>& mail) override {
    number([&](std::size_t, auto&, auto& journey) {
      if (journey.travelling) journey.read(mail);
    });
  }

  std::uint64_t hash() const override {
    Fingerprint hash;
    each_state([&](auto const& state) { hash.add(state.registration()->hash); });
    return hash.value();
  }
  std::string names() const override {
    std::string list;
    each_state([&](auto const& state) { (list += list.empty() ? "" : ", ") += state.name(); });
    return list;
  }
  std::string_view first_name() const override { return std::get<0>(states_)->name(); }
  std::string describe() const override {
    std::string lines;
    each_state([&](auto const& state) { ((lines += state.name() + "\t") += state.registration()->signature) += '\n'; });
    return lines;
  }

 private:
  template <class Check, class Indices, class Handle>
  static void begin_one(Topology<C> const& topology, Check&& check, std::string_view& current, Indices const& indices,
                        Handle& handle) {
    current = indices.state->name();
    check(*indices.state);
    handle = {*indices.state, indices.state->take_plan()};
    begin_plan(topology, *indices.state, *handle.plan(), indices.ids, "pull");
  }
  template <class Indices, class Handle>
  static void finish_one(Topology<C> const& topology, std::string_view& current, Indices const& indices, Handle& handle) {
    current = indices.state->name();
    finish_plan(topology, *indices.state, *handle.plan(), indices.ids, "pull");
    if constexpr (requires { indices.offsets; }) make_bags(indices, *handle.plan(), topology.rank());
    indices.state->seen.pulled += static_cast<double>(handle.plan()->size());
  }
  // Calls f with the number, the handle and the journey of each table.
  template <class F>
  void number(F&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (f(I, std::get<I>(handles_), std::get<I>(journeys_)), ...); }(each);
  }
  template <class F>
  void number(F&& f) const {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (f(I, std::get<I>(handles_), std::get<I>(journeys_)), ...); }(each);
  }
  template <class F>
  void each_state(F&& f) const {
    std::apply([&](auto&... states) { (f(*states), ...); }, states_);
  }
  std::int64_t changes() const {
    std::int64_t sum = 0;
    each_state([&](auto const& state) { sum += state.changes(); });
    return sum;
  }
  std::int64_t moves() const {
    std::int64_t sum = 0;
    each_state([&](auto const& state) { sum += state.moves(); });
    return sum;
  }

  std::tuple<Shared<typename Handles::state_type>...> states_;
  std::tuple<Handles...> handles_;
  std::tuple<Journey<typename Handles::state_type>...> journeys_;
  std::int64_t changes_ = -1;  // of the tables, when the rows began to travel
  std::int64_t moves_ = -1;    // when the ids did
};

// The fetches that were named ahead and are not pulled yet, in order. What the next step does for them it does for all.
template <Communicator C>
class Ahead {
  using Base = FetchBase<C>;
  using Stage = typename Base::Stage;

 public:
  void add(Shared<Base> fetch) { fetches_.push_back(std::move(fetch)); }
  void remove(Base const& fetch) {
    std::erase_if(fetches_, [&](auto const& known) { return known.get() == &fetch; });
  }
  bool has(Base const& fetch) const {
    return std::any_of(fetches_.begin(), fetches_.end(), [&](auto const& known) { return known.get() == &fetch; });
  }
  bool falling() const { return falling_; }

  // What all ranks must have in common, and how it is told.
  std::uint64_t hash() const {
    Fingerprint hash;
    for (auto const& fetch : fetches_) {
      hash.add(fetch->hash());
      hash.add(static_cast<std::uint64_t>(fetch->stage));
    }
    return hash.value();
  }
  std::string describe() const {
    std::string lines;
    for (auto const& fetch : fetches_) lines += "\tnamed ahead\n" + fetch->describe();
    return lines;
  }

  // In a step: whether this rank can plan them all, and the counts in its agreement.
  bool planned() const {
    return std::none_of(fetches_.begin(), fetches_.end(),
                        [](auto const& fetch) { return fetch->error.has_value() || fetch->outdated(); });
  }
  std::size_t counts() const {
    std::size_t sum = 0;
    named([&](Base const& fetch) { sum += fetch.counts(); });
    return sum;
  }
  void tell(Agreement<C>& agreement, std::size_t which) const {
    named([&](Base const& fetch) {
      fetch.tell([&](int rank, std::size_t mine, std::size_t count) { agreement.tell(rank, which + mine, count); });
      which += fetch.counts();
    });
  }
  void climb(Agreement<C>& agreement, std::size_t which, Topology<C> const& topology) {
    named([&](Base& fetch) {
      fetch.hear([&](int rank, std::size_t mine) { return static_cast<std::size_t>(agreement.told(rank, which + mine)); });
      fetch.begin(topology, true);
      which += fetch.counts();
    });
  }
  // As a journey: the ids of all.
  bool travelling = false;
  bool next(Mails<C>& mail) {
    bool any = false;
    named([&](Base& fetch) { any |= fetch.travelling = fetch.next(mail); });
    return any;
  }
  void write(Mails<C>& mail) {
    named([&](Base& fetch) {
      if (fetch.travelling) fetch.write(mail);
    });
  }
  void read(Mails<C>& mail) {
    named([&](Base& fetch) {
      if (fetch.travelling) fetch.read(mail);
    });
  }
  void arrive() {
    named([](Base& fetch) { fetch.stage = Stage::climbed; });
  }

  // After a step: the rows begin to travel.
  void release(Mails<C>& mail) {
    sweep();
    for (auto const& fetch : fetches_)
      if (fetch->stage == Stage::climbed && fetch->release()) fetch->stage = Stage::falling, falling_ = true;
    poll(mail);
  }
  // True once no row is on its way.
  bool poll(Mails<C>& mail) {
    if (!falling_) return true;
    bool const arrived = carry(mail, [&](auto&& f) {
      for (auto const& fetch : fetches_)
        if (fetch->stage == Stage::falling) f(*fetch);
    });
    if (!arrived) return false;
    for (auto const& fetch : fetches_)
      if (fetch->stage == Stage::falling) fetch->stage = Stage::here;
    falling_ = false;
    return true;
  }

  // Forgets those that nobody is going to pull, unless their rows are on their way.
  void sweep() {
    std::erase_if(fetches_, [](auto const& fetch) {
      bool const gone = fetch->dropped && fetch->stage != Stage::falling;
      if (gone) fetch->clear();
      return gone;
    });
  }

 private:
  template <class F>
  void named(F&& f) const {
    for (auto const& fetch : fetches_)
      if (fetch->stage == Stage::named) f(*fetch);
  }

  std::vector<Shared<Base>> fetches_;
  bool falling_ = false;
};

}  // namespace detail

// A batch that was named ahead: `Session::pull` turns it into what a pull of the same indices returns. Move-only. One that is
// dropped instead must be dropped on all ranks.
template <Communicator C, class... Handles>
class Prefetched {
 public:
  explicit Prefetched(Shared<detail::Fetch<C, Handles...>> fetch) : fetch_{std::move(fetch)} {}
  Prefetched(Prefetched&&) noexcept = default;
  Prefetched& operator=(Prefetched&& other) noexcept {
    Prefetched gone{std::move(other)};
    std::swap(fetch_, gone.fetch_);
    return *this;
  }
  ~Prefetched() {
    if (fetch_) fetch_->dropped = true;
  }

  // For the session.
  Shared<detail::Fetch<C, Handles...>> release() { return std::move(fetch_); }

 private:
  Shared<detail::Fetch<C, Handles...>> fetch_;
};

}  // namespace parallax
