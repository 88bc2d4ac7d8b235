// Settings of an optimizer that change between steps: slots that hold earlier ones are kept in line with them. States of
// variables have it.
#pragma once

#include <cstdint>

#include "parallax/core/archive.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

// Memory of changes of an optimizer's settings since its variable's first update. It does nothing for an optimizer that does
// not ask (`after_change`).
template <class O>
class SettingsChange {
  static constexpr bool asks = requires(O const& settings) { settings.after_change(); };

 public:
  // Local. Returns the settings for `at` in the update after `steps` others: the given ones, or after a change their
  // successors.
  O of(O const& settings, std::int64_t steps) const {
    if constexpr (asks)
      if (changed(settings, steps)) return settings.after_change();
    return settings;
  }
  // Notes that an update was made with the settings, and that they have changed if the last update had others.
  void updated(O const& settings) {
    if constexpr (asks) {
      std::uint64_t const now = fields_hash(settings);
      changed_ = changed_ || (hash_ != 0 && hash_ != now);
      hash_ = now;
    }
  }
  // Lets the settings count as changed from now on: a schedule changes them.
  void expect() { changed_ = true; }
  // Shows an archive true, after the settings, if they have changed by the next update.
  template <class A>
  void visit(Items<A>& items, O const& settings, std::int64_t steps) {
    if constexpr (asks) {
      bool now = changed(settings, steps);
      items.number("settings_changed", now);
      if constexpr (A::reads) changed_ = now, hash_ = steps > 0 ? fields_hash(settings) : 0;
    }
  }

 private:
  bool changed(O const& settings, std::int64_t steps) const {
    return changed_ || (steps > 0 && hash_ != 0 && hash_ != fields_hash(settings));
  }
  std::uint64_t hash_ = 0;  // of the settings of the last update; 0 before the first
  bool changed_ = false;
};

}  // namespace parallax
