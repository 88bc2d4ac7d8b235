// An archive in memory: a rank's own items of any number of variables, kept and given back to the same ranks.
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

#include "parallax/core/algorithm.hpp"
#include "parallax/core/archive.hpp"

namespace parallax {

// Owns copies. Every rank has an archive of its own. It gives back what it was last given, to a rank that holds the same rows.
class MemoryArchive {
 public:
  struct Record {
    std::string variable, name;
    ElementType type;
    std::int64_t rows, width;
    Share share;
    std::vector<std::int64_t> numbers;  // of the rows in `bytes`, where the item is in parts
    std::vector<std::byte> bytes;

    friend bool operator==(Record const&, Record const&) = default;
  };

  class Writer {
   public:
    static constexpr bool reads = false;
    explicit Writer(MemoryArchive& archive) : records_{&archive.records_} {}

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

  class Reader {
   public:
    static constexpr bool reads = true;
    explicit Reader(MemoryArchive const& archive) : records_{&archive.records_} {}

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
    // The record, from its beginning unless it is the one of the last call.
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

  Writer writer() { return Writer{*this}; }
  Reader reader() const { return Reader{*this}; }
  std::span<Record const> records() const { return records_; }

 private:
  std::vector<Record> records_;
};

}  // namespace parallax
