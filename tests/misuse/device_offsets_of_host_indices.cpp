// expect: parallax: offsets of bags lie in device memory only where the indices do: px::on_device of both
#include <span>
#include <vector>

#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::CudaSpace>;
void name(Words const& words, std::vector<int> const& ids, std::span<int const> offsets) {
  words.bags(ids, px::on_device(offsets));
}
