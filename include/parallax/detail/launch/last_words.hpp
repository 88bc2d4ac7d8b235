// The end of a program after the error of a rank: its exit code, and the last line on stderr. `run` says it of threads and of a
// rank alone, comm/mpi.hpp of the ranks of a job.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2 {

// Exit code of a program ended by this library, after one report on stderr.
inline constexpr int abort_code = 86;

namespace detail {

// Writes to stderr, at once.
void say(std::string_view text);
// Writes to stderr, by a process that then ends, and has perhaps just been started. Waits for 50 ms, so its launcher can pass
// the words on. The mpiexec of MPICH 4.0 dies of SIGPIPE if all processes have ended before it has started them, one time in a
// hundred. Their words and the exit code are lost with it; 10 ms were enough for it.
void say_and_linger(std::string_view text);

// Returns a line with the rank that ends the job, the exit code, and the reason.
std::string last_line(int rank, std::string_view reason);
// The text of `last_line` without an allocation: the beginning of it, in this object.
class BriefLine {
 public:
  BriefLine(int rank, std::string_view reason);
  operator std::string_view() const { return line_; }

 private:
  char line_[400];
};
// Returns an error's report on every rank, for the lines before the last one. Empty if it has none.
std::string told_before(int rank, Error const& error);
// Returns an error's words without its report. Refers to the error.
std::string_view sentence_of(Error const& error);

// Ends a forked child of the rank's here, with exit code 1 and a line on stderr: neither the rank's peers nor the rest of the
// program is its own. Elsewhere it returns. Called in the handler of an exception out of the rank's body.
void end_child(Birth const& birth, int rank);

// Says the last words of `rank`, lingers, and returns `abort_code`. A backend whose ranks end alone returns it from `join`.
int end_by(int rank, Error const& error);

}  // namespace detail
}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/last_words-inl.hpp"
#endif
