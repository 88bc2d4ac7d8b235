// Matrix factorisation: ratings of users x items, of low rank and with noise, learnt as two sparse tables. Under MPI each rank has
// its part of the ratings; the test RMSE, a metric summed over ranks, comes down to the noise, and a second run has the same bits.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <parallax/comm/mpi.hpp>
#include <parallax/parallax.hpp>
#include <random>
#include <vector>
namespace px = parallax;

constexpr std::size_t factors = 4, batch_size = 4'000;
constexpr int users_in_all = 500, items_in_all = 300, epochs = 15;
constexpr double noise = 0.1;

struct Rating {
  int user, item;
  float value;
};

struct Data {  // the same on all ranks: drawn from one seed
  std::vector<Rating> train, test;
  double spread = 0;  // the RMSE of a model that predicts 0
};

Data make_data() {
  std::mt19937_64 random{20'240'601};
  std::normal_distribution<float> normal;
  std::vector<float> u(users_in_all * factors), v(items_in_all * factors);
  for (float& x : u) x = normal(random);
  for (float& x : v) x = normal(random);
  Data data;
  for (int k = 0; k < 44'000; ++k) {
    int const user = static_cast<int>(random() % users_in_all), item = static_cast<int>(random() % items_in_all);
    float value = static_cast<float>(noise) * normal(random);
    for (std::size_t f = 0; f < factors; ++f)
      value += u[static_cast<std::size_t>(user) * factors + f] * v[static_cast<std::size_t>(item) * factors + f];
    (k < 40'000 ? data.train : data.test).push_back({user, item, value});
  }
  for (Rating const& r : data.test) data.spread += static_cast<double>(r.value) * r.value;
  data.spread = std::sqrt(data.spread / static_cast<double>(data.test.size()));
  return data;
}

struct Model {
  double rmse = 0, tested = 0;
  std::vector<float> rows;  // of both tables, those that this rank owns
};

template <px::Communicator World>
Model fit(World& world, Data const& data) {
  px::Session session{world};
  using Table = px::Variable<px::Sparse, px::LazyAdam>;
  Table users{session, "users", {.rows = users_in_all, .width = factors, .initial = px::uniform(-0.5, 0.5)}, px::Reduce::sum};
  Table items{session, "items", {.rows = items_in_all, .width = factors, .initial = px::uniform(-0.5, 0.5)}, px::Reduce::sum};
  auto const rate = px::cosine(0.15, epochs * 10);  // an epoch has 10 batches

  std::vector<int> user_ids, item_ids;
  std::vector<float> targets;
  auto const take = [&](std::vector<Rating> const& ratings, std::size_t first, std::size_t count) {  // this rank's part of them
    user_ids.clear(), item_ids.clear(), targets.clear();
    for (std::size_t const i : px::shard_block(count, world)) {
      Rating const& rating = ratings[first + i];
      user_ids.push_back(rating.user), item_ids.push_back(rating.item), targets.push_back(rating.value);
    }
  };
  auto const error = [&](auto const& u, auto const& v, std::size_t i) {
    float e = -targets[i];
    for (std::size_t f = 0; f < factors; ++f) e += u[i][f] * v[i][f];
    return e;
  };

  std::vector<Rating> train = data.train;
  std::mt19937 order{7};
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::shuffle(train.begin(), train.end(), order);  // alike on all ranks
    for (std::size_t first = 0; first < train.size(); first += batch_size) {
      take(train, first, std::min(batch_size, train.size() - first));
      auto const [u, v] = session.pull(users.at(user_ids), items.at(item_ids));  // two tables, one exchange
      std::vector<float> of_users, of_items;
      for (std::size_t i = 0; i < targets.size(); ++i) {
        float const e = error(u, v, i);
        for (std::size_t f = 0; f < factors; ++f) of_users.push_back(e * v[i][f]), of_items.push_back(e * u[i][f]);
      }
      users.optimizer().learning_rate = items.optimizer().learning_rate = rate(session.steps());
      session.step(px::grad(u, of_users), px::grad(v, of_items));  // duplicates are summed
    }
  }

  take(data.test, 0, data.test.size());
  auto const [u, v] = session.pull(users.at(user_ids), items.at(item_ids));
  double sums[2] = {};  // squared errors, and how many
  for (std::size_t i = 0; i < targets.size(); ++i, ++sums[1]) sums[0] += std::pow(static_cast<double>(error(u, v, i)), 2);
  px::allreduce(world, std::span<double>{sums});

  Model model{std::sqrt(sums[0] / sums[1]), sums[1], {}};
  for (Table* table : {&users, &items})
    for (std::int64_t i = 0; i < table->local_rows(); ++i) {
      auto const row = table->local()[i];
      for (std::size_t f = 0; f < factors; ++f) model.rows.push_back(row[f]);
    }
  session.finish();
  return model;
}

int main(int argc, char** argv) {
  return px::run_mpi(argc, argv, [](px::MpiCommunicator& world) {
    Data const data = make_data();
    Model const once = fit(world, data), again = fit(world, data);
    bool const same = once.rmse == again.rmse && once.rows == again.rows;  // bit for bit, on this rank
    bool const learnt = once.rmse < 1.15 * noise && once.tested == static_cast<double>(data.test.size());
    double right = same && learnt ? 1 : 0;
    px::allreduce(world, std::span{&right, 1});
    auto const rmses = px::allgather(world, once.rmse);
    bool const alike = std::all_of(rmses.begin(), rmses.end(), [&](double rmse) { return rmse == once.rmse; });
    if (world.rank() == 0)
      std::printf("%d ranks: test RMSE %.17g (noise %.2f, predicting 0: %.2f); second run %s, all ranks %s\n", world.size(),
                  once.rmse, noise, data.spread, same ? "the same" : "DIFFERS", alike ? "alike" : "DIFFER");
    return right == world.size() && alike ? 0 : 1;
  });
}
