// The session's knowledge of its variables: of each a signature, compared by the ranks, and no way back to the variable. States
// attach themselves to theirs; session and flights ask it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/text.hpp"
#include "parallax/detail/policy/prediction.hpp"
#include "parallax/version.hpp"

namespace parallax::inline v0_2 {

// Description of a variable: the policy, the one in force if it may change, its prediction, and the use of a table so far: as
// all ranks know it under Auto, else by this rank. Of a dense variable `facts.rows` are its elements.
struct Description {
  bool sparse = false,     // a table
      replicated = false;  // every rank holds all of it
  // The name of the variable's own policy.
  std::string_view policy, in_force;  // the name of the policy that moves its gradients now
  // Prediction of the policy in force for a step.
  Prediction (*predict)(TableFacts const&, TableUse const&, RankShape const&, Costs const&) = nullptr;
  // The constant facts: its size, and the bytes of a row.
  TableFacts facts = {};
  // Elements of a row; of a dense variable 1.
  std::int64_t width = 1, pieces = 0;  // pieces in force; 0 of a dense variable
  // The use of the table so far, a step's mean.
  TableUse use = {};
  // True if the host cannot read its memory.
  bool on_device = false;
};

// Listener to a state that is at work for long, with no operation of its session moving on meanwhile. It is the session's
// Waiting. It lets the other ranks know, so that no deadline of theirs passes.
class LongWork {
 public:
  // Local. Hears of such work every few milliseconds, and once more when it is `over`.
  virtual void works(bool over) noexcept = 0;

 protected:
  ~LongWork() = default;
};

// Shared by a variable's state and its session; with the session alone as its holder, the state is gone. All is local.
struct Registration : Counted {
  // Takes name and signature of a new variable, and hashes them. May throw std::bad_alloc.
  Registration(std::string its_name, std::string its_signature);

  // Attaches a new state: from here on the registration asks it, and it must call `detach` before it goes.
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
  // Detaches a state that goes.
  void detach() noexcept { state = nullptr; }

  // Adds the ranks' comparison of the next update to `into`; asks the state, which must live.
  void add_update(Fingerprint& into) const { hash_update(state, into); }
  // Returns lines about the next update, for ranks that differ in something: one with `more` about the update, and, of a
  // replica that the update compares, one with its checksum. Asks the state, which must live.
  std::string update_lines(std::string const& more) const;

  // Returns true if the update after `steps` compares a replica: the first one, and each of compares_every. False once the
  // variable is gone: its memory may be gone, too.
  bool compares_after(std::int64_t steps) const {
    if (steps == 0) return compares_values && !gone;
    return compares_every > 0 && steps % compares_every == 0 && !gone;
  }

  // Adds a replica's contents to a hash, if there is one; asks the state, which must live.
  PARALLAX_COLD void add_replica(Fingerprint& into) const;

  // Throws Error (misuse), always: the variable was given to `operation` of a session that is not its own.
  [[noreturn]] void refuse_stranger(int rank, char const* operation) const {
    refuse(rank, operation, "the variable belongs to another session");
  }
  // Throws Error (misuse), always: the handle's gradients were applied by an earlier step.
  [[noreturn]] void refuse_stepped(int rank) const {
    refuse(rank, "step", "the handle was stepped before: pull its rows again, which have changed since");
  }

  // The user's name of the variable, the same on all ranks; without control bytes.
  std::string const name;
  // Kind, shape, types, policy, partitioner and reduction in words: equal on all ranks, or the session refuses to work.
  std::string const signature;
  // The session of the variable, as `Registry` tells sessions apart; null before it is entered.
  void const* session = nullptr;
  // Listener to long work of the state; null without a session.
  LongWork* long_work = nullptr;
  // The state, while it lives: the argument of the following functions.
  void* state = nullptr;
  // Returns the state's description.
  Description (*describe)(void const* state) = nullptr;
  // Has the state add its update to a hash.
  void (*hash_update)(void const* state, Fingerprint& into) = nullptr;
  // Returns a line about the state's next update.
  std::string (*update_text)(void const* state) = nullptr;
  // Returns true if the state is a replica in memory of the host, with the checksum of its values and slots; of values alone
  // before the first update. With `settles`, rows that are behind are settled; without, returns false if some might be.
  bool (*replica)(void* state, std::uint64_t& sum, bool settles) = nullptr;
  // Returns the state's number of updates.
  std::int64_t (*updates)(void const* state) = nullptr;
  // Throws the error of batches that a device has found wrong, `waits`: after waiting for the device; null if there are no such
  // batches.
  void (*check_late)(void* state, int rank, std::string_view operation, bool waits) = nullptr;
  // Has the state put its work ahead of a graph in the stream; null if there is none.
  void (*reserve_launch)(void* state) = nullptr;
  // Tells the state that a graph has made an update of it; null if there are none.
  void (*replayed)(void* state) = nullptr;
  int number = 0;                   // its place among all variables ever given to the session, from 0 on
  bool compares_values = false;     // by its session: a replica's first update compares the ranks' first values
  std::int64_t compares_every = 0;  // by its session: each of so many updates compares values; 0: none does
  bool gone = false;                // the variable was destroyed; handles and updates in flight may still hold its state
  std::uint64_t hash;               // of name and signature

 private:
  [[noreturn]] void refuse(int rank, char const* operation, char const* why) const;
};

// Variable, session and updates in flight each hold one.
using RegistrationPtr = Shared<Registration>;

namespace detail {

// Throws Error (invalid_argument) for an empty name, and one with a control byte: lines and fields of the ranks' comparison end
// at such bytes, and what() ends at a NUL.
void check_name(std::string_view name, int rank);
// Throws Error (invalid_argument) for a table with a negative size, and for one with more rows than numbers of the index type.
void check_shape(std::string_view name, std::int64_t rows, std::int64_t width, int rank, std::int64_t most_rows,
                 std::string_view index_type);
// The words of a variable's signature, compared by ranks, as its constructor knows them by type.
struct SignatureWords {
  // The names of the scalar type, the memory space (empty for the host's), the policy and the optimizer.
  std::string_view scalar, space, policy, optimizer;
  // The reduction of the ranks' gradients.
  Reduce reduce;
  // Of a table: the names of its index type and its partitioner.
  std::string_view index = {}, partitioner = {};
  // The partitioner's settings as text.
  std::string partitioner_fields = {};
  // The answer to indices outside the table.
  BadIds bad_ids = BadIds::error;
};
// Returns the signature of a dense variable of `size` elements, whose optimizer measures rows of `row` elements; -1 if it does
// not.
PARALLAX_COLD std::string dense_signature(SignatureWords const& words, std::size_t size, std::int64_t row);
// Returns the signature of a table; `initial`: its first values in words, or empty if the user owns it.
PARALLAX_COLD std::string table_signature(SignatureWords const& words, std::int64_t rows, std::int64_t width,
                                          std::string_view initial);

// Registrations of a session's variables: entered by their constructors, compared by the ranks at every agreement by a hash. The
// session's core owns it.
class Registry {
 public:
  // Begins empty. `session`: tells its variables from the variables of others.
  explicit Registry(void const* session) : session_{session} {}
  Registry(Registry&&) = delete;
  ~Registry() {
    for (auto const& known : known_) known->long_work = nullptr;
  }
  // Local. Sets the listener to long work, for states of variables that are entered from now on. It lives until the registry
  // goes.
  void tells(LongWork& long_work) { long_work_ = &long_work; }

  // Local. Enters a variable, called by its constructor: it belongs to the session from here on. Forgets variables that nobody
  // else holds. Throws Error (invalid_argument) if a living variable has this name; then only this forgetting has happened.
  void enter(RegistrationPtr given, int rank);
  // Local. Throws Error (misuse) for a variable of another session. Called by an operation before it touches a variable.
  void check_owned(Registration const& variable, int rank, char const* operation) const {
    if (variable.session != session_) variable.refuse_stranger(rank, operation);
  }

  // Adds a number to the ranks' comparison.
  void add(std::uint64_t value);
  // Returns the hash for the ranks' comparison: of all variables ever entered, in their order, and of all else given to `add`.
  std::uint64_t hash() const { return hash_; }
  // Returns the variables entered and not forgotten, in their order, gone ones among them. Valid until the next `enter`.
  List<RegistrationPtr> const& variables() const { return known_; }

 private:
  // Only compared, never read.
  void const* session_;
  LongWork* long_work_ = nullptr;
  List<RegistrationPtr> known_;
  int entered_ = 0;  // ever
  // Begins with the library's version, for the first agreement.
  std::uint64_t hash_ = (PARALLAX_VERSION_MAJOR * 1000 + PARALLAX_VERSION_MINOR) * 1000 + PARALLAX_VERSION_PATCH;
};

}  // namespace detail

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/variable/registration-inl.hpp"
#endif
