// The one exception type of the library: the failure, its rank, its operation, its variable. Every room that can refuse
// something includes it.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax {

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

// A code in words, as the text of an Error begins with it: "bad id" for Errc::bad_id.
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

// Appends to characters as much as fits, and needs no memory.
class BriefText {
 public:
  // Begins a text. The last of so many characters will be a zero.
  BriefText(char* begin, std::size_t size) : at_{begin}, end_{begin + size - 1} { *at_ = 0; }
  void operator+=(std::string_view words) {
    for (char const letter : words)
      if (at_ != end_) *at_++ = letter;
    *at_ = 0;
  }

 private:
  char *at_, *end_;
};

// Puts the text of `what()` together, part by part at the end of `text`.
PARALLAX_COLD inline void add_error_text(void* text, void (*add)(void* text, std::string_view words), Errc code, int rank,
                                         std::string_view operation, std::string_view variable, std::string_view detail) {
  char digits[12] = {};
  char* first = digits + 11;
  for (int left = rank; left > 0 || first == digits + 11; left /= 10) *--first = static_cast<char>('0' + left % 10);
  bool const ranked = rank >= 0, named = !operation.empty(), of = !variable.empty();
  for (std::string_view const words :
       {std::string_view{"parallax: "}, to_string(code), std::string_view{ranked ? " (rank " : ""},
        std::string_view{ranked ? first : ""}, std::string_view{ranked ? ")" : ""}, std::string_view{named ? " in " : ""},
        operation, std::string_view{of ? " of '" : ""}, variable, std::string_view{of ? "': " : ": "}, detail})
    add(text, words);
}
template <class Text>
void add_words(void* text, std::string_view words) {
  *static_cast<Text*>(text) += words;
}

}  // namespace detail

PARALLAX_INLINE Error::Error(Errc code, int rank, std::string_view operation, std::string_view variable,
                             std::string_view detail, std::string_view report) noexcept
    : std::runtime_error{""}, code_{code}, rank_{rank}, brief_{} {
  try {
    Words* const words = new Words{{}, {}, {}, {}, {}, 1};
    words_ = words;
    words->operation = operation, words->variable = variable, words->detail = detail, words->report = report;
    parallax::detail::add_error_text(&words->text, parallax::detail::add_words<std::string>, code, rank, operation, variable,
                                     detail);
    words->text += report;
  } catch (...) {  // no memory
    delete std::exchange(words_, nullptr);
    parallax::detail::BriefText text{brief_, sizeof brief_};
    parallax::detail::add_error_text(&text, parallax::detail::add_words<parallax::detail::BriefText>, code, rank, operation,
                                     variable, detail);
  }
}
PARALLAX_INLINE Error::Error(Error const& other) noexcept
    : std::runtime_error{other}, words_{other.words_}, code_{other.code_}, rank_{other.rank_} {
  std::memcpy(brief_, other.brief_, sizeof brief_);
  if (words_) __atomic_add_fetch(&words_->owners, 1, __ATOMIC_RELAXED);
}
PARALLAX_INLINE Error& Error::operator=(Error const& other) noexcept {
  Error copy{other};
  std::swap(words_, copy.words_);
  code_ = other.code_, rank_ = other.rank_;
  std::memcpy(brief_, copy.brief_, sizeof brief_);
  return *this;
}
PARALLAX_INLINE Error::~Error() {
  if (words_ && __atomic_sub_fetch(&words_->owners, 1, __ATOMIC_ACQ_REL) == 0) delete words_;
}
PARALLAX_INLINE char const* Error::what() const noexcept { return words_ ? words_->text.c_str() : brief_; }
PARALLAX_INLINE Error::Words const& Error::words() const noexcept {
  static Words const none{{}, {}, {}, "no memory left", {}, 1};  // short enough for a std::string without memory
  return words_ ? *words_ : none;
}

PARALLAX_INLINE Error current_error(int rank, std::string_view operation, std::string_view variable) {
  try {
    throw;
  } catch (Error const& error) {
    if (error.code() != Errc::out_of_memory || error.rank() >= 0) return error;
    return {error.code(), rank, error.operation(), error.variable(), error.detail(), error.report()};
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
