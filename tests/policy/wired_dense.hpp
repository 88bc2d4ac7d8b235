// Trainings of dense variables whose policies have wires, beside what follows from the definition of their wires; on any
// communicator. Every rank works out for all ranks what must come of a step.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/bf16_wire.hpp"
#include "parallax/comm/communicator.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test::wired_dense {

namespace px = parallax;

// A policy of the library's with another wire.
template <class Policy, class W>
struct Wired {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Wired";
  template <class Kind>
  struct exchange : Policy::template exchange<Kind> {
    using wire = W;
  };
};
// Other wires: the upper bits of a float as they are, and a double as a float.
struct CutWire {
  template <std::same_as<float> T>
  using element = std::uint16_t;
  static void encode(float const* from, std::size_t n, std::uint16_t* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(from[i]) >> 16);
  }
  static void decode(std::uint16_t const* from, std::size_t n, float* to) { Bf16Wire::decode(from, n, to); }
};
struct FloatWire {
  template <std::same_as<double> T>
  using element = float;
  static void encode(double const* from, std::size_t n, float* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
  }
  static void decode(float const* from, std::size_t n, double* to) { std::copy_n(from, n, to); }
};

// What arrives of what is sent.
template <class W, class T>
std::vector<T> over(std::vector<T> const& values) {
  std::vector<typename W::template element<T>> travelling(values.size());
  W::encode(values.data(), values.size(), travelling.data());
  std::vector<T> arrived(values.size());
  W::decode(travelling.data(), travelling.size(), arrived.data());
  return arrived;
}
template <class T>
std::vector<T> sum(std::vector<std::vector<T>> const& addends) {
  std::vector<T> sum = addends[0];
  for (std::size_t a = 1; a < addends.size(); ++a)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addends[a][i];
  return sum;
}
// Each addend is encoded; the sums of hosts, in the order of their first ranks, are addends, too. `hosts` is empty in one level.
template <class W, class T>
std::vector<T> sum_over(std::vector<std::vector<T>> addends, std::vector<int> const& hosts) {
  for (auto& addend : addends) addend = over<W>(addend);
  if (hosts.empty()) return sum(addends);
  std::vector<std::vector<T>> sums;
  std::vector<int> done;
  for (int const host : hosts) {
    if (std::find(done.begin(), done.end(), host) != done.end()) continue;
    done.push_back(host);
    std::vector<std::vector<T>> of_host;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      if (hosts[rank] == host) of_host.push_back(addends[rank]);
    sums.push_back(over<W>(sum(of_host)));
  }
  return sum(sums);
}

// Whole numbers that neither 8 bits nor 11 hold, so that their sums, and sums of their squares, have the same bits in any order.
template <class T>
std::vector<T> gradient_of(int which, int rank, int step, std::size_t size) {
  std::vector<T> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    auto const of_gradient = static_cast<std::uint32_t>(rank * 40503 + step * 977 + which * 131);
    auto const mixed = (static_cast<std::uint32_t>(i) * 2654435761u) ^ of_gradient;
    values[i] = static_cast<T>(static_cast<int>(mixed * 2246822519u >> 19) - 4096);
  }
  return values;
}
// As what is no whole number, even in a double.
template <class T>
std::vector<T> thirds_of(int which, int rank, int step, std::size_t size) {
  auto values = gradient_of<T>(which, rank, step, size);
  for (T& value : values) value /= 3;
  return values;
}

// How gradients are brought to a step.
enum class How { step, in_place, started, transformed };
inline constexpr How ways_to_step[] = {How::step, How::in_place, How::started, How::transformed};
constexpr float rate = 0.5f;

// One variable of a training: what it is, and what it must become.
template <class Policy, class W, class T>
struct Layer {
  static constexpr bool sharded = Policy::template exchange<px::Dense>::sharded;
  using OfPolicy = std::conditional_t<px::encodes<W>, Wired<Policy, W>, Policy>;

  template <class Session>
  Layer(Session& session, int its_number, std::size_t size)
      : number{its_number},
        values(size),
        expected(size),
        gradient(size),
        variable{session, "layer " + std::to_string(number), px::bind(values), px::Sgd{.learning_rate = rate}} {}

  void fill(int rank, int step) { gradient = thirds_of<T>(number, rank, step, values.size()); }
  // The update, alone: addends encoded; sum, mean and transform in full; what comes back is encoded.
  void expect(int step, int ranks, std::vector<int> const& hosts, bool transformed) {
    std::vector<std::vector<T>> addends;
    for (int rank = 0; rank < ranks; ++rank) addends.push_back(thirds_of<T>(number, rank, step, values.size()));
    auto mean = sum_over<W>(addends, hosts);
    for (T& value : mean) {
      if (ranks > 1) value /= static_cast<T>(ranks);
      if (transformed) value = value / 3 + 1;
    }
    apply(mean);
  }
  void apply(std::vector<T> result) {
    if (!sharded) result = over<W>(result);
    for (std::size_t i = 0; i < result.size(); ++i) expected[i] -= static_cast<T>(rate) * result[i];
    if (sharded) expected = over<W>(expected);
  }

  auto update() { return px::grad(variable, gradient); }
  auto update_in_place() { return px::grad(variable, px::in_place(gradient)); }
  auto update_transformed() {
    return update().transform([](px::DenseGradient<T> own) {
      for (T& value : own.values) value = value / 3 + 1;
    });
  }
  std::string wrong(int step) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != expected[i])
        return "step " + std::to_string(step) + ", layer " + std::to_string(number) + ", element " + std::to_string(i) + ": " +
               std::to_string(values[i]) + " for " + std::to_string(expected[i]) + "; ";
    return "";
  }

  int number;
  std::vector<T> values, expected, gradient;
  px::Variable<px::Dense, T, OfPolicy, px::Sgd> variable;
};

inline px::SessionOptions options_of(bool small_rounds) {
  px::SessionOptions options;
  if (small_rounds) options.fusion = {.fusion_bytes = 300, .direct_bytes = 600, .round_bytes = 64};
  return options;
}

// All wires, scalars and policies in the same steps, with variables that have none. Returns what was wrong on this rank.
template <class C>
std::string every_wire(C& world, px::Topology<C> topology, std::vector<int> const& hosts, How how, bool small_rounds) {
  px::Session session{std::move(topology), options_of(small_rounds)};
  Layer<px::AllReduce, px::IdentityWire, float> plain{session, 0, 301};
  Layer<px::AllReduce, Bf16Wire, float> whole{session, 1, 703}, small{session, 2, 10};
  Layer<px::PsShard, Bf16Wire, float> shard{session, 3, 211};
  Layer<px::AllReduce, CutWire, float> cut{session, 4, 57};
  Layer<px::AllReduce, FloatWire, double> doubles{session, 5, 31};
  Layer<px::PsShard, FloatWire, double> sharded_doubles{session, 6, 1};
  Layer<px::PsShard, px::IdentityWire, float> plain_shard{session, 7, 99};
  std::string wrong;
  auto const each = [&](auto&& f) {
    f(plain), f(whole), f(small), f(shard), f(cut), f(doubles), f(sharded_doubles), f(plain_shard);
  };
  for (int step = 0; step < 3; ++step) {
    each([&](auto& layer) { layer.fill(world.rank(), step); });
    if (how == How::step) {
      session.step(cut.update(), plain.update(), whole.update(), shard.update(), doubles.update(), small.update(),
                   sharded_doubles.update(), plain_shard.update());
    } else if (how == How::in_place) {
      session.step(plain.update_in_place(), whole.update_in_place(), shard.update_in_place(), cut.update_in_place(),
                   doubles.update_in_place(), small.update_in_place(), sharded_doubles.update_in_place(),
                   plain_shard.update_in_place());
    } else if (how == How::started) {
      session.start(small.update(), cut.update(), plain.update());
      session.start(px::Priority{1}, whole.update(), sharded_doubles.update());
      session.poll();
      session.step(doubles.update(), shard.update(), plain_shard.update());
    } else {
      session.step(plain.update_transformed(), whole.update_transformed(), shard.update_transformed(), cut.update_transformed(),
                   doubles.update_transformed(), small.update_transformed(), sharded_doubles.update_transformed(),
                   plain_shard.update_transformed());
    }
    each([&](auto& layer) {
      layer.expect(step, world.size(), hosts, how == How::transformed);
      wrong += layer.wrong(step);
    });
  }
  session.finish();
  return wrong;
}

// Wires in ranges that come and go, and a step that is refused before the first rank has looked at all of them: what every rank
// has seen first of them differs, the order in which they travel must not.
template <class C>
std::string come_and_go(C& world, px::Topology<C> topology, std::vector<int> const& hosts) {
  using A = Layer<px::AllReduce, Bf16Wire, float>;
  using B = Layer<px::AllReduce, CutWire, float>;
  px::Session session{std::move(topology), {.non_finite = px::NonFinite::error}};
  A a{session, 0, 40}, more_of_a{session, 1, 5000};
  B b{session, 2, 7000};
  std::vector<decltype(a.update())> of_a;
  std::vector<decltype(b.update())> of_b;
  std::string wrong;
  int const last = world.size() - 1;
  auto const step = [&](int number, bool with_a, bool with_b, bool fails) {
    of_a.clear(), of_b.clear();
    a.fill(world.rank(), number), more_of_a.fill(world.rank(), number), b.fill(world.rank(), number);
    if (with_a) of_a = {a.update(), more_of_a.update()};
    if (with_b) of_b = {b.update()};
    if (fails && world.rank() == last) a.gradient[3] = INFINITY;
    bool refused = false;
    try {
      session.step(of_a, of_b);
    } catch (px::Error const& error) {
      refused = error.code() == px::Errc::non_finite;
    }
    if (refused != fails) wrong += "step " + std::to_string(number) + (fails ? " was not refused; " : " was refused; ");
    if (with_a && !fails) a.expect(number, world.size(), hosts, false);
    if (with_a && !fails) more_of_a.expect(number, world.size(), hosts, false);
    if (with_b && !fails) b.expect(number, world.size(), hosts, false);
    wrong += a.wrong(number) + more_of_a.wrong(number) + b.wrong(number);
  };
  step(0, true, true, true);
  step(1, false, true, false);
  step(2, true, true, false);
  step(3, false, false, false);
  step(4, true, false, false);
  step(5, true, true, true);
  step(6, true, true, false);
  session.finish();
  return wrong;
}

// The norm of a clip group is that of the sums, as their owners have them; two updates of one variable are added before what
// comes back is encoded, whether both are the step's or one was started.
template <class C>
std::string clipped_and_merged(C& world, px::Topology<C> topology, std::vector<int> const& hosts) {
  px::Session session{std::move(topology)};
  std::vector<float> values(301), expected(301), shard_values(120), shard_expected(120), plain_values(50), plain_expected(50);
  px::Sgd const sgd{.learning_rate = rate};
  auto const sums = px::Reduce::sum;
  px::Variable<px::Dense, float, Wired<px::AllReduce, Bf16Wire>, px::Sgd> whole{session, "whole", px::bind(values), sgd, sums};
  px::Variable<px::Dense, float, Wired<px::PsShard, Bf16Wire>, px::Sgd> shard{session, "shard", px::bind(shard_values), sgd, sums};
  px::Variable<px::Dense, float, px::AllReduce, px::Sgd> plain{session, "plain", px::bind(plain_values), sgd, sums};
  auto const all_of = [&]<class W>(std::type_identity<W>, int which, int step, std::size_t size) {
    std::vector<std::vector<float>> addends;
    for (int rank = 0; rank < world.size(); ++rank) addends.push_back(gradient_of<float>(which, rank, step, size));
    return sum_over<W>(addends, hosts);
  };
  std::string wrong;
  for (int step = 0; step < 4; ++step) {
    auto const first = gradient_of<float>(1, world.rank(), step, 301), second = gradient_of<float>(2, world.rank(), step, 301);
    auto const of_shard = gradient_of<float>(3, world.rank(), step, 120), again = gradient_of<float>(5, world.rank(), step, 120);
    auto const of_plain = gradient_of<float>(4, world.rank(), step, 50);
    bool const started = step % 2 == 1;
    if (started) {
      session.start(px::grad(whole, first), px::grad(shard, again));
      session.step(px::grad(whole, second), px::grad(shard, of_shard), px::grad(plain, of_plain));
    } else {
      session.step(px::clip_by_global_norm(1000, px::grad(whole, first), px::grad(plain, of_plain), px::grad(whole, second),
                                           px::grad(shard, of_shard), px::grad(shard, again)));
    }
    std::type_identity<Bf16Wire> const bf16;
    auto of_whole = sum(std::vector{all_of(bf16, 1, step, 301), all_of(bf16, 2, step, 301)});
    auto shard_sum = sum(std::vector{all_of(bf16, 3, step, 120), all_of(bf16, 5, step, 120)});
    auto plain_sum = all_of(std::type_identity<px::IdentityWire>{}, 4, step, 50);
    double squares = 0;
    for (auto const* gradient : {&of_whole, &shard_sum, &plain_sum})
      for (float const value : *gradient) squares += static_cast<double>(value) * value;
    float const scale = started ? 1.0f : static_cast<float>(1000 / std::sqrt(squares));
    auto const apply = [&](std::vector<float>& parameters, std::vector<float> const& gradient) {
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rate * (gradient[i] * scale);
    };
    apply(expected, over<Bf16Wire>(of_whole));
    apply(shard_expected, shard_sum);
    shard_expected = over<Bf16Wire>(shard_expected);
    apply(plain_expected, plain_sum);
    if (values != expected) wrong += "whole of step " + std::to_string(step) + "; ";
    if (shard_values != shard_expected) wrong += "shard of step " + std::to_string(step) + "; ";
    if (plain_values != plain_expected) wrong += "plain of step " + std::to_string(step) + "; ";
  }
  session.finish();
  return wrong;
}

// The traffic of some steps in which all travels as the wire has it.
template <class W, class C>
px::Traffic traffic(C& world, px::Topology<C> topology, bool started) {
  px::Session session{std::move(topology), options_of(false)};
  Layer<px::AllReduce, W, float> whole{session, 1, 703}, small{session, 2, 11};
  Layer<px::PsShard, W, float> shard{session, 3, 211};
  px::Traffic const before = session.traffic();
  for (int step = 0; step < 3; ++step) {
    whole.fill(world.rank(), step), small.fill(world.rank(), step), shard.fill(world.rank(), step);
    if (started) session.start(whole.update());
    if (started) session.step(small.update(), shard.update());
    else session.step(whole.update(), small.update(), shard.update());
  }
  px::Traffic after = session.traffic();
  session.finish();
  auto& sent = after.sent[static_cast<std::size_t>(px::Payload::dense)];
  auto& received = after.received[static_cast<std::size_t>(px::Payload::dense)];
  sent.all -= before.sent_of(px::Payload::dense).all;
  sent.between_hosts -= before.sent_of(px::Payload::dense).between_hosts;
  received.all -= before.received_of(px::Payload::dense).all;
  received.between_hosts -= before.received_of(px::Payload::dense).between_hosts;
  return after;
}
template <class C>
std::string half_the_bytes(C& world, std::vector<int> const& hosts, bool started) {
  auto const topology = [&] { return hosts.empty() ? px::Topology{world} : px::Topology{world, hosts}; };
  auto const plain = traffic<px::IdentityWire>(world, topology(), started), half = traffic<Bf16Wire>(world, topology(), started);
  auto const &p = plain.sent_of(px::Payload::dense), &h = half.sent_of(px::Payload::dense);
  auto const &q = plain.received_of(px::Payload::dense), &i = half.received_of(px::Payload::dense);
  bool const halved = 2 * h.all == p.all && 2 * i.all == q.all && 2 * h.between_hosts == p.between_hosts &&
                      2 * i.between_hosts == q.between_hosts;
  if (halved && (h.all > 0) == (world.size() > 1)) return "";
  return std::to_string(h.all) + " bytes sent and " + std::to_string(i.all) + " received for " + std::to_string(p.all) + " and " +
         std::to_string(q.all) + "; ";
}

// All of it on these ranks; `hosts` is empty in one level.
template <class C>
std::string all_wrong(C& world, std::vector<int> const& hosts) {
  auto const topology = [&] { return hosts.empty() ? px::Topology{world} : px::Topology{world, hosts}; };
  std::string wrong;
  for (How const how : ways_to_step)
    for (bool const small_rounds : {false, true})
      if (auto const text = every_wire(world, topology(), hosts, how, small_rounds); !text.empty())
        wrong += "brought in way " + std::to_string(static_cast<int>(how)) + ": " + text;
  wrong += come_and_go(world, topology(), hosts);
  wrong += clipped_and_merged(world, topology(), hosts);
  for (bool const started : {false, true}) wrong += half_the_bytes(world, hosts, started);
  return wrong;
}

}  // namespace parallax_test::wired_dense
