// Dense buckets whose gradients travel as half of their bits, against the definition: encode each addend, decode, sum in the order
// of ranks; encode the sum, decode.
#include <bit>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../support/bf16_wire.hpp"
#include "../support/copying_communicator.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/detail/policy/bucket/dense_bucket.hpp"

namespace px = parallax;
using parallax_test::Bf16Wire;

namespace {

using Floats = std::vector<float>;

Floats gradient_of(std::uint64_t seed, int rank, std::size_t segment, std::size_t size) {
  std::mt19937_64 random{seed + segment * 100 + static_cast<std::uint64_t>(rank)};
  Floats values(size);
  for (float& value : values) value = static_cast<float>(static_cast<double>(random() % 2'000'003) / 7e3 - 100);
  return values;
}

// The definition of what arrives.
Floats over_the_wire(Floats const& values) {
  std::vector<std::uint16_t> travelling(values.size());
  Bf16Wire::encode(values.data(), values.size(), travelling.data());
  Floats arrived(values.size());
  Bf16Wire::decode(travelling.data(), travelling.size(), arrived.data());
  return arrived;
}
Floats sum_of(std::vector<Floats> const& addends) {
  Floats sum = over_the_wire(addends[0]);
  for (std::size_t a = 1; a < addends.size(); ++a) {
    Floats const addend = over_the_wire(addends[a]);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
  }
  return sum;
}
// Over two hops: the sums of hosts are addends, in the order of the hosts' first ranks.
Floats defined_sum(std::uint64_t seed, std::size_t segment, std::size_t size, std::vector<int> const& hosts, bool two_levels) {
  std::vector<int> names;
  std::vector<std::vector<Floats>> by_host;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    int const name = two_levels ? hosts[rank] : static_cast<int>(rank);
    auto const found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) by_host.emplace_back();
    by_host[static_cast<std::size_t>(found - names.begin())].push_back(gradient_of(seed, static_cast<int>(rank), segment, size));
    if (found == names.end()) names.push_back(name);
  }
  std::vector<Floats> sums;
  for (auto const& addends : by_host) sums.push_back(two_levels ? sum_of(addends) : addends[0]);
  return sum_of(sums);
}
Floats plus_one(Floats values) {
  for (float& value : values) value += 1;
  return values;
}

struct Setting {
  std::vector<std::size_t> sizes;
  px::FusionOptions fusion;
  bool in_place = false;
};
std::vector<Setting> const settings{
    {{10, 1, 7, 0, 100}, {}},
    {{10, 1, 7, 0, 100}, {.fusion_bytes = 64, .direct_bytes = 64}},
    {{10, 1, 7, 0, 100}, {.fusion_bytes = 0, .direct_bytes = 0}},
    {{10, 1, 7, 0, 100}, {.direct_bytes = 100, .round_bytes = 12}},
    {{5000}, {.direct_bytes = 1, .round_bytes = 900}},  // tiles of the sum, in many rounds
    {{70'000}, {}},
    {{}, {}},
    {{10, 1, 7, 0, 100}, {.direct_bytes = 64}, true},
};

std::string text(char const* what, std::size_t segment) { return std::string{what} + " of segment " + std::to_string(segment) + "; "; }

// What this rank sees wrong in an update.
template <px::Communicator C>
std::string wrong(px::DenseBucket<float, C, px::HostSpace, Bf16Wire>& bucket, px::Lane<C>& lane, Setting const& setting,
                  std::vector<int> const& hosts, bool two_levels, bool sharded, px::Spread spread, std::uint64_t seed) {
  auto const& topology = lane.topology();
  std::size_t const n = setting.sizes.size();
  std::vector<Floats> gradients, parameters, sums;
  for (std::size_t s = 0; s < n; ++s) {
    gradients.push_back(gradient_of(seed, topology.rank(), s, setting.sizes[s]));
    sums.push_back(defined_sum(seed, s, setting.sizes[s], hosts, two_levels));
    parameters.emplace_back(setting.sizes[s], -1.0f);
  }
  auto const given = gradients;
  auto const drive = [&](auto&& phase) {
    px::Patience<C> patience{topology.world()};
    while (!phase())
      if (!patience.pause()) throw px::timeout_error(topology.world(), -1, "a bucket's phase");
  };
  bucket.clear();
  for (std::size_t s = 0; s < n; ++s)
    bucket.add(gradients[s].data(), setting.sizes[s], parameters[s].data(), 1, setting.in_place ? gradients[s].data() : nullptr);
  bucket.close(topology, setting.fusion, sharded, spread);
  drive([&] { return bucket.reduce(lane); });

  std::string wrong;
  auto const check_whole = [&](char const* what, auto&& expected) {
    for (std::size_t s = 0; s < n; ++s) {
      Floats whole(setting.sizes[s], -7.0f);
      bucket.whole(s, [&](std::size_t first, float const* values, std::size_t count) {
        std::copy_n(values, count, whole.begin() + static_cast<std::ptrdiff_t>(first));
      });
      if (whole != over_the_wire(expected(s))) wrong += text(what, s);
    }
  };
  if (!sharded) {
    drive([&] { return bucket.gather_sums(lane); });
    check_whole("gathered sums", [&](std::size_t s) { return sums[s]; });
  }
  for (std::size_t s = 0; s < n; ++s) {
    auto const part = bucket.owned(s);
    for (std::size_t i = 0; i < part.values.size(); ++i)
      if (part.values[i] != sums[s][part.first + i]) {
        wrong += text("sums", s);
        break;
      }
    for (float& value : part.values) value += 1;  // a transform
    if (sharded) std::copy(part.values.begin(), part.values.end(), parameters[s].begin() + static_cast<std::ptrdiff_t>(part.first));
  }
  if (sharded) {
    drive([&] { return bucket.gather_parameters(lane); });
    for (std::size_t s = 0; s < n; ++s)
      if (parameters[s] != over_the_wire(plus_one(sums[s]))) wrong += text("parameters", s);
  } else {
    bucket.drop_sums();
    drive([&] { return bucket.gather_gradients(lane); });
    check_whole("gathered gradients", [&](std::size_t s) { return plus_one(sums[s]); });
  }
  if (!setting.in_place && gradients != given) wrong += "a gradient was written; ";
  return wrong;
}

struct Ran {
  std::vector<std::string> wrong;
  std::vector<px::Traffic> traffic;
};
// By thread ranks, which lend each other their memory, or copy; each setting in two updates of one bucket.
Ran run(std::vector<int> const& hosts, bool two_levels, bool sharded, bool lends, px::Spread spread, Setting const& setting,
        std::uint64_t seed) {
  Ran ran{std::vector<std::string>(hosts.size(), "did not get there"), std::vector<px::Traffic>(hosts.size())};
  auto const update = [&](auto& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    auto const topology = two_levels ? px::Topology{world, hosts} : px::Topology{world};
    px::Lane lane{topology, 3, ran.traffic[rank]};
    px::DenseBucket<float, std::remove_reference_t<decltype(world)>, px::HostSpace, Bf16Wire> bucket;
    std::string text;
    for (std::uint64_t const again : {0u, 1u})
      text += wrong(bucket, lane, setting, hosts, two_levels, sharded, spread, seed + again * 7919);
    ran.wrong[rank] = text;
  };
  px::run_threads(static_cast<int>(hosts.size()), [&](px::ThreadCommunicator& world) {
    parallax_test::CopyingCommunicator copying{world};
    if (lends) update(world);
    else update(copying);
  }, {.deadline = std::chrono::seconds{30}});
  return ran;
}

}  // namespace

TEST_CASE("what travels encoded is summed, and gathered, as it is decoded, on every rank alike", "[policy][wire]") {
  std::uint64_t const seed = std::random_device{}();
  std::vector<int> const hosts = GENERATE(std::vector{0}, std::vector{0, 1}, std::vector{0, 1, 2}, std::vector{0, 1, 2, 3});
  bool const sharded = GENERATE(false, true), lends = GENERATE(false, true);
  auto const spread = GENERATE(px::Spread::later, px::Spread::apart, px::Spread::in_place);
  for (std::size_t k = 0; k < settings.size(); ++k) {
    CAPTURE(seed, hosts, sharded, lends, k);
    CHECK(run(hosts, false, sharded, lends, spread, settings[k], seed).wrong == std::vector<std::string>(hosts.size()));
  }
}

TEST_CASE("sums of hosts are encoded on their way to other hosts", "[policy][wire]") {
  std::uint64_t const seed = std::random_device{}();
  std::vector<int> const hosts = GENERATE(std::vector{0}, std::vector{0, 0}, std::vector{0, 0, 1, 1}, std::vector{5, 2, 5, 2},
                                          std::vector{0, 0, 1}, std::vector{1, 1, 1}, std::vector{0, 1, 1, 1});
  bool const sharded = GENERATE(false, true), lends = GENERATE(false, true);
  for (std::size_t k = 0; k < settings.size(); ++k) {
    CAPTURE(seed, hosts, sharded, lends, k);
    CHECK(run(hosts, true, sharded, lends, px::Spread::later, settings[k], seed).wrong == std::vector<std::string>(hosts.size()));
  }
}

TEST_CASE("half of the bits are half of the bytes", "[policy][wire]") {
  std::vector<int> const hosts = GENERATE(std::vector{0}, std::vector{0, 1}, std::vector{0, 1, 2}, std::vector{0, 0, 1, 1});
  bool const sharded = GENERATE(false, true), lends = GENERATE(false, true), two_levels = GENERATE(false, true);
  std::vector<std::size_t> const sizes{1003, 10, 1, 7, 0, 100};
  auto const count = [&]<class W>(std::type_identity<W>) {
    std::vector<px::Traffic> traffic(hosts.size());
    auto const update = [&](auto& world) {
      auto const topology = two_levels ? px::Topology{world, hosts} : px::Topology{world};
      px::Lane lane{topology, 0, traffic[static_cast<std::size_t>(world.rank())]};
      px::DenseBucket<float, std::remove_reference_t<decltype(world)>, px::HostSpace, W> bucket;
      std::vector<Floats> gradients;
      for (std::size_t const size : sizes) gradients.emplace_back(size, 1.0f);
      for (auto& gradient : gradients) bucket.add(gradient.data(), gradient.size(), gradient.data());
      bucket.close(topology, {.direct_bytes = 1000}, sharded);
      px::Patience patience{world};
      auto const drive = [&](auto&& phase) {
        while (!phase())
          if (!patience.pause()) throw px::timeout_error(world, -1, "a bucket's phase");
      };
      drive([&] { return bucket.reduce(lane); });
      drive([&] { return sharded ? bucket.gather_parameters(lane) : bucket.gather_gradients(lane); });
    };
    px::run_threads(static_cast<int>(hosts.size()), [&](px::ThreadCommunicator& world) {
      parallax_test::CopyingCommunicator copying{world};
      if (lends) update(world);
      else update(copying);
    }, {.deadline = std::chrono::seconds{30}});
    return traffic;
  };
  auto const plain = count(std::type_identity<px::IdentityWire>{}), halved = count(std::type_identity<Bf16Wire>{});
  std::size_t const all = std::reduce(sizes.begin(), sizes.end());
  std::uint64_t sent = 0;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    CAPTURE(hosts, sharded, lends, two_levels, rank);
    CHECK(2 * halved[rank].sent_of(px::Payload::dense).all == plain[rank].sent_of(px::Payload::dense).all);
    CHECK(2 * halved[rank].received_of(px::Payload::dense).all == plain[rank].received_of(px::Payload::dense).all);
    CHECK(2 * halved[rank].sent_of(px::Payload::dense).between_hosts == plain[rank].sent_of(px::Payload::dense).between_hosts);
    CHECK(halved[rank].sent_of(px::Payload::control).all == 0);
    sent += halved[rank].payload_sent();
  }
  if (!two_levels) CHECK(sent == 2 * (hosts.size() - 1) * all * 2);
}
