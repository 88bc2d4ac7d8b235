// A communicator, an optimizer, a partitioner and a policy of one's own, done right, and what is said of each where a member is missing.
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <parallax/parallax.hpp>

namespace px = parallax;

// Each type leaves out one member: number `Missing`, in the order in which they are looked for.
template <int Missing>
struct World {
  struct Right {
    bool test() { return true; }
    int waiting_for() const { return -1; }
  };
  struct Fixed : Right {
    Fixed() = default;
    Fixed(Fixed&&) = delete;
  };
  struct WithoutTest {
    int waiting_for() const { return -1; }
  };
  struct WithoutName {
    bool test() { return true; }
  };
  int rank() const requires(Missing != 1) { return 0; }
  int size() const requires(Missing != 2) { return 1; }
  Right ialltoallv(int, px::Transfer const&) requires(Missing != 3 && (Missing < 4 || Missing > 6)) { return {}; }
  Fixed ialltoallv(int, px::Transfer const&) requires(Missing == 4);
  WithoutTest ialltoallv(int, px::Transfer const&) requires(Missing == 5);
  WithoutName ialltoallv(int, px::Transfer const&) requires(Missing == 6);
  void abort(px::Error const&) requires(Missing != 7) {}
  std::chrono::nanoseconds deadline() const requires(Missing != 8) { return std::chrono::seconds{60}; }
};
template <int Missing>
constexpr bool communicator_is_found = int(px::detail::communicator_lacks<World<Missing>>()) == (Missing == 0 ? 0 : Missing + 1) &&
                                       px::Communicator<World<Missing>> == (Missing == 0);
static_assert(communicator_is_found<0> && communicator_is_found<1> && communicator_is_found<2> && communicator_is_found<3> &&
              communicator_is_found<4> && communicator_is_found<5> && communicator_is_found<6> && communicator_is_found<7> &&
              communicator_is_found<8>);
static_assert(px::detail::communicator_lacks<px::SelfCommunicator const>() == px::detail::CommunicatorLack::mutability);

template <int Missing>
struct Dealing {
  using axis = px::partitioner_axis;
  struct Layout {
    std::int64_t all = 0;
    int number = 1;
    Layout() = default;
    Layout(std::int64_t rows, int owners) : all{rows}, number{owners} {}
    Layout(Layout const&) requires(Missing != 5) = default;
    Layout& operator=(Layout const&) requires(Missing != 5) = default;
    std::int64_t rows() const requires(Missing != 6) { return all; }
    int owners() const requires(Missing != 7) { return number; }
    px::Location locate(std::int64_t row) const requires(Missing != 8) { return {0, row}; }
    std::int64_t global_row(int, std::int64_t local) const requires(Missing != 9) { return local; }
    std::int64_t local_rows(int owner) const requires(Missing != 10) { return owner == 0 ? all : 0; }
  };
  Dealing() = default;
  Dealing(Dealing const&) requires(Missing != 1) = default;
  Dealing& operator=(Dealing const&) requires(Missing != 1) = default;
  struct Text {
    operator std::string_view() const requires(Missing != 2) { return "Dealing"; }
  };
  static constexpr Text name{};
  std::conditional_t<Missing == 3, int, std::int64_t> pieces = 0;
  Layout layout(std::int64_t rows, int owners) const requires(Missing != 4) { return {rows, owners}; }
};
template <int Missing>
constexpr bool partitioner_is_found = int(px::detail::partitioner_lacks<Dealing<Missing>>()) == Missing &&
                                      px::Partitioner<Dealing<Missing>> == (Missing == 0);
static_assert(partitioner_is_found<0> && partitioner_is_found<1> && partitioner_is_found<2> && partitioner_is_found<3> &&
              partitioner_is_found<4> && partitioner_is_found<5> && partitioner_is_found<6> && partitioner_is_found<7> &&
              partitioner_is_found<8> && partitioner_is_found<9> && partitioner_is_found<10>);

struct NoSlots {
  using axis = px::optimizer_axis;
};
struct NoRule : NoSlots {
  using element_slots = px::slot_types<px::scalar>;
};
struct Plain : NoRule {
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& sum) noexcept { p -= sum += g; };
  }
};
struct Copied : Plain {
  Copied(Copied const&) {}
};
struct TwoSlots : Plain {
  using element_slots = px::slot_types<px::scalar, px::scalar>;
};
struct MayThrow : NoRule {
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& sum) { p -= sum += g; };
  }
};
template <bool Measures, bool MeasuresNothrow, bool Finishes, bool FinishesNothrow>
struct Measured {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  using row_slots = px::slot_types<double>;
  static constexpr px::Unit unit = px::Unit::row;
  struct Rule {
    px::Measures<1> measure(auto&, auto g) const noexcept(MeasuresNothrow) requires Measures { return {double(g)}; }
    auto finish(px::Measures<1> const&, std::int64_t, auto&) const noexcept(FinishesNothrow) requires Finishes {
      return [](auto& p, auto g) noexcept { p -= g; };
    }
  };
  Rule at(std::int64_t) const { return {}; }
};
template <class O, px::detail::OptimizerLack Lack>
constexpr bool optimizer_is_found = px::detail::optimizer_lacks<O, float>() == Lack &&
                                    px::OptimizerFor<O, float> == (Lack == px::detail::OptimizerLack::nothing);
using Lack = px::detail::OptimizerLack;
static_assert(optimizer_is_found<Plain, Lack::nothing> && optimizer_is_found<Copied, Lack::copies> &&
              optimizer_is_found<NoSlots, Lack::element_slots> && optimizer_is_found<NoRule, Lack::at> &&
              optimizer_is_found<TwoSlots, Lack::rule> && optimizer_is_found<MayThrow, Lack::nothrow_rule>);
static_assert(optimizer_is_found<Measured<true, true, true, true>, Lack::nothing> &&
              optimizer_is_found<Measured<false, true, true, true>, Lack::measure> &&
              optimizer_is_found<Measured<true, false, true, true>, Lack::nothrow_measure> &&
              optimizer_is_found<Measured<true, true, false, true>, Lack::finish> &&
              optimizer_is_found<Measured<true, true, true, false>, Lack::nothrow_finish>);

template <int Missing>
struct Travelling {
  using axis = px::policy_axis;
  struct Text {
    operator std::string_view() const requires(Missing != 1) { return "Travelling"; }
  };
  static constexpr Text name{};
  template <class Kind>
  struct Whole {
    static constexpr std::conditional_t<Missing == 3, Travelling, bool> sharded{};
    static px::Prediction predict(px::TableFacts const&, px::TableUse const&, px::RankShape const&, px::Costs const&)
      requires(Missing != 4)
    {
      return {};
    }
  };
  template <class Kind>
    requires(Missing != 2)
  using exchange = Whole<Kind>;
};
template <int Missing>
constexpr bool policy_is_found = int(px::detail::policy_lacks<Travelling<Missing>, px::Dense>()) == Missing;
static_assert(policy_is_found<0> && policy_is_found<1> && policy_is_found<2> && policy_is_found<3> && policy_is_found<4>);

struct Update {};
template <int Missing>
struct Phases {
  int sought, travelling, state() const, clip() const;
  bool leader() const requires(Missing != 1);
  void prepare(Update const&, px::Topology<World<0>> const&, px::Preparing, int) requires(Missing != 2);
  void gradient() requires(Missing != 3);
  void deposit(int) requires(Missing != 4);
  void merge() requires(Missing != 5);
  void clipped(px::Topology<World<0>> const&) requires(Missing != 6);
  void result() requires(Missing != 7);
  void place_of(px::NonFiniteElement const&, bool) requires(Missing != 8);
  void apply(double) requires(Missing != 9);
};
template <int Missing>
constexpr bool phase_is_found = int(px::detail::way_lacks<Phases<Missing>, World<0>, Update>()) == Missing;
static_assert(phase_is_found<0> && phase_is_found<1> && phase_is_found<2> && phase_is_found<3> && phase_is_found<4> &&
              phase_is_found<5> && phase_is_found<6> && phase_is_found<7> && phase_is_found<8> && phase_is_found<9>);

// What an option that lies on no axis is told by.
struct Resting {
  static constexpr bool host_readable = true;
};
struct Dealer {
  int layout(std::int64_t, int) const;
};
struct Ruled {
  int at(std::int64_t) const;
};
struct Numbers {
  int const& at(std::int64_t) const;
};
using Look = px::detail::OptionLook;
static_assert(px::detail::option_look<Travelling<0>>() == Look::policy && px::detail::option_look<Ruled>() == Look::optimizer &&
              px::detail::option_look<Plain>() == Look::optimizer && px::detail::option_look<Dealer>() == Look::partitioner &&
              px::detail::option_look<Resting>() == Look::space && px::detail::option_look<Numbers>() == Look::none &&
              px::detail::option_look<int>() == Look::none);

World<0> world;
px::Session session{world};
px::Variable<px::Sparse, Dealing<0>> words{session, "words", {4, 2}};
px::Variable<px::Sparse> nothing{session, "nothing", {}}, narrow{session, "narrow", {.width = 2}};
char const* const name = "rows";
px::Variable<px::Sparse> rows{session, name, {.rows = 4, .width = 2, .initial = px::constant(1)}, px::Reduce::sum};
