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
        call_{&call<std::remove_reference_t<F>>} {}

  R operator()(Arguments... arguments) const { return call_(object_, std::forward<Arguments>(arguments)...); }

 private:
  template <class F>
  static R call(void* object, Arguments... arguments) {
    return (*static_cast<F*>(object))(std::forward<Arguments>(arguments)...);
  }

  void* object_;
  R (*call_)(void*, Arguments...);
};

}  // namespace parallax
