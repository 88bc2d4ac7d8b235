// A reference to something that can be called, for arguments that are rarely called and should not make a function a template.
// Waits, archives and the engine take one.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

namespace parallax::inline v0_2 {

// Does not own: what it refers to must outlive the call. The shape of C++26's std::function_ref. `Signature`: R(Arguments...).
template <class Signature>
class FunctionRef;

// The reference to what is called with `Arguments` and returns R: two pointers, copied freely.
template <class R, class... Arguments>
class FunctionRef<R(Arguments...)> {
 public:
  // Refers to `function`, a lambda or any object that can be called so. Implicit, so that a caller writes the lambda as the
  // argument.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, Arguments...>)
  FunctionRef(F&& function) noexcept
      : object_{const_cast<void*>(static_cast<void const*>(__builtin_addressof(function)))},
        call_{&call<std::remove_reference_t<F>>} {}

  // Calls what it refers to, and passes on what that throws.
  R operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  // What `call_` points to: the object as the type it had, called.
  template <class F>
  static R call(void* object, Arguments... arguments) {
    return (*static_cast<F*>(object))(std::forward<Arguments>(arguments)...);
  }

  void* object_;
  R (*call_)(void*, Arguments...);
};

}  // namespace parallax
