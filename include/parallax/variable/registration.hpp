// How a variable is known to its session: a signature that the ranks compare, and no way back to the variable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/core/pointer.hpp"
#include "parallax/policy/prediction.hpp"

namespace parallax {

// What there is to say of a variable: the policy, which one is in force where that may change and what it predicts, and, of a
// table, how it was used so far: as all ranks know it under Auto, else by this rank. Of a dense variable `facts.rows` are its
// elements.
struct Description {
  bool sparse = false, replicated = false;
  std::string_view policy, in_force;
  Prediction (*predict)(TableFacts const&, TableUse const&, RankShape const&, Costs const&) = nullptr;
  TableFacts facts = {};
  std::int64_t width = 1, pieces = 0;
  TableUse use = {};
  bool on_device = false;
};

// Shared by a variable and its session; a registration that only the session holds belongs to a variable that is gone.
struct Registration : Counted {
  Registration(std::string its_name, std::string its_signature);

  template <class State>
  void attach(State const& its_state) {
    state = &its_state;
    describe = [](void const* known) { return static_cast<State const*>(known)->description(); };
    hash_update = [](void const* known, Fingerprint& into) { static_cast<State const*>(known)->add_update(into); };
    update_text = [](void const* known) { return static_cast<State const*>(known)->update_text(); };
    first_values = [](void const* known, std::uint64_t& sum) { return static_cast<State const*>(known)->first_values(sum); };
  }
  void detach() noexcept { state = nullptr; }

  // As the state's own.
  void add_update(Fingerprint& into) const { hash_update(state, into); }
  // What there is to tell of the next update, where the ranks differ in something: `more` about the update, and, of a replica
  // that was never updated, what it begins with. A line each.
  std::string update_lines(std::string const& more) const;

  // Not once the variable is gone: its memory may be.
  bool replica_is_compared() const { return compares_values && !gone; }

  // Of an operation of a session that is not the variable's.
  Error stranger(int rank, char const* operation) const {
    return {Errc::misuse, rank, operation, name, "the variable belongs to another session"};
  }

  std::string const name;
  std::string const signature;  // kind, shape, types, policy, partitioner, reduction
  void const* session = nullptr;
  // Of the state, while it lives.
  void const* state = nullptr;
  Description (*describe)(void const* state) = nullptr;
  void (*hash_update)(void const* state, Fingerprint& into) = nullptr;
  std::string (*update_text)(void const* state) = nullptr;
  bool (*first_values)(void const* state, std::uint64_t& sum) = nullptr;
  bool compares_values = false;  // by its session: a replica's first update compares what the ranks begin with
  bool gone = false;             // the variable was destroyed; handles and updates in flight may still hold its state
  std::uint64_t hash;            // of name and signature
};

#if PARALLAX_BODIES
PARALLAX_INLINE Registration::Registration(std::string its_name, std::string its_signature)
    : name{std::move(its_name)}, signature{std::move(its_signature)} {
  Fingerprint h;
  h.add(std::string_view{name});
  h.add(std::string_view{signature});
  hash = h.value();
}

PARALLAX_INLINE std::string Registration::update_lines(std::string const& more) const {
  std::string lines = name + "\t" + signature + ", " + update_text(state) + more + '\n';
  if (std::uint64_t sum; first_values(state, sum))
    lines += name + "\tfirst values of checksum " + number_text(sum) + "; Session::broadcast makes them those of rank 0\n";
  return lines;
}
#endif

using RegistrationPtr = Shared<Registration>;

// A variable's hold on its state, which handles and updates in flight share: what they refer to never dangles, and a step
// can tell that the variable itself is gone.
template <class State>
class Holder {
 public:
  Holder() = default;
  explicit Holder(Shared<State> state) : state_{std::move(state)} {}
  Holder(Holder&& other) noexcept = default;
  Holder& operator=(Holder&& other) noexcept {
    if (this != &other) leave();
    state_ = std::move(other.state_);
    return *this;
  }
  ~Holder() { leave(); }

  State& operator*() const { return *state_; }
  State* operator->() const { return state_.get(); }

 private:
  void leave() noexcept {
    if (state_) state_->registration()->gone = true;
  }

  Shared<State> state_;
};

}  // namespace parallax
