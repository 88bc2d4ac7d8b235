// Bodies of parallax/interop/npy.hpp.
#pragma once

#include "parallax/interop/npy.hpp"

namespace parallax::inline v0_2::npy {

namespace detail {

// A parser of the one Python dictionary in a header: three fields in any order.
class Parser : HeaderText {
 public:
  // Refers to text and path. `begin`: the file's byte behind the dictionary. Members throw FormatError of another text.
  Parser(std::string_view text, std::uint64_t begin, std::uint64_t file_size, std::string_view path)
      : HeaderText{text, begin - text.size(), path}, begin_{begin}, file_size_{file_size} {}

  Header parse() {
    expect('{');
    bool more = !closes('}');
    while (more) {
      std::string_view const field = string();
      bool* const seen = field == "descr"           ? &has_descr_
                         : field == "fortran_order" ? &has_order_
                         : field == "shape"         ? &has_shape_
                                                    : nullptr;
      if (!seen) refuse("unknown field " + shown(field));
      if (std::exchange(*seen, true)) refuse("two fields " + shown(field));
      expect(':');
      if (seen == &has_descr_) descr();
      else if (seen == &has_order_) order();
      else shape();
      more = closes(',');
      if (more && closes('}')) break;  // Python's own dictionaries end so
      if (!more) expect('}');
    }
    skip_space();
    if (at_ < text_.size()) fail("something stands behind the dictionary");
    if (!has_descr_ || !has_order_ || !has_shape_)
      refuse(std::string{"no field '"} + (!has_descr_ ? "descr'" : !has_order_ ? "fortran_order'" : "shape'"));
    if (fortran_order_ && header_.shape.size() > 1)
      refuse(
          joined({"'fortran_order': True, columns first, is not read where there are ", header_.shape.size(), " dimensions"}));
    std::uint64_t bytes = size_of(header_.dtype);
    for (std::uint64_t const length : header_.shape)
      if (!multiply(bytes, length, bytes)) refuse("'shape' has more than 2^64 - 1 bytes");
    if (std::uint64_t const data = file_size_ - begin_; bytes != data)
      refuse(joined({"'descr' and 'shape' have ", bytes, " bytes, the file has ", data, " behind its header"}));
    header_.begin = begin_;
    header_.end = file_size_;
    return std::move(header_);
  }

 private:
  bool word(std::string_view expected) {
    skip_space();
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  std::string_view string() {
    skip_space();
    char const quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') fail("expected a string");
    std::size_t const begin = ++at_;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_)
      if (text_[at_] == '\\' || static_cast<unsigned char>(text_[at_]) < 0x20)
        fail("a string holds an escape or a control character");
    if (at_ == text_.size()) fail("a string has no end");
    return text_.substr(begin, at_++ - begin);
  }

  void descr() {
    skip_space();
    if (is_at('[')) refuse("'descr' is a list: arrays of structures are not read");
    if (is_at('(')) refuse("'descr' is a tuple: arrays of arrays are not read");
    std::string_view const text = string();
    std::string_view const name = text.substr(text.empty() ? 0 : 1);
    char const order = text.empty() ? ' ' : text[0];
    auto const no = [&](std::string_view why) { refuse("'descr' " + shown(text) + ": " + std::string{why}); };
    if (name.substr(0, 1) == "O") no("Python objects are not read: they would run code");
    if (order == '>') no("big-endian is not read");
    if (order == '=') no("'=' is the byte order of a machine that the file does not name");
    if (order != '<' && order != '|') no("no byte order, which is '<', or '|' for single bytes");
    for (std::size_t i = 0; i < std::size(dtypes); ++i) {
      if (dtypes[i].name != name) continue;
      if (order == '|' && dtypes[i].size > 1) no("'|' is for single bytes");
      header_.dtype = static_cast<Dtype>(i);
      return;
    }
    no("this dtype is not read");
  }

  void order() {
    fortran_order_ = word("True");
    if (!fortran_order_ && !word("False")) fail("'fortran_order' is neither True nor False");
  }

  void shape() {
    expect('(');
    while (!closes(')')) {
      if (header_.shape.size() == most_dimensions)
        refuse("'shape' has more than " + std::to_string(most_dimensions) + " dimensions");
      header_.shape.push_back(number());
      if (closes(',')) continue;
      expect(')');
      if (header_.shape.size() == 1) fail("'shape' of one dimension has no comma, and so is no tuple");
      return;
    }
  }

  std::uint64_t number() {
    std::uint64_t const value = HeaderText::number("'shape'", "'shape' is no tuple of integers");
    if (is_at('L')) ++at_;  // a long of Python 2
    return value;
  }

  std::uint64_t begin_, file_size_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false, fortran_order_ = false;
  Header header_{};
};

}  // namespace detail

PARALLAX_INLINE Header parse_header(std::span<std::byte const> bytes, std::uint64_t file_size, std::string_view path) {
  std::string_view const text{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  if (text.substr(0, 6) != "\x93NUMPY") throw FormatError(path, "the file does not begin with \\x93NUMPY: it is no .npy");
  if (text.size() < 10) throw FormatError(path, "the file ends in its header");
  auto const byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(text[i])}; };
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0)
    throw FormatError(path, joined({"version ", byte(6), ".", byte(7), " of the format is not read"}));
  std::size_t const before = byte(6) == 1 ? 10 : 12;
  if (text.size() < before) throw FormatError(path, "the file ends in its header");
  std::size_t const length = before == 10 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > most_header_bytes)
    throw FormatError(
        path, joined({"the header's length is ", length, " bytes, more than the ", most_header_bytes, " that are read"}));
  if (length > text.size() - before || before + length > file_size)
    throw FormatError(path, joined({"the header's length is ", length, " bytes, in a file of ", file_size}));
  return detail::Parser{text.substr(before, length), before + length, file_size, path}.parse();
}

PARALLAX_INLINE std::string header_bytes(Dtype dtype, std::span<std::uint64_t const> shape, std::string_view path) {
  if (shape.size() > most_dimensions) throw FormatError(path, "more than " + std::to_string(most_dimensions) + " dimensions");
  std::uint64_t bytes = size_of(dtype);
  std::string text{"\x93NUMPY\x01\0\0\0", 10};
  text.append("{'descr': '").append(size_of(dtype) == 1 ? "|" : "<").append(to_string(dtype));
  text.append("', 'fortran_order': False, 'shape': (");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!detail::multiply(bytes, shape[i], bytes)) throw FormatError(path, "the shape has more than 2^64 - 1 bytes");
    text.append(i > 0 ? ", " : "").append(std::to_string(shape[i]));
  }
  text.append(shape.size() == 1 ? ",), }" : "), }");
  if (!shape.empty()) text.append(21 - std::to_string(shape[0]).size(), ' ');  // room for 21 digits, as NumPy leaves it
  text.resize(text.size() / 64 * 64 + 63, ' ');
  text.push_back('\n');
  if (bytes > ~std::uint64_t{0} - text.size()) throw FormatError(path, "the file would have more than 2^64 - 1 bytes");
  text[8] = static_cast<char>((text.size() - 10) & 0xff);
  text[9] = static_cast<char>((text.size() - 10) >> 8);
  return text;
}

}  // namespace parallax::npy
