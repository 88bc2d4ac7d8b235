// expect: parallax: no row operations are known for this memory space
#include <cstddef>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Elsewhere {
  using axis = px::space_axis;
  static constexpr bool host_readable = false;
  static void* allocate(std::size_t bytes) { return ::operator new(bytes); }
  static void deallocate(void* memory, std::size_t) noexcept { ::operator delete(memory); }
};
using Words = px::Variable<px::Sparse, Elsewhere>;
Words* words;
