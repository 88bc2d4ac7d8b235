// The update policies: how the gradient of a variable becomes the same update on all ranks, chosen by type.
#pragma once

#include <concepts>
#include <string_view>

#include "parallax/core/kind.hpp"
#include "parallax/core/option.hpp"

namespace parallax {

namespace detail {
template <class>
inline constexpr bool never = false;
}

// A policy is an empty tag on the policy axis with a nested template `exchange<Kind>` for the kinds that it supports:
//   sharded     true: parameters and optimizer state live with their owner; false: every rank holds and updates all
//   densified   true: a sparse gradient travels as a dense one
//   coalesced   true: rows are summed on every hop of the topology; false: every occurrence goes straight to its owner
// One that decides at run time has `adaptive` = true instead, and begins sharded. Naming an unsupported kind is one sentence
// from the compiler.

// Replicated parameters, summed gradients. Dense: reduce-scatter, allgather of the gradient, applied everywhere. Sparse: the
// gradient is densified first, which pays when nearly every row is touched.
struct AllReduce {
  using axis = policy_axis;
  static constexpr std::string_view name = "AllReduce";

  template <class Kind>
  struct exchange {
    static constexpr bool sharded = false, densified = true, coalesced = true;
  };
};

// A parameter server whose shards live on the ranks. Dense: reduce-scatter, applied by the owner, allgather of the
// parameters. Sparse: rows pushed to their owners hop by hop, merged and applied there, pulled when needed.
struct PsShard {
  using axis = policy_axis;
  static constexpr std::string_view name = "PsShard";

  template <class Kind>
  struct exchange {
    static constexpr bool sharded = true, densified = false, coalesced = true;
  };
};

// Replicated parameters; (ids, rows) of all ranks gathered and merged by every rank. The baseline of Horovod and DDP.
struct AllGather {
  using axis = policy_axis;
  static constexpr std::string_view name = "AllGather";

  template <class Kind>
  struct exchange {
    static_assert(std::same_as<Kind, Sparse>,
                  "parallax: AllGather gathers indexed rows and has no dense form: use AllReduce or PsShard for a Dense "
                  "variable");
    static constexpr bool sharded = false, densified = false, coalesced = true;
  };
};

// The parameter server of TensorFlow 1 and MXNet: every occurrence is pushed to the owner, with its id, uncoalesced and past
// any topology. A baseline for benchmarks.
struct NaivePs {
  using axis = policy_axis;
  static constexpr std::string_view name = "NaivePs";

  template <class Kind>
  struct exchange {
    static_assert(std::same_as<Kind, Sparse>,
                  "parallax: NaivePs pushes indexed rows and has no dense form: use PsShard for a Dense variable");
    static constexpr bool sharded = true, densified = false, coalesced = false;
  };
};

// Sparse: begins as PsShard, and goes over to AllGather, AllReduce and back, live, where the measured use of the table and a
// model of the machine say that it is worth it (policy/choice.hpp). The library owns the table's memory. Dense: AllReduce.
struct Auto {
  using axis = policy_axis;
  static constexpr std::string_view name = "Auto";

  template <class Kind>
  using resolve = std::conditional_t<std::same_as<Kind, Dense>, AllReduce, Auto>;

  template <class Kind>
  struct exchange {
    static constexpr bool adaptive = true, sharded = true, densified = false, coalesced = true;
  };
};

// One word for a whole model: a preset stands where a policy stands and resolves by the variable's kind.
namespace presets {

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
// Dense -> PsShard, Sparse -> NaivePs.
struct naive_parameter_server {
  using axis = policy_axis;
  template <class Kind>
  using resolve = std::conditional_t<std::same_as<Kind, Dense>, PsShard, NaivePs>;
};

}  // namespace presets

namespace detail {

template <class Policy, class Kind>
struct resolve_policy {
  using type = Policy;
};
template <class Policy, class Kind>
  requires requires { typename Policy::template resolve<Kind>; }
struct resolve_policy<Policy, Kind> {
  using type = typename Policy::template resolve<Kind>;
};

}  // namespace detail

// The policy that a tag or preset means for a kind.
template <class Policy, class Kind>
using policy_for = typename detail::resolve_policy<Policy, Kind>::type;

// Whether the policy chooses at run time.
template <class Exchange>
inline constexpr bool is_adaptive = false;
template <class Exchange>
  requires requires { Exchange::adaptive; }
inline constexpr bool is_adaptive<Exchange> = Exchange::adaptive;

template <class P>
concept UpdatePolicy = std::same_as<typename P::axis, policy_axis> && requires {
  { P::name } -> std::convertible_to<std::string_view>;
};

}  // namespace parallax
