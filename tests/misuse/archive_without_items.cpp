// expect: parallax: an archive has a constant `reads` and item(Item const&, bytes)
#include <parallax/parallax.hpp>

namespace px = parallax;

struct File {
  static constexpr bool reads = false;
};
void save(px::Variable<px::Sparse>& words, File& file) { words.visit(file); }
