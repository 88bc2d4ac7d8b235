// What a mail puts into its messages, byte by byte, against packing by hand; and what its readers find.
#include "parallax/detail/transfer/mail.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"

namespace px = parallax;

namespace {

using Bytes = std::vector<std::byte>;

// Keeps the bytes of what this rank posts, by the rank they go to.
template <px::Communicator C>
class Eavesdropper {
 public:
  explicit Eavesdropper(C& inside) : inside_{&inside} {}

  std::vector<Bytes> posted;

  int rank() const { return inside_->rank(); }
  int size() const { return inside_->size(); }
  auto deadline() const { return inside_->deadline(); }
  auto ialltoallv(int channel, px::Transfer const& transfer) {
    posted.clear();
    for (px::ByteRange const& block : transfer.to)
      posted.emplace_back(transfer.send + block.offset, transfer.send + block.offset + block.bytes);
    return inside_->ialltoallv(channel, transfer);
  }
  void abort(px::Error const& reason) { inside_->abort(reason); }

 private:
  C* inside_;
};

struct Slip {
  std::size_t unit;
  bool shared;
  std::vector<std::size_t> elements;  // by sender · ranks + receiver
};
using Slips = std::vector<Slip>;

// The bytes of a run: of a shared slip the same for all receivers.
Bytes run_of(Slips const& slips, std::size_t slip, std::size_t ranks, std::size_t from, std::size_t to) {
  Slip const& s = slips[slip];
  std::mt19937_64 random{slip * 1000 + from * 10 + (s.shared ? 9 : to)};
  Bytes bytes(s.elements[from * ranks + to] * s.unit);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// By the definition: larger units first, slips of one unit in the order of their opening, nothing between them.
Bytes packed_by_hand(Slips const& slips, std::size_t ranks, std::size_t from, std::size_t to) {
  std::map<std::size_t, Bytes, std::greater<>> by_unit;
  for (std::size_t slip = 0; slip < slips.size(); ++slip) {
    Bytes const run = run_of(slips, slip, ranks, from, to);
    Bytes& bytes = by_unit[slips[slip].unit];
    bytes.insert(bytes.end(), run.begin(), run.end());
  }
  Bytes message;
  for (auto const& [unit, bytes] : by_unit) message.insert(message.end(), bytes.begin(), bytes.end());
  return message;
}

Slips random_slips(std::mt19937_64& random, std::size_t ranks) {
  Slips slips(random() % 6);
  bool const all_shared = random() % 4 == 0;
  for (Slip& slip : slips) {
    slip.unit = std::size_t{1} << random() % 5;
    slip.shared = all_shared || random() % 3 == 0;
    for (std::size_t from = 0; from < ranks; ++from) {
      std::size_t const given = random() % 4 * (random() % 20);
      for (std::size_t to = 0; to < ranks; ++to)
        slip.elements.push_back(slip.shared ? given : random() % 3 == 0 ? 0 : random() % 30);
    }
  }
  return slips;
}

struct Seen {
  std::vector<Bytes> posted;
  int wrong_runs = 0, misaligned = 0, wrong_takes = 0;
  std::uint64_t sent = 0;
};

template <class C>
Seen exchange(C& world, px::Mail<C>& mail, px::Traffic const& traffic, Slips const& slips) {
  auto const ranks = static_cast<std::size_t>(world.size()), self = static_cast<std::size_t>(world.rank());
  Seen seen;
  std::uint64_t const before = traffic.payload_sent();
  mail.clear();
  for (std::size_t s = 0; s < slips.size(); ++s) {
    auto const [unit, shared, elements] = slips[s];
    int const slip = shared ? mail.open_shared(unit, px::Payload::rows) : mail.open(unit, px::Payload::rows);
    for (std::size_t r = 0; r < ranks; ++r) {
      mail.send(slip, static_cast<int>(r), elements[self * ranks + r] * unit);
      mail.expect(slip, static_cast<int>(r), elements[r * ranks + self] * unit);
    }
  }
  mail.layout();
  auto const misaligned = [&](void const* memory, std::size_t unit) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(memory) % unit != 0);
  };
  for (std::size_t s = 0; s < slips.size(); ++s) {
    int const slip = static_cast<int>(s);
    if (slips[s].shared) {
      Bytes const run = run_of(slips, s, ranks, self, 0);
      mail.template write_shared<std::byte>(slip, [&](std::byte* out) { std::copy(run.begin(), run.end(), out); });
      continue;
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      Bytes const run = run_of(slips, s, ranks, self, r);
      std::byte* const out = mail.template outgoing<std::byte>(slip, static_cast<int>(r));
      seen.misaligned += misaligned(out, slips[s].unit);
      std::copy(run.begin(), run.end(), out);
    }
  }
  mail.post();
  px::Patience<C> patience{world};
  while (!mail.test())
    if (!patience.pause()) throw px::timeout_error(world, -1, "a mail");
  seen.posted = world.posted;
  seen.sent = traffic.payload_sent() - before;
  std::vector<int> everyone;
  for (int r = 0; r < world.size(); ++r) everyone.push_back(r);
  for (std::size_t s = 0; s < slips.size(); ++s)
    for (std::size_t r = 0; r < ranks; ++r) {
      Bytes const run = run_of(slips, s, ranks, r, self);
      std::byte const* const in = mail.template incoming<std::byte>(static_cast<int>(s), static_cast<int>(r));
      seen.misaligned += misaligned(in, slips[s].unit);
      seen.wrong_runs += mail.incoming_bytes(static_cast<int>(s), static_cast<int>(r)) != run.size();
      seen.wrong_runs += !std::equal(run.begin(), run.end(), in);
    }
  for (std::size_t s = 0; s < slips.size(); ++s) {
    Bytes all;
    for (std::size_t r = 0; r < ranks; ++r) {
      Bytes const run = run_of(slips, s, ranks, r, self);
      all.insert(all.end(), run.begin(), run.end());
    }
    px::Buffer<std::byte> taken;
    mail.take(static_cast<int>(s), everyone, taken);
    seen.wrong_takes += !std::equal(all.begin(), all.end(), taken.data(), taken.data() + taken.size());
  }
  return seen;
}

}  // namespace

TEST_CASE("a message is its slips, larger units first, without a byte between them", "[comm][mail]") {
  auto const seed = static_cast<std::uint64_t>(std::random_device{}());
  std::mt19937_64 random{seed};
  for (std::size_t const ranks : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    std::vector<Slips> rounds(40);
    for (Slips& slips : rounds) slips = random_slips(random, ranks);
    std::vector<std::vector<Seen>> seen(ranks);
    px::run_threads(static_cast<int>(ranks), [&](px::ThreadCommunicator& threads) {
      Eavesdropper world{threads};
      px::Topology topology{world};
      px::Traffic traffic;
      px::Mail mail{topology, 2, traffic};
      for (Slips const& slips : rounds)
        seen[static_cast<std::size_t>(world.rank())].push_back(exchange(world, mail, traffic, slips));
    }, {.deadline = std::chrono::seconds{30}});
    for (std::size_t self = 0; self < ranks; ++self)
      for (std::size_t round = 0; round < rounds.size(); ++round) {
        CAPTURE(seed, ranks, self, round);
        Seen const& one = seen[self][round];
        std::uint64_t sent = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
          if (r == self) continue;  // what stays here is written where it is read
          Bytes const expected = packed_by_hand(rounds[round], ranks, self, r);
          CHECK((one.posted[r] == expected));
          sent += expected.size();
        }
        CHECK(one.sent == sent);
        CHECK(one.wrong_runs == 0);
        CHECK(one.misaligned == 0);
        CHECK(one.wrong_takes == 0);
      }
  }
}

TEST_CASE("a slip of a size that cannot be laid out is a misuse that names it", "[comm][mail]") {
  px::SelfCommunicator self;
  px::Topology topology{self};
  px::Traffic traffic;
  px::Mail mail{topology, 0, traffic};
  for (std::size_t const unit : std::vector<std::size_t>{0, 3, 5, 6, 7, 12, 24, 32, 64}) {
    CAPTURE(unit);
    try {
      mail.open(unit, px::Payload::rows);
      FAIL("was opened");
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::misuse);
      CHECK(error.detail().find(std::to_string(unit) + " bytes") != std::string::npos);
    }
    CHECK(mail.empty());
  }
  int const slip = mail.open(8, px::Payload::rows);
  mail.send(slip, 0, 12);
  mail.expect(slip, 0, 12);
  CHECK_THROWS_AS(mail.layout(), px::Error);
}
