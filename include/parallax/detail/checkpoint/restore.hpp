// `Session::restore`: looks at a generation's meaning before a change, then reads it. The session calls CheckpointWork::run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/restoring.hpp"
#include "parallax/detail/core/math.hpp"

namespace parallax::inline v0_2::detail {

// The work of `Session::restore`.
template <>
struct CheckpointWork<Operation::restore> : WorkOnThings<Operation::restore, Restored, RestoreOptions> {
  // Collective, and waits. Throws Refused as long as nothing has changed; from then on an error ends the session.
  template <Communicator C, class... Things>
  static Restored work(SessionCore<C>& core, std::string const& directory, RestoreOptions const& options, Things&... things) {
    int const rank = core.topology.rank();
    std::string text = joined({"restore from '", directory, "', generation ", options.generation,
                               options.partial ? ", partial" : "", options.whole ? ", whole" : ""});
    for (auto const& [now, then] : options.names) append(text, {", '", now, "' there '", then, "'"});
    begin_checkpoint(core, Operation::restore, text, [&] {
      if (options.generation < 0)
        throw Error{Errc::invalid_argument, rank, "restore", "", joined({"there is no generation ", options.generation})};
      if (!is_positive(options.at_most)) throw Error{Errc::invalid_argument, rank, "restore", "", "at_most is a time"};
      if (directory.empty()) throw Error{Errc::invalid_argument, rank, "restore", "", "the folder has no name"};
      check_things(core, "restore", options.partial, things...);
    });
    core.settle_behind("restore");
    core.waiting.allow(patience(options.at_most));

    ReadableGeneration const generation = find_for_all(core, directory, options.generation, options.whole);
    Generation const& manifest = generation.manifest;
    std::vector<std::string> lost, alike;
    std::vector<int> hosts;
    for (int const host : core.topology.hosts()) hosts.push_back(host);
    std::optional<Meaning> meaning;
    on_all(core, "restore", [&] {
      meaning.emplace(manifest, options, hosts, core.registry.variables());
      RestoreCheck check{manifest, *meaning};
      visit_things(core, check, things...);
      lost = std::move(check.lost), alike = std::move(check.alike);
    });

    // From here on a failure ends the session.
    Restoring<C> restoring{core, directory + "/" + generation_name(manifest.facts().number), generation, *meaning,
                           std::move(alike)};
    visit_things(core, restoring, things...);
    auto const began = [&](auto& thing) {  // a search goes on by this session's clock
      if constexpr (requires { thing.state().step_began; }) thing.state().step_began = core.waiting.seconds();
    };
    (each_of(things, began), ...);
    agree_so_far(core, "restore", restoring.own_error, true);
    return {manifest.facts().number, manifest.facts().step, std::move(lost), generation.passed_over};
  }
};

}  // namespace parallax::detail
