// Bodies of parallax/interop/safetensors.hpp.
#pragma once

#include "parallax/interop/safetensors.hpp"

namespace parallax::inline v0_2::safetensors {

namespace detail {

// Parser of the one shape of JSON in a header, an object of objects, without recursion.
class Parser : HeaderText {
 public:
  Parser(std::string_view text, std::uint64_t data_size, std::string_view path)
      : HeaderText{text, 8, path}, data_size_{data_size} {
    header_.text_ = text;
  }

  Header parse() {
    if (!is_at('{')) fail("the header does not begin with {");
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

  // Returns the shape that begins at `at`, behind its bracket, in the text of an accepted header.
  static std::vector<std::uint64_t> shape(std::string_view text, std::size_t at) {
    Parser parser{text, 0, {}};
    parser.at_ = at;
    std::vector<std::uint64_t> result;
    for (bool more = !parser.closes(']'); more; more = parser.goes_on(']')) result.push_back(parser.number());
    return result;
  }

 private:
  using HeaderText::refuse;
  [[noreturn]] void refuse(StringPlace tensor, std::string_view detail) const {
    refuse("tensor " + shown(header_.view(tensor)) + ": " + std::string{detail});
  }

  // Enters an object or array. Returns true if it has an entry, false behind its end. Throws FormatError of another text.
  bool opens(char open, char close) {
    expect(open);
    return !closes(close);
  }
  // Goes on behind an entry. Returns true if there is another, false behind the end. Throws FormatError of another text.
  bool goes_on(char close) {
    if (closes(',')) return true;
    if (!closes(close)) fail(std::string{"expected , or "} + close);
    return false;
  }

  std::uint64_t number() {
    std::uint64_t const value = HeaderText::number("a number", "expected a number");
    if (is_at('.') || is_at('e') || is_at('E')) fail("a number is no integer");
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

  // Reads the rest of a string from its first escape on, and takes over the part before it, from `begin` on.
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
      if (!is_at('\\')) fail("an escape is half of a pair");
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

  // Returns the number of uXXXX, behind its backslash. Throws FormatError of another text.
  std::uint32_t hex_escape() {
    if (!is_at('u')) fail("an escape is not known");
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
      refuse(name, joined({"data_offsets ", range(entry), " are ", entry.end - entry.begin, " bytes, dtype ",
                           to_string(entry.dtype), " and shape are ", bytes}));
    header_.entries_.push_back(entry);
  }

  Dtype dtype(StringPlace tensor, std::string_view name) const {
    for (std::size_t i = 0; i < std::size(dtypes); ++i)
      if (dtypes[i].name == name) return static_cast<Dtype>(i);
    if (name == "F4" || name == "F6_E2M3" || name == "F6_E3M2")
      refuse(tensor, "dtype " + shown(name) + " has less than a byte an element, which is not read here");
    refuse(tensor, "dtype " + shown(name) + " is not known");
  }

  // Reads a shape into `entry`, and returns its number of elements. Throws FormatError if it is none, or too large.
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
      refuse(entry.name, joined({"data_offsets ", range(entry), " end behind the file's ", data_size_, " bytes of data"}));
  }

  static std::string range(Entry const& entry) {
    return "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
  }

  // Checks that every byte of the data belongs to one tensor; else throws FormatError. Needs the entries in order.
  void check_data() {
    std::uint64_t end = 0;
    for (Entry const& entry : header_.entries_) {
      if (entry.begin != end)
        refuse(entry.name, joined({"data_offsets ", range(entry),
                                   entry.begin < end ? " overlap those of a tensor before it"
                                                     : " leave a hole behind those of the tensor before it",
                                   ", which end at ", end}));
      end = entry.end;
    }
    if (end != data_size_) refuse(std::to_string(data_size_ - end) + " bytes at the file's end belong to no tensor");
  }

  // Puts the entries into the order of their bytes. Throws FormatError if a name, or a key of the metadata, is there twice.
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

  std::uint64_t data_size_;
  Header header_;
};

// Appends text as a string of JSON.
inline void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view escapes = "\"\\bfnrt", meant = "\"\\\b\f\n\r\t";
  out.push_back('"');
  for (char const c : text) {
    if (std::size_t const which = meant.find(c); which != meant.npos) out.append(1, '\\').append(1, escapes[which]);
    else if (static_cast<unsigned char>(c) < 0x20)
      out.append("\\u00").append(1, c < 0x10 ? '0' : '1').append(1, "0123456789abcdef"[c & 15]);
    else out.push_back(c);
  }
  out.push_back('"');
}

}  // namespace detail

PARALLAX_INLINE std::uint64_t header_size(std::span<std::byte const> first, std::uint64_t file_size, std::string_view path) {
  if (first.size() < 8 || file_size < 8)
    throw FormatError(path, "a file of " + std::to_string(file_size) + " bytes is too short to be safetensors");
  std::uint64_t length = 0;
  for (int i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(first[static_cast<std::size_t>(i)]);
  if (length > most_header_bytes)
    throw FormatError(path, joined({"the header's length is ", length, " bytes, more than the ", most_header_bytes,
                                    " that are read: is this safetensors?"}));
  if (length > file_size - 8)
    throw FormatError(path, joined({"the header's length is ", length, " bytes, in a file of ", file_size}));
  return 8 + length;
}

PARALLAX_INLINE Header parse_header(std::span<std::byte const> bytes, std::uint64_t file_size, std::string_view path) {
  std::uint64_t const size = header_size(bytes, file_size, path);
  if (bytes.size() < size)
    throw FormatError(path, joined({"the header has ", size, " bytes, and ", bytes.size(), " are given"}));
  std::string_view const text{reinterpret_cast<char const*>(bytes.data()) + 8, static_cast<std::size_t>(size - 8)};
  return detail::Parser{text, file_size - size, path}.parse();
}

PARALLAX_INLINE Tensor Header::tensor(std::size_t i) const {
  detail::Entry const& entry = entries_[i];
  return {view(entry.name), entry.dtype, detail::Parser::shape(text_, entry.shape_at), data_begin() + entry.begin,
          data_begin() + entry.end};
}

PARALLAX_INLINE std::size_t Header::find(std::string_view name) const noexcept {
  std::size_t low = 0, high = by_name_.size();
  while (low < high) {
    std::size_t const middle = low + (high - low) / 2;
    if (view(entries_[by_name_[middle]].name) < name) low = middle + 1;
    else high = middle;
  }
  return low < by_name_.size() && view(entries_[by_name_[low]].name) == name ? by_name_[low] : size();
}

PARALLAX_INLINE Layout::Layout(std::vector<Spec> tensors, Metadata const& metadata, std::string_view path)
    : tensors_{std::move(tensors)}, begins_(tensors_.size()), sizes_(tensors_.size()) {
  auto const refuse = [&](std::string const& detail) { throw FormatError(path, detail); };
  auto const check_unique = [&](std::string_view what, std::size_t count, auto const& name) {
    for (std::size_t i = 0; i < count; ++i)
      if (detail::end_of_utf8(name(i)) < name(i).size()) refuse(std::string{what} + detail::shown(name(i)) + " is no UTF-8");
    std::vector<std::uint32_t> const order = detail::in_order(count, name);
    if (std::size_t const i = detail::twin(order, name); i < count)
      refuse("two: " + std::string{what} + detail::shown(name(order[i])));
  };
  check_unique("tensor ", tensors_.size(), [&](std::size_t i) { return std::string_view{tensors_[i].name}; });
  check_unique("metadata ", metadata.size(), [&](std::size_t i) { return std::string_view{metadata[i].first}; });
  if (metadata.size() > most_metadata) refuse(std::to_string(metadata.size()) + " entries of metadata are more than are read");

  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    std::string const subject = "tensor " + detail::shown(tensors_[i].name);
    if (tensors_[i].name == "__metadata__") refuse(subject + ": the name is the format's own");
    if (tensors_[i].shape.size() > most_dimensions)
      refuse(subject + ": more than " + std::to_string(most_dimensions) + " dimensions");
    sizes_[i] = 1;
    for (std::uint64_t const length : tensors_[i].shape)
      if (!detail::multiply(sizes_[i], length, sizes_[i])) refuse(subject + ": the shape has more than 2^64 - 1 elements");
    if (!detail::multiply(sizes_[i], size_of(tensors_[i].dtype), sizes_[i]))
      refuse(subject + ": it has more than 2^64 - 1 bytes");
  }
  std::vector<std::size_t> order;
  for (std::size_t size = 8; size > 0; size /= 2)
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (size_of(tensors_[i].dtype) == size) order.push_back(i);

  std::string text(8, '\0');
  text.push_back('{');
  auto const next = [&](std::string_view name) {
    if (text.back() != '{') text.push_back(',');
    detail::append_quoted(text, name);
    text.push_back(':');
  };
  if (!metadata.empty()) {
    next("__metadata__");
    text.push_back('{');
    for (auto const& [key, value] : metadata) {
      if (detail::end_of_utf8(value) < value.size()) refuse("metadata " + detail::shown(key) + ": the value is no UTF-8");
      next(key);
      detail::append_quoted(text, value);
    }
    text.push_back('}');
  }
  for (std::size_t const i : order) {
    next(tensors_[i].name);
    text.append("{\"dtype\":\"").append(to_string(tensors_[i].dtype)).append("\",\"shape\":[");
    for (std::uint64_t const length : tensors_[i].shape)
      text.append(text.back() == '[' ? "" : ",").append(std::to_string(length));
    begins_[i] = data_;
    if (__builtin_add_overflow(data_, sizes_[i], &data_)) refuse("the tensors have more than 2^64 - 1 bytes");
    append(text, {"],\"data_offsets\":[", begins_[i], ",", data_, "]}"});
  }
  text.push_back('}');
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() - 8 > most_header_bytes)
    refuse(joined({"the header would have ", text.size() - 8, " bytes, a reader takes ", most_header_bytes}));
  if (data_ > ~std::uint64_t{0} - text.size()) refuse("the file would have more than 2^64 - 1 bytes");
  for (int i = 0; i < 8; ++i) text[static_cast<std::size_t>(i)] = static_cast<char>((text.size() - 8) >> (8 * i) & 0xff);
  header_ = std::move(text);
}

}  // namespace parallax::safetensors
