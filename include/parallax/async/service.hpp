// An owner at work: it takes the workers' letters, makes updates of their pushes, and answers their pulls as soon as the
// consistency lets it. The session's core has one, and lets it go on in every wait and poll of a rank that owns something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "parallax/async/consistency.hpp"
#include "parallax/async/keeper.hpp"
#include "parallax/async/options.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/core/pointer.hpp"

namespace parallax::detail {

// Refers to the world, the traffic, the variables and the rule. Nothing waits in it. A worker is heard in the order of its
// letters: while its pull is parked, or as many pushes of it wait for a commit as there is room for, no further letter is taken,
// so that the mailbox's window bounds what lies here.
template <Communicator C>
class Service {
 public:
  Service(C& world, Traffic& traffic, std::vector<Owned<Keeper>>& keepers, ConsistencyRule const& rule,
          AsyncOptions const& options)
      : world_{&world},
        traffic_{&traffic},
        keepers_{&keepers},
        rule_{&rule},
        scale_{options.scale},
        record_{options.record},
        replay_{options.replay} {}

  // Local. Training begins: the workers are these ranks, each at this clock.
  void begin(std::vector<int> const& workers, std::int64_t clock);
  // Takes what has come, some letters of each worker in turn; true if there was any. Throws Error (mismatch) for a letter that
  // cannot be read, and what the world throws.
  bool poll();
  // Whether all workers have left, and all that they have pushed is in the parameters.
  bool over() const { return left_ == peers_.size() && stashed_ == 0; }
  // The rank of a worker for which others may be waiting: of those that have not left the one with the least clock; -1: none.
  int slowest() const;
  // So far.
  ServiceCounts const& counts() const { return counts_; }

 private:
  static constexpr std::size_t most_ages = 64;
  // So many letters of one worker are taken before the next one's turn.
  static constexpr int most_at_once = 64;
  // So many of its pushes wait for a commit at most.
  static constexpr std::size_t most_stashed = 2;
  static constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();

  // A worker, as this owner knows it.
  struct Peer {
    int rank;
    // Of pushes that came: what a commit has taken goes first.
    std::vector<Letter> stash;
    // Its pull, which may not be answered yet.
    Letter pull;
    bool parked = false, left = false;
  };

  // Takes letters of one worker.
  bool hear(std::size_t worker);
  // One letter that has been taken into `letter_`.
  void handle(std::size_t worker);
  // Letters in the order of the log, as far as they are here.
  bool follow();
  // By what a push is multiplied that was pushed after `version` updates were read.
  double scale_of(std::size_t worker, std::int64_t version);
  // By clock: commits whose pushes are all here.
  bool commit_clocks();
  // One update of every variable that these pushes name, in their order.
  void commit(Slice<Letter const* const> pushes, double scale);
  // The pulls that may be answered now.
  void answer_parked();
  // The parked pull of this worker.
  void answer(std::size_t worker);
  void note(std::size_t worker, RunLog::Kind kind, std::int64_t clock) {
    if (record_) record_->add({static_cast<int>(worker), kind, clock});
  }
  Clocks clocks() const;
  Keeper& keeper(LetterReader const& letter, std::uint32_t number) const {
    if (number >= keepers_->size()) letter.broken("it names a variable that is not there");
    return *(*keepers_)[number];
  }

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
  // By worker; infinite of one that has left.
  std::vector<std::int64_t> clock_;
  // Commits, or pushes: the version of the parameters.
  std::int64_t committed_ = 0;
  std::size_t first_ = 0, left_ = 0, stashed_ = 0;
  bool by_clock_ = false;
  Letter letter_;
  LetterDraft draft_;
  // Scratch of commits: by variable, its parts.
  std::vector<std::vector<PushedPart>> parts_;
  std::vector<Letter const*> brought_by_;
  std::vector<Letter const*> members_;
};

template <Communicator C>
void Service<C>::begin(std::vector<int> const& workers, std::int64_t clock) {
  peers_.clear();
  for (int const rank : workers) peers_.push_back({rank, {}, {}, false, false});
  clock_.assign(workers.size(), clock);
  by_clock_ = rule_->by_clock();
  if (by_clock_) committed_ = clock;
  left_ = stashed_ = first_ = 0;
  counts_.ages.resize(workers.size(), std::vector<std::uint64_t>(most_ages + 1));
  counts_.waits.resize(workers.size());
}

template <Communicator C>
bool Service<C>::poll() {
  if (replay_) return follow();
  bool any = false;
  for (std::size_t i = 0; i < peers_.size(); ++i) any |= hear((first_ + i) % peers_.size());
  if (!peers_.empty()) first_ = (first_ + 1) % peers_.size();
  if (by_clock_) any |= commit_clocks();
  if (any) answer_parked();
  return any;
}

template <Communicator C>
int Service<C>::slowest() const {
  auto const least = std::min_element(clock_.begin(), clock_.end());
  return least == clock_.end() || *least == far ? -1 : peers_[static_cast<std::size_t>(least - clock_.begin())].rank;
}

template <Communicator C>
bool Service<C>::hear(std::size_t worker) {
  Peer& peer = peers_[worker];
  for (int taken = 0; taken < most_at_once; ++taken) {
    if (peer.parked || peer.left || peer.stash.size() >= most_stashed) return taken > 0;
    if (!world_->take(LetterLane::requests, peer.rank, letter_)) return taken > 0;
    handle(worker);
  }
  return true;
}

template <Communicator C>
void Service<C>::handle(std::size_t worker) {
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
      if (by_clock_) {
        peer.stash.push_back(std::move(letter_));
        letter_ = {};
        ++stashed_;
      } else {
        Letter const* const alone = &letter_;
        commit({&alone, 1}, scale_of(worker, letter.header().version));
      }
      note(worker, RunLog::Kind::push, clock_[worker] - 1);
      break;
    case LetterKind::leave:
      peer.left = true;
      clock_[worker] = far;
      ++left_;
      letter.end(*world_, *traffic_);
      note(worker, RunLog::Kind::leave, letter.header().clock);
      break;
    default: letter.broken("it is of no kind that an owner knows");
  }
  if (letter.header().kind != LetterKind::pull || replay_) return;
  if (rule_->may_read(letter.header().clock, clocks())) answer(worker);
  else ++counts_.waits[worker];
}

// A parked pull is answered at the entry that says so; nothing else waits for anything but its turn.
template <Communicator C>
bool Service<C>::follow() {
  auto const refuse = [&](std::string const& why) {
    throw Error{Errc::mismatch, world_->rank(), "train", "",
                joined({"the log cannot be followed at entry ", next_, ": ", why})};
  };
  bool any = false;
  while (!over()) {
    if (next_ == replay_->size()) {
      for (std::size_t worker = 0; worker < peers_.size(); ++worker)
        if (!peers_[worker].left && world_->take(LetterLane::requests, peers_[worker].rank, letter_))
          refuse(joined({"it ends, and worker ", worker, " goes on"}));
      return any;
    }
    RunLog::Entry const entry = (*replay_)[next_];
    auto const worker = static_cast<std::size_t>(entry.worker);
    if (worker >= peers_.size()) refuse(joined({"there is no worker ", worker}));
    if (peers_[worker].left) refuse(joined({"worker ", worker, " has left"}));
    if (!world_->take(LetterLane::requests, peers_[worker].rank, letter_)) return any;
    auto const header = LetterReader{letter_}.header();
    LetterKind const kind = entry.kind == RunLog::Kind::push     ? LetterKind::push
                            : entry.kind == RunLog::Kind::answer ? LetterKind::pull
                                                                 : LetterKind::leave;
    if (header.kind != kind || header.clock != entry.clock)
      refuse(joined({"worker ", worker, " does something else, after ", header.clock, " pushes"}));
    handle(worker);
    if (by_clock_) commit_clocks();
    if (entry.kind == RunLog::Kind::answer) answer(worker);
    ++next_;
    any = true;
  }
  if (next_ < replay_->size()) refuse("it goes on, and all workers have left");
  return any;
}

template <Communicator C>
double Service<C>::scale_of(std::size_t worker, std::int64_t version) {
  std::int64_t const age = committed_ - version;
  ++counts_.ages[worker][age < 0 ? 0 : std::min(static_cast<std::size_t>(age), most_ages)];
  return scale_ == PushScale::by_staleness && age > 1 ? 1 / static_cast<double>(age) : 1;
}

// A clock is complete when each worker has pushed it or has left before it.
template <Communicator C>
bool Service<C>::commit_clocks() {
  bool any = false;
  for (;;) {
    members_.clear();
    for (auto const& peer : peers_) {
      if (!peer.stash.empty()) members_.push_back(&peer.stash.front());
      else if (!peer.left) return any;
    }
    if (members_.empty()) return any;
    commit({members_.data(), members_.size()}, 1);
    for (auto& peer : peers_)
      if (!peer.stash.empty()) peer.stash.erase(peer.stash.begin()), --stashed_;
    any = true;
  }
}

template <Communicator C>
void Service<C>::commit(Slice<Letter const* const> pushes, double scale) {
  parts_.resize(keepers_->size());
  for (auto& parts : parts_) parts.clear();
  brought_by_.assign(keepers_->size(), nullptr);
  for (Letter const* const push : pushes) {
    LetterReader letter{*push};
    for (std::uint32_t i = 0; i < letter.header().sections; ++i) {
      SectionHeader const section = letter.section();
      Keeper& variable = keeper(letter, section.variable);
      if (std::exchange(brought_by_[section.variable], push) == push) letter.broken("it brings a variable twice");
      parts_[section.variable].push_back(variable.pushed(letter, section.count));
    }
    letter.end(*world_, *traffic_);
  }
  for (std::size_t variable = 0; variable < parts_.size(); ++variable)
    if (!parts_[variable].empty()) (*keepers_)[variable]->commit({parts_[variable].data(), parts_[variable].size()}, scale);
  ++committed_;
}

template <Communicator C>
void Service<C>::answer_parked() {
  for (std::size_t worker = 0; worker < peers_.size(); ++worker)
    if (peers_[worker].parked && rule_->may_read(LetterReader{peers_[worker].pull}.header().clock, clocks())) answer(worker);
}

template <Communicator C>
void Service<C>::answer(std::size_t worker) {
  LetterReader letter{peers_[worker].pull};
  std::uint32_t const sections = letter.header().sections;
  std::int64_t const least = clocks().least;
  draft_.begin({LetterKind::rows, sections, letter.header().clock, committed_, least});
  for (std::uint32_t i = 0; i < sections; ++i) {
    SectionHeader const section = letter.section();
    keeper(letter, section.variable).answer(letter, section.count, draft_);
  }
  letter.end(*world_, *traffic_);
  draft_.post(*world_, LetterLane::answers, letter.from(), *traffic_);
  peers_[worker].parked = false;
  note(worker, RunLog::Kind::answer, letter.header().clock);
}

template <Communicator C>
Clocks Service<C>::clocks() const {
  auto const least = std::min_element(clock_.begin(), clock_.end());
  return {{clock_.data(), clock_.size()}, least == clock_.end() ? far : *least, committed_};
}

}  // namespace parallax::detail
