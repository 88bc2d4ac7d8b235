// How a variable is known to its session: a signature that the ranks compare, and no way back to the variable. States attach
// themselves to theirs; session and flights ask it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/policy/prediction.hpp"

namespace parallax::inline v0_2 {

// What there is to say of a variable: the policy, which one is in force where that may change and what it predicts, and, of a
// table, how it was used so far: as all ranks know it under Auto, else by this rank. Of a dense variable `facts.rows` are its
// elements.
struct Description {
  bool sparse = false,     // a table
      replicated = false;  // every rank holds all of it
  // The name of the policy that the variable was made with.
  std::string_view policy, in_force;  // that of the policy that moves its gradients now
  // What the policy in force predicts for a step.
  Prediction (*predict)(TableFacts const&, TableUse const&, RankShape const&, Costs const&) = nullptr;
  // What does not change: its size, and the bytes of a row.
  TableFacts facts = {};
  // Elements of a row; of a dense variable 1.
  std::int64_t width = 1, pieces = 0;  // those in force; 0 of a dense variable
  // How the table was used so far, a step's mean.
  TableUse use = {};
  // Whether its memory is one that the host cannot read.
  bool on_device = false;
};

// The one that a state tells, now and then, that it is at work for long, with no operation of its session moving on meanwhile.
// It is the session's Waiting. It lets the other ranks know, so that no deadline of theirs passes.
class LongWork {
 public:
  // Local. Hears of such work every few milliseconds, and once more when it is `over`.
  virtual void works(bool over) noexcept = 0;

 protected:
  ~LongWork() = default;
};

// Shared by a variable and its session; a registration that only the session holds belongs to a variable that is gone.
struct Registration : Counted {
  // By a variable that is being made: takes name and signature, and hashes them.
  Registration(std::string its_name, std::string its_signature);

  // By a state that is being made: from here on the registration asks it, and it must call `detach` before it goes.
  template <class State>
  void attach(State& its_state) {
    state = &its_state;
    describe = [](void const* known) { return static_cast<State const*>(known)->description(); };
    hash_update = [](void const* known, Fingerprint& into) { static_cast<State const*>(known)->add_update(into); };
    update_text = [](void const* known) { return static_cast<State const*>(known)->update_text(); };
    if constexpr (requires { requires State::can_pad; })
      check_late = [](void* known, int rank, std::string_view operation, bool waits) {
        auto& padded_state = *static_cast<State*>(known);
        padded_state.padded().tell(padded_state, rank, operation, waits);
      };
    if constexpr (!State::space::host_readable && requires { its_state.reserve_launch(); })
      reserve_launch = [](void* known) { static_cast<State*>(known)->reserve_launch(); };
    if constexpr (!State::space::host_readable) replayed = [](void* known) { static_cast<State*>(known)->replayed(); };
    replica = [](void* known, std::uint64_t& sum, bool settles) { return static_cast<State*>(known)->replica(sum, settles); };
    updates = [](void const* known) { return static_cast<State const*>(known)->steps(); };
  }
  // By a state that goes.
  void detach() noexcept { state = nullptr; }

  // Adds to a hash what the ranks compare of the next update; asks the state, which must live.
  void add_update(Fingerprint& into) const { hash_update(state, into); }
  // What there is to tell of the next update, where the ranks differ in something: `more` about the update, and, of a replica
  // that was never updated, what it begins with. A line each. Asks the state, which must live.
  std::string update_lines(std::string const& more) const;

  // Returns whether a replica is compared by the update that comes after so many: by the first one, and by each of so many. Not
  // once the variable is gone: its memory may be.
  bool compares_after(std::int64_t steps) const {
    if (steps == 0) return compares_values && !gone;
    return compares_every > 0 && steps % compares_every == 0 && !gone;
  }

  // Adds to a hash what a replica has, if there is one; asks the state, which must live.
  PARALLAX_COLD void add_replica(Fingerprint& into) const;

  // Throws Error (misuse): the variable was given to `operation` of a session that is not its own.
  [[noreturn]] void refuse_stranger(int rank, char const* operation) const {
    refuse(rank, operation, "the variable belongs to another session");
  }
  // Throws Error (misuse): a step was given a handle that one has applied gradients of.
  [[noreturn]] void refuse_stepped(int rank) const {
    refuse(rank, "step", "the handle was stepped before: pull its rows again, which have changed since");
  }

  // What users call the variable, the same on all ranks; without control bytes.
  std::string const name;
  // Kind, shape, types, policy, partitioner and reduction in words: equal on all ranks, or the session refuses to work.
  std::string const signature;
  // The session that the variable was made with, as `Registry` tells sessions apart; null before it is entered.
  void const* session = nullptr;
  // The one that is told of long work of the state; null without a session.
  LongWork* long_work = nullptr;
  // The state, while it lives; what the following functions are called with.
  void* state = nullptr;
  // Asks the state for its description.
  Description (*describe)(void const* state) = nullptr;
  // Has the state add its update to a hash.
  void (*hash_update)(void const* state, Fingerprint& into) = nullptr;
  // Asks the state for a line about its next update.
  std::string (*update_text)(void const* state) = nullptr;
  // Asks the state whether it is a replica in memory of the host, and for the checksum of its values and slots; of values alone
  // before the first update. Rows that are behind are settled, or there is no checksum where they might be.
  bool (*replica)(void* state, std::uint64_t& sum, bool settles) = nullptr;
  // Asks the state how many updates there were.
  std::int64_t (*updates)(void const* state) = nullptr;
  // Has the state throw the error of batches that a device has found wrong, for which it waits or not; null where there are no such
  // batches.
  void (*check_late)(void* state, int rank, std::string_view operation, bool waits) = nullptr;
  // Has the state put in the stream what is to be ahead of a graph; null where nothing is.
  void (*reserve_launch)(void* state) = nullptr;
  // Tells the state that an update of it was made by a graph; null where there are none.
  void (*replayed)(void* state) = nullptr;
  int number = 0;                   // its place among all variables that the session was ever given, from 0 on
  bool compares_values = false;     // by its session: a replica's first update compares what the ranks begin with
  std::int64_t compares_every = 0;  // likewise: each of so many updates compares what they have; 0: none does
  bool gone = false;                // the variable was destroyed; handles and updates in flight may still hold its state
  std::uint64_t hash;               // of name and signature

 private:
  [[noreturn]] void refuse(int rank, char const* operation, char const* why) const;
};

// Variable, session and updates in flight each hold one.
using RegistrationPtr = Shared<Registration>;

// A variable's hold on its state, which handles and updates in flight share: what they refer to never dangles, and a step can
// tell that the variable itself is gone. Each BasicVariable has one. Move-only.
template <class State>
class Holder {
 public:
  Holder() = default;
  // Takes the variable's place among the owners of the state.
  explicit Holder(Shared<State> state) : state_{std::move(state)} {}
  Holder(Holder&& other) noexcept = default;
  // The variable that was here is gone; the other one is here.
  Holder& operator=(Holder&& other) noexcept {
    if (this != &other) leave();
    state_ = std::move(other.state_);
    return *this;
  }
  // The variable is gone, the state perhaps not yet.
  ~Holder() { leave(); }

  // The state of a variable that was not moved from.
  State& operator*() const { return *state_; }
  // A member of that state.
  State* operator->() const { return state_.get(); }

 private:
  // Tells those who still hold the state that the variable is gone.
  void leave() noexcept {
    if (state_) state_->registration()->gone = true;
  }

  Shared<State> state_;
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/variable/registration-inl.hpp"
#endif
