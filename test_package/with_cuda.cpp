// The component cuda: the host's view of a device's tables, and the runtime. No device is needed, and no nvcc.
#include <cstdio>

#include <parallax/kernel/cuda/row_ops.hpp>

namespace px = parallax;

int main() {
  int version = 0;
  px::device::check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");
  std::printf("with cuda: runtime %d\n", version);
  return version >= CUDART_VERSION ? 0 : 1;
}
