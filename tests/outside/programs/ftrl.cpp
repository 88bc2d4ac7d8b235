// Logistic regression with hashed features: strings are hashed into a table of 2^18 weights, which FTRL-proximal learns with an L1
// penalty. One rank is held against a serial FTRL, four threads against one rank, and the log loss against that of the true model.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>
namespace px = parallax;

constexpr std::int64_t table_rows = std::int64_t{1} << 18;
constexpr std::size_t train_size = 40'000, test_size = 5'000, batch_size = 400;
constexpr double alpha = 0.1, beta = 1, l1 = 4, l2 = 1;

struct Samples {  // sample s has the ids [offsets[s], offsets[s + 1])
  std::vector<std::int64_t> ids;
  std::vector<std::size_t> offsets{0};
  std::vector<float> clicked;
  double true_loss = 0;  // mean log loss of the model that the clicks were drawn from
};

std::int64_t hashed(std::string_view feature) {  // FNV-1a, folded to 18 bits
  std::uint64_t hash = 14'695'981'039'346'656'037u;
  for (char const c : feature) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211u;
  return static_cast<std::int64_t>((hash ^ (hash >> 32)) % static_cast<std::uint64_t>(table_rows));
}

double log_loss(double logit, double clicked) { return std::log1p(std::exp(clicked > 0 ? -logit : logit)); }
float probability(float logit) { return 1 / (1 + std::exp(-logit)); }

Samples make_samples(std::size_t size, unsigned seed) {
  Samples samples;
  std::mt19937 random{seed};
  auto const uniform = [&] { return static_cast<double>(random()) / 4294967296.0; };
  auto const number = [](unsigned k) { return std::to_string(k); };
  for (std::size_t s = 0; s < size; ++s) {
    unsigned const country = random() % 20, user = random() % 20'000, hour = random() % 24;
    double logit = -0.5 + (country % 5 - 2.0) * 0.5;
    std::vector<std::string> features{"bias", "country=" + number(country), "user=" + number(user), "hour=" + number(hour)};
    for (int k = 0; k < 3; ++k) {  // tags, which may repeat; users and hours mean nothing
      unsigned const tag = random() % 40;
      logit += (tag % 4 - 1.5) * 0.6;
      features.push_back("tag=" + number(tag));
    }
    for (std::string const& feature : features) samples.ids.push_back(hashed(feature));
    samples.offsets.push_back(samples.ids.size());
    samples.clicked.push_back(uniform() < 1 / (1 + std::exp(-logit)) ? 1.0f : 0.0f);
    samples.true_loss += log_loss(logit, samples.clicked.back()) / static_cast<double>(size);
  }
  return samples;
}

struct Result {
  double loss = 0, weights = 0;  // mean log loss on the test samples; how many weights are not zero
};

template <px::Communicator World>
Result train(World& world, Samples const& data, Samples const& test) {
  px::Session session{world};
  px::Variable<px::Sparse, px::Ftrl> table{session,
                                           "weights",
                                           {.rows = table_rows, .width = 1},
                                           px::Reduce::sum,
                                           px::Ftrl{.learning_rate = alpha, .beta = beta, .l1 = l1, .l2 = l2}};
  Samples mine;
  auto const pull = [&](Samples const& all, std::size_t first,
                        std::size_t count) {  // the logits of this rank's samples: a bag each
    mine = {};
    for (std::size_t const i : px::shard_block(count, world)) {
      std::size_t const s = first + i;
      for (std::size_t k = all.offsets[s]; k < all.offsets[s + 1]; ++k) mine.ids.push_back(all.ids[k]);
      mine.offsets.push_back(mine.ids.size());
      mine.clicked.push_back(all.clicked[s]);
    }
    return session.pull(table.bags(mine.ids, mine.offsets, px::Pool::sum));
  };
  for (std::size_t first = 0; first < train_size; first += batch_size) {
    auto const logits = pull(data, first, batch_size);
    std::vector<float> gradient;
    for (std::size_t s = 0; s < mine.clicked.size(); ++s) gradient.push_back(probability(logits[s][0]) - mine.clicked[s]);
    session.step(px::grad(logits, gradient));
  }
  double sums[2] = {};  // log losses, weights
  auto const logits = pull(test, 0, test_size);
  for (std::size_t s = 0; s < mine.clicked.size(); ++s) sums[0] += log_loss(logits[s][0], mine.clicked[s]);
  for (std::int64_t i = 0; i < table.local_rows(); ++i) sums[1] += table.local()[i][0] != 0;
  px::allreduce(world, std::span<double>{sums});
  session.finish();
  return {sums[0] / test_size, sums[1]};
}

Result serial(Samples const& data, Samples const& test) {  // McMahan et al., KDD 2013, with a batch for an example
  std::vector<float> w(table_rows), z(table_rows), n(table_rows);
  auto const logit = [&](Samples const& samples, std::size_t s) {
    float sum = 0;
    for (std::size_t k = samples.offsets[s]; k < samples.offsets[s + 1]; ++k)
      sum += w[static_cast<std::size_t>(samples.ids[k])];
    return sum;
  };
  for (std::size_t first = 0; first < train_size; first += batch_size) {
    std::map<std::size_t, float> gradient;
    for (std::size_t s = first; s < first + batch_size; ++s) {
      float const g = probability(logit(data, s)) - data.clicked[s];
      for (std::size_t k = data.offsets[s]; k < data.offsets[s + 1]; ++k) gradient[static_cast<std::size_t>(data.ids[k])] += g;
    }
    for (auto const& [i, g] : gradient) {
      float const sigma = (std::sqrt(n[i] + g * g) - std::sqrt(n[i])) / static_cast<float>(alpha);
      z[i] += g - sigma * w[i];
      n[i] += g * g;
      float const shrunk = std::abs(z[i]) <= l1 ? 0.0f : z[i] - std::copysign(static_cast<float>(l1), z[i]);
      w[i] = -shrunk / (static_cast<float>(l2) + (static_cast<float>(beta) + std::sqrt(n[i])) / static_cast<float>(alpha));
    }
  }
  Result result;
  for (std::size_t s = 0; s < test_size; ++s) result.loss += log_loss(logit(test, s), test.clicked[s]) / test_size;
  result.weights = static_cast<double>(std::count_if(w.begin(), w.end(), [](float x) { return x != 0; }));
  return result;
}

int main() {
  Samples const data = make_samples(train_size, 1), test = make_samples(test_size, 2);
  auto distinct = data.ids;
  std::sort(distinct.begin(), distinct.end());
  double const seen = static_cast<double>(std::unique(distinct.begin(), distinct.end()) - distinct.begin());
  px::SelfCommunicator self;
  Result const expected = serial(data, test), one = train(self, data, test);
  Result four;
  px::run_threads(4, [&](px::ThreadCommunicator& world) {
    Result const found = train(world, data, test);
    if (world.rank() == 0) four = found;
  });
  std::printf("log loss: serial %.7f, one rank %.7f, four %.7f, true model %.7f\n", expected.loss, one.loss, four.loss,
              test.true_loss);
  std::printf("weights: serial %.0f, one rank %.0f, four %.0f, of %.0f seen\n", expected.weights, one.weights, four.weights,
              seen);
  bool const same = std::abs(one.loss - expected.loss) < 1e-5 && std::abs(one.weights - expected.weights) <= 2 &&
                    std::abs(four.loss - expected.loss) < 1e-4 && std::abs(four.weights - expected.weights) <= 5;
  bool const learnt = expected.loss < test.true_loss + 0.02 && one.weights < 0.05 * seen && one.weights > 50;
  return same && learnt ? 0 : 1;
}
