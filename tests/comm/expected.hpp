// What tests of ranks that meet share: an error that has certain words, and a variable of the environment while it lives.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

#include "../catch.hpp"
#include "parallax/core/error.hpp"

inline bool has(std::optional<parallax::Error> const& error, parallax::Errc code, std::string const& words) {
  if (error) UNSCOPED_INFO(error->what());
  return error && error->code() == code && error->detail().find(words) != std::string::npos;
}

struct Variable {
  Variable(char const* name, std::string const& value) : name_{name} { ::setenv(name, value.c_str(), 1); }
  Variable(Variable const&) = delete;
  Variable& operator=(Variable const&) = delete;
  ~Variable() { ::unsetenv(name_); }
  char const* name_;
};
