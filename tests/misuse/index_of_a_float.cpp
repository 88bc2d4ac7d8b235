// expect: parallax: a table is indexed by std::int32_t or std::int64_t
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::Index<float>>;
Words* words;
