// The engine of an AsyncSession: questions and gradients of workers, service during waits, and meetings of all ranks. The
// session owns one, and its workers call it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/collectives.hpp"
#include "parallax/detail/async/service.hpp"
#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// The engine. Owns rule and keepers. Refers to a synchronous session's core; it waits, meets and fails in its words. Making it
// throws Error: invalid_argument for a quorum or scale, misuse without a mailbox. C: edge to the communicator.
template <Communicator C>
class AsyncCore {
 public:
  AsyncCore(SessionCore<C>& core, Owned<ConsistencyRule> rule, AsyncOptions const& given)
      : options{given},
        core_{&core},
        rule_{std::move(rule)},
        service_{core.topology, core.traffic, keepers_, *rule_, options},
        versions_(static_cast<std::size_t>(core.topology.owners())) {
    auto const& topology = core.topology;
    bool const dedicated = topology.serves();
    for (int rank = dedicated ? topology.owners() : 0; rank < topology.size(); ++rank) {
      if (rank == topology.rank()) worker_ = static_cast<int>(workers_.size());
      workers_.push_back(rank);
    }
    auto const quorum = rule_->quorum(workers());
    by_quorum_ = quorum.has_value();
    if (quorum && (*quorum < 1 || *quorum > workers()))
      throw Error{Errc::invalid_argument, topology.rank(), "AsyncSession", "",
                  joined({rule_->text(), " makes an update of the pushes of ", *quorum, " of ", workers(), " workers"})};
    if (options.scale == PushScale::by_staleness && rule_->by_clock())
      throw Error{Errc::invalid_argument, topology.rank(), "AsyncSession", "",
                  joined({"by_staleness divides pushes that are updates of their own: under ", rule_->text(),
                          " those of a clock are one"})};
    if (topology.world().window() == 0)
      throw Error{Errc::misuse, topology.rank(), "AsyncSession", "", "the communicator has no mailbox"};
  }
  AsyncCore(AsyncCore&&) = delete;

  // Local. Enters a variable, by its constructor: it has the next number. Owns the keeper.
  void enter(Owned<Keeper> keeper) {
    keeper->number = static_cast<std::uint32_t>(keepers_.size());
    keepers_.push_back(std::move(keeper));
  }
  // Local. Returns this rank's keeper of a variable, valid as long as this. Error (misuse): the variable is of another session.
  Keeper& keeper_of(RegistrationPtr const& variable, char const* operation) const {
    for (auto const& keeper : keepers_)
      if (&keeper->registration() == &*variable) return *keeper;
    variable->refuse_stranger(core_->topology.rank(), operation);
  }
  // Returns true if this rank trains; `worker`: its number among the workers, -1 without; `workers`: how many there are.
  bool works() const { return worker_ >= 0; }
  int worker() const { return worker_; }
  int workers() const { return static_cast<int>(workers_.size()); }
  // Returns the number of this rank's pushes, skipped clocks counted.
  std::int64_t clock() const { return clock_; }
  // Returns true if pushes of a clock are one update.
  bool by_clock() const { return rule_->by_clock(); }

  // Collective, and waits. Begins training: all ranks have the same variables and settings, and each owner takes its share.
  void begin_training() {
    core_->waiting.guarded("train", [&] {
      refuse_within("train");
      auto& rounds = core_->rounds;
      Fingerprint hash = core_->begin(Operation::train);
      hash.add(std::string_view{rule_->text()});
      hash.add(static_cast<std::uint64_t>(options.scale));
      for (auto const& keeper : keepers_) keeper->add_settings(hash);
      rounds.agreement.begin(hash.value(), true, false, 0);
      rounds.agree(
          "train", std::nullopt, [] { return std::string{}; }, [&] { return described(); });
      training_ = true;
      rounds.words.assign(1, static_cast<double>(clock_));
      rounds.tell_all("train", [] { return std::string{}; });
      for (double const clock : rounds.all_told()) clock_ = std::max(clock_, static_cast<std::int64_t>(clock));
      serving_ = core_->topology.owner() >= 0;
      if (!serving_) return;
      for (auto const& keeper : keepers_) keeper->begin();
      std::vector<int> owners;
      for (int owner = 0; owner < core_->topology.owners(); ++owner) owners.push_back(core_->topology.owner_rank(owner));
      service_.begin(workers_, owners, clock_);
    });
  }
  // Local. Ends training: a worker tells all owners that it leaves. Returns once this rank has nothing to serve any more.
  void end_training() {
    guarded(Operation::train, [&] {
      if (works()) post_all(Operation::train, {LetterKind::leave, 0, clock_}, [](int) {});
      if (!serving_) return;
      wait(Operation::train, [&] {
        if (service_.poll()) core_->waiting.advance(Phase::exchanging);
        return service_.over();
      });
      serving_ = false;
      for (auto const& keeper : keepers_) keeper->end();
    });
    training_ = false;
  }
  // Collective, and waits. Makes all quiet: every rank has the owners' parts of dense variables, and the numbers of updates.
  // `last`: no training follows. Throws Refused: misuse within `train`, mismatch if a log to follow has entries left.
  void meet(bool last = false) {
    core_->waiting.guarded("together", [&] {
      refuse_within("together");
      auto& rounds = core_->rounds;
      auto const& topology = core_->topology;
      std::optional<Error> error;
      try {
        if (last && topology.owner() >= 0) service_.check_followed();
      } catch (Error const& left) {
        error = left;
      }
      rounds.agreement.begin(core_->begin(Operation::together).value(), !error, false, 0);
      rounds.agree(
          "together", error, [] { return std::string{}; }, [&] { return described(); });
      rounds.words.clear();
      for (auto const& keeper : keepers_) rounds.words.push_back(static_cast<double>(keeper->steps()));
      if (core_->wishful) core_->wish = core_->wishful->wishes();
      rounds.words.push_back(static_cast<double>(core_->wish));
      rounds.words.push_back(static_cast<double>(clock_));
      rounds.tell_all("together", [] { return std::string{}; });
      auto const owner = rounds.told(topology.owner_rank(0));
      std::int64_t const before = met_;
      core_->wished = 0;
      for (int rank = 0; rank < topology.size(); ++rank) {
        auto const words = rounds.told(rank);
        met_ = std::max(met_, static_cast<std::int64_t>(words.back()));
        core_->wished |= static_cast<unsigned>(words[words.size() - 2]);
      }
      core_->steps += met_ - before;  // not the clock: a restore has set the steps to go on from
      for (std::size_t i = 0; i < keepers_.size(); ++i)
        if (topology.owner() < 0) keepers_[i]->catch_up(static_cast<std::int64_t>(owner[i]));
      for (auto const& keeper : keepers_) {
        keeper->next_settings();
        if (keeper->parts().unit > 0) gather_parts(*keeper);
      }
    });
  }

  // Local, at a worker. Asks all owners, and waits until each has answered; serves meanwhile. Answered: the least version and
  // least clock of all owners' answers. Throws Error: mismatch of a wrong answer, timeout.
  struct Answered {
    std::int64_t version = 0, least = 0;
  };
  Answered ask(Slice<Asked* const> asked) {
    auto const& topology = core_->topology;
    post_all(Operation::pull, {LetterKind::pull, static_cast<std::uint32_t>(asked.size()), clock_}, [&](int owner) {
      for (Asked* const one : asked) one->write(owner, draft_);
    });
    for (int owner = 0; owner < topology.owners(); ++owner) missing_.push_back(owner);
    Answered answered{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()};
    auto const heard = [&](int owner) {
      if (!topology.world().take(LetterLane::answers, topology.owner_rank(owner), answer_)) return false;
      LetterReader letter{answer_};
      auto const& header = letter.header();
      if (header.kind != LetterKind::rows || header.clock != clock_ || header.sections != asked.size())
        letter.broken("it answers another pull");
      for (Asked* const one : asked) {
        SectionHeader const section = letter.section();
        if (section.variable != one->variable) letter.broken("it answers for another variable");
        one->take(owner, letter, section.count);
      }
      letter.end(topology, core_->traffic);
      versions_[static_cast<std::size_t>(owner)] = header.version;
      answered.version = std::min(answered.version, header.version);
      answered.least = std::min(answered.least, header.least);
      return true;
    };
    wait(Operation::pull, [&] {
      serve();
      drop_if(missing_, heard);
      return missing_.empty();
    });
    if (by_quorum_) clock_ = std::max(clock_, answered.version);  // a late worker goes on with the clock read
    return answered;
  }
  // Local, at a worker. Sends all owners their share, and waits for room in their mailboxes; the clock is over. May be empty.
  void bring(Slice<Brought* const> brought) {
    post_all(Operation::push, {LetterKind::push, static_cast<std::uint32_t>(brought.size()), clock_}, [&](int owner) {
      for (Brought* const one : brought) one->write(owner, draft_);
    });
    ++clock_;
  }
  // Returns true if this rank is in `train`.
  bool training() const { return training_; }
  // Local. Serves the letters that have come, without a wait. Throws as Service::poll.
  void serve() {
    if (serving_) service_.poll();
  }
  // Local. Returns body(). An error in this rank's arguments is thrown here alone: nothing was sent. Others end the session.
  template <class Body>
  auto guarded(Operation operation, Body&& body) {
    return core_->waiting.guarded(to_string(operation).data(), [&] {
      core_->waiting.journal().enter(word(operation), ++operations_, clock_, core_->waiting.clock());
      return body();
    });
  }
  // Returns the rank waited for too long: an owner, or the slowest worker if this rank's own share has not answered; -1: none.
  int waiting_for() const {
    auto const& topology = core_->topology;
    bool const own = missing_.empty() || std::find(missing_.begin(), missing_.end(), topology.owner()) != missing_.end();
    int const slowest = serving_ && own ? service_.slowest() : -1;
    if (slowest >= 0 && slowest != topology.rank()) return slowest;
    for (int const owner : missing_)
      if (int const rank = topology.owner_rank(owner); rank != topology.rank()) return rank;
    return -1;
  }

  SessionCore<C>& core() const { return *core_; }
  ServiceCounts const& counts() const { return service_.counts(); }

  AsyncOptions const options;

 private:
  // Waits, in the session's words, until `done` returns true. Throws Error (timeout), which ends the session, and its errors.
  void wait(Operation operation, FunctionRef<bool()> done) {
    core_->waiting.drive(to_string(operation).data(), done, {*this, [] { return std::string{}; }});
  }
  // Posts a letter to every owner, filled by write(owner). Waits for room in mailboxes, and serves meanwhile.
  template <class Write>
  void post_all(Operation operation, LetterHeader const& header, Write&& write) {
    auto const& topology = core_->topology;
    for (int owner = 0; owner < topology.owners(); ++owner) {
      LetterHeader own = header;
      if (header.kind == LetterKind::push) own.version = versions_[static_cast<std::size_t>(owner)];
      draft_.begin(own);
      write(owner);
      int const rank = topology.owner_rank(owner);
      missing_.assign(1, owner);
      wait(operation, [&] {
        if (draft_.post(topology, LetterLane::requests, rank, core_->traffic)) return true;
        serve();
        return false;
      });
    }
    missing_.clear();
  }
  std::string described() const {
    std::string lines =
        joined({"consistency\t", rule_->text(), options.scale == PushScale::by_staleness ? ", by_staleness" : "", '\n'});
    for (auto const& keeper : keepers_) {
      lines += keeper->registration().update_lines("");
      if (auto const scheduled = keeper->scheduled(); !scheduled.empty())
        lines += joined({"schedule of ", keeper->registration().name, '\t', scheduled, '\n'});
    }
    return lines;
  }
  // Collective, and waits. Brings every owner's part of a dense variable to all ranks. The parts lie in the order of owners.
  void gather_parts(Keeper& keeper) {
    auto const& topology = core_->topology;
    auto const [memory, unit] = keeper.parts();
    std::vector<std::size_t> counts(static_cast<std::size_t>(topology.size()));
    std::vector<std::byte> mine;
    bool ascend = true;
    for (int o = 0; o < topology.owners(); ++o) {
      int const rank = topology.owner_rank(o);
      auto const part = memory.subspan(keeper.begin_of(o) * unit, (keeper.begin_of(o + 1) - keeper.begin_of(o)) * unit);
      counts[static_cast<std::size_t>(rank)] = part.size();
      if (rank == topology.rank()) mine.assign(part.begin(), part.end());
      ascend = ascend && (o == 0 || topology.owner_rank(o - 1) < rank);
    }
    if (ascend) return allgatherv<std::byte>(topology.world(), mine, memory, counts);
    std::vector<std::byte> by_rank(memory.size());  // over hosts, owners are numbered otherwise than ranks
    allgatherv<std::byte>(topology.world(), mine, by_rank, counts);
    for (int o = 0; o < topology.owners(); ++o) {
      auto const rank = static_cast<std::ptrdiff_t>(topology.owner_rank(o));
      auto const from = std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
      std::copy_n(by_rank.begin() + static_cast<std::ptrdiff_t>(from), counts[static_cast<std::size_t>(rank)],
                  memory.begin() + static_cast<std::ptrdiff_t>(keeper.begin_of(o) * unit));
    }
  }
  // Throws Error (misuse) for a meeting of all ranks with this one in `train`: the others may never come.
  void refuse_within(char const* operation) const {
    if (training_)
      throw Refused{Error{Errc::misuse, core_->topology.rank(), operation, "",
                          "workers do not meet within train: return from its body first"}};
  }

  SessionCore<C>* core_;
  Owned<ConsistencyRule> rule_;
  std::vector<Owned<Keeper>> keepers_;
  Service<C> service_;
  std::vector<int> workers_;  // ranks
  int worker_ = -1;
  std::int64_t clock_ = 0, met_ = 0;  // met_: the greatest clock of all workers when they last met
  std::uint64_t operations_ = 0;
  bool training_ = false, serving_ = false;
  bool by_quorum_ = false;  // pushes may come too late
  LetterDraft draft_;
  Letter answer_;
  std::vector<std::int64_t> versions_;  // by owner: of its last answer
  std::vector<int> missing_;            // numbers of owners with an answer due
};

}  // namespace parallax::detail
