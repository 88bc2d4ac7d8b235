// Device memory by NCCL: exchanges and sums among devices, under a deadline, beside a host communicator. Made by trainers with
// an ncclComm_t for each rank.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/detail/transfer/device_channels.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax::inline v0_2 {

// NCCL itself neither notices ranks in disagreement nor ever gives up waiting. `compared`: before an operation is put in the
// stream, the ranks tell each other its kind and size, by the host communicator; none is begun in disagreement (Error mismatch)
// or with a rank missing, and all ranks put operations of several channels in the stream in the order of their posting on rank
// 0. Otherwise it is put in the stream at once, for programs posting in one order on all ranks, unlike a Session: a
// disagreement then ends by the deadline, or is undefined as by NCCL's manual. The option is the same on all ranks.
struct NcclOptions {
  // Costs one exchange by the host communicator for each operation.
  bool compared = true;
};

// The host communicator, for everything of the host, and exchanges of device memory by the user's ncclComm_t, with the ranks of
// the host. Refers to both and to the queue, which must outlive it; does not own. Its maker and users have the queue's device
// as the current one. Between devices of one process, memory sent and received is open to all of them: a CudaPool's, or
// cudaMalloc's. Move-only. Communicators that do not block are polled; the first may still be initialising when this is made.
//   constructing   local, waits for NCCL at most the deadline. Error mismatch unless rank and size are the host's
//   operations     on device memory are put in the stream one after another, and are NCCL's: one begun by the stream
//                  and not done within the deadline when another is posted or polled is an Error (timeout), after an
//                  abort. Work put in the stream before by the user takes as long as it takes
//   errors         of NCCL's are Error (misuse: an argument or its usage; out_of_memory; transport: all else), with the
//                  call and this rank, after an abort
//   abort          ncclCommAbort, once, and the host's abort. Nothing is put in the stream afterwards. The user's ncclComm_t is
//                  gone then, and must not be destroyed: see `aborted`
template <Communicator Host>
class NcclCommunicator : public Forwarding<Host> {
 public:
  // Memory of the queue's device.
  using device_space = CudaSpace;
  // A step can be captured: its moves of device memory are in the stream, and nothing else.
  static constexpr bool captures = true;

  // Local; waits for NCCL, as the class says. Throws Error: invalid_argument if `comm` is null, mismatch, timeout, NCCL's own.
  NcclCommunicator(ncclComm_t comm, Host& host, CudaQueue queue, NcclOptions options = {})
      : NcclCommunicator{host, std::make_unique<Channels>(comm, host, queue, options)} {}

  // Returns this rank's stream and pool, as they were given.
  CudaQueue queue() const { return channels_->queue; }
  // Posts as CarriesDevice has it: a group of ncclSend and ncclRecv. The rank's block for itself is a copy in the stream.
  DeviceRequest ialltoallv_device(int channel, Transfer const& transfer) {
    channels_->post(channel, transfer);
    return {channels_.get(), channel};
  }

  // Returns `vendor`: sums of device memory are formed in an order of NCCL's choice.
  SumOrder device_sum_order() const { return SumOrder::vendor; }

  // Collective, as ialltoallv_device. Posts a sum of `count` elements: `send` and `receive` are one range, or do not overlap.
  template <class T>
  DeviceRequest iallreduce_device(int channel, T const* send, T* receive, std::size_t count) {
    channels_->post(channel, {Kind::sum, send, receive, count, type_of<T>(), sizeof(T)});
    return {channels_.get(), channel};
  }
  // Collective. Posts a sum, of which rank r gets `count` elements from r · count on. In place: receive = send + rank · count.
  template <class T>
  DeviceRequest ireduce_scatter_device(int channel, T const* send, T* receive, std::size_t count) {
    channels_->post(channel, {Kind::sum_of_part, send, receive, count, type_of<T>(), sizeof(T)});
    return {channels_.get(), channel};
  }
  // Collective. Gathers `count` elements of every rank, rank r's at r · count. In place: send = receive + rank · count.
  template <class T>
  DeviceRequest iallgather_device(int channel, T const* send, T* receive, std::size_t count) {
    channels_->post(channel, {Kind::gather, send, receive, count, type_of<T>(), sizeof(T)});
    return {channels_.get(), channel};
  }

  // Waits until the stream has done all its work, the user's too. Error timeout, after an abort, if all that takes longer than
  // the deadline: NCCL may wait for a rank that never comes, and cudaStreamSynchronize would wait as long.
  void synchronize() { channels_->synchronize(); }

  // Local. Ends NCCL's communicator, then the host's.
  void abort(Error const& reason) { channels_->abort(reason); }
  bool aborted() const { return channels_->aborted(); }  // returns true once ncclCommAbort has been called

 private:
  // The kind of an operation, compared between ranks, and named in messages by its function.
  enum class Kind : std::uint64_t { exchange, sum, sum_of_part, gather };
  // A sum or a gathering of elements in memory of the device. As it is by default, it stands for an exchange of blocks.
  struct Collective {
    Kind kind = Kind::exchange;
    void const* send = nullptr;
    void* receive = nullptr;
    std::size_t count = 0;
    ncclDataType_t type = ncclUint8;
    std::size_t element = 1;
  };
  class Channels;

  // Returns NCCL's name of float or double; nothing else is summed.
  template <class T>
  static constexpr ncclDataType_t type_of() {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "sums are of float or double");
    return std::is_same_v<T, float> ? ncclFloat32 : ncclFloat64;
  }

  NcclCommunicator(Host& host, std::unique_ptr<Channels> made)
      : Forwarding<Host>{host, made.get()}, channels_{std::move(made)} {}

  std::unique_ptr<Channels> channels_;
};

// ---- below: how it is done ----

// The operations of a rank on device memory, one per channel. Made and owned by NcclCommunicator.
template <Communicator Host>
class NcclCommunicator<Host>::Channels final : public detail::DeviceChannels, public DeviceWaiter {
 public:
  // Waits for NCCL to be initialised, at most the deadline, and compares its rank and size with the host's.
  Channels(ncclComm_t comm, Host& host, CudaQueue given, NcclOptions options)
      : queue{given.awaited_by(*this)}, comm_{comm}, host_{&host}, options_{options} {
    if (!comm) throw Error{Errc::invalid_argument, host.rank(), "NcclCommunicator", "", "the ncclComm_t is null"};
    Patience<Host> patience{host};
    for (unsettled_ = true; !settled("ncclCommInitRank");) {
      heed_host();
      if (!patience.pause()) time_out("ncclCommInitRank", "NCCL is still initialising");
    }
    int rank = -1, size = -1;
    check(ncclCommUserRank(comm, &rank), "ncclCommUserRank");
    check(ncclCommCount(comm, &size), "ncclCommCount");
    if (rank != host.rank() || size != host.size())
      throw Error{Errc::mismatch, host.rank(), "NcclCommunicator", "",
                  "NCCL says rank " + std::to_string(rank) + " of " + std::to_string(size) + ", the host communicator rank " +
                      std::to_string(host.rank()) + " of " + std::to_string(host.size())};
  }
  Channels(Channels&&) = delete;

  // Posts an exchange of blocks. Throws as DeviceChannels::check and `supervise`.
  void post(int channel, Transfer const& transfer) {
    supervise();
    DeviceChannels::check(*host_, channel, transfer);
    ChannelState& state = open(channel);
    state.transfer = transfer;
    state.collective = {};
    set_out(channel, state, [&](std::size_t rank) { return transfer.to[rank].bytes; });
  }
  // Posts a sum or a gathering, with equally much from every rank. Throws Error (misuse) for a busy channel, and `supervise`'s.
  void post(int channel, Collective const& collective) {
    supervise();
    check_idle(*host_, channel, names(collective.kind).operation);
    ChannelState& state = open(channel);
    state.collective = collective;
    set_out(channel, state, [&](std::size_t) { return collective.count * collective.element; });
  }

  // Puts an event behind all work in the stream, and waits for it as `await`.
  void synchronize() {
    supervise();
    ending_.record(queue.stream);
    await(ending_);
  }
  // Waits as DeviceWaiter has it, with an eye on NCCL: throws its failure, and Error (timeout), after an abort.
  void await(CudaEvent const& event) override {
    Patience<Host> patience{*host_};
    while (!event.reached()) {
      supervise();
      if (!patience.pause()) time_out("synchronize", "the stream has not done what it was given");
    }
  }

  // Ends NCCL's communicator, then the host's. The first reason stays.
  void abort(Error const& reason) {
    stop(reason);
    host_->abort(reason);
  }
  // Returns true if NCCL's communicator is gone.
  bool aborted() const { return reason_.has_value(); }

  // This rank's stream and pool.
  CudaQueue const queue;

 private:
  // An operation as the ranks tell each other. The number at rank 0 sets the order in the stream.
  struct Header {
    std::uint64_t number, kind, bytes;
  };
  // Of an operation: the host exchanges headers, earlier ones come first, or NCCL has not returned from its call.
  enum class Stage : unsigned char { compares, waits_for_its_turn, settles };
  // The operation of a channel, from its posting to its event. `told` and `heard` are by rank.
  struct ChannelState {
    explicit ChannelState(std::size_t ranks) : to(ranks), from(ranks), told(ranks), heard(ranks) {}

    Transfer transfer;
    Collective collective;
    std::uint64_t number = 0;  // among all operations, as rank 0 posted them; 0: not known yet
    Stage stage = Stage::compares;
    std::optional<request_of<Host>> request;
    std::vector<ByteRange> to, from;
    std::vector<Header> told, heard;
  };
  // An operation in the stream, between two events. The deadline counts from the first look at which the device had come to it.
  struct Watched {
    CudaEvent ahead, behind;
    std::optional<std::chrono::nanoseconds> since;
    char const* operation = "";
    int channel = 0;
  };

  // The names of an operation, and of NCCL's call for it, in errors.
  struct Names {
    char const *operation, *call;
  };
  static Names names(Kind kind) {
    switch (kind) {
      case Kind::exchange: return {"ialltoallv_device", "ncclGroupEnd"};
      case Kind::sum: return {"iallreduce_device", "ncclAllReduce"};
      case Kind::sum_of_part: return {"ireduce_scatter_device", "ncclReduceScatter"};
      case Kind::gather: return {"iallgather_device", "ncclAllGather"};
    }
    return {"an operation that is none", "NCCL"};
  }

  bool is_self(std::size_t rank) const { return static_cast<int>(rank) == host_->rank(); }
  ChannelState& state_of(int channel) { return *states_[static_cast<std::size_t>(channel)]; }
  // Returns the state of a channel, made when it is first used.
  ChannelState& open(int channel) {
    std::optional<ChannelState>& made = states_[static_cast<std::size_t>(channel)];
    if (!made) made.emplace(static_cast<std::size_t>(host_->size()));
    return *made;
  }

  // Posts headers under `compared`, else begins in its turn; no wait. `bytes_to`: by rank. Errors: the host's, `supervise`'s.
  template <class BytesTo>
  void set_out(int channel, ChannelState& state, BytesTo&& bytes_to) {
    std::uint64_t const number = posted_ + 1;
    state.number = number;
    state.stage = Stage::waits_for_its_turn;
    if (options_.compared && host_->size() > 1) {
      if (host_->rank() != 0) state.number = 0;
      for (std::size_t rank = 0; rank < state.told.size(); ++rank) {
        state.told[rank] = {number, static_cast<std::uint64_t>(state.collective.kind), bytes_to(rank)};
        state.to[rank] = state.from[rank] = {rank * sizeof(Header), is_self(rank) ? 0 : sizeof(Header)};
      }
      state.request.emplace(by_host([&] {
        return host_->ialltoallv(channel, {reinterpret_cast<std::byte const*>(state.told.data()), state.to,
                                           reinterpret_cast<std::byte*>(state.heard.data()), state.from});
      }));
      state.stage = Stage::compares;
    }
    ++posted_;
    DeviceChannels::set_out(channel);
    if (state.stage == Stage::waits_for_its_turn) move_on();  // it may be in the stream at once
  }

  // Goes as far as it can; returns true once the operation and an event behind it are in the stream.
  bool advance(int channel) override {
    supervise();
    ChannelState& state = state_of(channel);
    if (state.stage == Stage::compares) {
      if (!by_host([&] { return state.request->test(); })) return false;
      compare(state);
      if (host_->rank() != 0) state.number = state.heard[0].number;
      state.request.reset();
      state.stage = Stage::waits_for_its_turn;
    }
    if (state.stage == Stage::waits_for_its_turn) {
      if (state.number != begun_ + 1 || unsettled_) return false;
      ++begun_;
      state.stage = Stage::settles;
      if (!device::is_captured(queue.stream)) next_.ahead.record(queue.stream);
      begin(state);
    }
    if (!settled(names(state.collective.kind).call)) return false;
    watch(channel, state);
    return true;
  }

  // Calls the host. If it fails, peers do not come any more, and NCCL is ended: its work in the stream would wait for them.
  template <class Call>
  auto by_host(Call&& call) {
    try {
      return call();
    } catch (Error const& error) {
      if (error.code() != Errc::misuse) stop(error);
      throw;
    }
  }

  // Throws the reason of a peer's abort of the host communicator.
  void heed_host() {
    if constexpr (TellsOfAborts<Host>) by_host([&] { host_->check(); });
  }

  // Throws Error (mismatch) with a rank whose operation is another, or of another size.
  void compare(ChannelState const& state) const {
    auto const refuse = [&](std::size_t rank, std::string const& what) {
      throw Error{Errc::mismatch, static_cast<int>(rank), names(state.collective.kind).operation, "",
                  "rank " + std::to_string(rank) + " " + what + " rank " + std::to_string(host_->rank())};
    };
    for (std::size_t rank = 0; rank < state.heard.size(); ++rank) {
      if (is_self(rank)) continue;
      Header const& heard = state.heard[rank];
      bool const exchange = state.collective.kind == Kind::exchange;
      std::size_t const expected =
          exchange ? state.transfer.from[rank].bytes : state.collective.count * state.collective.element;
      if (heard.kind != static_cast<std::uint64_t>(state.collective.kind))
        refuse(rank, std::string{"posted "} + names(static_cast<Kind>(heard.kind)).operation + " where this was posted by");
      if (heard.bytes != expected)
        refuse(rank, (exchange ? "sent " : "brought ") + std::to_string(heard.bytes) + " bytes where " +
                         std::to_string(expected) + " were expected by");
    }
  }

  // Calls NCCL; of nothing to sum or gather, nothing is called.
  void begin(ChannelState const& state) {
    Collective const& c = state.collective;
    if (c.kind != Kind::exchange && c.count == 0) return;
    switch (c.kind) {
      case Kind::exchange: return exchange(state.transfer);
      case Kind::sum: return began(ncclAllReduce(c.send, c.receive, c.count, c.type, ncclSum, comm_, queue.stream), c.kind);
      case Kind::sum_of_part:
        return began(ncclReduceScatter(c.send, c.receive, c.count, c.type, ncclSum, comm_, queue.stream), c.kind);
      case Kind::gather: return began(ncclAllGather(c.send, c.receive, c.count, c.type, comm_, queue.stream), c.kind);
    }
  }
  // Notes the result of a call, or throws it. A non-blocking communicator may be at it still: it is polled by `settled`.
  void began(ncclResult_t result, Kind kind) {
    unsettled_ = result == ncclInProgress;
    check(result, names(kind).call);
  }

  // Puts an exchange in the stream. Throws the first failure of a call; an open group is closed before.
  void exchange(Transfer const& transfer) {
    auto const self = static_cast<std::size_t>(host_->rank());
    device::copy(transfer.receive + transfer.from[self].offset, transfer.send + transfer.to[self].offset,
                 transfer.to[self].bytes, cudaMemcpyDeviceToDevice, queue.stream);
    bool const anything = std::any_of(transfer.to.begin(), transfer.to.end(), [](ByteRange b) { return b.bytes > 0; }) ||
                          std::any_of(transfer.from.begin(), transfer.from.end(), [](ByteRange b) { return b.bytes > 0; });
    if (!anything || host_->size() == 1) return;
    check(ncclGroupStart(), "ncclGroupStart");
    ncclResult_t first = ncclSuccess;
    char const* call = "";
    auto const keep = [&](ncclResult_t result, char const* of) {
      if (first != ncclSuccess || result == ncclSuccess || result == ncclInProgress) return;
      first = result;
      call = of;
    };
    for (int k = 1; k < host_->size(); ++k) {
      int const target = (host_->rank() + k) % host_->size(), source = (host_->rank() - k + host_->size()) % host_->size();
      ByteRange const out = transfer.to[static_cast<std::size_t>(target)], in = transfer.from[static_cast<std::size_t>(source)];
      if (out.bytes > 0)
        keep(ncclSend(transfer.send + out.offset, out.bytes, ncclUint8, target, comm_, queue.stream), "ncclSend");
      if (in.bytes > 0)
        keep(ncclRecv(transfer.receive + in.offset, in.bytes, ncclUint8, source, comm_, queue.stream), "ncclRecv");
    }
    ncclResult_t const last = ncclGroupEnd();
    check(first, call);
    began(last, Kind::exchange);
  }

  // Returns true if the latest call is over: the work is in the stream. Throws its error, after an abort.
  bool settled(char const* call) {
    if (!unsettled_) return true;
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    if (state == ncclInProgress) return false;
    unsettled_ = false;
    check(state, call);
    return true;
  }

  // Puts an event behind the operation, to notice a device at it for longer than the deadline. Captured work is not in the
  // stream yet.
  void watch(int channel, ChannelState const& state) {
    if (device::is_captured(queue.stream)) return;
    next_.behind.record(queue.stream);
    next_.since.reset();
    next_.operation = names(state.collective.kind).operation;
    next_.channel = channel;
    if (busy_ == watched_.size()) watched_.emplace_back();
    std::swap(watched_[busy_++], next_);
  }

  // Looks after NCCL, now and then: after an abort throws its reason, aborts if NCCL has failed or an operation is overdue.
  void supervise() {
    if (reason_) throw *reason_;
    heed_host();
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    check(state, "ncclCommGetAsyncError");
    while (busy_ > 0 && watched_[0].behind.reached()) {
      std::rotate(watched_.begin(), watched_.begin() + 1, watched_.begin() + static_cast<std::ptrdiff_t>(busy_));
      --busy_;
    }
    if (busy_ == 0) return;
    Watched& first = watched_[0];
    if (!first.since && first.ahead.reached()) first.since = now(*host_);
    if (first.since && now(*host_) - *first.since > std::chrono::nanoseconds{host_->deadline()})
      time_out(first.operation, "the device has not done what was posted on channel " + std::to_string(first.channel));
  }

  // Throws NCCL's error, after an abort. A call in progress is none.
  void check(ncclResult_t result, char const* call) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    char const* const last = ncclGetLastError(comm_);
    std::string detail = "rank " + std::to_string(host_->rank()) + ": " + ncclGetErrorString(result);
    if (last && *last) (detail += ": ") += last;
    bool const memory = result == ncclUnhandledCudaError && detail.find("out of memory") != std::string::npos;
    bool const usage = result == ncclInvalidArgument || result == ncclInvalidUsage;
    fail({memory ? Errc::out_of_memory : usage ? Errc::misuse : Errc::transport, host_->rank(), call, "", detail});
  }
  // Throws Error (timeout), after an abort.
  [[noreturn]] void time_out(char const* operation, std::string_view what) {
    fail(timeout_error(*host_, -1, operation, {}, what));
  }
  [[noreturn]] void fail(Error const& error) {
    abort(error);
    throw error;
  }
  // Ends NCCL's communicator, once. Its work in the stream ends, too.
  void stop(Error const& reason) {
    if (reason_) return;
    reason_ = reason;
    static_cast<void>(ncclCommAbort(comm_));
  }

  // Returns a rank with a missing header, of this operation or of the one in turn.
  int missing(int channel) const override {
    std::optional<ChannelState> const& state = states_[static_cast<std::size_t>(channel)];
    if (state->request) return state->request->waiting_for();
    for (std::optional<ChannelState> const& first : states_)  // the one in turn, or perhaps in turn
      if (first && first->request && (first->number == 0 || first->number == begun_ + 1)) return first->request->waiting_for();
    return -1;
  }
  // Withdraws the host's request; work in the stream is NCCL's.
  void give_up(int channel) noexcept override { state_of(channel).request.reset(); }

  ncclComm_t comm_;
  Host* host_;
  NcclOptions options_;
  std::array<std::optional<ChannelState>, channels> states_;  // of the channels used
  std::uint64_t posted_ = 0, begun_ = 0;                      // operations; put in the stream in the order of rank 0's posting
  bool unsettled_ = false;                                    // NCCL has not come back from the last call
  std::vector<Watched> watched_;                              // the first `busy_` in the order of the stream, then spare ones
  std::size_t busy_ = 0;
  Watched next_;  // of the operation being put in the stream
  CudaEvent ending_;
  std::optional<Error> reason_;
};

}  // namespace parallax
