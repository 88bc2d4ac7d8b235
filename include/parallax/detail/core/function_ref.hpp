// A reference to a callable, for rare calls that should not make a function a template. Waits, archives and the engine take
// one.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace parallax::inline v0_2 {

// Reference to a callable, which must outlive every call. The shape of C++26's std::function_ref. `Signature`: R(Arguments...).
template <class Signature>
class FunctionRef;

// Reference to a callable of `Arguments` that returns R: two pointers, copied freely.
template <class R, class... Arguments>
class FunctionRef<R(Arguments...)> {
 public:
  // Refers to `function`, a lambda or any object that can be called so. Implicit: a caller writes the lambda as the argument.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Arguments...>)
  FunctionRef(F&& function) noexcept
      : object_{const_cast<void*>(static_cast<void const*>(__builtin_addressof(function)))},
        call_{&call<std::remove_reference_t<F>>} {}

  // Calls the function, and passes its exceptions on.
  R operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  // Calls the object as its own type: the target of `call_`.
  template <class F>
  static R call(void* object, Arguments... arguments) {
    return (*static_cast<F*>(object))(std::forward<Arguments>(arguments)...);
  }

  void* object_;
  R (*call_)(void*, Arguments...);
};

}  // namespace parallax
