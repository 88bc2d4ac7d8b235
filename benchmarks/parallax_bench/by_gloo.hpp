// What a program does on Gloo for dense gradients: an all-reduce of each tensor, or of one buffer that has all of them.
#pragma once

#if defined(PARALLAX_HAS_MPI) && defined(PARALLAX_HAS_GLOO)
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "over_sockets.hpp"

namespace bench {

// As ProcessGroupGloo calls it: gloo::allreduce, with the algorithm that Gloo takes. Nothing is packed for the fused sum, for
// gradients lie in one buffer already; nothing is agreed on or checked. Ranks find each other by files in a folder that all
// hosts see.
template <class T>
class GlooTraining final : public Training {
 public:
  GlooTraining(World const& world, Workload const& work, bool fused, std::string const& device)
      : work_{&work},
        gradients_{work, world.comm.rank()},
        parameters_(work.dense_elements(), static_cast<T>(first_value)),
        sums_(parameters_.size()) {
    for (auto const& tensor : work.dense)
      if (fused && !elements_.empty()) elements_[0] += at(tensor.elements);
      else elements_.push_back(at(tensor.elements));
    char folder[] = "/tmp/parallax-bench-gloo-XXXXXX";
    if (world.comm.rank() == 0 && !::mkdtemp(folder)) throw Refusal{"no folder for Gloo's ranks to meet in"};
    gloo::transport::tcp::attr attributes;
    attributes.iface = device;
    folder_ = told_by_first(folder);
    gloo::rendezvous::FileStore store{folder_};
    context_ = std::make_shared<gloo::rendezvous::Context>(world.comm.rank(), world.comm.size());
    auto at_device = gloo::transport::tcp::CreateDevice(attributes);
    context_->connectFullMesh(store, at_device);
  }

  ~GlooTraining() override {
    std::error_code ignored;  // of a folder that somebody has taken away
    if (context_->rank == 0) std::filesystem::remove_all(folder_, ignored);
  }

  void step() override {
    gradients_.next_batch();
    std::size_t begin = 0;
    for (std::size_t const elements : elements_) {
      gloo::AllreduceOptions options{context_};
      options.setInput(gradients_.dense.data() + begin, elements);
      options.setOutput(sums_.data() + begin, elements);
      options.setReduceFunction(
          gloo::AllreduceOptions::Func{static_cast<void (*)(void*, void const*, void const*, std::size_t)>(&gloo::sum<T>)});
      gloo::allreduce(options);
      begin += elements;
    }
    T* __restrict const p = parameters_.data();
    T const* __restrict const g = sums_.data();
    for (std::size_t i = 0; i < parameters_.size(); ++i) p[i] -= static_cast<T>(learning_rate) * g[i];
  }

  std::vector<std::size_t> chosen() const override { return {}; }
  px::Traffic traffic() const override { return {}; }
  Checked check() override {
    Checked result;
    result.wrong = wrong_dense(parameters_, work_->ranks, gradients_.steps);
    if (context_->rank == 0) result.checksum = checksum_of(parameters_.data(), parameters_.size(), 0);
    return result;
  }
  void finish() override {}

 private:
  Workload const* work_;
  Gradients<T> gradients_;
  std::vector<T> parameters_, sums_;
  std::vector<std::size_t> elements_;  // of each sum
  std::string folder_;                 // where ranks have met, which rank 0 takes away
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace bench
#endif
