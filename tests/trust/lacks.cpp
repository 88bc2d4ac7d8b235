// A training of which one rank cannot have what it asks the system for: lacks WHAT POINT RANK FOLDER [options of run]. Of the calls of
// that rank, from the beginning of its process on, the POINT-th one fails, counted from 0: by descriptors and by threads it and all
// later ones, by interruptions it alone. With POINT -1 none fails, and it says how many there are. With -2 every second call from each
// place in the code fails, in all processes of the job. Thread ranks lack threads together. Calls of MPI's own library do not count.
// Checkpoints are in FOLDER. PARALLAX_TEST_APART in the environment: ranks over sockets share no memory. lacks.sh says how a job must end.
#include "../support/failing_calls.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#ifdef PARALLAX_HAS_MPI
#include "parallax/comm/mpi.hpp"
#else
#include "parallax/comm/socket.hpp"
#endif
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/run.hpp"
#include "parallax/memory/shared.hpp"
#include "parallax/parallax.hpp"
#include "parallax/session/progress_thread.hpp"

namespace px = parallax;

namespace {

// The calls that are to fail, and how many there were.
unsigned kind = 0;
int code = 0;
long point = -1;
bool lasts = false, of_process = false;
std::atomic<long> calls{0};

// Returns whether the library makes the call, by itself or by the C++ library.
bool is_ours(void const* caller) {
  static void const* const own = [] {
    ::Dl_info info{};
    ::dladdr(reinterpret_cast<void const*>(&is_ours), &info);
    return info.dli_fbase;
  }();
  ::Dl_info info{};
  return ::dladdr(caller, &info) != 0 && (info.dli_fbase == own || std::strstr(info.dli_fname, "libstdc++"));
}

// Returns whether this is an odd call of its place in the code.
bool is_every_second(void const* caller) {
  static std::mutex mutex;
  static std::map<void const*, long> made;
  std::lock_guard const lock{mutex};
  return made[caller]++ % 2 == 0;
}

int refuse(parallax_test::SystemCall const& call) {
  if ((call.kinds & kind) == 0 || !(of_process || parallax_test::thread_mark) || !is_ours(call.caller)) return 0;
  if (point == -2) return is_every_second(call.caller) ? code : 0;
  thread_local void const* last = nullptr;  // a call in a loop is one point
  if (std::exchange(last, call.caller) == call.caller && !lasts) return 0;
  long const number = calls++;
  return point >= 0 && (lasts ? number >= point : number == point) ? code : 0;
}

void train(px::AnyCommunicator& world, std::string const& folder) {
  px::Session session{world};
  std::vector<float> weights(3000, 1.0f);
  px::SharedBuffer<float> lent(3000);
  std::span<float> const gradient{lent.data(), 3000};
  px::Variable<px::Dense, px::Adam> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 500, .width = 8, .initial = px::uniform(-1, 1)}};
  px::Variable<px::Sparse, px::AllGather, px::Sgd> few{session, "few", {.rows = 40, .width = 4}};
  session.broadcast(layer);
  auto const step = [&](int number) {
    std::vector<int> ids;
    for (int i = 0; i < 24; ++i) ids.push_back((31 * number + 7 * i * i + 13 * world.rank()) % 500);
    auto const rows = session.pull(words, ids);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = 0.01f * static_cast<float>(i % 7) * rows[i % 24][i % 8];
    auto const next = session.prefetch(words, ids);
    session.step(px::grad(layer, gradient), px::grad(rows, std::vector<float>(24 * 8, 0.5f)),
                 px::grad(few, std::vector{number, world.rank()}, std::vector<float>(8, 0.5f)));
  };
  step(0);
  session.save(folder, {}, layer, words, few);
  {
    px::ProgressThread const helper{session};
    step(1);
  }
  session.save_async(folder, {}, layer, words, few);
  step(2);
  step(3);
  session.restore(folder, {}, layer, words, few);  // as it was after step 1
  step(2);
  session.save_async(folder, {.keep = 1}, layer, words, few);
  step(3);
  std::vector<int> all(500);
  for (int row = 0; row < 500; ++row) all[static_cast<std::size_t>(row)] = row;
  auto const rows = session.pull(words, all);
  auto const those = session.pull(few, std::vector<int>(all.begin(), all.begin() + 40));
  session.finish().save(folder + "/completion.json");
  px::Fingerprint bits;
  int near = 0;
  for (int rank = 0; rank < world.size(); ++rank) near += world.shares_memory(world.rank(), rank);
  if (!lasts) bits.add(static_cast<std::uint64_t>(near));
  auto const add = [&](float const* values, std::size_t count) {
    bits.add(std::string_view{reinterpret_cast<char const*>(values), count * sizeof(float)});
  };
  add(weights.data(), weights.size());
  add(rows.values().data, 500 * 8);
  add(those.values().data, 40 * 4);
  std::printf("rank %d ends with %016llx\n", world.rank(), static_cast<unsigned long long>(bits.value()));
}

#ifndef PARALLAX_HAS_MPI
// The way in for ranks over sockets that share no memory.
int join_apart(int&, char**&, px::RunOptions const&, px::FunctionRef<int(px::JoinedWorld&)> body) {
  int rank = -1;
  try {
    px::SocketOptions options = px::socket_options_from_environment().value();
    rank = options.rank;
    options.shared_memory = false;
    px::SocketCommunicator own{options};
    try {
      px::JoinedWorld world{own};
      return body(world);
    } catch (...) {
      own.abort(px::current_error(rank, "the training of a rank"));
      throw;
    }
  } catch (...) {
    return px::detail::end_by(rank, px::current_error(rank, "the training of a rank"));
  }
}
char const* apart_claims(px::detail::Environment variable) {
  return variable("PARALLAX_TEST_APART") ? px::detail::rank_claims(variable) : nullptr;
}
px::Entrance apart{.name = "sockets apart", .precedence = 15, .claims = apart_claims, .join = join_apart};
bool const apart_is_known = px::add_entrance(apart);
#endif

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  std::string_view const what = argv[1];
  point = std::atol(argv[2]);
  int const who = std::atoi(argv[3]);
  std::string const folder = argv[4];
  if (what == "descriptors") kind = parallax_test::makes_descriptor, code = EMFILE, lasts = true;
  else if (what == "threads") kind = parallax_test::makes_thread, code = EAGAIN, lasts = true;
  else kind = parallax_test::interruptible, code = EINTR;
  char const* rank = nullptr;  // of this process; none where ranks are threads, nor of their launcher
  for (char const* const name : {"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"})
    if (!rank) rank = std::getenv(name);
  bool threads = false;
  for (int i = 5; i < argc; ++i) threads = threads || std::string_view{argv[i]} == "--px-ranks";
  of_process = point == -2 || (rank && std::atoi(rank) == who) || (threads && what == "threads");
#ifndef PARALLAX_HAS_MPI  // which does not read on
  parallax_test::halves_transfers = point == -2;
#endif
  parallax_test::call_judge = refuse;
  int const status = px::run(argc, argv, [&](px::AnyCommunicator& world) {
    if (world.rank() == who) parallax_test::thread_mark = 1;
    train(world, folder);
  });
  parallax_test::call_judge = nullptr;
  if (point == -1 && calls > 0) std::printf("calls %ld\n", calls.load());
  return status;
}
