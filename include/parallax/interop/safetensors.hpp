// Files in the format safetensors: tensors by name, read from memory, from a mapped file, or by one's own reads, and written in
// pieces. For programs with tables to exchange with Python, alone or beside the library. Facts of the format: README and source
// of https://github.com/huggingface/safetensors. Everything is little-endian and row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/detail/interop/file.hpp"
#include "parallax/detail/interop/safetensors/header.hpp"

namespace parallax::safetensors {

// A file mapped into memory, to be read. Owns the mapping, and ends it. Const members may be called by several threads.
class Reader {
 public:
  // Maps the file and parses its header. FormatError: not a regular file, or not the format. FileError: a system call failed.
  explicit Reader(std::string path)
      : file_{std::move(path)}, header_{parse_header(file_.bytes(), file_.bytes().size(), file_.path())} {}

  // The whole parsed header.
  Header const& header() const noexcept { return header_; }
  // The number of tensors.
  std::size_t size() const noexcept { return header_.size(); }
  // The `i`-th tensor, i < size(), by the order of bytes in the file.
  Tensor tensor(std::size_t i) const { return header_.tensor(i); }
  // Returns the i for which tensor(i) has this name. FormatError: none has.
  std::size_t at(std::string_view name) const {
    std::size_t const i = header_.find(name);
    if (i == size()) throw FormatError(file_.path(), "there is no tensor " + detail::shown(name));
    return i;
  }
  // The bytes of tensor(i), in the file's mapping.
  std::span<std::byte const> bytes(std::size_t i) const {
    Tensor const tensor = header_.tensor(i);
    return file_.bytes().subspan(static_cast<std::size_t>(tensor.begin), static_cast<std::size_t>(tensor.end - tensor.begin));
  }
  // The elements of tensor(i), in the file's mapping. FormatError: T is another dtype's, or the elements do not begin at a
  // multiple of alignof(T). Elements without a type in C++ are read as their bits: std::uint8_t (BOOL and F8_*) and
  // std::uint16_t (F16 and BF16).
  template <class T>
  std::span<T const> values(std::size_t i) const {
    static_assert(!std::is_same_v<T, bool>, "parallax: a byte of a file may be neither 0 nor 1: read BOOL as std::uint8_t");
    Tensor const tensor = header_.tensor(i);
    constexpr Dtype asked = DtypeOf<T>::value;
    Dtype const is = tensor.dtype;
    bool const bits = (asked == Dtype::u8 && (is == Dtype::boolean || (is >= Dtype::f8_e5m2 && is <= Dtype::f8_e5m2fnuz))) ||
                      (asked == Dtype::u16 && (is == Dtype::f16 || is == Dtype::bf16));
    if (is != asked && !bits)
      throw FormatError(file_.path(), "tensor " + detail::shown(tensor.name) + ": asked for as " +
                                          std::string{to_string(asked)} + ", but its dtype is " + std::string{to_string(is)});
    return detail::elements<T>(bytes(i), file_.path(), "tensor " + detail::shown(tensor.name));
  }
  // The elements of the tensor with this name; FormatError also if there is none.
  template <class T>
  std::span<T const> values(std::string_view name) const {
    return values<T>(at(name));
  }

 private:
  MappedFile file_;
  Header header_;
};

// Free text of a file, by key; keys are unique.
using Metadata = std::vector<std::pair<std::string, std::string>>;

// A tensor to be written.
struct Spec {
  std::string name;                  // UTF-8, unique in the file, and not "__metadata__"
  Dtype dtype;                       // of its elements
  std::vector<std::uint64_t> shape;  // row-major; none for a scalar
};

// The places of tensors in a file to be written, and the bytes before them. Tensors with larger elements come first, those with
// equally large ones in the order given: each begins at a multiple of its element's size. The data begin at a multiple of 8.
class Layout {
 public:
  // FormatError, with `path` in its text: a name is no UTF-8, is there twice or is "__metadata__"; a shape overflows; or the
  // header is above a reader's limits.
  explicit Layout(std::vector<Spec> tensors, Metadata const& metadata = {}, std::string_view path = "safetensors");

  // The tensors as they were given.
  std::vector<Spec> const& tensors() const noexcept { return tensors_; }
  // The file's bytes from its beginning to the first tensor.
  std::span<std::byte const> header() const noexcept { return std::as_bytes(std::span{header_}); }
  // The first byte of tensors()[i], counted from the beginning of the file.
  std::uint64_t begin(std::size_t i) const noexcept { return header_.size() + begins_[i]; }
  // The number of bytes of tensors()[i].
  std::uint64_t bytes(std::size_t i) const noexcept { return sizes_[i]; }
  // The size of the whole file.
  std::uint64_t file_size() const noexcept { return header_.size() + data_; }

 private:
  std::vector<Spec> tensors_;
  std::vector<std::uint64_t> begins_, sizes_;  // in the data
  std::uint64_t data_ = 0;
  std::string header_;
};

namespace detail {

// Text as a string of JSON.
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

inline Layout::Layout(std::vector<Spec> tensors, Metadata const& metadata, std::string_view path)
    : tensors_{std::move(tensors)}, begins_(tensors_.size()), sizes_(tensors_.size()) {
  auto const refuse = [&](std::string const& detail) { throw FormatError(path, detail); };
  auto const check_unique = [&](std::size_t count, auto const& name, std::string_view what) {
    for (std::size_t i = 0; i < count; ++i)
      if (detail::end_of_utf8(name(i)) < name(i).size()) refuse(std::string{what} + detail::shown(name(i)) + " is no UTF-8");
    std::vector<std::uint32_t> const order = detail::in_order(count, name);
    if (std::size_t const i = detail::twin(order, name); i < count)
      refuse("two: " + std::string{what} + detail::shown(name(order[i])));
  };
  check_unique(
      tensors_.size(), [&](std::size_t i) { return std::string_view{tensors_[i].name}; }, "tensor ");
  check_unique(
      metadata.size(), [&](std::size_t i) { return std::string_view{metadata[i].first}; }, "metadata ");
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
    text.append("],\"data_offsets\":[")
        .append(std::to_string(begins_[i]))
        .append(",")
        .append(std::to_string(data_))
        .append("]}");
  }
  text.push_back('}');
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() - 8 > most_header_bytes)
    refuse("the header would have " + std::to_string(text.size() - 8) + " bytes, a reader takes " +
           std::to_string(most_header_bytes));
  if (data_ > ~std::uint64_t{0} - text.size()) refuse("the file would have more than 2^64 - 1 bytes");
  for (int i = 0; i < 8; ++i) text[static_cast<std::size_t>(i)] = static_cast<char>((text.size() - 8) >> (8 * i) & 0xff);
  header_ = std::move(text);
}

// Writes a file of tensors known beforehand, in pieces and in any order. The file is PATH.part until finish(): see NewFile. One
// Writer a path at a time. Not thread-safe.
class Writer {
 public:
  // Creates PATH.part and writes the header. FormatError as by Layout and NewFile.
  Writer(std::string path, std::vector<Spec> tensors, Metadata const& metadata = {})
      : layout_{std::move(tensors), metadata, path}, file_{std::move(path), layout_.file_size()} {
    file_.write(0, layout_.header());
  }

  // The places of all tensors.
  Layout const& layout() const noexcept { return layout_; }

  // Writes `bytes` of the tensor `i`, in the order given to the constructor, from its byte `offset` on. A byte written again
  // has its last value. FormatError: there is no such tensor, or the bytes go beyond its end. FileError: the disk is full, ….
  void write(std::size_t i, std::uint64_t offset, std::span<std::byte const> bytes) {
    if (i >= layout_.tensors().size()) throw FormatError(file_.path(), "there is no tensor of number " + std::to_string(i));
    if (offset > layout_.bytes(i) || bytes.size() > layout_.bytes(i) - offset)
      throw FormatError(file_.path(), subject(i) + ": " + std::to_string(bytes.size()) + " bytes at byte " +
                                          std::to_string(offset) + " of " + std::to_string(layout_.bytes(i)));
    file_.write(layout_.begin(i) + offset, bytes);
  }

  // Brings the file to the disk and gives it its name. FormatError names the first tensor with missing bytes; they can be
  // written, and finish() called again.
  void finish() {
    std::uint64_t const missing = file_.first_missing();
    for (std::size_t i = 0; i < layout_.tensors().size(); ++i)
      if (missing >= layout_.begin(i) && missing - layout_.begin(i) < layout_.bytes(i))
        throw FormatError(file_.path(), subject(i) + ": byte " + std::to_string(missing - layout_.begin(i)) + " of " +
                                            std::to_string(layout_.bytes(i)) + " was not written");
    file_.finish();
  }

 private:
  std::string subject(std::size_t i) const { return "tensor " + detail::shown(layout_.tensors()[i].name); }

  Layout layout_;
  NewFile file_;
};

}  // namespace parallax::safetensors
