// The header of a file in the format safetensors, parsed from bytes in memory. safetensors.hpp includes it, and whoever reads
// files by calls of their own. Facts of the format: README and source of https://github.com/huggingface/safetensors. Everything
// is little-endian and row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/detail/interop/file.hpp"
#include "parallax/detail/interop/safetensors/dtype.hpp"

namespace parallax::inline v0_2::safetensors {

// Most bytes of a header, without the 8 bytes of its length. The format itself allows 100,000,000, alone more than the 64 MiB
// of memory that opening a file takes here at most: tensors of empty shape fill them with 2 million entries.
inline constexpr std::uint64_t most_header_bytes = std::uint64_t{32} << 20;
// Most dimensions of a tensor, as in NumPy.
inline constexpr std::size_t most_dimensions = 64;
// Most entries of `__metadata__`.
inline constexpr std::size_t most_metadata = 65'536;

// A tensor of a file. Does not own its name.
struct Tensor {
  std::string_view name;             // UTF-8 without escapes; valid as long as the Header and the bytes that it was parsed from
  Dtype dtype;                       // of its elements
  std::vector<std::uint64_t> shape;  // row-major; none for a scalar
  std::uint64_t begin;               // first byte, counted from the beginning of the file
  std::uint64_t end;                 // end of its bytes; the size is right for dtype and shape
};

namespace detail {

using namespace parallax::detail;

// A string of the header: the place of its bytes in the text or, counted on behind its end, among the unescaped ones.
struct StringPlace {
  std::uint32_t at, length;
};

// A tensor in a header's memory: 32 bytes, for at least 50 of the text.
struct Entry {
  StringPlace name;
  std::uint32_t shape_at;  // behind the bracket in the text
  Dtype dtype;
  std::uint64_t begin, end;  // in the data
};
static_assert(sizeof(Entry) == 32);

// Returns the positions of `count` names in the order of the names: `name(i)` is the i-th.
template <class Name>
std::vector<std::uint32_t> in_order(std::size_t count, Name const& name) {
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  heap_sort(std::span{order}, [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
  return order;
}

// Returns the first position in such an order with a name equal to the next one, or its size.
template <class Name>
std::size_t twin(std::vector<std::uint32_t> const& order, Name const& name) {
  for (std::size_t i = 0; i + 1 < order.size(); ++i)
    if (name(order[i]) == name(order[i + 1])) return i;
  return order.size();
}

class Parser;

}  // namespace detail

// Content of a file's header: its tensors in the order of their bytes, and its metadata. Points into the bytes it was parsed
// from, which the caller keeps. Takes 36 bytes a tensor.
class Header {
 public:
  // Views into `other`'s strings stay valid.
  Header(Header&& other) = default;
  Header& operator=(Header&& other) = default;

  // Returns the number of tensors.
  std::size_t size() const noexcept { return entries_.size(); }
  // Returns the `i`-th tensor, i < size(), by the order of bytes in the file, perhaps not the header's.
  Tensor tensor(std::size_t i) const;
  // Returns the position of the tensor of this name, or size(). Takes a binary search.
  std::size_t find(std::string_view name) const noexcept;
  // Returns the entries of `__metadata__`, in the header's order; none if there is none. Valid like Tensor::name.
  std::vector<std::pair<std::string_view, std::string_view>> const& metadata() const noexcept { return metadata_; }
  // Returns the beginning of the first tensor's bytes in the file.
  std::uint64_t data_begin() const noexcept { return 8 + text_.size(); }

 private:
  friend class detail::Parser;
  Header() = default;

  std::string_view view(detail::StringPlace place) const noexcept {
    if (place.at < text_.size()) return text_.substr(place.at, place.length);
    return {unescaped_.data() + (place.at - text_.size()), place.length};
  }

  std::string_view text_;
  std::vector<char>
      unescaped_;  // strings with escapes, after their removal; never moves, as it grows into reserved memory only
  std::vector<detail::Entry> entries_;
  std::vector<std::uint32_t> by_name_;
  std::vector<std::pair<std::string_view, std::string_view>> metadata_;
};

// Returns the number of bytes of a file's header, with the 8 of its length, by these 8 (`first` may have more) and the file's
// size. FormatError if the file is shorter, or the header longer than most_header_bytes.
std::uint64_t header_size(std::span<std::byte const> first, std::uint64_t file_size, std::string_view path);

namespace detail {

// Parser of the one shape of JSON in a header, an object of objects, without recursion.
class Parser {
 public:
  Parser(std::string_view text, std::uint64_t data_size, std::string_view path) : data_size_{data_size}, path_{path} {
    header_.text_ = text_ = text;
  }

  Header parse() {
    if (text_.empty() || text_[0] != '{') fail("the header does not begin with {");
    if (at_ = end_of_utf8(text_); at_ < text_.size()) fail("the header is no UTF-8");
    std::size_t braces = 0;
    for (char const c : text_) braces += c == '{';
    std::size_t const most = text_.size() / 50;
    header_.entries_.reserve(braces < most ? braces : most);
    at_ = 0;
    bool has_metadata = false;
    for (bool more = opens('{', '}'); more; more = goes_on('}')) {
      StringPlace const name = string();
      expect(':');
      if (header_.view(name) != "__metadata__") {
        tensor(name);
      } else {
        if (std::exchange(has_metadata, true)) fail("there are two '__metadata__'");
        metadata();
      }
    }
    skip_space();
    if (at_ < text_.size()) fail("something stands behind the header's object");
    check_names();
    check_data();
    return std::move(header_);
  }

  // Returns the shape that begins at `at`, of an accepted header.
  static std::vector<std::uint64_t> shape(std::string_view text, std::size_t at) {
    Parser parser{text, 0, {}};
    parser.at_ = at;
    std::vector<std::uint64_t> result;
    for (bool more = !parser.closes(']'); more; more = parser.goes_on(']')) result.push_back(parser.number());
    return result;
  }

 private:
  [[noreturn]] void refuse(std::string_view detail) const { throw FormatError(path_, detail); }
  [[noreturn]] void fail(std::string_view detail) const {
    refuse(std::string{detail} + ", at byte " + std::to_string(8 + at_) +
           (at_ < text_.size() ? "" : ", where the header ends"));
  }
  [[noreturn]] void refuse(StringPlace tensor, std::string_view detail) const {
    refuse("tensor " + shown(header_.view(tensor)) + ": " + std::string{detail});
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
  }
  bool closes(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!closes(c)) fail(std::string{"expected "} + c);
  }
  // Enters an object or array. Returns true if it has an entry.
  bool opens(char open, char close) {
    expect(open);
    return !closes(close);
  }
  // Goes on behind an entry. Returns true if there is another.
  bool goes_on(char close) {
    if (closes(',')) return true;
    if (!closes(close)) fail(std::string{"expected , or "} + close);
    return false;
  }

  std::uint64_t number() {
    skip_space();
    std::size_t const begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') fail("a number is negative");
    std::uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (!multiply(value, 10, value) || __builtin_add_overflow(value, static_cast<std::uint64_t>(text_[at_] - '0'), &value))
        fail("a number is above 2^64 - 1");
    if (at_ == begin) fail("expected a number");
    if (text_[begin] == '0' && at_ > begin + 1) fail("a number begins with 0");
    if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E')) fail("a number is no integer");
    return value;
  }

  StringPlace string() {
    expect('"');
    std::size_t const begin = at_;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') return unescape(begin);
      if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("a string holds a control character");
    }
    if (at_ == text_.size()) fail("a string has no end");
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at_++ - begin)};
  }

  // Reads the rest of a string from its first escape on, and takes over the part before it.
  StringPlace unescape(std::size_t begin) {
    std::vector<char>& out = header_.unescaped_;
    out.reserve(text_.size());  // more is never used
    std::size_t const start = out.size();
    out.insert(out.end(), text_.begin() + static_cast<std::ptrdiff_t>(begin), text_.begin() + static_cast<std::ptrdiff_t>(at_));
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("a string holds a control character");
      if (char const c = text_[at_++]; c == '\\') append_escaped(out);
      else out.push_back(c);
    }
    if (at_ == text_.size()) fail("a string has no end");
    ++at_;
    return {static_cast<std::uint32_t>(text_.size() + start), static_cast<std::uint32_t>(out.size() - start)};
  }

  void append_escaped(std::vector<char>& out) {
    constexpr std::string_view escapes = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    if (at_ == text_.size()) fail("a string has no end");
    if (std::size_t const which = escapes.find(text_[at_]); which != escapes.npos) {
      ++at_;
      return out.push_back(meant[which]);
    }
    std::uint32_t code = hex_escape();
    if (code >= 0xdc00 && code < 0xe000) fail("an escape is half of a pair");
    if (code >= 0xd800 && code < 0xdc00) {
      if (at_ == text_.size() || text_[at_] != '\\') fail("an escape is half of a pair");
      ++at_;
      std::uint32_t const low = hex_escape();
      if (low < 0xdc00 || low >= 0xe000) fail("an escape is half of a pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    auto const put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code < 0x80) return put(code);
    if (code >= 0x10000) put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f));
    if (code >= 0x800 && code < 0x10000) put(0xe0 | code >> 12);
    if (code < 0x800) put(0xc0 | code >> 6);
    else put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }

  // Returns the number of uXXXX.
  std::uint32_t hex_escape() {
    if (at_ == text_.size() || text_[at_] != 'u') fail("an escape is not known");
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      char const c = ++at_ < text_.size() ? text_[at_] : ' ';
      int const digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("an escape has not four hexadecimal digits");
      code = code << 4 | static_cast<std::uint32_t>(digit);
    }
    ++at_;
    return code;
  }

  void metadata() {
    for (bool more = opens('{', '}'); more; more = goes_on('}')) {
      std::string_view const key = header_.view(string());
      expect(':');
      std::string_view const value = header_.view(string());
      if (header_.metadata_.size() == most_metadata)
        fail("'__metadata__' has more than the " + std::to_string(most_metadata) + " entries that are read");
      header_.metadata_.emplace_back(key, value);
    }
  }

  void tensor(StringPlace name) {
    bool has_dtype = false, has_shape = false, has_offsets = false;
    Entry entry{name, 0, Dtype::u8, 0, 0};
    std::uint64_t elements = 1;
    for (bool more = opens('{', '}'); more; more = goes_on('}')) {
      std::string_view const field = header_.view(string());
      bool& seen = field == "dtype" ? has_dtype : field == "shape" ? has_shape : has_offsets;
      if (&seen == &has_offsets && field != "data_offsets") refuse(name, "unknown field " + shown(field));
      if (std::exchange(seen, true)) refuse(name, "two fields " + shown(field));
      expect(':');
      if (field == "dtype") entry.dtype = dtype(name, header_.view(string()));
      else if (field == "shape") elements = shape(entry);
      else offsets(entry);
    }
    if (!has_dtype || !has_shape || !has_offsets)
      refuse(name, std::string{"no field '"} + (!has_dtype ? "dtype'" : !has_shape ? "shape'" : "data_offsets'"));
    std::uint64_t bytes;
    if (!multiply(elements, size_of(entry.dtype), bytes)) refuse(name, "dtype and shape have more than 2^64 - 1 bytes");
    if (entry.end - entry.begin != bytes)
      refuse(name, "data_offsets " + range(entry) + " are " + std::to_string(entry.end - entry.begin) + " bytes, dtype " +
                       std::string{to_string(entry.dtype)} + " and shape are " + std::to_string(bytes));
    header_.entries_.push_back(entry);
  }

  Dtype dtype(StringPlace tensor, std::string_view name) const {
    for (std::size_t i = 0; i < std::size(dtypes); ++i)
      if (dtypes[i].name == name) return static_cast<Dtype>(i);
    if (name == "F4" || name == "F6_E2M3" || name == "F6_E3M2")
      refuse(tensor, "dtype " + shown(name) + " has less than a byte an element, which is not read here");
    refuse(tensor, "dtype " + shown(name) + " is not known");
  }

  // Checks a shape, and returns its number of elements.
  std::uint64_t shape(Entry& entry) {
    std::uint64_t elements = 1;
    expect('[');
    entry.shape_at = static_cast<std::uint32_t>(at_);
    std::size_t dimensions = 0;
    for (bool more = !closes(']'); more; more = goes_on(']')) {
      if (++dimensions > most_dimensions) refuse(entry.name, "more than " + std::to_string(most_dimensions) + " dimensions");
      std::uint64_t const length = number();
      if (!multiply(elements, length, elements)) refuse(entry.name, "the shape has more than 2^64 - 1 elements");
    }
    return elements;
  }

  void offsets(Entry& entry) {
    expect('[');
    entry.begin = number();
    expect(',');
    entry.end = number();
    expect(']');
    if (entry.end < entry.begin) refuse(entry.name, "data_offsets " + range(entry) + " end before they begin");
    if (entry.end > data_size_)
      refuse(entry.name,
             "data_offsets " + range(entry) + " end behind the file's " + std::to_string(data_size_) + " bytes of data");
  }

  static std::string range(Entry const& entry) {
    return "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
  }

  // Checks that every byte of the data belongs to one tensor.
  void check_data() {
    std::uint64_t end = 0;
    for (Entry const& entry : header_.entries_) {
      if (entry.begin != end)
        refuse(entry.name, "data_offsets " + range(entry) +
                               (entry.begin < end ? " overlap those of a tensor before it, which end at "
                                                  : " leave a hole behind those of the tensor before it, which end at ") +
                               std::to_string(end));
      end = entry.end;
    }
    if (end != data_size_) refuse(std::to_string(data_size_ - end) + " bytes at the file's end belong to no tensor");
  }

  // Checks that no name is there twice. Puts the entries into the order of their bytes.
  void check_names() {
    heap_sort(std::span{header_.entries_}, [](Entry const& a, Entry const& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end != b.end ? a.end < b.end : a.shape_at < b.shape_at;
    });
    auto const name = [&](std::size_t i) { return header_.view(header_.entries_[i].name); };
    header_.by_name_ = in_order(header_.entries_.size(), name);
    if (std::size_t const i = twin(header_.by_name_, name); i < header_.by_name_.size())
      refuse("two tensors are called " + shown(name(header_.by_name_[i])));
    auto const key = [&](std::size_t i) { return header_.metadata_[i].first; };
    std::vector<std::uint32_t> const keys = in_order(header_.metadata_.size(), key);
    if (std::size_t const i = twin(keys, key); i < keys.size()) refuse("'__metadata__' has two keys " + shown(key(keys[i])));
  }

  std::string_view text_;
  std::uint64_t data_size_;
  std::string_view path_;
  std::size_t at_ = 0;
  Header header_;
};

}  // namespace detail

// Parses the beginning of a file of `file_size` bytes; `bytes` has at least the first header_size() of them. `path` is for
// messages. FormatError on all headers refused by the format's own reader, and on more: the limits above, dtypes of less than a
// byte, doubled names and keys, blanks before the first brace, unknown fields. Each byte behind the header belongs to exactly
// one tensor. Takes n log n for n tensors, at most 64 MiB with the header itself, and keeps 36 bytes a tensor.
Header parse_header(std::span<std::byte const> bytes, std::uint64_t file_size, std::string_view path);

}  // namespace parallax::safetensors

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/interop/safetensors/header-inl.hpp"
#endif
