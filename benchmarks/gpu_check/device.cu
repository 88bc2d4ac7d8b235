// device: the first device that CUDA shows to a program, for which the others are compiled. Prints one JSON object.
#include "shared.hpp"

int main() {
  if (!gpu_check::device_answers()) return 77;
  int driver = 0, runtime = 0;
  cudaDeviceProp device{};
  cudaError_t const status = cudaGetDeviceProperties(&device, 0);
  if (status != cudaSuccess) {
    std::fprintf(stderr, "device: %s\n", cudaGetErrorString(status));
    return 1;
  }
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  gpu_check::print_object("\"gpu\": " + gpu_check::json_string(device.name) + ", \"architecture\": \"sm_" +
                          std::to_string(10 * device.major + device.minor) + "\", \"driver\": " + std::to_string(driver) +
                          ", \"runtime\": " + std::to_string(runtime));
}
