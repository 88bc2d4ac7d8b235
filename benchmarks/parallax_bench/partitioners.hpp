// A partitioner chosen at run time, so that the trainings are compiled for one: it costs a predicted branch for each id.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

#include "parallax/detail/partition/block.hpp"
#include "parallax/detail/partition/hash.hpp"
#include "parallax/parallax.hpp"
#include "parallax/partition/greedy.hpp"

#include "options.hpp"

namespace bench {

namespace px = parallax;

struct ChosenPartitioner {
  using axis = px::partitioner_axis;
  static constexpr std::string_view name = "Chosen";
  std::int64_t pieces = 0;
  Partition kind = Partition::cyclic;
  px::Greedy greedy = {};

  class Layout {
   public:
    template <class L>
    explicit Layout(L layout) : layout_{std::move(layout)} {}

    std::int64_t rows() const {
      return std::visit([](auto const& l) { return l.rows(); }, layout_);
    }
    int owners() const {
      return std::visit([](auto const& l) { return l.owners(); }, layout_);
    }
    px::Location locate(std::int64_t row) const {
      return std::visit([&](auto const& l) { return l.locate(row); }, layout_);
    }
    std::int64_t global_row(int owner, std::int64_t local) const {
      return std::visit([&](auto const& l) { return l.global_row(owner, local); }, layout_);
    }
    std::int64_t local_rows(int owner) const {
      return std::visit([&](auto const& l) { return l.local_rows(owner); }, layout_);
    }

   private:
    std::variant<px::Cyclic::Layout, px::Block::Layout, px::Hash::Layout, px::Greedy::Layout> layout_;
  };

  Layout layout(std::int64_t rows, int owners) const {
    switch (kind) {
      case Partition::block: return Layout{px::Block{pieces}.layout(rows, owners)};
      case Partition::hash: return Layout{px::Hash{pieces}.layout(rows, owners)};
      case Partition::greedy: return Layout{greedy.layout(rows, owners)};
      case Partition::cyclic: break;
    }
    return Layout{px::Cyclic{pieces}.layout(rows, owners)};
  }

  void fields(auto&& visit) const {
    visit(pieces);
    visit(static_cast<std::int64_t>(kind));
    greedy.fields(visit);
  }
};

}  // namespace bench
