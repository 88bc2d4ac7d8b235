// The suite for every communicator of device memory: the promises of CarriesDevice, checked on all ranks at once, on a device
// or on the emulator's. A test of such a communicator includes it. Models are as in communicator.hpp, of communicators whose
// queue is a CudaQueue.
//
// `check_device_exchanges(model, seed)` posts random ragged transfers, several at once, makes the outgoing data just before and
// overwrites it just after, and looks at the arrived data only in the end, without waiting for the device in between: an order
// left to chance shows. `check_device_failures(model)` checks the consequences when ranks disagree, abort or stay away; it is
// for communicators that compare their ranks' operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallax/conformance/communicator.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax_conformance::inline v0_2 {

// Waits for the rank's stream, under the deadline of a communicator with a `synchronize` of its own. Called by checks before
// they look at arrived data.
template <class C>
void settle(C& comm) {
  if constexpr (requires { comm.synchronize(); }) comm.synchronize();
  else parallax::device::check(cudaStreamSynchronize(comm.queue().stream), "cudaStreamSynchronize");
}

// One rank's part of operations on one channel, one after another, in reused device memory. Sizes and contents of all blocks
// are functions of (seed, source, target). An operation is: prepare, post `transfer()`, complete, finish. Owns the memory
// referred to by transfers. Its end waits for the stream.
class DeviceExchange {
 public:
  // Makes the part of rank `rank` of `size`; this queue orders its operations, and outlives it.
  DeviceExchange(parallax::CudaQueue queue, int rank, int size)
      : stream_{queue.stream}, rank_{rank}, size_{size}, send_{queue.memory, stream_}, receive_{queue.memory, stream_} {}
  DeviceExchange(DeviceExchange const&) = delete;
  DeviceExchange& operator=(DeviceExchange const&) = delete;
  ~DeviceExchange() { static_cast<void>(cudaStreamSynchronize(stream_)); }  // its work uses memory of the rounds

  // Posts the making of the next operation's blocks to the stream. `bytes(source, target)` is the size of a block in bytes.
  template <class Bytes>
  void prepare(std::uint64_t seed, Bytes const& bytes) {
    OperationData& round = rounds_.emplace_back();
    // The places of blocks are this rank's own; sizes and contents are common.
    Dice dice{mix(seed, static_cast<std::uint64_t>(rank_), 5u)};
    to_ = laid_out(size_, dice, round.sent, [&](int target) { return bytes(rank_, target); });
    from_ = laid_out(size_, dice, round.expected, [&](int source) { return bytes(source, rank_); });
    // Copies have a byte at least.
    round.sent.push_back(gap), round.expected.push_back(gap);
    for (std::size_t peer = 0; peer < to_.size(); ++peer) {
      fill(round.sent.data() + to_[peer].offset, to_[peer].bytes, mix(seed, static_cast<std::uint64_t>(rank_), peer));
      fill(round.expected.data() + from_[peer].offset, from_[peer].bytes, mix(seed, peer, rank_));
    }
    // Kept until the stream has read and written the bytes.
    round.arrived.resize(round.expected.size());
    send_.resize(round.sent.size());
    receive_.resize(round.expected.size());
    // Contents go to the device by the stream: a transfer that does not wait for it sends the earlier contents.
    parallax::device::check(
        cudaMemcpyAsync(send_.data(), round.sent.data(), round.sent.size(), cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync");
    parallax::device::check(cudaMemsetAsync(receive_.data(), std::to_integer<int>(gap), receive_.size(), stream_),
                            "cudaMemsetAsync");
  }
  // Returns the transfer of the prepared operation, for ialltoallv_device. Refers to the memory of this object.
  parallax::Transfer transfer() { return {send_.data(), to_, receive_.data(), from_}; }

  // Posts to the stream the reading of the arrived data, and the overwriting of both the data sent and the data arrived.
  void finish() {
    OperationData& round = rounds_.back();
    // The data sent is spoiled: a complete transfer may not read it any more.
    parallax::device::check(cudaMemsetAsync(send_.data(), 0x5A, send_.size(), stream_), "cudaMemsetAsync");
    if (!round.arrived.empty())
      parallax::device::check(
          cudaMemcpyAsync(round.arrived.data(), receive_.data(), round.arrived.size(), cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync");
    parallax::device::check(cudaMemsetAsync(receive_.data(), 0x3C, receive_.size(), stream_), "cudaMemsetAsync");
  }

  // Throws a Failure unless every byte of all operations is as it must be. Called once the stream has done all its work.
  void check() const {
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      OperationData const& round = rounds_[i];
      if (round.arrived == round.expected) continue;
      auto const at = std::mismatch(round.arrived.begin(), round.arrived.end(), round.expected.begin());
      require(false, "rank " + std::to_string(rank_) + ", operation " + std::to_string(i) + ": byte " +
                         std::to_string(at.first - round.arrived.begin()) + " is " +
                         std::to_string(std::to_integer<int>(*at.first)) + ", expected " +
                         std::to_string(std::to_integer<int>(*at.second)));
    }
  }

 private:
  // Outgoing data of one operation, the data to arrive, and the arrived data, gaps included: all in the host's memory, until
  // the stream has used them.
  struct OperationData {
    std::vector<std::byte> sent, expected, arrived;
  };

  cudaStream_t stream_;
  int rank_, size_;
  // The places of this operation's blocks, to each rank and from each.
  std::vector<parallax::ByteRange> to_, from_;
  parallax::DeviceBuffer<std::byte> send_, receive_;
  std::deque<OperationData> rounds_;
};

// Collective, and waits for the request. Runs the prepared operation on a channel, but for its finish.
template <class C>
void exchange(C& comm, int channel, DeviceExchange& part) {
  auto request = comm.ialltoallv_device(channel, part.transfer());
  complete(comm, request);
}

// The main check of order. Several operations at once, round after round; between them an exchange of the host's memory. Ranks
// post in an order of their own, and complete operations as they come.
struct RaggedDeviceBlocks {
  static constexpr int lanes = 3,  // operations at once
      rounds = 4;                  // rounds of them

  // Collective, and waits. Runs all rounds, and in the end looks at every byte.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    static_assert(parallax::CarriesDevice<C>);
    std::deque<DeviceExchange> parts;
    for (int lane = 0; lane < lanes; ++lane) parts.emplace_back(comm.queue(), comm.rank(), comm.size());
    using Flying = std::pair<int, parallax::device_request_of<C>>;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      Dice dice{mix(seed, round, 1 + comm.rank())};
      std::vector<Flying> flying;
      for (int const lane : dice.shuffled(lanes)) {
        DeviceExchange& part = parts[static_cast<std::size_t>(lane)];
        std::uint64_t const own = mix(seed, round, lane);
        part.prepare(own, [&](int source, int target) { return ragged(own, source, target); });
        flying.emplace_back(lane, comm.ialltoallv_device(channel(lane), part.transfer()));
      }
      // Another source of chance than the order of the ranks: it must differ between ranks.
      Dice own_dice{mix(seed, round, comm.rank(), 9u)};
      if (own_dice.below(3) == 0) std::swap(flying.front(), flying.back());
      exchange_ragged(comm, 2, mix(seed, round));
      while (!flying.empty()) {
        std::size_t const pick = own_dice.below(flying.size());
        auto& [lane, request] = flying[pick];
        if (own_dice.below(3) == 0) complete(comm, request);
        else if (!request.test()) continue;
        parts[static_cast<std::size_t>(lane)].finish();
        flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(pick));
      }
    }
    settle(comm);
    for (DeviceExchange const& part : parts) part.check();
  }

 private:
  // Returns the channel of a lane: lanes are channels at a distance.
  static int channel(int lane) { return 3 + 5 * lane; }
};

// Checks that an operation without blocks completes, also without any memory, and the next one is right.
struct NoDeviceBlocks {
  // Collective, and waits. Runs three such operations, and then one to every other rank.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    std::vector<parallax::ByteRange> const none(static_cast<std::size_t>(comm.size()));
    for (int i = 0; i < 3; ++i) {
      auto request = comm.ialltoallv_device(4, {nullptr, none, nullptr, none});
      complete(comm, request);
    }
    DeviceExchange part{comm.queue(), comm.rank(), comm.size()};
    part.prepare(seed, [](int source, int target) { return source == target ? std::size_t{0} : 100; });
    exchange(comm, 4, part);
    part.finish();
    settle(comm);
    part.check();
  }
};

// Checks the arrival of blocks of one pair, or of every rank with itself alone, while all others send nothing.
struct FewDeviceBlocks {
  // Collective, and waits. Runs operations of each rank with itself first, and then of a pair after the other.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    DeviceExchange part{comm.queue(), comm.rank(), comm.size()};
    auto const once = [&](auto const& bytes) {
      part.prepare(seed, bytes);
      exchange(comm, 0, part);
      part.finish();
    };
    // Every rank with itself.
    once([](int source, int target) { return source == target ? std::size_t{777} : 0; });
    // Each rank with the next one.
    for (int first = 0; first < comm.size(); ++first)
      once([&](int source, int target) {
        return source == first && target == (first + 1) % comm.size() ? std::size_t{333} : 0;
      });
    settle(comm);
    part.check();
  }
};

// Checks the refusal of a channel to a second operation, of device memory or the host's, while one of device memory is under
// way.
struct ABusyChannelIsMisuseOnDevice {
  // Collective, and waits. Posts, is refused twice, and completes the posted operation.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    DeviceExchange part{comm.queue(), comm.rank(), comm.size()}, other{comm.queue(), comm.rank(), comm.size()};
    auto const bytes = even(64);
    part.prepare(seed, bytes), other.prepare(mix(seed), bytes);
    CheckedTransfer const host{comm, seed, bytes};
    auto const refused = [](auto const& post) { return refuses(parallax::Errc::misuse, post); };
    auto request = comm.ialltoallv_device(6, part.transfer());
    // The first operation is still under way: nobody has waited for its end.
    bool const again = refused([&] { comm.ialltoallv_device(6, other.transfer()); });
    bool const by_host = refused([&] { comm.ialltoallv(6, host.transfer()); });
    require(again, "a second operation on device memory on a busy channel was not refused as misuse");
    require(by_host, "an operation on the host's memory on a busy channel was not refused as misuse");
    complete(comm, request);
    part.finish();
    exchange(comm, 6, host);
    settle(comm);
    part.check();
  }
};

// Called by a test, again and again with other seeds: checks transfers of device memory on a model as in communicator.hpp.
// Throws a Failure. Checks with little dependence on chance run for every tenth seed only, 1 among them.
template <class Model>
void check_device_exchanges(Model const& model, std::uint64_t seed = 1) {
  constexpr std::chrono::seconds deadline{60};
  check(model, seed, deadline, "ragged blocks in device memory arrive in the order of the stream", RaggedDeviceBlocks{});
  if (seed % 10 != 1) return;  // the others depend less on the order
  check(model, seed, deadline, "an exchange of nothing in device memory completes", NoDeviceBlocks{});
  check(model, seed, deadline, "one pair, or every rank with itself, in device memory", FewDeviceBlocks{});
  check(model, seed, deadline, "a second operation on a busy channel is misuse", ABusyChannelIsMisuseOnDevice{});
}

// Checks that ranks are told of a disputed size: rank 0 sends `sent` bytes, the last rank expects `expected`. The last rank is
// told so, and tells the others.
struct DifferentDeviceSizesAreAMismatch {
  std::size_t sent,  // bytes from rank 0
      expected;      // bytes as expected by the last rank

  // Collective, and waits. Demands a mismatch that blames rank 0 and names the size; nothing of a single rank.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if (comm.size() == 1) return;
    // A rank not concerned waits on another channel until it is told.
    DeviceExchange part{comm.queue(), comm.rank(), comm.size()}, never{comm.queue(), comm.rank(), comm.size()};
    part.prepare(seed, disputed(comm, sent, expected, 10));
    never.prepare(seed, even(1));
    auto const error = error_of(comm.rank(), [&] {
      exchange(comm, 0, part);
      exchange(comm, 1, never);
    });
    require_mismatch(comm.rank(), error, expected);
  }
};

// Checks a disagreement with 0 for one of the two sizes: a block must never be taken for another operation's.
struct ADeviceBlockOfNothingIsNotConfused {
  std::size_t sent,  // bytes from rank 0
      expected;      // bytes as expected by the last rank

  // Collective, and waits. Runs that operation and another one on the channel. Demands a mismatch or a timeout of the last
  // rank; any other gets one, or is through with both by then, and has the data of the second.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    DeviceExchange part{comm.queue(), comm.rank(), comm.size()}, next{comm.queue(), comm.rank(), comm.size()};
    part.prepare(seed, disputed(comm, sent, expected, 0));
    next.prepare(mix(seed), even(std::max(sent, expected)));
    auto const both = [&] {
      exchange(comm, 0, part);
      exchange(comm, 0, next);
      next.finish();
      settle(comm);
    };
    if (comm.rank() == comm.size() - 1) {
      auto const error = error_of(comm.rank(), both);
      require(error.code() == parallax::Errc::mismatch || error.code() == parallax::Errc::timeout, error.what());
    } else {
      require_numbered_blocks([&] {
        both();
        next.check();
      });
    }
  }
};

// Checks memory gone too early. Ranks leave, and free their memory, at any moment of an exchange: no peer may touch it any more
// (sanitizers watch).
struct AbandonedDeviceMemoryIsLeftAlone {
  // Collective, and waits. Runs a few operations; in one of them the culprit, chosen by the seed, may abort; all then get an
  // Error with the culprit's rank.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    Dice dice{mix(seed, static_cast<std::uint64_t>(comm.rank()))};
    with_culprit(comm, seed, [&](bool is_culprit, auto const& leave) {
      for (std::uint64_t i = 0; i < 3; ++i) {
        auto const part = std::make_unique<DeviceExchange>(comm.queue(), comm.rank(), comm.size());
        part->prepare(mix(seed, i), even(3000));
        auto request = comm.ialltoallv_device(0, part->transfer());
        bool done = false;
        for (std::size_t polls = dice.below(30); polls > 0 && !done; --polls) done = request.test();
        if (is_culprit && dice.below(3) == 0) leave();
        complete(comm, request);
        part->finish();
        settle(comm);
        part->check();
      }
      if (is_culprit) leave();
    });
  }
};

// Checks absence: a rank stays away longer than the deadline, and the others get a timeout with its rank.
struct AMissingRankIsNamedOnDevice {
  // The absent rank.
  int missing;

  // Collective, and waits. Demands a timeout with the absent rank, the late rank itself included.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    DeviceExchange part{comm.queue(), comm.rank(), comm.size()};
    part.prepare(seed, even(32));
    if (comm.rank() == missing) std::this_thread::sleep_for(3 * std::chrono::nanoseconds{comm.deadline()});
    auto const error = error_of(comm.rank(), [&] { exchange(comm, 0, part); });
    std::string const what = "rank " + std::to_string(comm.rank()) + " got «" + error.what() + "»";
    require(error.code() == parallax::Errc::timeout && error.rank() == missing,
            what + ", no timeout that names rank " + std::to_string(missing));
  }
};

// Called by a test: checks the consequences for transfers of device memory when ranks disagree, abort or stay away. Throws a
// Failure. For communicators that compare their ranks' operations.
template <class Model>
void check_device_failures(Model const& model, std::uint64_t seed = 1) {
  constexpr std::chrono::seconds ample{60};
  constexpr std::chrono::milliseconds brief{400};
  int const size = ranks_of(model);
  using Sizes = std::pair<std::size_t, std::size_t>;
  for (auto const& [sent, expected] : {Sizes{8, 16}, {16, 8}, {1000, 1}, {200000, 40}})
    check(model, seed, ample, "different sizes in device memory are a mismatch",
          DifferentDeviceSizesAreAMismatch{sent, expected});
  for (auto const& [sent, expected] : {Sizes{16, 0}, {0, 16}})
    check(model, seed, brief, "a block of nothing in device memory is not confused",
          ADeviceBlockOfNothingIsNotConfused{sent, expected});
  if (size > 1)
    for (int const rank : {0, size - 1})
      check(model, seed, brief, "a rank that stays away is named", AMissingRankIsNamedOnDevice{rank});
  for (std::uint64_t i = 0; i < 40; ++i)
    check(model, mix(seed, i), ample, "abandoned device memory is left alone", AbandonedDeviceMemoryIsLeftAlone{});
}

}  // namespace parallax_conformance
