// Types without RTTI: what tells two of them apart, and what the compiler calls one. Pools ask for the tag, messages for the
// name.
#pragma once

#include <cstddef>
#include <string_view>

namespace parallax {

// What tells a type from others: equal for the same type. Shared libraries that hide their symbols may each have one of their
// own.
using TypeTag = void const*;

namespace detail {

// One byte for each type, whose address is the type's tag.
template <class T>
inline char tag_of;  // not constant: a linker may merge constants

// The compiler's text of this very function, which has T's name in it.
template <class T>
constexpr std::string_view signature_with() {
  return __PRETTY_FUNCTION__;
}

}  // namespace detail

// The tag of T, the same in every call in a program that is one image.
template <class T>
TypeTag type_tag() {
  return &detail::tag_of<T>;
}

// The name of T as messages show it: cut out of the compiler's text, alike on all ranks that run the same program.
template <class T>
constexpr std::string_view name_of_type() {
  constexpr std::string_view known = "double", around = detail::signature_with<double>();
  constexpr std::size_t begin = around.find(known), end = around.size() - begin - known.size();
  std::string_view const text = detail::signature_with<T>();
  return text.substr(begin, text.size() - begin - end);
}

}  // namespace parallax
