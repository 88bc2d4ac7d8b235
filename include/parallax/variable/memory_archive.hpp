// An archive in memory: a rank's own items of any number of variables, kept and given back to the same ranks. Included by a
// program that keeps states in memory, to go back to them or to compare them.
//   px::MemoryArchive archive;
//   weights.visit(archive.writer());      // and, of a variable that was made alike:
//   restored.visit(archive.reader());
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/archive.hpp"
#include "parallax/detail/core/algorithm.hpp"

namespace parallax::inline v0_2 {

// Owns copies of items. Every rank has an archive of its own, and all functions are local. It gives back the last items given,
// to a rank with the same rows. Writing an item again replaces it.
class MemoryArchive {
 public:
  // One item, as it was written.
  struct Record {
    // The variable's name.
    std::string variable, name;  // the item's name
    // The type of the elements.
    ElementType type;
    // Rows of the whole array, all ranks together.
    std::int64_t rows, width;  // elements of a row
    // The holders of the item.
    Share share;
    // The numbers of the rows in `bytes`, in their order, if the item is in parts; else empty.
    std::vector<std::int64_t> numbers;
    // The elements, packed.
    std::vector<std::byte> bytes;

    friend bool operator==(Record const&, Record const&) = default;
  };

  // The archive shown to `visit` to keep a variable. Refers to the MemoryArchive, which must outlive it.
  class Writer {
   public:
    // It takes values.
    static constexpr bool reads = false;
    // Refers to `archive`, and appends items to it or replaces them there.
    explicit Writer(MemoryArchive& archive) : records_{&archive.records_} {}

    // Keeps, for Items, a copy of `bytes`, elements of rows as `item` says. A call about the item of the call before adds rows
    // to it; any other begins the item anew. May throw std::bad_alloc.
    void item(Item const& item, std::span<std::byte const> bytes) {
      auto const is_it = [&](Record const& record) { return record.name == item.name && record.variable == item.variable; };
      if (last_ >= records_->size() || !is_it((*records_)[last_])) {
        auto const at = std::find_if(records_->begin(), records_->end(), is_it);
        last_ = static_cast<std::size_t>(at - records_->begin());
        if (at == records_->end()) records_->emplace_back();
        (*records_)[last_] = {std::string{item.variable}, std::string{item.name}, item.type, item.rows, item.width, item.share,
                              {}, {}};
      }
      Record& record = (*records_)[last_];
      if (item.share == Share::part)
        for (std::int64_t i = 0; i < item.count; ++i) record.numbers.push_back(item.row(i));
      record.bytes.insert(record.bytes.end(), bytes.begin(), bytes.end());
    }

   private:
    std::vector<Record>* records_;
    std::size_t last_ = std::size_t(-1);  // the record of the last call
  };

  // The archive shown to `visit` to give a variable back its kept items. Refers to the MemoryArchive, which must outlive it and
  // not be written meanwhile.
  class Reader {
   public:
    // It fills in values.
    static constexpr bool reads = true;
    // Refers to `archive`, and reads it.
    explicit Reader(MemoryArchive const& archive) : records_{&archive.records_} {}

    // Fills, for Items, `bytes` with the next rows of the item. Throws Error (mismatch) for an item never kept, or with another
    // type, shape or other rows.
    void item(Item const& item, std::span<std::byte> bytes) {
      Record const& record = find(item);
      auto const fail = [&](std::string const& found) { throw item_error(item.variable, item.name, found); };
      if (record.type != item.type || record.rows != item.rows || record.width != item.width)
        fail("it is " + shape_text(record.type, record.rows, record.width) + ", not " +
             shape_text(item.type, item.rows, item.width));
      if (record.share != item.share || record.bytes.size() - taken_ < bytes.size() ||
          (item.share == Share::part && record.numbers.size() - rows_taken_ < static_cast<std::size_t>(item.count)))
        fail("it is of other rows");
      for (std::int64_t i = 0; item.share == Share::part && i < item.count; ++i)
        if (record.numbers[rows_taken_ + static_cast<std::size_t>(i)] != item.row(i)) fail("it is of other rows");
      if (!bytes.empty()) std::memcpy(bytes.data(), record.bytes.data() + taken_, bytes.size());
      taken_ += bytes.size();
      rows_taken_ += static_cast<std::size_t>(item.count);
    }

   private:
    // Returns the record of an item, begun again unless it is the last call's. Throws Error (mismatch) if there is none.
    Record const& find(Item const& item) {
      auto const is_it = [&](Record const& record) { return record.name == item.name && record.variable == item.variable; };
      if (last_ && is_it(*last_)) return *last_;
      auto const at = std::find_if(records_->begin(), records_->end(), is_it);
      if (at == records_->end()) throw item_error(item.variable, item.name, "it was not kept");
      taken_ = rows_taken_ = 0;
      return *(last_ = &*at);
    }

    std::vector<Record> const* records_;
    Record const* last_ = nullptr;
    std::size_t taken_ = 0, rows_taken_ = 0;
  };

  // Returns an archive to keep variables with: weights.visit(archive.writer()).
  Writer writer() { return Writer{*this}; }
  // Returns an archive to give variables back with: weights.visit(archive.reader()).
  Reader reader() const { return Reader{*this}; }
  // Returns all items, in the order of their first arrival. Valid until the archive is written or goes.
  std::span<Record const> records() const { return records_; }

 private:
  std::vector<Record> records_;
};

}  // namespace parallax
