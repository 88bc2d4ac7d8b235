// Bodies of parallax/detail/transport/mpi/job.hpp.
#pragma once

#include "parallax/detail/transport/mpi/job.hpp"

namespace parallax::inline v0_2::detail {

// Calls work(given) in a thread of its own, which nobody waits for. Returns false, uncalled, if there is no thread to be had.
inline bool beside(void* (*work)(void*), void* given) {
  pthread_t thread;
  bool const made = pthread_create(&thread, nullptr, work, given) == 0;
  if (made) pthread_detach(thread);
  return made;
}

PARALLAX_INLINE bool mpi_is_usable() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised && !finalised && !mpi_process.in_child();
}

PARALLAX_INLINE MpiStart::MpiStart() {
  static bool const watched = std::atexit(at_exit) == 0;
  lasts_ = watched;
}

PARALLAX_INLINE void MpiStart::at_exit() {
  if (!lasts_ || mpi_process.in_child()) return;
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  std::string const why = objection({variable, getpid()}, {"", 1, true});
  if (why.empty()) return;
  say_and_linger(
      joined({"parallax: MPI ended this process (exit code ", mpi_abort_code, ") where it was to join others: ", why, "\n"}));
  std::_Exit(mpi_abort_code);
}

PARALLAX_INLINE void MpiEnd::now(int rank, std::string_view report, int culprit, std::string_view before) {
  if (taken_.exchange(true)) await();
  mpi_job_is_ending = true;
  auto const turn = std::chrono::milliseconds{100};
  if (culprit != rank) detail::sleep_for(turn * (culprit < 0 ? std::min(rank, 8) : 5 + std::min(rank, 4)));
  try {
    say(std::string{before} + last_words(rank, report));
  } catch (std::bad_alloc const&) {
    say(BriefLine{rank, report});
  }
  abort();
}

// Notes the end of the job in MPI's own memory. Returns false if such a note is there, by another version of the library.
inline bool ends_first() {
  constexpr std::string_view mark = "parallax ends this job";
  std::array<char, MPI_MAX_OBJECT_NAME> name{};
  int length = 0;
  if (!mpi_is_usable()) return true;
  MPI_Comm_get_name(MPI_COMM_SELF, name.data(), &length);
  if (std::string_view{name.data(), static_cast<std::size_t>(length)} == mark) return false;
  MPI_Comm_set_name(MPI_COMM_SELF, mark.data());
  return true;
}

PARALLAX_INLINE void MpiEnd::soon(int rank, std::string_view report, bool at_once) {
  if (std::exchange(mpi_job_is_ending, true) || !ends_first()) return;
  std::string line = last_words(rank, report);
  if (at_once) {
    line.insert(line.size() - 1, "; its handler has a second to say more");
    say(std::exchange(line, {}));
    said_ = true;
  }
  auto* const its = new std::string{line};
  if (beside(end_after_a_second, its)) return;
  owed_ = its;
  if (!mpi_body_is_run) end_after_a_second(its);
}

PARALLAX_INLINE void* MpiEnd::end_after_a_second(void* line) {
  detail::sleep_for(std::chrono::seconds{1});
  if (taken_.exchange(true)) return nullptr;
  say(*static_cast<std::string*>(line));
  abort();
}

PARALLAX_INLINE void MpiEnd::await() {
  if (owed_) end_after_a_second(owed_);
  detail::sleep_for(std::chrono::seconds{2});
  std::_Exit(mpi_abort_code);
}

PARALLAX_INLINE void MpiEnd::at_exit() {
  if (!said_ || taken_.exchange(true)) await();
  abort();
}

PARALLAX_INLINE std::string MpiEnd::last_words(int rank, std::string_view report) {
  bool const said = mpi_last_failure.empty() || report.find(mpi_last_failure) != report.npos;
  return last_line(rank, said ? report : joined({report, "; last error: ", mpi_last_failure}));
}

PARALLAX_INLINE void MpiEnd::abort() {
  detail::sleep_for(std::chrono::milliseconds{50});
  here_ = true;
  if (mpi_is_usable()) MPI_Abort(MPI_COMM_WORLD, mpi_abort_code);
  std::_Exit(mpi_abort_code);
}

PARALLAX_INLINE void end_mpi_job(int rank, Error const& error) {
  std::string before;
  try {
    before = told_before(rank, error);
  } catch (std::bad_alloc const&) {}  // its last words count
  MpiEnd::now(rank, sentence_of(error), error.rank(), before);
}

PARALLAX_INLINE void MpiDebts::watch() {
  debtors();  // constructed first, so destroyed last
  static bool const watched = std::atexit(at_exit) == 0;
  if (watched) mpi_process = {};
}

PARALLAX_INLINE void MpiDebts::enter(Journal const& journal, int rank, std::chrono::nanoseconds deadline) {
  watch();
  if (deadline < shortest_) shortest_ = deadline;
  debtors().push_back({&journal, rank});
}

PARALLAX_INLINE void MpiDebts::leave(Journal const& journal) {
  forgotten_ = forgotten_ || (journal.open() && !mpi_job_is_ending && !mpi_process.in_child());
  detail::drop_if(debtors(), [&](Debtor const& debtor) { return debtor.journal == &journal; });
}

PARALLAX_INLINE void MpiDebts::tell_if_peers_go_on(int rank) {
  if (!forgotten_ || rank == 0) return;
  auto const tell = [](void* given) -> void* {
    detail::sleep_for(shortest_ / 2);
    std::string const line = joined({"parallax: rank ", reinterpret_cast<std::intptr_t>(given),
                                     " destroyed its session without finish, and its peers go on\n"});
    std::fwrite(line.data(), 1, line.size(), stderr);
    return nullptr;
  };
  auto* const given = reinterpret_cast<void*>(static_cast<std::intptr_t>(rank));
  if (!beside(tell, given)) tell(given);
}

PARALLAX_INLINE List<MpiDebts::Debtor>& MpiDebts::debtors() {
  static List<Debtor> all;
  return all;
}

PARALLAX_INLINE void MpiDebts::at_exit() {
  if (MpiEnd::here() || mpi_process.in_child()) return;
  if (mpi_job_is_ending) MpiEnd::at_exit();
  for (Debtor const& debtor : debtors())
    if (debtor.journal->open()) MpiEnd::now(debtor.rank, "its process exits before its session has finished", debtor.rank);
  if (!forgotten_) return;
  std::fflush(nullptr);
  std::_Exit(mpi_abort_code);
}

PARALLAX_INLINE Error mpi_error(int code, int rank, std::string_view operation) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {Errc::transport, rank, std::string{operation}, "", std::string(text.data(), static_cast<std::size_t>(length))};
}

PARALLAX_INLINE void mpi_fail(Error const& error) {
  mpi_last_failure = error.what();
  throw error;
}

PARALLAX_INLINE void mpi_check(int code, std::string_view call, int peer) {
  if (code != MPI_SUCCESS) mpi_fail(mpi_error(code, peer, call));
}

PARALLAX_INLINE int mpi_count(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw Error{Errc::invalid_argument, -1, "MPI", "", std::to_string(count) + " is more than an MPI count can hold"};
  return static_cast<int>(count);
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE void MpiEnvironment::initialise(int* argc, char*** argv) {
  int initialised = 0, provided = 0;
  MPI_Initialized(&initialised);
  if (initialised) return;
  {
    detail::MpiStart const start;
    if (int const code = MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided); code != MPI_SUCCESS)
      throw detail::mpi_error(code, -1, "MPI_Init_thread");
  }
  owner_ = true;
  detail::MpiDebts::watch();
}

PARALLAX_INLINE MpiEnvironment::~MpiEnvironment() {
  if (!owner_ || detail::mpi_job_is_ending || !detail::mpi_is_usable()) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (std::uncaught_exceptions() == exceptions_) {
    detail::MpiDebts::tell_if_peers_go_on(rank);
    MPI_Finalize();
    return;
  }
  detail::MpiEnd::soon(rank, "it leaves the scope of its MpiEnvironment by an exception", true);
}

}  // namespace parallax
