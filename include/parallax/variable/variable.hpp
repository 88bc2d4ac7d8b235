// `Variable<Kind, Options...>`: the type of a variable, with its kind and the way of its updates.
// The room `variable` has a rank's share of a variable: parameters, the optimizer's state, and their owners.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/on_device.hpp"
#include "parallax/detail/optimizer/optimizer_checks.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/detail/partition/partitioner_checks.hpp"
#include "parallax/detail/policy/presets.hpp"
#include "parallax/detail/variable/binding.hpp"
#include "parallax/detail/variable/dense.hpp"
#include "parallax/detail/variable/sparse.hpp"
#include "parallax/detail/variable/variable_checks.hpp"
#include "parallax/optimizer/sgd.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// Returns the name of a scalar or an index type in signatures.
template <class T>
consteval std::string_view type_name() {
  if constexpr (std::same_as<T, float>) return "float";
  if constexpr (std::same_as<T, double>) return "double";
  if constexpr (std::same_as<T, BFloat16>) return "bfloat16";
  if constexpr (std::same_as<T, Float16>) return "float16";
  if constexpr (std::same_as<T, std::int32_t>) return "int32";
  if constexpr (std::same_as<T, std::int64_t>) return "int64";
  return "?";
}

// Returns the one of a variable's `settings` with the type Setting, the last if there are several, or `fallback`.
template <class Setting, class... Settings>
Setting setting_or(Setting fallback, Settings const&... settings) {
  (
      [&] {
        if constexpr (std::same_as<Setting, Settings>) fallback = settings;
      }(),
      ...);
  return fallback;
}

// Returns the reduction of a variable's gradients if its declaration names none: the mean, or the session's default.
template <class Session>
Reduce default_reduce(Session const& session) {
  if constexpr (requires { session.default_reduce(); }) return session.default_reduce();
  else return Reduce::mean;
}

// Returns, for `at` and `grad`, true for a run of integers; false after an assertion has told the user. `Space`: the table's.
template <class Ids, MemorySpace Space = HostSpace>
consteval bool check_indices() {
  if constexpr (FlatTensor<Ids const>) {
    using Id = typename decltype(flat_view(std::declval<Ids const&>()))::value_type;
    static_assert(std::integral<Id> || is_on_device<Id>,
                  "parallax: a table is indexed by integers: a contiguous range of them");
    static_assert(!is_on_device<Id> || !Space::host_readable,
                  "parallax: a table in the host's memory is indexed by numbers there, not by px::on_device");
    return std::integral<Id> || (is_on_device<Id> && !Space::host_readable);
  } else {
    static_assert(never<Ids>, "parallax: a table is indexed by integers: a contiguous range of them");
    return false;
  }
}

// Returns true if A is an archive; else an assertion tells the user.
template <class A>
consteval bool check_archive() {
  static_assert(Archive<std::remove_reference_t<A>>,
                "parallax: an archive has a constant `reads` and item(Item const&, bytes) (see core/archive.hpp)");
  return Archive<std::remove_reference_t<A>>;
}

// True if a type is among some others: the settings allowed by a constructor, for example.
template <class Candidate, class... Allowed>
inline constexpr bool one_of = (false || ... || std::same_as<Candidate, Allowed>);

// Refuses the user's memory for a table with moving rows.
template <class State>
struct check_memory_of_user {
  static_assert(!State::adaptive, "parallax: under Auto rows move from rank to rank: let the library own the table");
};

// Returns the row operations on memory of a space, in the order of this rank's queue.
template <MemorySpace Space, class Topology>
RowOps<Space> ops_for(Topology const& topology) {
  return RowOps<Space>{queue_of<Space>(topology.world())};
}
// Returns the name of a memory space in signatures; empty for the host's.
template <MemorySpace Space>
constexpr std::string_view space_word() {
  if constexpr (std::same_as<Space, HostSpace>) return {};
  else return Space::name;
}

// Returns a new variable's registration, its description for the session.
inline RegistrationPtr make_registration(std::string name, std::string signature) {
  return make_counted<Registration>(std::move(name), std::move(signature));
}

}  // namespace detail

// The common members of variables, and their hold on the state. All are local; references last as long as the variable. Handles
// and updates in flight share the state: none dangles, and a step can tell that the variable is gone.
template <class State>
class VariableOf {
 public:
  VariableOf(VariableOf&& other) noexcept = default;
  // Lets go of the variable held here, as its destructor does, and takes over `other`.
  VariableOf& operator=(VariableOf&& other) noexcept {
    if (this != &other) leave();
    state_ = std::move(other.state_);
    return *this;
  }
  // Marks the variable as gone, the state perhaps not yet.
  ~VariableOf() { leave(); }

  // Returns the variable's name, the same on all ranks.
  std::string const& name() const { return state_->name(); }
  // Returns the optimizer's settings, to be changed between steps, alike on all ranks, which compare them in every step.
  typename State::optimizer_type& optimizer() { return state_->optimizer(); }
  // Returns the number of updates so far; several in one step count as one.
  std::int64_t steps() const { return state_->steps(); }
  // Returns the state, for the library's own operations.
  State& state() const { return *state_; }

  // Local; on all ranks. Has the slots of this rank's part follow parameters, or rows of local(), written in place between
  // steps; of a table before the first step they do by themselves. Does nothing for optimizers without `adopt` (Ftrl and
  // AdagradDa have one, and WeightDecay of them). Throws Error (invalid_argument) for settings refused by the optimizer.
  void adopt() { state_->adopt(); }

  // Local. Shows `archive` everything that outlives a step, or takes it from there. Throws its errors: see core/archive.hpp.
  template <class A>
  void visit(A&& archive) {
    if constexpr (detail::check_archive<A>()) state_->visit(archive);
  }

 protected:
  // Begins without a state, which the constructors of variables set.
  VariableOf() = default;

  // Null of a variable that was moved.
  Shared<State> state_;

 private:
  // Tells the remaining holders of the state that the variable is gone.
  void leave() noexcept {
    if (state_) state_->registration()->gone = true;
  }
};

// The type that `Variable` normalises to. Move-only; moving keeps handles and updates valid. Making one is local: ranks compare
// their variables at the next collective call of the session. If making one throws, the session knows nothing of it. Must
// outlive the updates in flight: a step refuses to complete an update of a destroyed variable.
template <class Kind, class Policy, class O, class P, class Space, class T, class IndexType>
class BasicVariable;

// A dense variable: parameters in the user's memory, all of them on every rank. An update moves every one.
template <class Policy, class O, class P, class Space, class T, class IndexType>
class BasicVariable<Dense, Policy, O, P, Space, T, IndexType> : public VariableOf<DenseState<T, Policy, O, Space>> {
  using VariableOf<DenseState<T, Policy, O, Space>>::state_;

 public:
  // Dense: the mark by which policies and steps tell variables apart.
  using kind = Dense;
  // The type of an element.
  using scalar_type = T;
  // This rank's share of the variable.
  using State = DenseState<T, Policy, O, Space>;

  // Local. Takes `given`, bind(tensor), memory that outlives the variable. `settings` in any order: an optimizer, a Reduce
  // (mean). Throws Error (invalid_argument) for a name empty, with control bytes or taken, and for a last row not whole.
  template <class Session, class U, class... Settings>
  BasicVariable(Session& session, std::string name, FlatBinding<U> given, Settings const&... settings) {
    auto const binding = detail::binding_of<T>(given);
    static_assert((true && ... && detail::one_of<Settings, O, Reduce>),
                  "parallax: a Dense variable is made from a session, a name, bind(tensor), its own optimizer and a Reduce");
    detail::check_name(name, session.rank());
    std::size_t const row = binding.row ? binding.row : binding.values.size();
    if (row > 0 && binding.values.size() % row != 0)
      throw Error{Errc::invalid_argument, session.rank(), "Variable", name,
                  joined({"rows of ", row, " do not divide ", binding.values.size(), " elements"})};
    Reduce const reduce = detail::setting_or(detail::default_reduce(session), settings...);
    std::string signature = detail::dense_signature(
        {detail::type_name<T>(), detail::space_word<Space>(), Policy::name, optimizer_name<O>(), reduce}, binding.values.size(),
        unit<O> == Unit::row ? static_cast<std::int64_t>(row) : -1);
    auto const& topology = session.topology();
    state_ = make_counted<State>(detail::ops_for<Space>(topology),
                                 detail::make_registration(std::move(name), std::move(signature)), binding.values, row,
                                 topology.owner(), topology.owners(), detail::setting_or(O{}, settings...), reduce);
    session.enter(*state_);
  }

  // Refuses, by an assertion, anything else than bound memory.
  template <class Session, class Other, class... Settings>
  BasicVariable(Session&, std::string const&, Other const&, Settings const&...) {
    static_assert(std::same_as<Other, detail::Mistaken>,
                  "parallax: a Dense variable is given the memory of its parameters: a session, a name, bind(tensor)");
  }
  // Refuses, by an assertion, a name before the session.
  template <detail::Name Text, class Session, class... Others>
  BasicVariable(Text const&, Session&, Others const&...) {
    static_assert(detail::never<Session>, "parallax: a variable is made from a session and a name: the session comes first");
  }

  // Local. Returns all parameters, in the user's memory: as of the last step, on every rank.
  std::span<T> values() const { return state_->values(); }
  // Local. Returns a slot of the optimizer by its name (slot_names: "m" and "v" of Adam), to read and to write between steps.
  // It has an entry for every element updated by this rank, from first_owned() on; a row slot has one for each of their rows.
  // In the variable's space, valid as long as the variable. Throws Error (invalid_argument) for an unknown name and for a slot
  // of another type than S.
  template <class S = T>
  std::span<S> slot(std::string_view name) {
    return state_->template slot<S>(name);
  }
  // Returns the number of the element with the first entry of a slot: 0 unless the policy shards.
  std::size_t first_owned() const { return state_->first_owned(); }
};

// A sparse variable: a table of rows, on every rank or dealt to owners. A batch names a few of them.
template <class Policy, class O, class P, class Space, class T, class IndexType>
class BasicVariable<Sparse, Policy, O, P, Space, T, IndexType>
    : public VariableOf<SparseState<T, IndexType, Policy, O, P, Space>> {
  using VariableOf<SparseState<T, IndexType, Policy, O, P, Space>>::state_;

 public:
  // Sparse: the mark by which policies and steps tell variables apart.
  using kind = Sparse;
  // The type of an element of a gradient, of a slot, and of pulled rows: float if rows are kept in 16 bits.
  using scalar_type = computed_type<T>;
  // The type of a row's number as it travels; a user's indices may be of another one.
  using index_type = IndexType;
  // This rank's share of the variable.
  using State = SparseState<T, IndexType, Policy, O, P, Space>;

  // Local. Makes this rank's rows, owned by the library, with the first values of `table`. `settings` in any order: an
  // optimizer, a partitioner, a Reduce (default mean), a BadIds (default error), a Padded. Throws Error (invalid_argument) for
  // a negative size, more rows than the index type counts, and names as a dense variable does.
  template <class Session, class... Settings>
  BasicVariable(Session& session, std::string name, Table const& table, Settings const&... settings) {
    make(session, std::move(name), table.rows, table.width, ", initial " + fields_text(table.initial), settings...);
    state_->allocate([&](std::int64_t) -> Initializer const& { return table.initial; });
    session.enter(*state_);
  }

  // Local. Takes tables of one width, kept by the library as one, with their own first values. Errors as by a Table.
  template <class Session, std::same_as<Stack> S, class... Settings>
  BasicVariable(Session& session, std::string name, S const& stack, Settings const&... settings) {
    auto const firsts = stack.first_rows(name, session.rank());
    make(session, std::move(name), firsts.back(), stack.tables().front().width, stack.text(), settings...);
    state_->stack({firsts.begin(), firsts.end()});
    state_->allocate([&](std::int64_t row) -> Initializer const& {
      auto const behind = std::upper_bound(firsts.begin(), firsts.end(), row);
      return stack.tables()[static_cast<std::size_t>(behind - firsts.begin()) - 1].initial;
    });
    session.enter(*state_);
  }

  // Local. Takes the user's table, for replicating policies. It must have the same values on all ranks and outlive the
  // variable. `settings` and errors as by a Table; Error (invalid_argument), too, for rows that are not contiguous.
  template <class Session, class U, class... Settings>
  BasicVariable(Session& session, std::string name, TableBinding<U> given, Settings const&... settings) {
    auto const binding = detail::binding_of<T>(given);
    static_assert(sizeof(detail::check_memory_of_user<State>) > 0);
    static_assert(!State::sharded || State::adaptive,
                  "parallax: under PsShard a rank holds only its shard: bind memory with bind_shard(rows, width, allocate), "
                  "or let the library own it");
    if (!binding.values.contiguous())
      throw Error{Errc::invalid_argument, session.rank(), "Variable", name, "the rows of a bound table must be contiguous"};
    make(session, std::move(name), binding.values.rows, binding.values.width, "", settings...);
    state_->borrow(binding.values.data);
    session.enter(*state_);
  }

  // Local. Takes memory for this rank's shard from allocate(local rows), which outlives the variable, its values as the user
  // set them. `settings` and errors as by a Table; exceptions of `allocate` pass.
  template <class Session, class Allocate, class... Settings>
  BasicVariable(Session& session, std::string name, ShardBinding<Allocate> binding, Settings const&... settings) {
    static_assert(sizeof(detail::check_memory_of_user<State>) > 0);
    make(session, std::move(name), binding.rows, binding.width, "", settings...);
    state_->borrow(binding.allocate(state_->local_rows()));
    session.enter(*state_);
  }

  // Refuses, by an assertion, anything else than a table or bound memory.
  template <class Session, class Other, class... Settings>
    requires(!std::same_as<Other, Stack>)
  BasicVariable(Session&, std::string const&, Other const&, Settings const&...) {
    static_assert(
        std::same_as<Other, detail::Mistaken>,
        "parallax: a Sparse variable is given its rows: a Table{rows, width}, or memory of yours by bind_rows or bind_shard");
  }
  // Refuses, by an assertion, a name before the session.
  template <detail::Name Text, class Session, class... Others>
  BasicVariable(Text const&, Session&, Others const&...) {
    static_assert(detail::never<Session>, "parallax: a variable is made from a session and a name: the session comes first");
  }
  // Refuses, by an assertion, a name before the session with a table in braces, which would match no other parameter.
  template <detail::Name Text, class Session, class... Others>
  BasicVariable(Text const&, Session& session, Table const&, Others const&... others)
      : BasicVariable{std::string{}, session, others...} {}
#if !defined(__EDG__) && !defined(__CUDACC__)  // their front end takes {.width = 3} for one of these as well
  // Refuses, by an assertion, a misspelt member of a Table.
  template <class Session, class... Settings>
  BasicVariable(Session&, std::string const&, detail::MisspelledTable const&, Settings const&...) {
    static_assert(detail::never<Session>, "parallax: the members of a Table are rows, width and initial: it has no row");
  }
#endif

  // Returns the number of rows of the whole table, of all ranks together.
  std::int64_t rows() const { return state_->rows(); }
  // Returns the number of elements of a row.
  std::int64_t width() const { return state_->width(); }
  // Returns the number of tables: 1, or as many as a stack has.
  std::size_t tables() const { return state_->tables(); }
  // Returns the number in the whole of the first row of table number `table`; for `tables()` the number of all rows.
  std::int64_t first_row(std::size_t table) const { return state_->first_row(table); }
  // Returns the number of this rank's rows: its shard, or all of them. Under Auto it changes with the policy.
  std::int64_t local_rows() const { return state_->local_rows(); }
  // Returns the number in the table of row `local` of this rank, 0 <= local < local_rows().
  std::int64_t global_row(std::int64_t local) const { return state_->global_row(local); }
  // Local. Returns this rank's rows, [local_rows() x width()], as of the last update, as they are kept, in memory of the
  // variable's space. Valid until the next step.
  RowsView<T> local() { return state_->local(); }
  // Local. Returns a slot of the optimizer by its name (slot_names: "m" and "v" of Adam), to read and to write between steps:
  // beside the rows of local(), as of the last update, [local_rows() x width()], and of row slots [local_rows() x 1]. In memory
  // of the variable's space. Throws Error (invalid_argument) for an unknown name and for a slot of another type than S.
  template <class S = scalar_type>
  RowsView<S> slot(std::string_view name) {
    return state_->template slot<S>(name);
  }

  // Local. Returns the number of indices outside the table dropped by this rank so far (BadIds::drop_and_count); of a padded
  // table those already known from the device.
  std::uint64_t dropped() const { return state_->dropped(); }

  // Local. Names these indices of this table, for a pull together with others: session.pull(a.at(ids), b.at(more_ids)). `ids`:
  // a contiguous range of integers, which must outlive the call with the result.
  template <class Ids>
  auto at(Ids const& ids) const {
    if constexpr (!detail::check_indices<Ids, Space>()) {
      return IndicesOf<State, std::int64_t>{&*state_, {}};
    } else {
      auto const view = flat_view(ids);
      return IndicesOf<State, typename decltype(view)::value_type>{&*state_, view};
    }
  }

  // Local. Names these indices in bags, for a pull: bag b holds the indices at positions [offsets[b], offsets[b + 1]), so
  // `offsets` begins with 0 and ends with the number of indices; others are an Error (invalid_argument) of the pull. Each bag's
  // rows are pooled on this rank, by sum or mean. Of a stack the bags of each table follow those of the table before, as many
  // for each of them; an index is a row's number in the table of its bag. Indices in device memory may have their offsets
  // there, too (px::on_device), of std::int32_t or std::int64_t. Nothing is copied here: memory of the host must outlive the
  // call with the bags, and memory of a device also the work put in its stream by that call.
  template <class Ids, class Offsets>
  auto bags(Ids const& ids, Offsets const& offsets, Pool pool = Pool::sum) const {
    return bags_of(ids, offsets, pool, false);
  }
  // Local. Names indices in bags, as bags(ids, offsets), with a weight of the variable's scalar type for each: the row of index
  // i is added times weights[i]. Of a table on a device weights may lie there: px::on_device(weights).
  template <class Ids, class Offsets, FlatTensor Weights>
  auto bags(Ids const& ids, Offsets const& offsets, Weights const& weights) const {
    using Weight = typename decltype(flat_view(weights))::value_type;
    constexpr bool here = std::same_as<Weight, scalar_type>;
    constexpr bool there = std::same_as<Weight, OnDevice<scalar_type>> && !Space::host_readable;
    static_assert(here || there,
                  "parallax: the weights of bags are of the variable's scalar type, or on the variable's device of it");
    auto bags = bags_of(ids, offsets, Pool::sum, true);
    auto const given = flat_view(weights);
    if constexpr (here) bags.weights = given;
    else if constexpr (there) bags.weights = {reinterpret_cast<scalar_type const*>(given.data()), given.size()};
    bags.weights_there = there;
    return bags;
  }

 private:
  // Returns the bags for both `bags`, or a stand-in after an assertion. They refer to `ids` and `offsets`.
  template <class Ids, class Offsets>
  auto bags_of(Ids const& ids, Offsets const& offsets, Pool pool, bool weighted) const {
    if constexpr (!detail::check_indices<Ids, Space>() || !detail::check_indices<Offsets, Space>()) {
      return BagsOf<State, std::int64_t, std::int64_t>{{&*state_, {}}, {}, {}, pool, false};
    } else {
      auto const view = flat_view(ids);
      auto const bounds = flat_view(offsets);
      static_assert(detail::is_on_device<typename decltype(view)::value_type> ||
                        !detail::is_on_device<typename decltype(bounds)::value_type>,
                    "parallax: offsets of bags lie in device memory only where the indices do: px::on_device of both");
      return BagsOf<State, typename decltype(view)::value_type, typename decltype(bounds)::value_type>{
          {&*state_, view}, bounds, {}, pool, weighted};
    }
  }

  // Does the common work of the constructors: checks name and shape, and makes the state, without memory for its rows. Throws
  // Error (invalid_argument).
  template <class Session, class... Settings>
  PARALLAX_COLD void make(Session& session, std::string name, std::int64_t rows, std::int64_t width, std::string const& initial,
                          Settings const&... settings) {
    static_assert((true && ... && detail::one_of<Settings, O, P, Reduce, BadIds, Padded>),
                  "parallax: a Sparse variable is made from a session, a name, its table, its own optimizer and partitioner, "
                  "a Reduce, a BadIds and a Padded");
    static_assert((true && ... && (!std::same_as<Settings, Padded> || State::can_pad)),
                  "parallax: px::Padded is for tables on a device under PsShard (a padding exchange), with a partitioner that "
                  "places rows there");
    detail::check_name(name, session.rank());
    detail::check_shape(name, rows, width, session.rank(), std::numeric_limits<IndexType>::max(),
                        detail::type_name<IndexType>());
    Reduce const reduce = detail::setting_or(detail::default_reduce(session), settings...);
    BadIds const bad_ids = detail::setting_or(BadIds::error, settings...);
    P const partitioner = detail::setting_or(P{}, settings...);
    Padded const padded = detail::setting_or(Padded{}, settings...);
    std::string signature =
        detail::table_signature({detail::type_name<T>(), detail::space_word<Space>(), Policy::name, optimizer_name<O>(), reduce,
                                 detail::type_name<IndexType>(), P::name, fields_text(partitioner), bad_ids},
                                rows, width, initial + (padded.capacity ? joined({", padded to ", padded.capacity}) : ""));
    auto const& topology = session.topology();
    state_ =
        make_counted<State>(detail::ops_for<Space>(topology), detail::make_registration(std::move(name), std::move(signature)),
                            Placement<IndexType, P>{partitioner, rows, topology.owners()}, width, topology.owner(),
                            detail::setting_or(O{}, settings...), partitioner, reduce, bad_ids);
    if constexpr (State::can_pad && (false || ... || std::same_as<Settings, Padded>))
      state_->padded().begin(*state_, padded.capacity, std::numeric_limits<IndexType>::max(), session.rank());
  }
};

namespace detail {

// The assertions on the options, in a class of their own: clang calls an alias unknown if its own class has a failed one.
template <class Kind, class... Options>
struct check_options {
  static_assert(std::same_as<Kind, Dense> || std::same_as<Kind, Sparse>,
                "parallax: the first argument of Variable is its kind: Dense or Sparse");
  static_assert(sizeof(std::conditional_t < all_are_options<Options...> || !one_of<Kind, Dense, Sparse>,
                       std::type_identity<Kind>, check_each_option < Options... >>) > 0);
  static_assert(one_option_per_axis<Options...>,
                "parallax: two options of one Variable lie on the same axis: give at most one policy, one optimizer, one "
                "partitioner, one memory space, one scalar and one index type");
};

// The assertions on the choice for each axis.
template <class Kind, class Opt, class P, class Space, class T, class IndexType>
struct check_choices {
  static_assert(!is_short_float<T> || !std::same_as<Kind, Dense>,
                "parallax: BFloat16 and Float16 are for the rows of a Sparse variable: a Dense one is of float or double");
  static_assert(MemorySpace<Space>,
                "parallax: a memory space has allocate, deallocate and host_readable (see detail/memory/space.hpp)");
  static_assert(
      !MemorySpace<Space> || requires { sizeof(RowOps<Space>); },
      "parallax: no row operations are known for this memory space: specialise RowOps (see detail/kernel/row_ops.hpp)");
  static_assert(sizeof(std::conditional_t<Partitioner<P>, P, check_partitioner<P>>) > 0);
  static_assert(sizeof(std::conditional_t<OptimizerFor<Opt, computed_type<T>>, Opt, check_optimizer<Opt, computed_type<T>>>) >
                0);
  static_assert(one_of<IndexType, std::int32_t, std::int64_t>, "parallax: a table is indexed by std::int32_t or std::int64_t");
};

// The type behind `Variable`: the variable of the options as they are, or, after a failed assertion, one without further
// messages of the compiler.
template <class Kind, class... Options>
struct make_variable {
  static_assert(sizeof(check_options<Kind, Options...>) > 0);
  using Policy = policy_for<option_or<policy_axis, presets::hybrid, Options...>, Kind>;
  using Opt = option_or<optimizer_axis, Sgd, Options...>;
  using P = option_or<partitioner_axis, Cyclic, Options...>;
  using Space = option_or<space_axis, HostSpace, Options...>;
  using T = option_or<scalar_axis, float, Options...>;
  using IndexOption = option_or<index_axis, Index<std::int64_t>, Options...>;
  static constexpr bool right_options =
      !one_of<Kind, Dense, Sparse> || (all_are_options<Options...> && one_option_per_axis<Options...>);
  static constexpr bool has_way = !one_of<Kind, Dense, Sparse> || policy_lacks<Policy, Kind>() == PolicyLack::nothing;
  static_assert(sizeof(std::conditional_t<has_way, Kind, check_policy<Policy, Kind>>) > 0);
  static_assert(sizeof(check_choices<Kind, Opt, P, Space, T, typename IndexOption::type>) > 0);
  static constexpr bool right_scalar = !is_short_float<T> || std::same_as<Kind, Sparse>;
  using Right = BasicVariable<Kind, Policy, Opt, P, Space, T, typename IndexOption::type>;
  using StandInPolicy = std::conditional_t<has_way, Policy, policy_for<presets::hybrid, Kind>>;
  using StandIn = MistakenVariable<BasicVariable<Kind, StandInPolicy, Sgd, Cyclic, Space,
                                                 std::conditional_t<right_scalar, T, float>, typename IndexOption::type>>;
  using type =
      std::conditional_t<right_options && has_way && right_scalar && Partitioner<P> && OptimizerFor<Opt, computed_type<T>>,
                         Right, StandIn>;
};

}  // namespace detail

// The type of a variable: the kind first, then options in any order. An update policy (default: the paper's rule, Dense ->
// AllReduce, Sparse -> PsShard), an optimizer (Sgd), a partitioner (Cyclic), a memory space (HostSpace), float or double
// (float), or BFloat16 or Float16 for the rows of a table computed with in float, Index<std::int32_t> or Index<std::int64_t>
// (64 bits). A mistake among them is one sentence of an assertion.
template <class Kind, class... Options>
using Variable = typename detail::make_variable<Kind, Options...>::type;

}  // namespace parallax
