// Ways in which ranks may not do the same, and what is promised of each: the same typed error on all ranks, which names who,
// what and both values; nothing changes.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "desk.hpp"
#include "parallax/comm/any.hpp"

namespace parallax_test::trust_mismatch {

using px::grad;
using World = px::AnyCommunicator;
using Desk = parallax_test::Desk<World>;

enum class After : unsigned char {
  goes_on,      // the session is as before
  new_session,  // its variables differ for good; the communicator serves another session
  poisoned      // the ranks are out of step
};

struct Kind {
  std::string name;
  std::vector<std::string> variables;  // one of them is named; empty: any
  std::string bad, good;               // what the detail says of the victim and of the others
  After after;
  Answer (*provoke)(World& world, Desk& desk, bool bad, std::uint64_t random);
};

using Kept = std::vector<std::shared_ptr<void>>;

// The first collective call after variables were made: any.
inline Answer first_call(Desk& d, std::uint64_t random) {
  return answer_of([&] {
    switch (random % 5) {
      case 0: d.session.finish(); break;
      case 1: d.session.broadcast(d.layer); break;
      case 2: d.step(); break;
      case 3:
        d.session.start(d.layer_update());
        d.step();
        break;
      default: auto const rows = d.session.pull(d.words, d.ids);
    }
  });
}

template <class V, class... Arguments>
void make(Kept& kept, Desk& d, std::string const& name, Arguments&&... arguments) {
  kept.push_back(std::make_shared<V>(d.session, name, std::forward<Arguments>(arguments)...));
}

inline std::vector<Kind> const kinds{
    {"name", {"weight", "weights"}, "weights Dense", "weight Dense", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       make<px::Variable<px::Dense>>(kept, d, bad ? "weights" : "weight", px::bind(memory));
       return first_call(d, random);
     }},
    {"shape: elements", {"weight"}, "of 5 by", "of 4 by", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(bad ? 5 : 4);
       make<px::Variable<px::Dense>>(kept, d, "weight", px::bind(memory));
       return first_call(d, random);
     }},
    {"shape: rows", {"table"}, "of 8 x 2", "of 9 x 2", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       make<px::Variable<px::Sparse>>(kept, d, "table", px::Table{bad ? 8 : 9, 2});
       return first_call(d, random);
     }},
    {"shape: width", {"table"}, "of 9 x 3", "of 9 x 2", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       make<px::Variable<px::Sparse>>(kept, d, "table", px::Table{9, bad ? 3 : 2});
       return first_call(d, random);
     }},
    {"dtype", {"weight"}, "Dense double", "Dense float", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       std::vector<double> wide(4);
       if (bad) make<px::Variable<px::Dense, double>>(kept, d, "weight", px::bind(wide));
       else make<px::Variable<px::Dense>>(kept, d, "weight", px::bind(memory));
       return first_call(d, random);
     }},
    {"kind", {"weight"}, "Sparse float", "Dense float", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       if (bad) make<px::Variable<px::Sparse>>(kept, d, "weight", px::Table{4, 1});
       else make<px::Variable<px::Dense>>(kept, d, "weight", px::bind(memory));
       return first_call(d, random);
     }},
    {"policy of a layer", {"weight"}, "by PsShard", "by AllReduce", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       if (bad) make<px::Variable<px::Dense, px::PsShard>>(kept, d, "weight", px::bind(memory));
       else make<px::Variable<px::Dense>>(kept, d, "weight", px::bind(memory));
       return first_call(d, random);
     }},
    {"policy of a table", {"table"}, "AllGather", "PsShard", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       if (bad) make<px::Variable<px::Sparse, px::AllGather>>(kept, d, "table", px::Table{9, 2});
       else make<px::Variable<px::Sparse>>(kept, d, "table", px::Table{9, 2});
       return first_call(d, random);
     }},
    {"optimizer", {"weight"}, "Adagrad", "Sgd", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       if (bad) make<px::Variable<px::Dense, px::Adagrad>>(kept, d, "weight", px::bind(memory));
       else make<px::Variable<px::Dense>>(kept, d, "weight", px::bind(memory));
       return first_call(d, random);
     }},
    {"reduce", {"weight"}, ", sum", ", mean", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       make<px::Variable<px::Dense>>(kept, d, "weight", px::bind(memory), bad ? px::Reduce::sum : px::Reduce::mean);
       return first_call(d, random);
     }},
    {"partitioner", {"table"}, "Hash{", "Cyclic{", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       if (bad) make<px::Variable<px::Sparse, px::Hash>>(kept, d, "table", px::Table{9, 2});
       else make<px::Variable<px::Sparse>>(kept, d, "table", px::Table{9, 2});
       return first_call(d, random);
     }},
    {"pieces of the partitioner", {"table"}, "Cyclic{16}", "Cyclic{0}", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       make<px::Variable<px::Sparse>>(kept, d, "table", px::Table{9, 2}, px::Cyclic{.pieces = bad ? 16 : 0});
       return first_call(d, random);
     }},
    {"index type", {"table"}, "by int32", "by int64", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       if (bad) make<px::Variable<px::Sparse, px::Index<std::int32_t>>>(kept, d, "table", px::Table{9, 2});
       else make<px::Variable<px::Sparse>>(kept, d, "table", px::Table{9, 2});
       return first_call(d, random);
     }},
    {"missing variable", {"late"}, "nothing", "late Dense", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       if (!bad) make<px::Variable<px::Dense>>(kept, d, "late", px::bind(memory));
       return first_call(d, random);
     }},
    {"extra variable", {"extra"}, "extra Dense", "nothing", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       if (bad) make<px::Variable<px::Dense>>(kept, d, "extra", px::bind(memory));
       return first_call(d, random);
     }},
    {"order of variables", {"a", "b"}, "b Dense", "a Dense", After::new_session,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       Kept kept;
       std::vector<float> memory(4);
       make<px::Variable<px::Dense>>(kept, d, bad ? "b" : "a", px::bind(memory));
       make<px::Variable<px::Dense>>(kept, d, bad ? "a" : "b", px::bind(memory));
       return first_call(d, random);
     }},
    {"settings of an optimizer", {"words"}, "Adam{.learning_rate = 0.5", "Adam{.learning_rate = 0.001", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       double const rate = d.words.optimizer().learning_rate;
       if (bad) d.words.optimizer().learning_rate = 0.5;
       auto const answer = answer_of([&] { d.step(); });
       d.words.optimizer().learning_rate = rate;
       return answer;
     }},
    {"settings of an optimizer, in the last bit", {"layer"}, "Sgd{.learning_rate = 0.25000000000000006",
     "Sgd{.learning_rate = 0.25", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       if (bad) d.layer.optimizer().learning_rate = std::nextafter(0.25, 1.0);
       auto const answer = answer_of([&] { d.step(); });
       d.layer.optimizer().learning_rate = 0.25;
       return answer;
     }},
    {"settings of an optimizer after a start", {"layer"}, "Sgd{.learning_rate = 0.5", "Sgd{.learning_rate = 0.25",
     After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       d.session.start(d.layer_update());
       if (bad) d.layer.optimizer().learning_rate = 0.5;
       auto const answer = answer_of([&] { d.session.step(d.words_update()); });
       d.layer.optimizer().learning_rate = 0.25;
       return answer;
     }},
    {"order of updates", {"layer", "words"}, "«words ", "«layer ", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) d.session.step(d.words_update(), d.layer_update());
         else d.step();
       });
     }},
    {"fewer updates", {"words"}, "nothing", "«words ", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) d.session.step(d.layer_update());
         else d.step();
       });
     }},
    {"more updates", {"other"}, "«other ", "nothing", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) d.session.step(d.layer_update(), d.words_update(), d.other_update());
         else d.step();
       });
     }},
    {"another variable updated", {"layer", "other"}, "«other ", "«layer ", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) d.session.step(d.other_update());
         else d.session.step(d.layer_update());
       });
     }},
    {"another update started", {"layer", "other"}, "«other ", "«layer ", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       if (bad) d.session.start(d.other_update());
       else d.session.start(d.layer_update());
       return answer_of([&] { d.session.step(d.words_update()); });
     }},
    {"limit of the norm", {"layer"}, "clipped to 2", "clipped to 1", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] { d.session.step(px::clip_by_global_norm(bad ? 2.0 : 1.0, d.layer_update(), d.words_update())); });
     }},
    {"rows by index where others have a pull", {"words"}, "rows by index", "rows of a pull", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       auto const rows = d.session.pull(d.words, d.ids);
       return answer_of([&] {
         if (bad) d.step();
         else d.session.step(d.layer_update(), grad(rows, d.row_gradients));
       });
     }},
    {"another table pulled", {"words", "copy"}, "«copy ", "«words ", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) auto const rows = d.session.pull(d.copy, d.ids);
         else auto const rows = d.session.pull(d.words, d.ids);
       });
     }},
    {"fewer tables pulled", {"copy"}, "nothing", "«copy ", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) auto const rows = d.session.pull(d.words.at(d.ids));
         else auto const rows = d.session.pull(d.words.at(d.ids), d.copy.at(d.ids));
       });
     }},
    {"another variable broadcast", {"layer", "copy"}, "«copy ", "«layer ", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) d.session.broadcast(d.copy);
         else d.session.broadcast(d.layer);
       });
     }},
    {"another operation", {}, ": pull", ": step", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (!bad) return d.step();
         auto const rows = d.session.pull(d.words, d.ids);
       });
     }},
    {"a finish where others step", {}, ": finish", ": step", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       return answer_of([&] {
         if (bad) d.session.finish();
         else d.step();
       });
     }},
    {"fusion options", {}, "{4194304, 16,", "{4194304, 1048576,", After::goes_on,
     [](World&, Desk& d, bool bad, std::uint64_t) {
       if (bad) d.session.options().fusion.direct_bytes = 16;
       auto const answer = answer_of([&] { d.step(); });
       d.session.options().fusion = {};
       return answer;
     }},
    {"number of updates started", {}, "", "", After::poisoned,
     [](World&, Desk& d, bool bad, std::uint64_t random) {
       d.session.start(d.layer_update());
       if (bad == (random % 2 == 0)) d.session.start(d.layer_update());
       return answer_of([&] { d.session.step(d.words_update()); });
     }},
};

struct Seen {
  Answer answer, later;
  bool unchanged = false, right_after = false;
};

inline Seen one_rank(World& world, Kind const& kind, bool bad, std::uint64_t random) {
  Seen seen;
  {
    Desk desk{world};
    desk.session.step(desk.other_update(), desk.words_update(), desk.copy_update());
    std::uint64_t const before = desk.hash();
    seen.answer = kind.provoke(world, desk, bad, random);
    seen.unchanged = desk.hash() == before;
    if (kind.after != After::new_session) {
      seen.later = answer_of([&] { desk.step(); });
      seen.right_after = kind.after == After::poisoned ? seen.later.code == px::Errc::poisoned && desk.hash() == before
                                                       : !seen.later.refused && desk.layer_memory[5] == 1.75f;
      if (!seen.later.refused) desk.session.finish();
      return seen;
    }
    seen.unchanged = seen.unchanged && answer_of([&] { desk.step(); }).code == px::Errc::mismatch && desk.hash() == before;
  }
  Desk again{world};
  seen.later = answer_of([&] { again.step(); });
  seen.right_after = !seen.later.refused && again.layer_memory[0] == 1.75f;
  if (!seen.later.refused) again.session.finish();
  return seen;
}

// What is wrong, or nothing.
inline std::string complaint_of(Kind const& kind, std::vector<Seen> const& seen, int ranks, int victim) {
  Answer const& first = seen[0].answer;
  auto const has = [&](std::string const& text) { return first.detail.find(text) != std::string::npos; };
  std::string const who = "victim " + std::to_string(victim) + " of " + std::to_string(ranks) + ": ";
  if (!first.refused) return who + "silent";
  std::string const said = who + first.what;
  if (first.code != px::Errc::mismatch) return "another code, " + said;
  if (first.rank != (ranks > 2 ? victim : 1)) return "another rank is blamed, " + said;
  if (!kind.variables.empty() && std::ranges::find(kind.variables, first.variable) == kind.variables.end())
    return "another variable is named, " + said;
  if (!has(kind.bad) || !has(kind.good)) return "the values are not named, " + said;
  for (Seen const& each : seen) {
    if (each.answer != first) return "ranks are told different things, " + said + " / " + each.answer.what;
    if (!each.unchanged) return "something has changed, " + said;
    if (!each.right_after) return "what follows is not right, " + said + " / " + each.later.what;
  }
  return {};
}

}  // namespace parallax_test::trust_mismatch
