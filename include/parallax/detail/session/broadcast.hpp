// `Session::broadcast`: every replica becomes a copy of rank 0's. The session calls `broadcast`, at the end, for each variable.
#pragma once

#include <span>
#include <string>

#include "parallax/detail/session/core.hpp"
#include "parallax/detail/transfer/dense.hpp"

namespace parallax::inline v0_2::detail {

// Collective. Deals rank 0's parts to the owners, then gathers them to all: 2 w (N - 1) / N bytes at the busiest rank instead
// of w (N - 1), for w bytes among N owners. Waits for them. `values`: equally long on every rank, as agreed in `broadcast`;
// read and written in place. `name`: of the variable, for the report of a wait.
template <MemorySpace Space, Communicator C, class T>
void broadcast_values(SessionCore<C>& core, std::span<T> values, std::string const& name) {
  auto const& topology = core.topology;
  auto& lane = core.dense;
  auto& begins = core.begins;
  int const owners = topology.owners();
  begins.clear();
  for (int owner = 0; owner <= owners; ++owner) begins.push_back(part_begin(values.size(), owner, owners));
  lane.clear();
  for (int owner = 0; owner < owners; ++owner) {
    auto const o = static_cast<std::size_t>(owner);
    std::size_t const at = begins[o] * sizeof(T), bytes = (begins[o + 1] - begins[o]) * sizeof(T);
    int const rank = topology.owner_rank(owner);
    if (topology.rank() == 0 && rank != 0) lane.send(rank, at, bytes, Payload::dense);
    if (topology.rank() != 0 && rank == topology.rank()) lane.expect(0, at, bytes, Payload::dense);
  }
  auto const names = [&] { return name; };
  Awaited const awaited{lane, names};
  lane.template post<Space>(values.data(), values.data());
  core.waiting.drive(
      "broadcast", [&] { return lane.test(); }, awaited);
  Allgather<T, C, Space> gather;
  gather.start(values.data(), begins);
  core.waiting.drive(
      "broadcast", [&] { return gather.poll(lane); }, awaited);
}

// Collective. Agrees on the variable, then sends rank 0's values, and waits for them: the parameters of a dense one, all rows
// of a replicated table. Slots stay unchanged, except those of an optimizer that adopts. Throws Error: mismatch, misuse.
template <Communicator C, class V>
void broadcast(SessionCore<C>& core, V const& variable) {
  static_assert(std::same_as<typename V::kind, Dense> || !V::State::sharded,
                "parallax: a sharded variable has one copy of every row; there is nothing to broadcast");
  using Stored = typename V::State::stored_type;
  using T = std::conditional_t<is_short_float<Stored>, std::uint16_t, Stored>;  // nobody computes with it
  using Space = typename V::State::space;
  core.waiting.guarded("broadcast", [&] {
    auto& state = variable.state();
    core.agree_on(state, Operation::broadcast, state.registration()->signature, state.registration()->hash,
                  [&] { state.reserve_adoption(); });
    std::span<T> values;
    if constexpr (std::same_as<typename V::kind, Dense>) {
      values = variable.values();
    } else {
      auto const table = state.local();
      values = {reinterpret_cast<T*>(table.data), static_cast<std::size_t>(table.rows * table.width)};
    }
    broadcast_values<Space>(core, values, variable.name());
    state.adopt();
  });
}

}  // namespace parallax::detail
