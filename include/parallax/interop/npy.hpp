// Files in NumPy's format .npy, one array each: parsed from memory, read from a mapped file, and written in pieces. For
// programs with arrays to exchange with Python, alone or beside the library. Facts of the format:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Little-endian and row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/detail/interop/file.hpp"

namespace parallax::inline v0_2::npy {

// The types of elements, by NumPy's letter and their bytes.
enum class Dtype : std::uint8_t {
  b1,   // bool: a byte, 0 or 1
  i1,   // int8
  i2,   // int16
  i4,   // int32
  i8,   // int64
  u1,   // uint8
  u2,   // uint16
  u4,   // uint32
  u8,   // uint64
  f2,   // float16
  f4,   // float32
  f8,   // float64
  c8,   // complex64: two floats, real and imaginary
  c16,  // complex128: two doubles
};

// Most bytes of a file's dictionary: as much as version 1.0 of the format can say. NumPy's own limit is 10,000.
inline constexpr std::size_t most_header_bytes = 65'535;
// Most dimensions of an array, as in NumPy.
inline constexpr std::size_t most_dimensions = 64;

namespace detail {

using namespace parallax::detail;

inline constexpr DtypeFacts dtypes[] = {{"b1", 1}, {"i1", 1}, {"i2", 2}, {"i4", 4}, {"i8", 8}, {"u1", 1}, {"u2", 2},
                                        {"u4", 4}, {"u8", 8}, {"f2", 2}, {"f4", 4}, {"f8", 8}, {"c8", 8}, {"c16", 16}};

template <class T>
constexpr Dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8,
                "parallax: this type has no dtype: specialise parallax::npy::DtypeOf, or use bytes()");
  using D = Dtype;
  return dtype_among<T, D>(D::b1, D::f4, D::f8, {D::i1, D::i2, D::i4, D::i8}, {D::u1, D::u2, D::u4, D::u8});
}

}  // namespace detail

// Returns a dtype as NumPy names it, without the order of bytes: "f4" for Dtype::f4.
constexpr std::string_view to_string(Dtype dtype) { return detail::dtypes[static_cast<std::size_t>(dtype)].name; }

// Returns the bytes of an element.
constexpr std::size_t size_of(Dtype dtype) { return detail::dtypes[static_cast<std::size_t>(dtype)].size; }

// The dtype of a C++ type. Specialise it for a type of your own that is trivially copyable and has a dtype's bits, such as
// std::complex<float> with Dtype::c8.
template <class T>
struct DtypeOf {
  static constexpr Dtype value = detail::dtype_of<T>();  // of an integer, float, double or bool
};

// The contents of a file's header.
struct Header {
  Dtype dtype;                       // of the elements
  std::vector<std::uint64_t> shape;  // row-major; none for a scalar
  std::uint64_t begin;               // the file's byte at which the elements begin
  std::uint64_t end;                 // the end of the elements and of the file
};

// Parses the beginning of a file of `file_size` bytes; keeps no view. `bytes` has at least the header: 12 + most_header_bytes
// are always enough, or all of a shorter file. Reads versions 1.0, 2.0 and 3.0. `path` is for messages. FormatError: another
// format; a dtype, an order of bytes or of dimensions not read here; or another size of the file than its shape's.
Header parse_header(std::span<std::byte const> bytes, std::uint64_t file_size, std::string_view path);

// Returns the first bytes of a file with such an array, as NumPy writes them: a multiple of 64, with the elements behind them.
// Version 1.0. FormatError, with `path` in its text: the shape has too many dimensions, or overflows.
std::string header_bytes(Dtype dtype, std::span<std::uint64_t const> shape, std::string_view path = "npy");

namespace detail {
// Throws FormatError if elements of the dtype `found` are asked for as T's, unless T is the type for their bits.
template <class T>
void check_asked(Dtype found, std::string_view path) {
  static_assert(!std::is_same_v<T, bool>, "parallax: a byte of a file may be neither 0 nor 1: read b1 as std::uint8_t");
  constexpr Dtype asked = DtypeOf<T>::value;
  bool const bits = (asked == Dtype::u1 && found == Dtype::b1) || (asked == Dtype::u2 && found == Dtype::f2);
  if (found != asked && !bits)
    throw FormatError(path, joined({"asked for as ", to_string(asked), ", but the dtype is ", to_string(found)}));
}
}  // namespace detail

// A file mapped into memory, to be read. Owns the mapping, and ends it. Const members may be called by several threads.
class Reader {
 public:
  // Maps the file and parses its header. FormatError: not a regular file, or none to read here. FileError: a system call
  // failed.
  explicit Reader(std::string path)
      : file_{std::move(path)}, header_{parse_header(file_.bytes(), file_.bytes().size(), file_.path())} {}

  // Returns the type of the elements.
  Dtype dtype() const noexcept { return header_.dtype; }
  // Returns the lengths, row-major; empty for a scalar.
  std::vector<std::uint64_t> const& shape() const noexcept { return header_.shape; }
  // Returns the elements' bytes, in the file's mapping: valid as long as this.
  std::span<std::byte const> bytes() const noexcept { return file_.bytes().subspan(static_cast<std::size_t>(header_.begin)); }
  // Returns the elements, in the file's mapping, valid as long as this. FormatError: T is another dtype's, or they begin at no
  // multiple of alignof(T). Elements without a type in C++ are read as their bits: std::uint8_t (b1) and std::uint16_t (f2).
  template <class T>
  std::span<T const> values() const {
    detail::check_asked<T>(dtype(), file_.path());
    return detail::elements<T>(bytes(), file_.path(), "the array");
  }

 private:
  MappedFile file_;
  Header header_;
};

// Writes a file of a shape known beforehand, in pieces and in any order. The file is PATH.part until finish(): see NewFile. One
// Writer a path at a time. Not thread-safe.
class Writer {
 public:
  // Creates PATH.part and writes the header. FormatError and FileError as by header_bytes() and NewFile.
  Writer(std::string path, Dtype dtype, std::span<std::uint64_t const> shape)
      : Writer{header_bytes(dtype, shape, path), std::move(path), dtype, shape} {}

  // Writes `bytes` of the elements from their byte `offset` on. A byte written again has its last value. FormatError: the bytes
  // go beyond the array. FileError: the disk is full, ….
  void write(std::uint64_t offset, std::span<std::byte const> bytes) {
    std::uint64_t const size = file_.size() - begin_;
    if (offset > size || bytes.size() > size - offset)
      throw FormatError(file_.path(), joined({bytes.size(), " bytes at byte ", offset, " of an array of ", size}));
    file_.write(begin_ + offset, bytes);
  }

  // Brings the file to the disk, waits for it, and gives it its name. FormatError names the first missing byte; the missing
  // bytes can be written, and finish() called again. FileError: see NewFile.
  void finish() {
    if (std::uint64_t const missing = file_.first_missing(); missing < file_.size())
      throw FormatError(file_.path(),
                        joined({"byte ", missing - begin_, " of an array of ", file_.size() - begin_, " was not written"}));
    file_.finish();
  }

 private:
  Writer(std::string const& header, std::string path, Dtype dtype, std::span<std::uint64_t const> shape)
      : begin_{header.size()}, file_{std::move(path), header.size() + bytes_of(dtype, shape)} {
    file_.write(0, std::as_bytes(std::span{header}));
  }

  static std::uint64_t bytes_of(Dtype dtype, std::span<std::uint64_t const> shape) noexcept {
    std::uint64_t bytes = size_of(dtype);
    for (std::uint64_t const length : shape) bytes *= length;
    return bytes;
  }

  std::uint64_t begin_;
  NewFile file_;
};

}  // namespace parallax::npy

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/interop/npy-inl.hpp"
#endif
