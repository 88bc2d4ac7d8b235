// WholeOnServer, and with NaivePs the parameter server as TensorFlow 1 had it: policies from outside the library, which
// benchmarks hold the library's own against.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <parallax/parallax.hpp>

#include "naive_ps.hpp"

namespace baseline {

// Each dense variable lies whole on one rank, its server, which all gradients go to and come back from: the variables in turn,
// as tf.train.replica_device_setter dealt them. Past any levels of a topology. The server sums in the order of ranks. It sends
// sums back, and TensorFlow's servers sent parameters: as many bytes, of which every rank makes the same parameters.
struct WholeOnServer {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "WholeOnServer";

  template <class Kind>
  struct exchange {
    static_assert(std::is_same_v<Kind, px::Dense>,
                  "parallax: WholeOnServer is for a Dense variable: use NaivePs for the rows of a Sparse one");
    static constexpr bool sharded = false;

    template <px::Communicator C, class Update>
    class way : public px::DenseWay<C, Update, px::WholeSums> {
      using Base = px::DenseWay<C, Update, px::WholeSums>;
      using T = typename Base::T;
      static_assert(Base::Space::host_readable, "WholeOnServer sums in the host's memory");

     public:
      void prepare(Update const& update, px::Topology<C> const& topology, px::Preparing how, int clip) {
        Base::prepare(update, topology, how, clip);
        this->sums_.open(this->gradient_.size());
        ranks_ = topology.size();
        server_ = topology.owner_rank(this->state_->registration()->number % topology.owners());
        serves_ = server_ == topology.rank();
        leg_ = 0;
      }
      // There, and back.
      bool next(px::Mails<C>& mails) {
        if (leg_ == 2) return false;
        auto& mail = mails.of();
        std::size_t const bytes = this->gradient_.size_bytes();
        slip_ = leg_ == 0 ? mail.open(sizeof(T), px::Payload::dense) : mail.open_shared(sizeof(T), px::Payload::dense);
        if (leg_ == 0) mail.send(slip_, server_, bytes);
        else mail.expect(slip_, server_, bytes);
        for (int rank = 0; rank < ranks_ && serves_; ++rank) {
          if (leg_ == 0) mail.expect(slip_, rank, bytes);
          else mail.send(slip_, rank, bytes);
        }
        return true;
      }
      void write(px::Mails<C>& mails) {
        if (this->gradient_.empty()) return;
        if (leg_ == 0) std::ranges::copy(this->gradient_, mails.of().template outgoing<T>(slip_, server_));
        else if (serves_)
          mails.of().template write_shared<T>(slip_, [&](T* run) { std::ranges::copy(this->sums_.own().values, run); });
      }
      void read(px::Mails<C>& mails) {
        auto const sums = this->sums_.own().values;
        bool const back = leg_++ == 1;
        if (sums.empty() || serves_ == back) return;
        for (int rank = back ? server_ : 0; rank < (back ? server_ + 1 : ranks_); ++rank) {
          T const* const came = mails.of().template incoming<T>(slip_, rank);
          for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = back || rank == 0 ? came[i] : sums[i] + came[i];
        }
      }

     private:
      int slip_ = -1, ranks_ = 0, server_ = 0, leg_ = 2;
      bool serves_ = false;
    };

    // Of the server, which is the busiest rank: its gradient stays, and the sums go to all others.
    static px::Prediction predict(px::TableFacts const& elements, px::TableUse const&, px::RankShape const& shape,
                                  px::Costs const& costs) {
      double const whole = elements.rows * elements.row_bytes;
      px::Bill bill{costs, shape};
      bill.within_host(2, (shape.per_host - 1) * whole);
      bill.between_hosts(2, (shape.ranks() - shape.per_host) * whole);
      bill.streamed(shape.ranks() * whole + 2 * elements.rows * elements.state_bytes);
      return bill.sum();
    }
  };
};

// Dense -> WholeOnServer, Sparse -> NaivePs.
struct tf1_parameter_server {
  using axis = px::policy_axis;
  template <class Kind>
  using resolve = std::conditional_t<std::is_same_v<Kind, px::Dense>, WholeOnServer, NaivePs>;
};

}  // namespace baseline
