// A bag-of-words classifier: an embedding table and a two-layer net in Eigen, trained by ranks that are MPI processes under mpiexec
// and four threads else. Its result is held against the same training in one loop of plain Eigen.
#include <Eigen/Dense>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <parallax/comm/mpi.hpp>
#include <parallax/comm/thread.hpp>
#include <parallax/interop/eigen.hpp>
#include <parallax/parallax.hpp>
#include <random>
#include <ranges>
#include <span>
#include <vector>
namespace px = parallax;

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
constexpr int words_in_all = 600, columns = 12, hidden = 24, topics = 3, batch_size = 48, steps = 300, last = 50;
constexpr float rate = 0.5f, word_rate = 50;

struct Batch {  // document d: the words [offsets[d], offsets[d + 1])
  std::vector<int> words, offsets{0}, topic;
};
Batch draw(int step, auto const& documents) {  // the numbers of those that a rank has
  Batch batch;
  for (auto const document : documents) {
    std::mt19937 random{static_cast<unsigned>(step * batch_size + static_cast<int>(document))};
    int const topic = static_cast<int>(random() % topics), length = 6 + static_cast<int>(random() % 8);
    for (int i = 0; i < length; ++i) {  // a third of the words are of the topic, the others of any
      int const word = static_cast<int>(random() % words_in_all);
      batch.words.push_back(random() % 3 == 0 ? word - word % topics + topic : word);
    }
    batch.offsets.push_back(static_cast<int>(batch.words.size()));
    batch.topic.push_back(topic);
  }
  return batch;
}

struct Net {
  Eigen::MatrixXf first, second;
  explicit Net(int seed) {
    std::mt19937 random{static_cast<unsigned>(seed)};
    std::normal_distribution<float> normal{0, 0.3f};
    first = Eigen::MatrixXf::NullaryExpr(columns, hidden, [&] { return normal(random); });
    second = Eigen::MatrixXf::NullaryExpr(hidden, topics, [&] { return normal(random); });
  }
};

struct Gradients {  // of the mean cross-entropy
  float loss;
  Eigen::MatrixXf first, second;
  Rows documents;
};
Gradients backward(Net const& net, Eigen::Ref<Rows const> const& documents, std::vector<int> const& topic) {
  auto const n = static_cast<float>(documents.rows());
  Rows const h = (documents * net.first).array().tanh();
  Rows p = (h * net.second).array().exp();
  p = (p.array().colwise() / p.rowwise().sum().array()).eval();
  float loss = 0;
  for (Eigen::Index d = 0; d < p.rows(); ++d) {
    float& chosen = p(d, topic[static_cast<std::size_t>(d)]);
    loss -= std::log(chosen) / n, chosen -= 1;
  }
  p /= n;
  Rows const of_h = (p * net.second.transpose()).array() * (1 - h.array().square());
  return {loss, documents.transpose() * of_h, h.transpose() * p, of_h * net.first.transpose()};
}

Rows all_rows(auto& session, auto& table) {  // on every rank
  std::vector<int> ids(words_in_all);
  std::iota(ids.begin(), ids.end(), 0);
  auto const pulled = session.pull(table, ids);
  Rows rows(words_in_all, columns);
  for (std::size_t i = 0; i < ids.size(); ++i) std::ranges::copy(pulled[i], rows.row(ids[i]).data());
  return rows;
}

// The same training without the library: whole batches, a table of its own, gradient descent.
void train_alone(Net& net, Rows& table) {
  for (int step = 0; step < steps; ++step) {
    Batch const batch = draw(step, std::views::iota(0, batch_size));
    Rows documents = Rows::Zero(batch_size, columns);
    auto const each_word = [&](auto const& f) {
      for (int d = 0; d < batch_size; ++d)
        for (int i = batch.offsets[d]; i < batch.offsets[d + 1]; ++i)
          f(d, batch.words[i], 1.0f / static_cast<float>(batch.offsets[d + 1] - batch.offsets[d]));
    };
    each_word([&](int d, int word, float weight) { documents.row(d) += weight * table.row(word); });
    Gradients const g = backward(net, documents, batch.topic);
    net.first -= rate * g.first;
    net.second -= rate * g.second;
    each_word([&](int d, int word, float weight) { table.row(word) -= word_rate * weight * g.documents.row(d); });
  }
}

bool train(px::AnyCommunicator world) {
  px::Session session{world};
  Net net{world.rank()};  // another one on each rank, before the broadcast
  px::Variable<px::Dense, px::Sgd> first{session, "first", px::bind(net.first), px::Sgd{.learning_rate = rate}};
  px::Variable<px::Dense, px::Sgd> second{session, "second", px::bind(net.second), px::Sgd{.learning_rate = rate}};
  px::Variable<px::Sparse, px::Sgd> words{session,
                                          "words",
                                          {.rows = words_in_all, .width = columns, .initial = px::uniform(-0.5, 0.5)},
                                          px::Sgd{.learning_rate = word_rate}};
  session.broadcast(first, second);
  Net expected = net;
  Rows expected_table = all_rows(session, words);

  double sums[2] = {};  // the losses of the last steps, and how many
  for (int step = 0; step < steps; ++step) {
    Batch const batch = draw(step, px::shard_block(batch_size, session));
    auto const bags = session.pull(words.bags(batch.words, batch.offsets, px::Pool::mean));
    auto const pooled = bags.values();  // a row for each document
    Gradients const g = backward(net, Eigen::Map<Rows const>{pooled.data, pooled.rows, pooled.width}, batch.topic);
    session.step(px::grad(first, g.first), px::grad(second, g.second), px::grad(bags, g.documents));
    if (step >= steps - last) sums[0] += g.loss, ++sums[1];
  }
  px::allreduce(world, std::span<double>{sums});
  double different = 0;  // parameters that are not those of rank 0, on all ranks
  auto const compare = [&](auto const& parameters) {
    auto of_rank_0 = parameters;
    px::broadcast(world, std::span{of_rank_0.data(), static_cast<std::size_t>(of_rank_0.size())}, 0);
    different += static_cast<double>((parameters.array() != of_rank_0.array()).count());
  };
  compare(net.first), compare(net.second);
  px::allreduce(world, std::span{&different, 1});

  train_alone(expected, expected_table);
  double const off = std::max((net.first - expected.first).norm(), (all_rows(session, words) - expected_table).norm());
  session.finish();
  double const loss = sums[0] / sums[1];
  if (world.rank() == 0)
    std::printf("%d ranks: loss %.3f of %.3f, %.0f parameters differ between replicas, %.0e from plain Eigen\n", world.size(),
                loss, std::log(topics), different, off);
  return loss < 0.55 && different == 0 && off < 1e-3;  // who knows how the documents are made has a loss of 0.462
}

int main(int argc, char** argv) {
  if (std::getenv("PMI_RANK") || std::getenv("OMPI_COMM_WORLD_RANK"))  // a launcher's
    return px::run_mpi(argc, argv,
                       [](px::MpiCommunicator& world) { return train(px::AnyCommunicator{std::ref(world)}) ? 0 : 1; });
  std::atomic<bool> right{true};
  px::run_threads(4, [&](px::ThreadCommunicator& world) {
    if (!train(px::AnyCommunicator{std::ref(world)})) right = false;
  });
  return right ? 0 : 1;
}
