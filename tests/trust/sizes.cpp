#include "sizes.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "parallax/parallax.hpp"

namespace parallax_test {
namespace {

namespace px = parallax;

constexpr auto plain = px::Sgd{.learning_rate = 1};

float value(int rank, std::size_t i) { return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 101) - 50; }
float sum(int ranks, std::size_t i) {
  float total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += value(rank, i);
  return total;
}
std::string wrong(std::string const& where, std::size_t i, float has, float wanted) {
  return where + ": element " + std::to_string(i) + " is " + std::to_string(has) + " instead of " + std::to_string(wanted);
}

template <class Session>
std::string dense(Session& session, std::size_t n) {
  std::vector<float> replicated(n), sharded(n), gradient(n);
  for (std::size_t i = 0; i < n; ++i) gradient[i] = value(session.rank(), i);
  px::Variable<px::Dense> a{session, "replicated", px::bind(replicated), plain, px::Reduce::sum};
  px::Variable<px::Dense, px::PsShard> b{session, "sharded", px::bind(sharded), plain, px::Reduce::sum};
  session.step(px::grad(a, gradient), px::grad(b, gradient));
  for (std::size_t i = 0; i < n; ++i)
    for (float const has : {replicated[i], sharded[i]})
      if (has != 0 - sum(session.size(), i)) return wrong(std::to_string(n) + " elements", i, has, 0 - sum(session.size(), i));
  session.broadcast(a);
  return {};
}

// Every rank names `n` rows, all of them or the first ones, and pulls them back.
template <class Index, class Policy, class Session>
std::string rows(Session& session, std::size_t n, std::size_t width) {
  px::Variable<px::Sparse, Policy, px::Index<Index>> table{
      session, "table", {static_cast<std::int64_t>(n) + 3, static_cast<std::int64_t>(width)}, plain, px::Reduce::sum};
  std::vector<Index> ids(n);
  std::vector<float> gradient(n * width);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<Index>(n - 1 - i);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < width; ++k) gradient[i * width + k] = value(session.rank(), (n - 1 - i) * width + k);
  session.step(px::grad(table, ids, gradient));
  auto const pulled = session.pull(table, ids);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < width; ++k) {
      std::size_t const at = (n - 1 - i) * width + k;
      if (pulled[i][k] != 0 - sum(session.size(), at))
        return wrong(std::to_string(n) + " rows of " + std::to_string(width), at, pulled[i][k], 0 - sum(session.size(), at));
    }
  return {};
}

}  // namespace

std::vector<Sized> train_sizes(px::AnyCommunicator& world, int sizes, std::size_t limit) {
  px::Session session{world};
  auto const ranks = static_cast<std::size_t>(world.size());
  std::vector<Sized> all;
  for (int number = 0; number < sizes; ++number) {
    auto const blocks = static_cast<std::size_t>(number / 28 % 6);  // of `limit` bytes
    auto const about = [&](std::size_t unit) {  // elements in so many blocks, 3 fewer to 3 more
      std::size_t const n = blocks * ranks * (limit / unit) + static_cast<std::size_t>(number / 4 % 7);
      return n > 3 ? n - 3 : 0;
    };
    switch (number % 4) {
      case 0: all.push_back({"dense gradients", dense(session, about(sizeof(float)))}); break;
      case 1: all.push_back({"ids of 8 bytes", rows<std::int64_t, px::PsShard>(session, about(8), 1)}); break;
      case 2: all.push_back({"ids of 4 bytes, gathered", rows<std::int32_t, px::AllGather>(session, about(4) / ranks, 1)}); break;
      default: {
        std::size_t const per_block = 1 + static_cast<std::size_t>(number) % 5;
        std::size_t const width = limit / 4 / per_block + static_cast<std::size_t>(number / 4 % 7) - 3;
        all.push_back({"rows times width", rows<std::int64_t, px::PsShard>(session, blocks * per_block * ranks + 1, width)});
      }
    }
  }
  session.finish();
  return all;
}

}  // namespace parallax_test
