// How a program ends whose rank left by an error: its exit code, and the last line on stderr. `run` says it of threads and of a
// rank that is alone, comm/mpi.hpp of the ranks of a job.
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

// A program that this library ends, ends with this exit code, after one report on stderr.
inline constexpr int abort_code = 86;

namespace detail {

// To stderr, at once.
void say(std::string_view text);
// The same, by a process that then ends, and has perhaps just been started: it waits for 50 ms, so that whoever starts it can pass
// its words on. The mpiexec of MPICH 4.0 dies of SIGPIPE where all processes have ended before it has started them, one time in a
// hundred, and with it go their words and the exit code; 10 ms were enough for it.
void say_and_linger(std::string_view text);

// A line: which rank ends the job, with which exit code, and why.
std::string last_line(int rank, std::string_view reason);
// A line of text without memory: the beginning of it, on the stack.
class BriefLine {
 public:
  BriefLine(int rank, std::string_view reason);
  operator std::string_view() const { return line_; }

 private:
  char line_[400];
};
// What an error says of every rank, for the lines before the last one. Nothing, where it has no report.
std::string told_before(int rank, Error const& error);
// What an error says, without its report. Refers to the error.
std::string_view sentence_of(Error const& error);

// Ends a forked child of the rank's here, with exit code 1 and a line on stderr: neither the rank's peers nor the rest of the
// program is its own. Elsewhere it returns. Called while an exception is handled that has left the rank's body.
void end_child(Birth const& birth, int rank);

// Says the last words of `rank`, and returns what the process is to exit with. A backend whose ranks end alone returns it from
// `join`.
int end_by(int rank, Error const& error);

}  // namespace detail
}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/last_words-inl.hpp"
#endif
