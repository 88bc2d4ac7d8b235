// The one exception type of the library: the failure, its rank, its operation, its variable. Every room that can refuse
// something includes it.
#pragma once

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2 {

// The kind of failure of an Error. Programs branch on it; the sentence in `detail` is for people.
enum class Errc : int {
  invalid_argument = 1,  // a senseless size, shape or option; nothing was sent
  bad_id,                // an index outside [0, rows)
  mismatch,              // the ranks disagree on their present operation
  out_of_memory,         // an allocation failed
  user_exception,        // code of the user (a transform, an initialiser, the training loop) threw
  timeout,               // a wait outlasted the communicator's deadline
  transport,             // the communicator reported a failure
  aborted,               // a peer left by an exception other than ours
  poisoned,              // the session failed half way earlier and cannot be used again
  non_finite,            // a gradient holds an infinite number or a NaN, and the session was told to refuse it
  misuse,                // a call out of order: a handle stepped twice, a session destroyed with work in flight
  device,                // a call to the device's runtime failed
  file,                  // a file or a folder could not be read or written, or does not hold the promised contents
};

// Returns a code in words, as the text of an Error begins with it: "bad id" for Errc::bad_id.
std::string_view to_string(Errc code);

// Thrown by every operation of the library. `rank` is the rank that caused it (-1 without a single one), `operation` the call
// ("pull", "step", …), `variable` the variable's name or empty, `detail` the sentence with the offending values.
// When ranks agree on an error, all of them throw the same code, rank, operation, variable and detail. `report`, the last lines
// of `what`, has every rank's activity during an overlong wait.
// Copies share their words, and need no memory. Without memory for the words either, an Error has code and rank, `what` has the
// beginning of its text, and the other parts are empty but for `detail`, which says so.
class Error : public std::runtime_error {
 public:
  // Makes the text of `what()` from its parts: "parallax: CODE (rank R) in OPERATION of 'VARIABLE': DETAIL", and `report`
  // behind it. Rank, operation and variable are left out if they are -1 or empty. Copies its arguments.
  PARALLAX_COLD Error(Errc code, int rank, std::string_view operation, std::string_view variable, std::string_view detail,
                      std::string_view report = {}) noexcept;
  // Becomes one more owner of the words.
  Error(Error const&) noexcept;
  // Shares the words of `other`, and leaves its own.
  Error& operator=(Error const&) noexcept;
  ~Error() override;

  // Returns the whole text made by the constructor.
  char const* what() const noexcept override;
  // Returns the kind of failure.
  Errc code() const noexcept { return code_; }
  // Returns the rank that caused it, by its number in the communicator, or -1 without a single one.
  int rank() const noexcept { return rank_; }
  // Returns the failed call as a user knows it: "pull", "step", "visit", ….
  std::string const& operation() const noexcept { return words().operation; }
  // Returns the name of the variable concerned; empty without one.
  std::string const& variable() const noexcept { return words().variable; }
  // Returns the sentence with the offending values, without the parts in the other members.
  std::string const& detail() const noexcept { return words().detail; }
  // Returns every rank's activity during an overlong wait; lines that end `what()`. Else empty.
  std::string const& report() const noexcept { return words().report; }

 private:
  struct Words {
    std::string text, operation, variable, detail, report;
    int owners;  // counted under any thread
  };
  // Returns its words, or, without any, the words of an Error without memory for its own.
  Words const& words() const noexcept;

  Words* words_ = nullptr;
  Errc code_;
  int rank_;
  char brief_[120];  // the text if there are no words
};

// Returns the error in flight as one of ours: an Error as it is, bad_alloc as out_of_memory, all else as user_exception. Call
// it inside a catch block. `rank`, `operation` and `variable` are those of an error made here; an Error in flight keeps its
// own, but a lack of memory without a rank is given `rank`.
PARALLAX_COLD Error current_error(int rank, std::string_view operation, std::string_view variable = {});

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/core/error-inl.hpp"
#endif
