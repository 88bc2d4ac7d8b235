// The tally of a padded table on a CUDA device, and the host's copy of it. kernel/cuda/row_ops.hpp includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/core/pointer.hpp"
#include "parallax/core/text.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"
#include "parallax/kernel/padding_log.hpp"

namespace parallax {

// Kernels add to the tally, and now and then a copy of it comes to the host, never two at once. Its numbers only grow, so that no
// copy is missed. Everything may throw Error (device, out_of_memory).
template <>
class PaddingLog<CudaSpace> {
  using Ops = RowOps<CudaSpace>;

 public:
  // How batches are padded.
  using Padding = device::Padding;

  // Who tells of what is wrong.
  struct Teller {
    // The rank.
    int rank;
    // What is called.
    std::string_view operation;
    // The variable.
    std::string_view variable;
  };

  // Throws Error (invalid_argument) for a capacity that makes no sense, and for more rows than leave room for two more keys.
  static void check(std::uint32_t capacity, std::int64_t rows, std::int64_t most_rows, int rank, std::string_view variable) {
    auto const refuse = [&](std::string_view why) { throw Error{Errc::invalid_argument, rank, "Variable", variable, why}; };
    if (capacity == 0 || capacity > 0x7ffffffe) refuse(joined({"batches are padded to ", capacity, " rows of a rank"}));
    if (rows > most_rows - 2) refuse(joined({rows, " rows leave the index type no room for the keys of padding"}));
  }

  // Throws the error of earlier batches, where there is one, and Error (misuse) for indices that are not in device memory.
  static void check(bool there, std::optional<Error> const& late, Teller const& who) {
    if (late) throw *late;
    if (!there)
      throw Error{Errc::misuse, who.rank, who.operation, who.variable,
                  "a padded table is indexed on its device: px::on_device(ids)"};
  }

  // Throws Error (misuse) where the step is captured: of a batch that is not padded the host has to know how many rows go where.
  static void check_unpadded(Ops const& ops, Teller const& who) {
    if (device::is_captured(ops.stream()))
      throw Error{
          Errc::misuse, who.rank, who.operation, who.variable,
          "only batches of padded tables are captured, see px::Padded: of others the host waits for how many rows go where"};
  }

  // Where the step is captured, its graph holds the plan, which a state has just taken, and tells this log of its launches.
  template <class State, class Plan>
  void keep(Ops const& ops, State& state, Plan& plan) {
    auto* const capture = device::Capture::of(ops.stream());
    if (capture) capture->keep(Owned<device::Kept>{new KeptPlan<State, Plan>{state, plan}});
  }
  // A graph was launched whose kernels add to it.
  void launched(Ops const& ops) {
    behind_ = true;
    bring(ops);
  }

  // Where kernels add to it, in device memory: all zeros before the first of them.
  device::PaddingTally* there(Ops const& ops) {
    if (there_.empty()) {
      there_.resize_with_slack(sizeof(device::PaddingTally));
      ops.clear(there_.data(), there_.size());
    }
    behind_ = true;
    return reinterpret_cast<device::PaddingTally*>(there_.data());
  }
  // Puts a copy in the queue, unless one is on its way or the step is captured.
  void bring(Ops const& ops) {
    if (coming_ || there_.empty() || device::is_captured(ops.stream())) return;
    here_.resize_with_slack(sizeof(device::PaddingTally));
    if (!come_) come_.emplace();
    device::copy(here_.data(), there_.data(), here_.size(), cudaMemcpyDeviceToHost, ops.stream());
    come_->record(ops.stream());
    coming_ = true, behind_ = false;
  }
  // The error of batches that have come since the last call; where it waits, of all that were put in the queue. What was dropped is
  // added to `dropped`.
  std::optional<Error> late_error(Ops const& ops, std::uint32_t capacity, Teller const& who, bool wait,
                                  std::uint64_t& dropped) {
    std::optional<Error> error;
    auto const news = news_of(ops, wait);
    dropped += news.dropped;
    auto const refuse = [&](Errc code, std::string_view why) {
      error.emplace(code, who.rank, who.operation, who.variable,
                    joined({why, "; their updates of the table were left out on all ranks"}));
    };
    if (news.overflows > 0)
      refuse(Errc::invalid_argument, joined({"earlier batches named more rows of one rank than the ", capacity,
                                             " of px::Padded, up to ", news.longest}));
    if (news.wrong > 0)
      refuse(Errc::invalid_argument, "earlier batches had offsets of bags that do not ascend from 0 to the number of indices");
    if (news.refused > 0)
      refuse(Errc::bad_id, joined({"earlier batches named ", news.refused, " indices that are outside the table"}));
    return error;
  }

 private:
  // A plan of a state, which nobody else takes.
  template <class State, class Plan>
  class KeptPlan final : public device::Kept {
   public:
    KeptPlan(State& state, Plan& plan) : state_{&state}, plan_{&plan} { ++plan.users; }
    KeptPlan(KeptPlan const&) = delete;
    ~KeptPlan() override { --plan_->users; }
    void launched() override { state_->launched(); }

   private:
    Shared<State> state_;
    Plan* plan_;
  };

  // What has come since the last call, `longest` excepted.
  device::PaddingTally news_of(Ops const& ops, bool wait) {
    if (coming_ && (wait || come_->reached())) take(ops);
    if (wait && behind_) bring(ops), take(ops);
    device::PaddingTally const before = std::exchange(told_, known_);
    return {known_.dropped - before.dropped, known_.refused - before.refused, known_.wrong - before.wrong,
            known_.overflows - before.overflows, known_.longest};
  }
  void take(Ops const& ops) {
    if (!coming_) return;
    ops.await(*come_);
    std::memcpy(&known_, here_.data(), sizeof known_);
    coming_ = false;
  }

  Buffer<std::byte, CudaSpace> there_;
  Buffer<std::byte, PinnedSpace> here_;
  std::optional<CudaEvent> come_;
  bool coming_ = false, behind_ = false;  // a copy is on its way; kernels have added since the last one was put in the queue
  device::PaddingTally known_, told_;     // as of the last copy, and of the last call of `news`
};

}  // namespace parallax
