// A trainer compiled with -fno-rtti: its flights, fetches and buckets are found by other means. Exits with 0 if all is right.
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../support/bf16_wire.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

// An optimizer without a name, which is called as its type is.
struct Plain {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  auto at(std::int64_t) const {
    return [](auto& p, auto g) noexcept { p -= g; };
  }
};

// Two wires of 16 bits, whose buckets differ by type alone.
struct CutWire {
  template <std::same_as<float> T>
  using element = std::uint16_t;
  static void encode(float const* from, std::size_t n, std::uint16_t* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(from[i]) >> 16);
  }
  static void decode(std::uint16_t const* from, std::size_t n, float* to) { parallax_test::Bf16Wire::decode(from, n, to); }
};
template <class W>
struct Wired {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Wired";
  template <class Kind>
  struct exchange : px::AllReduce::exchange<Kind> {
    using wire = W;
  };
};

// What is wrong on this rank, or nothing.
std::string train(px::ThreadCommunicator& world) {
  px::Session session{world};
  std::vector<float> memory(3), memory_rounded(3), memory_cut(3);
  px::Variable<px::Dense, Plain> layer{session, "layer", px::bind(memory), px::Reduce::sum};
  px::Variable<px::Dense, Wired<parallax_test::Bf16Wire>, Plain> rounded{session, "rounded", px::bind(memory_rounded),
                                                                         px::Reduce::sum};
  px::Variable<px::Dense, Wired<CutWire>, Plain> cut{session, "cut", px::bind(memory_cut), px::Reduce::sum};
  px::Variable<px::Sparse, Plain> words{session, "words", {10, 1}, px::Reduce::sum};
  px::Variable<px::Sparse, px::Auto, Plain> letters{session, "letters", {10, 1}, px::Reduce::sum};
  std::vector<float> const ones(3, 1.0f), more(3, 1.005859375f);  // 1.0078125 and 1 over the wires
  std::vector<int> const ids{1, 7, 1};
  std::string wrong;
  auto const check = [&](bool right, std::string const& what) { wrong += right ? "" : what + "; "; };
  auto next = session.prefetch(words, ids);
  auto both = session.prefetch(letters.at(ids), words.at(ids));
  for (int step = 0; step < 4; ++step) {
    auto const rows = session.pull(std::move(next));
    auto const [of_letters, of_words] = session.pull(std::move(both));
    next = session.prefetch(words, ids);
    both = session.prefetch(letters.at(ids), words.at(ids));
    check(rows[0][0] == -4.0f * static_cast<float>(step) && of_words[1][0] == -2.0f * static_cast<float>(step), "words");
    session.start(px::grad(layer, ones));
    session.step(px::grad(rounded, more), px::grad(cut, more), px::grad(rows, ones), px::grad(of_letters, ones));
  }
  check(session.pull(std::move(next))[2][0] == -16, "words at the end");
  check(std::get<0>(session.pull(std::move(both)))[2][0] == -16, "letters");
  check(memory == std::vector<float>(3, -8), "layer");
  check(memory_rounded == std::vector<float>(3, -8.0625), "rounded");
  check(memory_cut == std::vector<float>(3, -8), "cut");
  try {
    session.step(px::grad(layer, std::vector<float>(2)));
    check(false, "a gradient of a wrong size");
  } catch (px::Error const& error) {
    check(error.code() == px::Errc::invalid_argument, error.what());
  }
  session.finish();
  check(px::optimizer_name<Plain>() == "Plain", px::optimizer_name<Plain>());
  return wrong;
}

int main() {
  std::vector<std::string> wrong(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) { wrong[static_cast<std::size_t>(world.rank())] = train(world); });
  for (std::string const& text : wrong)
    if (!text.empty()) std::printf("wrong: %s\n", text.c_str());
  return wrong[0].empty() && wrong[1].empty() ? 0 : 1;
}
