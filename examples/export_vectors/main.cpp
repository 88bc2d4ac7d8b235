// Word vectors for Python: a matrix of one row a word is written a few rows at a time, as .safetensors and as .npy, and read
// back. `export_vectors FOLDER` says what opens them in Python; without a folder it removes them.
#include <parallax/interop/npy.hpp>
#include <parallax/interop/safetensors.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>
namespace px = parallax;

namespace {

constexpr std::size_t words = 1'000, width = 16, rows_at_once = 64;

// Row `word` of the matrix, of which nobody has to have all in memory.
std::vector<float> vector_of(std::size_t word) {
  std::vector<float> row(width);
  for (std::size_t k = 0; k < width; ++k) row[k] = std::sin(static_cast<float>(word * width + k));
  return row;
}

void write(std::string const& folder) {
  px::safetensors::Writer tensors{
      folder + "/vectors.safetensors",
      {{"vectors", px::safetensors::Dtype::f32, {words, width}}, {"counts", px::safetensors::Dtype::i64, {words}}},
      {{"made_by", "export_vectors"}}};
  std::uint64_t const shape[] = {words, width};
  px::npy::Writer array{folder + "/vectors.npy", px::npy::Dtype::f4, shape};

  std::vector<float> rows;
  for (std::size_t begin = 0; begin < words; begin += rows_at_once) {
    rows.clear();
    for (std::size_t word = begin; word < words && word < begin + rows_at_once; ++word)
      for (float const value : vector_of(word)) rows.push_back(value);
    std::uint64_t const at = begin * width * sizeof(float);  // in bytes of the tensor
    tensors.write(0, at, std::as_bytes(std::span{rows}));
    array.write(at, std::as_bytes(std::span{rows}));
  }
  std::vector<std::int64_t> const counts(words, 7);
  tensors.write(1, 0, std::as_bytes(std::span{counts}));
  tensors.finish();  // before it there are only files that end in .part
  array.finish();
}

// Whether both files have every row.
bool is_right(std::string const& folder) {
  px::safetensors::Reader const tensors{folder + "/vectors.safetensors"};
  px::npy::Reader const array{folder + "/vectors.npy"};
  auto const first = tensors.values<float>("vectors"), second = array.values<float>();  // in the files' own pages
  if (first.size() != words * width || second.size() != words * width) return false;
  for (std::size_t i = 0; i < words * width; ++i)
    if (first[i] != second[i] || first[i] != vector_of(i / width)[i % width]) return false;
  return tensors.values<std::int64_t>("counts")[words - 1] == 7;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string const folder = argc > 1 ? argv[1] : (std::filesystem::temp_directory_path() / "parallax-export").string();
  std::filesystem::create_directories(folder);
  write(folder);
  bool const right = is_right(folder);
  std::printf("%zu vectors of %zu floats in %s, %s\n", words, width, folder.c_str(),
              right ? "read back" : "and not as written");
  if (argc == 1) {
    std::filesystem::remove_all(folder);
    return right ? 0 : 1;
  }
  char const* const where = folder.c_str();
  std::printf("python3 -c 'import numpy; print(numpy.load(\"%s/vectors.npy\", mmap_mode=\"r\").shape)'\n", where);
  std::printf("python3 -c 'from safetensors.numpy import load_file; print(load_file(\"%s/vectors.safetensors\"))'\n", where);
  return right ? 0 : 1;
} catch (px::FormatError const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
