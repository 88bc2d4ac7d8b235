// Random programs in which one rank refuses an operation at a random point, so that all ranks are told of an error on which they
// agree: what is trained, and what a rank was told. The tests choose the ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "parallax/comm/forwarding.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test::agreed_errors {

namespace px = parallax;
using namespace std::chrono_literals;

// Some looks that were in vain last for milliseconds: what comes meanwhile comes all at once.
class Naps : public px::detail::Beside {
 public:
  Naps(std::uint64_t seed, int one_in) : random_{seed}, one_in_{one_in} {}
  void move_on() override {
    if (one_in_ > 0 && random_() % static_cast<std::uint64_t>(one_in_) == 0)
      std::this_thread::sleep_for(std::chrono::microseconds{random_() % 4000});
  }
  bool carries(int) const override { return false; }

 private:
  std::mt19937_64 random_;
  int one_in_;
};
template <class C>
class Late : private Naps, public px::Forwarding<C> {
 public:
  Late(C& host, std::uint64_t seed, int one_in) : Naps{seed, one_in}, px::Forwarding<C>{host, this} {}
};

enum class Refusal { bad_id, bad_id_ahead, size, transform, rate, call, number, non_finite };
constexpr int refusals = 8;

// The way in which a rank leaves that was told of a refusal: the handler stands outside of the session, or outside of the body.
// Under MPI it stands within the session, which then finishes.
enum class Handler { outside_of_session, outside_of_body };

struct Program {
  // Of at most so many ranks.
  explicit Program(std::uint64_t given, int most_ranks = 4) : seed{given} {
    std::mt19937_64 random{seed};
    auto const below = [&](int limit) { return static_cast<int>(random() % static_cast<std::uint64_t>(limit)); };
    ranks = std::min(2 + below(3), most_ranks), culprit = below(ranks), steps = 1 + below(6), refused = below(steps);
    refusal = static_cast<Refusal>(below(refusals));
    handler = static_cast<Handler>(below(2));
    shared_memory = below(2) == 0, levels = below(2) == 0, starts = below(2) == 0;
    variables = below(3) == 0 ? 40 : 1;  // the words of many are no small block
    for (int rank = 0; rank < ranks; ++rank) one_in.push_back(below(3) == 0 ? 0 : 1 + below(8));
  }
  // A flag: the ranks are apart by a started update when they find out, and the session ends.
  bool ends() const { return refusal == Refusal::number || (refusal == Refusal::call && starts); }

  std::uint64_t seed;
  int ranks, culprit, steps, refused, variables;
  Refusal refusal;
  Handler handler;
  bool shared_memory, levels, starts;
  std::vector<int> one_in;  // by rank, of looks that nap: 0 for none
};

// The words that a rank was told.
struct Told {
  px::Errc code;
  int rank;
  std::string operation, variable, detail;
  bool operator==(Told const&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, std::optional<Told> const& told) {
  if (!told) return out << "nothing";
  return out << static_cast<int>(told->code) << " of rank " << told->rank << " in " << told->operation << " of '"
             << told->variable << "': " << told->detail;
}
using Answers = std::vector<std::optional<Told>>;
inline Told told_by(px::Error const& error) {
  return {error.code(), error.rank(), error.operation(), error.variable(), error.detail()};
}

// One rank of the program, up to the refusal and out of the session. `within`, by which its steps are called, may catch what they
// throw.
template <class C, class Within>
void train(Program const& program, C& world, Within const& within) {
  std::vector<int> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(program.levels ? rank % 2 : rank);
  bool const bad = world.rank() == program.culprit;
  px::SessionOptions options;
  if (program.refusal == Refusal::non_finite) options.non_finite = px::NonFinite::error;
  px::Session session{px::Topology{world, hosts}, options};
  std::vector<float> weights(1000, 1.0f), gradient(1000, 0.5f), short_gradient(999, 0.5f);
  px::Variable<px::Dense, px::Momentum> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 100, .width = 4}};
  std::vector<px::Variable<px::Sparse>> more;
  for (int i = 1; i < program.variables; ++i)
    more.emplace_back(session, "another variable with a long name, number " + std::to_string(i),
                      px::Table{.rows = 10, .width = 2});
  session.broadcast(layer);
  auto const steps = [&] {
    for (int step = 0; step < program.steps; ++step) {
      bool const now = bad && step == program.refused;
      auto const is = [&](Refusal refusal) { return now && program.refusal == refusal; };
      std::vector<int> const ids{step, 10 + world.rank(), is(Refusal::bad_id) ? 100 : 7};
      if (program.refusal == Refusal::bad_id_ahead) {
        auto prefetched = session.prefetch(words, std::vector<int>{step, is(Refusal::bad_id_ahead) ? -1 : 3});
        session.step(px::grad(layer, gradient));
        static_cast<void>(session.pull(std::move(prefetched)));
        continue;
      }
      auto const rows = session.pull(words, ids);
      std::vector<float> row_gradient(3 * 4, 0.25f);
      if (is(Refusal::call)) {
        static_cast<void>(session.pull(words, ids));
        continue;
      }
      if (is(Refusal::rate)) layer.optimizer().learning_rate = 0.5;
      if (is(Refusal::non_finite)) gradient[2] = std::numeric_limits<float>::infinity();
      auto const transform = [&](px::DenseGradient<float>) {
        if (is(Refusal::transform)) throw std::runtime_error{"my transform"};
      };
      auto const& sent = is(Refusal::size) ? short_gradient : gradient;
      if (program.starts) session.start(px::grad(rows, row_gradient));
      if (is(Refusal::number)) session.start(px::grad(layer, gradient));
      if (program.starts) session.step(px::grad(layer, sent).transform(transform));
      else session.step(px::grad(layer, sent).transform(transform), px::grad(rows, row_gradient));
    }
  };
  within(steps);
  session.finish();
}

// One rank of threads or sockets.
template <class C>
void run_rank(Program const& program, C& own, Answers& answers) {
  auto const rank = static_cast<std::size_t>(own.rank());
  Late<C> world{own, program.seed + rank, program.one_in[rank]};
  try {
    train(program, world, [](auto const& steps) { steps(); });
  } catch (px::Error const& error) {
    answers[rank] = told_by(error);
    if (program.handler == Handler::outside_of_body) throw;
  }
}

inline Answers by_threads(Program const& program) {
  Answers answers(static_cast<std::size_t>(program.ranks));
  try {
    px::run_threads(program.ranks, [&](px::ThreadCommunicator& own) { run_rank(program, own, answers); }, {.deadline = 60s});
  } catch (px::Error const&) {}
  return answers;
}

}  // namespace parallax_test::agreed_errors
