// A step of a session, captured once as a CUDA graph and replayed: the host then puts two things in the stream in place of
// dozens. Trainers of padded tables include it beside the umbrella.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/cuda/capture.hpp"
#include "parallax/detail/session/core.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"
#include "parallax/session/session.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// The interface of a captured step to CapturedStep, for every communicator.
class Replays {
 public:
  virtual ~Replays() = default;
  // Collective. Takes the step once more, with the present contents of memory and the rules of this step. See CapturedStep.
  virtual void replay() = 0;
};

// A step during its capture, and then the captured one. Owns the graph and its memory; refers to the session's core.
template <Communicator C>
class StepCapture final : public Replays, private Capturing<C> {
 public:
  // Takes `can`, true if all moves of device memory are in the stream, see NcclCommunicator::captures; alike on all ranks.
  StepCapture(SessionCore<C>& core, bool can) : core_{&core}, capture_{queue().stream}, can_{can} {}
  StepCapture(StepCapture const&) = delete;
  ~StepCapture() override {
    if (core_->capturing == this) core_->capturing = nullptr;
  }

  // Collective. Throws Error (misuse), alike on all ranks, if no step can be captured. From here on captures work in the queue.
  void begin() {
    core_->waiting.guarded("capture", [&] {
      core_->await_rows("capture");
      if (auto const why = misfit(); !why.empty()) core_->refuse(Operation::replay, "capture", why);
      reserve();
      steps_ = core_->steps;
      before_ = core_->traffic;
      capture_.begin();
      core_->capturing = this;
    });
  }
  // Collective, after the body. Makes and launches the graph, which takes the captured step. Error (misuse) if there is none.
  void end() {
    core_->capturing = nullptr;
    if (core_->steps == steps_) {
      capture_.abandon();
      core_->waiting.guarded(
          "capture", [&] { core_->refuse(Operation::replay, "capture", "the body that is to be captured takes no step"); });
    }
    core_->waiting.guarded("capture", [&] {
      capture_.end();
      flight_ = core_->pools.take(*prepared_);
      memory_ = core_->mail.template of<CudaSpace>().leave_memory();
      after_ = core_->traffic;
      number_ = core_->rounds.operations();
      launch();
    });
  }
  // Local, as an exception leaves the body. Gives the capture up. Ends the session if by then ranks have agreed on a step,
  // which is not going to be taken.
  void abandon() noexcept {
    core_->capturing = nullptr;
    capture_.abandon();
    if (core_->steps != steps_ && !core_->waiting.ended()) core_->waiting.end(current_error(core_->topology.rank(), "capture"));
  }

  void replay() override {
    core_->waiting.guarded("replay", [&] {
      core_->await_rows("replay");
      std::optional<Error> const error = core_->attempt("replay", [&] { prepare(); });
      auto& rounds = core_->rounds;
      Fingerprint hash = core_->begin(Operation::replay, updated_.front()->name);
      hash.add(number_);
      for (auto const& variable : updated_)
        if (variable->state) variable->add_update(hash);
      rounds.agreement.begin(hash.value(), !error, core_->joined, 0);
      auto const names = [&] { return this->names(); };
      rounds.agree("replay", error, names, [&] { return describe(); });
      tell_wishes(names);
      launch();
      for (auto const& variable : updated_) variable->replayed(variable->state);
      core_->traffic.add_payload(before_, after_);
      ++core_->steps;
    });
  }

 private:
  CudaQueue queue() const { return queue_of<CudaSpace>(core_->topology.world()); }

  // Returns the reason against a capture of any step of this session, alike on all ranks; empty if there is none.
  std::string misfit() const {
    if (!can_) return "only steps over NcclCommunicator are captured: here the host takes part in what moves device memory";
    if (core_->options.non_finite != NonFinite::propagate)
      return "the host looks for what is not finite in every step: a captured one wants NonFinite::propagate";
    if (core_->joined) return "a rank that has joined has no step of its own to capture";
    if (core_->flights.any_started()) return "updates were started and no step completed them";
    if (core_->capturing) return "another step is being captured";
    if (auto const* const caller = queue().caller; caller && caller->is_elsewhere(queue().stream))
      return "what is captured is put in the queue's own stream, and its caller follows another one";
    return {};
  }
  void prepared(Flight<C>& own) override {
    auto const refuse = [&](std::string_view variable, std::string_view why) {
      own.refuse({Errc::misuse, core_->topology.rank(), "step", variable, why});
    };
    if (core_->steps != steps_) return refuse(own.first_name(), "one step is captured at a time, and this is another one");
    if (core_->flights.any_started()) return refuse(own.first_name(), "updates that were started are not captured");
    if (own.records().empty()) return refuse({}, "a step without updates is not captured");
    prepared_ = &own;
    updated_.clear();
    for (UpdateRecord const& record : own.records()) {
      auto const& name = record.name();
      bool const rows = record.rows != NamedRows::none;
      if (record.clip >= 0) refuse(name, "a step that clips is not captured: the host forms the norm of its gradients");
      if (rows && record.transformed) refuse(name, "a transform of rows is not captured: the host brings their numbers to it");
      auto const is_it = [&](RegistrationPtr const& known) { return known.get() == record.registration; };
      if (any_of(updated_, is_it)) continue;  // a variable is updated once, by however many updates
      for (auto const& known : core_->registry.variables())
        if (is_it(known)) updated_.push_back(known);
    }
  }
  // Local. Prepares a replay. Throws Error: misuse, the late errors of padded batches, and those of optimizers.
  void prepare() {
    core_->check_late("replay", false);
    auto const refuse = [&](std::string const& variable, std::string_view why) {
      throw Error{Errc::misuse, core_->topology.rank(), "replay", variable, why};
    };
    for (auto const& variable : updated_)
      if (variable->gone) refuse(variable->name, "the variable was destroyed, which the captured step updates");
    if (auto const why = misfit(); !why.empty()) refuse({}, why);
    reserve();
    capture_.renew();
  }
  // Has tables put their preparations into the stream ahead of the graph, updated and merely read ones. May throw their errors.
  void reserve() {
    for (auto const& variable : core_->registry.variables())
      if (variable->state && variable->reserve_launch) variable->reserve_launch(variable->state);
  }
  // Collective. Waits for all ranks' wishes, which travel with the commit of a step, and here without one.
  void tell_wishes(FunctionRef<std::string()> names) {
    auto& rounds = core_->rounds;
    rounds.words.assign(1, core_->wish);
    rounds.tell_all("replay", names);
    core_->wished = 0;
    for (double const wishes : rounds.all_told()) core_->wished |= static_cast<unsigned>(wishes);
  }
  void launch() {
    RowOps<CudaSpace> const ops{queue()};
    capture_.each_part([&](device::ByteList const& rules, std::byte* there) { ops.put_bytes(rules, there); });
    capture_.launch();
  }
  std::string names() const {
    std::string list;
    for (auto const& variable : updated_) append(list, {list.empty() ? "" : ", ", variable->name});
    return list;
  }
  std::string describe() const {
    std::string lines;
    for (auto const& variable : updated_)
      if (variable->state) lines += variable->update_lines(joined({", captured by operation ", number_}));
    return lines;
  }

  SessionCore<C>* core_;
  device::Capture capture_;
  bool can_;
  // Memory written by the graph, of nobody else: plans, which the capture keeps, the flight, and memory of the pulls' mail. For
  // memory goes around among mails, plans and flights, and would come to show rows of a handle.
  Flight<C> const* prepared_ = nullptr;
  Owned<Flight<C>> flight_;
  typename Mail<C, CudaSpace>::Memory memory_;
  List<RegistrationPtr> updated_;  // the variables of the step
  std::int64_t steps_ = 0;         // of the session, before the body
  std::uint64_t number_ = 0;       // of the capturing operation
  Traffic before_, after_;
};

}  // namespace detail

// A step of a session, taken once by `capture`: pulls, a trainer's own kernels, and updates. Each replay takes it again, with
// the present ids and gradients at their places in device memory of the capture, and with the rules of its own step: numbers of
// steps, rates and other settings of optimizers are those at the replay. Its bits are those of a step without capture.
// Move-only. Must not outlive the session.
class CapturedStep {
 public:
  // Local, by `capture`. Owns the step.
  explicit CapturedStep(Owned<detail::Replays> step) : step_{std::move(step)} {}

  // Collective: the ranks agree that all of them replay this step, with the same settings, and launch its graph; the host waits
  // for no device. Errors, on all ranks, after which nothing has changed: those of a padded table's earlier batches, see
  // px::Padded; mismatch, if settings differ; an exception from an optimizer's `at`; misuse, if a variable is gone, updates
  // were started, or this rank has joined.
  void replay() { step_->replay(); }

 private:
  Owned<detail::Replays> step_;
};

// Collective. Calls `body`, which pulls from padded tables and takes one step of the session, and captures its work in the
// queue of the session's device, a trainer's own kernels among it; then takes this step, as a graph, which the result replays.
// The body's work on the host happens once. Memory that it names, of ids, offsets and gradients, is read again by replays; the
// handles of its pulls end with it, and their rows are made anew by every replay.
// Take steps of this kind before, so that all memory is there. Errors, on all ranks, if the step cannot be captured: misuse,
// with the reason. A body that throws after its step ends the session.
//   auto training = px::capture(session, [&] {
//     auto const rows = session.pull(words, px::on_device(ids));
//     backward(rows.values(), rows.inverse(), gradient, stream);  // kernels, in the queue's stream
//     session.step(px::grad(rows, gradient));
//   });
//   while (next(ids)) training.replay();
template <class C, class Body>
[[nodiscard]] CapturedStep capture(Session<C>& session, Body&& body) {
  constexpr bool on_device = requires { requires std::same_as<typename C::device_space, CudaSpace>; };
  static_assert(on_device, "parallax: a step is captured of a session on a CUDA device, as over NcclCommunicator");
  if constexpr (on_device) {
    constexpr bool can = requires { requires C::captures; };
    auto step = make_owned<detail::StepCapture<detail::edge_of<C>>>(session.core(), can);
    step->begin();
    try {
      body();
    } catch (...) {
      step->abandon();
      throw;
    }
    step->end();
    return CapturedStep{Owned<detail::Replays>{std::move(step)}};
  } else {
    return CapturedStep{Owned<detail::Replays>{}};
  }
}

}  // namespace parallax
