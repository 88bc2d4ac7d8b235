// Bodies of parallax/interop/npy.hpp.
#pragma once

#include "parallax/interop/npy.hpp"

namespace parallax::inline v0_2::npy {

PARALLAX_INLINE Header parse_header(std::span<std::byte const> bytes, std::uint64_t file_size, std::string_view path) {
  std::string_view const text{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  if (text.substr(0, 6) != "\x93NUMPY") throw FormatError(path, "the file does not begin with \\x93NUMPY: it is no .npy");
  if (text.size() < 10) throw FormatError(path, "the file ends in its header");
  auto const byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(text[i])}; };
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0)
    throw FormatError(path,
                      "version " + std::to_string(byte(6)) + "." + std::to_string(byte(7)) + " of the format is not read");
  std::size_t const before = byte(6) == 1 ? 10 : 12;
  if (text.size() < before) throw FormatError(path, "the file ends in its header");
  std::size_t const length = before == 10 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > most_header_bytes)
    throw FormatError(path, "the header's length is " + std::to_string(length) + " bytes, more than the " +
                                std::to_string(most_header_bytes) + " that are read");
  if (length > text.size() - before || before + length > file_size)
    throw FormatError(path,
                      "the header's length is " + std::to_string(length) + " bytes, in a file of " + std::to_string(file_size));
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
