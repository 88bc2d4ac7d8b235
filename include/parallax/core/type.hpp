// Types without RTTI: what tells two of them apart, and what the compiler calls one.
#pragma once

#include <cstddef>
#include <string_view>

namespace parallax {

// Equal for the same type. Shared libraries that hide their symbols may each have one of their own.
using TypeTag = void const*;

namespace detail {

template <class T>
inline char tag_of;  // not constant: a linker may merge constants

template <class T>
constexpr std::string_view signature_with() {
  return __PRETTY_FUNCTION__;
}

}  // namespace detail

template <class T>
TypeTag type_tag() {
  return &detail::tag_of<T>;
}

// As messages show it: alike on all ranks that run the same program.
template <class T>
constexpr std::string_view name_of_type() {
  constexpr std::string_view known = "double", around = detail::signature_with<double>();
  constexpr std::size_t begin = around.find(known), end = around.size() - begin - known.size();
  std::string_view const text = detail::signature_with<T>();
  return text.substr(begin, text.size() - begin - end);
}

}  // namespace parallax
