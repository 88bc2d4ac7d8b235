// `Session::finish`: the normal end, to which all ranks come. The session calls it as a run's last operation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "parallax/detail/session/completion.hpp"
#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// Collective. Agrees that nothing is left under way, ends the work behind the steps, then tells all ranks four numbers of each,
// returned as records: steps, operations, and bytes of payload sent and received. The journal then says that the rank has ended
// well. Throws Error: misuse for started updates, and the late errors of padded batches and of the work behind.
template <Communicator C>
Completion finish(SessionCore<C>& core) {
  return core.waiting.guarded("finish", [&] {
    auto& rounds = core.rounds;
    core.await_rows("finish");
    std::optional<Error> error;
    try {
      core.check_late("finish");
    } catch (Error const& late) {
      error = late;
    }
    if (core.flights.any_started())
      error = Error{Errc::misuse, core.topology.rank(), "finish", core.flights.started().front()->names(),
                    "updates were started and no step completed them"};
    rounds.agreement.begin(core.begin(Operation::finish).value(), !error, core.joined, 0);
    rounds.agree(
        "finish", error, [] { return std::string{}; }, [] { return std::string{}; });
    core.settle_behind("finish");
    rounds.words = {static_cast<double>(core.steps), static_cast<double>(rounds.operations()),
                    static_cast<double>(core.traffic.payload_sent()), static_cast<double>(core.traffic.payload_received())};
    rounds.tell_all("finish", [] { return std::string{}; });
    Completion completion{core.topology.rank(), {}};
    for (int rank = 0; rank < core.topology.size(); ++rank) {
      auto const words = rounds.told(rank);
      completion.records.push_back({static_cast<std::int64_t>(words[0]), static_cast<std::uint64_t>(words[1]),
                                    static_cast<std::uint64_t>(words[2]), static_cast<std::uint64_t>(words[3])});
    }
    core.finished = true;
    core.waiting.journal().open(false);
    return completion;
  });
}

}  // namespace parallax::detail
