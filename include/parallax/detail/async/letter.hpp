// Letters between workers and owners: a header, and a section for each variable, with runs that begin at multiples of eight
// bytes. Workers draft requests and read answers by these classes, and owners the other way round.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/comm/topology.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/transfer/lane.hpp"

namespace parallax::inline v0_2 {

// Kinds of letters. `pull` asks an owner for rows and parts, and `rows` answers; `push` brings gradients, and ends a clock;
// `leave` is a worker's last one. By `orders` the first owner tells the others the order of service, if the rule has a quorum.
enum class LetterKind : std::uint32_t { pull = 1, rows, push, leave, orders };

// A letter's first bytes.
struct LetterHeader {
  // Kind of the letter.
  LetterKind kind{};
  // Number of sections behind the header.
  std::uint32_t sections = 0;
  // Pushes of the worker before this letter. Of an answer: those before its pull. Of orders: their number.
  std::int64_t clock = 0;
  // Of an answer: updates at the owner; of a push: the updates of its last answer. Else 0.
  std::int64_t version = 0, least = 0;  // of an answer: the least clock of the workers, as the owner knew it; else 0
};
static_assert(sizeof(LetterHeader) == 32);

// The first bytes of a section.
struct SectionHeader {
  // The variable's number, in their order of making.
  std::uint32_t variable = 0, unused = 0;  // always 0
  // Rows of a table behind it, or elements of a dense variable; of a pull, rows asked for.
  std::uint64_t count = 0;
};
static_assert(sizeof(SectionHeader) == 16);

namespace detail {

// Returns the least multiple of eight not below `bytes`.
constexpr std::size_t letter_padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

// Bytes of letters by payload, for a session's Traffic.
using LetterBytes = std::array<std::uint64_t, payloads>;
// Adds a letter's bytes to one direction of the traffic: to `all`, and also to `between_hosts` if it is not `within_host`.
inline void count_letter(LetterBytes const& bytes, bool within_host, std::array<Traffic::Bytes, payloads>& into) {
  for (std::size_t p = 0; p < payloads; ++p) into[p].all += bytes[p], into[p].between_hosts += within_host ? 0 : bytes[p];
}

}  // namespace detail

// A letter in the making. Refers to the runs added to it; its memory is used again for the next one.
class LetterDraft {
 public:
  // Begins a letter, and forgets the one before.
  void begin(LetterHeader const& header) {
    header_ = header;
    sections_.clear();
    sections_.reserve(header.sections);
    runs_.clear();
    used_ = 0;
    bytes_ = {};
    add({reinterpret_cast<std::byte const*>(&header_), sizeof header_}, Payload::control);
  }
  // Adds a section of `count` rows or elements, as often as the header says; its runs follow.
  void section(std::uint32_t variable, std::uint64_t count) {
    sections_.push_back({variable, 0, count});
    add({reinterpret_cast<std::byte const*>(&sections_.back()), sizeof(SectionHeader)}, Payload::control);
  }
  // Adds a run of elements, a view: they stay until the letter is posted.
  template <class T>
  void run(std::span<T const> elements, Payload payload) {
    static constexpr std::byte zeros[8] = {};
    auto const bytes = std::as_bytes(elements);
    add(bytes, payload);
    if (std::size_t const rest = detail::letter_padded(bytes.size()) - bytes.size()) add({zeros, rest}, Payload::control);
  }
  // Adds a run in memory of the draft's own. Returns it, for the caller to fill before the letter is posted.
  template <class T>
  std::span<T> own_run(std::size_t count, Payload payload) {
    if (used_ == rooms_.size()) rooms_.emplace_back();
    auto& room = rooms_[used_++];
    room.resize_with_slack(count * sizeof(T));
    std::span<T> const elements{reinterpret_cast<T*>(room.data()), count};
    run(std::span<T const>{elements}, payload);
    return elements;
  }

  // Local. Posts a copy of the letter. Returns false if the receiver has no room yet. A letter to another rank is counted.
  template <Communicator C>
  bool post(Topology<C> const& topology, LetterLane lane, int to, Traffic& traffic) const {
    if (!topology.world().post(lane, to, LetterParts{runs_.data(), runs_.size()})) return false;
    if (to == topology.rank()) return true;
    traffic.messages += 1;
    detail::count_letter(bytes_, topology.same_host(to), traffic.sent);
    return true;
  }

 private:
  void add(std::span<std::byte const> run, Payload payload) {
    if (run.empty()) return;
    runs_.push_back(run);
    bytes_[static_cast<std::size_t>(payload)] += run.size();
  }

  LetterHeader header_;
  std::vector<SectionHeader> sections_;  // does not grow: runs refer to it
  std::vector<std::span<std::byte const>> runs_;
  std::vector<Buffer<std::byte>> rooms_;  // of own runs
  std::size_t used_ = 0;                  // of these, by this letter
  detail::LetterBytes bytes_{};
};

// A walk through a letter. Refers to its bytes. Error (mismatch), with the writer's name, for a letter that is not whole.
class LetterReader {
 public:
  // Reads the header. The letter must stay as long as the walk and all that it returns.
  explicit LetterReader(Letter const& letter) : from_{letter.from}, left_{letter.bytes} {
    auto const bytes = take(sizeof header_, Payload::control);
    std::memcpy(&header_, bytes.data(), sizeof header_);
  }

  // Returns the header as written.
  LetterHeader const& header() const { return header_; }
  // Returns the writer's rank.
  int from() const { return from_; }
  // Returns the next section, as often as the header says.
  SectionHeader section() {
    SectionHeader section;
    std::memcpy(&section, take(sizeof section, Payload::control).data(), sizeof section);
    return section;
  }
  // Returns a view of the next bytes of a section, counted as `payload`. Throws as `broken` if there are fewer.
  std::span<std::byte const> take(std::size_t bytes, Payload payload) {
    std::size_t const padded = detail::letter_padded(bytes);
    if (bytes > left_.size() || padded > left_.size()) broken("it ends too early");
    auto const taken = left_.first(bytes);
    left_ = left_.subspan(padded);
    bytes_[static_cast<std::size_t>(payload)] += bytes;
    bytes_[static_cast<std::size_t>(Payload::control)] += padded - bytes;
    return taken;
  }
  // Returns a view of the next bytes as `count` elements; the letter's memory is aligned for them. Throws as `take`.
  template <class T>
  std::span<T const> run(std::uint64_t count, Payload payload) {
    if (count > left_.size() / sizeof(T)) broken("it ends too early");
    auto const bytes = take(static_cast<std::size_t>(count) * sizeof(T), payload);
    return {reinterpret_cast<T const*>(bytes.data()), static_cast<std::size_t>(count)};
  }
  // Ends the reading, after the last section; counts the bytes, if another rank wrote them. Throws as `broken` if any are left.
  void end(RankLayout const& ranks, Traffic& traffic) const {
    if (!left_.empty()) broken("it has more bytes than sections");
    if (from_ != ranks.rank()) detail::count_letter(bytes_, ranks.same_host(from_), traffic.received);
  }
  // Throws Error (mismatch), with the writer's rank: the letter cannot be read, `why`.
  [[noreturn]] void broken(std::string_view why) const {
    throw Error{Errc::mismatch, from_, "train", "", joined({"a letter of rank ", from_, " cannot be read: ", why})};
  }

 private:
  int from_;
  std::span<std::byte const> left_;
  LetterHeader header_;
  detail::LetterBytes bytes_{};
};

}  // namespace parallax
