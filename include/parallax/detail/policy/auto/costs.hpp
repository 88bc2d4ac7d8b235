// Costs of moving and touching bytes on the machine and communicator in use: measured once, used to choose policies. Users call
// `calibrate`, or the session does for the first need of a table under Auto.
#pragma once

#include <locale.h>
#include <stdlib.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "parallax/comm/collectives.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/uninterrupted.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/policy/prediction.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// Returns the median seconds of a call of `work`, over `rounds` rounds, each the mean of `repeats` calls. By the communicator's
// clock, if it has one of its own. As collective as `work`.
template <Communicator C, class Work>
double median_seconds(C const& comm, int rounds, int repeats, Work&& work) {
  List<double> times(static_cast<std::size_t>(rounds));
  for (double& time : times) {
    auto const begin = now(comm);
    for (int i = 0; i < repeats; ++i) work();
    time = std::chrono::duration<double>{now(comm) - begin}.count() / repeats;
  }
  return median(times.data(), times.size());
}

// Waits until a device has done all its work.
template <class Space, class Ops>
void wait_for([[maybe_unused]] Ops const& ops) {
  if constexpr (!Space::host_readable) ops.wait();
}

// The exchange of a hop with so many bytes for each of its targets, from and to memory of the space. `measure_hop` times it.
// Owns its memory, refers to topology and hop; its traffic is not the session's.
template <Communicator C, MemorySpace Space>
class Probe {
 public:
  Probe(Topology<C> const& topology, Hop const& hop, std::size_t bytes)
      : ops_{queue_of<Space>(topology.world())}, lane_{topology, collectives_channel, traffic_}, hop_{&hop}, bytes_{bytes} {
    out_.resize(bytes * hop.targets.size());
    in_.resize(bytes * hop.sources.size());
    ops_.clear(out_.data(), out_.size());
    ops_.clear(in_.data(), in_.size());
  }

  // Exchanges. Collective; waits for the ranks of the hop. Past the communicator's deadline aborts the communicator, and throws
  // Error (timeout); throws the communicator's and the device's errors.
  void exchange() {
    Topology<C> const& topology = lane_.topology();
    lane_.clear();
    for (std::size_t t = 0; t < hop_->targets.size(); ++t)
      if (hop_->targets[t] != topology.rank()) lane_.send(hop_->targets[t], t * bytes_, bytes_, Payload::control);
    for (std::size_t s = 0; s < hop_->sources.size(); ++s)
      if (hop_->sources[s] != topology.rank()) lane_.expect(hop_->sources[s], s * bytes_, bytes_, Payload::control);
    lane_.template post<Space>(out_.data(), in_.data());
    Patience<C> patience{topology.world()};
    while (!lane_.test()) {
      if (patience.pause()) continue;
      Error const error = timeout_error(topology.world(), lane_.waiting_for(), "calibrate");
      topology.world().abort(error);
      throw error;
    }
    wait_for<Space>(ops_);
  }

 private:
  [[no_unique_address]] RowOps<Space> ops_;
  Traffic traffic_;
  Lane<C> lane_;
  Hop const* hop_;
  std::size_t bytes_;
  Buffer<std::byte, Space> out_, in_;
};

// Returns the seconds of a hop as `round` and `per_byte`; zeros without another rank to send to. Collective, on all ranks of
// the topology; waits, and throws as Probe::exchange. A round has 8 bytes for each peer; the extra time of one of 1 MB in all
// is divided by its bytes.
template <MemorySpace Space, Communicator C>
Costs measure_hop(Topology<C> const& topology, Hop const& hop) {
  constexpr std::size_t large = std::size_t{1} << 20;  // bytes sent by a rank
  std::size_t const peers = std::max<std::size_t>(hop.targets.size(), 2) - 1, each = large / peers;
  Probe<C, Space> small{topology, hop, 8}, big{topology, hop, each};
  small.exchange();
  big.exchange();
  double const one = median_seconds(topology.world(), 15, 8, [&] { small.exchange(); });
  double const many = median_seconds(topology.world(), 9, 1, [&] { big.exchange(); });
  if (hop.targets.size() < 2) return {};
  return {.round = one, .per_byte = std::max(many - one, 0.0) / static_cast<double>(peers * (each - 8))};
}

// Writes the seconds of local work to `costs`: `per_key`, `per_row…` and `per_stream_byte`. Local; waits for a device. The work
// is on 32 MB, so much that rows come from memory as in training. Ids are grouped by the host; a device is given its work many
// times before it is waited for. Rows of 128 and of 4 elements tell the cost of a row and of a byte of it.
template <MemorySpace Space, class T = float, class Index = std::int64_t, Communicator C>
void measure_work(C& comm, Costs& costs) {
  constexpr std::size_t elements = std::size_t{1} << 23, n = std::size_t{1} << 12, wide = 128, narrow = 4;
  constexpr int times = Space::host_readable ? 1 : 16;
  RowOps<Space> const ops{queue_of<Space>(comm)};
  Buffer<T, Space> table{elements}, some{n * wide};
  Buffer<Index> ids{n};
  ops.fill(table.data(), elements, T{1});
  ops.fill(some.data(), n * wide, T{1});
  for (std::size_t i = 0; i < n; ++i) {
    Fingerprint hash;
    hash.add(static_cast<std::uint64_t>(i));
    ids[i] = static_cast<Index>(hash.value() % (elements / wide));
  }
  std::span<Index const> const named{ids.span()};
  Grouping<Index> groups;
  SortScratch<Index> scratch;
  auto const group = [&] { RowOps<HostSpace>::unique_with_inverse(named, elements / wide, groups, scratch); };
  double const sorting = median_seconds(comm, 5, 2, group);
  auto const seconds = [&](auto&& work) {
    return median_seconds(comm, 5, 1,
                          [&] {
                            for (int i = 0; i < times; ++i) work();
                            wait_for<Space>(ops);
                          }) /
           times;
  };
  Shown<Index, Space> shown;
  auto const there = shown.of(ops, named);
  auto const rowwise = [&](std::size_t width) {
    auto const stride = static_cast<std::int64_t>(elements / (elements / wide));
    RowsView<T> const view{table.data(), static_cast<std::int64_t>(elements / wide), static_cast<std::int64_t>(width), stride};
    return seconds([&] {
             if constexpr (Space::host_readable) ops.scatter_add_rows(view, there, {}, some.data());
             else ops.template gather_rows<T>(view, there, {}, some.data());
           }) /
           static_cast<double>(n);
  };
  double const wide_row = rowwise(wide), narrow_row = std::min(rowwise(narrow), wide_row);
  std::size_t const half = elements / 2;
  double const streaming =
      seconds([&] { ops.template add_to<T>(table.data(), table.data() + half, static_cast<std::int64_t>(half)); });
  costs.per_key = sorting / static_cast<double>(n);
  costs.per_row_byte = (wide_row - narrow_row) / static_cast<double>((wide - narrow) * sizeof(T));
  costs.per_row = std::max(narrow_row - costs.per_row_byte * narrow * sizeof(T), 0.0);
  costs.per_stream_byte = streaming / static_cast<double>(half * sizeof(T));
}

// The numbers of `Costs`, in the order of its members.
using CostNumbers = std::array<double, sizeof(Costs) / sizeof(double)>;

// Takes a number in the form of `number_text`, not negative, off the beginning of `text`. Returns true if there is one; else
// nothing changes. Not by std::from_chars, which libc++ has for whole numbers alone, nor by the program's own locale.
bool take_number(std::string_view& text, double& number);

}  // namespace detail

// Measures costs. Collective, over a topology's communicator, on the channel of the free collectives; takes a fraction of a
// second and returns the same on all ranks: the slowest rank's medians. `Space`: the space of the measured tables, carried by
// the communicator. Throws Error: timeout past the deadline, after an abort; of a device, device and out_of_memory.
template <MemorySpace Space = HostSpace, Communicator C>
Costs calibrate(Topology<C> const& topology) {
  auto const& hops = topology.hops();
  Costs within, costs = detail::measure_hop<Space>(topology, hops.back());
  if (hops.size() > 1) within = detail::measure_hop<Space>(topology, hops.front());
  costs.host_round = within.round;
  costs.host_per_byte = within.per_byte;
  detail::measure_work<Space>(topology.world(), costs);
  auto largest = std::bit_cast<detail::CostNumbers>(costs);
  for (auto const& numbers : allgather(topology.world(), largest))
    for (std::size_t i = 0; i < numbers.size(); ++i) largest[i] = std::max(largest[i], numbers[i]);
  return std::bit_cast<Costs>(largest);
}
// Measures costs over a flat topology of the communicator; collective, with the errors of the overload above.
template <MemorySpace Space = HostSpace, Communicator C>
Costs calibrate(C& world) {
  return calibrate<Space>(Topology<C>{world});
}

// Local. Returns costs as a line of text, each number exact: `parallax costs 1`, and the numbers in the order of the members.
template <class Text = std::string>
Text to_text(Costs const& costs) {
  Text text = "parallax costs 1";
  for (double const value : std::bit_cast<detail::CostNumbers>(costs)) (text += ' ') += number_text(value);
  return text + '\n';
}
// Local. Returns costs from a line of `to_text`, bit for bit. Of any other text all are zero: not measured.
Costs costs_from_text(std::string_view text);

// Collective; waits. Returns the costs found by rank 0 in the file `path`; if it finds none to use, costs measured now and
// written there by rank 0. The caller answers for a file of this machine, number of ranks and memory space. A failure to read
// or write the file is no error. Throws Error as the measurement does.
template <MemorySpace Space = HostSpace, Communicator C>
Costs calibrate(Topology<C> const& topology, std::string const& path) {
  Costs costs;
  if (topology.rank() == 0)
    if (std::FILE* const file = detail::uninterrupted([&] { return std::fopen(path.c_str(), "r"); })) {
      char text[1024];
      costs = costs_from_text({text, std::fread(text, 1, sizeof text, file)});
      std::fclose(file);
    }
  broadcast<Costs>(topology.world(), {&costs, 1}, 0);
  if (costs.measured()) return costs;
  costs = calibrate<Space>(topology);
  if (topology.rank() == 0)
    if (std::FILE* const file = detail::uninterrupted([&] { return std::fopen(path.c_str(), "w"); })) {
      std::fputs(to_text(costs).c_str(), file);
      std::fclose(file);
    }
  return costs;
}

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/policy/auto/costs-inl.hpp"
#endif
