// Operations that an AsyncSession has not, and ways in which workers train.
#include <cstdint>
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);
px::Variable<px::Dense, px::PsShard> weights{session, "weights", px::bind(memory)};

#if defined(async_body_of_a_session)
// expect: parallax: train is given a function of a worker
void train() {
  session.train([](px::Session<px::SelfCommunicator>&) {});
}
#elif defined(async_broadcast)
// expect: parallax: an AsyncSession has no broadcast
void train() { session.broadcast(weights); }
#elif defined(async_clip)
// expect: parallax: a norm over all ranks is known to none of them alone
void train() {
  session.train([](auto& worker) { worker.push(px::clip_by_global_norm(1.0, px::grad(weights, memory))); });
}
#elif defined(async_join)
// expect: parallax: an AsyncSession has no join
void train() {
  session.join([] {});
}
#elif defined(async_measured_tensor)
// expect: parallax: this optimizer measures the whole tensor
px::Variable<px::Dense, px::PsShard, px::Lamb> others{session, "others", px::bind(memory)};
#elif defined(async_policy_without_letters)
// expect: parallax: an AsyncSession takes variables whose policy has letters<Kind>
px::Variable<px::Dense> others{session, "others", px::bind(memory)};
#elif defined(async_pull)
// expect: parallax: an AsyncSession has no pull
px::Variable<px::Sparse> words{session, "words", {.rows = 9, .width = 2}};
void train() { session.pull(words, std::vector{1}); }
#elif defined(async_save)
// expect: parallax: an AsyncSession saves where all is quiet: together([&](auto& session) { session.save(...); })
#include <parallax/checkpoint/checkpoint.hpp>
void save() { session.save("run", {}, weights); }
#elif defined(async_schedule)
// expect: parallax: a schedule is a function of the variable's optimizer and of the number of updates before
void train() {
  session.schedule(weights, [](std::int64_t update) { return 0.1 / static_cast<double>(update + 1); });
}
#elif defined(async_start)
// expect: parallax: an AsyncSession has no start
void train() { session.start(px::grad(weights, memory)); }
#elif defined(async_step)
// expect: parallax: an AsyncSession has no step: a worker of its train(...) pushes
void train() { session.step(px::grad(weights, memory)); }
#elif defined(async_transform)
// expect: parallax: a transform is called with the sum of all ranks
void train() {
  session.train([](auto& worker) { worker.push(px::grad(weights, memory).transform([](auto) {})); });
}
#elif defined(ok_async)
void train() {
  session.schedule(weights, [](px::Sgd& rule, auto update) { rule.learning_rate = 0.1 / static_cast<double>(update + 1); });
  session.train([](auto& worker) {
    worker.pull(weights);
    worker.push(px::grad(weights, memory));
  });
  session.together([](auto& all) { all.describe(); });
}
#endif
