// The entrances by which a process joins other ranks, of which `run` takes the one whose launcher started it. A backend adds its
// own here, and neither `run` nor the backend needs the other's header: comm/mpi.hpp does it like this, and so does any other
// communicator that processes join.
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

// What `run` is called with.
struct RunOptions {
  // How long a wait may last before it is an Error (timeout).
  std::chrono::nanoseconds deadline = std::chrono::seconds{60};
  // Whether a world that is smaller than what was launched is refused.
  bool guard = true;
  // Ranks as threads of a process that nobody launched together with others, where the command line says nothing; 0: one, alone.
  int threads = 0;
};

// The communicator that a rank of this process has joined, of whichever type. Refers to it; lives as long as the body runs.
class JoinedWorld {
 public:
  // Local. `own` must stay where it is.
  template <Communicator C>
  explicit JoinedWorld(C& own) : any_{std::ref(own)}, own_{&own}, tag_{type_tag<C>()}, type_{name_of_type<C>()} {}

  // The edge over it.
  AnyCommunicator& any() { return any_; }
  // The communicator itself where it is a C, else null.
  template <class C>
  C* as() const {
    return tag_ == type_tag<C>() ? static_cast<C*>(own_) : nullptr;
  }
  // The name of its type.
  std::string_view type() const { return type_; }

 private:
  AnyCommunicator any_;
  void* own_;
  TypeTag tag_;
  std::string_view type_;
};

// A way for processes to join. Has static storage: it is known as long as the program runs.
struct Entrance {
  // As sentences name it.
  std::string_view name;
  // Of several entrances that claim a process, the one with the least number joins: MPI has 10, and sockets may have 20.
  int precedence;
  // The variable of its launcher, which says that this process is one of its ranks, or null. Looks at nothing but the environment.
  char const* (*claims)(detail::Environment variable);
  // Calls `body` once with the communicator that was joined, and returns what the process is to exit with. What leaves `body`
  // is said on stderr, and the job ends with `abort_code` (end_by of detail/launch/last_words.hpp). What cannot be joined is an
  // Error.
  int (*join)(int& argc, char**& argv, RunOptions const& options, FunctionRef<int(JoinedWorld&)> body);
  // What the library by which it joins says of itself, for who is to start its ranks; null where there is nothing to be said.
  std::string (*library)() = nullptr;
  // The entrance that was added before.
  Entrance* next = nullptr;
};

namespace detail {
// The entrance that was added last.
inline constinit Entrance* last_entrance = nullptr;

// The one of that name, or null.
Entrance const* entrance_by_name(std::string_view name);

// The one that joins: of those that claim the process, the one that comes first; null for none.
Entrance const* entrance_of(Environment variable);

// Whether the program has an entrance of that name.
inline bool has_entrance(std::string_view name) { return entrance_by_name(name) != nullptr; }

// What a body says that the process is to exit with: what it returns, if that is an int, else 0.
template <class Body, class World>
int exit_code_of(Body& body, World& world) {
  if constexpr (std::is_same_v<decltype(body(world)), int>) return body(world);
  else return static_cast<void>(body(world)), 0;
}
}  // namespace detail

// Makes an entrance known, before `main` begins, as the initialiser of a variable. Always true.
bool add_entrance(Entrance& entrance);

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/entrances-inl.hpp"
#endif
