// What ranks saw, and how far it is from the oracle: to the last bit, or within the bound that sums in another order may reach.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "oracle.hpp"

namespace parallax_test {

// What a rank saw: parameters after so many steps. Of a layer all of them, of the table the rows of `ids`.
template <class T>
struct Seen {
  enum class What : unsigned char { layer, pulled, held };
  What what = What::layer;
  int step = 0;
  std::size_t layer = 0;
  std::vector<std::int64_t> ids = {};
  std::vector<T> values = {};
};
template <class T>
using Diary = std::vector<Seen<T>>;

// The same was seen, to the last bit.
template <class T>
bool same_bits(Seen<T> const& a, Seen<T> const& b) {
  return a.what == b.what && a.step == b.step && a.layer == b.layer && a.ids == b.ids && a.values.size() == b.values.size() &&
         (a.values.empty() || std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(T)) == 0);
}
template <class T>
bool same_bits(Diary<T> const& a, Diary<T> const& b) {
  return std::ranges::equal(a, b, [](auto const& x, auto const& y) { return same_bits(x, y); });
}

// The parameters that an entry of a diary should show.
template <class T>
std::vector<T> expected(Seen<T> const& seen, std::vector<oracle::Snapshot<T>> const& snapshots, Shape const& shape) {
  auto const& now = snapshots[static_cast<std::size_t>(seen.step)];
  if (seen.what == Seen<T>::What::layer) return now.layers[seen.layer];
  std::vector<T> rows;
  for (std::int64_t const id : seen.ids) {
    auto const first = now.table.begin() + static_cast<std::ptrdiff_t>(id * shape.width);
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(shape.width));
  }
  return rows;
}

// How far diaries are from the oracle: the first entry with other bits, and the largest difference of two elements relative
// to the largest element of the variable.
struct Deviation {
  std::string first;
  double largest = 0;
};

template <class T>
std::string where(Seen<T> const& seen, std::size_t rank, std::size_t element, T value, T wanted) {
  std::ostringstream out;
  out.precision(17);
  out << "after step " << seen.step << " rank " << rank << " has " << value << " where " << wanted << " belongs: element "
      << element;
  if (seen.what == Seen<T>::What::layer) out << " of layer " << seen.layer;
  else out << (seen.what == Seen<T>::What::pulled ? " of the rows pulled" : " of the rows held");
  return out.str();
}

template <class T>
Deviation deviation(std::vector<Diary<T>> const& diaries, std::vector<oracle::Snapshot<T>> const& snapshots,
                    Shape const& shape) {
  Deviation found;
  for (std::size_t rank = 0; rank < diaries.size(); ++rank)
    for (Seen<T> const& seen : diaries[rank]) {
      std::vector<T> const wanted = expected(seen, snapshots, shape);
      if (seen.values.size() != wanted.size()) return {"wrong size", std::numeric_limits<double>::infinity()};
      double scale = std::numeric_limits<double>::min();
      auto const& whole = seen.what == Seen<T>::What::layer ? wanted : snapshots[static_cast<std::size_t>(seen.step)].table;
      for (T const value : whole) scale = std::max(scale, std::abs(static_cast<double>(value)));
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (std::memcmp(&seen.values[i], &wanted[i], sizeof(T)) == 0) continue;
        if (found.first.empty()) found.first = where(seen, rank, i, seen.values[i], wanted[i]);
        double const apart = std::abs(static_cast<double>(seen.values[i]) - static_cast<double>(wanted[i])) / scale;
        found.largest = std::max(found.largest, std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart);
      }
    }
  return found;
}

// By how much another order of the sums may move a parameter.
template <class T>
double bound(int ranks, int steps) {
  return 8.0 * ranks * steps * static_cast<double>(std::numeric_limits<T>::epsilon());
}

// A sharded table's rows are held once, a replicated one's by every rank.
template <class T>
bool rows_are_held(std::vector<Diary<T>> const& diaries, Shape const& shape, bool sharded) {
  std::multiset<std::int64_t> held;
  for (auto const& diary : diaries) held.insert(diary.back().ids.begin(), diary.back().ids.end());
  std::size_t const times = sharded ? 1 : diaries.size();
  for (std::int64_t row = 0; row < shape.rows; ++row)
    if (held.count(row) != times) return false;
  return held.size() == static_cast<std::size_t>(shape.rows) * times;
}

// In oracle.cpp.
extern template Deviation deviation(std::vector<Diary<float>> const&, std::vector<oracle::Snapshot<float>> const&,
                                    Shape const&);
extern template Deviation deviation(std::vector<Diary<double>> const&, std::vector<oracle::Snapshot<double>> const&,
                                    Shape const&);

}  // namespace parallax_test
