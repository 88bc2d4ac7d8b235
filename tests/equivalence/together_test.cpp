// Variables of every kind, policy, scalar and optimizer in one session, as a user writes it: each moves as it would alone.
#include <tuple>

#include "alone.hpp"

using namespace parallax_test;

TEST_CASE("variables of every kind move in one step as each would alone", "[equivalence][together]") {
  constexpr int steps = 25;
  auto const hosts = GENERATE(std::vector<int>{}, std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 1, 0, 0});
  int const ranks = hosts.empty() ? 3 : static_cast<int>(hosts.size());
  INFO(ranks << " ranks" << (hosts.empty() ? "" : " on two hosts"));

  auto const plain = alone_layer<float>(37, 401);
  auto const sharded = alone_layer<double>(11, 402);
  auto const words = alone_table<float>(50, 4, 403, Way::handle);
  auto const tags = alone_table<double>(23, 1, 404, Way::distinct);
  auto const small = alone_table<float>(9, 5, 405, Way::ids);
  auto const naive = alone_table<float>(71, 2, 406, Way::handle);
  auto const count = static_cast<std::size_t>(ranks);
  std::vector<Diary<float>> of_plain(count), of_words(count), of_small(count), of_naive(count);
  std::vector<Diary<double>> of_sharded(count), of_tags(count);

  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    using enum px::Reduce;
    px::Session session{hosts.empty() ? px::Topology{world} : px::Topology{world, hosts}};
    Kept<px::Variable<px::Dense>> a{session, "plain", plain, mean};
    Kept<px::Variable<px::Dense, px::PsShard, px::Adam, double>> b{session, "sharded", sharded, sum};
    Kept<px::Variable<px::Sparse, px::Adagrad>> c{session, "words", words, mean};
    Kept<px::Variable<px::Sparse, px::AllGather, px::LazyAdam, double, px::Index<std::int32_t>>> d{session, "tags", tags, sum};
    Kept<px::Variable<px::Sparse, px::AllReduce, px::Adam>> e{session, "small", small, mean_by_count};
    Kept<px::Variable<px::Sparse, px::NaivePs, Tempered, px::Hash>> f{session, "naive", naive, mean_by_count};
    auto const all = std::tie(a, b, c, d, e, f);
    for (int step = 0; step < steps; ++step) {
      std::apply([&](auto&... kept) { (kept.next(step), ...); }, all);
      session.start(b.grad(), e.grad());
      session.poll();
      auto const [of_c, of_d, of_f] = session.pull(c.variable.at(c.ids()), d.variable.at(d.ids()), f.variable.at(f.ids()));
      c.note_pulled(step, of_c);
      d.note_pulled(step, of_d);
      f.note_pulled(step, of_f);
      session.step(a.grad(), c.grad(of_c), d.distinct_grad(of_d), f.grad(of_f));
      std::apply([&](auto&... kept) { (kept.note(step + 1), ...); }, all);
    }
    session.finish();
    auto const rank = static_cast<std::size_t>(world.rank());
    std::tie(of_plain[rank], of_sharded[rank], of_words[rank]) = std::tie(a.diary, b.diary, c.diary);
    std::tie(of_tags[rank], of_small[rank], of_naive[rank]) = std::tie(d.diary, e.diary, f.diary);
  });

  using oracle::Average, oracle::Rows;
  check_alone(plain, {ranks, hosts, formula_of(px::Sgd{}), Average::mean}, of_plain, steps);
  check_alone(sharded, {ranks, hosts, formula_of(px::Adam{}), Average::sum}, of_sharded, steps);
  check_alone(words, {ranks, hosts, formula_of(px::Adagrad{}), Average::mean}, of_words, steps);
  check_alone(tags, {ranks, hosts, formula_of(px::LazyAdam{}), Average::sum}, of_tags, steps);
  check_alone(small, {ranks, hosts, formula_of(px::Adam{}), Average::by_count, Rows::densified}, of_small, steps);
  check_alone(naive, {ranks, hosts, formula_of(Tempered{}), Average::by_count, Rows::occurrences}, of_naive, steps);
}
