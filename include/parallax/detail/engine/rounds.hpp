// The rounds of an engine: agreements of all ranks, words that each tells all, and the error at which they arrive where they
// differ. An operation of a session calls them: `agree` before it sends anything, and `tell_all` for the commit of a step.
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
#include "parallax/detail/core/slice.hpp"
#include "parallax/detail/engine/waiting.hpp"
#include "parallax/detail/transfer/agreement/agreement.hpp"
#include "parallax/detail/transfer/agreement/explanation.hpp"
#include "parallax/detail/variable/registry.hpp"
#include "parallax/version.hpp"

namespace parallax::inline v0_2::detail {

// Refers to the topology, the waiting and the registry. `channel` is that of all of them. Everything collective is in the order
// of the calls. A session's core owns one; what flights agree on in `start` and `step` goes by agreements of their own.
template <Communicator C>
class Rounds {
 public:
  Rounds(Topology<C> const& topology, int channel, Traffic& traffic, Waiting<C>& waiting, Registry const& registry);

  // Local. Begins an operation. Every agreement about it includes the operation, its number in the session, all variables made
  // so far, and how this thread computes. `step`: completed before it. `variable`: the first one concerned, for the journal.
  Fingerprint begin(Operation operation, std::int64_t step, std::uint64_t options, std::string_view variable);
  // How many operations have begun, this session's whole life long; ranks out of step are told by it.
  std::uint64_t operations() const { return operations_; }

  // Collective. What was begun, and told, in `agreement` is agreed on, or Refused is thrown. `error`: this rank's refusal;
  // `names`: the variables concerned; `describe`: of what this rank is about to do, asked where the ranks do not agree.
  void agree(char const* operation, std::optional<Error> const& error, FunctionRef<std::string()> names,
             FunctionRef<std::string()> describe);

  // Collective, after a round that was not unanimous. The error that all ranks arrive at, from their testimonies: `error`, if
  // this rank refuses, else `details` of what it was about to do. Throws it where the ranks are out of step, which ends the
  // session. Where they called different operations, one of which may have been a step, what is under way is dropped on all of
  // them.
  PARALLAX_COLD Error explain(char const* operation, Error const* error, std::string const& details);
  // Whether the latest explanation has dropped what was under way; the same on all ranks.
  bool dropped() const { return dropped_; }

  // Collective. Every rank's `words` to every rank, equally many: N - 1 messages of each rank, of eight bytes a word. `names`
  // are asked only by a long wait.
  void tell_all(char const* operation, FunctionRef<std::string()> names);
  // What `rank` has told in the last `tell_all`, this rank's own words included. Valid until the next one, and while `words`
  // has as many.
  Slice<double const> told(int rank) const {
    return {told_.data() + static_cast<std::size_t>(rank) * words.size(), words.size()};
  }
  // The same of all ranks, one after the other.
  List<double> const& all_told() const { return told_; }

  // After an abort: returns once no peer reads our memory.
  void withdraw() noexcept;

  // The agreement at hand, which the operation begins and fills before it calls `agree`.
  Agreement<C> agreement;
  List<double> words;  // of this rank, for `tell_all`

 private:
  // A wait of the operation for one transfer.
  void await(Lane<C>& lane, char const* operation, FunctionRef<std::string()> names) {
    waiting_->drive(operation, [&] { return lane.test(); }, {lane, names});
  }
  // Returns all else that may differ between ranks, for a testimony: the version, the operation's number, hosts, hops, options and
  // variables.
  std::string context(char const* operation) const;

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

template <Communicator C>
void Rounds<C>::withdraw() noexcept {
  agreement.withdraw();
  lane_.withdraw();
}

template <Communicator C>
std::string Rounds<C>::context(char const* operation) const {
  std::string text = joined({"\tparallax " PARALLAX_VERSION "\n\toperation ", operations_, ": ", operation, "\n\thosts"});
  for (int const host : topology_->hosts()) append(text, {" ", host});
  append(text, {" in ", topology_->hops().size(), " hops\n\t", waiting_->underway().settings(), "\n\tarithmetic ",
                float_mode_text(float_mode()), "\n"});
  for (auto const& known : registry_->variables()) append(text, {known->name, "\t", known->signature, "\n"});
  return text + Testimony::section_end;
}

}  // namespace parallax::detail
