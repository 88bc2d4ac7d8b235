// Stands in for <nccl.h> over the emulator's streams, for ranks that are threads. What is put in a stream is one operation,
// which waits, as a kernel would, until all that it sends and receives has met its counterpart at the peer, pair by pair in
// order; sizes that differ never meet, so that it hangs, and emulator::nccl.report says so. Sums are formed from the last rank
// to the first. A communicator that does not block comes back with ncclInProgress and does its work some polls later. A rank is
// on the device that was current for it: where a peer's may not touch what it sends or receives, both fail; where its own may
// not, it fails alone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda_runtime_api.h"

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_VERSION_CODE 22809

struct ncclComm;
using ncclComm_t = ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t { ncclUint8 = 1, ncclFloat32 = 7, ncclFloat64 = 8 };
enum ncclRedOp_t { ncclSum = 0 };
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }

namespace emulator {

struct NcclClique;

// What one call, or one group of calls, has put in a stream.
struct NcclWork : std::enable_shared_from_this<NcclWork> {
  struct Part {
    enum { sends, receives, sums, scatters, gathers } what;
    void* from;
    void* to;
    std::size_t count;
    ncclDataType_t type;
    int peer;
  };
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Part> parts;
  std::size_t met = 0;
  bool here = false;

  bool ready();
};

struct NcclClique {
  struct End {
    std::shared_ptr<NcclWork> work;
    std::size_t part;
    NcclWork::Part const& of() const { return work->parts[part]; }
  };
  struct Meeting {
    std::map<int, End> ends;  // by rank
  };

  int size = 0;
  std::map<std::pair<int, int>, std::deque<End>> sent, awaited;  // by source and target
  std::map<std::uint64_t, Meeting> meetings;                     // by the number of the collective operation

  void match(int source, int target);
  void match(std::uint64_t number);
  void forget(ncclComm* comm);
};

// All under the emulator's lock.
struct NcclState {
  std::string report;           // what hangs for ever, and why
  int misuses = 0, aborts = 0;  // calls on a communicator that is gone or busy; calls of ncclCommAbort
  std::uint64_t enqueued = 0;   // operations, ever
  std::uint64_t ids = 0;
  std::map<std::uint64_t, std::shared_ptr<NcclClique>> cliques;
  std::vector<std::unique_ptr<ncclComm>> comms;
};
inline NcclState nccl;
inline thread_local ncclResult_t next_nccl_result = ncclSuccess;  // of this thread's next call that enqueues
// Of this thread's next call of ncclGetUniqueId or ncclCommInitRankConfig; of the latter ncclInProgress: it never ends.
inline thread_local ncclResult_t next_nccl_setup = ncclSuccess;
inline std::atomic<bool> nccl_never_ends{false};  // what ncclCommFinalize begins
inline thread_local int nccl_depth = 0;
inline thread_local std::vector<std::shared_ptr<NcclWork>> nccl_group;
inline std::int64_t nccl_operations = 0;  // put in streams so far, to which a whole group is one

}  // namespace emulator

struct ncclComm {
  std::shared_ptr<emulator::NcclClique> clique;
  int rank = 0, device = emulator::current_device;
  bool blocking = true, gone = false, finalised = false;
  ncclResult_t failed = ncclSuccess;  // what ncclCommGetAsyncError says
  std::uint64_t collectives = 0;
  int polls = 0;  // until what waits is enqueued
  std::vector<std::shared_ptr<emulator::NcclWork>> waiting;
  bool initialising = false;
};

namespace emulator {

inline std::size_t nccl_size(ncclDataType_t type) { return type == ncclUint8 ? 1 : type == ncclFloat32 ? 4 : 8; }

// Whether the devices of both may touch the memory of both; else both fail.
inline bool nccl_reaches(NcclClique::End const& a, NcclClique::End const& b) {
  auto const sees = [](NcclClique::End const& peer, NcclClique::End const& owner) {
    for (void* const at : {owner.of().from, owner.of().to}) {
      if (owner.of().count == 0 || !at || visible(at, peer.work->comm->device)) continue;
      nccl.report += "the device of rank " + std::to_string(peer.work->comm->rank) + " may not touch memory of rank " +
                     std::to_string(owner.work->comm->rank) + "; ";
      peer.work->comm->failed = owner.work->comm->failed = ncclUnhandledCudaError;
      return false;
    }
    return true;
  };
  return sees(a, b) && sees(b, a);
}

// Whether the rank's own device may touch all that it sends and receives; else the rank fails.
inline bool nccl_owns(NcclWork const& work) {
  for (NcclWork::Part const& part : work.parts)
    for (void* const at : {part.from, part.to}) {
      if (part.count == 0 || !at || own(at, work.comm->device)) continue;
      nccl.report += "rank " + std::to_string(work.comm->rank) + " brings memory of another device; ";
      work.comm->failed = ncclUnhandledCudaError;
      return false;
    }
  return true;
}

inline bool NcclWork::ready() {
  if (comm->gone) return true;
  if (!here) {
    here = true;
    if (!nccl_owns(*this)) return false;
    auto const self = shared_from_this();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Part const& part = parts[i];
      if (part.what == Part::sends) {
        comm->clique->sent[{comm->rank, part.peer}].push_back({self, i});
        comm->clique->match(comm->rank, part.peer);
      } else if (part.what == Part::receives) {
        comm->clique->awaited[{part.peer, comm->rank}].push_back({self, i});
        comm->clique->match(part.peer, comm->rank);
      } else {
        std::uint64_t const number = comm->collectives++;
        comm->clique->meetings[number].ends[comm->rank] = {self, i};
        comm->clique->match(number);
      }
    }
  }
  return met == parts.size();
}

inline void NcclClique::match(int source, int target) {
  auto &out = sent[{source, target}], &in = awaited[{source, target}];
  while (!out.empty() && !in.empty()) {
    NcclWork::Part const &from = out.front().of(), &to = in.front().of();
    if (from.count != to.count) {
      nccl.report += "rank " + std::to_string(source) + " sends " + std::to_string(from.count) + " bytes where rank " +
                     std::to_string(target) + " receives " + std::to_string(to.count) + "; ";
      return;
    }
    if (!nccl_reaches(out.front(), in.front())) return;
    std::memcpy(to.to, from.from, from.count);
    ++out.front().work->met, ++in.front().work->met;
    out.pop_front(), in.pop_front();
  }
}

template <class T>
void nccl_sum(std::map<int, NcclClique::End> const& ends, int size, std::size_t n) {
  std::vector<T> sum(n);
  for (auto end = ends.rbegin(); end != ends.rend(); ++end)
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<T const*>(end->second.of().from)[i];
  std::size_t const part = n / static_cast<std::size_t>(size);
  for (auto const& [rank, end] : ends) {
    bool const all = end.of().what == NcclWork::Part::sums;
    if (all) std::copy(sum.begin(), sum.end(), static_cast<T*>(end.of().to));
    else std::copy_n(sum.begin() + static_cast<std::ptrdiff_t>(part) * rank, part, static_cast<T*>(end.of().to));
  }
}

inline void NcclClique::match(std::uint64_t number) {
  auto& ends = meetings[number].ends;
  if (static_cast<int>(ends.size()) != size) return;
  NcclWork::Part const first = ends.at(0).of();
  for (auto const& [rank, end] : ends)
    if (end.of().what != first.what || end.of().count != first.count || end.of().type != first.type) {
      nccl.report += "rank " + std::to_string(rank) + " is in another collective operation than rank 0; ";
      return;
    }
  for (auto const& [rank, end] : ends)
    for (auto const& [other, peer] : ends)
      if (rank < other && !nccl_reaches(end, peer)) return;
  if (first.what == NcclWork::Part::gathers) {
    std::size_t const bytes = first.count * nccl_size(first.type);
    std::vector<std::byte> all(bytes * static_cast<std::size_t>(size));
    for (auto const& [rank, end] : ends) std::memcpy(all.data() + bytes * static_cast<std::size_t>(rank), end.of().from, bytes);
    for (auto const& [rank, end] : ends) std::memcpy(end.of().to, all.data(), all.size());
  } else {
    std::size_t const n = first.count * static_cast<std::size_t>(first.what == NcclWork::Part::scatters ? size : 1);
    if (first.type == ncclFloat32) nccl_sum<float>(ends, size, n);
    else nccl_sum<double>(ends, size, n);
  }
  for (auto const& [rank, end] : ends) ++end.work->met;
  meetings.erase(number);
}

inline void NcclClique::forget(ncclComm* comm) {
  for (auto* const queues : {&sent, &awaited})
    for (auto& [pair, queue] : *queues) std::erase_if(queue, [&](End const& end) { return end.work->comm == comm; });
  for (auto& [number, meeting] : meetings) meeting.ends.erase(comm->rank);
}

// With the lock held.
inline void nccl_put(std::shared_ptr<NcclWork> const& work) {
  if (of(work->stream).destroyed) {
    work->comm->failed = ncclUnhandledCudaError;
    return;
  }
  auto const run = [](std::shared_ptr<NcclWork> const& once) {
    ++nccl.enqueued;
    return Operation{{}, nullptr, 0, [once] { return once->ready(); }};
  };
  if (!of(work->stream).captured) return of(work->stream).operations.push_back(run(work));
  Operation captured;
  captured.again = [work, run] {
    Locked const locked{mutex};
    auto fresh = std::make_shared<NcclWork>();
    fresh->comm = work->comm, fresh->stream = work->stream, fresh->parts = work->parts;
    return run(fresh);
  };
  of(work->stream).captured->operations.push_back(std::move(captured));
}
inline void nccl_go_on() {
  while (!deferred && run_one()) {}
}
inline bool nccl_usable(ncclComm* comm) {
  if (!comm->gone && comm->polls == 0) return true;
  ++nccl.misuses;
  return false;
}

// Ends a group, or what is a group by itself.
inline ncclResult_t nccl_close() {
  if (nccl_depth > 0) return ncclSuccess;
  auto group = std::move(nccl_group);
  nccl_group.clear();
  Locked const locked{mutex};
  nccl_operations += static_cast<std::int64_t>(group.size());
  bool in_progress = false;
  for (auto const& work : group) {
    if (work->comm->blocking) {
      nccl_put(work);
      continue;
    }
    work->comm->waiting.push_back(work);
    work->comm->polls = 3;
    in_progress = true;
  }
  nccl_go_on();
  return in_progress ? ncclInProgress : ncclSuccess;
}

inline ncclResult_t nccl_call(ncclComm* comm, cudaStream_t stream, NcclWork::Part const& part) {
  if (ncclResult_t const planted = std::exchange(next_nccl_result, ncclSuccess); planted != ncclSuccess) return planted;
  {
    Locked const locked{mutex};
    if (!nccl_usable(comm)) return ncclInvalidUsage;
    if (of(stream).destroyed || of(stream).device != comm->device) return ncclUnhandledCudaError;
    if (part.peer < 0 || part.peer >= comm->clique->size) return ncclInvalidArgument;
  }
  std::shared_ptr<NcclWork> work;
  for (auto const& other : nccl_group)
    if (other->comm == comm && other->stream == stream) work = other;
  if (!work) {
    work = nccl_group.emplace_back(std::make_shared<NcclWork>());
    work->comm = comm;
    work->stream = stream;
  }
  work->parts.push_back(part);
  return nccl_close();
}

// Makes NCCL fail behind the back of the communicator.
inline void break_nccl(ncclComm_t comm, ncclResult_t result) {
  Locked const locked{mutex};
  comm->failed = result;
}

}  // namespace emulator

inline char const* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    default: return "an error";
  }
}
inline std::string& nccl_last_error() {
  static thread_local std::string text;
  return text;
}
inline char const* ncclGetLastError(ncclComm_t) { return nccl_last_error().c_str(); }
inline ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (emulator::next_nccl_setup > ncclSuccess && emulator::next_nccl_setup != ncclInProgress)
    return std::exchange(emulator::next_nccl_setup, ncclSuccess);
  emulator::Locked const locked{emulator::mutex};
  std::uint64_t const number = ++emulator::nccl.ids;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &number, sizeof number);
  emulator::nccl.cliques[number] = std::make_shared<emulator::NcclClique>();
  return ncclSuccess;
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  emulator::Locked const locked{emulator::mutex};
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  auto& made = emulator::nccl.comms.emplace_back(std::make_unique<ncclComm>());
  made->clique = emulator::nccl.cliques.at(number);
  made->clique->size = size;
  made->rank = rank;
  made->blocking = config->blocking != 0;
  if (!made->blocking) made->polls = 5;
  *comm = made.get();
  ncclResult_t const planted = std::exchange(emulator::next_nccl_setup, ncclSuccess);
  if (planted == ncclInProgress) made->polls = std::numeric_limits<int>::max();
  else if (planted != ncclSuccess) return planted;
  return made->blocking ? ncclSuccess : ncclInProgress;
}
inline ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return ncclCommInitRankConfig(comm, size, id, rank, &config);
}
// One that does not block is at it for some polls.
inline ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  emulator::Locked const locked{emulator::mutex};
  if (!emulator::nccl_usable(comm) || comm->finalised) return ++emulator::nccl.misuses, ncclInvalidUsage;
  comm->finalised = true;
  if (comm->blocking) return ncclSuccess;
  comm->polls = emulator::nccl_never_ends ? std::numeric_limits<int>::max() : 3;
  return ncclInProgress;
}
// One that does not block is finalised before, or this would block.
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  emulator::Locked const locked{emulator::mutex};
  if (!emulator::nccl_usable(comm)) return ncclInvalidUsage;
  if (!comm->blocking && (!comm->finalised || comm->polls > 0)) return ++emulator::nccl.misuses, ncclInvalidUsage;
  comm->gone = true;
  return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
  emulator::Locked const locked{emulator::mutex};
  ++emulator::nccl.aborts;
  if (comm->gone) return ++emulator::nccl.misuses, ncclInvalidUsage;
  comm->gone = true;
  comm->clique->forget(comm);
  comm->waiting.clear();
  return ncclSuccess;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  emulator::Locked const locked{emulator::mutex};
  if (comm->gone) return ++emulator::nccl.misuses, ncclInvalidUsage;
  *error = comm->failed;
  if (comm->polls > 0 && comm->failed == ncclSuccess) {
    *error = ncclInProgress;
    if (--comm->polls == 0)
      for (auto const& work : std::exchange(comm->waiting, {})) emulator::nccl_put(work);
    if (comm->polls == 0) *error = comm->failed;
    emulator::nccl_go_on();
  }
  return ncclSuccess;
}
inline ncclResult_t ncclCommCount(ncclComm_t comm, int* size) {
  emulator::Locked const locked{emulator::mutex};
  if (!emulator::nccl_usable(comm)) return ncclInvalidUsage;
  *size = comm->clique->size;
  return ncclSuccess;
}
inline ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  emulator::Locked const locked{emulator::mutex};
  if (!emulator::nccl_usable(comm)) return ncclInvalidUsage;
  *rank = comm->rank;
  return ncclSuccess;
}
inline ncclResult_t ncclGroupStart() {
  ++emulator::nccl_depth;
  return ncclSuccess;
}
inline ncclResult_t ncclGroupEnd() {
  --emulator::nccl_depth;
  return emulator::nccl_close();
}
inline ncclResult_t ncclSend(void const* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  using Part = emulator::NcclWork::Part;
  return emulator::nccl_call(comm, stream, {Part::sends, const_cast<void*>(from), nullptr, count, type, peer});
}
inline ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  using Part = emulator::NcclWork::Part;
  return emulator::nccl_call(comm, stream, {Part::receives, nullptr, to, count, type, peer});
}
inline ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                                  ncclComm_t comm, cudaStream_t stream) {
  using Part = emulator::NcclWork::Part;
  return emulator::nccl_call(comm, stream, {Part::sums, const_cast<void*>(from), to, count, type, 0});
}
inline ncclResult_t ncclReduceScatter(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                                      ncclComm_t comm, cudaStream_t stream) {
  using Part = emulator::NcclWork::Part;
  return emulator::nccl_call(comm, stream, {Part::scatters, const_cast<void*>(from), to, count, type, 0});
}
inline ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                                  cudaStream_t stream) {
  using Part = emulator::NcclWork::Part;
  return emulator::nccl_call(comm, stream, {Part::gathers, const_cast<void*>(from), to, count, type, 0});
}
