// zero_cost: checks that both steps compute the same. zero_cost N: on one rank, takes each way's step, and that of the session
// with all its checks, over N elements, for callgrind to count.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "dense_step.hpp"

// What callgrind counts, by name.
extern "C" {
[[gnu::noinline]] void counted_by_hand(ByHand& hand) { by_hand(hand); }
[[gnu::noinline]] void counted_bound(Step& step) { by_library(step); }
[[gnu::noinline]] void counted_checked(Session& session, Weights const& weights, std::span<float const> gradient) {
  session.step(px::grad(weights, gradient));
}
}

int main(int argc, char** argv) {
  px::MpiEnvironment const mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, {.order = px::SumOrder::vendor}};
  Session session{comm};
  std::size_t const n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1003;
  px::Buffer<float> a(n), b(n), c(n), values(n);
  for (auto* buffer : {&a, &b, &c}) buffer->fill(1.0f);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(comm.rank())) % 31) / 8;
  std::span<float const> const gradient = values.span();
  Weights bound{session, "bound", px::bind(a.span()), px::Sgd{.learning_rate = 0.1}};
  Weights checked{session, "checked", px::bind(b.span()), px::Sgd{.learning_rate = 0.1}};
  Weights written{session, "by hand", px::bind(c.span()), px::Sgd{.learning_rate = 0.1}};
  Step step = session.bind_step(px::grad(bound, gradient));
  ByHand hand{MPI_COMM_WORLD, gradient.data(), px::Buffer<float>{n}, &written.state(), static_cast<float>(comm.size())};
  for (int i = 0; i < 3; ++i) {
    by_library(step);
    session.step(px::grad(checked, gradient));
    by_hand(hand);
  }
  counted_bound(step);
  counted_checked(session, checked, gradient);
  counted_by_hand(hand);
  session.finish();
  bool const same = std::ranges::equal(a.span(), c.span()) && std::ranges::equal(b.span(), c.span()) && a[1] != 1.0f &&
                    bound.steps() == 4 && checked.steps() == 4;
  if (!same) std::fprintf(stderr, "FAILED: the steps do not compute the same\n");
  return same ? 0 : 1;
}
