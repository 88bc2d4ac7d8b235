// One word for a whole model: a preset stands where a policy stands and resolves by the variable's kind.
#pragma once

#include <type_traits>

#include "parallax/policy/all_gather.hpp"
#include "parallax/policy/all_reduce.hpp"
#include "parallax/policy/ps_shard.hpp"

namespace parallax::presets {

// The paper's rule: Dense -> AllReduce, Sparse -> PsShard.
struct hybrid {
  using axis = policy_axis;
  template <class Kind>
  using resolve = std::conditional_t<std::same_as<Kind, Dense>, AllReduce, PsShard>;
};
struct all_reduce {
  using axis = policy_axis;
  template <class Kind>
  using resolve = AllReduce;
};
struct parameter_server {
  using axis = policy_axis;
  template <class Kind>
  using resolve = PsShard;
};
// Horovod's and DDP's rule: Dense -> AllReduce, Sparse -> AllGather.
struct all_gather {
  using axis = policy_axis;
  template <class Kind>
  using resolve = std::conditional_t<std::same_as<Kind, Dense>, AllReduce, AllGather>;
};

}  // namespace parallax::presets
