// Saves a training, and goes on with one that was saved.
#include "saving.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <parallax/checkpoint/checkpoints.hpp>

#include "options.hpp"
#include "saved_parts.hpp"

namespace lm {

namespace {

// Every so many steps, or every minute; and when a signal comes.
px::Every times(Options const& options) {
  return {.steps = options.save_every, .seconds = options.save_every > 0 ? 0.0 : 60.0, .on_signals = true};
}

auto checkpoints(SavedParts const& of, Options const& options) {
  return px::Checkpoints(of.session, options.save, times(options), of.kernel, of.bias, of.projection, of.embedding, of.softmax,
                         px::shared_value("text", of.streams), px::own_value("memory", of.memory),
                         px::own_value("record", of.record));
}

class SavingOfHybrid final : public Saving {
 public:
  SavingOfHybrid(SavedParts const& parts, Options const& options) : checkpoints_{checkpoints(parts, options)} {}

  std::optional<Resumed> resume() override {
    auto const from = checkpoints_.resume();
    if (!from) return std::nullopt;
    return Resumed{from->step, !from->lost.empty()};
  }
  bool step() override {
    if (auto const saved = checkpoints_.step()) last_ = saved->path;
    return checkpoints_.stopping();
  }
  void save() override { last_ = checkpoints_.save().path; }
  std::string const& last() const override { return last_; }

 private:
  decltype(checkpoints(std::declval<SavedParts const&>(), std::declval<Options const&>())) checkpoints_;
  std::string last_;
};

}  // namespace

std::unique_ptr<Saving> make_saving(SavedParts const& parts, Options const& options) {
  return std::make_unique<SavingOfHybrid>(parts, options);
}

}  // namespace lm
