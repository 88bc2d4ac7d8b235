// Rounds of an engine: agreements of all ranks, words from each rank to all, and the error at which ranks arrive if they
// differ. An operation of a session calls `agree` before it sends anything, and `tell_all` for the commit of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/float_mode.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/engine/waiting.hpp"
#include "parallax/detail/transfer/agreement/agreement.hpp"
#include "parallax/detail/transfer/agreement/explanation.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/version.hpp"

namespace parallax::inline v0_2::detail {

// Rounds of one session, whose core owns them. Refers to the arguments of its constructor, which outlive it. All rounds travel
// on `channel`, in the order of the calls, and wait under the deadline (see Waiting::drive). Flights have agreements of their
// own.
template <Communicator C>
class Rounds {
 public:
  Rounds(Topology<C> const& topology, int channel, Traffic& traffic, Waiting<C>& waiting, Registry const& registry);

  // Local. Begins an operation in the journal. Returns the hash of its common part on all ranks, for the caller to add to: the
  // operation, its number in the session, `options` (a hash), all variables made so far, and this thread's float mode. `step`:
  // steps completed before. `variable`: name of the first one concerned, for the journal.
  Fingerprint begin(Operation operation, std::int64_t step, std::uint64_t options, std::string_view variable);
  // Returns the number of operations begun in the session's whole life. The number tells ranks that are out of step.
  std::uint64_t operations() const { return operations_; }

  // Collective. Posts `agreement`, begun by the caller, and waits for it. Throws Refused unless all ranks agree. `error`: this
  // rank's refusal, if any. `names`: of the variables concerned. `describe`: this rank's next act, called if ranks differ.
  void agree(char const* operation, std::optional<Error> const& error, FunctionRef<std::string()> names,
             FunctionRef<std::string()> describe);

  // Collective, after a round that was not unanimous. Waits for a text of each rank, and returns the common error made of them.
  // `error`: this rank's refusal, or null; `details`: else, of its next act. Throws the common error if the ranks are out of
  // step, which ends the session. If they called different operations, drops everything under way on all ranks.
  PARALLAX_COLD Error explain(char const* operation, Error const* error, std::string const& details);
  // Returns true if the latest explanation has dropped everything under way, alike on all ranks.
  bool dropped() const { return dropped_; }

  // Collective. Tells every rank the `words` of every rank, equally many, and waits until all are here: N - 1 messages of each
  // rank, of eight bytes a word. `names`: of the variables concerned; called in a long wait only.
  void tell_all(char const* operation, FunctionRef<std::string()> names);
  // Returns the words of `rank` in the last `tell_all`, this rank's own included. Valid until the next `tell_all`, and while
  // `words` has as many.
  Slice<double const> told(int rank) const {
    return {told_.data() + static_cast<std::size_t>(rank) * words.size(), words.size()};
  }
  // Returns the words of all ranks, one after the other by rank. Valid until the next `tell_all`.
  List<double> const& all_told() const { return told_; }

  // Returns, after an abort, once no peer reads our memory.
  void withdraw() noexcept {
    agreement.withdraw();
    lane_.withdraw();
  }

  // Agreement at hand. The operation begins and fills it before it calls `agree`.
  Agreement<C> agreement;
  List<double> words;  // of this rank, for `tell_all`

 private:
  // Waits, under the deadline, for one transfer of the operation.
  void await(Lane<C>& lane, char const* operation, FunctionRef<std::string()> names) {
    waiting_->drive(operation, [&] { return lane.test(); }, {lane, names});
  }
  // Returns everything else that may differ between ranks, for the text in `explain`: the version, the operation's number,
  // hosts, hops, settings, arithmetic and variables.
  std::string context(char const* operation) const {
    std::string text = joined({"\tparallax " PARALLAX_VERSION "\n\toperation ", operations_, ": ", operation, "\n\thosts"});
    for (int const host : topology_->hosts()) append(text, {" ", host});
    append(text, {" in ", topology_->hops().size(), " hops\n\t", waiting_->underway().settings(), "\n\tarithmetic ",
                  float_mode_text(float_mode()), "\n"});
    for (auto const& known : registry_->variables()) append(text, {known->name, "\t", known->signature, "\n"});
    return text + Testimony::section_end;
  }

  Topology<C> const* topology_;
  Waiting<C>* waiting_;
  Registry const* registry_;
  Lane<C> lane_;
  List<double> told_;
  std::uint64_t operations_ = 0;
  bool begun_ = false;  // the operation at hand has agreed on nothing yet
  bool dropped_ = false;
};

template <Communicator C>
Rounds<C>::Rounds(Topology<C> const& topology, int channel, Traffic& traffic, Waiting<C>& waiting, Registry const& registry)
    : agreement{topology, channel, traffic},
      topology_{&topology},
      waiting_{&waiting},
      registry_{&registry},
      lane_{topology, channel, traffic} {}

template <Communicator C>
Fingerprint Rounds<C>::begin(Operation operation, std::int64_t step, std::uint64_t options, std::string_view variable) {
  Fingerprint hash;
  hash.add(static_cast<std::uint64_t>(operation));
  waiting_->journal().enter(word(operation), ++operations_, step, waiting_->clock(), word(Phase::agreeing), variable);
  begun_ = true;
  hash.add(operations_);
  hash.add(registry_->hash());
  hash.add(options);
  hash.fold(float_mode());
  return hash;
}

template <Communicator C>
void Rounds<C>::agree(char const* operation, std::optional<Error> const& error, FunctionRef<std::string()> names,
                      FunctionRef<std::string()> describe) {
  agreement.post(waiting_->journal().changed());
  if (!std::exchange(begun_, false)) waiting_->advance(Phase::agreeing);
  waiting_->drive(operation, [&] { return agreement.poll(); }, {agreement, names});
  waiting_->arrive(Phase::exchanging, agreement.first_clock());
  if (agreement.unanimous()) return;
  throw Refused{explain(operation, error ? &*error : nullptr, describe())};
}

template <Communicator C>
Error Rounds<C>::explain(char const* operation, Error const* error, std::string const& details) {
  Testimony const own{operation, operations_, error, error ? std::string{} : context(operation) + details};
  Verdict const verdict = explain_difference(lane_, own, [&] { await(lane_, operation, [] { return std::string{}; }); });
  if (!verdict.in_step) throw verdict.error;
  dropped_ = !verdict.same_operation;
  if (dropped_) waiting_->underway().drop(operation);
  return verdict.error;
}

template <Communicator C>
void Rounds<C>::tell_all(char const* operation, FunctionRef<std::string()> names) {
  std::size_t const count = words.size(), ranks = static_cast<std::size_t>(topology_->size());
  told_.assign(count * ranks, 0.0);
  lane_.clear();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (static_cast<int>(rank) == topology_->rank()) continue;
    lane_.send(static_cast<int>(rank), 0, count * sizeof(double), Payload::control);
    lane_.expect(static_cast<int>(rank), rank * count * sizeof(double), count * sizeof(double), Payload::control);
  }
  lane_.post(words.data(), told_.data());
  await(lane_, operation, names);
  std::memcpy(told_.data() + static_cast<std::size_t>(topology_->rank()) * count, words.data(), count * sizeof(double));
}

}  // namespace parallax::detail
