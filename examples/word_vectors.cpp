// Word vectors by skip-grams with negative samples (Mikolov et al., arXiv 1310.4546), trained on threads, or on other ranks by the
// command line. A word's vector learns to be near the vectors of its neighbours, and far from a few words drawn at random.
//
//   word_vectors                         4 threads; ends with the nearest neighbours of some words
//   word_vectors --px-ranks 2            2 threads
//   mpiexec -n 3 word_vectors            processes that MPICH's mpiexec or srun has started
//   word_vectors --px-hosts FILE         processes on the hosts of a file
//   word_vectors --save FOLDER           the same, with checkpoints; goes on from the newest one, on any number of ranks
//
// The text is made here: 1,000 words of 40 topics. A sentence is of one topic, but for one word in five. So the nearest neighbour
// of a word is to be of its topic, and the exit code is 0 if this is true of nine words in ten.
#include <parallax/checkpoint/checkpoint.hpp>
#include <parallax/comm/run.hpp>
#include <parallax/comm/socket.hpp>
#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <vector>
namespace px = parallax;

namespace {

constexpr int topics = 40, words_of_a_topic = 25, vocabulary = topics * words_of_a_topic;
constexpr std::size_t width = 32;    // floats of a vector
constexpr int negatives = 5;         // words drawn at random for each neighbour
constexpr int window = 3;            // neighbours on each side of a word
constexpr int sentences = 8;         // of a rank in a step
constexpr int sentence_length = 12;  // words
constexpr int steps_of_all = 1'200;  // steps of all ranks together

// A rank's text: sentences without an end. Equal seeds make equal texts.
class Text {
 public:
  explicit Text(std::uint64_t seed) : random_{seed} {}

  // Returns one number below `n`.
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  std::vector<int> sentence() {
    int const topic = below(topics);
    std::vector<int> words(sentence_length);
    for (int& word : words) {
      // The first words of a topic are the frequent ones, as in a language.
      int const rank = std::min(below(words_of_a_topic), below(words_of_a_topic));
      word = (below(5) == 0 ? below(topics) : topic) * words_of_a_topic + rank;
    }
    return words;
  }

 private:
  std::mt19937_64 random_;
};

// A batch: pairs of a word and another one, and whether the other one is a neighbour (1) or drawn at random (0).
struct Batch {
  std::vector<int> centers, others;
  std::vector<float> labels;

  void add(int center, int other, float label) {
    centers.push_back(center);
    others.push_back(other);
    labels.push_back(label);
  }
};

Batch next_batch(Text& text) {
  Batch batch;
  for (int n = 0; n < sentences; ++n) {
    std::vector<int> const words = text.sentence();
    for (int i = 0; i < sentence_length; ++i)
      for (int j = std::max(0, i - window); j < std::min(sentence_length, i + window + 1); ++j) {
        if (i == j) continue;
        batch.add(words[static_cast<std::size_t>(i)], words[static_cast<std::size_t>(j)], 1);
        for (int drawn = 0; drawn < negatives; ++drawn)
          batch.add(words[static_cast<std::size_t>(i)], text.below(vocabulary), 0);
      }
  }
  return batch;
}

float dot(std::span<float const> a, std::span<float const> b) {
  float sum = 0;
  for (std::size_t k = 0; k < width; ++k) sum += a[k] * b[k];
  return sum;
}

// The two tables, spread over all ranks: each has a part of the rows, and pulls the rows of its batches from their owners.
template <class Comm>
struct Model {
  px::Session<Comm>& session;
  px::Variable<px::Sparse, px::Adagrad> vectors{session,
                                                "vectors",
                                                {.rows = vocabulary, .width = width, .initial = px::uniform(-0.1, 0.1)},
                                                px::Adagrad{.learning_rate = 0.1}};
  px::Variable<px::Sparse, px::Adagrad> contexts{
      session, "contexts", {.rows = vocabulary, .width = width}, px::Adagrad{.learning_rate = 0.1}};

  // Collective. Takes one step on this rank's batch, and returns its mean loss.
  double step(Batch const& batch) {
    auto const [center, other] = session.pull(vectors.at(batch.centers), contexts.at(batch.others));  // both in one exchange
    std::vector<float> center_gradients, other_gradients;
    center_gradients.reserve(batch.labels.size() * width);
    other_gradients.reserve(batch.labels.size() * width);
    double loss = 0;
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      float const score = 1 / (1 + std::exp(-dot(center[i], other[i])));
      float const error = score - batch.labels[i];
      loss -= std::log(batch.labels[i] > 0 ? score : 1 - score);
      for (std::size_t k = 0; k < width; ++k) {
        center_gradients.push_back(error * other[i][k]);
        other_gradients.push_back(error * center[i][k]);
      }
    }
    // One row of gradients for each pair. Rows of one word are summed, on this rank and at their owner, and the mean of all ranks
    // is applied.
    session.step(px::grad(center, center_gradients), px::grad(other, other_gradients));
    return loss / static_cast<double>(batch.labels.size());
  }

  // Collective. Returns all vectors, of length 1, on every rank.
  std::vector<std::vector<float>> all() {
    std::vector<int> ids(vocabulary);
    for (int word = 0; word < vocabulary; ++word) ids[static_cast<std::size_t>(word)] = word;
    auto const rows = session.pull(vectors, ids);
    std::vector<std::vector<float>> found;
    for (std::size_t word = 0; word < ids.size(); ++word) {
      std::vector<float> vector(rows[word].begin(), rows[word].end());
      float const length = std::sqrt(dot(vector, vector));
      for (float& value : vector) value /= length;
      found.push_back(std::move(vector));
    }
    return found;
  }
};

// Returns the word with the vector that is nearest to that of `word`, by the cosine.
int nearest(std::vector<std::vector<float>> const& vectors, int word) {
  int best = -1;
  float most = -2;
  for (int other = 0; other < vocabulary; ++other) {
    float const near = dot(vectors[static_cast<std::size_t>(word)], vectors[static_cast<std::size_t>(other)]);
    if (other != word && near > most) most = near, best = other;
  }
  return best;
}

std::string name_of(int word) {
  return "topic " + std::to_string(word / words_of_a_topic) + ", word " + std::to_string(word % words_of_a_topic);
}

// Collective. Takes the steps that are left. `stops` is called after each step on every rank, and ends the training by true.
template <class Comm, class Stops>
void take_steps(Model<Comm>& model, Comm const& world, Stops&& stops) {
  std::int64_t const steps = steps_of_all / world.size();  // the more ranks, the larger the batch of all
  double loss = 0;
  for (std::int64_t step = model.session.steps(); step < steps; ++step) {
    // A text for each rank and step: a training that goes on reads what it would have read.
    Text text{static_cast<std::uint64_t>(step * world.size() + world.rank())};
    double const now = model.step(next_batch(text));
    loss = loss == 0 ? now : 0.9 * loss + 0.1 * now;
    if (world.rank() == 0 && (step + 1) % (steps / 5) == 0)
      std::printf("step %4d of %d: loss %.3f\n", static_cast<int>(step + 1), static_cast<int>(steps), loss);
    if (stops()) return;
  }
}

// Collective. Trains, and returns the exit code.
template <class Comm>
int train(Comm& world, std::string const& folder) {
  px::Session session{world};
  Model<Comm> model{session};
  if (folder.empty()) {
    take_steps(model, world, [] { return false; });
  } else {
    px::Checkpoints saved{session, folder, {.steps = 100, .on_signals = true}, model.vectors, model.contexts};
    if (saved.resume() && world.rank() == 0) std::printf("goes on after step %d\n", static_cast<int>(session.steps()));
    take_steps(model, world, [&] { return saved.step(), saved.stopping(); });  // stopping: a signal has asked for the end
    saved.save();
    if (saved.stopping()) return session.finish(), 0;
  }

  auto const vectors = model.all();
  session.finish();
  int right = 0;
  for (int word = 0; word < vocabulary; ++word) right += nearest(vectors, word) / words_of_a_topic == word / words_of_a_topic;
  if (world.rank() == 0) {
    for (int const word : {0, 101, 777})
      std::printf("nearest to %s: %s\n", name_of(word).c_str(), name_of(nearest(vectors, word)).c_str());
    std::printf("%d of %d words have a nearest neighbour of their topic\n", right, vocabulary);
  }
  return 10 * right >= 9 * vocabulary ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  auto const own = px::own_arguments(argc, argv);  // without those of px::run
  std::string const folder = own.size() == 2 && own[0] == "--save" ? std::string{own[1]} : std::string{};
  if (!own.empty() && folder.empty()) {
    std::fprintf(stderr, "usage: word_vectors [--save FOLDER] [--px-help]\n");
    return 2;
  }
  return px::run(argc, argv, [&](px::AnyCommunicator& world) { return train(world, folder); }, {.threads = 4});
}
