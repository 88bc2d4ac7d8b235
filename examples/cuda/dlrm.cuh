// A small DLRM (Naumov et al., arXiv 1906.00091) in plain CUDA, for one device: a network that guesses clicks, its backward pass,
// and clicks to learn from. Nothing here knows of other ranks; dlrm.cu makes a trainer for many devices of it. For one file of a
// program.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "parallax/kernel/cuda.cuh"

namespace dlrm {

namespace px = parallax;

constexpr int features = 13, tables = 26, width = 8, longest_bag = 4;
constexpr int vectors = 1 + tables;                    // of a sample: what its features become, and a bag of each table
constexpr int products = vectors * (vectors - 1) / 2;  // of each two vectors
constexpr int joined = width + products;               // what the upper layers see: the first vector and the products

__host__ __device__ constexpr int rows_of(int table) { return 200 + 70 * table; }

// A fully connected layer. Its weights have a row for each output: a weight for each input, and the bias.
struct Layer {
  int inputs, outputs;
  bool rectified;  // negative outputs become 0
  __host__ __device__ constexpr int size() const { return outputs * (inputs + 1); }
};
constexpr std::array layers{Layer{features, 16, true}, Layer{16, width, true}, Layer{joined, 16, true}, Layer{16, 1, false}};

// A layer's outputs and the gradients of these, [samples x outputs].
struct Outputs {
  float const *values, *gradients;
};

// All vectors of a batch: what the features become, [samples x width], and the bags, [tables x samples x width].
struct Vectors {
  float const *features, *bags;
  // Where the array of a vector begins: number 0 is that of the features.
  __device__ float const* of(int vector, int samples) const {
    return vector == 0 ? features : bags + (vector - 1) * samples * width;
  }
};

// What numbers are drawn for.
enum class Drawn { weight, bag, feature, row, click, truth_of_feature, truth_of_row };

// A number in [0, 1) that looks random, and is the same for the same arguments, on every rank.
__host__ __device__ inline float uniform(Drawn what, std::uint64_t number, int part) {
  std::uint64_t bits = 0;
  for (std::uint64_t const word : {static_cast<std::uint64_t>(what), number, static_cast<std::uint64_t>(part)}) {
    bits = (bits ^ word) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    bits = (bits ^ (bits >> 32)) * 0xd6e8feb86659fd93u;
    bits ^= bits >> 29;
  }
  return static_cast<float>(bits >> 40) / 16777216.0f;
}

__device__ inline int thread_number() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

// A thread a weight: its first value.
__global__ void begin(Layer layer, int number, float* weights) {
  int const at = thread_number();
  if (at >= layer.size()) return;
  float const drawn = uniform(Drawn::weight, static_cast<std::uint64_t>(number), at);
  weights[at] = (2 * drawn - 1) / sqrtf(static_cast<float>(layer.inputs));
}

// A thread a sample: draws its features and rows, and whether it is clicked, by a linear rule that the network is not told.
// `offsets`: [tables x samples], where each bag begins among the ids, those of table 0 first; and where the last one ends.
__global__ void draw(int samples, std::uint64_t first, int const* offsets, std::int64_t* ids, float* in, float* clicks) {
  int const sample = thread_number();
  if (sample >= samples) return;
  std::uint64_t const number = first + static_cast<std::uint64_t>(sample);
  float score = -1;
  for (int f = 0; f < features; ++f) {
    float const value = in[sample * features + f] = 2 * uniform(Drawn::feature, number, f) - 1;
    score += value * (6 * uniform(Drawn::truth_of_feature, 0, f) - 3);
  }
  for (int table = 0; table < tables; ++table) {
    int const* const bag = offsets + table * samples + sample;
    for (int i = bag[0]; i < bag[1]; ++i) {
      float const drawn = uniform(Drawn::row, number, table * longest_bag + i - bag[0]);
      int const row = static_cast<int>(drawn * drawn * drawn * static_cast<float>(rows_of(table)));  // low ones are frequent
      ids[i] = row;
      score += uniform(Drawn::truth_of_row, static_cast<std::uint64_t>(table), row) - 0.5f;
    }
  }
  clicks[sample] = uniform(Drawn::click, number, 0) < 1 / (1 + expf(-score)) ? 1.0f : 0.0f;
}

// A thread an output of a sample.
__global__ void forward(Layer layer, int samples, float const* weights, float const* in, float* out) {
  int const at = thread_number(), sample = at / layer.outputs, output = at % layer.outputs;
  if (sample >= samples) return;
  float const *const row = weights + output * (layer.inputs + 1), *const of_sample = in + sample * layer.inputs;
  float sum = row[layer.inputs];
  for (int i = 0; i < layer.inputs; ++i) sum += row[i] * of_sample[i];
  out[at] = layer.rectified && sum < 0 ? 0 : sum;
}

// The gradient of an output as it was before it was rectified.
__device__ inline float inner_gradient(Layer layer, Outputs out, int at) {
  return layer.rectified && out.values[at] <= 0 ? 0 : out.gradients[at];
}

// A thread a weight: its gradient, summed over the samples in their order.
__global__ void weight_gradients(Layer layer, int samples, float const* in, Outputs out, float* gradients) {
  int const at = thread_number(), output = at / (layer.inputs + 1), input = at % (layer.inputs + 1);
  if (at >= layer.size()) return;
  float sum = 0;
  for (int sample = 0; sample < samples; ++sample) {
    float const factor = input < layer.inputs ? in[sample * layer.inputs + input] : 1;
    sum += inner_gradient(layer, out, sample * layer.outputs + output) * factor;
  }
  gradients[at] = sum;
}

// A thread an input of a sample: its gradient.
__global__ void input_gradients(Layer layer, int samples, float const* weights, Outputs out, float* gradients) {
  int const at = thread_number(), sample = at / layer.inputs, input = at % layer.inputs;
  if (sample >= samples) return;
  float sum = 0;
  for (int output = 0; output < layer.outputs; ++output)
    sum += inner_gradient(layer, out, sample * layer.outputs + output) * weights[output * (layer.inputs + 1) + input];
  gradients[at] = sum;
}

// A thread an element of what the upper layers see of a sample: the first vector, then vector 1 times vector 0, vector 2 times
// vectors 0 and 1, and so on.
__global__ void join(int samples, Vectors in, float* out) {
  int const at = thread_number(), sample = at / joined, element = at % joined;
  if (sample >= samples) return;
  int one = 1, other = element - width;
  while (other >= one) other -= one++;
  float sum = 0;
  for (int c = 0; c < width && other >= 0; ++c)
    sum += in.of(one, samples)[sample * width + c] * in.of(other, samples)[sample * width + c];
  out[at] = element < width ? in.features[sample * width + element] : sum;
}

// A thread an element of a vector of a sample: its gradient, in an array [vectors x samples x width].
__global__ void vector_gradients(int samples, Vectors in, float const* of_joined, float* gradients) {
  int const at = thread_number(), vector = at / (samples * width), here = at % (samples * width);
  if (vector >= vectors) return;
  float const* const of_sample = of_joined + here / width * joined;
  float sum = vector == 0 ? of_sample[here % width] : 0;
  for (int other = 0; other < vectors; ++other) {
    int const high = other > vector ? other : vector, low = other > vector ? vector : other;
    if (other != vector) sum += of_sample[width + high * (high - 1) / 2 + low] * in.of(other, samples)[here];
  }
  gradients[at] = sum;
}

// A thread a sample: the gradient of its score. Adds its logistic loss and its click to the totals, [2 x samples].
__global__ void judge(int samples, float const* scores, float const* clicks, float* gradients, float* totals) {
  int const sample = thread_number();
  if (sample >= samples) return;
  float const score = scores[sample], click = clicks[sample];
  gradients[sample] = (1 / (1 + expf(-score)) - click) / static_cast<float>(samples);
  totals[sample] += fmaxf(score, 0) - score * click + log1pf(expf(-fabsf(score)));
  totals[samples + sample] += click;
}

// Launches so many threads, or a few more.
template <class... P>
void launch(cudaStream_t stream, int threads, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  constexpr int of_block = 128;
  px::device::launch(stream, static_cast<unsigned>((threads + of_block - 1) / of_block), of_block, 0, kernel, arguments...);
}

template <class T>
px::DeviceBuffer<T> buffer(px::CudaQueue const& queue, int size) {
  return {queue.memory, queue.stream, static_cast<std::size_t>(size)};
}

// Batches of clicks, in the device's memory. The host knows how long the bags are.
class Clicks {
 public:
  Clicks(px::CudaQueue const& queue, int samples)
      : features{buffer<float>(queue, samples * dlrm::features)},
        clicks{buffer<float>(queue, samples)},
        stream_{queue.stream},
        samples_{samples},
        offsets_(static_cast<std::size_t>(tables * samples + 1)),
        offsets_there_{buffer<int>(queue, tables * samples + 1)},
        ids_{buffer<std::int64_t>(queue, tables * samples * longest_bag)} {}

  // Draws the samples that begin with this number. The stream must have done what it had to do with the last batch's offsets,
  // as it has once that batch is pulled.
  void next(std::uint64_t first) {
    for (int bag = 0; bag < tables * samples_; ++bag) {
      auto const sample = first + static_cast<std::uint64_t>(bag % samples_);
      offsets_[static_cast<std::size_t>(bag) + 1] =
          offsets_[static_cast<std::size_t>(bag)] + 2 + static_cast<int>(3 * uniform(Drawn::bag, sample, bag / samples_));
    }
    offsets_there_.copy_from(offsets_.data(), offsets_.size());
    launch(stream_, samples_, draw, samples_, first, offsets_there_.data(), ids_.data(), features.data(), clicks.data());
  }
  // Where the bags of all tables begin.
  std::span<int const> offsets() const { return {offsets_there_.data(), offsets_.size()}; }
  // Of all bags.
  std::span<std::int64_t const> ids() const { return {ids_.data(), static_cast<std::size_t>(offsets_.back())}; }

  px::DeviceBuffer<float> features, clicks;  // [samples x features]; of each sample 1 or 0

 private:
  cudaStream_t stream_;
  int samples_;
  std::vector<int> offsets_;
  px::DeviceBuffer<int> offsets_there_;
  px::DeviceBuffer<std::int64_t> ids_;
};

// The layers' weights, and all gradients of a batch, in the device's memory.
class Network {
 public:
  Network(px::CudaQueue const& queue, int samples)
      : stream_{queue.stream},
        samples_{samples},
        joined_{buffer<float>(queue, samples * joined)},
        of_joined_{buffer<float>(queue, samples * joined)},
        of_vectors_{buffer<float>(queue, vectors * samples * width)} {
    for (Layer const& layer : layers) {
      weights_.push_back(buffer<float>(queue, layer.size()));
      of_weights_.push_back(buffer<float>(queue, layer.size()));
      out_.push_back(buffer<float>(queue, samples * layer.outputs));
      of_out_.push_back(buffer<float>(queue, samples * layer.outputs));
      launch(stream_, layer.size(), begin, layer, static_cast<int>(weights_.size()), weights_.back().data());
    }
  }

  std::span<float> weights(std::size_t layer) { return {weights_[layer].data(), weights_[layer].size()}; }
  std::span<float const> weight_gradient(std::size_t layer) const {
    return {of_weights_[layer].data(), of_weights_[layer].size()};
  }
  // Of all bags, [tables x samples x width].
  std::span<float const> bag_gradients() const {
    auto const of_a_vector = static_cast<std::size_t>(samples_ * width);
    return {of_vectors_.data() + of_a_vector, tables * of_a_vector};
  }

  // Guesses the clicks of a batch, adds up what it is worth, and computes all gradients.
  void learn(Clicks const& batch, float const* bags, float* totals) {
    pass(0, batch.features.data());
    pass(1, out_[0].data());
    Vectors const in{out_[1].data(), bags};
    launch(stream_, samples_ * joined, join, samples_, in, joined_.data());
    pass(2, joined_.data());
    pass(3, out_[2].data());
    launch(stream_, samples_, judge, samples_, out_[3].data(), batch.clicks.data(), of_out_[3].data(), totals);
    pass_back(3, out_[2].data(), of_out_[3].data(), of_out_[2].data());
    pass_back(2, joined_.data(), of_out_[2].data(), of_joined_.data());
    launch(stream_, vectors * samples_ * width, vector_gradients, samples_, in, of_joined_.data(), of_vectors_.data());
    pass_back(1, out_[0].data(), of_vectors_.data(), of_out_[0].data());
    pass_back(0, batch.features.data(), of_out_[0].data(), nullptr);
  }

 private:
  void pass(std::size_t number, float const* in) {
    Layer const& layer = layers[number];
    launch(stream_, samples_ * layer.outputs, forward, layer, samples_, weights_[number].data(), in, out_[number].data());
  }
  void pass_back(std::size_t number, float const* in, float const* of_out, float* of_in) {
    Layer const& layer = layers[number];
    Outputs const out{out_[number].data(), of_out};
    launch(stream_, layer.size(), weight_gradients, layer, samples_, in, out, of_weights_[number].data());
    if (of_in) launch(stream_, samples_ * layer.inputs, input_gradients, layer, samples_, weights_[number].data(), out, of_in);
  }

  cudaStream_t stream_;
  int samples_;
  std::vector<px::DeviceBuffer<float>> weights_, of_weights_, out_, of_out_;  // by layer; of_...: the gradient of that
  px::DeviceBuffer<float> joined_, of_joined_, of_vectors_;
};

}  // namespace dlrm
