// A reference to something that can be called, for arguments that are rarely called and should not make a function a template.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace parallax {

// Does not own: what it refers to must outlive the call. The shape of C++26's std::function_ref.
template <class Signature>
class FunctionRef;

template <class R, class... Arguments>
class FunctionRef<R(Arguments...)> {
 public:
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Arguments...>)
  FunctionRef(F&& function) noexcept
      : object_{const_cast<void*>(static_cast<void const*>(__builtin_addressof(function)))},
        call_{[](void* object, Arguments... arguments) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Arguments>(arguments)...);
        }} {}

  R operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  void* object_;
  R (*call_)(void*, Arguments...);
};

}  // namespace parallax
