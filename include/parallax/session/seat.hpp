// Where the arguments of a step are kept from step to step, with the work on them.
#pragma once

#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/core/algorithm.hpp"
#include "parallax/session/adaptive_work.hpp"
#include "parallax/session/dense_work.hpp"

namespace parallax::detail {

// The place of one argument: of an update one Work, of a range of updates as many, of a clip group those of its updates, with
// the group's number. `each` calls f with every work while any of those that were prepared are left.
template <Communicator C, class Argument>
struct Seat {
  Work<C, Argument> work;

  template <class Prepare>
  void prepare(Argument const& update, int group, Prepare&& prepare) { prepare(work, update, group); }
  template <class F>
  void each(std::size_t& left, F& f) {
    if (left == 0) return;
    --left;
    f(work);
  }
};

template <Communicator C, UpdateRange Range>
struct Seat<C, Range> {
  std::vector<Work<C, update_of<Range>>> works;
  std::size_t used = 0;

  template <class Prepare>
  void prepare(Range const& updates, int group, Prepare&& prepare) {
    used = 0;
    auto work = works.begin();
    for (auto const& update : updates) {
      if (work == works.end()) works.emplace_back(), work = works.end() - 1;
      ++used;
      prepare(*work++, update, group);
    }
  }
  template <class F>
  void each(std::size_t& left, F& f) {
    std::size_t const count = std::min(used, left);
    left -= count;
    for (auto& work : std::span{works}.first(count)) f(work);
  }
};

template <Communicator C, class... Updates>
struct Seat<C, ClipGroup<Updates...>> {
  std::tuple<Seat<C, std::remove_cvref_t<Updates>>...> seats;

  template <class Prepare>
  void prepare(ClipGroup<Updates...> const& clip, int group, Prepare&& prepare) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (std::get<I>(seats).prepare(std::get<I>(clip.updates), group, prepare), ...);
    }(std::index_sequence_for<Updates...>{});
  }
  template <class F>
  void each(std::size_t& left, F& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (std::get<I>(seats).each(left, f), ...);
    }(std::index_sequence_for<Updates...>{});
  }
};

}  // namespace parallax::detail
