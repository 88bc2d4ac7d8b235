// Numbers in memory of any space, which the host fills and reads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "parallax/parallax.hpp"

namespace parallax_test {

namespace px = parallax;

template <class T, px::MemorySpace Space>
class Memory {
 public:
  Memory(px::RowOps<Space> const& ops, std::vector<T> const& values) : ops_{ops}, numbers_(values.size()) { write(values); }

  std::span<T> span() { return numbers_.span(); }
  std::span<T const> span() const { return numbers_.span(); }
  std::vector<T> read() const {
    std::vector<T> values(numbers_.size());
    ops_.to_host(values.data(), numbers_.data(), values.size());
    return values;
  }
  void write(std::vector<T> const& values) { ops_.from_host(numbers_.data(), values.data(), values.size()); }

 private:
  px::RowOps<Space> ops_;
  px::Buffer<T, Space> numbers_;
};

// The elements of rows that lie one behind the other.
template <px::MemorySpace Space, class T>
std::vector<std::remove_const_t<T>> values_of(px::RowOps<Space> const& ops, px::RowsView<T> rows) {
  std::vector<std::remove_const_t<T>> values(static_cast<std::size_t>(rows.rows * rows.width));
  ops.to_host(values.data(), rows.data, values.size());
  return values;
}

}  // namespace parallax_test
