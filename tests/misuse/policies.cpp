// Update policies that lack something, in use.
#include "world.hpp"

std::vector<float> memory(4);

struct Named {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Mine";
};
struct Predicted {
  static px::Prediction predict(px::TableFacts const&, px::TableUse const&, px::RankShape const&, px::Costs const&) {
    return {};
  }
};
struct Unsharded : Predicted {
  static constexpr bool sharded = false;
};
template <class Policy>
struct Trained {
  px::Variable<px::Dense, Policy> weights{session, "weights", px::bind(memory)};
  void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
};

#if defined(choice_for_a_dense_variable)
// expect: parallax: what is chosen while training goes on is the way of a Sparse variable
struct Mine : px::Choose<px::PsShard, px::AllReduce> {
  static constexpr std::string_view name = "Mine";
};
template struct Trained<Mine>;
#elif defined(chosen_way_without_a_phase)
// expect: parallax: the way of this update policy lacks gradient() (see policy/exchange.hpp)
struct Lacking : Named {
  template <class Kind>
  struct exchange : Predicted {
    static constexpr bool sharded = true;
    template <px::Communicator C, class Update>
    struct way : px::WayBase<C, Update> {
      void prepare(Update const&, px::Topology<C> const&, px::Preparing, int);
    };
  };
};
struct Chosen : px::Choose<px::PsShard, Lacking> {
  static constexpr std::string_view name = "Chosen";
};
px::Variable<px::Sparse, Chosen> words{session, "words", {4, 2}};
void train(std::vector<int> const& ids, std::vector<float> const& rows) { session.step(px::grad(words, ids, rows)); }
#elif defined(exchange_that_does_not_predict)
// expect: parallax: the exchange of this update policy lacks `static Prediction predict(TableFacts const&,
struct Mine : Named {
  template <class Kind>
  struct exchange {
    static constexpr bool sharded = false;
    template <px::Communicator C, class Update>
    using way = typename px::AllReduce::exchange<Kind>::template way<C, Update>;
  };
};
template struct Trained<Mine>;
#elif defined(exchange_that_does_not_say_sharded)
// expect: parallax: the exchange of this update policy lacks `static constexpr bool sharded`
struct Mine : Named {
  template <class Kind>
  struct exchange : Predicted {
    template <px::Communicator C, class Update>
    using way = typename px::AllReduce::exchange<Kind>::template way<C, Update>;
  };
};
template struct Trained<Mine>;
#elif defined(exchange_without_a_way)
// expect: parallax: the exchange of this update policy lacks `template <Communicator C, class Update> way`
struct Mine : Named {
  template <class Kind>
  struct exchange : Unsharded {};
};
template struct Trained<Mine>;
#elif defined(memory_without_a_visit)
// expect: parallax: the memory<State> of this update policy lacks template <class Items> void visit(Items&): it shows an archive the items kept
struct Mine : Named {
  template <class Kind>
  struct exchange : px::AllReduce::exchange<Kind> {
    template <class State>
    struct memory {
      typename State::scalar_type left = 0;
      template <class Items>
      void vist(Items& items) {
        items.number("left", left);
      }
    };
  };
};
px::Variable<px::Dense, Mine> others{session, "others", px::bind(memory)};
struct Archive {
  static constexpr bool reads = false;
  void item(px::Item const&, std::span<std::byte const>) {}
} archive;
void save() { session.visit(archive, others); }
template struct Trained<Mine>;
#elif defined(policy_without_a_name)
// expect: parallax: an update policy has a name: static constexpr std::string_view name
struct Mine {
  using axis = px::policy_axis;
  template <class Kind>
  using exchange = px::AllReduce::exchange<Kind>;
};
template struct Trained<Mine>;
#elif defined(policy_without_an_axis)
// expect: parallax: an argument of Variable is no option: it looks like an update policy, and lacks a public `using axis = parallax::policy_axis`
struct Mine {
  static constexpr std::string_view name = "Mine";
  template <class Kind>
  struct exchange : px::AllReduce::exchange<Kind> {};
};
px::Variable<px::Dense, px::Adam, Mine> others{session, "others", px::bind(memory), px::Adam{}};
void train(std::vector<float> const& gradient) { session.step(px::grad(others, gradient)); }
#elif defined(policy_without_an_exchange)
// expect: parallax: this update policy has no way for a gradient: give it a nested template exchange<Kind>
template struct Trained<Named>;
#elif defined(way_of_nothing_in_common)
// expect: parallax: the way of this update policy lacks what all ways share: derive it from WayBase<C, Update>
struct Mine : Named {
  template <class Kind>
  struct exchange : Unsharded {
    template <px::Communicator C, class Update>
    struct way {
      void prepare(Update const& update, px::Topology<C> const&, px::Preparing, int clip);
    };
  };
};
template struct Trained<Mine>;
#elif defined(way_with_a_misspelt_leg)
// expect: parallax: the way of this update policy lacks a read(mails) of its own: over WholeSums the legs next, write and read form the sum (see policy/exchange.hpp)
struct Mine : Named {
  template <class Kind>
  struct exchange : Unsharded {
    template <px::Communicator C, class Update>
    struct way : px::DenseWay<C, Update, px::WholeSums> {
      bool next(px::Mails<C>&);
      void write(px::Mails<C>&);
      void receive(px::Mails<C>&);
    };
  };
};
template struct Trained<Mine>;
#elif defined(way_without_a_merge)
// expect: parallax: the way of this update policy lacks merge() (see policy/exchange.hpp)
struct Mine : Named {
  template <class Kind>
  struct exchange : Unsharded {
    template <px::Communicator C, class Update>
    class way : public px::WayBase<C, Update> {
      using Elements = px::RowsView<typename Update::T const>;

     public:
      void prepare(Update const& update, px::Topology<C> const&, px::Preparing, int clip) { this->begin(update, clip); }
      Elements gradient() const;
      void deposit(int clip);
      Elements clipped(px::Topology<C> const&) const;
      Elements result();
      std::string place_of(px::NonFiniteElement const&, bool) const;
      void apply(double scale);
    };
  };
};
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory)};
void train(std::vector<float> const& gradient) {
  std::vector const layers{px::grad(weights, gradient)};
  session.step(px::grad(weights, gradient), layers);
}
#elif defined(way_without_legs)
// expect: parallax: the way of this update policy lacks a next(mails) of its own: over WholeSums the legs next, write and read form the sum (see policy/exchange.hpp)
struct Mine : Named {
  template <class Kind>
  struct exchange : Unsharded {
    template <px::Communicator C, class Update>
    struct way : px::DenseWay<C, Update, px::WholeSums> {
      void prepare(Update const& update, px::Topology<C> const& topology, px::Preparing how, int clip) {
        px::DenseWay<C, Update, px::WholeSums>::prepare(update, topology, how, clip);
        this->sums_.open(this->gradient_.size());
      }
    };
  };
};
template struct Trained<Mine>;
#endif
