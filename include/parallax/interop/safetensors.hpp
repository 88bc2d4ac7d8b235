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

namespace parallax::inline v0_2::safetensors {

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
      throw FormatError(file_.path(), joined({"tensor ", detail::shown(tensor.name), ": asked for as ", to_string(asked),
                                              ", but its dtype is ", to_string(is)}));
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
void append_quoted(std::string& out, std::string_view text);

}  // namespace detail

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
      throw FormatError(file_.path(),
                        joined({subject(i), ": ", bytes.size(), " bytes at byte ", offset, " of ", layout_.bytes(i)}));
    file_.write(layout_.begin(i) + offset, bytes);
  }

  // Brings the file to the disk and gives it its name. FormatError names the first tensor with missing bytes; they can be
  // written, and finish() called again.
  void finish() {
    std::uint64_t const missing = file_.first_missing();
    for (std::size_t i = 0; i < layout_.tensors().size(); ++i)
      if (missing >= layout_.begin(i) && missing - layout_.begin(i) < layout_.bytes(i))
        throw FormatError(file_.path(), joined({subject(i), ": byte ", missing - layout_.begin(i), " of ", layout_.bytes(i),
                                                " was not written"}));
    file_.finish();
  }

 private:
  std::string subject(std::size_t i) const { return "tensor " + detail::shown(layout_.tensors()[i].name); }

  Layout layout_;
  NewFile file_;
};

}  // namespace parallax::safetensors

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/interop/safetensors-inl.hpp"
#endif
