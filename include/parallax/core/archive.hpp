// The things that outlive a step, item by item: the facts told to an archive of each, and the way in which the library's
// classes show their items. The states of variables and the session include it for their `visit`; authors of archives, for
// Archive and Item.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/short_float.hpp"

namespace parallax::inline v0_2 {

// The type of an item's elements. An archive keeps it with the bytes, and refuses to give them back as another one.
struct ElementType {
  // 'f' floating, 'b' the upper part of a floating one, 'i' an integer with a sign, 'u' one without, 'x' something else.
  char kind;
  // Bytes of one element.
  unsigned char bytes;

  friend bool operator==(ElementType const&, ElementType const&) = default;
};
// The ElementType of elements of T, told to the archive by Items.
template <class T>
  requires std::is_trivially_copyable_v<T>
inline constexpr ElementType element_type{std::is_floating_point_v<T> || std::same_as<T, Float16> ? 'f'
                                          : std::same_as<T, BFloat16>                             ? 'b'
                                          : !std::is_integral_v<T>                                ? 'x'
                                          : std::is_signed_v<T>                                   ? 'i'
                                                                                                  : 'u',
                                          static_cast<unsigned char>(sizeof(T))};

// The holders of an item.
//   any   every rank has all of it. One rank's will do for all ranks; such items of one variable are to be of one rank
//   world as any; and in a world of other ranks it means nothing: there an archive leaves it as it is
//   own   every rank has one of its own
//   part  every rank has some of its rows, and no other rank has them
enum class Share : unsigned char { any, world, own, part };

// The place of a row of a shared array: the number of its owner among the owners, and the row's number at this owner.
struct RowPlace {
  // From 0; -1 if rows have no owners.
  int owner;
  // From 0.
  std::int64_t local;
};
// The places of arrays that every rank has.
inline constexpr auto no_owner = [](std::int64_t row) { return RowPlace{-1, row}; };

// An array of `rows` rows of `width` elements, all ranks together; and the rows of one call: `count` of them, with the number
// `row(i)` for row i. Lasts for one call.
struct Item {
  // The variable of the item. Both texts are the caller's.
  std::string_view variable, name;  // the item's name among those of the variable
  // The type of the bytes.
  ElementType type;
  // Rows of the whole array, all ranks together, row-major; a single number is 1 x 1.
  std::int64_t rows, width;  // elements of a row
  // Holders of the item. Of Share::part this rank shows its own rows alone; else it shows all rows, in order, in one call or
  // several.
  Share share;
  // Rows of this call, whose bytes it brings: count * width * type.bytes.
  std::int64_t count;
  // The number in [0, rows) of this call's row i, 0 <= i < count.
  FunctionRef<std::int64_t(std::int64_t)> row;
  // Of Share::part: the place of any of the `rows` rows, on whatever rank.
  FunctionRef<RowPlace(std::int64_t)> where;
  // True for a list or a text: an archive that reads may have another length, told by the item before.
  bool list;
};

// Keeps items or gives them back. `item` is called with the bytes of the rows, packed, in memory of the host: an archive that
// `reads` fills them, another one takes them. An item may come in several calls, one after the other, each about other rows.
// For an item held in another type or shape, or not at all, an archive throws `item_error`: Error (mismatch), with the names of
// variable and item. A variable shows the same items in the same order, both to writing and to reading archives.
template <class A>
concept Archive = requires(A& archive, Item const& item, std::span<std::byte> bytes) {
  { A::reads } -> std::convertible_to<bool>;
  archive.item(item, bytes);
};

// Returns an element type as messages show it: its kind and its bits, such as f32; b16 of a BFloat16.
inline std::string type_text(ElementType type) { return joined({type.kind, 8 * type.bytes}); }
// Returns shape and type of an item as messages show them: `rows x width of f32`. Archives say so of the held and the requested
// item.
inline std::string shape_text(ElementType type, std::int64_t rows, std::int64_t width) {
  return joined({rows, " x ", width, " of ", type_text(type)});
}
// Returns an archive's error for an item that it cannot give back: Error (mismatch) of the operation `visit`, without a rank.
// `found`: the item that it has, or a note that it has none.
inline Error item_error(std::string_view variable, std::string_view name, std::string const& found) {
  return {Errc::mismatch, -1, "visit", variable, joined({"item '", name, "': ", found})};
}

// The items of one variable, shown to an archive one by one. A state's `visit` makes one for each call. Refers to the archive
// and to the variable's name, both of which must outlive it. Every function passes on the archive's errors.
template <Archive A>
class Items {
 public:
  // True if values are being read: the shown memory is then overwritten.
  static constexpr bool reads = A::reads;

  // Shows `archive` items of the variable of this name.
  Items(A& archive, std::string_view variable) : archive_{&archive}, variable_{variable} {}
  // Returns the name of the items' variable, for errors.
  std::string_view variable() const { return variable_; }

  // Shows rows `row(0)` … `row(count - 1)` of an array of `rows` rows of `width` elements. `values`: count * width of them,
  // packed, row-major, in memory of the host. `where`: of Share::part, see Item.
  template <class T>
  void rows(std::string_view name, T* values, std::int64_t rows, std::int64_t width, Share share, std::int64_t count,
            FunctionRef<std::int64_t(std::int64_t)> row, FunctionRef<RowPlace(std::int64_t)> where = no_owner) {
    show(values, {variable_, name, element_type<T>, rows, width, share, count, row, where, false});
  }
  // Shows all rows of an array: `values` has rows * width elements, packed, in memory of the host.
  template <class T>
  void whole(std::string_view name, T* values, std::int64_t rows, std::int64_t width, Share share = Share::any) {
    this->rows(name, values, rows, width, share, rows, same_row);
  }

  // Shows a number: as it is if it is arithmetic, a truth or an enumeration as a word of 64 bits.
  template <class N>
  void number(std::string_view name, N& value, Share share = Share::any) {
    if constexpr (std::is_enum_v<N> || std::same_as<N, bool>) {
      auto held = static_cast<std::uint64_t>(value);
      whole(name, &held, 1, 1, share);
      value = static_cast<N>(held);
    } else {
      whole(name, &value, 1, 1, share);
    }
  }

  // Shows the numbers in an aggregate, as words of 64 bits: one row of them (see `visit_words`).
  template <class T>
  void fields(std::string_view name, T& object, Share share = Share::any) {
    list_of(name, std::span{&object, 1}, share, {1, 0, false});
  }
  // Shows a std::vector or List of numbers or aggregates: its length, then a row of words for each. `fill`: an entry to begin
  // with.
  template <class Entries>
  void list(std::string_view name, Entries& entries, typename Entries::value_type const& fill = {}, Share share = Share::any) {
    std::uint64_t length = entries.size();
    number(std::string{name} + ".length", length, share);
    in_calls(length, [&](std::uint64_t begin, std::uint64_t end) {
      if constexpr (reads)
        if (end == length || entries.size() < end) entries.resize(static_cast<std::size_t>(end), fill);
      list_of(name, std::span{entries}.subspan(begin, end - begin), share, {length, begin, true});
    });
  }

  // Shows a text; an archive that reads replaces it.
  void text(std::string_view name, std::string& value, Share share = Share::any) {
    std::uint64_t length = value.size();
    number(std::string{name} + ".length", length, share);
    in_calls(length, [&](std::uint64_t begin, std::uint64_t end) {
      if (end == length || value.size() < end) value.resize(static_cast<std::size_t>(end));
      show_rows(name, value.data() + begin, end - begin, 1, share, {length, begin, true});
    });
  }
  // Calls f(begin, end) for an array with a length from an archive, one range after the other, and the last up to `length`.
  // Room is made for a range as it is read: for a damaged length the archive then throws first, at the request for the array's
  // first rows. An archive that takes bytes is shown one range.
  template <class F>
  static void in_calls(std::uint64_t length, F&& f) {
    constexpr std::uint64_t most = 1 << 16;  // rows, with room for nearly every list
    std::uint64_t begin = 0;
    do {
      std::uint64_t const end = !reads || length - begin < most ? length : begin + most;
      f(begin, end);
      begin = end;
    } while (begin < length);
  }
  // Shows a text that names the recipient of the items: throws Error (mismatch) if another one is read.
  void same(std::string_view name, std::string_view expected) {
    std::string held{expected};
    this->text(name, held);
    if (held != expected) throw item_error(variable_, name, "it is of '" + held + "', not of '" + std::string{expected} + "'");
  }

 private:
  // The rows of an array shown by a call: those from `first` on, of `rows` in all.
  struct CallRows {
    std::uint64_t rows, first;
    bool list;  // as Item has it
  };
  // Shows so many rows of the array.
  template <class T>
  void show_rows(std::string_view name, T* values, std::uint64_t count, std::size_t width, Share share, CallRows these) {
    auto const row = [&](std::int64_t i) { return static_cast<std::int64_t>(these.first) + i; };
    auto const rows = static_cast<std::int64_t>(these.rows), columns = static_cast<std::int64_t>(width);
    auto const shown = static_cast<std::int64_t>(count);
    show(values, {variable_, name, element_type<T>, rows, columns, share, shown, row, no_owner, these.list});
  }
  // Shows the item with its bytes to the archive.
  template <class T>
  void show(T* values, Item const& item) {
    std::size_t const bytes = static_cast<std::size_t>(item.count) * static_cast<std::size_t>(item.width) * sizeof(T);
    archive_->item(item, {reinterpret_cast<std::byte*>(values), bytes});
  }
  // Row i is row i.
  static constexpr auto same_row = [](std::int64_t i) { return i; };

  // Shows the entries, each as a row of words of 64 bits, and then sets the entries by these words: a reading archive has
  // changed them. Shows nothing of an empty list. `these`: the place of the rows in the whole array.
  template <class T>
  void list_of(std::string_view name, std::span<T> entries, Share share, CallRows const& these) {
    if (entries.empty()) return;
    std::size_t const width = word_count(entries[0]);
    List<std::uint64_t> words;
    words.reserve(entries.size() * width);
    for (T& entry : entries) visit_words(entry, [&](std::uint64_t& word) { words.push_back(word); });
    show_rows(name, words.data(), entries.size(), width, share, these);
    std::size_t at = 0;
    for (T& entry : entries) visit_words(entry, [&](std::uint64_t& word) { word = words[at++]; });
  }

  A* archive_;
  std::string_view variable_;
};

}  // namespace parallax
