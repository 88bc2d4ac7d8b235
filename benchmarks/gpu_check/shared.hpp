// What the programs of gpu_check have in common: ids, and how times are told.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace gpu_check {

// Ids below `rows`: uniform; zipf with exponent 1.05, by the inverse of its continuous distribution; or a tenth of them one id.
template <class Id>
std::vector<Id> drawn_ids(std::size_t n, std::int64_t rows, std::string_view distribution, unsigned seed) {
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> uniform{0, 1};
  std::vector<Id> ids(n);
  double const most = std::pow(static_cast<double>(rows), -0.05);
  for (Id& id : ids) {
    double const x = uniform(random);
    double at = x * static_cast<double>(rows);
    if (distribution == "zipf") at = std::pow(1 - x * (1 - most), -20.0) - 1;
    if (distribution == "hot" && random() % 10 == 0) at = 0;
    // Spread over the table, so that frequent ids are no neighbours.
    id = static_cast<Id>(static_cast<std::uint64_t>(at) * 2654435761u % static_cast<std::uint64_t>(rows));
  }
  return ids;
}

// Members of a JSON object: microseconds, and the samples in the order in which they were taken.
inline std::string times_text(std::vector<double> const& samples) {
  auto const text = [](double us) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.3f", us);
    return std::string{digits};
  };
  std::vector<double> us = samples;
  std::sort(us.begin(), us.end());
  std::size_t const n = us.size();
  std::string all = "\"us\": " + text(us[n / 2]) + ", \"us_p10\": " + text(us[n / 10]) +
                    ", \"us_p90\": " + text(us[n * 9 / 10]) + ", \"samples\": [";
  for (std::size_t i = 0; i < n; ++i) all += (i > 0 ? ", " : "") + text(samples[i]);
  return all + "]";
}

// Prints an object whose members are given, on a line.
inline void print_object(std::string const& members) {
  std::printf("{%s}\n", members.c_str());
  std::fflush(stdout);
}
inline std::string json_string(std::string_view text) {
  std::string all = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return all + "\"";
}
inline std::string boolean(bool value) { return value ? "true" : "false"; }

inline bool device_answers() {
  int count = 0;
  cudaError_t const status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return true;
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  std::printf("SKIPPED: no device answers: %s (driver for CUDA %d.%d, runtime %d.%d)\n",
              status == cudaSuccess ? "there are none" : cudaGetErrorString(status), driver / 1000, driver % 1000 / 10,
              runtime / 1000, runtime % 1000 / 10);
  return false;
}

}  // namespace gpu_check
