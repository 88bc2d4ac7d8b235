// What a policy with a wire is expected to send by the prediction that it inherits, beside what it sends.
#include <string_view>
#include <vector>

#include "../catch.hpp"
#include "../support/bf16_wire.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

template <class Policy>
struct Halved {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Halved";
  template <class Kind>
  struct exchange : Policy::template exchange<Kind> {
    using wire = parallax_test::Bf16Wire;
  };
};

struct Bytes {
  double predicted, sent;
};

template <class Variable>
double predicted(Variable const& variable, int ranks) {
  auto const told = variable.state().description();
  return told.predict(told.facts, told.use, px::RankShape{static_cast<double>(ranks), 1}, px::Costs{}).bytes * ranks;
}

// Of one step on 4 ranks, all of them together.
template <class Policy>
Bytes of_dense() {
  Bytes bytes{0, 0};
  std::vector<std::uint64_t> sent(4);
  px::run_threads(4, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> values(64), gradient(64, 1.0f);
    px::Variable<px::Dense, Policy> layer{session, "layer", px::bind(values)};
    session.step(px::grad(layer, gradient));
    sent[static_cast<std::size_t>(world.rank())] = session.traffic().payload_sent();
    if (world.rank() == 0) bytes.predicted = predicted(layer, 4);
    session.finish();
  });
  for (auto const of_rank : sent) bytes.sent += static_cast<double>(of_rank);
  return bytes;
}
template <class Policy>
Bytes of_rows() {
  Bytes bytes{0, 0};
  std::vector<std::uint64_t> sent(4);
  px::run_threads(4, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, Policy, px::Index<std::int32_t>> table{session, "table", {64, 8}};
    std::vector<int> ids(64);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
    std::vector<float> const gradient(64 * 8, 1.0f);
    session.step(px::grad(table, ids, gradient));
    sent[static_cast<std::size_t>(world.rank())] = session.traffic().payload_sent();
    if (world.rank() == 0) bytes.predicted = predicted(table, 4);
    session.finish();
  });
  for (auto const of_rank : sent) bytes.sent += static_cast<double>(of_rank);
  return bytes;
}

}  // namespace

TEST_CASE("an inherited prediction counts the bytes of the wire", "[policy][wire]") {
  Bytes const full = of_dense<px::AllReduce>(), half = of_dense<Halved<px::AllReduce>>(),
              owned = of_dense<Halved<px::PsShard>>();
  CHECK(full.predicted == full.sent);
  CHECK(half.predicted == half.sent);
  CHECK(owned.predicted == owned.sent);
  CHECK(half.sent < full.sent);
  Bytes const rows = of_rows<px::PsShard>(), half_rows = of_rows<Halved<px::PsShard>>();
  CHECK(rows.predicted == rows.sent);
  CHECK(half_rows.predicted == half_rows.sent);
  Bytes const gathered = of_rows<px::AllGather>(), half_gathered = of_rows<Halved<px::AllGather>>();
  CHECK(gathered.predicted == gathered.sent);
  CHECK(half_gathered.predicted == half_gathered.sent);
}
