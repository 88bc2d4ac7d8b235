// A communicator that passes everything on and writes down what was posted: for tests of byte counts and of overlap.
#pragma once

#include <chrono>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"

namespace parallax_test {

// One operation as this rank posted it. For an alltoallv, bytes per peer, the rank itself included; a vendor's
// all-reduce has no peers, only `reduced` bytes.
struct Recorded {
  int channel = 0;
  std::string section;  // of the section in which it was posted; empty outside of all
  std::vector<std::size_t> sent, expected;
  std::size_t reduced = 0;
};

// Refers to a communicator, which must outlive it and stay where it is. Used by one rank; abilities show through.
template <parallax::Communicator C>
class RecordingCommunicator {
 public:
  using Request = parallax::request_of<C>;

  // What is posted while a section lives is recorded under its name. Sections nest.
  class Section {
   public:
    Section(RecordingCommunicator& comm, std::string name) : comm_{comm}, before_{std::exchange(comm.section_, name)} {}
    Section(Section const&) = delete;
    Section& operator=(Section const&) = delete;
    ~Section() { comm_.section_ = before_; }

   private:
    RecordingCommunicator& comm_;
    std::string before_;
  };

  explicit RecordingCommunicator(C& inner) : inner_{&inner} {}

  [[nodiscard]] Section section(std::string name) { return Section{*this, std::move(name)}; }
  std::vector<Recorded> const& records() const { return records_; }
  void clear() { records_.clear(); }

  // Bytes that went to, or were expected from, other ranks, in all operations or in those of one section.
  std::size_t bytes_sent() const {
    return total(&Recorded::sent, [](Recorded const&) { return true; });
  }
  std::size_t bytes_sent(std::string const& section) const { return total(&Recorded::sent, posted_in(section)); }
  std::size_t bytes_expected() const {
    return total(&Recorded::expected, [](Recorded const&) { return true; });
  }
  std::size_t bytes_expected(std::string const& section) const {
    return total(&Recorded::expected, posted_in(section));
  }

  int rank() const { return inner_->rank(); }
  int size() const { return inner_->size(); }
  auto deadline() const { return inner_->deadline(); }
  void abort(parallax::Error const& reason) { inner_->abort(reason); }

  Request ialltoallv(int channel, parallax::Transfer const& transfer) {
    Recorded record{channel, section_, {}, {}};
    for (parallax::ByteRange const& block : transfer.to) record.sent.push_back(block.bytes);
    for (parallax::ByteRange const& block : transfer.from) record.expected.push_back(block.bytes);
    records_.push_back(std::move(record));
    return inner_->ialltoallv(channel, transfer);
  }

  auto now() const requires parallax::OwnClock<C> { return inner_->now(); }
  bool oversubscribed() const requires parallax::KnowsOversubscription<C> { return inner_->oversubscribed(); }
  parallax::SumOrder sum_order() const requires parallax::VendorAllreduce<C> { return inner_->sum_order(); }
  template <class T>
  Request iallreduce(int channel, T const* send, T* receive, std::size_t count) requires parallax::VendorAllreduce<C> {
    records_.push_back({channel, section_, {}, {}, count * sizeof(T)});
    return inner_->iallreduce(channel, send, receive, count);
  }

 private:
  static auto posted_in(std::string const& section) {
    return [&section](Recorded const& record) { return record.section == section; };
  }
  template <class Selected>
  std::size_t total(std::vector<std::size_t> Recorded::*bytes, Selected const& selected) const {
    std::size_t sum = 0;
    for (Recorded const& record : records_) {
      if (!selected(record)) continue;
      for (std::size_t peer = 0; peer < (record.*bytes).size(); ++peer)
        if (static_cast<int>(peer) != rank()) sum += (record.*bytes)[peer];
    }
    return sum;
  }

  C* inner_;
  std::string section_;
  std::vector<Recorded> records_;
};

}  // namespace parallax_test
