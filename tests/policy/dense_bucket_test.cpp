// The phases of a dense bucket by themselves: whatever the fusion, the rounds and the hosts, the same sums reach their owners.
#include "parallax/detail/policy/bucket/dense_bucket.hpp"

#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "../catch.hpp"
#include "../support/copying_communicator.hpp"
#include "../support/size.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"

namespace px = parallax;

namespace {

using Sizes = std::vector<std::size_t>;

struct Setting {
  Sizes sizes;
  std::vector<std::size_t> units;
  px::FusionOptions fusion;
  bool in_place = false;  // gradients are views of one buffer, and may be overwritten
};

template <class T>
std::vector<T> values(std::size_t size, int rank, std::size_t segment) {
  std::mt19937_64 random{segment * 1000 + static_cast<std::size_t>(rank)};
  std::vector<T> result(size);
  for (T& value : result) value = static_cast<T>(static_cast<double>(random() % 2000) / 7 - 100);
  return result;
}

// Sums in the documented order: ranks of a host ascending, then hosts in order of their first rank.
template <class T>
std::vector<T> documented_sum(std::size_t size, std::size_t segment, std::vector<int> const& hosts) {
  std::vector<int> names;
  for (int const host : hosts)
    if (std::ranges::find(names, host) == names.end()) names.push_back(host);
  std::vector<T> sum;
  for (int const name : names) {
    std::vector<T> of_host;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] != name) continue;
      auto const addend = values<T>(size, static_cast<int>(rank), segment);
      if (of_host.empty()) of_host = addend;
      else
        for (std::size_t i = 0; i < size; ++i) of_host[i] += addend[i];
    }
    if (sum.empty()) sum = of_host;
    else
      for (std::size_t i = 0; i < size; ++i) sum[i] += of_host[i];
  }
  return sum;
}

template <px::Communicator C, class Phase>
void drive(C& world, Phase&& phase) {
  px::Patience<C> patience{world};
  while (!phase())
    if (!patience.pause()) throw px::timeout_error(world, -1, "a bucket's phase");
}

// What one rank sees wrong in one bucket's updates, each under its setting: elements of owned parts and of gathered wholes that
// are not the documented sums.
template <class T, px::Communicator C>
int run(px::Topology<C> const& topology, std::vector<int> const& hosts, std::vector<Setting> const& updates, bool sharded,
        px::Spread spread = px::Spread::later) {
  px::Traffic traffic;
  px::Lane<C> lane{topology, 3, traffic};
  px::DenseBucket<T, C> bucket;
  int wrong = 0;
  for (Setting const& setting : updates) {
    std::size_t const n = setting.sizes.size();
    std::vector<T> gradients{T{7}};
    std::vector<std::size_t> begins;
    std::vector<std::vector<T>> parameters, sums;
    for (std::size_t s = 0; s < n; ++s) {
      auto const gradient = values<T>(setting.sizes[s], topology.rank(), s);
      begins.push_back(gradients.size());
      gradients.insert(gradients.end(), gradient.begin(), gradient.end());
      sums.push_back(documented_sum<T>(setting.sizes[s], s, hosts));
      parameters.emplace_back(setting.sizes[s], T{-1});
    }
    gradients.push_back(T{7});
    auto const untouched = gradients;
    bucket.clear();
    for (std::size_t s = 0; s < n; ++s) {
      std::size_t const unit = setting.units.empty() ? 1 : setting.units[s];
      T* const gradient = gradients.data() + begins[s];
      T* const in_place = setting.in_place ? gradient : nullptr;
      if (bucket.add(gradient, setting.sizes[s], parameters[s].data(), unit, in_place) != s) ++wrong;
    }
    bucket.close(topology, setting.fusion, sharded, spread);
    drive(topology.world(), [&] { return bucket.reduce(lane); });
    auto const show_whole = [&] {
      for (std::size_t s = 0; s < n; ++s)
        bucket.whole(s, [&](std::size_t first, T const* piece, std::size_t count) {
          std::copy_n(piece, count, parameters[s].begin() + static_cast<std::ptrdiff_t>(first));
        });
    };
    bool const early = !sharded && spread != px::Spread::later && !bucket.empty();
    if (early) {  // all ranks have the sums before owners change their parts
      drive(topology.world(), [&] { return bucket.gather_sums(lane); });
      show_whole();
      for (std::size_t s = 0; s < n; ++s) wrong += parameters[s] != sums[s];
    }
    std::size_t owned = 0;
    for (std::size_t s = 0; s < n; ++s) {
      auto const part = bucket.owned(s);
      owned += part.values.size();
      for (std::size_t i = 0; i < part.values.size(); ++i) wrong += part.values[i] != sums[s][part.first + i];
      if (!setting.units.empty() && part.first % std::max<std::size_t>(setting.units[s], 1) != 0) ++wrong;
      for (T& value : part.values) value += T{1};  // a transform
      if (sharded)
        std::copy(part.values.begin(), part.values.end(), parameters[s].begin() + static_cast<std::ptrdiff_t>(part.first));
    }
    if (topology.owner() < 0 && owned > 0) ++wrong;
    if (sharded) {
      drive(topology.world(), [&] { return bucket.gather_parameters(lane); });
    } else {
      if (early) bucket.drop_sums();
      drive(topology.world(), [&] { return bucket.gather_gradients(lane); });
      show_whole();
    }
    for (std::size_t s = 0; s < n; ++s)
      for (std::size_t i = 0; i < setting.sizes[s]; ++i) wrong += parameters[s][i] != sums[s][i] + T{1};
    if (setting.in_place) wrong += gradients.front() != T{7} || gradients.back() != T{7};
    else wrong += gradients != untouched;
  }
  return wrong;
}

std::vector<Setting> const settings{
    {{10, 1, 7, 0, 100}, {}, {}},                                                     // all in one parcel
    {{10, 1, 7, 0, 100}, {}, {.fusion_bytes = 64, .direct_bytes = 64}},               // some fused, some direct
    {{10, 1, 7, 0, 100}, {}, {.fusion_bytes = 0, .direct_bytes = 0}},                 // each where it lies
    {{10, 1, 7, 0, 100}, {}, {.direct_bytes = 100, .round_bytes = 12}},               // in many rounds
    {{12, 30, 0, 9}, {4, 3, 5, 9}, {.fusion_bytes = 1000, .direct_bytes = 60, .round_bytes = 8}},  // whole rows
    {{5000}, {}, {.direct_bytes = 1, .round_bytes = 1}},                              // the smallest rounds, tiles of the sum
    {{70'000}, {}, {.direct_bytes = 1}},  // more than one round where a round is to stay in the cache, one where it need not
    {{}, {}, {}},
    {{10, 1, 7, 0, 100}, {}, {}, true},
    {{10, 1, 7, 0, 100}, {}, {.fusion_bytes = 64, .direct_bytes = 64}, true},
    {{12, 30, 0, 9}, {4, 3, 5, 9}, {.direct_bytes = 100, .round_bytes = 8}, true},
};

// How many elements are wrong on each of as many thread ranks; -1 where a rank did not get there. Ranks lend each other their
// memory, or copy.
template <class T>
std::vector<int> wrong_by_rank(std::vector<int> const& hosts, bool two_levels, std::vector<Setting> const& updates,
                               bool sharded, bool lends, px::Spread spread = px::Spread::later) {
  std::vector<int> wrong(hosts.size(), -1);
  auto const count = [&](auto& world) {
    auto const topology = two_levels ? px::Topology{world, hosts} : px::Topology{world};
    wrong[static_cast<std::size_t>(world.rank())] = run<T>(topology, hosts, updates, sharded, spread);
  };
  px::run_threads(static_cast<int>(hosts.size()),
                  [&](px::ThreadCommunicator& world) {
                    parallax_test::CopyingCommunicator copying{world};
                    if (lends) count(world);
                    else count(copying);
                  },
                  {.deadline = std::chrono::seconds{30}});
  return wrong;
}

}  // namespace

TEMPLATE_TEST_CASE("a bucket's owners hold the documented sums, and all ranks the whole", "[policy][bucket]", float, double) {
  std::vector<int> const hosts = GENERATE(std::vector{0, 1}, std::vector{0, 1, 2}, std::vector{0, 1, 2, 3});
  bool const sharded = GENERATE(false, true), lends = GENERATE(false, true);
  for (std::size_t k = 0; k < settings.size(); ++k) {
    if (k == 6) continue;  // there is one hop, in which all take part
    std::vector const updates(k == 5 ? 1 : 3, settings[k]);
    for (px::Spread const spread : {px::Spread::later, px::Spread::apart, px::Spread::in_place}) {
      if (k == 5 && spread == px::Spread::apart) continue;  // in as many rounds as in place
      CAPTURE(hosts, sharded, lends, k, spread);
      CHECK(wrong_by_rank<TestType>(hosts, false, updates, sharded, lends, spread) == std::vector<int>(hosts.size(), 0));
    }
  }
}

TEST_CASE("a bucket sums within hosts first, where hosts are equal, unequal or one", "[policy][bucket]") {
  std::vector<int> const hosts = GENERATE(std::vector{0, 0, 1, 1}, std::vector{5, 2, 5, 2}, std::vector{0, 0, 1},
                                          std::vector{1, 1, 1}, std::vector{0, 1, 1, 1}, std::vector{0, 0, 0, 1, 1});
  bool const sharded = GENERATE(false, true), lends = GENERATE(false, true);
  std::size_t const stride = parallax_test::sized(3u, 1u, 1u);  // where it is small, each setting has other hosts in turn
  for (std::size_t k = (hosts.size() + sharded + 2 * lends) % stride; k < settings.size(); k += stride) {
    CAPTURE(hosts, sharded, lends, k);
    if (lends && k == 5) continue;
    std::vector const updates(k == 5 || k == 6 ? 1 : 2, settings[k]);
    CHECK(wrong_by_rank<float>(hosts, true, updates, sharded, lends) == std::vector<int>(hosts.size(), 0));
  }
}

TEST_CASE("a bucket on one rank sends nothing", "[policy][bucket]") {
  px::SelfCommunicator self;
  px::Topology topology{self};
  for (Setting const& setting : settings)
    for (bool const sharded : {false, true}) CHECK(run<double>(topology, {0}, {setting, setting}, sharded) == 0);
}

TEST_CASE("a bucket that kept its layout makes another for other segments or options", "[policy][bucket]") {
  std::vector<Setting> const updates{
      {{10, 6, 100}, {}, {}},       {{10, 6, 100}, {}, {}},
      {{10, 6}, {}, {}},            // fewer
      {{10, 6, 100, 8}, {}, {}},    // more
      {{10, 8, 100, 8}, {}, {}},    // another size
      {{10, 8, 100, 8}, {}, {}, true},
      {{10, 8, 100, 8}, {}, {.direct_bytes = 40}, true},
      {{10, 8, 100, 8}, {}, {.direct_bytes = 40}},
      {{10, 8, 100, 8}, {}, {}},
      {{10, 8, 100, 8}, {5, 4, 10, 8}, {}},  // rows
      {{}, {}, {}},
      {{10, 8, 100, 8}, {5, 4, 10, 8}, {.direct_bytes = 40}}};
  std::vector<int> const hosts = GENERATE(std::vector{0}, std::vector{0, 1}, std::vector{0, 0, 1});
  bool const sharded = GENERATE(false, true), lends = GENERATE(false, true), two_levels = GENERATE(false, true);
  auto const spread = GENERATE(px::Spread::later, px::Spread::in_place);
  CAPTURE(hosts, sharded, lends, two_levels, spread);
  std::vector<int> const of_rank = two_levels ? hosts : std::vector<int>(hosts.size(), 0);
  CHECK(wrong_by_rank<float>(of_rank, two_levels, updates, sharded, lends, spread) == std::vector<int>(hosts.size(), 0));
}

// Where a rank's sums lie, by segment: in its gradients, of which the last is 30 elements, the others 10, or elsewhere.
template <px::Communicator C>
std::vector<bool> in_gradients(px::Topology<C> const& topology, std::vector<std::size_t> const& begins, px::Spread spread) {
  px::Traffic traffic;
  px::Lane<C> lane{topology, 0, traffic};
  px::DenseBucket<float, C> bucket;
  std::vector<float> gradients(begins.back() + 30, 1.0f);
  for (std::size_t const begin : begins)
    bucket.add(gradients.data() + begin, begin == begins.back() ? 30 : 10, nullptr, 1, gradients.data() + begin);
  bucket.close(topology, {.direct_bytes = 30 * sizeof(float)}, false, spread);
  drive(topology.world(), [&] { return bucket.reduce(lane); });
  drive(topology.world(), [&] { return bucket.gather_gradients(lane); });
  std::vector<bool> result;
  for (std::size_t s = 0; s < begins.size(); ++s)
    bucket.whole(s, [&](std::size_t first, float const* sums, std::size_t) {
      if (first == 0) result.push_back(sums == gradients.data() + begins[s]);
    });
  return result;
}

TEST_CASE("a bucket forms sums in gradients that it may overwrite: large ones, and small ones in a row", "[policy][bucket]") {
  using Spread = px::Spread;
  auto const [begins, spread, expected] = GENERATE(table<std::vector<std::size_t>, Spread, std::vector<bool>>({
      {{0, 10, 20}, Spread::in_place, {true, true, true}},
      {{0, 11, 21}, Spread::in_place, {false, false, true}},
      {{10, 0, 20}, Spread::in_place, {false, false, true}},
      {{0, 10, 20}, Spread::apart, {false, false, true}},
      {{0, 10, 20}, Spread::later, {false, false, true}},
  }));
  CAPTURE(begins, spread);
  std::vector<std::vector<bool>> found(2);
  px::run_threads(2, [&, &begins = begins, spread = spread](px::ThreadCommunicator& world) {
    found[static_cast<std::size_t>(world.rank())] = in_gradients(px::Topology{world}, begins, spread);
  }, {.deadline = std::chrono::seconds{30}});
  CHECK(found == std::vector(2, expected));
}

TEST_CASE("a bucket sends each part once per phase and keeps its own", "[policy][bucket]") {
  Sizes const sizes = GENERATE(Sizes{1003}, Sizes{10, 1, 7, 0, 100});  // alone, fused
  auto const spread = GENERATE(px::Spread::later, px::Spread::apart, px::Spread::in_place);
  CAPTURE(sizes, spread);
  std::vector<px::Traffic> traffic(4);
  px::run_threads(4, [&](px::ThreadCommunicator& world) {
    px::Topology topology{world};
    px::Lane<px::ThreadCommunicator> lane{topology, 0, traffic[static_cast<std::size_t>(world.rank())]};
    px::DenseBucket<float, px::ThreadCommunicator> bucket;
    std::vector<std::vector<float>> gradients;
    for (std::size_t const size : sizes) gradients.emplace_back(size, 1.0f);
    for (auto const& gradient : gradients) bucket.add(gradient.data(), gradient.size(), nullptr);
    bucket.close(topology, {}, false, spread);
    drive(world, [&] { return bucket.reduce(lane); });
    drive(world, [&] { return bucket.gather_gradients(lane); });
  }, {.deadline = std::chrono::seconds{30}});
  std::size_t const all = std::reduce(sizes.begin(), sizes.end());
  std::size_t sent = 0;
  for (int rank = 0; rank < 4; ++rank) {
    std::size_t own = 0;
    for (std::size_t const size : sizes) own += px::part_begin(size, rank + 1, 4) - px::part_begin(size, rank, 4);
    CHECK(traffic[static_cast<std::size_t>(rank)].sent_of(px::Payload::dense).all == 4 * (all - own) + 4 * own * 3);
    CHECK(traffic[static_cast<std::size_t>(rank)].received_of(px::Payload::dense).all == 4 * own * 3 + 4 * (all - own));
    sent += traffic[static_cast<std::size_t>(rank)].payload_sent();
  }
  CHECK(sent == 2 * 4 * all * 3);
}
