// Bodies of parallax/detail/launch/last_words.hpp.
#pragma once

#include "parallax/detail/launch/last_words.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void say(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

PARALLAX_INLINE void say_and_linger(std::string_view text) {
  say(text);
  sleep_for(std::chrono::milliseconds{50});
}

PARALLAX_INLINE std::string last_line(int rank, std::string_view reason) {
  return joined({"parallax: rank ", rank, " ends the job (exit code ", abort_code, "): ", reason, "\n"});
}

PARALLAX_INLINE BriefLine::BriefLine(int rank, std::string_view reason) {
  std::snprintf(line_, sizeof line_, "parallax: rank %d ends the job (exit code %d): %.*s\n", rank, abort_code,
                static_cast<int>(reason.size() < 300 ? reason.size() : 300), reason.data());
}

PARALLAX_INLINE std::string told_before(int rank, Error const& error) {
  if (error.report().empty()) return {};
  return joined({"parallax: when rank ", rank, " gave up:", error.report(), "\n"});
}

PARALLAX_INLINE std::string_view sentence_of(Error const& error) {
  std::string_view sentence = error.what();
  sentence.remove_suffix(error.report().size());
  return sentence;
}

PARALLAX_INLINE void end_child(Birth const& birth, int rank) {
  if (!birth.in_child()) return;
  char line[400];
  std::snprintf(line, sizeof line, "parallax: a forked child of rank %d ends (exit code 1): %.300s\n", rank,
                current_error(rank, "a child").detail().c_str());
  say(line);
  ::_exit(1);
}

PARALLAX_INLINE int end_by(int rank, Error const& error) {
  try {
    say_and_linger(told_before(rank, error) + last_line(rank, sentence_of(error)));
  } catch (std::bad_alloc const&) {
    say_and_linger(BriefLine{rank, sentence_of(error)});
  }
  return abort_code;
}

}  // namespace parallax::detail
