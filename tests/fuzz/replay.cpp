// Runs each file that is an argument, or in a folder that is one, through a fuzz target once: for compilers without libFuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (auto const& entry : std::filesystem::directory_iterator{argv[i]}) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (auto const& file : files) {
    std::ifstream stream{file, std::ios::binary};
    std::vector<char> const bytes{std::istreambuf_iterator<char>{stream}, {}};
    if (!stream.is_open() || stream.bad()) {
      std::printf("%s cannot be read\n", file.c_str());
      return 1;
    }
    std::printf("%s\n", file.c_str());  // before it: the last one named is the one that crashed
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size());
  }
  std::printf("%zu files\n", files.size());
  return files.empty() ? 1 : 0;
}
