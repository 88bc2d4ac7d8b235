// What an Error says, and how exceptions of every kind become one.
#include "parallax/core/error.hpp"

#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "../catch.hpp"
#include "../support/allocation_counter.hpp"

namespace px = parallax;

namespace {

template <class Throw>
px::Error caught(Throw&& throwing) {
  try {
    throwing();
  } catch (...) {
    return px::current_error(3, "step", "words");
  }
  throw std::logic_error{"nothing was thrown"};
}

}  // namespace

TEST_CASE("an error's text holds code, rank, operation, variable and detail", "[core][error]") {
  px::Error const error{px::Errc::bad_id, 2, "pull", "words", "index 7 is outside [0, 5)"};
  CHECK(std::string{error.what()} == "parallax: bad id (rank 2) in pull of 'words': index 7 is outside [0, 5)");
  CHECK(error.code() == px::Errc::bad_id);
  CHECK(error.rank() == 2);
  CHECK(error.operation() == "pull");
  CHECK(error.variable() == "words");
  CHECK(error.detail() == "index 7 is outside [0, 5)");
}

TEST_CASE("an error's text leaves out what there is not", "[core][error]") {
  CHECK(std::string{px::Error{px::Errc::timeout, -1, "", "", "too late"}.what()} == "parallax: timeout: too late");
  CHECK(std::string{px::Error{px::Errc::timeout, 0, "step", "", "x"}.what()} == "parallax: timeout (rank 0) in step: x");
}

TEST_CASE("every code has a text of its own", "[core][error]") {
  std::set<std::string_view> texts;
  int const last = static_cast<int>(px::Errc::file);
  for (int code = 1; code <= last; ++code) texts.insert(px::to_string(static_cast<px::Errc>(code)));
  CHECK(texts.size() == static_cast<std::size_t>(last));
  CHECK(texts.count("unknown error") == 0);
  CHECK(px::to_string(static_cast<px::Errc>(last + 1)) == "unknown error");
}

TEST_CASE("an Error in flight stays what it is, all else becomes one", "[core][error]") {
  auto const own = caught([] { throw px::Error{px::Errc::transport, 1, "pull", "x", "cut"}; });
  CHECK(own.code() == px::Errc::transport);
  CHECK(own.rank() == 1);
  CHECK(own.detail() == "cut");

  auto const nobodys = caught([] { throw px::Error{px::Errc::mismatch, -1, "pull", "x", "two sizes"}; });
  CHECK(nobodys.rank() == -1);
  auto const lack = caught([] { throw px::Error{px::Errc::out_of_memory, -1, "SharedSpace", "", "too many open files"}; });
  CHECK(lack.rank() == 3);
  CHECK(std::string{lack.what()} == "parallax: out of memory (rank 3) in SharedSpace: too many open files");

  auto const memory = caught([] { throw std::bad_alloc{}; });
  CHECK(memory.code() == px::Errc::out_of_memory);
  CHECK(memory.rank() == 3);
  CHECK(memory.operation() == "step");
  CHECK(memory.variable() == "words");

  auto const user = caught([] { throw std::out_of_range{"no such key"}; });
  CHECK(user.code() == px::Errc::user_exception);
  CHECK(user.detail() == "no such key");

  auto const odd = caught([] { throw 42; });
  CHECK(odd.code() == px::Errc::user_exception);
  CHECK(odd.detail() == "an exception that is no std::exception");
}

TEST_CASE("copying an error copies all of it", "[core][error]") {
  px::Error const error{px::Errc::mismatch, 2, "step", "w", "detail"};
  px::Error copy = error;
  CHECK(std::string{copy.what()} == error.what());
  copy = px::Error{px::Errc::misuse, 0, "", "", ""};
  CHECK(copy.code() == px::Errc::misuse);
  CHECK(std::is_base_of_v<std::runtime_error, px::Error>);
}

TEST_CASE("an Error without memory for its words has code and rank, and says as much as it can", "[core][error]") {
  std::string const variable(60, 'v'), detail(200, 'd');
  px::Error const whole{px::Errc::mismatch, 2, "save_async", variable, detail, "\nrank 0 waits"};
  for (std::int64_t k = 0; k < 6; ++k) {
    parallax_test::failing_lasts = true;
    std::optional<px::Error> brief;
    {
      parallax_test::FailingAllocation const failing{k};
      brief.emplace(px::Errc::mismatch, 2, "save_async", variable, detail, "\nrank 0 waits");
      px::Error copy{whole};  // which needs no memory
      copy = *brief;
      brief = copy;
      copy = whole;
      if (copy.detail() != detail) brief.reset();
    }
    parallax_test::failing_lasts = false;
    REQUIRE(brief);
    CAPTURE(k);
    CHECK(brief->code() == px::Errc::mismatch);
    CHECK(brief->rank() == 2);
    std::string const text = brief->what();
    if (text == whole.what()) continue;
    CHECK(text.size() > 100);
    CHECK(std::string{whole.what()}.starts_with(text));
    CHECK(brief->detail() == "no memory left");
    CHECK((brief->operation() + brief->variable() + brief->report()).empty());
  }
  CHECK(whole.report() == "\nrank 0 waits");
  CHECK(std::string{whole.what()}.ends_with(detail + "\nrank 0 waits"));
}

TEST_CASE("what is thrown without memory is still out_of_memory of that rank", "[core][error]") {
  parallax_test::failing_lasts = true;
  std::optional<px::Error> error;
  {
    parallax_test::FailingAllocation const failing{0};
    error = caught([] { throw std::bad_alloc{}; });
  }
  parallax_test::failing_lasts = false;
  CHECK(error->code() == px::Errc::out_of_memory);
  CHECK(std::string{error->what()} == "parallax: out of memory (rank 3) in step of 'words': an allocation failed");
}
