// Writes the files that python_opens.py opens, into the folder that is the argument.
#include <cstdio>
#include <string>
#include <vector>

#include "parallax/interop/npy.hpp"
#include "parallax/interop/safetensors.hpp"

namespace npy = parallax::npy;
namespace st = parallax::safetensors;

namespace {

// Byte k of tensor i is i + k, mod 251; of booleans 0 or 1.
std::vector<std::byte> pattern(std::size_t i, std::size_t bytes, bool boolean) {
  std::vector<std::byte> result(bytes);
  for (std::size_t k = 0; k < bytes; ++k) result[k] = static_cast<std::byte>((i + k) % (boolean ? 2 : 251));
  return result;
}

void write_safetensors(std::string const& folder) {
  std::vector<st::Spec> specs;
  for (int i = 0; i <= static_cast<int>(st::Dtype::u64); ++i) {
    auto const dtype = static_cast<st::Dtype>(i);
    specs.push_back({"of " + std::string{st::to_string(dtype)}, dtype, {2, 3}});
  }
  specs.push_back({"scalar", st::Dtype::f32, {}});
  specs.push_back({"empty", st::Dtype::f64, {3, 0, 2}});
  specs.push_back({"a \"quoted\" \\ name\n\x01 of \u8bcd \U0001F600", st::Dtype::u8, {1}});
  st::Writer writer{folder + "/ours.safetensors", specs, {{"made by", "parallax"}, {"\t", "\"\\\x1f\u00fc"}}};
  for (std::size_t i = specs.size(); i-- > 0;) {
    auto const bytes = pattern(i, writer.layout().bytes(i), specs[i].dtype == st::Dtype::boolean);
    for (std::size_t k = bytes.size(); k-- > 0;) writer.write(i, k, std::span{bytes}.subspan(k, 1));
  }
  writer.finish();
  st::Writer{folder + "/nothing.safetensors", {}}.finish();
}

void write_npy(std::string const& folder) {
  std::vector<std::uint64_t> const shapes[] = {{2, 3}, {}, {3}, {0, 4}, {1, 2, 1, 3}};
  for (int i = 0; i <= static_cast<int>(npy::Dtype::c16); ++i) {
    auto const dtype = static_cast<npy::Dtype>(i);
    auto const& shape = shapes[i % 5];
    std::size_t bytes = npy::size_of(dtype);
    for (std::uint64_t const length : shape) bytes *= length;
    npy::Writer writer{folder + "/" + std::string{npy::to_string(dtype)} + ".npy", dtype, shape};
    writer.write(0, pattern(static_cast<std::size_t>(i), bytes, dtype == npy::Dtype::b1));
    writer.finish();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::printf("usage: python_opens FOLDER\n"), 1;
  try {
    write_safetensors(argv[1]);
    write_npy(argv[1]);
  } catch (parallax::FormatError const& error) {
    return std::printf("%s\n", error.what()), 1;
  }
}
