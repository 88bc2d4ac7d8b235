// The one exception type of the library: what failed, on which rank, in which operation, at which variable. Every room that can
// refuse something includes it.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "parallax/core/config.hpp"
#include "parallax/core/text.hpp"

namespace parallax {

// What kind of failure an Error is of. Programs branch on it; the sentence in `detail` is for people.
enum class Errc : int {
  invalid_argument = 1,  // a size, shape or option that makes no sense; nothing was sent
  bad_id,                // an index outside [0, rows)
  mismatch,              // the ranks disagree on what they are doing
  out_of_memory,         // an allocation failed
  user_exception,        // code of the user (a transform, an initialiser, the training loop) threw
  timeout,               // a wait outlasted the communicator's deadline
  transport,             // the communicator reported a failure
  aborted,               // a peer left by an exception that is not ours
  poisoned,              // the session failed half way earlier and cannot be used again
  non_finite,            // a gradient holds a number that is infinite or not one, and the session was told to refuse it
  misuse,                // a call out of order: a handle stepped twice, a session destroyed with work in flight
  device,                // a call to the device's runtime failed
  file,                  // a file or a folder could not be read or written, or is not what it says
};

// A code in words, as the text of an Error begins with it: "bad id" for Errc::bad_id.
std::string_view to_string(Errc code);

// Thrown by every operation of the library. `rank` is the rank that caused it (-1 where no single one did), `operation` the
// call ("pull", "step", …), `variable` the variable's name or empty, `detail` the sentence with the offending values.
// When ranks agree on an error, all of them throw the same code, rank, operation, variable and detail. `report`, lines that
// `what` ends with, says of a wait that took too long what every rank was doing.
class Error : public std::runtime_error {
 public:
  // Makes the text of `what()` from its parts: "parallax: CODE (rank R) in OPERATION of 'VARIABLE': DETAIL", and `report`
  // behind it. Rank, operation and variable are left out where they are -1 or empty. Copies what it is given.
  PARALLAX_COLD Error(Errc code, int rank, std::string_view operation, std::string_view variable, std::string_view detail,
                      std::string_view report = {});
  // Copies and moves do what a compiler's own would; they are declared so that the library parallax::compiled has them once.
  Error(Error const&);
  // Leaves `other` to be destroyed or assigned to.
  Error(Error&&) noexcept;
  // Takes over all parts, and the text.
  Error& operator=(Error const&);
  // The same from an error that is given up.
  Error& operator=(Error&&) noexcept;
  ~Error() override;

  // The kind of failure.
  Errc code() const noexcept { return code_; }
  // The rank that caused it, by its number in the communicator, or -1 where no single one did.
  int rank() const noexcept { return rank_; }
  // The call that failed as a user knows it: "pull", "step", "visit", ….
  std::string const& operation() const noexcept { return operation_; }
  // The name of the variable concerned; empty where none is.
  std::string const& variable() const noexcept { return variable_; }
  // The sentence with the offending values, without what the other members say.
  std::string const& detail() const noexcept { return detail_; }
  // What every rank was doing when a wait took too long; lines that end `what()`. Else empty.
  std::string const& report() const noexcept { return report_; }

 private:
  Errc code_;
  int rank_;
  std::string operation_, variable_, detail_, report_;
};

// The error in flight as one of ours: an Error as it is, bad_alloc as out_of_memory, all else as user_exception. Call it inside
// a catch block. `rank`, `operation` and `variable` are those of an error that is made here; an Error in flight keeps its own.
PARALLAX_COLD Error current_error(int rank, std::string_view operation, std::string_view variable = {});

#if PARALLAX_BODIES
PARALLAX_INLINE std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::invalid_argument: return "invalid argument";
    case Errc::bad_id: return "bad id";
    case Errc::mismatch: return "mismatch between ranks";
    case Errc::out_of_memory: return "out of memory";
    case Errc::user_exception: return "exception in user code";
    case Errc::timeout: return "timeout";
    case Errc::transport: return "transport failure";
    case Errc::aborted: return "aborted by a peer";
    case Errc::poisoned: return "session poisoned";
    case Errc::non_finite: return "non-finite gradient";
    case Errc::misuse: return "misuse";
    case Errc::device: return "device failure";
    case Errc::file: return "file";
  }
  return "unknown error";
}

namespace detail {

// The text of `what()`, which is made before the Error's own members are.
inline std::string error_text(Errc code, int rank, std::string_view operation, std::string_view variable,
                              std::string_view detail, std::string_view report) {
  std::string text = joined({"parallax: ", to_string(code)});
  if (rank >= 0) append(text, {" (rank ", rank, ")"});
  if (!operation.empty()) append(text, {" in ", operation});
  if (!variable.empty()) append(text, {" of '", variable, "'"});
  append(text, {": ", detail, report});
  return text;
}

}  // namespace detail

PARALLAX_INLINE Error::Error(Errc code, int rank, std::string_view operation, std::string_view variable,
                             std::string_view detail, std::string_view report)
    : std::runtime_error{detail::error_text(code, rank, operation, variable, detail, report)},
      code_{code},
      rank_{rank},
      operation_{operation},
      variable_{variable},
      detail_{detail},
      report_{report} {}
PARALLAX_INLINE Error::Error(Error const&) = default;
PARALLAX_INLINE Error::Error(Error&&) noexcept = default;
PARALLAX_INLINE Error& Error::operator=(Error const&) = default;
PARALLAX_INLINE Error& Error::operator=(Error&&) noexcept = default;
PARALLAX_INLINE Error::~Error() = default;

PARALLAX_INLINE Error current_error(int rank, std::string_view operation, std::string_view variable) {
  try {
    throw;
  } catch (Error const& error) {
    return error;
  } catch (std::bad_alloc const&) {
    return {Errc::out_of_memory, rank, operation, variable, "an allocation failed"};
  } catch (std::exception const& error) {
    return {Errc::user_exception, rank, operation, variable, error.what()};
  } catch (...) {
    return {Errc::user_exception, rank, operation, variable, "an exception that is no std::exception"};
  }
}
#endif

}  // namespace parallax
