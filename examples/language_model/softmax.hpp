// The loss of a language model: cross entropy over a sample of the vocabulary to train, over all of it to evaluate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "matrix.hpp"
#include "sampler.hpp"

namespace lm {

// A word's row of the softmax table is its weights [P] and its bias. Outputs of the model [n x P] get a column of ones,
// [n x (P + 1)], so that the bias is one more weight.
template <class Scalar>
void append_ones(Matrix<Scalar> const& outputs, Matrix<Scalar>& target) {
  target.resize(outputs.rows(), outputs.cols() + 1);
  target.leftCols(outputs.cols()) = outputs;
  target.rightCols(1).setOnes();
}

// Sampled softmax (Jean et al. 2015) with gradients by hand.
//
// The logit of a word for the output h of the model is h . weights + bias - log(expected count of the word in a
// sample). Each of n outputs contrasts its target with the same S samples, but for a sample that is its target, which
// is left out.
//
// Its functions are defined after the class, not inline: so a program can compile them once, in a file of their own.
template <class Scalar>
class SampledSoftmax {
 public:
  explicit SampledSoftmax(Index projection) : width_{projection + 1} {}

  // The mean loss of outputs [n x P] with n targets. `rows` [u x (P + 1)] are rows of the table, of which occurrence k
  // uses row indices[k]: the n targets first, then the S samples. Computes the gradients of gradient_scale * loss on
  // the way.
  double loss(Matrix<Scalar> const& outputs, std::span<Scalar const> rows, RowIndices indices,
              std::span<Id const> targets, LogUniformSampler const& sampler, double gradient_scale);

  // By the rows that the occurrences use, [(n + S) x (P + 1)], in the order of `indices`.
  Matrix<Scalar> const& rows_gradient() const { return rows_gradient_; }
  // By the outputs, [n x P].
  Matrix<Scalar> const& outputs_gradient() const { return outputs_gradient_; }

 private:
  static constexpr Index chunk = 128;  // outputs at a time, so that their S logits each stay in the cache

  static Scalar log_count(LogUniformSampler const& sampler, Id id) {
    return static_cast<Scalar>(sampler.log_expected_count(id));
  }
  void take_rows(std::span<Scalar const> rows, RowIndices indices, LogUniformSampler const& sampler);
  double chunk_loss(std::span<Id const> targets, LogUniformSampler const& sampler, Index at, Scalar scale);
  void chunk_gradients(Index at, Index count);

  Index width_;
  Matrix<Scalar> outputs_;            // [n x (P + 1)]
  Matrix<Scalar> target_rows_;        // [n x (P + 1)]
  Matrix<Scalar> sample_rows_;        // [S x (P + 1)]
  std::vector<Scalar> log_counts_;    // [S], of the samples
  Matrix<Scalar> logits_;             // [chunk x S], then the loss's gradient by them
  std::vector<Scalar> target_scale_;  // [n], the loss's gradient by the target's logit
  Matrix<Scalar> outputs_gradient_;   // [n x P]
  Matrix<Scalar> rows_gradient_;      // [(n + S) x (P + 1)]
};

template <class Scalar>
double SampledSoftmax<Scalar>::loss(Matrix<Scalar> const& outputs, std::span<Scalar const> rows, RowIndices indices,
                                    std::span<Id const> targets, LogUniformSampler const& sampler,
                                    double gradient_scale) {
  Index const n = outputs.rows();
  append_ones(outputs, outputs_);
  take_rows(rows, indices, sampler);
  target_scale_.resize(targets.size());
  outputs_gradient_.setZero(n, width_ - 1);
  rows_gradient_.setZero(n + sample_rows_.rows(), width_);
  auto const scale = static_cast<Scalar>(gradient_scale / static_cast<double>(n));
  double sum = 0;
  for (Index at = 0; at < n; at += chunk) {
    Index const count = std::min(chunk, n - at);
    auto const chunk_targets = targets.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
    sum += chunk_loss(chunk_targets, sampler, at, scale);
    chunk_gradients(at, count);
  }
  return sum / static_cast<double>(n);
}

template <class Scalar>
void SampledSoftmax<Scalar>::take_rows(std::span<Scalar const> rows, RowIndices indices,
                                       LogUniformSampler const& sampler) {
  auto const samples = sampler.ids();
  target_rows_.resize(outputs_.rows(), width_);
  sample_rows_.resize(static_cast<Index>(samples.size()), width_);
  gather(rows, indices, target_rows_);
  gather(rows, indices.last(samples.size()), sample_rows_);
  log_counts_.resize(samples.size());
  std::ranges::transform(samples, log_counts_.begin(), [&](Id id) { return log_count(sampler, id); });
}

// The sum of the losses of the outputs from `at` on that have these targets. Leaves `scale` times its gradients by the
// logits in logits_ and target_scale_.
template <class Scalar>
double SampledSoftmax<Scalar>::chunk_loss(std::span<Id const> targets, LogUniformSampler const& sampler, Index at,
                                          Scalar scale) {
  Index const count = static_cast<Index>(targets.size());
  logits_.setZero(count, sample_rows_.rows());
  add_product_nt<Scalar>(logits_, outputs_.middleRows(at, count), sample_rows_);
  double sum = 0;
  for (Index k = 0; k < count; ++k) {
    auto logits = row(logits_, k);
    Id const target = targets[static_cast<std::size_t>(k)];
    logits -= as_row<Scalar>(log_counts_);
    Scalar const logit = (row(outputs_, at + k) * row(target_rows_, at + k)).sum() - log_count(sampler, target);
    Scalar const highest = std::max(logit, logits.maxCoeff());
    logits = (logits - highest).exp();
    if (auto const hit = sampler.find(target); hit >= 0) logits[hit] = 0;
    Scalar const own = std::exp(logit - highest);
    Scalar const total = own + logits.sum();
    logits *= scale / total;
    target_scale_[static_cast<std::size_t>(at + k)] = (own / total - 1) * scale;
    sum += static_cast<double>(std::log(total) + highest - logit);
  }
  return sum;
}

template <class Scalar>
void SampledSoftmax<Scalar>::chunk_gradients(Index at, Index count) {
  auto const outputs = outputs_.middleRows(at, count);
  add_product<Scalar>(outputs_gradient_.middleRows(at, count), logits_, sample_rows_.leftCols(width_ - 1));
  add_product_tn<Scalar>(rows_gradient_.bottomRows(sample_rows_.rows()), logits_, outputs);
  for (Index k = at; k < at + count; ++k) {
    Scalar const scale = target_scale_[static_cast<std::size_t>(k)];
    row(outputs_gradient_, k) += row(target_rows_, k).head(width_ - 1) * scale;
    row(rows_gradient_, k) = row(outputs_, k) * scale;
  }
}

// Cross entropy over the whole vocabulary, fed with the table block by block, in any order, each row once.
template <class Scalar>
class FullSoftmax {
 public:
  // Keeps copies of outputs [k x P] and their k targets beside those added before.
  void add(Matrix<Scalar> const& outputs, std::span<Id const> targets);

  // Rows [count x (P + 1)] of the table, the ids [first, first + count).
  void add_block(Id first, std::span<Scalar const> rows);

  std::size_t size() const { return targets_.size(); }

  // The sum of the losses, in nats, when every row has been given.
  double loss_sum() const;

 private:
  static constexpr Index chunk = 128;

  void add_logits(std::size_t k, Id first, Row<Scalar> logits);

  Index width_ = 0;
  std::vector<Scalar> outputs_;  // [n x (P + 1)]
  std::vector<Id> targets_;
  std::vector<double> highest_;  // of the logits so far
  std::vector<double> total_;    // of exp(logit - highest)
  std::vector<double> target_logit_;
  Matrix<Scalar> logits_;  // [chunk x block]
};

template <class Scalar>
void FullSoftmax<Scalar>::add(Matrix<Scalar> const& outputs, std::span<Id const> targets) {
  Matrix<Scalar> with_ones;
  append_ones(outputs, with_ones);
  width_ = with_ones.cols();
  outputs_.insert(outputs_.end(), with_ones.data(), with_ones.data() + with_ones.size());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
  highest_.resize(targets_.size(), -std::numeric_limits<double>::infinity());
  total_.resize(targets_.size());
  target_logit_.resize(targets_.size(), std::numeric_limits<double>::quiet_NaN());
}

template <class Scalar>
void FullSoftmax<Scalar>::add_block(Id first, std::span<Scalar const> rows) {
  auto const table = as_matrix<Scalar>(rows, width_);
  auto const outputs = as_matrix<Scalar>(outputs_, width_);
  for (Index at = 0; at < outputs.rows(); at += chunk) {
    Index const count = std::min(chunk, outputs.rows() - at);
    logits_.setZero(count, table.rows());
    add_product_nt<Scalar>(logits_, outputs.middleRows(at, count), table);
    for (Index k = 0; k < count; ++k) add_logits(static_cast<std::size_t>(at + k), first, row(logits_, k));
  }
}

// The logits of output k for the ids from `first` on; overwrites them.
template <class Scalar>
void FullSoftmax<Scalar>::add_logits(std::size_t k, Id first, Row<Scalar> logits) {
  Id const target = targets_[k] - first;
  if (0 <= target && target < logits.size()) target_logit_[k] = static_cast<double>(logits[target]);
  Scalar const highest = logits.maxCoeff();
  logits = (logits - highest).exp();
  double const both = std::max(highest_[k], static_cast<double>(highest));
  total_[k] *= std::exp(highest_[k] - both);
  total_[k] += static_cast<double>(logits.sum()) * std::exp(static_cast<double>(highest) - both);
  highest_[k] = both;
}

template <class Scalar>
double FullSoftmax<Scalar>::loss_sum() const {
  double sum = 0;
  for (std::size_t k = 0; k < targets_.size(); ++k) sum += highest_[k] + std::log(total_[k]) - target_logit_[k];
  return sum;
}

}  // namespace lm
