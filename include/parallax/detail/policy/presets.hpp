// One word for a whole model: a preset stands in the place of a policy and resolves by the variable's kind. Users name it among
// the options of a Variable, and the variable asks `policy_for` for the meaning.
#pragma once

#include <type_traits>

#include "parallax/detail/policy/all_gather.hpp"
#include "parallax/policy/all_reduce.hpp"
#include "parallax/policy/ps_shard.hpp"

namespace parallax::inline v0_2 {

namespace detail {
// Stands among a variable's options for its policy, as one policy of dense variables and one of tables.
template <class OfDense, class OfSparse>
struct Preset {
  using axis = policy_axis;
  template <class Kind>
  using resolve = std::conditional_t<std::same_as<Kind, Dense>, OfDense, OfSparse>;
};
}  // namespace detail

namespace presets {

// The rule of Parallax (Kim et al., EuroSys 2019): Dense -> AllReduce, Sparse -> PsShard. The default of a Variable without a
// policy.
struct hybrid : detail::Preset<AllReduce, PsShard> {};
// Replicas everywhere: Dense -> AllReduce, and Sparse -> AllReduce, which sends a gradient of the whole table.
struct all_reduce : detail::Preset<AllReduce, AllReduce> {};
// Optimizers' state with the owners only: Dense -> PsShard, Sparse -> PsShard.
struct parameter_server : detail::Preset<PsShard, PsShard> {};
// Horovod's and DDP's rule: Dense -> AllReduce, Sparse -> AllGather.
struct all_gather : detail::Preset<AllReduce, AllGather> {};

}  // namespace presets
}  // namespace parallax
