// Checks of Variable's options, with the lack of one in one sentence; and stand-ins for a variable, or for its arguments, after
// an assertion has told the user of a mistake. Included by variable/variable.hpp.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/option.hpp"
#include "parallax/detail/variable/table.hpp"

namespace parallax::inline v0_2::detail {

// The likely purpose of a class without an axis.
enum class OptionLook { none, policy, optimizer, partitioner, space };

// Returns the likely purpose of a class without an axis.
template <class Option>
consteval OptionLook option_look() {
  if constexpr (requires { typename Option::template exchange<Dense>; } ||
                requires { typename Option::template exchange<Sparse>; })
    return OptionLook::policy;
  else if constexpr (requires { typename Option::element_slots; }) return OptionLook::optimizer;
  else if constexpr (requires { typename Option::Layout; } ||
                     requires(Option const& option, std::int64_t rows) { option.layout(rows, 1); })
    return OptionLook::partitioner;
  else if constexpr (requires { { Option::host_readable } -> std::convertible_to<bool>; }) return OptionLook::space;
  else if constexpr (requires(Option const& option, std::int64_t step) {  // `at` of a container returns a reference
                       requires !std::is_reference_v<decltype(option.at(step))>;
                     })
    return OptionLook::optimizer;
  else return OptionLook::none;
}

// Checks a type that is no option: one of its assertions fails, and tells the user the lack.
template <class Option>
struct check_option {
  static constexpr OptionLook look = option_look<Option>();
  static_assert(look != OptionLook::none,
                "parallax: an argument of Variable is no option: after the kind come an update policy, an optimizer, a "
                "partitioner, a memory space, a scalar (float, double) and an Index<int type>, in any order; a class says which of "
                "them it is by a member type, as in `using axis = parallax::optimizer_axis`");
// Says that `look` is not this one: `name` is the enumerator and the word before `_axis`, `text` the noun in the sentence.
#define PARALLAX_OPTION_HAS_AXIS(name, text) \
  static_assert(look != OptionLook::name, "parallax: an argument of Variable is no option: it looks like " text ", and lacks " \
                                          "a public `using axis = parallax::" #name "_axis`")
  PARALLAX_OPTION_HAS_AXIS(policy, "an update policy");
  PARALLAX_OPTION_HAS_AXIS(optimizer, "an optimizer");
  PARALLAX_OPTION_HAS_AXIS(partitioner, "a partitioner");
  PARALLAX_OPTION_HAS_AXIS(space, "a memory space");
#undef PARALLAX_OPTION_HAS_AXIS
};
// Checks those of the options that are none, one by one.
template <class... Options>
struct check_each_option {
  static_assert((true && ... &&
                 (sizeof(std::conditional_t<all_are_options<Options>, std::type_identity<Options>, check_option<Options>>) > 0)));
};

// A type that may be a name, and is no session: tells that arguments were swapped.
template <class T>
concept Name = std::same_as<T, std::string> || std::is_array_v<T> || std::is_pointer_v<T>;

// The result of `{.row = 3, .width = 2}` in place of a Table: nothing else in braces makes it.
struct MisspelledTable {
  struct Nothing {
    Nothing() {}
  };
  struct Rows {
    Rows(std::int64_t) {}
  };
  Nothing first = {};
  Rows row;
  std::int64_t width = 0;
  Initializer initial = {};
};

// A variable whose optimizer or partitioner is none: made and used as a right one is, so that the compiler says it once.
template <class Right>
struct MistakenVariable : Right {
  template <class Session, class... Settings>
  MistakenVariable(Session&, std::string const&, Table const&, Settings const&...);
  template <class Session, class... Settings>
  MistakenVariable(Session&, std::string const&, Settings const&...);
};

}  // namespace parallax::detail
