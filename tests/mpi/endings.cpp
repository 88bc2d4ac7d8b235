// How an MPI job ends, well or badly, one ending per run: endings <name> [messages]. CMakeLists.txt says which exit code and
// which words on stderr each must have. Ranks here initialise MPI themselves, or do not; their blocks go through shared memory,
// or by messages if they are told to.
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::chrono::milliseconds brief{700};
bool by_messages = false;

px::MpiOptions chosen(px::MpiOptions options = {}) {
  options.shared_memory = !by_messages;
  return options;
}

void require(bool holds, char const* sentence) {
  if (holds) return;
  std::fprintf(stderr, "FAILED: %s\n", sentence);
  std::_Exit(1);
}

// Sends `to[r]` bytes to rank r and expects `from[r]`.
void exchange(px::MpiCommunicator& comm, std::vector<std::size_t> const& to, std::vector<std::size_t> const& from) {
  std::vector<px::ByteRange> out, in;
  std::size_t sent = 0, expected = 0;
  for (std::size_t const bytes : to) out.push_back({sent, bytes}), sent += bytes;
  for (std::size_t const bytes : from) in.push_back({expected, bytes}), expected += bytes;
  std::vector<std::byte> send(sent), receive(expected);
  auto request = comm.ialltoallv(0, {send.data(), out, receive.data(), in});
  try {
    px::wait(comm, request, "exchange");
  } catch (px::Error const& error) {
    comm.abort(error);
  }
}

void exchange(px::MpiCommunicator& comm, std::size_t bytes) {
  std::vector<std::size_t> const all(static_cast<std::size_t>(comm.size()), bytes);
  exchange(comm, all, all);
}

px::Errc error_of_constructing() {
  try {
    px::MpiCommunicator comm;
  } catch (px::Error const& error) {
    return error.code();
  }
  return px::Errc{};
}

void normal(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
  exchange(comm, 100);
}

void not_initialised(int, char**) {
  require(error_of_constructing() == px::Errc::misuse, "constructing without MPI is misuse");
  int initialised = 1;
  MPI_Initialized(&initialised);
  require(!initialised, "MPI was initialised behind the user's back");
}

void finalised(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator outlives;
  exchange(outlives, 100);
  MPI_Finalize();
  require(error_of_constructing() == px::Errc::misuse, "constructing after MPI_Finalize is misuse");
}

void user_initialised(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    px::MpiEnvironment mpi{argc, argv};
    px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
    exchange(comm, 100);
  }
  int finalised = 1;
  MPI_Finalized(&finalised);
  require(!finalised, "an environment finalised what it had not initialised");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

void exception_leaves(int argc, char** argv) {
  try {
    px::MpiEnvironment mpi{argc, argv};
    px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
    if (comm.rank() == 1) throw std::runtime_error{"the user's"};
    exchange(comm, 100);
  } catch (std::runtime_error const&) {}
}

void exception_inside(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  try {
    px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
    throw std::runtime_error{"the user's, on every rank, and handled"};
  } catch (std::runtime_error const&) {}
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
  exchange(comm, 100);
}

// Rank 0 sends what rank 1 does not expect.
void disagree(int argc, char** argv, px::MpiOptions const& options, std::size_t sent, std::size_t expected) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen(options)};
  if (comm.rank() == 0) exchange(comm, {0, sent}, {0, 0});
  if (comm.rank() == 1) exchange(comm, {0, 0}, {expected, 0});
  exchange(comm, 100);
}
void longer(int argc, char** argv) { disagree(argc, argv, {}, 16, 8); }
void shorter(int argc, char** argv) { disagree(argc, argv, {}, 8, 16); }
void much_longer(int argc, char** argv) { disagree(argc, argv, {}, 5'000'000, 3'000'000); }
void much_shorter(int argc, char** argv) { disagree(argc, argv, {}, 3'000'000, 5'000'000); }
void one_chunk_more(int argc, char** argv) { disagree(argc, argv, {.largest_message = 1000}, 3000, 2000); }
void one_chunk_less(int argc, char** argv) { disagree(argc, argv, {.largest_message = 1000}, 2000, 3000); }

// Rank 1 waits for a message that rank 0 never sends; rank 0 has nothing to wait for.
void nothing(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen({.deadline = brief})};
  if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::minutes{1});
  exchange(comm, {0, 0}, {100, 0});
}

// The sender's message finds no receive in its own operation; the next one, of the same size, must get its own bytes.
void stray(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
  std::byte const wrong{1}, right{2};
  std::byte seen{0};
  px::ByteRange const none, one{0, 1};
  std::vector<px::ByteRange> const nothing(2);
  if (comm.rank() == 0) {
    std::vector<px::ByteRange> const to{none, one};
    for (std::byte const* value : {&wrong, &right}) {
      auto request = comm.ialltoallv(0, {value, to, nullptr, nothing});
      px::wait(comm, request, "stray");
    }
  }
  if (comm.rank() == 1) {
    std::vector<px::ByteRange> const from{one, none};
    auto first = comm.ialltoallv(0, {nullptr, nothing, nullptr, nothing});
    px::wait(comm, first, "stray");
    auto second = comm.ialltoallv(0, {nullptr, nothing, &seen, from});
    px::wait(comm, second, "stray");
    require(seen == right, "a block was taken for another operation's");
  }
}

void abort_with_a_reason(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
  if (comm.rank() == 1) comm.abort({px::Errc::bad_id, 1, "pull", "words", "index 7 is outside [0, 5)"});
  exchange(comm, 100);
}

void away(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen({.deadline = brief})};
  if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::hours{1});
  exchange(comm, 100);
}

void stopped(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen({.deadline = brief})};
  exchange(comm, 100);
  if (comm.rank() == 1) std::raise(SIGSTOP);
  exchange(comm, 1'000'000);
}

void never_constructed(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) std::this_thread::sleep_for(std::chrono::hours{1});
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen({.deadline = brief})};
}

// A request is destroyed while a peer that has not come yet may still read its memory.
void given_up(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
  if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::hours{1});
  std::vector<std::byte> memory(10'000'000);
  std::vector<px::ByteRange> const to{{0, 0}, {0, memory.size()}}, from(2);
  auto const request = comm.ialltoallv(0, {memory.data(), to, nullptr, from});
}

// As before, but only receives are left, which can be cancelled.
void cancelled(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen()};
  if (comm.rank() == 0) {
    std::vector<std::byte> memory(1'000'000);
    std::vector<px::ByteRange> const to(2), from{{0, 0}, {0, memory.size()}};
    auto const request = comm.ialltoallv(0, {nullptr, to, memory.data(), from});
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Small and large letters that nobody takes, one of which has begun to come, are no reason for a job to hang or to fail.
void letters_left(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator comm{MPI_COMM_WORLD, chosen({.mailbox = {.window = 2}})};
  std::vector<std::byte> const large(5'000'000);
  int const other = 1 - comm.rank();
  require(px::post_letter(comm, px::LetterLane::requests, other, large), "the first request was refused");
  require(px::post_letter(comm, px::LetterLane::requests, other, 1), "the second request was refused");
  require(!px::post_letter(comm, px::LetterLane::requests, other, 2), "the third request was not refused");
  for (int k = 0; k < 3; ++k) require(px::post_letter(comm, px::LetterLane::answers, other, k), "an answer was refused");
  require(px::post_letter(comm, px::LetterLane::answers, other, large), "a large answer was refused");
  exchange(comm, 100);
  px::Letter letter;
  if (comm.rank() == 1) comm.take(px::LetterLane::requests, 0, letter);
  exchange(comm, 100);
}

// Collectives on spans of which rank 1 brings another size: 9 elements or 8, where rank 0 has 10.
template <class Collective>
void collective(int argc, char** argv, Collective const& call) {
  px::run_mpi(
      argc, argv,
      [&](px::MpiCommunicator& world) {
        std::vector<float> right(10, 1.0f);
        px::allreduce(world, std::span{right});
        call(world);
      },
      chosen());
}
void allreduce_differs(int argc, char** argv) {
  collective(argc, argv, [](px::MpiCommunicator& world) {
    std::vector<float> values(world.rank() == 1 ? 8u : 10u);
    px::allreduce(world, std::span{values});
  });
}
void broadcast_differs(int argc, char** argv) {
  collective(argc, argv, [](px::MpiCommunicator& world) {
    std::vector<float> values(world.rank() == 1 ? 8u : 10u);
    px::broadcast(world, std::span{values});
  });
}
void allgathered(int argc, char** argv, std::size_t brought, std::size_t told) {
  collective(argc, argv, [&](px::MpiCommunicator& world) {
    std::size_t const own = world.rank() == 1 ? brought : 10, other = world.rank() == 1 ? told : 10;
    std::vector<std::size_t> const counts{10, other};
    std::vector<float> const values(own, 1.0f);
    std::vector<float> all(10 + other);
    px::allgatherv<float>(world, values, all, counts);
  });
}
void allgather_differs(int argc, char** argv) { allgathered(argc, argv, 9, 9); }
void allgather_is_refused(int argc, char** argv) { allgathered(argc, argv, 9, 10); }

// A session with a table, and what a trainer does with it.
struct Training {
  explicit Training(px::MpiCommunicator& world) : session{world} {}
  px::Session<px::MpiCommunicator> session;
  px::Variable<px::Sparse> words{session, "words", {6, 2}};

  void step() {
    auto const rows = session.pull(words, std::vector{0, 5});
    session.step(px::grad(rows, std::vector<float>(4, 0.5f)));
  }
  // What one rank must not ask for, and all are refused.
  void ask_for_too_much() {
    auto const rows = session.pull(words, std::vector{session.rank() == 1 ? 77 : 0});
  }
};

void body_returns(int argc, char** argv) {
  int const nothing = px::run_mpi(argc, argv, [](px::MpiCommunicator& world) {
    Training training{world};
    training.step();
    training.session.finish();
  }, chosen());
  require(nothing == 0, "a body that returns nothing has the status 0");
  int finalised = 0;
  MPI_Finalized(&finalised);
  require(finalised, "run_mpi left MPI as it was");
}

void body_returns_a_status(int argc, char** argv) {
  std::exit(px::run_mpi(argc, argv, [](auto& world) {
    Training training{world};
    training.step();
    training.session.finish();
    return 7;
  }));
}

void body_throws(int argc, char** argv) {
  px::run_mpi(argc, argv, [](px::MpiCommunicator& world) {
    Training training{world};
    training.step();
    if (world.rank() == 1) throw std::runtime_error{"no batch left"};
    training.step();
  });
}

void body_is_refused(int argc, char** argv) {
  px::run_mpi(argc, argv, [](px::MpiCommunicator& world) { Training{world}.ask_for_too_much(); });
}

void body_waits_in_vain(int argc, char** argv) {
  px::run_mpi(argc, argv, [](px::MpiCommunicator& world) {
    Training training{world};
    training.step();
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::minutes{1});
    training.step();
  }, {.deadline = brief});
}

// The handler of a user, around everything.
template <class Body>
void caught_outside(int argc, char** argv, Body const& body) {
  try {
    px::MpiEnvironment mpi{argc, argv};
    px::MpiCommunicator world{MPI_COMM_WORLD, chosen()};
    Training training{world};
    training.step();
    body(training);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
  }
}

void refusal_leaves(int argc, char** argv) {
  caught_outside(argc, argv, [](Training& training) { training.ask_for_too_much(); });
}

// Rank 1 starts an update that the others do not: nothing can be undone.
void apart_by_a_start(int argc, char** argv) {
  px::run_mpi(argc, argv, [](px::MpiCommunicator& world) {
    Training training{world};
    training.step();
    auto const rows = training.session.pull(training.words, std::vector{0, 5});
    std::vector<float> const gradient(4, 0.5f);
    if (world.rank() == 1) training.session.start(px::grad(rows, gradient));
    training.session.step(px::grad(rows, gradient));
  });
}

void exception_leaves_session(int argc, char** argv) {
  caught_outside(argc, argv, [](Training& training) {
    if (training.session.rank() == 1) throw std::runtime_error{"no batch left"};
    training.step();
  });
}

// Who catches the exception goes on as if nothing were the matter, where it wants to train again and where it does not.
void handler_goes_on(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator world{MPI_COMM_WORLD, chosen()};
  try {
    Training training{world};
    training.step();
    if (world.rank() == 1) throw std::runtime_error{"no batch left"};
    training.step();
  } catch (std::runtime_error const&) {}
  if (by_messages) Training{world}.step();
  std::this_thread::sleep_for(std::chrono::hours{1});
}

void handler_in_a_body(int argc, char** argv) {
  px::run_mpi(argc, argv, [](px::MpiCommunicator& world) {
    try {
      Training training{world};
      training.step();
      if (world.rank() == 1) throw std::runtime_error{"no batch left"};
      training.step();
    } catch (std::runtime_error const& error) {
      std::fprintf(stderr, "caught: %s\n", error.what());
    }
  });
}

void exits(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator world{MPI_COMM_WORLD, chosen()};
  Training training{world};
  for (int i = 0; i < 20; ++i) {
    if (i == 10 && world.rank() == 1) std::exit(0);
    training.step();
  }
  training.session.finish();
}

void exits_before_a_step(int argc, char** argv) {
  px::run_mpi(argc, argv, [](px::MpiCommunicator& world) {
    Training training{world};
    if (world.rank() == 1) std::exit(0);
    training.step();
  });
}

void not_finished(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator world{MPI_COMM_WORLD, chosen()};
  Training{world}.step();
}

// Rank 1 ends, and the others train on by themselves for longer than ranks take that end together.
void forgets_alone(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator world{MPI_COMM_WORLD, chosen()};
  Training training{world};
  training.step();
  if (world.rank() != 1) std::this_thread::sleep_for(px::detail::MpiDebts::to_end_together + std::chrono::seconds{1});
}

void body_does_not_finish(int argc, char** argv) {
  std::exit(px::run_mpi(argc, argv, [](px::MpiCommunicator& world) { Training{world}.step(); }));
}

// A session that nobody used, one that has finished before another, and one whose process exits at once afterwards.
void nothing_to_finish(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator world{MPI_COMM_WORLD, chosen()};
  for (int i = 0; i < 2; ++i) {
    Training training{world};
    training.step();
    training.session.finish();
  }
  Training const unused{world};
}

// Rank 1 is away for some deadlines, and says so before.
constexpr std::chrono::milliseconds unhurried{1500};

template <class Others>
void pause(int argc, char** argv, std::chrono::nanoseconds at_most, std::chrono::nanoseconds away, Others const& others) {
  px::run_mpi(argc, argv, [&](px::MpiCommunicator& world) {
    Training training{world};
    training.step();
    if (world.rank() == 1) {
      auto const pause = training.session.pause("evaluation", at_most);
      std::this_thread::sleep_for(away);
    } else {
      others();
    }
    training.step();
    training.session.finish();
  }, chosen({.deadline = unhurried}));
}
void pauses(int argc, char** argv) {
  pause(argc, argv, std::chrono::minutes{1}, unhurried * 5 / 2, [] {});
}
void pauses_unheard(int argc, char** argv) {  // nobody listens when it is announced, and for long afterwards
  pause(argc, argv, std::chrono::minutes{1}, 3 * unhurried, [] { std::this_thread::sleep_for(unhurried * 3 / 2); });
}
void pauses_for_too_long(int argc, char** argv) {
  pause(argc, argv, unhurried, std::chrono::hours{1}, [] {});
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::function<void(int, char**)>> const endings{
      {"normal", normal},
      {"not_initialised", not_initialised},
      {"finalised", finalised},
      {"user_initialised", user_initialised},
      {"exception_leaves", exception_leaves},
      {"exception_inside", exception_inside},
      {"longer", longer},
      {"shorter", shorter},
      {"much_longer", much_longer},
      {"much_shorter", much_shorter},
      {"one_chunk_more", one_chunk_more},
      {"one_chunk_less", one_chunk_less},
      {"nothing", nothing},
      {"stray", stray},
      {"abort_with_a_reason", abort_with_a_reason},
      {"away", away},
      {"stopped", stopped},
      {"never_constructed", never_constructed},
      {"given_up", given_up},
      {"cancelled", cancelled},
      {"letters_left", letters_left},
      {"allreduce_differs", allreduce_differs},
      {"broadcast_differs", broadcast_differs},
      {"allgather_differs", allgather_differs},
      {"allgather_is_refused", allgather_is_refused},
      {"body_returns", body_returns},
      {"body_returns_a_status", body_returns_a_status},
      {"body_throws", body_throws},
      {"body_is_refused", body_is_refused},
      {"body_waits_in_vain", body_waits_in_vain},
      {"body_does_not_finish", body_does_not_finish},
      {"refusal_leaves", refusal_leaves},
      {"apart_by_a_start", apart_by_a_start},
      {"exception_leaves_session", exception_leaves_session},
      {"handler_goes_on", handler_goes_on},
      {"handler_in_a_body", handler_in_a_body},
      {"exits", exits},
      {"pauses", pauses},
      {"pauses_unheard", pauses_unheard},
      {"pauses_for_too_long", pauses_for_too_long},
      {"exits_before_a_step", exits_before_a_step},
      {"not_finished", not_finished},
      {"forgets_alone", forgets_alone},
      {"nothing_to_finish", nothing_to_finish},
  };
  auto const ending = endings.find(argc > 1 ? argv[1] : "");
  require(ending != endings.end(), "usage: endings <name> [messages]");
  by_messages = argc > 2 && std::string_view{argv[2]} == "messages";
  ending->second(argc, argv);
  return 0;
}
