// Bodies of parallax/core/error.hpp.
#pragma once

#include "parallax/core/error.hpp"

namespace parallax::inline v0_2 {

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

}  // namespace parallax

namespace parallax::inline v0_2::detail {

// A text in given memory. Appends as many characters as fit, and allocates nothing.
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

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

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

}  // namespace parallax
