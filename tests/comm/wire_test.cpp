// Slips whose elements are encoded on their way, and what the wire of these tests makes of a float.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "../catch.hpp"
#include "../support/bf16_wire.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/detail/transfer/wire_slip.hpp"

namespace px = parallax;
using parallax_test::Bf16Wire;

namespace {

struct OfThreeBytes {
  template <class>
  struct element {
    char bytes[3];
  };
  template <class T>
  static void encode(T const*, std::size_t, element<T>*) {}
  template <class T>
  static void decode(element<T> const*, std::size_t, T*) {}
};
struct OneWay {
  template <class T>
  using element = T;
  template <class T>
  static void encode(T const*, std::size_t, T*) {}
};

static_assert(px::Wire<px::IdentityWire, float> && px::Wire<px::IdentityWire, double> && px::Wire<Bf16Wire, float>);
static_assert(!px::Wire<Bf16Wire, double> && !px::Wire<OfThreeBytes, float> && !px::Wire<OneWay, float> && !px::Wire<int, float>);

// The nearest of the floats whose lower half is zero, of two the one that is even; without a bit of the wire's arithmetic.
float nearest_half(float value) {
  auto const bits = std::bit_cast<std::uint32_t>(value) & 0xffff0000u;
  double const below = std::bit_cast<float>(bits), above = std::bit_cast<float>(bits + 0x10000u);
  double const down = std::abs(value - below), up = std::abs(above - value);
  bool const odd = bits & 0x10000u;
  return static_cast<float>(up < down || (up == down && odd) ? above : below);
}

float element(int from, int to, std::size_t i) {
  return static_cast<float>(1.0 / (1.0 + static_cast<double>(i) + 10.0 * from + 100.0 * to));
}
std::size_t count_of(int from, int to) { return static_cast<std::size_t>((3 * from + 5 * to) % 4 * 3); }

// What one rank takes from a slip that is alone, or with others, and the bytes it sent.
template <class W>
struct Seen {
  std::vector<float> taken, shared;
  std::uint64_t sent = 0;
};
template <class W>
Seen<W> exchange(px::ThreadCommunicator& world, bool alone) {
  px::Topology topology{world};
  px::Traffic traffic;
  px::Mail mail{topology, 1, traffic};
  px::WireSlip<px::ThreadCommunicator, W, float> own, shared;
  Seen<W> seen;
  std::vector<int> everyone;
  for (int rank = 0; rank < world.size(); ++rank) everyone.push_back(rank);
  for (int again = 0; again < 2; ++again) {
    mail.clear();
    own.open(mail, px::Payload::rows);
    if (!alone) {
      int const ids = mail.open(8, px::Payload::ids);
      for (int const rank : everyone) mail.send(ids, rank, 8), mail.expect(ids, rank, 8);
      shared.open_shared(mail, px::Payload::rows);
    }
    for (int const rank : everyone) {
      own.send(mail, rank, count_of(world.rank(), rank));
      own.expect(mail, rank, count_of(rank, world.rank()));
      if (alone) continue;
      shared.send(mail, rank, 5);
      shared.expect(mail, rank, 5);
    }
    mail.layout();
    for (int const rank : everyone)
      own.write(mail, rank, [&](float* out) {
        for (std::size_t i = 0; i < count_of(world.rank(), rank); ++i) out[i] = element(world.rank(), rank, i);
      });
    if (!alone)
      shared.write_shared(mail, [&](float* out) {
        for (std::size_t i = 0; i < 5; ++i) out[i] = element(world.rank(), 9, i);
      });
    mail.post();
    px::Patience patience{world};
    while (!mail.test())
      if (!patience.pause()) throw px::timeout_error(world, -1, "a mail");
    px::Buffer<std::byte> taken;
    auto const floats = [&] {
      auto const* const first = reinterpret_cast<float const*>(taken.data());
      return std::vector<float>(first, first + taken.size() / sizeof(float));
    };
    if (!alone) {
      shared.take(mail, everyone, taken);
      seen.shared = floats();
    }
    std::size_t n = 0;
    for (int const rank : everyone) n += own.arrived(mail, rank);
    own.take(mail, everyone, taken);
    seen.taken = floats();
    if (n != seen.taken.size()) seen.taken.clear();
  }
  seen.sent = traffic.sent_of(px::Payload::rows).all;
  return seen;
}

template <class W>
void check_slips(std::size_t bytes) {
  for (int const ranks : {1, 2, 3, 4})
    for (bool const alone : {true, false}) {
      std::vector<Seen<W>> seen(static_cast<std::size_t>(ranks));
      px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
        seen[static_cast<std::size_t>(world.rank())] = exchange<W>(world, alone);
      }, {.deadline = std::chrono::seconds{30}});
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<float> taken, shared;
        std::uint64_t sent = 0;
        auto const arrives = [](float value) { return std::same_as<W, Bf16Wire> ? nearest_half(value) : value; };
        for (int other = 0; other < ranks; ++other) {
          for (std::size_t i = 0; i < count_of(other, rank); ++i) taken.push_back(arrives(element(other, rank, i)));
          for (std::size_t i = 0; i < 5 && !alone; ++i) shared.push_back(arrives(element(other, 9, i)));
          if (other != rank) sent += 2 * bytes * (count_of(rank, other) + (alone ? 0 : 5));
        }
        CAPTURE(ranks, alone, rank);
        CHECK(seen[static_cast<std::size_t>(rank)].taken == taken);
        CHECK(seen[static_cast<std::size_t>(rank)].shared == shared);
        CHECK(seen[static_cast<std::size_t>(rank)].sent == sent);
      }
    }
}

}  // namespace

TEST_CASE("a slip brings what a wire makes of its elements, to the rank itself as well", "[comm][wire]") {
  check_slips<Bf16Wire>(2);
  check_slips<px::IdentityWire>(4);
}

TEST_CASE("the wire of these tests rounds a float to the nearest half, of two to the even one", "[comm][wire]") {
  std::uint64_t const seed = std::random_device{}();
  std::mt19937_64 random{seed};
  std::vector<float> values{0.0f, -0.0f, 1.0f, 1e-45f, -3e38f, std::numeric_limits<float>::infinity()};
  for (int i = 0; i < 10'000; ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    if (i % 3 == 0) bits = (bits & 0xffff0000u) | 0x8000u;  // in the middle
    if ((bits & 0x7f800000u) < 0x7f000000u) values.push_back(std::bit_cast<float>(bits));
  }
  std::vector<std::uint16_t> travelling(values.size());
  std::vector<float> arrived(values.size());
  Bf16Wire::encode(values.data(), values.size(), travelling.data());
  Bf16Wire::decode(travelling.data(), travelling.size(), arrived.data());
  CAPTURE(seed);
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    wrong += std::isinf(values[i]) ? arrived[i] != values[i] : arrived[i] != nearest_half(values[i]);
  CHECK(wrong == 0);
  float const none = std::numeric_limits<float>::quiet_NaN();
  Bf16Wire::encode(&none, 1, travelling.data());
  Bf16Wire::decode(travelling.data(), 1, arrived.data());
  CHECK(std::isnan(arrived[0]));
}
