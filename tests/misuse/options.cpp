// Types of variables whose options do not fit.
#include <parallax/parallax.hpp>
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace px = parallax;

#if defined(dense_all_gather)
// expect: parallax: AllGather gathers indexed rows and has no dense form
px::Variable<px::Dense, px::AllGather>* weights;
#elif defined(dense_naive_ps)
// expect: parallax: NaivePs pushes indexed rows and has no dense form
px::Variable<px::Dense, baseline::NaivePs>* weights;
#elif defined(index_of_a_float)
// expect: parallax: a table is indexed by std::int32_t or std::int64_t
px::Variable<px::Sparse, px::Index<float>>* words;
#elif defined(kind_last)
// expect: parallax: the first argument of Variable is its kind: Dense or Sparse
px::Variable<px::Adam, px::Sparse>* words;
#elif defined(memory_out_of_reach)
// expect: parallax: no row operations are known for this memory space
struct Elsewhere {
  using axis = px::space_axis;
  static constexpr bool host_readable = false;
  static void* allocate(std::size_t bytes) { return ::operator new(bytes); }
  static void deallocate(void* memory, std::size_t) noexcept { ::operator delete(memory); }
};
px::Variable<px::Sparse, Elsewhere>* words;
#elif defined(memory_space_that_is_none)
// expect: parallax: a memory space has allocate, deallocate and host_readable
struct Nowhere {
  using axis = px::space_axis;
};
px::Variable<px::Sparse, Nowhere>* words;
#elif defined(no_option)
// expect: parallax: an argument of Variable is no option
px::Variable<px::Sparse, int>* words;
#elif defined(partitioner_without_a_layout)
// expect: parallax: a partitioner has a name, pieces and a layout (see partition/partitioner.hpp), and this one lacks static constexpr std::string_view name
struct Nobody {
  using axis = px::partitioner_axis;
};
px::Variable<px::Sparse, Nobody>* words;
#elif defined(two_optimizers)
// expect: parallax: two options of one Variable lie on the same axis
px::Variable<px::Sparse, px::Adam, px::Sgd>* words;
#elif defined(two_policies)
// expect: parallax: two options of one Variable lie on the same axis
px::Variable<px::Sparse, px::AllReduce, px::presets::hybrid>* words;
#elif defined(weight_decay_of_no_optimizer)
// expect: parallax: WeightDecay is put before an optimizer
px::Variable<px::Sparse, px::WeightDecay<double>>* words;
#endif
