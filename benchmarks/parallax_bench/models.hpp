// The models of the Parallax paper, PixelCNN++ and DLRM: every dense tensor and every table, computed from the architecture.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "options.hpp"

namespace bench {

struct Tensor {
  std::string name;
  std::int64_t elements;
};

struct TableShape {
  std::string name;
  std::int64_t rows, width;
  double alpha;            // share of the rows that a rank touches in a step…
  std::int64_t draws = 0;  // …or how many ids it draws
};

struct Model {
  std::string name, source;
  std::int64_t dense_expected = 0, tensors_expected = 0;  // 0: no published number
  std::vector<Tensor> dense;
  std::vector<TableShape> sparse;

  std::int64_t dense_elements() const {
    std::int64_t sum = 0;
    for (auto const& tensor : dense) sum += tensor.elements;
    return sum;
  }
  std::int64_t sparse_elements() const {
    std::int64_t sum = 0;
    for (auto const& table : sparse) sum += table.rows * table.width;
    return sum;
  }
};

namespace detail {

class Builder {
 public:
  explicit Builder(Model& model) : model_{&model} {}

  void tensor(std::string name, std::int64_t elements) { model_->dense.push_back({std::move(name), elements}); }
  void linear(std::string const& name, std::int64_t in, std::int64_t out) {
    tensor(name + ".weight", in * out);
    tensor(name + ".bias", out);
  }
  // A convolution with a bias.
  void convolution(std::string const& name, std::int64_t in, std::int64_t out, std::int64_t high, std::int64_t wide) {
    tensor(name + ".weight", in * out * high * wide);
    tensor(name + ".bias", out);
  }
  // A convolution without a bias, and the scale and shift of its batch normalisation.
  void normalised(std::string const& name, std::int64_t in, std::int64_t out, std::int64_t high, std::int64_t wide) {
    tensor(name + ".weight", in * out * high * wide);
    tensor(name + ".scale", out);
    tensor(name + ".shift", out);
  }
  void normalised(std::string const& name, std::int64_t in, std::int64_t out, std::int64_t side) {
    normalised(name, in, out, side, side);
  }
  // A convolution whose weights are normalised: their directions, and each output's gain and bias.
  void weight_normalised(std::string const& name, std::int64_t in, std::int64_t out, std::int64_t high, std::int64_t wide) {
    tensor(name + ".direction", in * out * high * wide);
    tensor(name + ".gain", out);
    tensor(name + ".bias", out);
  }
  void lstm(std::string const& name, std::int64_t in, std::int64_t units) {
    tensor(name + ".kernel", (in + units) * 4 * units);
    tensor(name + ".bias", 4 * units);
  }

 private:
  Model* model_;
};

}  // namespace detail

// K. He, X. Zhang, S. Ren, J. Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, table 1, 1000 classes.
inline Model resnet50() {
  Model model{"resnet50", "He et al., CVPR 2016, table 1", 25'557'032, 161, {}, {}};
  detail::Builder build{model};
  build.normalised("conv1", 3, 64, 7);
  std::int64_t in = 64;
  int const blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < blocks[stage]; ++block) {
      std::int64_t const mid = std::int64_t{64} << stage, out = 4 * mid;
      std::string const name = "conv" + std::to_string(stage + 2) + "_" + std::to_string(block + 1);
      build.normalised(name + ".reduce", in, mid, 1);
      build.normalised(name + ".spatial", mid, mid, 3);
      build.normalised(name + ".expand", mid, out, 1);
      if (block == 0) build.normalised(name + ".shortcut", in, out, 1);
      in = out;
    }
  build.linear("fc", in, 1000);
  return model;
}

// C. Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016, in the variant that torchvision
// and Keras have: batch normalisation everywhere, 1000 classes, without the auxiliary classifier.
inline Model inception3() {
  Model model{"inception3", "Szegedy et al., CVPR 2016, torchvision's variant without the auxiliary classifier",
              23'834'568,   284,
              {},           {}};
  detail::Builder build{model};
  build.normalised("1a", 3, 32, 3);
  build.normalised("2a", 32, 32, 3);
  build.normalised("2b", 32, 64, 3);
  build.normalised("3b", 64, 80, 1);
  build.normalised("4a", 80, 192, 3);
  auto const a = [&](std::string const& name, std::int64_t in, std::int64_t pool) {
    build.normalised(name + ".1x1", in, 64, 1);
    build.normalised(name + ".5x5_1", in, 48, 1);
    build.normalised(name + ".5x5_2", 48, 64, 5);
    build.normalised(name + ".3x3_1", in, 64, 1);
    build.normalised(name + ".3x3_2", 64, 96, 3);
    build.normalised(name + ".3x3_3", 96, 96, 3);
    build.normalised(name + ".pool", in, pool, 1);
  };
  a("5b", 192, 32);
  a("5c", 256, 64);
  a("5d", 288, 64);
  build.normalised("6a.3x3", 288, 384, 3);
  build.normalised("6a.3x3_1", 288, 64, 1);
  build.normalised("6a.3x3_2", 64, 96, 3);
  build.normalised("6a.3x3_3", 96, 96, 3);
  auto const c = [&](std::string const& name, std::int64_t mid) {
    build.normalised(name + ".1x1", 768, 192, 1);
    build.normalised(name + ".7x7_1", 768, mid, 1);
    build.normalised(name + ".7x7_2", mid, mid, 1, 7);
    build.normalised(name + ".7x7_3", mid, 192, 7, 1);
    build.normalised(name + ".double_1", 768, mid, 1);
    build.normalised(name + ".double_2", mid, mid, 7, 1);
    build.normalised(name + ".double_3", mid, mid, 1, 7);
    build.normalised(name + ".double_4", mid, mid, 7, 1);
    build.normalised(name + ".double_5", mid, 192, 1, 7);
    build.normalised(name + ".pool", 768, 192, 1);
  };
  c("6b", 128);
  c("6c", 160);
  c("6d", 160);
  c("6e", 192);
  build.normalised("7a.3x3_1", 768, 192, 1);
  build.normalised("7a.3x3_2", 192, 320, 3);
  build.normalised("7a.7x7_1", 768, 192, 1);
  build.normalised("7a.7x7_2", 192, 192, 1, 7);
  build.normalised("7a.7x7_3", 192, 192, 7, 1);
  build.normalised("7a.7x7_4", 192, 192, 3);
  auto const e = [&](std::string const& name, std::int64_t in) {
    build.normalised(name + ".1x1", in, 320, 1);
    build.normalised(name + ".3x3_1", in, 384, 1);
    build.normalised(name + ".3x3_2a", 384, 384, 1, 3);
    build.normalised(name + ".3x3_2b", 384, 384, 3, 1);
    build.normalised(name + ".double_1", in, 448, 1);
    build.normalised(name + ".double_2", 448, 384, 3);
    build.normalised(name + ".double_3a", 384, 384, 1, 3);
    build.normalised(name + ".double_3b", 384, 384, 3, 1);
    build.normalised(name + ".pool", in, 192, 1);
  };
  e("7b", 1280);
  e("7c", 2048);
  build.linear("fc", 2048, 1000);
  return model;
}

// K. Simonyan, A. Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015, configuration D.
inline Model vgg16() {
  Model model{"vgg16", "Simonyan and Zisserman, ICLR 2015, configuration D", 138'357'544, 32, {}, {}};
  detail::Builder build{model};
  std::int64_t in = 3;
  int number = 0;
  for (std::int64_t const out : {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512}) {
    build.convolution("conv" + std::to_string(++number), in, out, 3, 3);
    in = out;
  }
  build.linear("fc1", 512 * 7 * 7, 4096);
  build.linear("fc2", 4096, 4096);
  build.linear("fc3", 4096, 1000);
  return model;
}

// T. Salimans, A. Karpathy, X. Chen, D. P. Kingma, "PixelCNN++", ICLR 2017, as the authors' repository has it
// (openai/pixel-cnn: pixel_cnn_pp/model.py, nn.py, and the defaults of train.py): CIFAR-10 without classes, five residual
// blocks, 160 filters, ten logistics. Two streams, of the pixels above (2 x 3) and of those above and to the left (2 x 2), go
// down through three sizes of the image and up again. On the way up a block has a short cut from the way down, and the second
// stream always has one from the first. concat_elu doubles the channels that a block reads. The numbers expected are those of
// the variables that this definition makes: none was found published.
inline Model pixelcnn() {
  Model model{"pixelcnn", "Salimans et al., ICLR 2017, defaults of openai/pixel-cnn", 53'659'080, 567, {}, {}};
  detail::Builder build{model};
  std::int64_t const filters = 160, logistics = 10;
  auto const block = [&](std::string const& name, std::int64_t wide, std::int64_t short_cuts) {
    build.weight_normalised(name + ".in", 2 * filters, filters, 2, wide);
    if (short_cuts > 0) build.weight_normalised(name + ".short_cut", short_cuts * 2 * filters, filters, 1, 1);
    build.weight_normalised(name + ".gate", 2 * filters, 2 * filters, 2, wide);
  };
  auto const size = [&](std::string const& name, int blocks, std::int64_t short_cuts, bool last) {
    for (int number = 1; number <= blocks; ++number) {
      block(name + "_" + std::to_string(number) + ".above", 3, short_cuts);
      block(name + "_" + std::to_string(number) + ".left", 2, short_cuts + 1);  // one more, from the pixels above
    }
    if (last) return;
    build.weight_normalised(name + ".resize.above", filters, filters, 2, 3);
    build.weight_normalised(name + ".resize.left", filters, filters, 2, 2);
  };
  std::int64_t const channels = 3 + 1;  // the fourth tells the image from what is padded
  build.weight_normalised("first.above", channels, filters, 2, 3);
  build.weight_normalised("first.left_1", channels, filters, 1, 3);
  build.weight_normalised("first.left_2", channels, filters, 2, 1);
  for (int number = 1; number <= 3; ++number) size("down" + std::to_string(number), 5, 0, number == 3);
  for (int number = 1; number <= 3; ++number) size("up" + std::to_string(number), number == 1 ? 5 : 6, 1, number == 3);
  build.weight_normalised("last", filters, 10 * logistics, 1, 1);
  return model;
}

// R. Jozefowicz et al., "Exploring the Limits of Language Modeling", 2016, as the Parallax paper trains it (EuroSys'19): one
// LSTM of 2048 units projected to 512, a vocabulary of 793,470, sampled softmax. The paper's share of touched elements, 0.02,
// is over all variables with dense ones counted as 1; of a table's rows a rank touches about 0.0087.
inline Model lm1b() {
  Model model{"lm1b", "Jozefowicz et al. 2016 as in the Parallax paper, EuroSys'19", 9'445'376, 3, {}, {}};
  detail::Builder build{model};
  build.tensor("lstm.kernel", (512 + 512) * 4 * 2048);  // the recurrence is on the projected state
  build.tensor("lstm.bias", 4 * 2048);
  build.tensor("lstm.projection", 2048 * 512);
  model.sparse = {{"embedding", 793'470, 512, 0.0087}, {"softmax", 793'470, 512, 0.0087}, {"softmax_bias", 793'470, 1, 0.0087}};
  return model;
}

// Y. Wu et al., "Google's Neural Machine Translation System", 2016, with the eight LSTM layers of 1024 units that MLPerf's
// GNMT has: an encoder of four, the first of them bidirectional, a decoder of four, normalised Bahdanau attention. The output
// layer is the second table. The paper counts 94.1 M dense elements and two tables of 36,549 rows; its share of touched
// elements, 0.65, means about 0.21 of a table's rows.
inline Model nmt() {
  Model model{"nmt", "Wu et al. 2016, layers as in MLPerf's GNMT, tables as in the Parallax paper", 94'410'753, 23, {}, {}};
  detail::Builder build{model};
  std::int64_t const units = 1024;
  build.lstm("encoder.1.forward", units, units);
  build.lstm("encoder.1.backward", units, units);
  build.lstm("encoder.2", 2 * units, units);
  build.lstm("encoder.3", units, units);
  build.lstm("encoder.4", units, units);
  build.lstm("decoder.1", units, units);
  for (int layer = 2; layer <= 4; ++layer) build.lstm("decoder." + std::to_string(layer), 2 * units, units);
  build.tensor("attention.query", units * units);
  build.tensor("attention.key", units * units);
  build.tensor("attention.vector", units);
  build.tensor("attention.scale", 1);
  build.tensor("attention.shift", units);
  model.sparse = {{"source", 36'549, units, 0.21}, {"target", 36'549, units, 0.21}};
  return model;
}

// M. Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019, with the 26
// categorical features of the Criteo Kaggle set and the layers of its reference run: 13-512-256-64-width below, interactions by
// dot products, 512-256-1 above. A rank's batch is 2,048 examples with one id per table.
inline Model dlrm(std::int64_t width) {
  Model model{"dlrm", "Naumov et al. 2019, Criteo Kaggle cardinalities", 0, 14, {}, {}};
  detail::Builder build{model};
  std::int64_t in = 13;
  int layer = 0;
  for (std::int64_t const out : {std::int64_t{512}, std::int64_t{256}, std::int64_t{64}, width}) {
    build.linear("bottom" + std::to_string(++layer), in, out);
    in = out;
  }
  std::int64_t const vectors = 27;
  in = vectors * (vectors - 1) / 2 + width;
  layer = 0;
  for (std::int64_t const out : {512, 256, 1}) {
    build.linear("top" + std::to_string(++layer), in, out);
    in = out;
  }
  std::int64_t const rows[] = {1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
                               27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};
  int table = 0;
  for (std::int64_t const n : rows) {
    std::string name{"C"};  // g++ 12 warns wrongly of "C" + std::to_string
    model.sparse.push_back({name += std::to_string(++table), n, width, 0, 2048});
  }
  return model;
}

inline Model model_named(std::string_view name, std::int64_t width) {
  if (name == "resnet50") return resnet50();
  if (name == "inception3") return inception3();
  if (name == "vgg16") return vgg16();
  if (name == "pixelcnn") return pixelcnn();
  if (name == "lm1b") return lm1b();
  if (name == "nmt") return nmt();
  return dlrm(width ? width : 16);
}

// The same model at 1/s of its bytes: dense tensors of fewer elements, tables of narrower rows, at least 1 of each.
inline Model at_payload(Model model, std::int64_t s) {
  for (auto& tensor : model.dense) tensor.elements = std::max<std::int64_t>(tensor.elements / s, 1);
  for (auto& table : model.sparse) table.width = std::max<std::int64_t>(table.width / s, 1);
  return model;
}

// How many of the models' totals differ from what is published of them.
inline int wrong_totals() {
  int wrong = 0;
  auto const expect = [&](std::string const& what, std::int64_t is, std::int64_t should) {
    if (is == should) return;
    std::fprintf(stderr, "%s: %lld instead of %lld\n", what.c_str(), static_cast<long long>(is),
                 static_cast<long long>(should));
    ++wrong;
  };
  for (auto const name : model_names) {
    Model const model = model_named(name, 0);
    expect(model.name + ", tensors", static_cast<std::int64_t>(model.dense.size()), model.tensors_expected);
    if (model.dense_expected) expect(model.name + ", dense elements", model.dense_elements(), model.dense_expected);
  }
  expect("lm1b, sparse elements", lm1b().sparse_elements(), 813'306'750);
  expect("nmt, sparse elements", nmt().sparse_elements(), 74'852'352);
  expect("dlrm, sparse elements", dlrm(16).sparse_elements(), 33'762'577 * std::int64_t{16});
  expect("dlrm, bottom and top", dlrm(16).dense_elements(),
         13 * 512 + 512 + 512 * 256 + 256 + 256 * 64 + 64 + 64 * 16 + 16 + 367 * 512 + 512 + 512 * 256 + 256 + 256 + 1);
  return wrong;
}

}  // namespace bench
