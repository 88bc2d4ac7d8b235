// The one list of a communicator's functions, the core and every optional ability: read by comm/any.hpp and
// comm/forwarding.hpp, which pass all of it through. A new ability is a concept in comm/communicator.hpp and its functions
// here. No include guard: a reader of the list defines one of these macros or both before, and the list undefines both at its
// end.
//
//   PARALLAX_ABILITY(concept, result, name, (parameters), (their names), qualifiers, otherwise)
//     a function; `otherwise` is the answer of a type-erased communicator if the one inside does not model the concept: an
//     expression in terms of the parameters, `own_journal`, and `lacks(name, what)`, which throws Error misuse. For a
//     function of the core it is never used
// Functions of the core are not under the concept Communicator, which would then be asked for in order to answer it: g++ 12 may
// collect its garbage in between, and call it a constraint that depends on itself.
//   PARALLAX_OPERATION(concept, name, (parameters), (their names))
//     a function that posts an operation on `channel`, and returns a Request
#ifndef PARALLAX_ABILITY
// Empty if a reader of the list wants the operations only.
#define PARALLAX_ABILITY(...)
#endif
#ifndef PARALLAX_OPERATION
// Empty if a reader of the list wants the other functions only.
#define PARALLAX_OPERATION(...)
#endif

PARALLAX_ABILITY(detail::Core, int, rank, (), (), const, -1)
PARALLAX_ABILITY(detail::Core, int, size, (), (), const, 0)
PARALLAX_ABILITY(detail::Core, std::chrono::nanoseconds, deadline, (), (), const, std::chrono::nanoseconds{})
PARALLAX_ABILITY(detail::Core, void, abort, (Error const& reason), (reason), , void())
PARALLAX_OPERATION(detail::Core, ialltoallv, (int channel, Transfer const& transfer), (channel, transfer))

PARALLAX_ABILITY(VendorAllreduce, SumOrder, sum_order, (), (), const, SumOrder::fixed)
PARALLAX_OPERATION(VendorAllreduce, iallreduce, (int channel, float const* send, float* receive, std::size_t count),
                   (channel, send, receive, count))
PARALLAX_OPERATION(VendorAllreduce, iallreduce, (int channel, double const* send, double* receive, std::size_t count),
                   (channel, send, receive, count))

PARALLAX_ABILITY(OwnClock, std::chrono::nanoseconds, now, (), (), const, std::chrono::steady_clock::now().time_since_epoch())
PARALLAX_ABILITY(KnowsOversubscription, bool, oversubscribed, (), (), const, false)
PARALLAX_ABILITY(KnowsThreads, bool, serialized, (), (), const, true)
PARALLAX_ABILITY(KnowsSharedMemory, bool, shares_memory, (int one, int other), (one, other), const, false)
PARALLAX_ABILITY(ReadsInPlace, bool, reads_in_place, (), (), const, false)
PARALLAX_ABILITY(ReadsInPlace, void, begin_reading, (), (), , void())
PARALLAX_ABILITY(ReadsInPlace, void, end_reading, (), (), noexcept, void())
PARALLAX_ABILITY(ReadsInPlace, void, await_readers, (), (), const noexcept, void())
PARALLAX_ABILITY(ReadsInPlace, void, take_turn, (), (), noexcept, void())
PARALLAX_ABILITY(ReadsInPlace, int, unread, (), (), const, -1)
PARALLAX_ABILITY(SleepsUntilNews, void, sleep, (std::chrono::nanoseconds at_most), (at_most), const, detail::rest(at_most))
PARALLAX_ABILITY(TellsOfAborts, void, check, (), (), , void())

PARALLAX_ABILITY(KeepsJournals, Journal&, journal, (), (), , own_journal)
PARALLAX_ABILITY(KeepsJournals, std::optional<RankStatus>, status_of, (int other, bool& fresh), (other, fresh), ,
                 other == rank() ? std::optional{own_journal.status()} : std::nullopt)
PARALLAX_ABILITY(KeepsJournals, void, answer, (), (), , void())

PARALLAX_ABILITY(AnnouncesPauses, void, announce, (), (), , void(lacks("announce", "way to announce a pause")))
PARALLAX_ABILITY(AnnouncesPauses, std::chrono::nanoseconds, longest_pause, (), (), const, std::chrono::nanoseconds{})

PARALLAX_ABILITY(Mailbox, int, window, (), (), const, 0)
PARALLAX_ABILITY(Mailbox, std::size_t, largest, (), (), const, 0)
PARALLAX_ABILITY(Mailbox, bool, post, (LetterLane lane, int to, LetterParts parts), (lane, to, parts), ,
                 lacks("post", "mailbox"))
PARALLAX_ABILITY(Mailbox, bool, take, (LetterLane lane, int from, Letter& letter), (lane, from, letter), ,
                 lacks("take", "mailbox"))

PARALLAX_ABILITY(LendsMemory, bool, lends, (int one, int other), (one, other), const, false)
PARALLAX_ABILITY(LendsMemory, Place, place_of, (void const* memory), (memory), const, Place{})
PARALLAX_ABILITY(LendsMemory, std::byte*, window, (int channel, std::size_t bytes), (channel, bytes), , nullptr)
PARALLAX_ABILITY(LendsMemory, std::byte*, address_of, (Place const& place), (place), , nullptr)
PARALLAX_ABILITY(LendsMemory, std::uint64_t, lend, (int channel), (channel), , 0)
PARALLAX_ABILITY(LendsMemory, bool, hold, (int channel, int rank, std::uint64_t number), (channel, rank, number), , false)
PARALLAX_ABILITY(LendsMemory, void, release, (int channel, int rank), (channel, rank), noexcept, void())
PARALLAX_ABILITY(LendsMemory, void, reclaim, (int channel), (channel), noexcept, void())

#undef PARALLAX_ABILITY
#undef PARALLAX_OPERATION
