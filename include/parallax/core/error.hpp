// The one exception type of the library: what failed, on which rank, in which operation, at which variable.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "parallax/core/text.hpp"

namespace parallax {

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
  misuse,                // a call out of order: a prefetched batch pulled twice, a session destroyed with work in flight
  device,                // a call to the device's runtime failed
};

std::string_view to_string(Errc code);

// Thrown by every operation of the library. `rank` is the rank that caused it (-1 where no single one did), `operation` the
// call ("pull", "step", …), `variable` the variable's name or empty, `detail` the sentence with the offending values.
// When ranks agree on an error, all of them throw the same code, rank, operation, variable and detail. `report`, lines that
// `what` ends with, says of a wait that took too long what every rank was doing.
class Error : public std::runtime_error {
 public:
  Error(Errc code, int rank, std::string_view operation, std::string_view variable, std::string_view detail,
        std::string_view report = {});
  Error(Error const&);
  Error(Error&&) noexcept;
  Error& operator=(Error const&);
  Error& operator=(Error&&) noexcept;
  ~Error() override;

  Errc code() const noexcept { return code_; }
  int rank() const noexcept { return rank_; }
  std::string const& operation() const noexcept { return operation_; }
  std::string const& variable() const noexcept { return variable_; }
  std::string const& detail() const noexcept { return detail_; }
  std::string const& report() const noexcept { return report_; }

 private:
  Errc code_;
  int rank_;
  std::string operation_, variable_, detail_, report_;
};

// The error in flight as one of ours: an Error as it is, bad_alloc as out_of_memory, all else as user_exception.
// Call it inside a catch block.
Error current_error(int rank, std::string_view operation, std::string_view variable = {});

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
  }
  return "unknown error";
}

namespace detail {

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
