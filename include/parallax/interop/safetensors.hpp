// Files in the format safetensors: tensors by name, read from memory, from a mapped file, or by one's own reads, and written in
// pieces. For programs with tables to exchange with Python, alone or beside the library. Facts of the format: README and source
// of https://github.com/huggingface/safetensors. Everything is little-endian and row-major.
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

#include "parallax/detail/core/short_float.hpp"
#include "parallax/detail/interop/file.hpp"

namespace parallax::inline v0_2::safetensors {

// Type of a tensor's elements. The format's F4, F6_E2M3 and F6_E3M2, of less than a byte, are refused.
enum class Dtype : std::uint8_t {
  boolean,      // BOOL: a byte, 0 or 1
  u8,           // U8
  i8,           // I8
  f8_e5m2,      // F8_E5M2: a byte, 5 bits of it the exponent
  f8_e4m3,      // F8_E4M3
  f8_e8m0,      // F8_E8M0: a power of two
  f8_e4m3fnuz,  // F8_E4M3FNUZ: without infinities and -0
  f8_e5m2fnuz,  // F8_E5M2FNUZ: likewise
  i16,          // I16
  u16,          // U16
  f16,          // F16: IEEE's half precision
  bf16,         // BF16: the upper half of a float
  i32,          // I32
  u32,          // U32
  f32,          // F32
  c64,          // C64: two floats, real and imaginary
  f64,          // F64
  i64,          // I64
  u64,          // U64
};

namespace detail {

using namespace parallax::detail;

inline constexpr DtypeFacts dtypes[] = {
    {"BOOL", 1},        {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"F8_E4M3FNUZ", 1},
    {"F8_E5M2FNUZ", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},     {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},         {"C64", 8}, {"F64", 8}, {"I64", 8},     {"U64", 8},
};

template <class T>
constexpr Dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8,
                "parallax: this type has no dtype: specialise parallax::safetensors::DtypeOf, or use bytes()");
  using D = Dtype;
  return dtype_among<T, D>(D::boolean, D::f32, D::f64, {D::i8, D::i16, D::i32, D::i64}, {D::u8, D::u16, D::u32, D::u64});
}

}  // namespace detail

// Returns a dtype's name in the format: "BF16" for Dtype::bf16.
constexpr std::string_view to_string(Dtype dtype) { return detail::dtypes[static_cast<std::size_t>(dtype)].name; }

// Returns the bytes of an element.
constexpr std::size_t size_of(Dtype dtype) { return detail::dtypes[static_cast<std::size_t>(dtype)].size; }

// The dtype of a C++ type. Specialise it for a trivially copyable type of your own with a dtype's bits, such as
// std::complex<float>, with Dtype::c64.
template <class T>
struct DtypeOf {
  static constexpr Dtype value = detail::dtype_of<T>();  // of an integer, float, double or bool
};

// The dtype of the library's BFloat16.
template <>
struct DtypeOf<BFloat16> {
  static constexpr Dtype value = Dtype::bf16;  // the same bits
};
// The dtype of the library's Float16.
template <>
struct DtypeOf<Float16> {
  static constexpr Dtype value = Dtype::f16;  // the same bits
};

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

// A string of the header: the place of its bytes in the text or, counted on behind the text's end, in Header::unescaped_.
struct StringPlace {
  std::uint32_t at, length;
};

// A tensor as a header keeps it: 32 bytes, for at least 50 of the text.
struct Entry {
  StringPlace name;
  std::uint32_t shape_at;  // behind the bracket in the text
  Dtype dtype;
  std::uint64_t begin, end;  // in the data
};
static_assert(sizeof(Entry) == 32);

// Returns the positions of `count` names in the order of the names: `name(i)` returns the i-th, 0 <= i < count.
template <class Name>
std::vector<std::uint32_t> in_order(std::size_t count, Name const& name) {
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  heap_sort(std::span{order}, [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
  return order;
}

// Returns the first place of `order`, made by `in_order`, whose name is also the next one's; order.size() if all names differ.
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
  // Views into `other`'s strings stay valid, as long as this.
  Header(Header&& other) = default;
  Header& operator=(Header&& other) = default;

  // Returns the number of tensors.
  std::size_t size() const noexcept { return entries_.size(); }
  // Returns the `i`-th tensor, i < size(), by the order of bytes in the file, perhaps not the header's. Its name is a view.
  Tensor tensor(std::size_t i) const;
  // Returns the i of the tensor of this name, or size() if there is none. Takes a binary search.
  std::size_t find(std::string_view name) const noexcept;
  // Returns the entries of `__metadata__`, in the header's order; none if there is none. Valid like Tensor::name.
  std::vector<std::pair<std::string_view, std::string_view>> const& metadata() const noexcept { return metadata_; }
  // Returns the byte of the file at which the first tensor's bytes begin.
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

// Parses the beginning of a file of `file_size` bytes; `bytes` has at least the first header_size() of them. `path` is for
// messages. FormatError on all headers refused by the format's own reader, and on more: the limits above, dtypes of less than a
// byte, doubled names and keys, blanks before the first brace, unknown fields. Each byte behind the header belongs to exactly
// one tensor. Takes n log n for n tensors, at most 64 MiB with the header itself, and keeps 36 bytes a tensor.
Header parse_header(std::span<std::byte const> bytes, std::uint64_t file_size, std::string_view path);

// A file mapped into memory, to be read. Owns the mapping, and ends it. Const members may be called by several threads.
class Reader {
 public:
  // Maps the file and parses its header. FormatError: not a regular file, or not the format. FileError: a system call failed.
  explicit Reader(std::string path)
      : file_{std::move(path)}, header_{parse_header(file_.bytes(), file_.bytes().size(), file_.path())} {}

  // Returns the whole parsed header, valid as long as this.
  Header const& header() const noexcept { return header_; }
  // Returns the number of tensors.
  std::size_t size() const noexcept { return header_.size(); }
  // Returns the `i`-th tensor, i < size(), by the order of bytes in the file. Its name is valid as long as this.
  Tensor tensor(std::size_t i) const { return header_.tensor(i); }
  // Returns the i for which tensor(i) has this name. FormatError: none has.
  std::size_t at(std::string_view name) const {
    std::size_t const i = header_.find(name);
    if (i == size()) throw FormatError(file_.path(), "there is no tensor " + detail::shown(name));
    return i;
  }
  // Returns the bytes of tensor(i), in the file's mapping: valid as long as this.
  std::span<std::byte const> bytes(std::size_t i) const {
    Tensor const tensor = header_.tensor(i);
    return file_.bytes().subspan(static_cast<std::size_t>(tensor.begin), static_cast<std::size_t>(tensor.end - tensor.begin));
  }
  // Returns the elements of tensor(i), in the file's mapping: valid as long as this. FormatError: T is another dtype's, or they
  // do not begin at a multiple of alignof(T). Elements without a type in C++ are read as their bits: std::uint8_t (BOOL and
  // F8_*) and std::uint16_t (F16 and BF16).
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
  // Returns the elements of the tensor with this name, as values(i) does; FormatError also if there is none.
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
  // Lays out the tensors. FormatError, with `path` in its text: a name or a value is no UTF-8, a name is there twice or is
  // "__metadata__"; a shape overflows; or the header is above a reader's limits.
  explicit Layout(std::vector<Spec> tensors, Metadata const& metadata = {}, std::string_view path = "safetensors");

  // Returns the tensors as they were given.
  std::vector<Spec> const& tensors() const noexcept { return tensors_; }
  // Returns the file's bytes from its beginning to the first tensor, valid as long as this.
  std::span<std::byte const> header() const noexcept { return std::as_bytes(std::span{header_}); }
  // Returns the first byte of tensors()[i], counted from the beginning of the file.
  std::uint64_t begin(std::size_t i) const noexcept { return header_.size() + begins_[i]; }
  // Returns the number of bytes of tensors()[i].
  std::uint64_t bytes(std::size_t i) const noexcept { return sizes_[i]; }
  // Returns the number of bytes of the whole file.
  std::uint64_t file_size() const noexcept { return header_.size() + data_; }

 private:
  std::vector<Spec> tensors_;
  std::vector<std::uint64_t> begins_, sizes_;  // in the data
  std::uint64_t data_ = 0;
  std::string header_;
};

// Writes a file of tensors known beforehand, in pieces and in any order. The file is PATH.part until finish(): see NewFile. One
// Writer a path at a time. Not thread-safe.
class Writer {
 public:
  // Creates PATH.part and writes the header. FormatError and FileError as by Layout and NewFile.
  Writer(std::string path, std::vector<Spec> tensors, Metadata const& metadata = {})
      : layout_{std::move(tensors), metadata, path}, file_{std::move(path), layout_.file_size()} {
    file_.write(0, layout_.header());
  }

  // Returns the places of all tensors, valid as long as this.
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

  // Brings the file to the disk, and waits for it, and gives it its name. FormatError names the first tensor with missing
  // bytes: they can be written, and finish() called again. FileError: see NewFile.
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
