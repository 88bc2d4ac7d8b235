// The loss of a language model: cross entropy over a sample of the vocabulary to train, over all of it to evaluate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "matrix.hpp"
#include "sampler.hpp"

namespace lm {

// Sampled softmax (Jean et al. 2015) with gradients by hand. A row of the table is a word's weights [P] and its bias.
//
// The logit of a word for the output h of the model is h . weights + bias - log(expected count of the word in a
// sample). Each of n outputs contrasts its target with the same S samples, but for a sample that is its target, which
// is left out.
template <class Scalar>
class SampledSoftmax {
 public:
  explicit SampledSoftmax(Index projection) : width_{projection + 1} {}

  // The mean loss of outputs [n x P] with n targets. `rows` [u x (P + 1)] are rows of the table, of which occurrence k
  // uses row indices[k]: the n targets first, then the S samples. Computes the gradients of gradient_scale * loss on
  // the way.
  template <RowIndices Indices>
  double loss(Matrix<Scalar> const& outputs, std::span<Scalar const> rows, Indices const& indices,
              std::span<Id const> targets, LogUniformSampler const& sampler, double gradient_scale) {
    Index const n = outputs.rows();
    Index const samples = static_cast<Index>(sampler.ids().size());
    target_rows_.resize(n, width_);
    sample_rows_.resize(samples, width_);
    gather(rows, width_, indices, 0, target_rows_);
    gather(rows, width_, indices, n, sample_rows_);
    weights_ = sample_rows_.leftCols(width_ - 1);
    offsets_ = sample_rows_.col(width_ - 1).transpose();
    for (Index s = 0; s < samples; ++s) offsets_[s] -= log_count(sampler, sampler.ids()[static_cast<std::size_t>(s)]);

    outputs_gradient_.resize(n, width_ - 1);
    rows_gradient_.resize(n + samples, width_);
    weights_gradient_.setZero(samples, width_ - 1);
    offsets_gradient_.setZero(samples);
    double sum = 0;
    for (Index at = 0; at < n; at += chunk) {
      Index const count = std::min(chunk, n - at);
      sum += chunk_loss(outputs.middleRows(at, count), targets.subspan(static_cast<std::size_t>(at)), sampler, at,
                        static_cast<Scalar>(gradient_scale / static_cast<double>(n)));
    }
    rows_gradient_.bottomRows(samples) << weights_gradient_, offsets_gradient_.transpose();
    return sum / static_cast<double>(n);
  }

  // By the rows that the occurrences use, [(n + S) x (P + 1)], in the order of `indices`.
  Matrix<Scalar> const& rows_gradient() const { return rows_gradient_; }
  // By the outputs, [n x P].
  Matrix<Scalar> const& outputs_gradient() const { return outputs_gradient_; }

 private:
  static constexpr Index chunk = 128;  // outputs at a time, so that their S logits each stay in the cache

  static Scalar log_count(LogUniformSampler const& sampler, Id id) {
    return static_cast<Scalar>(sampler.log_expected_count(id));
  }

  // The sum of the losses of outputs [count x P], which are those from `at` on, and their part of the gradients times
  // `scale`.
  template <class Outputs>
  double chunk_loss(Outputs const& outputs, std::span<Id const> targets, LogUniformSampler const& sampler, Index at,
                    Scalar scale) {
    Index const count = outputs.rows();
    probabilities_.resize(count, weights_.rows());
    probabilities_.noalias() = outputs * weights_.transpose();
    probabilities_.rowwise() += offsets_;
    target_scale_.resize(count);
    double sum = 0;
    for (Index k = 0; k < count; ++k) {
      auto logits = probabilities_.row(k);
      Id const target = targets[static_cast<std::size_t>(k)];
      auto const row = target_rows_.row(at + k);
      Scalar const logit = outputs.row(k).dot(row.head(width_ - 1)) + row[width_ - 1] - log_count(sampler, target);
      Scalar const highest = std::max(logit, logits.maxCoeff());
      logits = (logits.array() - highest).exp();
      if (auto const hit = sampler.find(target); hit >= 0) logits[hit] = 0;
      Scalar const own = std::exp(logit - highest);
      Scalar const total = own + logits.sum();
      logits *= scale / total;
      target_scale_[k] = (own / total - 1) * scale;
      sum += static_cast<double>(std::log(total) + highest - logit);
    }
    auto const targets_part = target_rows_.block(at, 0, count, width_ - 1);
    auto gradient = outputs_gradient_.middleRows(at, count);
    gradient.noalias() = probabilities_ * weights_;
    gradient.array() += targets_part.array().colwise() * target_scale_.array();
    weights_gradient_.noalias() += probabilities_.transpose() * outputs;
    offsets_gradient_ += probabilities_.colwise().sum();
    rows_gradient_.block(at, 0, count, width_ - 1).array() = outputs.array().colwise() * target_scale_.array();
    rows_gradient_.block(at, width_ - 1, count, 1) = target_scale_;
    return sum;
  }

  Index width_;
  Matrix<Scalar> target_rows_;    // [n x (P + 1)]
  Matrix<Scalar> sample_rows_;    // [S x (P + 1)]
  Matrix<Scalar> weights_;        // [S x P], of the samples
  RowVector<Scalar> offsets_;     // [S], their biases less the logarithms of their expected counts
  Matrix<Scalar> probabilities_;  // [chunk x S], in place of the logits
  Eigen::Matrix<Scalar, Eigen::Dynamic, 1> target_scale_;  // [chunk], the gradient by the target's logit
  Matrix<Scalar> outputs_gradient_;                        // [n x P]
  Matrix<Scalar> rows_gradient_;                           // [(n + S) x (P + 1)]
  Matrix<Scalar> weights_gradient_;                        // [S x P]
  RowVector<Scalar> offsets_gradient_;                     // [S]
};

// Cross entropy over the whole vocabulary, fed with the table block by block, in any order, each row once.
template <class Scalar>
class FullSoftmax {
 public:
  // Keeps copies of outputs [k x P] and their k targets beside those added before.
  void add(Matrix<Scalar> const& outputs, std::span<Id const> targets) {
    outputs_.insert(outputs_.end(), outputs.data(), outputs.data() + outputs.size());
    targets_.insert(targets_.end(), targets.begin(), targets.end());
    projection_ = outputs.cols();
  }

  // Rows [count x (P + 1)] of the table, the ids [first, first + count).
  void add_block(Id first, std::span<Scalar const> rows) {
    auto const table = as_matrix<Scalar>(rows, projection_ + 1);
    auto const outputs = as_matrix<Scalar>(std::span<Scalar const>{outputs_}, projection_);
    highest_.resize(targets_.size(), -std::numeric_limits<double>::infinity());
    total_.resize(targets_.size());
    target_logit_.resize(targets_.size(), std::numeric_limits<double>::quiet_NaN());
    for (Index at = 0; at < outputs.rows(); at += chunk) {
      Index const count = std::min(chunk, outputs.rows() - at);
      logits_.resize(count, table.rows());
      logits_.noalias() = outputs.middleRows(at, count) * table.leftCols(projection_).transpose();
      logits_.rowwise() += table.col(projection_).transpose();
      for (Index k = 0; k < count; ++k) add_logits(static_cast<std::size_t>(at + k), first, logits_.row(k));
    }
  }

  std::size_t size() const { return targets_.size(); }

  // The sum of the losses, in nats, when every row has been given.
  double loss_sum() const {
    double sum = 0;
    for (std::size_t k = 0; k < targets_.size(); ++k) sum += highest_[k] + std::log(total_[k]) - target_logit_[k];
    return sum;
  }

 private:
  static constexpr Index chunk = 128;

  template <class Logits>
  void add_logits(std::size_t k, Id first, Logits const& logits) {
    Id const target = targets_[k] - first;
    if (0 <= target && target < logits.size()) target_logit_[k] = static_cast<double>(logits[target]);
    Scalar const highest = logits.maxCoeff();
    auto const sum = static_cast<double>((logits.array() - highest).exp().sum());
    double const both = std::max(highest_[k], static_cast<double>(highest));
    total_[k] = total_[k] * std::exp(highest_[k] - both) + sum * std::exp(static_cast<double>(highest) - both);
    highest_[k] = both;
  }

  Index projection_ = 0;
  std::vector<Scalar> outputs_;  // [n x P]
  std::vector<Id> targets_;
  std::vector<double> highest_;  // of the logits so far
  std::vector<double> total_;    // of exp(logit - highest)
  std::vector<double> target_logit_;
  Matrix<Scalar> logits_;  // [chunk x block]
};

}  // namespace lm
