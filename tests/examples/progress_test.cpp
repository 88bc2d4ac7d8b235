// Progress bars on terminals of several widths: no update is longer than a line.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "../../benchmarks/parallax_bench/progress.hpp"
#include "../catch.hpp"
#include "progress.hpp"

namespace {

// A terminal of so many columns, which is stderr while it lives, or none of whose columns are known (0).
class Terminal {
 public:
  explicit Terminal(unsigned columns) : before_{::dup(STDERR_FILENO)}, screen_{::posix_openpt(O_RDWR | O_NOCTTY)} {
    REQUIRE(::grantpt(screen_) == 0);
    REQUIRE(::unlockpt(screen_) == 0);
    int const own = ::open(::ptsname(screen_), O_RDWR | O_NOCTTY);
    resize(columns);
    ::dup2(own, STDERR_FILENO);
    ::close(own);
    ::setenv("TERM", "xterm", 1);
  }
  Terminal(Terminal const&) = delete;
  Terminal& operator=(Terminal const&) = delete;
  ~Terminal() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(screen_);
  }

  void resize(unsigned columns) const {
    winsize size{};
    size.ws_row = 24, size.ws_col = static_cast<unsigned short>(columns);
    REQUIRE(::ioctl(screen_, TIOCSWINSZ, &size) == 0);
  }
  // Reads what was written, so that there is room for more; waits so many milliseconds for it.
  void read(int wait = 0) {
    char bytes[4096];
    for (pollfd ready{screen_, POLLIN, 0}; ::poll(&ready, 1, wait) > 0;) {
      auto const count = ::read(screen_, bytes, sizeof bytes);
      if (count <= 0) break;
      written_.append(bytes, static_cast<std::size_t>(count));
    }
  }
  // All that was written since, each update apart, without colours.
  std::vector<std::string> updates() {
    read(100);
    std::string const all = std::exchange(written_, {});
    std::vector<std::string> lines{""};
    for (std::size_t at = 0; at < all.size(); ++at) {
      if (all[at] == '\033') at = all.find_first_of("mK", at);
      else if (all[at] == '\r') lines.emplace_back();
      else lines.back() += all[at];
    }
    lines.erase(lines.begin());
    return lines;
  }

 private:
  int before_, screen_;
  std::string written_;
};

// Returns the columns of the longest update.
std::size_t longest(std::vector<std::string> const& updates) {
  std::size_t most = 0;
  for (std::string const& one : updates) most = std::max(most, example::columns_for(one));
  return most;
}

std::string const title = "3 of 5: tf1_parameter_server  ", remark = "loss 5.123";

std::vector<std::string> train(Terminal& terminal) {
  example::Progress progress{title, 100};
  for (int step = 0; step <= 100; ++step, terminal.read()) progress.update(step, remark);
  return terminal.updates();
}

}  // namespace

TEST_CASE("a bar of an example fits into its terminal, whose last column stays free", "[examples][progress]") {
  for (unsigned const columns : {1u, 5u, 12u, 40u, 60u, 80u, 200u}) {
    Terminal terminal{columns};
    auto const updates = train(terminal);
    CAPTURE(columns, updates.back());
    CHECK(updates.size() == 101);
    CHECK(longest(updates) <= columns - 1);
    for (std::string const& one : updates) CHECK(one.find('\n') == one.npos);
    bool const bar = updates.back().find("█") != std::string::npos;
    CHECK(bar == (columns >= 60));
    if (columns >= 40) CHECK(updates[50].find(title + (bar ? "" : "  50 %")) == 0);
    if (columns >= 80) CHECK(updates[50].find("  50 %  loss 5.123, ETA 0:00") != std::string::npos);
  }
}

TEST_CASE("a bar follows its terminal, and COLUMNS where that does not tell", "[examples][progress]") {
  Terminal terminal{200};
  example::Progress progress{title, 100};
  progress.update(1, remark);
  CHECK(longest(terminal.updates()) > 60);
  terminal.resize(30);
  progress.update(2, remark);
  CHECK(longest(terminal.updates()) == 29);
  terminal.resize(0);
  ::setenv("COLUMNS", "50", 1);
  progress.update(3, remark);
  CHECK(longest(terminal.updates()) == 49);
  ::unsetenv("COLUMNS");
  progress.update(4, remark);
  CHECK(longest(terminal.updates()) <= 79);
  progress.clear();
  CHECK(terminal.updates() == std::vector<std::string>{""});
}

TEST_CASE("a bar of parallax-bench fits into its terminal", "[examples][progress]") {
  for (unsigned const columns : {1u, 5u, 40u, 80u, 200u}) {
    Terminal terminal{columns};
    bench::Progress progress{true};
    progress.begin("8 ranks, naive_parameter_server of a table with a name that is longer than most", 30);
    for (int step = 0; step < 30; ++step, terminal.read()) progress.advance();
    auto const updates = terminal.updates();
    CAPTURE(columns, updates.back());
    CHECK(updates.size() == 31);
    CHECK(longest(updates) <= columns - 1);
  }
}
