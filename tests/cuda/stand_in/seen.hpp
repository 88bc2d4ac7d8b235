// A name of CUDA's or NCCL's headers, and what a file sees of it: a number, or the type of a function.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

struct Listed {
  std::string name, seen;
};
std::vector<Listed> cuda_of_toolkit();
std::vector<Listed> nccl_of_toolkit();
std::vector<Listed> cuda_of_stand_in();
std::vector<Listed> nccl_of_stand_in();

template <class T>
std::string type_text() {
  std::string const text = __PRETTY_FUNCTION__;
  std::size_t const first = text.find("T = ") + 4;
  return text.substr(first, text.find_first_of(";]", first) - first);
}
#define NUMBER(name) all.push_back({#name, std::to_string(static_cast<long long>(name))});
#define FUNCTION(name) all.push_back({#name, type_text<decltype(&name)>()});
