// Checkpoints of a training. What it takes to save is compiled in saving.cpp, once, apart from the policies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lm {

struct Options;
struct SavedParts;

// The checkpoints of one training. All functions are collective.
class Saving {
 public:
  virtual ~Saving() = default;
  // Where a training goes on.
  struct Resumed {
    std::int64_t batches;  // it has had so many
    bool elsewhere;        // with another number of ranks: what every rank had of its own is lost
  };
  // From the newest checkpoint on, if there is one.
  virtual std::optional<Resumed> resume() = 0;
  // After each step: saves if it is time. Whether a signal asks the training to stop; then it is saved.
  virtual bool step() = 0;
  // Saves now.
  virtual void save() = 0;
  // The folder of the checkpoint that was saved last; empty: there is none yet.
  virtual std::string const& last() const = 0;
};

// Refers to the parts, which outlive it.
using MakeSaving = std::unique_ptr<Saving> (*)(SavedParts const& parts, Options const& options);
// In options.save, as often as options.save_every says.
std::unique_ptr<Saving> make_saving(SavedParts const& parts, Options const& options);

}  // namespace lm
