// Updates under way together: agreed on in one round, exchanged in shared transfers, brought to a result in phases.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/session/adaptive_work.hpp"
#include "parallax/session/flight_base.hpp"
#include "parallax/session/seat.hpp"

namespace parallax::detail {

template <class Argument>
inline constexpr bool is_clip_group = false;
template <class... Updates>
inline constexpr bool is_clip_group<ClipGroup<Updates...>> = true;

template <Communicator C, class... Arguments>
class Flight final : public FlightBase<C> {
  using Base = FlightBase<C>;
  using Taken = TakesAny<Arguments...>;
  static constexpr bool clips = (false || ... || is_clip_group<Arguments>);
  using typename Base::Stage;
  using Base::topology_, Base::current_, Base::records_, Base::agreement_, Base::mail_, Base::stage_, Base::idle_, Base::ahead_;

 public:
  using Base::Base;

  // Local. Checks and prepares all updates; what goes wrong is kept for the agreement. `keep`: the updates outlive the call,
  // and what can be done before the step completes them is.
  void prepare(bool keep, Arguments const&... arguments) {
    this->clear();
    bool const finite = this->options_->non_finite == NonFinite::error;
    this->early_ = keep || topology_->spreads();
    counts_ = 0;
    try {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (seat(std::get<I>(seats_), arguments, Preparing{keep, *this->joined_, finite}), ...);
      }(std::index_sequence_for<Arguments...>{});
      this->adapts_ = Taken::adapting;
      if (this->overwrites_) refuse_shared_memory();
      if (ahead_) counts_ += ahead_->counts();
      this->close_buckets();
      if (finite) this->start_looking([](auto& findings) -> auto& { return findings.of_gradients; });
      agreement_.reserve(counts_);
    } catch (...) {
      this->error_ = current_error(topology_->rank(), "step", records_.empty() ? std::string_view{} : records_.back().name());
    }
  }

  // The agreement about these updates begins. `context` is what else the ranks must have in common.
  void post(std::uint64_t context) {
    bool const refused = this->error_.has_value();
    Fingerprint hash;
    hash.add(context);
    hash.add(this->hash_with(refused ? Fingerprint{} : this->prepared_));
    agreement_.begin(hash.value(), !refused, *this->joined_, refused ? 0 : counts_, !ahead_ || ahead_->planned());
    std::size_t which = 0;
    if constexpr (Taken::journeys)
      if (!refused) works([&](auto& work) {
        if (work.counts() == 0) return;
        work.tell(*topology_, [&](int rank, std::size_t count) { agreement_.tell(rank, which, count); });
        which += work.counts();
      });
    if (!refused && ahead_) ahead_->tell(agreement_, which);
    agreement_.post();
    stage_ = Stage::agreeing;
  }

  bool poll() override {
    if (stage_ == Stage::agreeing && this->agreed() && stage_ == Stage::exchanging) depart();
    if (stage_ == Stage::exchanging) {
      if (!this->carried_) carry_rows();
      bool const dense = this->exchange_dense();
      if (this->carried_ && dense) stage_ = Stage::arrived;
    }
    return stage_ == Stage::arrived;
  }

  void reduce([[maybe_unused]] int group_base) override {
    named_works([&](auto& work) {
      work.reduce();
      work.divide_by(this->divisors_);
      work.deposit(!clips || work.group() < 0 ? -1 : group_base + work.group());
    });
  }
  void merge() override {
    named_works([](auto& work) { work.merge(); });
  }
  void transform() override {
    if constexpr (Taken::transform) named_works([](auto& work) { work.transform(); });
  }
  void seek(bool finite) override {
    if constexpr (Taken::measures) {
      this->measured_.each([](auto& sums) { sums.sharded.clear(), sums.replicated.clear(); });
      works([&](auto& work) {
        if (work.leader()) work.enrol(this->measured_);
      });
      this->measured_.each([&](auto& sums) { sums.sharded.open(*topology_), sums.replicated.open(*topology_); });
    }
    if (!clips && !finite) return;
    named_works([&](auto& each) {
      with_work(each, [&](auto& work) {
        if (!work.leader()) return;
        auto& findings = findings_of(work).of_sums;
        if (work.group() >= 0) work.sought.squares = findings.seek(Sought::squares, work.clipped(*topology_));
        if (finite) work.sought.in_sums = findings.seek(Sought::non_finite, work.result());
      });
    });
    this->start_looking([](auto& findings) -> auto& { return findings.of_sums; });
  }
  void norms([[maybe_unused]] double* squared) override {
    if constexpr (clips) works([&](auto& each) {
      with_work(each, [&](auto& work) {
        if (work.leader() && work.group() >= 0)
          squared[work.group()] += findings_of(work).of_sums.sum_of_squares(work.sought.squares);
      });
    });
  }
  std::optional<NonFiniteFound> non_finite() override {
    std::optional<NonFiniteFound> found;
    auto const look = [&](bool in_gradient) {
      works([&](auto& each) {
        with_work(each, [&](auto& work) {
          auto const place = in_gradient ? work.sought.in_gradient : work.sought.in_sums;
          if (found || place == SoughtOf::none) return;
          auto const& findings = findings_of(work);
          auto const element = (in_gradient ? findings.of_gradients : findings.of_sums).first_non_finite(place);
          if (element) found = {non_finite_error(work, *element, in_gradient), in_gradient};
        });
      });
    };
    look(true);
    if (!found) look(false);
    return found;
  }
  void measure([[maybe_unused]] double const* scales) override {
    if constexpr (Taken::measures) works([&](auto& work) {
      if (work.leader()) work.measure(scale_of(work, scales));
    });
  }
  void apply(double const* scales) override {
    works([&](auto& work) {
      if (work.leader()) work.apply(scale_of(work, scales));
    });
  }
  std::size_t use_words() override {
    std::size_t sum = 0;
    adaptable([&](auto& work, auto adaptation) { sum += adaptation.words(work.state()); });
    return sum;
  }
  void tell_use(std::vector<double>& words, double now) override {
    adaptable([&](auto& work, auto adaptation) { adaptation.tell(work.state(), words, now); });
  }
  void adapt(Adapting<C>& by, FunctionRef<double const*(int)> words_of, std::size_t& at) override {
    adaptable([&](auto& work, auto adaptation) {
      auto const told = [&words_of, begin = at](int rank) { return words_of(rank) + begin; };
      at += adaptation.words(work.state());
      if (work.leader()) adaptation.conclude(work.state(), by, told);
    });
  }
  void close() noexcept override {
    idle_ = false;
    works([](auto& work) { work.close(); });
    this->end();
  }

 private:
  template <class Work>
  static double scale_of([[maybe_unused]] Work& work, [[maybe_unused]] double const* scales) {
    return !clips || work.group() < 0 ? 1.0 : scales[work.group()];
  }

  template <class S, class Argument>
  void seat(S& seat, Argument const& argument, Preparing how) {
    int group = -1;
    if constexpr (is_clip_group<Argument>) {
      group = static_cast<int>(this->limits_.size());
      this->limits_.push_back(argument.max_norm);
    }
    seat.prepare(argument, group, [&](auto& work, auto const& update, int in_group) {
      using Rows = UpdateRecord::Rows;
      Registration const& known = *update.state->registration();
      if (known.session != this->session_) throw known.stranger(topology_->rank(), "step");
      records_.push_back({&known, in_group, transforms<decltype(update.function)>, Rows::none});
      UpdateRecord& record = records_.back();
      work.prepare(update, *topology_, how, in_group);
      if constexpr (requires { work.memory(); }) {
        this->overwrites_ |= work.memory().in_place;
        this->moved_ |= work.moved();
      }
      if constexpr (requires { work.plan_known(); }) record.rows = work.plan_known() ? Rows::of_a_pull : Rows::by_index;
      record.add_to(this->prepared_, *update.state);
      with_work(work, [&](auto& prepared) { look_at_gradient(prepared, how); });
      work.join(this->buckets_);
      this->early_ = this->early_ && work.gathers_early();
      if constexpr (Taken::journeys) counts_ += work.counts();
    });
  }

  // Looks only where gradients have moved since it last looked.
  void refuse_shared_memory() {
    if (!this->moved_ && this->looked_at_ == records_.size()) return;
    auto& memory = this->gradient_memory_;
    memory.clear();
    works([&](auto& work) {
      if constexpr (requires { work.memory(); }) memory.push_back(work.memory());
    });
    auto const shared = shared_memory(memory);
    if (!shared) {
      this->moved_ = false;
      this->looked_at_ = records_.size();
      return;
    }
    auto const& [overwritten, other] = *shared;
    throw Error{Errc::invalid_argument, topology_->rank(), "step", std::string{overwritten.variable},
                "its gradient was given in_place, and the gradient of " + std::string{other.variable} + " shares memory with it"};
  }

  template <class Work>
  auto& findings_of(Work const&) {
    return this->findings_.template of<typename Work::Space>();
  }
  template <class Work>
  Error non_finite_error(Work& work, NonFiniteElement const& found, bool in_gradient) const {
    return {Errc::non_finite, topology_->rank(), "step", work.state().name(),
            std::string{in_gradient ? "of the gradient, " : "of the sum over ranks, "} + work.place_of(found, !in_gradient) +
                " is " + number_text(static_cast<typename Work::T>(found.value))};
  }
  // In the host's memory a gradient is looked at before it is sent; elsewhere with all others, when the step is to be completed.
  template <class Work>
  void look_at_gradient(Work& work, Preparing how) {
    work.sought = {};
    if (!how.finite || how.joined) return;
    if constexpr (Work::Space::host_readable) {
      if (auto const found = first_non_finite(work.gradient())) throw non_finite_error(work, *found, true);
    } else {
      work.sought.in_gradient = findings_of(work).of_gradients.seek(Sought::non_finite, work.gradient());
    }
  }

  // Calls f with every work that was prepared, in the order of the arguments; with none while all ranks have joined.
  template <class F>
  void works(F&& f) {
    std::size_t left = idle_ ? 0 : records_.size();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (std::get<I>(seats_).each(left, f), ...);
    }(std::index_sequence_for<Arguments...>{});
  }

  // The same, where errors are to name the variable.
  template <class F>
  void named_works(F&& f) {
    UpdateRecord const* record = records_.data();
    try {
      works([&](auto& work) {
        f(work);
        ++record;
      });
    } catch (...) {
      *current_ = record->name();
      throw;
    }
  }

  // Calls f with every work of a variable under Auto, and with its Adaptation.
  template <class F>
  void adaptable([[maybe_unused]] F&& f) {
    if constexpr (Taken::adapting) works([&](auto& work) {
      using State = std::remove_cvref_t<decltype(work.state())>;
      if constexpr (requires { requires State::adaptive; }) f(work, Adaptation<State>{});
    });
  }

  void carry_rows() {
    bool const climbs = ahead_ && agreement_.ahead();
    this->carried_ = carry(mail_, [&](auto&& f) {
      if constexpr (Taken::journeys) works([&](auto& work) { work.visit_journey(f); });
      if (climbs) f(*ahead_);
    });
    if (this->carried_ && climbs) ahead_->arrive();
  }

  void depart() {
    std::size_t which = 0;
    if constexpr (Taken::journeys) works([&](auto& work) {
      if (work.counts() == 0) return;
      work.hear(*topology_, [&](int rank) { return static_cast<std::size_t>(agreement_.told(rank, which)); });
      which += work.counts();
    });
    if (ahead_ && agreement_.ahead()) ahead_->climb(agreement_, which, *topology_);
  }

  std::tuple<Seat<C, Arguments>...> seats_;
  std::size_t counts_ = 0;  // numbers that ride in the agreement
};

}  // namespace parallax::detail
