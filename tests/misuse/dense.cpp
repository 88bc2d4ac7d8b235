// Operations on a Dense variable, and on tensors, that are none.
#include <list>

#include "world.hpp"

std::vector<float> memory(8);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};

#if defined(accumulated_gradient_of_another_scalar)
// expect: parallax: the gradient's elements are not of the variable's scalar type
px::Accumulator sums{weights};
void train(std::vector<double> const& gradient) { sums.add(gradient); }
#elif defined(accumulated_gradient_that_is_no_tensor)
// expect: parallax: a Dense variable's gradient is a tensor with contiguous elements
px::Accumulator sums{weights};
void train() { sums.add(0.5f); }
#elif defined(bound_step_without_an_allreduce)
// expect: parallax: a bound step needs a communicator with an all-reduce of its own
void bind(std::vector<float> const& gradient) { session.bind_step(px::grad(weights, gradient)); }
#elif defined(broadcast_of_a_tensor)
// expect: parallax: broadcast is given variables, and ranges of variables
void begin() { session.broadcast(memory); }
#elif defined(clip_of_a_gradient)
// expect: parallax: an update is grad(...), clip_by_global_norm(max, grad(...)...) or a range of grad(...)
void train(std::vector<float> const& gradient) { session.step(px::clip_by_global_norm(1.0, gradient)); }
#elif defined(dense_gradient_by_index)
// expect: parallax: a Dense variable takes a gradient for every element, not rows by index
void train(std::vector<int> const& ids, std::vector<float> const& rows) { session.step(px::grad(weights, ids, rows)); }
#elif defined(function_beside_a_gradient)
// expect: parallax: a Dense variable takes a gradient for every element, not rows by index; a function of the reduced gradient is given by grad(variable, gradient).transform(f)
void train(std::vector<float> const& gradient) {
  session.step(px::grad(weights, gradient, [](auto sum) { sum.values[0] = 0; }));
}
#elif defined(gradient_by_pointer_to_integers)
// expect: parallax: the gradient's elements are not of the variable's scalar type
void train(int const* gradient) { session.step(px::grad(weights, gradient, 8)); }
#elif defined(gradient_of_another_scalar)
// expect: parallax: the gradient's elements are not of the variable's scalar type
void train(std::vector<double> const& gradient) { session.step(px::grad(weights, gradient)); }
#elif defined(gradient_that_is_no_tensor)
// expect: parallax: a Dense variable's gradient is a tensor with contiguous elements
void train() { session.step(px::grad(weights, 0.5f)); }
#elif defined(in_place_of_a_const)
// expect: parallax: in_place takes a gradient that may be overwritten, this one is const
void train(std::vector<float> const& gradient) { session.step(px::grad(weights, px::in_place(gradient))); }
#elif defined(in_place_of_no_tensor)
// expect: parallax: a Dense variable's gradient is a tensor with contiguous elements (see tensor_traits)
void train(std::list<float>& gradient) { session.step(px::grad(weights, px::in_place(gradient))); }
#elif defined(join_without_an_iteration)
// expect: parallax: join is given an iteration with an empty batch
void finish() { session.join(3); }
#elif defined(pull_of_a_dense_variable)
// expect: parallax: a pull is of a Sparse variable and indices, or of table.at(ids) and table.bags(ids, offsets)
void look_up(std::vector<int> const& ids) { auto const rows = session.pull(weights, ids); }
#elif defined(scale_of_a_dense_variable)
// expect: parallax: rows are assigned and scaled in a Sparse variable in the host's memory
void decay() { session.scale(weights, std::vector<int>{3}, 0.5); }
#elif defined(start_of_a_gradient)
// expect: parallax: an update is grad(...), clip_by_global_norm(max, grad(...)...) or a range of grad(...)
void train(std::vector<float> const& gradient) { session.start(gradient); }
#elif defined(step_of_a_gradient)
// expect: parallax: an update is grad(...), clip_by_global_norm(max, grad(...)...) or a range of grad(...)
void train(std::vector<float> const& gradient) { session.step(gradient); }
#elif defined(transform_of_something_else)
// expect: parallax: a transform is called with the reduced gradient
void train(std::vector<float> const& gradient) {
  session.step(px::grad(weights, gradient).transform([](int) {}));
}
#endif
