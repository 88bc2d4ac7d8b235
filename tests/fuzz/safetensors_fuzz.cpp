// Any bytes as a file of safetensors: they are refused by FormatError, or what is read of them is a file. Twice: as they are,
// and with a length and a size of the file that fit, so that what is changed in the header does not end at the length before
// it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "parallax/interop/safetensors.hpp"

namespace st = parallax::safetensors;

namespace {

void demand(bool condition, char const* sentence) {
  if (condition) return;
  std::fprintf(stderr, "safetensors_fuzz: not so: %s\n", sentence);
  std::abort();
}

// What was accepted written by a Layout, and read again.
void check_round_trip(st::Header const& header) {
  std::vector<st::Spec> specs;
  for (std::size_t i = 0; i < header.size(); ++i) {
    st::Tensor const tensor = header.tensor(i);
    specs.push_back({std::string{tensor.name}, tensor.dtype, tensor.shape});
  }
  st::Metadata metadata;
  for (auto const& [key, value] : header.metadata()) metadata.emplace_back(key, value);
  st::Layout const layout{specs, metadata};
  st::Header const again = st::parse_header(layout.header(), layout.file_size(), "again");
  demand(again.size() == header.size() && again.metadata() == header.metadata(), "as many tensors are read as were written");
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::size_t const at = again.find(specs[i].name);
    demand(at < again.size(), "a tensor that was written has its name");
    st::Tensor const tensor = again.tensor(at);
    demand(tensor.dtype == specs[i].dtype && tensor.shape == specs[i].shape && tensor.begin == layout.begin(i) &&
               tensor.end - tensor.begin == layout.bytes(i) && tensor.begin % st::size_of(tensor.dtype) == 0,
           "a tensor is read as it was written, and aligned");
  }
}

void check(std::span<std::byte const> bytes, std::uint64_t file_size) {
  try {
    st::Header const header = st::parse_header(bytes, file_size, "fuzz");
    std::uint64_t end = header.data_begin();
    for (std::size_t i = 0; i < header.size(); ++i) {
      st::Tensor const tensor = header.tensor(i);
      std::uint64_t size = st::size_of(tensor.dtype);
      for (std::uint64_t const length : tensor.shape) size *= length;
      demand(tensor.begin == end && tensor.end - tensor.begin == size, "each byte belongs to one tensor");
      demand(header.find(tensor.name) == i, "a tensor is found by its name");
      end = tensor.end;
    }
    demand(end == file_size, "the last tensor ends with the file");
    if (end < std::uint64_t{1} << 62) check_round_trip(header);
  } catch (parallax::FormatError const& error) {
    demand(std::strlen(error.what()) < 600, "a message is short, whatever names are long");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::span const bytes = std::as_bytes(std::span{data, size});
  check(bytes, size);
  if (size < 8) return 0;
  std::vector<std::byte> fitting(bytes.begin(), bytes.end());
  for (std::size_t i = 0; i < 8; ++i) fitting[i] = static_cast<std::byte>((size - 8) >> (8 * i) & 0xff);
  std::uint64_t last = 0;  // number of the text, which is where the data end
  bool inside = false;
  for (std::byte const byte : bytes.subspan(8)) {
    auto const digit = static_cast<std::uint64_t>(byte) - '0';
    last = digit > 9 ? last : inside ? 10 * last + digit : digit;
    inside = digit <= 9;
  }
  check(fitting, size + last % (std::uint64_t{1} << 63));
  return 0;
}
