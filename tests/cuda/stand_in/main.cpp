// The stand-ins for CUDA's runtime and for NCCL have the numbers and the types of the real ones.
#include <cstdio>

#include "seen.hpp"

int main() {
  std::size_t names = 0, wrong = 0;
  auto const compare = [&](std::vector<Listed> const& real, std::vector<Listed> const& ours) {
    for (std::size_t i = 0; i < real.size(); ++i) {
      ++names;
      if (real[i].name == ours[i].name && real[i].seen == ours[i].seen) continue;
      ++wrong;
      std::printf("%s: %s; of the stand-in: %s\n", real[i].name.c_str(), real[i].seen.c_str(), ours[i].seen.c_str());
    }
  };
  compare(cuda_of_toolkit(), cuda_of_stand_in());
  compare(nccl_of_toolkit(), nccl_of_stand_in());
  std::printf("%zu names, %zu wrong\n", names, wrong);
  return wrong > 0;
}
