// What a way to be refused is, and what those of all tables are made of. A file of the table includes it.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "guarantee.hpp"
#include "parallax/comm/self.hpp"

namespace parallax_test::guarantee {

// The rank that an error names: the one that is bad, none, rank 0, where all refuse, or one that the fault does not choose.
enum class Blamed { culprit, nobody, first, anyone };

// What is expected of an error. Of texts that are empty nothing is.
struct Expected {
  px::Errc code;
  std::string operation, variable, detail;
  Blamed blamed = Blamed::culprit;
};

// The model that is trained, and a folder that all of its ranks see.
struct AnyModel : Model<px::AnyCommunicator> {
  using Model::Model;
  std::string folder;
  bool saved = false;  // a checkpoint is there, alike on all ranks
};

// One way to be refused. `inject` runs on every rank, and does on the one that is `bad` what the others do not.
struct Fault {
  std::string name;
  Expected expected;
  Answer (*inject)(AnyModel& m, bool bad, std::uint64_t random);
  bool leaves_bias_started = false;
};

// Of `assign`, `scale`, `search_pieces` and columns.
std::vector<Fault> faults_of_rows();
// Of `gather` and `scatter`.
std::vector<Fault> faults_of_whole_tables();
// Of `save`, `save_async`, `restore` and `finish`.
std::vector<Fault> faults_of_checkpoints();

// A session of one rank, on all ranks, with variables that are called as those of the model.
struct Stranger {
  px::AnyCommunicator self{px::SelfCommunicator{}};
  px::Session<px::AnyCommunicator> session{self};
  std::vector<float> memory = std::vector<float>(37, 0.5f);
  px::Variable<px::Dense, px::Adagrad> hidden{session, "hidden", px::bind(memory)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {23, 3, px::uniform(-1, 1, 5)}};
};

// Ids of `words`, of which the bad rank has one that is outside.
inline std::vector<std::int64_t> word_ids(bool bad, std::uint64_t random) {
  std::vector<std::int64_t> ids{3, 22, 3, 0, 7};
  constexpr std::int64_t outside[] = {-1, 23, std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 32};
  if (bad) ids[random % ids.size()] = outside[random / 8 % std::size(outside)];
  return ids;
}
inline std::vector<float> const word_rows(15, 0.25f), hidden_gradient(37, 0.125f);
inline std::vector<double> const bias_gradient(11, 1.0);

inline void step_hidden(AnyModel& m) { m.session.step(px::grad(m.hidden, hidden_gradient)); }
inline void step_both(AnyModel& m) { m.session.step(px::grad(m.hidden, hidden_gradient), px::grad(m.bias, bias_gradient)); }

}  // namespace parallax_test::guarantee
