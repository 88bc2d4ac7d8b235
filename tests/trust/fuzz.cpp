// Random programs on thread ranks against a sequential model.
//   trust_fuzz [--programs n] [--first seed] [--crews n]
//   trust_fuzz --seed n      this program alone, and its operations as text
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

#include "../support/size.hpp"
#include "fuzz.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::fuzz {
namespace {

namespace px = parallax;
using Threads = px::ThreadCommunicator;
using Session = px::Session<Threads>;

using Variables =
    std::tuple<px::Variable<px::Dense, px::Momentum>, px::Variable<px::Dense, px::PsShard, px::LazyAdam>,
               px::Variable<px::Sparse, px::PsShard, px::Momentum>, px::Variable<px::Sparse, px::AllReduce, px::LazyMomentum>,
               px::Variable<px::Sparse, px::AllGather, px::LazyAdam>, px::Variable<px::Sparse, baseline::NaivePs, px::Sgd>>;
template <int t>
using VariableOf = std::tuple_element_t<static_cast<std::size_t>(t), Variables>;
template <int t>
using StateOf = typename VariableOf<t>::State;

struct Thrown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The transform of this test: -2 times the gradient.
struct Twist {
  bool throws;
  void operator()(px::DenseGradient<float> gradient) const {
    if (throws) throw Thrown{"the transform does not want to"};
    for (float& g : gradient.values) g *= -2;
  }
  void operator()(px::RowsGradient<std::int64_t, float> gradient) const {
    if (throws) throw Thrown{"the transform does not want to"};
    for (std::int64_t row = 0; row < gradient.values.rows; ++row)
      for (std::int64_t c = 0; c < gradient.values.width; ++c) gradient.values.row(row)[c] *= -2;
  }
};

template <int t>
struct UpdateFor {
  using type = px::RowUpdate<StateOf<t>, std::int64_t>;
};
template <int t>
  requires(t < 2)
struct UpdateFor<t> {
  using type = px::DenseUpdate<StateOf<t>>;
};
template <int t>
using UpdateOf = typename UpdateFor<t>::type;
using Twisted0 = decltype(std::declval<UpdateOf<0>>().transform(Twist{}));
using Twisted2 = decltype(std::declval<UpdateOf<2>>().transform(Twist{}));

template <int t>
struct Held {
  std::vector<float> memory;  // of a dense variable
  VariableOf<t> variable;
};
using AnyVariable = std::variant<std::unique_ptr<Held<0>>, std::unique_ptr<Held<1>>, std::unique_ptr<Held<2>>,
                                 std::unique_ptr<Held<3>>, std::unique_ptr<Held<4>>, std::unique_ptr<Held<5>>>;
template <int t>
using Rows = px::PulledRows<StateOf<t>>;
template <int t>
using Bags = px::PulledBags<StateOf<t>>;
using AnyHandle = std::variant<std::monostate, Rows<2>, Rows<3>, Rows<4>, Rows<5>, Bags<2>, Bags<3>, Bags<4>, Bags<5>>;

// How an operation ended on a rank.
struct Answer {
  bool refused = false;
  px::Errc code{};
  std::string what;
};
struct Outcome {
  std::vector<Answer> answers;
  std::string complaint;
  bool hung = false, aborted = false;
};

unsigned code_of(px::Errc code) {
  switch (code) {
    case px::Errc::invalid_argument: return invalid_argument;
    case px::Errc::bad_id: return bad_id;
    case px::Errc::mismatch: return mismatch;
    case px::Errc::user_exception: return user_exception;
    case px::Errc::non_finite: return non_finite;
    case px::Errc::misuse: return misuse;
    case px::Errc::aborted: return aborted;
    case px::Errc::poisoned: return ended;
    default: return 0;
  }
}

struct Leaves {};  // a rank that leaves its program by an exception
struct Over {};    // one whose program was ended by that

template <class Body>
auto with_type(int type, Body&& body) {
  switch (type) {
    case 0: return body(std::integral_constant<int, 0>{});
    case 1: return body(std::integral_constant<int, 1>{});
    case 2: return body(std::integral_constant<int, 2>{});
    case 3: return body(std::integral_constant<int, 3>{});
    case 4: return body(std::integral_constant<int, 4>{});
    default: return body(std::integral_constant<int, 5>{});
  }
}
template <class Body>
auto with_table(int type, Body&& body) {
  switch (type) {
    case 2: return body(std::integral_constant<int, 2>{});
    case 3: return body(std::integral_constant<int, 3>{});
    case 4: return body(std::integral_constant<int, 4>{});
    default: return body(std::integral_constant<int, 5>{});
  }
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// ---- one rank of one program -----------------------------------------------------------------------------------------------

class Rank {
 public:
  Rank(Program const& program, Threads& world, std::atomic<int>& arrived, Outcome& outcome)
      : program_{program}, rank_{static_cast<std::size_t>(world.rank())}, session_{topology(program, world), options(program)},
        arrived_{arrived}, outcome_{outcome} {
    if (program.operations.empty() || program.operations.back().kind != Kind::leave) return;
    reach_ = 0;
    for (std::size_t i = 0; i + 1 < program.operations.size(); ++i)
      if (waits(program.operations[i].kind)) reach_ = i;
  }

  void run() {
    for (at_ = 0; at_ < program_.operations.size(); ++at_) run(program_.operations[at_]);
    if (!program_.meet) return;
    arrived_.fetch_add(1);
    while (arrived_.load() < program_.ranks) std::this_thread::yield();
  }

 private:
  static px::Topology<Threads> topology(Program const& program, Threads& world) {
    return program.hosts.empty() ? px::Topology<Threads>{world} : px::Topology<Threads>{world, program.hosts};
  }
  static px::SessionOptions options(Program const& program) {
    px::SessionOptions all;
    if (program.fusion == 1) all.fusion = {.fusion_bytes = 32, .direct_bytes = 16, .round_bytes = 8};
    if (program.fusion == 2) all.fusion = {.fusion_bytes = 64, .direct_bytes = 1000, .round_bytes = 4};
    return all;
  }

  static bool waits(Kind kind) {
    return kind == Kind::pull || kind == Kind::step || kind == Kind::join || kind == Kind::broadcast || kind == Kind::finish ||
           kind == Kind::different;
  }

  [[noreturn]] void complain(std::string const& about) {
    throw Thrown{"operation " + std::to_string(at_) + ", rank " + std::to_string(rank_) + ": " + about};
  }
  void demand(bool right, char const* about) {
    if (!right) complain(about);
  }
  bool mine(Operation const& op) const { return op.culprit == static_cast<int>(rank_); }

  template <int t>
  Held<t>& held(int variable) {
    return *std::get<static_cast<std::size_t>(t)>(variables_.at(variable));
  }
  int type_of(int variable) { return static_cast<int>(variables_.at(variable).index()); }

  void run(Operation const& op) {
    if (op.kind == Kind::join) {
      join(op);
    } else {
      Answer answer;
      bool applied = op.applied;
      try {
        applied = perform(op);
      } catch (px::Error const& error) {
        answer = {true, error.code(), error.what()};
      }
      outcome_.answers.push_back(answer);
      if (answer.code == px::Errc::timeout) outcome_.hung = true;
      if (answer.code == px::Errc::aborted && answer.refused && at_ >= reach_ && !op.last) {
        outcome_.answers.pop_back();
        after_the_end();
        throw Over{};
      }
      if (answer.refused && (!op.refused || !(code_of(answer.code) & op.codes))) {
        outcome_.aborted = answer.code == px::Errc::aborted;
        complain("refused, and should not have been: " + answer.what);
      }
      demand(answer.refused || !op.refused, "should have been refused");
      if (!answer.refused && applied != op.applied) complain(applied ? "applied, and should not" : "not applied, and should");
      if (op.last) return after_the_end();
    }
    if (session_.steps() != op.steps)
      complain("steps " + std::to_string(session_.steps()) + " for " + std::to_string(op.steps));
    for (Shot const& shot : op.shots) compare(shot);
  }

  bool perform(Operation const& op) {
    switch (op.kind) {
      case Kind::enter: return enter(op), true;
      case Kind::destroy: return variables_.erase(op.variable), true;
      case Kind::move: return move(op.variable), true;
      case Kind::pull: return pull(op), true;
      case Kind::drop: return handles_.erase(op.handle), true;
      case Kind::start: return update(op, true);
      case Kind::burst: {
        for (int i = 0; i < 15; ++i) update(op, true);
        return true;
      }
      case Kind::poll: return session_.poll(), true;
      case Kind::step: return update(op, false);
      case Kind::broadcast: return broadcast(op.variable), true;
      case Kind::finish: return finish(), true;
      case Kind::set_rate: return set_rate(op.variable, op.rate), true;
      case Kind::set_options: return set_options(op), true;
      case Kind::different: return different(op), true;
      case Kind::uneven:
        if (mine(op)) session_.start();
        return session_.step();
      case Kind::leave: return leave(op);
      case Kind::join: break;
    }
    return true;
  }

  // ---- variables -----------------------------------------------------------------------------------------------------------

  void enter(Operation const& op) {
    Spec const& spec = op.spec;
    auto const mean = static_cast<px::Reduce>(spec.mean);
    with_type(static_cast<int>(spec.type), [&](auto t) {
      constexpr int type = t;
      using Optimizer = typename StateOf<type>::optimizer_type;
      Optimizer optimizer;
      optimizer.learning_rate = spec.rate;
      if constexpr (requires { optimizer.momentum; }) optimizer.momentum = 0.5;
      if constexpr (type < 2) {
        std::vector<float> memory(static_cast<std::size_t>(spec.rows), spec.initial);
        VariableOf<type> variable{session_, spec.name, px::bind(memory), optimizer, mean};
        variables_[op.variable] = std::unique_ptr<Held<type>>{new Held<type>{std::move(memory), std::move(variable)}};
      } else {
        px::Table const table{spec.rows, spec.width, px::constant(double{spec.initial})};
        VariableOf<type> variable{session_, spec.name, table, mean, optimizer,
                                  spec.drops ? px::BadIds::drop_and_count : px::BadIds::error};
        variables_[op.variable] = std::unique_ptr<Held<type>>{new Held<type>{{}, std::move(variable)}};
      }
    });
  }
  void move(int variable) {
    with_type(type_of(variable), [&](auto t) {
      constexpr int type = t;
      Held<type>& old = held<type>(variable);
      variables_[variable] = std::unique_ptr<Held<type>>{new Held<type>{std::move(old.memory), std::move(old.variable)}};
    });
  }
  void set_rate(int variable, double rate) {
    with_type(type_of(variable), [&](auto t) { held<t>(variable).variable.optimizer().learning_rate = rate; });
  }
  double rate_of(int variable) {
    return with_type(type_of(variable), [&](auto t) { return held<t>(variable).variable.optimizer().learning_rate; });
  }
  void set_options(Operation const& op) {
    session_.options().non_finite = static_cast<px::NonFinite>(op.odd);
    session_.options().join_divisor = op.over_active ? px::JoinDivisor::active : px::JoinDivisor::world;
  }

  void compare(Shot const& shot) {
    with_type(type_of(shot.variable), [&](auto t) {
      constexpr int type = t;
      auto& variable = held<type>(shot.variable).variable;
      if (variable.steps() != shot.steps)
        complain("v" + std::to_string(shot.variable) + " has " + std::to_string(variable.steps()) + " steps for " +
                 std::to_string(shot.steps));
      if constexpr (type < 2) {
        auto const values = variable.values();
        for (std::size_t i = 0; i < values.size(); ++i)
          if (!same(values[i], shot.values[i])) differs(shot.variable, static_cast<std::int64_t>(i), values[i], shot.values[i]);
      } else if (shot.local) {
        auto const local = variable.local();
        for (std::int64_t row = 0; row < local.rows; ++row)
          for (std::int64_t c = 0; c < local.width; ++c) {
            float const right = shot.values[static_cast<std::size_t>(variable.global_row(row) * local.width + c)];
            if (!same(local.row(row)[c], right)) differs(shot.variable, variable.global_row(row), local.row(row)[c], right);
          }
      }
    });
  }
  [[noreturn]] void differs(int variable, std::int64_t row, float is, float right) {
    char text[128];
    std::snprintf(text, sizeof text, "v%d, row %lld is %.9g for %.9g", variable, static_cast<long long>(row),
                  static_cast<double>(is), static_cast<double>(right));
    complain(text);
  }

  // ---- pulls ---------------------------------------------------------------------------------------------------------------

  template <class V>
  auto bags_of(V const& table, Pull const& pull) {
    Batch const& batch = pull.ranks[rank_];
    if (pull.pool == Pooled::weighted) return table.bags(batch.ids, batch.offsets, batch.weights);
    return table.bags(batch.ids, batch.offsets, pull.pool == Pooled::mean ? px::Pool::mean : px::Pool::sum);
  }
  void pull(Operation const& op) {
    Pull const& first = op.pulls[0];
    Batch const& batch = first.ranks[rank_];
    int const variable = op.fault == Fault::order && mine(op) ? op.with : first.variable;
    if (op.pulls.size() == 1) {
      with_table(type_of(variable), [&](auto t) {
        auto& table = held<t>(variable).variable;
        if (first.bags) keep(first, session_.pull(bags_of(table, first)));
        else keep(first, session_.pull(table, batch.ids));
      });
      return;
    }
    Pull const& second = op.pulls[1];
    auto& one = held<2>(first.variable).variable;
    auto& two = held<2>(second.variable).variable;
    if (second.bags) {
      auto [rows, bags] = session_.pull(one.at(batch.ids), bags_of(two, second));
      keep(first, std::move(rows)), keep(second, std::move(bags));
    } else {
      auto [rows, others] = session_.pull(one.at(batch.ids), two.at(second.ranks[rank_].ids));
      keep(first, std::move(rows)), keep(second, std::move(others));
    }
  }
  template <class State>
  void look_at(px::PulledRows<State> const& rows, Batch const& batch) {
    demand(rows.indices() == batch.ids.size(), "pulled another number of indices");
    demand(rows.size() == static_cast<std::size_t>(batch.distinct), "pulled another number of distinct rows");
    demand(rows.dropped() == static_cast<std::size_t>(batch.dropped), "dropped another number of indices");
  }
  template <class State>
  void keep(Pull const& pull, px::PulledRows<State> rows) {
    Batch const& batch = pull.ranks[rank_];
    look_at(rows, batch);
    auto const width = static_cast<std::size_t>(rows.width());
    for (std::size_t i = 0; i < rows.indices(); ++i)
      for (std::size_t c = 0; c < width; ++c)
        if (!same(rows[i][c], batch.expected[i * width + c]))
          differs(pull.variable, batch.ids[i], rows[i][c], batch.expected[i * width + c]);
    handles_[pull.handle] = std::move(rows);
  }
  template <class State>
  void keep(Pull const& pull, px::PulledBags<State> bags) {
    Batch const& batch = pull.ranks[rank_];
    look_at(bags.rows(), batch);
    demand(bags.size() + 1 == batch.offsets.size(), "pulled another number of bags");
    auto const width = static_cast<std::size_t>(bags.width());
    for (std::size_t bag = 0; bag < bags.size(); ++bag)
      for (std::size_t c = 0; c < width; ++c)
        if (!same(bags[bag][c], batch.expected[bag * width + c]))
          differs(pull.variable, static_cast<std::int64_t>(bag), bags[bag][c], batch.expected[bag * width + c]);
    handles_[pull.handle] = std::move(bags);
  }

  // ---- updates -------------------------------------------------------------------------------------------------------------

  struct Given {
    std::tuple<std::vector<UpdateOf<0>>, std::vector<UpdateOf<1>>, std::vector<UpdateOf<2>>, std::vector<UpdateOf<3>>,
               std::vector<UpdateOf<4>>, std::vector<UpdateOf<5>>>
        grouped, plain;
    std::vector<Twisted0> dense;
    std::vector<Twisted2> rows;
    std::deque<Part> parts;  // a copy of what is given, gone when the operation returns
    bool twisted = false;
  };

  template <int t>
  UpdateOf<t> update_of(Update const& update, Part& part) {
    auto& variable = held<t>(update.variable).variable;
    if constexpr (t < 2) {
      return px::grad(variable, part.values);
    } else {
      if (update.handle < 0) return px::grad(variable, part.ids, part.values);
      AnyHandle const& any = handles_.at(update.handle);
      if (part.per == Per::bag) return px::grad(std::get<Bags<t>>(any), part.values);
      auto const& rows = std::get<Rows<t>>(any);
      if (part.per == Per::index) return px::grad(rows, part.values);
      part.values.clear();
      for (std::size_t j = 0; j < rows.size(); ++j)
        for (std::int64_t c = 0; c < rows.width(); ++c)
          part.values.push_back(distinct_gradient(update.salt, rows.id(j), static_cast<int>(c)));
      return px::grad(rows, px::distinct(part.values));
    }
  }

  bool update(Operation const& op, bool start) {
    Given given;
    std::vector<Update const*> order;
    for (Update const& one : op.updates) order.push_back(&one);
    bool const bad = mine(op);
    if (bad && op.fault == Fault::order) std::swap(order[0], order[1]);
    if (bad && op.fault == Fault::omit) order.pop_back();
    for (Update const& one : op.updates) given.twisted = given.twisted || one.twisted;
    for (Update const* one : order) {
      Part& part = given.parts.emplace_back(one->ranks[rank_]);
      with_type(type_of(one->variable), [&](auto t) {
        constexpr int type = t;
        auto const made = update_of<type>(*one, part);
        if constexpr (type == 0 || type == 2) {
          if (one->twisted) {
            auto const twisted = made.transform(Twist{bad && op.fault == Fault::throws});
            if constexpr (type == 0) given.dense.push_back(twisted);
            else given.rows.push_back(twisted);
            return;
          }
        }
        std::get<type>(one->grouped ? given.grouped : given.plain).push_back(made);
      });
    }
    double const limit = bad && op.fault == Fault::limit ? op.limit * 2 : op.limit;
    if (!bad || op.fault != Fault::rate) return hand_over(op, given, limit, start);
    double const before = rate_of(op.variable);
    set_rate(op.variable, before * 2);
    struct Back {
      Rank& rank;
      int variable;
      double rate;
      ~Back() { rank.set_rate(variable, rate); }
    } const back{*this, op.variable, before};
    return hand_over(op, given, limit, start);
  }

  bool hand_over(Operation const& op, Given const& given, double limit, bool start) {
    auto const call = [&](auto const&... updates) {
      if (!start) return session_.step(updates...);
      session_.start(updates...);
      return true;
    };
    auto const& [g0, g1, g2, g3, g4, g5] = given.grouped;
    auto const& [p0, p1, p2, p3, p4, p5] = given.plain;
    if (op.single && !start) return p0.empty() ? session_.step(p2.front()) : session_.step(p0.front());
    if (op.limit > 0) return call(px::clip_by_global_norm(limit, g0, g1, g2, g3, g4, g5), p0, p1, p2, p3, p4, p5);
    if (given.twisted) return call(given.dense, given.rows, p0, p1, p2, p3, p4, p5);
    return call(p0, p1, p2, p3, p4, p5);
  }

  void join(Operation const& op) {
    std::size_t next = 0;
    auto const iteration = [&] {
      if (next >= op.iterations.size()) complain("join goes on after all ranks have joined");
      for (Operation const& inner : op.iterations[next]) run(inner);
      ++next;
    };
    for (int i = op.batches[rank_]; i > 0; --i) iteration();
    session_.join(iteration);
    demand(next == op.iterations.size(), "join ended before all ranks had joined");
  }

  // ---- the rest ------------------------------------------------------------------------------------------------------------

  void broadcast(int variable) {
    with_type(type_of(variable), [&](auto t) {
      constexpr int type = t;
      auto& one = held<type>(variable).variable;
      if constexpr (type < 2) {
        if (rank_ > 0)
          for (float& value : one.values()) value += 100;
        session_.broadcast(one);
      } else if constexpr (!StateOf<type>::sharded) {
        auto const local = one.local();
        if (rank_ > 0)
          for (std::int64_t i = 0; i < local.rows * local.width; ++i) local.data[i] += 100;
        session_.broadcast(one);
      }
    });
  }
  void finish() {
    px::Completion const completion = session_.finish();
    demand(completion.records.size() == static_cast<std::size_t>(program_.ranks), "a completion of other ranks");
    for (auto const& record : completion.records) {
      demand(record.steps == session_.steps(), "a completion with other steps");
      demand(record.operations == completion.records[0].operations, "a completion with other operations");
    }
  }
  void different(Operation const& op) {
    bool const steps = mine(op) == (op.with >= 3);
    if (steps) {
      session_.step();
    } else if (op.with % 3 == 0) {
      session_.finish();
    } else if (op.with % 3 == 1) {
      with_table(type_of(op.variable), [&](auto t) {
        auto const rows = session_.pull(held<t>(op.variable).variable, std::vector<std::int64_t>{});
      });
    } else {
      with_type(type_of(op.variable), [&](auto t) {
        if constexpr (t < 2 || !StateOf<t>::sharded) session_.broadcast(held<t>(op.variable).variable);
      });
    }
  }
  bool leave(Operation const& op) {
    if (mine(op)) {
      if (op.with == 2) session_.start();
      throw Leaves{};
    }
    if (op.with == 1) session_.finish();
    else session_.step();
    return true;
  }
  // What ended a session says so from then on.
  void after_the_end() {
    try {
      session_.poll();
    } catch (px::Error const& error) {
      return demand(error.code() == px::Errc::poisoned, "an ended session says something else");
    }
    complain("an ended session goes on");
  }

  Program const& program_;
  std::size_t rank_, at_ = 0;
  // Where a rank leaves: from which operation on the others may find out, which is the last one that it completed with them.
  std::size_t reach_ = ~std::size_t{0};
  std::map<int, AnyHandle> handles_;  // some outlive their variables
  Session session_;
  std::map<int, AnyVariable> variables_;
  std::atomic<int>& arrived_;
  Outcome& outcome_;
};

// ---- many programs ---------------------------------------------------------------------------------------------------------

struct Counts {
  std::atomic<long> programs{0}, operations{0}, refusals{0}, skipped{0}, divergences{0}, hangs{0};
  std::array<std::atomic<long>, kind_names.size()> kinds{};
  std::array<std::atomic<long>, fault_names.size()> faults{};
  std::atomic<std::uint64_t> first_failure{~std::uint64_t{0}};
};

// Four threads that run one program after another; the first one also writes them.
class Crew {
 public:
  Crew(std::atomic<std::uint64_t>& next, std::uint64_t end, Counts& counts) : next_{next}, end_{end}, counts_{counts} {}

  void run() {
    std::vector<std::jthread> others;
    for (int rank = 1; rank < most; ++rank) others.emplace_back([this, rank] { work(rank); });
    work(0);
  }

 private:
  static constexpr int most = 4;

  void work(int rank) {
    while (true) {
      if (rank == 0) prepare();
      barrier_.arrive_and_wait();
      if (!program_) return;
      if (rank < program_->ranks) {
        play(rank);
        done_.fetch_add(1);
      }
      if (rank == 0) {
        barrier_.arrive_and_wait();
        judge();
      } else {
        barrier_.arrive_and_wait();
      }
    }
  }

  void prepare() {
    std::uint64_t const seed = next_.fetch_add(1);
    program_.reset();
    if (seed >= end_ || counts_.divergences.load() + counts_.hangs.load() >= 5) return;
    program_ = Author{seed}.write();
    group_ = std::make_shared<px::ThreadGroup>(program_->ranks, px::ThreadOptions{.deadline = std::chrono::seconds{20}});
    arrived_ = done_ = 0;
    outcomes_.assign(static_cast<std::size_t>(program_->ranks), {});
  }

  void play(int number) {
    Outcome& outcome = outcomes_[static_cast<std::size_t>(number)];
    try {
      Threads world{group_, number};
      Rank{*program_, world, arrived_, outcome}.run();
    } catch (Leaves const&) {
    } catch (Over const&) {
    } catch (std::exception const& error) {
      outcome.complaint = error.what();
      arrived_ = most;
      group_->abort({px::Errc::aborted, number, "fuzz", "", "a rank complained"});  // also after `finish`
    }
  }

  void judge() {
    std::string complaint;
    bool hung = false;
    for (bool const aborted : {false, true})  // those that were only told of another's come last, if at all
      for (auto const& outcome : outcomes_) {
        hung = hung || outcome.hung;
        if (outcome.complaint.empty() || outcome.aborted != aborted || (aborted && !complaint.empty())) continue;
        complaint += (complaint.empty() ? "" : "\n  ") + outcome.complaint;
      }
    if (complaint.empty()) complaint = unlike_answers();
    ++counts_.programs;
    count(program_->operations);
    if (complaint.empty()) return;
    ++(hung ? counts_.hangs : counts_.divergences);
    for (std::uint64_t first = counts_.first_failure; program_->seed < first &&
                                                      !counts_.first_failure.compare_exchange_weak(first, program_->seed);) {
    }
    std::printf("FAILED\n%s  %s\nreplay: --seed %llu\n", text_of(*program_).c_str(), complaint.c_str(),
                static_cast<unsigned long long>(program_->seed));
    std::fflush(stdout);
  }

  // What is refused is refused alike.
  std::string unlike_answers() const {
    auto const& first = outcomes_[0].answers;
    bool const ends = !program_->operations.empty() && program_->operations.back().last;
    for (std::size_t rank = 1; rank < outcomes_.size(); ++rank) {
      auto const& other = outcomes_[rank].answers;
      std::size_t const shorter = std::min(first.size(), other.size()), both = ends && shorter > 0 ? shorter - 1 : shorter;
      if (program_->operations.empty()) return {};
      if (!ends && first.size() != other.size()) return "ranks ran different numbers of operations";
      for (std::size_t i = 0; i < both; ++i) {
        if (first[i].refused != other[i].refused || first[i].code != other[i].code)
          return "answer " + std::to_string(i) + ": rank 0 «" + first[i].what + "», rank " + std::to_string(rank) + " «" +
                 other[i].what + "»";
        bool const local = first[i].what.find(" in Variable of ") != std::string::npos;  // each names itself
        if (!local && first[i].what != other[i].what)
          return "answer " + std::to_string(i) + ": rank 0 «" + first[i].what + "», rank " + std::to_string(rank) + " «" +
                 other[i].what + "»";
      }
    }
    return {};
  }

  void count(std::vector<Operation> const& operations) {
    for (Operation const& op : operations) {
      ++counts_.operations;
      ++counts_.kinds[static_cast<std::size_t>(op.kind)];
      ++counts_.faults[static_cast<std::size_t>(op.fault)];
      counts_.refusals += op.refused;
      counts_.skipped += !op.refused && !op.applied;
      for (auto const& body : op.iterations) count(body);
    }
  }

  std::atomic<std::uint64_t>& next_;
  std::uint64_t const end_;
  Counts& counts_;
  std::barrier<> barrier_{most};
  std::optional<Program> program_;
  std::shared_ptr<px::ThreadGroup> group_;
  std::atomic<int> arrived_{0}, done_{0};
  std::vector<Outcome> outcomes_;
};

int run(std::uint64_t first, std::uint64_t programs, int crews) {
  Counts counts;
  std::atomic<std::uint64_t> next{first};
  auto const begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int crew = 0; crew < crews; ++crew) threads.emplace_back([&] { Crew{next, first + programs, counts}.run(); });
  }
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("seeds %llu to %llu: %ld programs in %.1f s (%.0f/s), %ld operations, %ld refused, %ld skipped or idle\n",
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + programs - 1),
              counts.programs.load(), seconds, static_cast<double>(counts.programs.load()) / seconds,
              counts.operations.load(), counts.refusals.load(), counts.skipped.load());
  for (std::size_t i = 0; i < counts.kinds.size(); ++i) std::printf("  %-28s %10ld\n", kind_names[i], counts.kinds[i].load());
  for (std::size_t i = 1; i < counts.faults.size(); ++i)
    std::printf("  with %-23s %10ld\n", fault_names[i], counts.faults[i].load());
  std::printf("divergences %ld, hangs %ld", counts.divergences.load(), counts.hangs.load());
  if (counts.divergences + counts.hangs > 0)
    std::printf(", first: seed %llu", static_cast<unsigned long long>(counts.first_failure.load()));
  std::printf("\n");
  return counts.divergences.load() + counts.hangs.load() > 0;
}

}  // namespace
}  // namespace parallax_test::fuzz

int main(int argc, char** argv) {
  std::uint64_t first = 1, programs = parallax_test::sized(1'000u, 10'000u, 50'000u);
  int crews = 2;
  bool alone = false;
  if (char const* const given = std::getenv("PARALLAX_FUZZ_PROGRAMS")) programs = std::strtoull(given, nullptr, 10);
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string const option = argv[i];
    std::uint64_t const value = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--programs") programs = value;
    else if (option == "--first") first = value;
    else if (option == "--crews") crews = static_cast<int>(value);
    else if (option == "--seed") first = value, alone = true;
  }
  if (alone) {
    std::printf("%s", parallax_test::fuzz::text_of(parallax_test::fuzz::Author{first}.write()).c_str());
    std::fflush(stdout);
    programs = 1;
    crews = 1;
  }
  return parallax_test::fuzz::run(first, programs, crews);
}
