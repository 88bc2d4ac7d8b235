// Batches named ahead: the next step takes their ids along, and their rows follow it. `Session::prefetch` adds to them; a
// step's flight carries them, and every wait polls them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "parallax/comm/any.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/pull/fetch.hpp"
#include "parallax/detail/transfer/agreement/agreement.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// Fetches named ahead and not pulled yet, in the order of their naming, alike on all ranks. The next step serves all. A
// session's core owns one, and shares the fetches with the pool and their holders. Nothing waits; `release` and `poll` are
// collective in the mail's order, all else local.
template <Communicator C>
class Ahead final {
  using Base = FetchBase<C>;
  using Stage = typename Base::Stage;

 public:
  // Adds a fetch. By `prefetch`, once the ids were planned. May throw std::bad_alloc.
  void add(Shared<Base> fetch) { fetches_.push_back(std::move(fetch)); }
  // Removes a fetch, by its `pull`.
  void remove(Base const& fetch) {
    detail::drop_if(fetches_, [&](auto const& known) { return known.get() == &fetch; });
  }
  // Returns true for a fetch named ahead in this session and not pulled yet.
  bool has(Base const& fetch) const {
    return detail::any_of(fetches_, [&](auto const& known) { return known.get() == &fetch; });
  }
  // Returns true if rows are on their way: the session must not be destroyed or visited.
  bool falling() const { return falling_; }

  // Returns a hash of everything that ranks must have in common in a step; `describe` the same in lines of words, for an error.
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

  // Returns, in a step, true if this rank can send the ids of all fetches. If one rank cannot, none sends any in this step, and
  // the pull of a batch sends its ids itself.
  bool planned() const {
    return detail::all_of(fetches_, [](auto const& fetch) { return !fetch->error.has_value() && !fetch->outdated(); });
  }
  // Returns, to a step's flight, how many numbers for each rank ride in the agreement, for fetches not yet taken along.
  std::size_t counts() const {
    std::size_t sum = 0;
    each(Stage::named, [&](Base const& fetch) { sum += fetch.counts(); });
    return sum;
  }
  // Puts these numbers into the agreement, from place `which` on: lengths of runs, for each table and rank of the first hop.
  void tell(Agreement<C>& agreement, std::size_t which) const {
    each(Stage::named, [&](Base const& fetch) {
      fetch.tell([&](int rank, std::size_t mine, std::uint64_t count) { agreement.tell(rank, which + mine, count); });
      which += fetch.counts();
    });
  }
  // Takes, once the ranks agreed, the other ranks' numbers, from place `which` on, and lets the ids begin to travel.
  void climb(Agreement<C>& agreement, std::size_t which, Topology<C> const& topology) {
    each(Stage::named, [&](Base& fetch) {
      fetch.hear([&](int rank, std::size_t mine) { return agreement.told(rank, which + mine); });
      fetch.begin(topology, true);
      which += fetch.counts();
    });
  }
  // Adds the fetches not yet taken along to those that travel by the mail of the flight, until every id is with its owner.
  void take_along(List<Traveller<C>*>& travellers) const {
    each(Stage::named, [&](Base& fetch) { travellers.push_back(&fetch); });
  }
  // Notes the arrival of the ids at their owners: by the flight, once its mail is done.
  void arrive() {
    each(Stage::named, [](Base& fetch) { fetch.stage = Stage::climbed; });
  }

  // Lets the rows of climbed ids begin to travel, by the mail of pulls, after a step that was not refused. Throws as `poll`.
  void release(Mails<C>& mail) {
    sweep();
    each(Stage::climbed, [&](Base& fetch) {
      if (fetch.release()) fetch.stage = Stage::falling, falling_ = true;
    });
    poll(mail);
  }
  // Lets rows progress; returns true once none is on its way. All arrive together. Throws the errors of a Request's `test`.
  bool poll(Mails<C>& mail) {
    if (!falling_) return true;
    travellers_.clear();
    each(Stage::falling, [&](Base& fetch) { travellers_.push_back(&fetch); });
    if (!carry<C>(mail, travellers_)) return false;
    each(Stage::falling, [](Base& fetch) { fetch.stage = Stage::here; });
    falling_ = false;
    return true;
  }

  // Forgets fetches that nobody is going to pull, unless their rows are on their way.
  void sweep() {
    detail::drop_if(fetches_, [](auto const& fetch) {
      bool const gone = fetch->dropped && fetch->stage != Stage::falling;
      if (gone) fetch->clear();
      return gone;
    });
  }

 private:
  // Calls f with each fetch at this stage.
  template <class F>
  void each(Stage stage, F&& f) const {
    for (auto const& fetch : fetches_)
      if (fetch->stage == stage) f(*fetch);
  }

  List<Shared<Base>> fetches_;
  List<Traveller<C>*> travellers_;  // scratch of `poll`
  bool falling_ = false;
};

}  // namespace detail

// A batch named ahead: `Session::pull` turns it into the result of a pull of its indices. Move-only. Shares the fetch with the
// session. A batch dropped instead must be dropped on all ranks. C: a session's edge to its communicator.
template <Communicator C, class... Handles>
class BasicPrefetched {
 public:
  // Takes, by `Session::prefetch`, one more hold on a fetch of the session's pool.
  explicit BasicPrefetched(Shared<detail::Fetch<C, Handles...>> fetch) : fetch_{std::move(fetch)} {}
  BasicPrefetched(BasicPrefetched&&) noexcept = default;
  // Drops the batch held here, on all ranks alike, and takes over `other`, which is empty then.
  BasicPrefetched& operator=(BasicPrefetched&& other) noexcept {
    BasicPrefetched gone{std::move(other)};
    std::swap(fetch_, gone.fetch_);
    return *this;
  }
  // Local. Tells the session that nobody is going to pull it: a later operation lets it go, once none of its rows travels.
  ~BasicPrefetched() {
    if (fetch_) fetch_->dropped = true;
  }

  // Returns the fetch, for `Session::pull`, null of an empty batch; the batch is empty then.
  Shared<detail::Fetch<C, Handles...>> release() { return std::move(fetch_); }

 private:
  Shared<detail::Fetch<C, Handles...>> fetch_;
};

// Result of `prefetch` of a session over C.
template <Communicator C, class... Handles>
using Prefetched = BasicPrefetched<detail::edge_of<C>, Handles...>;

}  // namespace parallax
