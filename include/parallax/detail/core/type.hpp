// Types without RTTI: a tag that tells two of them apart, and a type's name in the compiler's spelling. Pools ask for the tag,
// messages for the name.
#pragma once

#include <cstddef>
#include <string_view>

namespace parallax::inline v0_2 {

// Tag of a type, equal for equal types only. Shared libraries that hide their symbols may each have one of their own.
using TypeTag = void const*;

namespace detail {

// One byte for each type. Its address is the type's tag.
template <class T>
inline char tag_of;  // not constant: a linker may merge constants

// Returns the compiler's text of this very function, T's name included.
template <class T>
constexpr std::string_view signature_with() {
  return __PRETTY_FUNCTION__;
}

// Returns T's name as the compiler spells it.
template <class T>
constexpr std::string_view spelt() {
  constexpr std::string_view known = "double", around = signature_with<double>(), text = signature_with<T>();
  constexpr std::size_t begin = around.find(known), end = around.size() - begin - known.size();
  return text.substr(begin, text.size() - begin - end);
}

// Returns the part of a spelt name for the library's version, v0_2::; nothing of a compiler that leaves it out.
constexpr std::string_view spelt_version() {
  std::string_view const text = signature_with<double>();
  std::size_t const begin = text.find("parallax::") + 10;
  return text.substr(begin, text.find("detail::") - begin);
}

// A name without the parts for versions.
template <class T>
struct TypeName {
  char letters[spelt<T>().size() + 1] = {};
  std::size_t size = 0;
  constexpr TypeName() {
    std::string_view const name = spelt<T>(), version = spelt_version();
    for (std::size_t i = 0; i < name.size(); ++i) {
      if (std::string_view{letters, size}.ends_with("parallax::") && name.substr(i).starts_with(version)) i += version.size();
      letters[size++] = name[i];
    }
  }
};
template <class T>
inline constexpr TypeName<T> type_name_of;

}  // namespace detail

// Returns the tag of T, equal in every call in a program that is one image.
template <class T>
TypeTag type_tag() {
  return &detail::tag_of<T>;
}

// Returns the name of T for messages: cut out of the compiler's text, alike on all ranks of one program.
template <class T>
constexpr std::string_view name_of_type() {
  return {detail::type_name_of<T>.letters, detail::type_name_of<T>.size};
}

}  // namespace parallax
