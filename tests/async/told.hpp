// What ranks are told by an error that ends a training.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "parallax/comm/thread.hpp"

namespace async_test {

// Of each rank, the words of the error that left `body`; empty where none did.
template <class Body>
std::vector<std::string> told(int ranks, Body&& body) {
  std::vector<std::string> words(static_cast<std::size_t>(ranks));
  try {
    parallax::run_threads(ranks, [&](parallax::ThreadCommunicator& world) {
      try {
        body(world);
      } catch (std::exception const& error) {
        words[static_cast<std::size_t>(world.rank())] = error.what();
        throw;
      }
    });
  } catch (std::exception const&) {}
  return words;
}

}  // namespace async_test
