// NaivePs: how the parameter servers of TensorFlow 1 and MXNet take rows, a policy from outside the library. Benchmarks and tests
// hold the library's policies against it. tf1_ps.hpp has their way of dense variables as well.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <parallax/parallax.hpp>

namespace baseline {

namespace px = parallax;

// Every occurrence of a row is pushed to its owner with its key, uncoalesced and past any levels of a topology; the owner sums in
// the order (rank, position).
template <class C, class Index, class T, class Space, class Wire>
class NaivePush : public px::RowJourney<Index, T, Space> {
  using Base = px::RowJourney<Index, T, Space>;
  using Base::arrived_, Base::counted_, Base::finished_, Base::own_, Base::plan_, Base::rows_;

 public:
  static constexpr bool every_occurrence = true;

  // Local. How many occurrences go to each target.
  void prepare() {
    sent_.resize(hop().targets.size() + 1);
    expected_.assign(hop().sources.size(), 0);
    for (std::size_t t = 0; t < sent_.size(); ++t) sent_[t] = plan_->level(0).here().offsets[plan_->runs[0].sent[t]];
  }
  template <class Tell>
  void tell(Tell&& tell) const {
    for (std::size_t t = 0; t < hop().targets.size(); ++t) tell(hop().targets[t], sent_[t + 1] - sent_[t]);
  }
  template <class Told>
  void hear(Told&& told) {
    for (std::size_t s = 0; s < hop().sources.size(); ++s) expected_[s] = told(hop().sources[s]);
  }

  bool next(px::Mails<C>& mail) {
    if (finished_) return false;
    auto& rows = mail.template of<Space>();
    auto const width = static_cast<std::size_t>(this->width());
    keys_slip_ = mail.of().open(sizeof(Index), px::Payload::ids);
    rows_slip_.open(rows, px::Payload::rows);
    for (std::size_t t = 0; t < hop().targets.size(); ++t) {
      mail.of().send(keys_slip_, hop().targets[t], (sent_[t + 1] - sent_[t]) * sizeof(Index));
      rows_slip_.send(rows, hop().targets[t], (sent_[t + 1] - sent_[t]) * width);
    }
    for (std::size_t s = 0; s < hop().sources.size(); ++s) {
      mail.of().expect(keys_slip_, hop().sources[s], expected_[s] * sizeof(Index));
      rows_slip_.expect(rows, hop().sources[s], expected_[s] * width);
    }
    return true;
  }
  void write(px::Mails<C>& mail) {
    auto const& own = plan_->level(0).here();
    auto const& ops = this->ops();
    for (std::size_t t = 0; t < hop().targets.size(); ++t) {
      std::size_t const n = sent_[t + 1] - sent_[t];
      if (n == 0) continue;
      auto* const keys = mail.of().template outgoing<Index>(keys_slip_, hop().targets[t]);
      for (std::size_t i = 0; i < n; ++i) keys[i] = own.keys[own.inverse[own.order[sent_[t] + i]]];
      auto const positions = ops.order(plan_->level(0).there(ops)).subspan(sent_[t], n);
      rows_slip_.write(mail.template of<Space>(), hop().targets[t], [&](T* rows) {
        if (own_.per == px::RowsPer::bag) ops.gather_terms(plan_->bags.terms(own_.values), positions, rows);
        else ops.gather_rows(own_.values, positions, {}, rows);
      });
    }
  }
  void read(px::Mails<C>& mail) {
    mail.of().take(keys_slip_, hop().sources, arrived_keys_);
    rows_slip_.take(mail.template of<Space>(), hop().sources, arrived_.rows);
    finished_ = true;
  }

  void reduce() {
    std::size_t const n = arrived_keys_.size() / sizeof(Index);
    std::span const keys{reinterpret_cast<Index const*>(arrived_keys_.data()), n};
    groups_.group_here(this->ops(), keys, rows_, plan_->sort);
    if (counted_) {
      arrived_.counts.resize_with_slack(n * sizeof(std::uint32_t));
      this->ops().fill(reinterpret_cast<std::uint32_t*>(arrived_.counts.data()), n, 1u);
    }
    this->sum_by(groups_);
  }

 private:
  px::Hop const& hop() const { return plan_->hops.front(); }

  int keys_slip_ = -1;
  px::WireSlip<C, Wire, T, Space> rows_slip_;
  std::vector<std::size_t> sent_, expected_;  // begins by target; occurrences by source
  px::Buffer<std::byte> arrived_keys_;
  px::Groups<Index, Space> groups_;
};

struct NaivePs {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "NaivePs";

  template <class Kind>
  struct exchange {
    static_assert(std::is_same_v<Kind, px::Sparse>,
                  "parallax: NaivePs pushes indexed rows and has no dense form: use PsShard for a Dense variable");
    static constexpr bool sharded = true, direct = true;
    template <px::Communicator C, class Update>
    using way = px::RowsWay<C, Update, NaivePush>;

    // As PsShard, as if no index named a row twice.
    static px::Prediction predict(px::TableFacts const& table, px::TableUse const& use, px::RankShape const& shape,
                                  px::Costs const& costs) {
      return px::PsShard::exchange<px::Sparse>::predict(table, use, shape, costs);
    }
  };
};

// Dense -> PsShard, Sparse -> NaivePs.
struct naive_parameter_server {
  using axis = px::policy_axis;
  template <class Kind>
  using resolve = std::conditional_t<std::is_same_v<Kind, px::Dense>, px::PsShard, NaivePs>;
};

}  // namespace baseline
