// Capture of a step: a thread's work in a stream becomes a graph, launched again and again with other rules of optimizers. A
// session begins one; operations on rows, plans and communicators ask for the one under way.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax::inline v0_2::device {

// Bytes by value for a kernel that writes them to device memory: nothing has to be sent ahead of it, and nothing waited for.
struct ByteList {
  // Its room: within the 4 KiB of a kernel's arguments.
  static constexpr std::uint32_t capacity = 3072;

  // The first `count`, a multiple of 4, are to be written.
  alignas(16) std::byte bytes[capacity];
  // Number of bytes.
  std::uint32_t count = 0;
};

// An object of a graph's, held as long as there is the graph; a plan is then used by nobody else.
class Kept {
 public:
  virtual ~Kept() = default;
  // Notes a launch of the graph, just put in the stream, and may put work of its own behind it. Local.
  virtual void launched() = 0;
};

// A graph of one thread's work in one stream between `begin` and `end`, with the memory for its kernels' rules of optimizers,
// and the objects it refers to; owns them all. A captured kernel has its arguments for ever: a rule, new in every step, is
// therefore read from a place in device memory, and put there before each launch. The place of the graph's own scratch is the
// runtime's to know. One thread at a time; the stream is another's, and outlives it.
class Capture {
 public:
  // Bytes for rules: of about a thousand variables.
  static constexpr std::size_t room = std::size_t{64} << 10;

  // Refers to `stream`, and takes the memory for the rules. Throws Error (out_of_memory, device).
  explicit Capture(cudaStream_t stream) : stream_{stream}, places_(room) {}
  Capture(Capture const&) = delete;
  Capture& operator=(Capture const&) = delete;
  ~Capture() {
    abandon();
    Buffer<std::byte, CudaSpace>{}.swap(places_);  // the device has done all its work
    if (graph_) ignore(cudaGraphExecDestroy(graph_));
  }

  // Returns the capture of the calling thread in this stream, or null.
  static Capture* of(cudaStream_t stream) noexcept { return is_captured(stream) ? detail::capturing.capture : nullptr; }

  // Begins: the thread's work in the stream is captured from now on. Throws Error (device; misuse if it captures already).
  void begin() {
    if (detail::capturing.capture)
      throw Error{Errc::misuse, -1, "capture", "", "another step is being captured by this thread"};
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    detail::capturing = {stream_, this};
  }
  // Ends: from now on work runs again. Makes the graph for `launch` to put in the stream. Throws Error (device), also after a
  // call meanwhile that cannot be captured.
  void end() {
    cudaGraph_t graph = nullptr;
    detail::capturing = {};
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    cudaError_t const made = cudaGraphInstantiateWithFlags(&graph_, graph, 0);
    ignore(cudaGraphDestroy(graph));
    check(made, "cudaGraphInstantiateWithFlags");
  }
  // Ends the capture, and forgets the captured work. Does nothing if this object is capturing nothing.
  void abandon() noexcept {
    if (of(stream_) != this) return;
    detail::capturing = {};
    cudaGraph_t graph = nullptr;
    ignore(cudaStreamEndCapture(stream_, &graph));
    if (graph) ignore(cudaGraphDestroy(graph));
  }
  // Puts the graph in the stream, behind the rules put there by each_part; tells the kept objects. Throws Error (device).
  void launch() {
    check(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
    for (auto const& kept : kept_) kept->launched();
  }

  // Returns, during a capture, the place of the next update's rule of a state, for kernels. The state is asked for it by
  // `next_rule`, whenever the graph is about to be launched, and outlives the capture. One state has one place. Throws Error
  // (misuse) if there are too many.
  template <class Rule, class State>
  Rule const* place(State const& state) {
    static_assert(std::is_trivially_copyable_v<Rule> && sizeof(Rule) <= ByteList::capacity);
    for (Placed const& placed : rules_)
      if (placed.state == &state) return reinterpret_cast<Rule const*>(places_.data() + placed.at);
    constexpr std::size_t alignment = 16, part = ByteList::capacity;
    std::size_t at = (used_ + alignment - 1) / alignment * alignment;
    if (at / part != (at + sizeof(Rule) - 1) / part) at = (at / part + 1) * part;
    if (at + sizeof(Rule) > room) throw Error{Errc::misuse, -1, "capture", "", "the step updates too many variables"};
    rules_.push_back({&state, at, [](void const* known, std::byte* out) {
                        Rule const rule = static_cast<State const*>(known)->next_rule();
                        std::memcpy(out, &rule, sizeof rule);
                      }});
    used_ = at + sizeof(Rule);
    renew(rules_.back());  // the captured step's rule, taken by the first launch
    return reinterpret_cast<Rule const*>(places_.data() + at);
  }
  // Keeps, during a capture, an object of the graph as long as the graph.
  void keep(Owned<Kept> kept) { kept_.push_back(std::move(kept)); }

  // Asks all states for their rules, for each_part. Throws all errors of an optimizer's `at`.
  void renew() {
    for (Placed const& placed : rules_) renew(placed);
  }
  // Calls f(list, there) for each part of the renewed rules, with its place in device memory, for f to put in the stream.
  template <class F>
  void each_part(F&& f) {
    for (std::size_t at = 0; at < bytes_.size(); at += ByteList::capacity) {
      ByteList list;
      list.count = static_cast<std::uint32_t>(std::min<std::size_t>(bytes_.size() - at, ByteList::capacity));
      std::memcpy(list.bytes, bytes_.data() + at, list.count);
      f(list, places_.data() + at);
    }
  }

 private:
  // The rule of a state, and its place in both memories.
  struct Placed {
    void const* state;
    std::size_t at;
    void (*write)(void const* state, std::byte* out);
  };

  void renew(Placed const& placed) {
    bytes_.resize((used_ + 3) / 4 * 4);
    placed.write(placed.state, bytes_.data() + placed.at);
  }

  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  Buffer<std::byte, CudaSpace> places_;
  std::size_t used_ = 0;
  std::vector<Placed> rules_;
  std::vector<std::byte> bytes_;
  std::vector<Owned<Kept>> kept_;
};

}  // namespace parallax::device
