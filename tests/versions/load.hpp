// Libraries that a program loads while it runs, and the table of each.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "part.hpp"

// Ends the program where there is no such library. `flags`: RTLD_LOCAL or RTLD_GLOBAL. `name`: of the table.
inline Part const& loaded(std::string const& file, char const* name, int flags) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | flags);
  void* const table = library ? ::dlsym(library, name) : nullptr;
  if (table) return *static_cast<Part const*>(table);
  std::fprintf(stderr, "%s\n", ::dlerror());
  std::exit(2);
}
