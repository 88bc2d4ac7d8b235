// Settings of an optimizer that change between steps: what keeps slots in line that hold earlier ones. States of variables have it.
#pragma once

#include <cstdint>

#include "parallax/core/archive.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

// Whether an optimizer's settings have changed since its variable's first update. Of one that does not ask (`after_change`) it is
// empty.
template <class O>
class SettingsChange {
 public:
  // Local. What to ask `at` of for the update after so many: the settings, or what they become once they have changed.
  O of(O const& settings, std::int64_t) const { return settings; }
  // That update was made.
  void updated(O const&) {}
  // From now on they count as changed: a schedule changes them.
  void expect() {}
  // Shows an archive all of it, after the settings.
  template <class A>
  void visit(Items<A>&, O const&, std::int64_t) {}
};
// Of one that asks: as large as a hash and a flag.
template <class O>
  requires requires(O const& settings) { settings.after_change(); }
class SettingsChange<O> {
 public:
  // As above, here and below.
  O of(O const& settings, std::int64_t steps) const { return changed(settings, steps) ? settings.after_change() : settings; }
  // Notes the settings, and whether they were others before.
  void updated(O const& settings) {
    std::uint64_t const now = fields_hash(settings);
    changed_ = changed_ || (hash_ != 0 && hash_ != now);
    hash_ = now;
  }
  // From now on they count as changed.
  void expect() { changed_ = true; }
  // Shows an archive whether they have, by the update that comes next.
  template <class A>
  void visit(Items<A>& items, O const& settings, std::int64_t steps) {
    bool now = changed(settings, steps);
    items.number("settings_changed", now);
    if constexpr (A::reads) changed_ = now, hash_ = steps > 0 ? fields_hash(settings) : 0;
  }

 private:
  bool changed(O const& settings, std::int64_t steps) const {
    return changed_ || (steps > 0 && hash_ != 0 && hash_ != fields_hash(settings));
  }
  std::uint64_t hash_ = 0;  // of the settings of the last update; 0 before the first
  bool changed_ = false;
};

}  // namespace parallax
