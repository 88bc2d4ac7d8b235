// Any bytes as a file of NumPy: they are refused by FormatError, or what is read of them is a file. Twice: as they are, and
// with a size of the file and a length of the header that fit, so that what is changed does not end at them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "parallax/interop/npy.hpp"

namespace npy = parallax::npy;

namespace {

void demand(bool condition, char const* sentence) {
  if (condition) return;
  std::fprintf(stderr, "npy_fuzz: not so: %s\n", sentence);
  std::abort();
}

void check(std::span<std::byte const> bytes, std::uint64_t file_size) {
  try {
    npy::Header const header = npy::parse_header(bytes, file_size, "fuzz");
    std::uint64_t size = npy::size_of(header.dtype);
    for (std::uint64_t const length : header.shape) size *= length;
    demand(header.end == file_size && header.end - header.begin == size, "the elements fill the file");
    if (size >= std::uint64_t{1} << 62) return;
    std::string const written = npy::header_bytes(header.dtype, header.shape);
    demand(written.size() % 64 == 0, "the elements begin at a multiple of 64");
    npy::Header const again = npy::parse_header(std::as_bytes(std::span{written}), written.size() + size, "again");
    demand(again.dtype == header.dtype && again.shape == header.shape && again.begin == written.size(),
           "an array is read as it was written");
  } catch (parallax::FormatError const& error) {
    demand(std::strlen(error.what()) < 600, "a message is short, whatever names are long");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span const bytes = std::as_bytes(std::span{data, size});
  check(bytes, size);
  if (size < 10 || size > 60'000) return 0;
  std::vector<std::byte> fitting(bytes.begin(), bytes.end());
  std::memcpy(fitting.data(), "\x93NUMPY\x01", 8);
  fitting[8] = static_cast<std::byte>((size - 10) & 0xff);
  fitting[9] = static_cast<std::byte>((size - 10) >> 8);
  std::uint64_t elements = 1, number = 0;  // by the lengths of the shape
  std::uint64_t width = 1;                 // of an element, by the number in '<f4'
  bool inside = false, in_shape = false, in_descr = false;
  for (std::byte const byte : bytes.subspan(10)) {
    char const c = static_cast<char>(byte);
    bool const digit = c >= '0' && c <= '9';
    if (inside && !digit && in_shape) elements *= number;
    if (inside && !digit && in_descr) width = number;
    number = digit ? (inside ? 10 * number : 0) + static_cast<std::uint64_t>(c - '0') : 0;
    inside = digit;
    in_shape = (in_shape || c == '(') && c != ')';
    in_descr = (in_descr || c == '<' || c == '|') && c != '\'';
  }
  check(fitting, size + elements * width % (std::uint64_t{1} << 63));
  return 0;
}
