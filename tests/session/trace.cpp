// Traces of a session: every phase of every operation, in order, in a format that browsers read.
#include "parallax/session/trace.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::trace {
namespace {

// What stands behind `"key": ` in a line.
std::string value_of(std::string const& line, std::string const& key) {
  std::size_t const begin = line.find('"' + key + "\": ");
  if (begin == line.npos) return {};
  std::size_t const at = begin + key.size() + 4;
  return line.substr(at, line.find_first_of(",}", at) - at);
}
// Microseconds with three decimals, as nanoseconds: doubles' sums of them would differ in the last bit.
long long ns_of(std::string us) {
  us.erase(us.find('.'), 1);
  return std::stoll(us);
}
std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::vector<std::string> traces(std::size_t capacity) {
  return on_ranks(3, [capacity](px::ThreadCommunicator& world) {
    px::Session session{px::Topology{world, {0, 0, 1}}};
    px::Variable<px::Sparse> words{session, "words", {9, 2}};
    std::vector<int> const ids{1, 8};
    std::vector<float> const gradient(4, 0.5f);
    std::string events;
    {
      px::Trace const trace{session, capacity};
      auto const rows = session.pull(words, ids);
      session.step(px::grad(rows, gradient));
      session.poll(), session.poll();  // are no operations
      events = trace.events();
      if (trace.dropped() > 0) events = std::to_string(trace.dropped()) + " dropped";
    }
    session.step(px::grad(words, ids, gradient));  // is in no trace
    session.finish();
    return events;
  });
}

}  // namespace

TEST_CASE("a trace has every phase of every operation, of every rank at its host", "[session][trace]") {
  auto const all = traces(100);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    auto const lines = lines_of(all[rank]);
    std::vector<std::string> names;
    long long last = 0;
    for (auto const& line : lines) {
      names.push_back(value_of(line, "name"));
      CHECK(value_of(line, "ph") == "\"X\"");
      CHECK(value_of(line, "tid") == std::to_string(rank));
      CHECK(value_of(line, "pid") == (rank < 2 ? "0" : "1"));
      long long const began = ns_of(value_of(line, "ts")), took = ns_of(value_of(line, "dur"));
      CHECK(took >= 0);
      CHECK(began + took >= last);
      last = began + took;
    }
    CHECK(names == std::vector<std::string>{"\"called\"", "\"agreeing\"", "\"exchanging\"", "\"pull\"", "\"called\"", "\"agreeing\"",
                                            "\"exchanging\"", "\"committing\"", "\"applying\"", "\"step\""});
    CHECK(value_of(lines.back(), "bytes") != "0");
  }
}

TEST_CASE("events that find no room are counted, and nothing fails", "[session][trace]") {
  for (auto const& text : traces(3)) CHECK(text == "7 dropped");
}

}  // namespace parallax_test::trace
