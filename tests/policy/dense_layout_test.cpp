// A dense layout's numbers against a list of all elements, made by hand: who owns each, in which parcel it is and where there.
#include "parallax/detail/policy/bucket/dense_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"

namespace px = parallax;

namespace {

struct Given {
  std::vector<std::pair<std::size_t, std::size_t>> segments;  // size and unit
  px::DenseLayout::Terms terms;
};

using Element = std::pair<std::size_t, std::size_t>;  // segment, and number in it

// The definition, element by element.
struct Reference {
  explicit Reference(Given const& given) : given_{given} {
    std::size_t filled = 0;
    bool open = false;  // whether the last parcel takes more
    for (std::size_t s = 0; s < given.segments.size(); ++s) {
      std::size_t const bytes = given.segments[s].first * given.terms.element;
      bool const large = bytes >= given.terms.options.direct_bytes;
      if (large || !open || filled + bytes > given.terms.options.fusion_bytes) parcels.emplace_back(), filled = 0;
      parcels.back().push_back(s);
      filled += bytes;
      open = !large;
    }
  }

  std::vector<std::vector<std::size_t>> parcels;  // of segments

  // Whole units go to owners: owner o of N begins with unit floor(units · o / N).
  std::size_t owner_of(Element const& element) const {
    auto const [size, unit] = given_.segments[element.first];
    std::size_t const u = unit ? unit : 1, units = size / u, n = given_.terms.owners;
    std::size_t owner = 0;
    while (units * (owner + 1) / n <= element.second / u) ++owner;
    return owner;
  }
  px::Packing packing(std::size_t parcel) const { return parcels[parcel].size() == 1 ? px::Packing::none : given_.terms.fused; }
  std::vector<Element> memory_of(std::size_t parcel, px::Packing packing) const {
    std::vector<Element> memory;
    std::size_t const passes = packing == px::Packing::by_owner ? given_.terms.owners : 1;
    for (std::size_t pass = 0; pass < passes; ++pass)
      for (std::size_t const s : parcels[parcel])
        for (std::size_t i = 0; i < given_.segments[s].first; ++i)
          if (passes == 1 || owner_of({s, i}) == pass) memory.push_back({s, i});
    return memory;
  }

 private:
  Given given_;
};

Given random_given(std::mt19937_64& random) {
  Given given;
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (std::size_t n = below(12); n > 0; --n) {
    std::size_t const unit = below(3) == 0 ? 1 + below(9) : below(2);
    given.segments.emplace_back(below(5) == 0 ? 0 : std::max<std::size_t>(unit, 1) * below(below(4) == 0 ? 90 : 9), unit);
  }
  given.terms = {1 + below(7), std::size_t{4} << below(2), below(2) ? px::Packing::by_owner : px::Packing::by_segment,
                 {.fusion_bytes = below(900), .direct_bytes = below(3) ? 1 + below(900) : below(2) * 10'000}};
  return given;
}

void add(px::DenseLayout& layout, Given const& given) {
  layout.clear();
  for (auto const& [size, unit] : given.segments) layout.add(size, unit);
}

// What of the layout is not as by hand.
std::set<std::string> wrong(px::DenseLayout const& layout, Given const& given) {
  Reference const by_hand{given};
  std::set<std::string> wrong;
  auto const expect = [&](bool holds, char const* what) {
    if (!holds) wrong.insert(what);
  };
  std::size_t const owners = given.terms.owners, n = given.segments.size();
  expect(layout.segments().size() == n, "number of segments");
  expect(layout.parcels().size() == by_hand.parcels.size(), "number of parcels");
  if (!wrong.empty()) return wrong;

  for (std::size_t s = 0; s < n; ++s) {
    auto const [size, unit] = given.segments[s];
    std::vector<int> owned(size);
    for (std::size_t o = 0; o < owners; ++o) {
      auto const part = layout.part(s, o);
      expect(part.begin <= part.end && part.end <= size, "a part lies in its segment");
      if (unit) expect(part.begin % unit == 0 && part.end % unit == 0, "a part is of whole units");
      for (std::size_t i = part.begin; i < part.end && i < size; ++i) {
        ++owned[i];
        expect(by_hand.owner_of({s, i}) == o, "the owner of an element");
      }
    }
    expect(owned == std::vector<int>(size, 1), "an element is owned once");
  }

  for (std::size_t p = 0; p < by_hand.parcels.size(); ++p) {
    auto const& parcel = layout.parcels()[p];
    auto const& segments = by_hand.parcels[p];
    expect(parcel.first == segments.front() && parcel.last == segments.back() + 1, "segments of a parcel");
    expect(parcel.packing == by_hand.packing(p), "packing");
    auto const dealt = by_hand.memory_of(p, px::Packing::by_owner), in_order = by_hand.memory_of(p, px::Packing::by_segment);
    expect(parcel.size == dealt.size(), "size of a parcel");
    if (segments.size() > 1) expect(parcel.size * given.terms.element <= given.terms.options.fusion_bytes, "fused bytes");
    for (std::size_t const s : segments) {
      expect(layout.segment(s).parcel == p && &layout.parcel_of(s) == &parcel, "parcel of a segment");
      if (given.segments[s].first) expect(in_order.at(layout.segment(s).place) == Element{s, 0}, "place of a segment");
      for (std::size_t o = 0; o < owners; ++o)
        if (auto const part = layout.part(s, o); part.size() > 0)
          expect(dealt.at(layout.place(s, o)) == Element{s, part.begin}, "place of a part");
    }
    expect(layout.begins(parcel).size() == owners + 1, "begins of owners");
    for (std::size_t o = 0; o < owners; ++o) {
      std::size_t first = 0, count = 0;
      for (Element const& element : dealt) {
        first += by_hand.owner_of(element) < o;
        count += by_hand.owner_of(element) == o;
      }
      auto const part = layout.part(parcel, o);
      expect(part.begin == first && part.size() == count, "an owner's part of a parcel");
      expect(layout.begins(parcel)[o] == part.begin && layout.begins(parcel)[o + 1] == part.end, "begins of owners");
    }
    std::vector<Element> memory(parcel.size, Element{n, 0});
    layout.each_run(parcel, [&](std::size_t s, std::size_t begin, std::size_t count, std::size_t place) {
      for (std::size_t i = 0; i < count; ++i) memory.at(place + i) = {s, begin + i};
    });
    expect(memory == by_hand.memory_of(p, parcel.packing), "memory of a parcel");
  }
  return wrong;
}

}  // namespace

TEST_CASE("every element of every segment is owned once, and lies where a list by hand has it", "[policy][layout]") {
  std::uint64_t const seed = std::random_device{}();
  std::mt19937_64 random{seed};
  px::DenseLayout layout;  // one for all, as a bucket's is
  for (int round = 0; round < 300; ++round) {
    Given const given = random_given(random);
    CAPTURE(seed, round);
    add(layout, given);
    CHECK(layout.close(given.terms));
    REQUIRE(wrong(layout, given) == std::set<std::string>{});
    if (given.segments.empty()) continue;
    add(layout, given);
    CHECK(!layout.close(given.terms));  // stands
    REQUIRE(wrong(layout, given) == std::set<std::string>{});
  }
}

TEST_CASE("a layout that stood is made anew for other segments and other terms", "[policy][layout]") {
  Given given{{{10, 1}, {6, 2}, {100, 10}}, {3, 4, px::Packing::by_owner, {}}};
  px::DenseLayout layout;
  auto const is_new = [&] {
    add(layout, given);
    bool const fresh = layout.close(given.terms);
    CHECK(wrong(layout, given) == std::set<std::string>{});
    return fresh;
  };
  CHECK(is_new());
  CHECK(!is_new());
  SECTION("fewer") { given.segments.pop_back(); }
  SECTION("more") { given.segments.emplace_back(1, 1); }
  SECTION("another size") { given.segments[1].first = 8; }
  SECTION("another unit") { given.segments[2].second = 20; }
  SECTION("other owners") { given.terms.owners = 2; }
  SECTION("a larger scalar") { given.terms.element = 8; }
  SECTION("another packing") { given.terms.fused = px::Packing::by_segment; }
  SECTION("other options") { given.terms.options.direct_bytes = 40; }
  SECTION("none in between") {
    layout.clear();
    layout.add(11, 1);  // an update that was given up
    layout.clear();
    CHECK(layout.close(given.terms));
    CHECK(layout.parcels().empty());
  }
  CHECK(is_new());
  CHECK(!is_new());
}

TEST_CASE("scratch is allotted parcel after parcel to those that need it", "[policy][layout]") {
  std::uint64_t const seed = std::random_device{}();
  std::mt19937_64 random{seed};
  for (int round = 0; round < 200; ++round) {
    CAPTURE(seed, round);
    Given const given = random_given(random);
    Reference const by_hand{given};
    px::DenseLayout layout;
    add(layout, given);
    layout.close(given.terms);
    int const owner = static_cast<int>(random() % (given.terms.owners + 1)) - 1;
    bool const wholes = random() % 2;
    std::vector<bool> elsewhere;
    for (std::size_t p = 0; p < by_hand.parcels.size(); ++p) elsewhere.push_back(random() % 3 == 0);
    auto const scratch = layout.allot(owner, wholes, [&](px::DenseLayout::Parcel const& parcel) {
      return elsewhere[layout.segment(parcel.first).parcel];
    });
    std::size_t own = 0, staged = 0, whole = 0;
    for (std::size_t p = 0; p < by_hand.parcels.size(); ++p) {
      auto const& parcel = layout.parcels()[p];
      CHECK((parcel.own_at == own && parcel.staged_at == staged && parcel.whole_at == whole));
      auto const memory = by_hand.memory_of(p, px::Packing::by_owner);
      for (Element const& element : memory) own += owner >= 0 && by_hand.owner_of(element) == static_cast<std::size_t>(owner);
      bool const alone = by_hand.parcels[p].size() == 1;
      if (!elsewhere[p] && !alone) staged += memory.size();
      if (!elsewhere[p] && alone && wholes) whole += memory.size();
    }
    CHECK((scratch.own == own && scratch.staged == staged && scratch.whole == whole));
  }
}
