// expect: parallax: a partitioner has a name, pieces and a layout (see partition/partitioner.hpp), and this one lacks static constexpr std::string_view name
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Nobody {
  using axis = px::partitioner_axis;
};
using Words = px::Variable<px::Sparse, Nobody>;
Words* words;
