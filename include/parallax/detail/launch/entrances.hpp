// Entrances: the ways for a process to join other ranks. `run` takes the entrance of the process's launcher. A backend adds its
// own here, and neither `run` nor the backend needs the other's header. comm/mpi.hpp does it like this, and so does any other
// communicator of several processes.
//   inline int join_mine(int& argc, char**& argv, RunOptions const& options, FunctionRef<int(JoinedWorld&)> body) {
//     MyCommunicator own{…};
//     try {
//       JoinedWorld world{own};
//       return body(world);
//     } catch (...) {
//       return detail::end_by(own.rank(), current_error(own.rank(), "the training of a rank"));
//     }
//   }
//   inline char const* mine_claims(detail::Environment variable) { return variable("MY_RANK"); }
//   inline Entrance my_entrance{.name = "mine", .precedence = 30, .claims = mine_claims, .join = join_mine};
//   inline bool const my_entrance_is_known = add_entrance(my_entrance);
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "parallax/comm/any.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/reference.hpp"
#include "parallax/detail/core/type.hpp"
#include "parallax/detail/launch/guard.hpp"

namespace parallax::inline v0_2 {

// Arguments of `run`.
struct RunOptions {
  // Longest wait; a longer one is an Error (timeout).
  std::chrono::nanoseconds deadline = std::chrono::seconds{60};
  // Refuses a world smaller than the launched one.
  bool guard = true;
  // Ranks as threads of a process not launched together with others, unless the command line says a number; 0: one, alone.
  int threads = 0;
};

// A reference to the communicator joined by a rank of this process, of any type. Lives as long as the body runs.
class JoinedWorld {
 public:
  // Local. Refers to `own`, which must outlive it, and not be moved.
  template <Communicator C>
  explicit JoinedWorld(C& own) : any_{std::ref(own)}, own_{&own}, tag_{type_tag<C>()}, type_{name_of_type<C>()} {}

  // Returns the edge over the communicator, owned here.
  AnyCommunicator& any() { return any_; }
  // Returns the communicator itself if it is a C, else null.
  template <class C>
  C* as() const {
    return tag_ == type_tag<C>() ? static_cast<C*>(own_) : nullptr;
  }
  // Returns the name of the communicator's type, for messages.
  std::string_view type() const { return type_; }

 private:
  AnyCommunicator any_;
  void* own_;
  TypeTag tag_;
  std::string_view type_;
};

// A way for processes to join. Has static storage: it is known as long as the program runs.
struct Entrance {
  // Name in messages.
  std::string_view name;
  // Order among entrances: of several that claim a process, the one with the least number joins. MPI has 10, sockets 20.
  int precedence;
  // Returns the value of a variable by which its launcher marks this process as a rank, or null. Looks at the environment.
  char const* (*claims)(detail::Environment variable);
  // Calls `body` once with the joined communicator, and returns the exit code of the process. An error out of `body` is
  // reported on stderr, and the job ends with `abort_code` (end_by of detail/launch/last_words.hpp). Throws Error if joining
  // fails.
  int (*join)(int& argc, char**& argv, RunOptions const& options, FunctionRef<int(JoinedWorld&)> body);
  // Returns the joining library's description of itself, for the choice of an mpiexec; null if there is none.
  std::string (*library)() = nullptr;
  // Entrance added before this one.
  Entrance* next = nullptr;
};

namespace detail {
// Entrance added last.
inline constinit Entrance* last_entrance = nullptr;

// Returns the entrance of this name, or null.
inline Entrance const* entrance_by_name(std::string_view name) {
  Entrance const* entrance = last_entrance;
  while (entrance && entrance->name != name) entrance = entrance->next;
  return entrance;
}

// Returns the entrance for this process: of all that claim it, the one of least precedence; null for none.
inline Entrance const* entrance_of(Environment variable) {
  Entrance const* first = nullptr;
  for (Entrance const* entrance = last_entrance; entrance; entrance = entrance->next)
    if (entrance->claims(variable) && (!first || entrance->precedence < first->precedence)) first = entrance;
  return first;
}

// Returns true if the program has an entrance of this name.
inline bool has_entrance(std::string_view name) { return entrance_by_name(name) != nullptr; }

// Runs `body` and returns the exit code of the process: the body's result if it is an int, else 0.
template <class Body, class World>
int exit_code_of(Body& body, World& world) {
  if constexpr (std::is_same_v<decltype(body(world)), int>) return body(world);
  else return static_cast<void>(body(world)), 0;
}
}  // namespace detail

// Makes an entrance known, before `main` begins, as the initialiser of a variable. Refers to it for good. Returns true.
inline bool add_entrance(Entrance& entrance) {
  entrance.next = std::exchange(detail::last_entrance, &entrance);
  return true;
}

}  // namespace parallax
