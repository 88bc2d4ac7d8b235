// A layer of long short-term memory with projection (Sak, Senior and Beaufays 2014), forward and backward through time.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <type_traits>

#include "matrix.hpp"
#include "random.hpp"
#include "shape.hpp"

namespace lm {

// The tensors of a layer, or their gradients, as flat row-major spans. Does not own.
template <class Scalar>
struct LstmTensors {
  std::span<Scalar> kernel;  // [(E + P) x 4H], rows for the input, then for the state; columns of the gates i, g, f, o
  std::span<Scalar> bias;    // [4H]
  std::span<Scalar> projection;  // [H x P]
};

// What a layer carries from one batch to the next, for B streams.
template <class Scalar>
struct LstmState {
  Matrix<Scalar> cell;    // [B x H]
  Matrix<Scalar> output;  // [B x P]

  void reset(Index streams, LstmShape const& shape) {
    cell.setZero(streams, shape.cell);
    output.setZero(streams, shape.projection);
  }
};

// With z = [x_t, h_(t-1)] W + b and s the logistic function:
//   i, f, o = s(z_i), s(z_f), s(z_o);  g = tanh(z_g);  c_t = f c_(t-1) + i g;  h_t = (o tanh(c_t)) R.
// Sequences are matrices [T*B x width], time-major. Buffers are kept from call to call and grow as needed.
//
// Its functions are defined after the class, not inline: so a program can compile them once, in a file of their own.
template <class Scalar>
class Lstm {
  static_assert(std::is_floating_point_v<Scalar>);

 public:
  explicit Lstm(LstmShape const& shape);

  // Uniform weights of variance 1 / (rows of the tensor); biases 0 but for the forget gate's, 1: first, remember.
  void initialize(Random& random);

  LstmShape const& shape() const { return shape_; }
  LstmTensors<Scalar> parameters() { return {as_span(kernel_), as_span(bias_), as_span(projection_)}; }
  LstmTensors<Scalar> gradients() {
    return {as_span(kernel_gradient_), as_span(bias_gradient_), as_span(projection_gradient_)};
  }

  // Reads inputs [T*B x E] from `state` on, leaves the last state there, and returns the outputs [T*B x P], which stay
  // valid until the next call. Keeps what backward() needs, a view of `inputs` with it.
  Matrix<Scalar> const& forward(Matrix<Scalar> const& inputs, LstmState<Scalar>& state);

  // From the loss's gradient by the outputs [T*B x P], its gradient by the inputs [T*B x E], which stays valid until
  // the next call, and by the parameters (gradients() is overwritten). No gradient comes from after the last step or
  // flows out before the first: truncated back-propagation. `between_steps()` is called after each step; a trainer may
  // poll in it.
  Matrix<Scalar> const& backward(Matrix<Scalar> const& output_gradient,
                                 std::function<void()> const& between_steps = [] {});

 private:
  auto gate(Matrix<Scalar>& gates, Index at, Index number) {
    return gates.block(at, number * shape_.cell, streams_, shape_.cell).array();
  }

  void resize(Index rows);
  void step_forward(Index at);
  void step_backward(Index at);

  LstmShape shape_;
  Matrix<Scalar> kernel_, kernel_gradient_;
  RowVector<Scalar> bias_, bias_gradient_;
  Matrix<Scalar> projection_, projection_gradient_;

  Index streams_ = 0;                       // B of the last forward()
  Matrix<Scalar> const* inputs_ = nullptr;  // of the last forward()
  Matrix<Scalar> gates_;                    // [T*B x 4H]
  Matrix<Scalar> cells_;                    // [(T+1)*B x H], the state before the first step in front
  Matrix<Scalar> squashed_;                 // [T*B x H], tanh(c)
  Matrix<Scalar> gated_;                    // [T*B x H], o tanh(c)
  Matrix<Scalar> previous_;                 // [T*B x P], h_(t-1)
  Matrix<Scalar> outputs_;                  // [T*B x P]
  Matrix<Scalar> gates_gradient_;           // [T*B x 4H], by z
  Matrix<Scalar> outputs_gradient_;         // [T*B x P], from above and from the next step
  Matrix<Scalar> inputs_gradient_;          // [T*B x E]
  Matrix<Scalar> cell_gradient_;            // [B x H]
  Matrix<Scalar> gated_gradient_;           // [B x H]
};

template <class Scalar>
Lstm<Scalar>::Lstm(LstmShape const& shape)
    : shape_{shape},
      kernel_{shape.input + shape.projection, 4 * shape.cell},
      bias_{4 * shape.cell},
      projection_{shape.cell, shape.projection} {
  kernel_.setZero();
  bias_.setZero();
  projection_.setZero();
  kernel_gradient_ = kernel_;
  bias_gradient_ = bias_;
  projection_gradient_ = projection_;
}

template <class Scalar>
void Lstm<Scalar>::initialize(Random& random) {
  auto const range = [](Index rows) { return std::sqrt(3.0 / static_cast<double>(rows)); };
  fill_uniform(parameters().kernel, range(kernel_.rows()), random);
  fill_uniform(parameters().projection, range(projection_.rows()), random);
  bias_.setZero();
  bias_.segment(2 * shape_.cell, shape_.cell).setOnes();
}

template <class Scalar>
Matrix<Scalar> const& Lstm<Scalar>::forward(Matrix<Scalar> const& inputs, LstmState<Scalar>& state) {
  inputs_ = &inputs;
  streams_ = state.cell.rows();
  resize(inputs.rows());
  gates_ = bias_.replicate(inputs.rows(), 1);
  add_product<Scalar>(gates_, inputs, kernel_.topRows(shape_.input));
  cells_.topRows(streams_) = state.cell;
  previous_.topRows(streams_) = state.output;
  for (Index at = 0; at < inputs.rows(); at += streams_) {
    if (at > 0) previous_.middleRows(at, streams_) = outputs_.middleRows(at - streams_, streams_);
    step_forward(at);
  }
  state.cell = cells_.bottomRows(streams_);
  state.output = outputs_.bottomRows(streams_);
  return outputs_;
}

template <class Scalar>
void Lstm<Scalar>::resize(Index rows) {
  gates_.resize(rows, 4 * shape_.cell);
  cells_.resize(rows + streams_, shape_.cell);
  squashed_.resize(rows, shape_.cell);
  gated_.resize(rows, shape_.cell);
  previous_.resize(rows, shape_.projection);
  outputs_.resize(rows, shape_.projection);
}

// One step of all streams, whose rows begin at `at`: gates_ turns from inputs' part of z into the gates' values.
template <class Scalar>
void Lstm<Scalar>::step_forward(Index at) {
  add_product<Scalar>(gates_.middleRows(at, streams_), previous_.middleRows(at, streams_),
                      kernel_.bottomRows(shape_.projection));
  auto i = gate(gates_, at, 0), g = gate(gates_, at, 1), f = gate(gates_, at, 2), o = gate(gates_, at, 3);
  i = i.logistic();
  g = g.tanh();
  f = f.logistic();
  o = o.logistic();
  auto squashed = squashed_.middleRows(at, streams_).array();
  auto cell = cells_.middleRows(at + streams_, streams_).array();
  cell = f * cells_.middleRows(at, streams_).array() + i * g;
  squashed = cell.tanh();
  gated_.middleRows(at, streams_).array() = o * squashed;
  outputs_.middleRows(at, streams_).setZero();
  add_product<Scalar>(outputs_.middleRows(at, streams_), gated_.middleRows(at, streams_), projection_);
}

template <class Scalar>
Matrix<Scalar> const& Lstm<Scalar>::backward(Matrix<Scalar> const& output_gradient,
                                             std::function<void()> const& between_steps) {
  Index const rows = output_gradient.rows();
  outputs_gradient_ = output_gradient;
  gates_gradient_.resize(rows, 4 * shape_.cell);
  cell_gradient_.setZero(streams_, shape_.cell);
  for (Index at = rows - streams_; at >= 0; at -= streams_) {
    step_backward(at);
    between_steps();
  }
  projection_gradient_.setZero();
  add_product_tn<Scalar>(projection_gradient_, gated_, outputs_gradient_);
  kernel_gradient_.setZero();
  add_product_tn<Scalar>(kernel_gradient_.topRows(shape_.input), *inputs_, gates_gradient_);
  add_product_tn<Scalar>(kernel_gradient_.bottomRows(shape_.projection), previous_, gates_gradient_);
  bias_gradient_ = gates_gradient_.colwise().sum();
  inputs_gradient_.setZero(rows, shape_.input);
  add_product_nt<Scalar>(inputs_gradient_, gates_gradient_, kernel_.topRows(shape_.input));
  return inputs_gradient_;
}

// The same step backward: outputs_gradient_ receives, one step earlier, what flows there through the state.
template <class Scalar>
void Lstm<Scalar>::step_backward(Index at) {
  auto const i = gate(gates_, at, 0), g = gate(gates_, at, 1), f = gate(gates_, at, 2), o = gate(gates_, at, 3);
  auto const squashed = squashed_.middleRows(at, streams_).array();
  auto const cell_before = cells_.middleRows(at, streams_).array();
  auto dc = cell_gradient_.array();
  gated_gradient_.setZero(streams_, shape_.cell);
  add_product_nt<Scalar>(gated_gradient_, outputs_gradient_.middleRows(at, streams_), projection_);
  auto const dm = gated_gradient_.array();
  dc += dm * o * (1 - squashed.square());
  gate(gates_gradient_, at, 0) = dc * g * i * (1 - i);
  gate(gates_gradient_, at, 1) = dc * i * (1 - g.square());
  gate(gates_gradient_, at, 2) = dc * cell_before * f * (1 - f);
  gate(gates_gradient_, at, 3) = dm * squashed * o * (1 - o);
  dc *= f;
  if (at == 0) return;
  add_product_nt<Scalar>(outputs_gradient_.middleRows(at - streams_, streams_),
                         gates_gradient_.middleRows(at, streams_), kernel_.bottomRows(shape_.projection));
}

}  // namespace lm
