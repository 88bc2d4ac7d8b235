// Fingerprints, and the fields of small aggregates as hashes and texts that tell any two values apart.
#include "parallax/core/fields.hpp"

#include <bit>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/detail/optimizer/adam.hpp"

namespace px = parallax;

namespace {

std::uint64_t of(std::initializer_list<std::uint64_t> words) {
  px::Fingerprint hash;
  for (std::uint64_t const word : words) hash.add(word);
  return hash.value();
}
std::uint64_t of(std::string_view text) {
  px::Fingerprint hash;
  hash.add(text);
  return hash.value();
}

enum class Mode { slow, fast };
struct Settings {
  double rate = 0.1;
  float decay = 0.5f;
  std::int32_t period = -3;
  bool nesterov = true;
  Mode mode = Mode::fast;
  char const* comment = "not compared";
};

class Hidden {  // no aggregate: shows its fields itself
 public:
  explicit Hidden(double rate) : rate_{rate} {}
  void fields(auto&& visit) const { visit(rate_); }

 private:
  double rate_;
};

class Opaque {
 public:
  explicit Opaque(double rate) : rate_{rate} {}
  double rate_;
};

struct Eight {
  int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
};

}  // namespace

TEST_CASE("a fingerprint depends on the words, their order and their number", "[core][fields]") {
  std::set<std::uint64_t> const seen{of({}), of({0}), of({0, 0}), of({1}), of({1, 2}), of({2, 1}), of({1, 2, 0})};
  CHECK(seen.size() == 7);
  CHECK(of({1, 2, 3}) == of({1, 2, 3}));
  STATIC_REQUIRE([] {
    px::Fingerprint hash;
    hash.add(std::string_view{"constexpr"});
    return hash.value() != px::Fingerprint{}.value();
  }());
}

TEST_CASE("a fingerprint of texts knows where one ends and the next begins", "[core][fields]") {
  px::Fingerprint first, second;
  first.add(std::string_view{"ab"}), first.add(std::string_view{"c"});
  second.add(std::string_view{"a"}), second.add(std::string_view{"bc"});
  CHECK(first.value() != second.value());
  CHECK(of("") != px::Fingerprint{}.value());
  CHECK(of("\xff") != of("\x7f"));
}

TEST_CASE("folded words tell as much", "[core][fields]") {
  auto const folded = [](std::initializer_list<std::uint64_t> words) {
    px::Fingerprint hash;
    for (std::uint64_t const word : words) hash.fold(word);
    return hash.value();
  };
  std::mt19937_64 random{20260102};
  std::set<std::uint64_t> seen{folded({}), folded({0}), folded({0, 0}), folded({1, 2}), folded({2, 1}), of({1, 2})};
  CHECK(seen.size() == 6);
  std::uint64_t const first = random(), second = random();
  for (int i = 0; i < 64; ++i) {
    seen.insert(folded({first ^ std::uint64_t{1} << i, second}));
    seen.insert(folded({first, second ^ std::uint64_t{1} << i}));
  }
  for (int i = 0; i < 1000; ++i)  // settings as they are: small counts, simple numbers
    for (int j = 1; j <= 100; ++j) seen.insert(folded({static_cast<std::uint64_t>(i), std::bit_cast<std::uint64_t>(0.01 * j)}));
  CHECK(seen.size() == 6 + 128 + 100'000);
}

TEST_CASE("one flipped bit changes about half the bits of a fingerprint", "[core][fields]") {
  std::mt19937_64 random{20260101};
  int flipped = 0;
  for (int i = 0; i < 1000; ++i) {
    std::uint64_t const word = random(), other = word ^ std::uint64_t{1} << (i % 64);
    flipped += static_cast<int>(std::bitset<64>{of({word}) ^ of({other})}.count());
  }
  CHECK(flipped / 1000.0 == Approx(32).margin(1));
}

TEST_CASE("every arithmetic or enum field of an aggregate is compared", "[core][fields]") {
  CHECK(px::fields_text(Settings{}) == "{0.1, 0.5, -3, 1, 1}");
  auto const same = [](Settings const& settings) { return px::fields_hash(settings) == px::fields_hash(Settings{}); };
  CHECK(same({}));
  CHECK_FALSE(same({.rate = std::nextafter(0.1, 1.0)}));
  CHECK_FALSE(same({.decay = 0.25f}));
  CHECK_FALSE(same({.period = 3}));
  CHECK_FALSE(same({.nesterov = false}));
  CHECK_FALSE(same({.mode = Mode::slow}));
  CHECK(same({.comment = "another"}));
}

TEST_CASE("aggregates of no and of eight fields, classes that show their fields, and classes that do not", "[core][fields]") {
  struct None {};
  CHECK(px::fields_text(None{}) == "{}");
  CHECK(px::fields_text(Eight{}) == "{1, 2, 3, 4, 5, 6, 7, 8}");
  CHECK_FALSE(px::fields_hash(Eight{}) == px::fields_hash(Eight{.h = 9}));
  CHECK(px::fields_text(Hidden{0.25}) == "{0.25}");
  CHECK_FALSE(px::fields_hash(Hidden{0.25}) == px::fields_hash(Hidden{0.5}));
  CHECK(px::fields_text(Opaque{0.25}) == "{}");
  CHECK(px::fields_hash(Opaque{0.25}) == px::fields_hash(Opaque{0.5}));
  CHECK(px::fields_text(px::Adam{}) == "{0.001, 0.9, 0.999, 1e-08}");
  CHECK(px::settings_text(px::Adam{}) == "{.learning_rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-08}");
  CHECK(px::settings_text(Settings{}) == px::fields_text(Settings{}));  // which says no names
}

TEST_CASE("an object goes through words, and comes out of them with the same bits", "[core][fields]") {
  Settings settings{.rate = 0.1 + 0.2, .decay = -0.0f, .period = -7, .nesterov = false, .mode = Mode::slow, .comment = "mine"};
  std::vector<std::uint64_t> words;
  px::visit_words(settings, [&](std::uint64_t& word) { words.push_back(word); });
  CHECK(words.size() == 5);
  CHECK(px::word_count(settings) == 5);
  Settings other;
  std::size_t at = 0;
  px::visit_words(other, [&](std::uint64_t& word) { word = words[at++]; });
  CHECK(std::bit_cast<std::uint64_t>(other.rate) == std::bit_cast<std::uint64_t>(0.1 + 0.2));
  CHECK(std::signbit(other.decay));
  CHECK(other.period == -7);
  CHECK_FALSE(other.nesterov);
  CHECK(other.mode == Mode::slow);
  CHECK(std::string{other.comment} == "not compared");

  Opaque opaque{0.25}, read{0};
  std::uint64_t kept = 0;
  px::visit_words(opaque, [&](std::uint64_t& word) { kept = word; });
  px::visit_words(read, [&](std::uint64_t& word) { word = kept; });
  CHECK(read.rate_ == 0.25);
}

TEST_CASE("different numbers have different texts", "[core][fields]") {
  std::mt19937_64 random{7};
  for (int i = 0; i < 1000; ++i) {
    double const x = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 200) - 100);
    CHECK(std::stod(px::number_text(x)) == x);
    CHECK(px::number_text(x) != px::number_text(std::nextafter(x, 0.0)));
    float const y = static_cast<float>(x);
    CHECK(std::stof(px::number_text(y)) == y);
  }
  CHECK(px::number_text(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(px::number_text(true) == "1");
}
