// An owner at work: it takes the workers' letters, makes updates of their pushes, and answers their pulls as soon as the
// consistency lets it. The session's core has one, and lets it go on in every wait and poll of a rank that owns something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "parallax/detail/async/consistency.hpp"
#include "parallax/detail/async/keeper.hpp"
#include "parallax/detail/async/options.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/pointer.hpp"

namespace parallax::inline v0_2::detail {

// Service of an owner. Refers to the world, the traffic, the keepers, the rule and the logs. Nothing waits in it. A worker is
// heard in the order of its letters: while its pull is parked, to be answered later, or as many pushes of it wait for a commit
// as there is room for, no further letter is taken, so the mailbox's window bounds the letters here. An owner's deeds follow
// from the order of its letters. If the rule has a quorum, the first owner, the leader, tells the others its order, and they
// take their letters in the same one: so all commits have the same members, and every pull reads one clock. Nobody waits for
// ever by this: of all letters still to be taken by any owner, the first one in the order is there, or on its way, for every
// letter before it in its worker's window comes before it in the order, too.
template <Communicator C>
class Service {
 public:
  Service(Topology<C> const& topology, Traffic& traffic, std::vector<Owned<Keeper>>& keepers, ConsistencyRule const& rule,
          AsyncOptions const& options)
      : topology_{&topology},
        world_{&topology.world()},
        traffic_{&traffic},
        keepers_{&keepers},
        rule_{&rule},
        scale_{options.scale},
        record_{options.record},
        replay_{options.replay} {}

  // Local. Begins training: the workers are these ranks, each after `clock` pushes. `owners`: their ranks, the first one leads.
  void begin(std::vector<int> const& workers, std::vector<int> const& owners, std::int64_t clock) {
    peers_.clear();
    for (int const rank : workers) peers_.push_back({rank, {}, {}, false, false});
    clock_.assign(workers.size(), clock);
    by_clock_ = rule_->by_clock();
    if (by_clock_) committed_ = clock;
    left_ = stashed_ = first_ = 0;
    auto const quorum = rule_->quorum(static_cast<std::int64_t>(workers.size()));
    has_quorum_ = quorum.has_value();
    quorum_ = quorum ? static_cast<std::size_t>(*quorum) : workers.size();
    orders_.clear();
    at_ = 0;
    ordered_ = served_ = 0;
    bool const first = world_->rank() == owners[0];
    leader_ = has_quorum_ && !first ? owners[0] : -1;
    followers_.clear();
    if (has_quorum_ && first) followers_.assign(owners.begin() + 1, owners.end());
    told_.assign(followers_.size(), 0);
    counts_.ages.resize(workers.size(), std::vector<std::uint64_t>(most_ages + 1));
    counts_.waits.resize(workers.size());
    counts_.taken.resize(workers.size());
    counts_.dropped.resize(workers.size());
  }
  // Local, without a wait. Takes letters that have come, some of each worker in turn. Returns true if there was any. Throws
  // Error (mismatch) for a letter that cannot be read or does not follow the log, and all errors of the world.
  bool poll() {
    if (leader_ >= 0) hear_leader();
    bool any = false;
    if (replay_ || leader_ >= 0) {
      any = follow();
    } else {
      for (std::size_t i = 0; i < peers_.size(); ++i) any |= hear((first_ + i) % peers_.size());
      if (!peers_.empty()) first_ = (first_ + 1) % peers_.size();
      if (by_clock_) any |= commit_clocks();
      if (any) answer_parked();
    }
    if (!told_.empty()) give_orders();
    return any;
  }
  // Returns true if all workers have left, all their pushes are in the parameters, and all orders are sent or followed.
  bool over() const { return left_ == peers_.size() && stashed_ == 0 && unsent() == 0 && (leader_ < 0 || ordered_ == served_); }
  // Returns a rank that others may be waiting for, -1: none. It is, of the workers that have not left, the one with the least
  // clock; on an owner led by orders the worker of the next order, or the giver of the orders.
  int slowest() const {
    if (leader_ >= 0 && !replay_)
      return at_ < orders_.size() ? peers_[static_cast<std::size_t>(orders_[at_].worker)].rank : leader_;
    auto const least = std::min_element(clock_.begin(), clock_.end());
    return least == clock_.end() || *least == far ? -1 : peers_[static_cast<std::size_t>(least - clock_.begin())].rank;
  }
  // Local, once all is over. Throws Error (mismatch) if entries of the log in AsyncOptions::replay are left.
  void check_followed() const {
    if (replay_ && next_ < replay_->size()) refuse_log(next_, "it goes on, and all workers have left");
  }
  // Returns the counts so far.
  ServiceCounts const& counts() const { return counts_; }

 private:
  static constexpr std::size_t most_ages = 64;
  // Most letters of one worker taken before the next one's turn.
  static constexpr int most_at_once = 64;
  // Most pushes of one worker that wait for a commit.
  static constexpr std::size_t most_stashed = 2;
  // Most orders in one letter.
  static constexpr std::size_t most_orders = 512;
  static constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();

  // A push that waits for a commit, and the number of pushes before it, of all workers.
  struct Stashed {
    Letter letter;
    std::uint64_t number;
  };
  // A worker, as known to this owner.
  struct Peer {
    int rank;
    // Pushes that came, not committed yet, the oldest first.
    std::vector<Stashed> stash;
    // Its pull, perhaps not to be answered yet.
    Letter pull;
    bool parked = false, left = false;
  };

  // Takes letters of worker number `worker`, as many as there are and as may be. Returns true if any. Throws as `poll`.
  bool hear(std::size_t worker) {
    Peer& peer = peers_[worker];
    for (int taken = 0; taken < most_at_once; ++taken) {
      if (peer.parked || peer.left || peer.stash.size() >= most_stashed) return taken > 0;
      if (!world_->take(LetterLane::requests, peer.rank, letter_)) return taken > 0;
      handle(worker);
    }
    return true;
  }
  // Handles one letter of worker number `worker`, already taken into `letter_`. Throws Error (mismatch) of a wrong one.
  void handle(std::size_t worker) {
    Peer& peer = peers_[worker];
    LetterReader const letter{letter_};
    switch (letter.header().kind) {
      case LetterKind::pull:
        std::swap(peer.pull, letter_);
        peer.parked = true;
        break;
      case LetterKind::push:
        if (letter.header().clock != clock_[worker]) letter.broken("it is of another clock than the one that comes next");
        ++clock_[worker];
        if (by_clock_ && letter.header().clock < committed_) {
          drop(worker, letter_);
        } else if (by_clock_) {
          peer.stash.push_back({std::move(letter_), pushes_++});
          letter_ = {};
          ++stashed_;
        } else {
          Letter const* const alone = &letter_;
          commit({&alone, 1}, scale_of(worker, letter.header().version));
          ++counts_.taken[worker];
        }
        note(worker, RunLog::Kind::push, clock_[worker] - 1);
        break;
      case LetterKind::leave:
        peer.left = true;
        clock_[worker] = far;
        ++left_;
        letter.end(*topology_, *traffic_);
        note(worker, RunLog::Kind::leave, letter.header().clock);
        break;
      default: letter.broken("it is of no kind that an owner knows");
    }
    if (has_quorum_) commit_clocks();  // before the next letter, perhaps of another clock then
    if (letter.header().kind != LetterKind::pull || replay_ || leader_ >= 0) return;
    if (rule_->may_read(letter.header().clock, clocks())) answer(worker);
    else ++counts_.waits[worker];
  }
  // Takes letters in the order of a log, as far as they are here: of the one to replay, or of the leader's orders. A parked
  // pull is answered at its entry; nothing else waits for anything but its turn. Returns true if any. Throws as `poll`.
  bool follow() {
    RunLog const& log = replay_ ? *replay_ : orders_;
    std::size_t& at = replay_ ? next_ : at_;
    auto const refuse = [&](std::string const& why) { refuse_log(at, why); };
    bool any = false;
    while (!over()) {
      if (at == log.size()) {
        for (std::size_t worker = 0; replay_ && worker < peers_.size(); ++worker)
          if (!peers_[worker].left && fetch(worker)) refuse(joined({"it ends, and worker ", worker, " goes on"}));
        if (!replay_) orders_.clear(), at_ = 0;
        return any;
      }
      RunLog::Entry const entry = log[at];
      auto const worker = static_cast<std::size_t>(entry.worker);
      if (worker >= peers_.size()) refuse(joined({"there is no worker ", worker}));
      if (peers_[worker].left) refuse(joined({"worker ", worker, " has left"}));
      if (!fetch(worker)) return any;
      auto const header = LetterReader{letter_}.header();
      LetterKind const kind = entry.kind == RunLog::Kind::push     ? LetterKind::push
                              : entry.kind == RunLog::Kind::answer ? LetterKind::pull
                                                                   : LetterKind::leave;
      if (header.kind != kind || header.clock != entry.clock)
        refuse(joined({"worker ", worker, " does something else, after ", header.clock, " pushes"}));
      handle(worker);
      if (by_clock_) commit_clocks();
      if (entry.kind == RunLog::Kind::answer) answer(worker);
      ++at;
      any = true;
    }
    return any;
  }
  // Takes a worker's next letter into `letter_`. Returns false if none has come. Throws the errors of the world.
  bool fetch(std::size_t worker) {
    if (peers_[worker].rank != leader_) return world_->take(LetterLane::requests, peers_[worker].rank, letter_);
    if (held_.empty()) return false;
    letter_ = std::move(held_.front());
    held_.erase(held_.begin());
    return true;
  }
  // Takes the letters of the leader's rank: its orders, and its worker's requests. Throws as `poll`.
  void hear_leader() {
    while (world_->take(LetterLane::requests, leader_, letter_)) {
      LetterReader letter{letter_};
      if (letter.header().kind != LetterKind::orders) {
        held_.push_back(std::move(letter_));
        letter_ = {};
        continue;
      }
      for (std::uint64_t const number :
           letter.run<std::uint64_t>(static_cast<std::uint64_t>(letter.header().clock), Payload::control)) {
        if (!replay_) orders_.add(number);
        ++ordered_;
      }
      letter.end(*topology_, *traffic_);
    }
  }
  // Sends the other owners the entries noted since the last orders, as far as there is room. Throws the errors of the world.
  void give_orders() {
    auto const& numbers = orders_.numbers();
    for (std::size_t i = 0; i < told_.size(); ++i)
      while (told_[i] < numbers.size()) {
        std::size_t const count = std::min(most_orders, numbers.size() - told_[i]);
        draft_.begin({LetterKind::orders, 0, static_cast<std::int64_t>(count)});
        draft_.run(std::span<std::uint64_t const>{numbers.data() + told_[i], count}, Payload::control);
        if (!draft_.post(*topology_, LetterLane::requests, followers_[i], *traffic_)) break;
        told_[i] += count;
      }
    if (unsent() > 0) return;
    orders_.clear();
    told_.assign(told_.size(), 0);
  }
  std::size_t unsent() const {
    std::size_t sum = 0;
    for (std::size_t const told : told_) sum += orders_.size() - told;
    return sum;
  }
  // Returns the factor of a push of parameters with `version` updates in them, and counts its age.
  double scale_of(std::size_t worker, std::int64_t version) {
    std::int64_t const age = committed_ - version;
    ++counts_.ages[worker][age < 0 ? 0 : std::min(static_cast<std::size_t>(age), most_ages)];
    return scale_ == PushScale::by_staleness && age > 1 ? 1 / static_cast<double>(age) : 1;
  }
  // Commits complete clocks, pushed by their quorum, or by all workers still there. Returns true if any. Throws as `commit`.
  bool commit_clocks() {
    for (bool any = false;; any = true) {
      members_.clear();
      bool more = false;
      for (std::size_t worker = 0; worker < peers_.size(); ++worker) {
        if (!peers_[worker].stash.empty()) members_.push_back(worker);
        else more |= !peers_[worker].left;
      }
      if (members_.empty() || (more && members_.size() < quorum_)) return any;
      auto const front = [&](std::size_t worker) -> Stashed& { return peers_[worker].stash.front(); };
      auto const in_vain = [&](std::size_t worker) {  // others are enough, and came before
        if (members_.size() <= quorum_) return false;
        std::size_t before = 0;
        for (std::size_t const other : members_) before += front(other).number < front(worker).number;
        return before >= quorum_;
      };
      pushed_.clear();
      for (std::size_t const worker : members_) {
        if (in_vain(worker)) continue;
        pushed_.push_back(&front(worker).letter);
        ++counts_.taken[worker];
      }
      commit({pushed_.data(), pushed_.size()}, 1);
      for (std::size_t const worker : members_)
        if (in_vain(worker)) drop(worker, front(worker).letter);
      for (std::size_t const worker : members_) peers_[worker].stash.erase(peers_[worker].stash.begin());
      stashed_ -= members_.size();
    }
  }
  // Makes one update of every variable in these pushes, in their order, times `scale`. Throws Error (mismatch) of a wrong push.
  void commit(Slice<Letter const* const> pushes, double scale) {
    parts_.resize(keepers_->size());
    for (auto& parts : parts_) parts.clear();
    brought_by_.assign(keepers_->size(), nullptr);
    for (Letter const* const push : pushes) {
      LetterReader letter{*push};
      each_section(letter, [&](Keeper& variable, SectionHeader const& section) {
        if (std::exchange(brought_by_[section.variable], push) == push) letter.broken("it brings a variable twice");
        parts_[section.variable].push_back(variable.pushed(letter, section.count));
      });
    }
    for (std::size_t variable = 0; variable < parts_.size(); ++variable) {
      if (parts_[variable].empty()) continue;
      (*keepers_)[variable]->next_settings();
      (*keepers_)[variable]->commit({parts_[variable].data(), parts_[variable].size()}, scale);
    }
    ++committed_;
  }
  // Drops a late push: it is read, and nothing becomes of it. Throws Error (mismatch) of a wrong one.
  void drop(std::size_t worker, Letter const& push) {
    LetterReader letter{push};
    each_section(letter, [&](Keeper& variable, SectionHeader const& section) { variable.pushed(letter, section.count); });
    ++counts_.dropped[worker];
  }
  // Answers the pulls that may be answered now. Throws as `poll`.
  void answer_parked() {
    for (std::size_t worker = 0; worker < peers_.size(); ++worker)
      if (peers_[worker].parked && rule_->may_read(LetterReader{peers_[worker].pull}.header().clock, clocks())) answer(worker);
  }
  // Answers worker number `worker`'s pull, parked until then, without a wait: an answer is never refused. Throws as `poll`.
  void answer(std::size_t worker) {
    LetterReader letter{peers_[worker].pull};
    draft_.begin({LetterKind::rows, letter.header().sections, letter.header().clock, committed_, clocks().least});
    each_section(letter,
                 [&](Keeper& variable, SectionHeader const& section) { variable.answer(letter, section.count, draft_); });
    draft_.post(*topology_, LetterLane::answers, letter.from(), *traffic_);
    peers_[worker].parked = false;
    if (has_quorum_) clock_[worker] = std::max(clock_[worker], committed_);
    note(worker, RunLog::Kind::answer, letter.header().clock);
  }
  void note(std::size_t worker, RunLog::Kind kind, std::int64_t clock) {
    if (record_) record_->add({static_cast<int>(worker), kind, clock});
    if (!told_.empty()) orders_.add({static_cast<int>(worker), kind, clock});
    ++served_;
  }
  Clocks clocks() const {
    auto const least = std::min_element(clock_.begin(), clock_.end());
    return {{clock_.data(), clock_.size()}, least == clock_.end() ? far : *least, committed_};
  }
  [[noreturn]] void refuse_log(std::size_t at, std::string const& why) const {
    throw Error{Errc::mismatch, world_->rank(), "train", "", joined({"the log cannot be followed at entry ", at, ": ", why})};
  }
  // Calls f(keeper, section) for each section of a letter, to read it, and ends the reading. Throws Error (mismatch).
  template <class F>
  void each_section(LetterReader& letter, F&& f) {
    for (std::uint32_t i = 0; i < letter.header().sections; ++i) {
      SectionHeader const section = letter.section();
      if (section.variable >= keepers_->size()) letter.broken("it names a variable that is not there");
      f(*(*keepers_)[section.variable], section);
    }
    letter.end(*topology_, *traffic_);
  }

  Topology<C> const* topology_;
  C* world_;
  Traffic* traffic_;
  std::vector<Owned<Keeper>>* keepers_;
  ConsistencyRule const* rule_;
  PushScale scale_;
  RunLog* record_;
  RunLog const* replay_;
  std::size_t next_ = 0;  // of the log
  ServiceCounts counts_;
  std::vector<Peer> peers_;
  // By worker; infinite for one that has left.
  std::vector<std::int64_t> clock_;
  // Commits, or pushes: the version of the parameters.
  std::int64_t committed_ = 0;
  std::size_t first_ = 0, left_ = 0, stashed_ = 0;
  bool by_clock_ = false;
  // Pushes of a clock that make its update; `has_quorum_`: others may come too late.
  std::size_t quorum_ = 0;
  bool has_quorum_ = false;
  std::uint64_t pushes_ = 0;
  // Of the leader: the orders that not all have, and by follower the number it has. Of a follower: its orders so far, some of
  // them followed.
  RunLog orders_;
  std::vector<int> followers_;
  std::vector<std::size_t> told_;
  // Of a follower, the leader's rank; else -1.
  int leader_ = -1;
  std::size_t at_ = 0;                      // in `orders_`
  std::uint64_t ordered_ = 0, served_ = 0;  // so many orders have come; so many entries were done
  std::vector<Letter> held_;                // of the worker at the leader's rank
  Letter letter_;
  LetterDraft draft_;
  // Scratch of commits: by variable, its parts.
  std::vector<std::vector<PushedPart>> parts_;
  std::vector<Letter const*> brought_by_;
  std::vector<std::size_t> members_;
  std::vector<Letter const*> pushed_;
};

}  // namespace parallax::detail
