// Padded batches of a table on a CUDA device: the tally of their errors, and the host's copy of it. kernel/cuda/row_ops.hpp
// includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/text.hpp"
#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"

namespace parallax::inline v0_2 {

// A tally with its copies. Kernels add to it, and now and then a copy comes to the host, never two at once. Its numbers only
// grow, so no copy is missed. A State is the owning table's. Everything may throw Error (device, out_of_memory).
template <>
class PaddedBatches<CudaSpace> {
  using Ops = RowOps<CudaSpace>;

 public:
  // Begins, by the constructor of a padded table, before anything else: `capacity` keys go to each owner, and `most_rows` is
  // the index type's limit. Throws Error (invalid_argument), of `rank`, for a capacity of 0 or above 2^31 - 2, and for more
  // rows than leave room for two more keys.
  template <class State>
  void begin(State const& state, std::uint32_t capacity, std::int64_t most_rows, int rank) {
    auto const refuse = [&](std::string_view why) { throw Error{Errc::invalid_argument, rank, "Variable", state.name(), why}; };
    if (capacity == 0 || capacity > 0x7ffffffe) refuse(joined({"batches are padded to ", capacity, " rows of a rank"}));
    if (state.rows() > most_rows - 2)
      refuse(joined({state.rows(), " rows leave the index type no room for the keys of padding"}));
    capacity_ = capacity;
    there(state.ops());  // all zeros from here on
  }
  // Returns true if batches are padded.
  bool on() const { return capacity_ > 0; }

  // Pads a plan of `count` indices, with keys written by `place(keys)`; waits for nothing. `tell` reports keys without a place.
  template <class State, class Plan, class Place>
  void pad(State& state, Plan& plan, std::size_t count, Place&& place) {
    Ops const& ops = state.ops();
    device::Padding const padding{0, capacity_, state.bad_ids() != BadIds::drop_and_count};
    plan.pad_there(ops, count, state.bases_there().data(), state.rows(), padding, there(ops), place);
    bring(ops);
  }

  // Checks a batch, called by plans, without a wait: throws the errors of earlier batches known so far, and Error (misuse) for
  // indices of a padded table that are not `given_there`, in device memory. Also for a captured step's batches of an unpadded
  // table: the host has to know the number of rows for each owner.
  template <class State>
  void check(State& state, bool given_there, int rank, std::string_view operation) {
    auto const refuse = [&](std::string_view why) { throw Error{Errc::misuse, rank, operation, state.name(), why}; };
    if (!on() && device::is_captured(state.ops().stream()))
      refuse(
          "only batches of padded tables are captured, see px::Padded: for others the host waits for each rank's count of "
          "rows");
    tell(state, rank, operation, false);
    if (on() && !given_there) refuse("a padded table is indexed on its device: px::on_device(ids)");
  }
  // Throws, once, the error of earlier batches: bad_id for indices outside the table, invalid_argument for wrong offsets or too
  // many rows. By the tally at the host, or, if it `waits` for the device, the newest. The state counts dropped indices.
  template <class State>
  void tell(State& state, int rank, std::string_view operation, bool waits) {
    if (!on()) return;
    auto const news = news_of(state.ops(), waits);
    state.count_dropped(news.dropped);
    auto const refuse = [&](Errc code, std::string_view why) {
      throw Error{code, rank, operation, state.name(),
                  joined({why, "; their updates of the table were left out on all ranks"})};
    };
    if (news.refused > 0)
      refuse(Errc::bad_id, joined({"earlier batches named ", news.refused, " indices that are outside the table"}));
    if (news.wrong > 0)
      refuse(Errc::invalid_argument, "earlier batches had offsets of bags that do not ascend from 0 to the number of indices");
    if (news.overflows > 0)
      refuse(Errc::invalid_argument, joined({"earlier batches named more rows of one rank than the ", capacity_,
                                             " of px::Padded, up to ", news.longest}));
  }

  // Makes the graph of a captured step hold the plan, just taken from a state, and tell of its launches; else does nothing.
  template <class State, class Plan>
  void keep(State& state, Plan& plan) {
    auto* const capture = device::Capture::of(state.ops().stream());
    if (capture) capture->keep(Owned<device::Kept>{new KeptPlan<State, Plan>{state, plan}});
  }

 private:
  // A plan of a state, taken by nobody else.
  template <class State, class Plan>
  class KeptPlan final : public device::Kept {
   public:
    KeptPlan(State& state, Plan& plan) : state_{&state}, plan_{&plan} { ++plan.users; }
    KeptPlan(KeptPlan const&) = delete;
    ~KeptPlan() override { --plan_->users; }
    void launched() override { state_->padded().launched(state_->ops()); }

   private:
    Shared<State> state_;
    Plan* plan_;
  };

  // Notes a launch of a graph with kernels that add to the tally.
  void launched(Ops const& ops) {
    behind_ = true;
    bring(ops);
  }
  // Returns the tally for kernels, in device memory: all zeros before the first of them.
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
  // Returns the tally's growth since the last call, `longest` of all; with `wait` it first waits for the kernels so far.
  device::PaddingTally news_of(Ops const& ops, bool wait) {
    if (coming_ && (wait || come_->reached())) take(ops);
    if (wait && behind_) bring(ops), take(ops);
    device::PaddingTally const before = std::exchange(told_, known_);
    return {known_.dropped - before.dropped, known_.refused - before.refused, known_.wrong - before.wrong,
            known_.overflows - before.overflows, known_.longest};
  }
  // Waits for the copy on its way, if there is one, and puts it in `known_`.
  void take(Ops const& ops) {
    if (!coming_) return;
    ops.await(*come_);
    std::memcpy(&known_, here_.data(), sizeof known_);
    coming_ = false;
  }

  std::uint32_t capacity_ = 0;
  Buffer<std::byte, CudaSpace> there_;
  Buffer<std::byte, PinnedSpace> here_;
  std::optional<CudaEvent> come_;
  bool coming_ = false, behind_ = false;  // a copy is on its way; kernels have added since the last one was put in the queue
  device::PaddingTally known_, told_;     // as of the last copy, and of the last call of `news_of`
};

}  // namespace parallax
