// A policy of one's own: of a dense gradient only the k largest elements travel, and the rest is kept for later steps (error
// feedback: Stich, Cordonnier and Jaggi, NeurIPS 2018).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <parallax/parallax.hpp>
#include <parallax/policy/residual.hpp>

template <std::size_t k>
struct TopK {
  using axis = parallax::policy_axis;
  static constexpr std::string_view name = "TopK";

  template <class Kind>
  struct exchange {
    static_assert(std::is_same_v<Kind, parallax::Dense>, "TopK has no form for rows: use PsShard for a Sparse variable");
    static constexpr bool sharded = false;  // every rank holds all parameters

    template <class State>
    using memory = parallax::Residual<typename State::scalar_type>;  // kept with the variable; a refused step gives it back

    template <parallax::Communicator C, class Update>
    class way : public parallax::DenseWay<C, Update, parallax::WholeSums> {  // every rank forms the whole sum
      using Base = parallax::DenseWay<C, Update, parallax::WholeSums>;
      using typename Base::Space, typename Base::T;

     public:
      void prepare(Update const& update, parallax::Topology<C> const& topology, parallax::Preparing how, int clip) {
        Base::prepare(update, topology, how, clip);
        std::span<T> const left = this->state_->policy_state.add(this->gradient_);
        std::size_t const count = std::min(k, left.size());
        indices_.resize(left.size());
        std::iota(indices_.begin(), indices_.end(), 0u);
        auto const place = [&](std::uint32_t i) {  // what is no number goes first: it is seen, and not kept
          T const magnitude = std::abs(left[i]);
          return std::pair{std::isnan(magnitude) ? -std::numeric_limits<T>::infinity() : -magnitude, i};
        };
        std::nth_element(indices_.begin(), indices_.begin() + static_cast<std::ptrdiff_t>(count), indices_.end(),
                         [&](auto a, auto b) { return place(a) < place(b); });
        indices_.resize(count);
        values_.clear();
        for (std::uint32_t const i : indices_) values_.push_back(std::exchange(left[i], T{0}));
        std::ranges::fill(this->sums_.open(left.size()), T{0});
        everybody_.resize(static_cast<std::size_t>(topology.size()));
        std::iota(everybody_.begin(), everybody_.end(), 0);
        leg_.expected.assign(everybody_.size(), count);
        arrived_ = false;
      }

      bool next(parallax::Mails<C>& mails) {  // one leg: k pairs to everybody, k from everybody
        if (!arrived_) leg_.open(mails, indices_.size(), everybody_, everybody_, 1, false);
        return !arrived_;
      }
      void write(parallax::Mails<C>& mails) {
        leg_.write(mails, {indices_, [&](T* out) { std::ranges::copy(values_, out); }, [](std::uint32_t*) {}}, false);
      }
      void read(parallax::Mails<C>& mails) {  // in the order of ranks: the same bits everywhere
        leg_.read(mails, everybody_, pairs_, false);
        T const* value = pairs_.first();
        for (std::uint32_t const index : leg_.arrived_keys()) this->sums_.own().values[index] += *value++;
        arrived_ = true;
      }

     private:
      std::vector<std::uint32_t> indices_;
      std::vector<T> values_;
      std::vector<int> everybody_;
      parallax::GatherLeg<C, std::uint32_t, T, Space> leg_;
      parallax::ArrivedRows<T, Space> pairs_;
      bool arrived_ = true;
    };

    static parallax::Prediction predict(parallax::TableFacts const& elements, parallax::TableUse const&,
                                        parallax::RankShape const& shape, parallax::Costs const& costs) {
      double const pairs = std::min(static_cast<double>(k), elements.rows) * (elements.row_bytes + sizeof(std::uint32_t));
      parallax::Bill bill{costs, shape};
      bill.within_host(1, (shape.per_host - 1) * pairs);
      bill.between_hosts(1, (shape.ranks() - shape.per_host) * pairs);
      return bill.sum();
    }
  };
};
