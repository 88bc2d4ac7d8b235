// expect: parallax: an encoding wire needs memory that the host reads
#include <cstddef>

#include <parallax/comm/self.hpp>
#include <parallax/detail/transfer/wire_slip.hpp>

namespace px = parallax;

struct Elsewhere {
  using axis = px::space_axis;
  static constexpr bool host_readable = false;
  static void* allocate(std::size_t bytes) { return ::operator new(bytes); }
  static void deallocate(void* memory, std::size_t) noexcept { ::operator delete(memory); }
};
struct Halves {
  template <class>
  using element = short;
  static void encode(float const*, std::size_t, short*) {}
  static void decode(short const*, std::size_t, float*) {}
};
px::WireSlip<px::SelfCommunicator, Halves, float, Elsewhere> rows;
