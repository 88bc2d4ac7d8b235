// A trainer of plain CUDA made distributed: an embedding bag and a hidden layer, told apart by whether the words of a text
// weigh more than nothing. Parameters, rows and gradients stay on the device; kernels are the user's, on the session's stream.
// For one file of a program.
#pragma once

#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"

namespace embedding_bag {

namespace px = parallax;

constexpr int words = 500, width = 16, hidden = 8, texts = 64, text_length = 12;  // texts: of a rank's batch

// The layer behind the bags, and its gradient: for each hidden unit its weights, its bias and what it counts in the result.
constexpr int unit_size = width + 2, layer_size = hidden * unit_size;

struct Batch {
  float const* rows;            // the distinct rows that were pulled
  std::uint32_t const* row_of;  // of each index
  float const* labels;          // of each text
};

// A thread a text: pools its words' rows, passes the layer, and keeps what the gradients are made of.
__global__ void forward(Batch batch, float const* layer, float* pooled, float* errors, float* losses) {
  unsigned const text = blockIdx.x * blockDim.x + threadIdx.x;
  if (text >= texts) return;
  float* const bag = pooled + text * width;
  for (int c = 0; c < width; ++c) {
    bag[c] = 0;
    for (int i = 0; i < text_length; ++i) bag[c] += batch.rows[batch.row_of[text * text_length + i] * width + c];
  }
  float score = 0;
  for (int h = 0; h < hidden; ++h) {
    float const* const unit = layer + h * unit_size;
    float sum = unit[width];
    for (int c = 0; c < width; ++c) sum += unit[c] * bag[c];
    score += sum > 0 ? sum * unit[width + 1] : 0;
  }
  float const probability = 1 / (1 + expf(-score)), label = batch.labels[text];
  errors[text] = (probability - label) / texts;
  losses[text] = -logf(label > 0 ? probability : 1 - probability);
}

// A thread an element of the layer: its gradient, summed over the texts in their order.
__global__ void layer_gradient(float const* layer, float const* pooled, float const* errors, float* gradient) {
  unsigned const element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= layer_size) return;
  unsigned const part = element % unit_size;
  float const* const unit = layer + (element - part);
  float sum_of_texts = 0;
  for (int text = 0; text < texts; ++text) {
    float const* const bag = pooled + text * width;
    float sum = unit[width];
    for (int c = 0; c < width; ++c) sum += unit[c] * bag[c];
    if (sum <= 0) continue;
    float const into = part < width ? bag[part] * unit[width + 1] : part == width ? unit[width + 1] : sum;
    sum_of_texts += errors[text] * into;
  }
  gradient[element] = sum_of_texts;
}

// A thread a text: the gradient of each of its words' rows, which is that of its bag.
__global__ void row_gradients(float const* layer, float const* pooled, float const* errors, float* gradients) {
  unsigned const text = blockIdx.x * blockDim.x + threadIdx.x;
  if (text >= texts) return;
  for (int c = 0; c < width; ++c) {
    float sum_of_units = 0;
    for (int h = 0; h < hidden; ++h) {
      float const* const unit = layer + h * unit_size;
      float sum = unit[width];
      for (int k = 0; k < width; ++k) sum += unit[k] * pooled[text * width + k];
      if (sum > 0) sum_of_units += errors[text] * unit[width + 1] * unit[c];
    }
    for (int i = 0; i < text_length; ++i) gradients[(text * text_length + i) * width + c] = sum_of_units;
  }
}

// Memory of the device for the length of a training.
template <class T>
px::DeviceBuffer<T> copied(px::CudaQueue queue, std::vector<T> const& host) {
  px::DeviceBuffer<T> there{queue.memory, queue.stream, host.size()};
  there.copy_from(host.data(), host.size());
  return there;
}

// Waits for the stream; over NCCL under the deadline, for what NCCL waits for may never come.
template <px::Communicator C>
void wait_for_stream(C& world) {
  if constexpr (requires { world.synchronize(); }) world.synchronize();
  else px::device::check(cudaStreamSynchronize(world.queue().stream), "cudaStreamSynchronize");
}

// Over any communicator that carries device memory. Collective. Returns the mean loss of all ranks' last texts.
template <px::Communicator C>
double train(C& world, int steps) {
  px::CudaQueue const queue = world.queue();
  px::Session session{world};
  std::mt19937 random{7};
  std::uniform_real_distribution<float> uniform{-0.5f, 0.5f};
  std::vector<float> first(layer_size);
  for (float& value : first) value = uniform(random);
  auto layer = copied(queue, first);

  px::Variable<px::Dense, px::CudaSpace, px::Adagrad> dense{session, "layer", px::bind(std::span{layer.data(), layer.size()}),
                                                            px::Adagrad{.learning_rate = 0.2}};
  px::Variable<px::Sparse, px::CudaSpace, px::Adagrad> table{
      session, "words", px::Table{.rows = words, .width = width, .initial = px::uniform(-0.5, 0.5)},
      px::Adagrad{.learning_rate = 0.2}};

  std::vector<float> labels(texts), losses(texts);
  std::vector<int> ids(texts * text_length);
  px::DeviceBuffer<float> pooled{queue.memory, queue.stream, texts * width}, errors{queue.memory, queue.stream, texts},
      loss{queue.memory, queue.stream, texts}, gradient{queue.memory, queue.stream, layer_size},
      rows_gradient{queue.memory, queue.stream, ids.size() * width}, labels_there{queue.memory, queue.stream, texts};
  double mean = 0;
  std::mt19937 own{static_cast<unsigned>(world.rank()) + 1};
  for (int step = 0; step < steps; ++step) {
    for (int text = 0; text < texts; ++text) {
      int weight = 0;
      for (int i = 0; i < text_length; ++i) {
        int const word = ids[static_cast<std::size_t>(text * text_length + i)] = static_cast<int>(own() % words);
        weight += word % 2 ? 1 : -1;
      }
      labels[static_cast<std::size_t>(text)] = weight > 0 ? 1.0f : 0.0f;
    }
    labels_there.copy_from(labels.data(), labels.size());
    auto const rows = session.pull(table, ids);  // in the order of the stream
    Batch const batch{rows.values().data, rows.inverse().data(), labels_there.data()};
    unsigned constexpr threads = 64;
    px::device::launch(queue.stream, (texts + threads - 1) / threads, threads, 0, forward, batch, layer.data(), pooled.data(),
                       errors.data(), loss.data());
    px::device::launch(queue.stream, (layer_size + threads - 1) / threads, threads, 0, layer_gradient, layer.data(),
                       pooled.data(), errors.data(), gradient.data());
    px::device::launch(queue.stream, (texts + threads - 1) / threads, threads, 0, row_gradients, layer.data(), pooled.data(),
                       errors.data(), rows_gradient.data());
    session.step(px::grad(dense, std::span{gradient.data(), gradient.size()}),
                 px::grad(rows, std::span{rows_gradient.data(), rows_gradient.size()}));
    loss.copy_to(losses.data(), losses.size());
    wait_for_stream(world);
    mean = 0;
    for (float const one : losses) mean += one / texts;
    if (world.rank() == 0 && step % 20 == 0) std::printf("step %d: loss %.4f\n", step, mean);
  }
  px::allreduce(world, std::span{&mean, 1});
  mean /= world.size();
  if (world.rank() == 0) std::printf("%d ranks, %d steps: loss %.4f, of guessing 0.6931\n", world.size(), steps, mean);
  session.finish();
  return mean;
}

// Whether that was learnt, where there were steps enough.
inline bool learnt(double loss, int steps) { return loss < 0.5 || steps < 60; }

// Whether a device answers; says why not.
inline bool device_answers(int& devices) {
  cudaError_t const status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return true;
  std::printf("SKIPPED: no device answers: %s\n", cudaGetErrorString(status));
  return false;
}

}  // namespace embedding_bag
