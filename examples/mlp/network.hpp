// A dense network for classification, a multi-layer perceptron, with its gradients by hand.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "digits.hpp"

namespace mlp {

using example::as_span;
using example::RowVector;

// Layers of y = tanh(x W + b), the last without tanh, and the mean cross entropy of its softmax as the loss.
//
// Parameters and gradients are flat row-major spans, first layer first: W [in x out], b [out], W, b, ...
template <class Scalar>
class Mlp {
 public:
  using LayerDone = std::function<void(std::size_t layer)>;

  // Sizes of the input, of each hidden layer, and of the output. Weights of variance 1 / in, given by the seed.
  explicit Mlp(std::vector<Index> const& sizes, std::uint64_t seed = 1) {
    if (sizes.size() < 2) throw std::invalid_argument{"a network has an input and an output"};
    std::mt19937_64 random{seed};
    for (std::size_t k = 1; k < sizes.size(); ++k) layers_.emplace_back(sizes[k - 1], sizes[k], random);
  }

  std::vector<std::span<Scalar>> parameters() {
    std::vector<std::span<Scalar>> spans;
    for (Layer& layer : layers_) spans.insert(spans.end(), {as_span(layer.weights), as_span(layer.bias)});
    return spans;
  }

  std::vector<std::span<Scalar>> gradients() {
    std::vector<std::span<Scalar>> spans;
    for (Layer& layer : layers_)
      spans.insert(spans.end(), {as_span(layer.weights_gradient), as_span(layer.bias_gradient)});
    return spans;
  }

  std::size_t layers() const { return layers_.size(); }

  // The logits [n x classes] for inputs [n x in], valid until the next call. Keeps a copy of the inputs for backward().
  Matrix<Scalar> const& forward(example::ConstView<Scalar> const& inputs) {
    inputs_ = inputs;
    Matrix<Scalar> const* below = &inputs_;
    for (Layer& layer : layers_) {
      layer.output = layer.bias.replicate(inputs.rows(), 1);
      example::add_product<Scalar>(layer.output, *below, layer.weights);
      if (&layer != &layers_.back()) layer.output = layer.output.array().tanh();
      below = &layer.output;
    }
    return layers_.back().output;
  }

  // The mean loss of the last forward() for its n labels. Fills gradients(), last layer first, and calls
  // `layer_done(k)` as soon as those of layer k, spans 2k and 2k + 1, are complete.
  double backward(std::span<int const> labels, LayerDone const& layer_done = [](std::size_t) {}) {
    double const loss = output_gradient(labels);
    for (std::size_t k = layers_.size(); k-- > 0;) {
      Layer& layer = layers_[k];
      Matrix<Scalar> const& below = k == 0 ? inputs_ : layers_[k - 1].output;
      layer.weights_gradient.setZero();
      example::add_product_tn<Scalar>(layer.weights_gradient, below, layer.gradient);
      layer.bias_gradient = layer.gradient.colwise().sum();
      if (k > 0) {
        Matrix<Scalar>& gradient = layers_[k - 1].gradient;
        gradient.setZero(below.rows(), below.cols());
        example::add_product_nt<Scalar>(gradient, layer.gradient, layer.weights);
        gradient.array() *= 1 - below.array().square();
      }
      layer_done(k);
    }
    return loss;
  }

  // The part of the images whose largest logit is the right one.
  double accuracy(Images<Scalar> const& images) {
    Matrix<Scalar> const& logits = forward(images.pixels);
    int right = 0;
    for (Index k = 0; k < logits.rows(); ++k) {
      Index best = 0;
      logits.row(k).maxCoeff(&best);
      right += best == images.labels[static_cast<std::size_t>(k)];
    }
    return right / static_cast<double>(logits.rows());
  }

 private:
  struct Layer {
    Layer(Index in, Index out, std::mt19937_64& random)
        : weights(in, out), bias(out), weights_gradient(in, out), bias_gradient(out) {
      double const range = std::sqrt(3.0 / static_cast<double>(in));
      for (Scalar& weight : as_span(weights)) {
        weight = static_cast<Scalar>(range * (static_cast<double>(random() >> 11) * 0x1p-52 - 1));
      }
      bias.setZero();
      weights_gradient.setZero();
      bias_gradient.setZero();
    }

    Matrix<Scalar> weights;  // [in x out]
    RowVector<Scalar> bias;  // [out]
    Matrix<Scalar> weights_gradient;
    RowVector<Scalar> bias_gradient;
    Matrix<Scalar> output;    // [n x out]
    Matrix<Scalar> gradient;  // [n x out], of the loss by x W + b
  };

  // The mean loss; sets the last layer's gradient to (softmax - one at the label) / n.
  double output_gradient(std::span<int const> labels) {
    Layer& last = layers_.back();
    last.gradient = last.output;
    double sum = 0;
    for (Index k = 0; k < last.gradient.rows(); ++k) {
      auto row = last.gradient.row(k);
      auto const label = static_cast<Index>(labels[static_cast<std::size_t>(k)]);
      Scalar const highest = row.maxCoeff();
      Scalar const logit = row[label];
      row = (row.array() - highest).exp();
      Scalar const total = row.sum();
      row /= total;
      row[label] -= 1;
      sum += static_cast<double>(std::log(total) + highest - logit);
    }
    last.gradient /= static_cast<Scalar>(last.gradient.rows());
    return sum / static_cast<double>(last.gradient.rows());
  }

  Matrix<Scalar> inputs_;  // [n x in]
  std::vector<Layer> layers_;
};

}  // namespace mlp
