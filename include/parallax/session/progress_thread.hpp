// A thread for the progress of a session while the rank computes, for trainers who cannot call `poll` between layers.
#pragma once

#include <thread>

#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/own_thread.hpp"

namespace parallax::inline v0_2 {

// A session open to the help of a second thread: Session, and AsyncSession.
//   take_turns(on)   before the thread begins, and after it has ended: from then on the session's operations take a lock
//                    that `help` tries, or take none
//   begin_help()     by the thread, first
//   help()           by the thread, again and again; throws nothing
template <class S>
concept TakesTurns = requires(S& session) {
  session.take_turns(true);
  session.begin_help();
  { session.help() }
  noexcept;
};

// While it lives, started updates and rows named ahead progress without `poll`, and an owner serves the workers of an
// AsyncSession; operations of the session wait for their turn, some microseconds at most. Local: some ranks may have one and
// others not, and no bit of a Session depends on it. Refers to the session. A core of its own serves it best: on the core of
// the computing rank it takes as much as it gives. It looks every `interval`; a failure meanwhile ends the session, whose next
// operation throws it as Error (poisoned). While updates are in flight `traffic()` is not to be read, nor a BoundStep called.
// Must not outlive the session, which is not moved meanwhile.
template <TakesTurns S>
class ProgressThread {
 public:
  // Local. Begins the thread. Throws Error (misuse) if the communicator is bound to its maker's thread: MPI without
  // MPI_THREAD_SERIALIZED; out_of_memory if the system makes none. The destructor stops the thread, and waits for it.
  explicit ProgressThread(S& session, std::chrono::microseconds interval = std::chrono::microseconds{20})
      : turns_{session}, thread_{[&session, interval](detail::StopToken stop) {
          session.begin_help();
          while (!stop.stop_requested()) {
            session.help();
            std::this_thread::sleep_for(interval);
          }
        }} {}
  ProgressThread(ProgressThread const&) = delete;
  ProgressThread& operator=(ProgressThread const&) = delete;

 private:
  // First made, last gone: the session's operations take turns with the thread.
  struct Turns {
    explicit Turns(S& of) : session{of} { session.take_turns(true); }
    ~Turns() { session.take_turns(false); }
    S& session;
  } turns_;
  detail::OwnThread thread_;
};

}  // namespace parallax
