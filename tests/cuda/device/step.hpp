// One update of a table on a device, for callers that nvcc does not compile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Why no device can be used; empty where one answers.
std::string no_device();

// Adagrad on the rows that `keys` name, by the sum of their gradients. Everything is copied to the device and back.
void adagrad_on_device(std::vector<std::int32_t> const& keys, std::vector<float> const& gradients, std::int64_t width,
                       std::vector<float>& table, std::vector<float>& sums);
