// One slip of a mail for elements that a wire encodes: opened, filled and taken by a leg for its rows.
#pragma once

#include "parallax/comm/wire.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/transfer/mail.hpp"

namespace parallax::inline v0_2 {

// A slip. All numbers are of elements T. A leg calls `open` (or `open_shared`), `send` and `expect` before the mail is laid
// out, `write` (or `write_shared`) before it is posted, and `take` after it has arrived. Owns the scratch in which a wire that
// encodes finds and leaves elements; under IdentityWire there is none, and all calls are the mail's own.
template <Communicator C, class W, class T, MemorySpace Space = HostSpace>
  requires Wire<W, T>
class WireSlip {
 public:
  // The travelling type of one T.
  using Element = typename detail::Travelling<T, Space, W>::type;

  // Opens a slip with a run of its own for every rank. Local, once for each leg.
  void open(Mail<C, Space>& mail, Payload payload) { slip_ = mail.open(sizeof(Element), payload); }
  // Opens a slip with one run for all ranks that get anything. Local, in place of `open`.
  void open_shared(Mail<C, Space>& mail, Payload payload) { slip_ = mail.open_shared(sizeof(Element), payload); }
  // Declares `n` elements for `rank`.
  void send(Mail<C, Space>& mail, int rank, std::size_t n) const { mail.send(slip_, rank, n * sizeof(Element)); }
  // Declares `n` elements from `rank`.
  void expect(Mail<C, Space>& mail, int rank, std::size_t n) const { mail.expect(slip_, rank, n * sizeof(Element)); }

  // Writes a run: `fill(T*)` writes as many elements as were declared for the rank. It is not called for none.
  template <class Fill>
  void write(Mail<C, Space>& mail, int rank, Fill&& fill) {
    std::size_t const n = mail.outgoing_bytes(slip_, rank) / sizeof(Element);
    if (n > 0) fill_run(mail, mail.template outgoing<Element>(slip_, rank), n, fill);
  }
  // Writes the runs of several ranks, which lie one behind the other at their writer: `fill(first, last, T*)` writes the runs
  // of ranks number `first` to `last` - 1 of the list. They are neighbours in the mail, as far as may be, so that a device is
  // given few kernels; a wire encodes rank by rank, as ranks decode.
  template <class Ranks, class Fill>
  void write_runs(Mail<C, Space>& mail, Ranks const& ranks, Fill&& fill) {
    if constexpr (encodes<W>) {
      for (std::size_t at = 0; at < ranks.size(); ++at) write(mail, ranks[at], [&](T* out) { fill(at, at + 1, out); });
    } else {
      each_neighbours(mail, ranks, [&](std::size_t first, std::size_t last, Element* run, std::size_t n) {
        fill_run(mail, run, n, [&](T* out) { fill(first, last, out); });
      });
    }
  }
  // Writes the runs of several ranks, as `write_runs`, if elements have their travelling form: `fill(first, last, Element*)`.
  template <class Ranks, class Fill>
  void write_runs_encoded(Mail<C, Space>& mail, Ranks const& ranks, Fill&& fill) {
    each_neighbours(mail, ranks,
                    [&](std::size_t first, std::size_t last, Element* run, std::size_t) { fill(first, last, run); });
  }
  // Writes the run of a shared slip: `fill(T*)` fills it once for all ranks, and it is encoded once.
  template <class Fill>
  void write_shared(Mail<C, Space>& mail, Fill&& fill) {
    std::size_t n = 0;
    for (int rank = 0; rank < mail.topology().size(); ++rank)
      n = std::max(n, mail.outgoing_bytes(slip_, rank) / sizeof(Element));
    mail.template write_shared<Element>(slip_, [&](Element* run) { fill_run(mail, run, n, fill); });
  }

  // Returns the number of elements from the rank.
  std::size_t arrived(Mail<C, Space> const& mail, int rank) const { return mail.incoming_bytes(slip_, rank) / sizeof(Element); }
  // Takes the arrivals from `ranks`, decoded, run after run into `into`: resized to the bytes of as many elements T.
  template <class Ranks>
  void take(Mail<C, Space>& mail, Ranks const& ranks, Buffer<std::byte, Space>& into) {
    if constexpr (encodes<W>) {
      std::size_t n = 0;
      for (int const rank : ranks) n += arrived(mail, rank);
      into.resize_with_slack(n * sizeof(T));
      T* out = reinterpret_cast<T*>(into.data());
      for (int const rank : ranks) {
        Element const* const run = mail.template incoming<Element>(slip_, rank);
        if constexpr (Space::host_readable) W::decode(run, arrived(mail, rank), out);
        else W::decode(queue_of<Space>(mail.topology().world()), run, arrived(mail, rank), out);
        out += arrived(mail, rank);
      }
    } else {
      mail.take(slip_, ranks, into);
    }
  }

 private:
  // Calls f(first, last, run, n) for ranks whose runs lie one behind the other in the mail, n elements in all, and not for
  // none.
  template <class Ranks, class F>
  void each_neighbours(Mail<C, Space>& mail, Ranks const& ranks, F&& f) const {
    for (std::size_t first = 0, last = 0; first < ranks.size(); first = last) {
      Element* const run = mail.template outgoing<Element>(slip_, ranks[first]);
      std::size_t n = 0;
      for (; last < ranks.size() && mail.template outgoing<Element>(slip_, ranks[last]) == run + n; ++last)
        n += mail.outgoing_bytes(slip_, ranks[last]) / sizeof(Element);
      if (n > 0) f(first, last, run, n);
    }
  }
  // Writes a run to its place in the mail, by way of the scratch if the wire encodes.
  template <class Fill>
  void fill_run([[maybe_unused]] Mail<C, Space>& mail, Element* run, std::size_t n, Fill&& fill) {
    if constexpr (encodes<W>) {
      scratch_.resize_with_slack(n);
      fill(scratch_.data());
      if constexpr (Space::host_readable) W::encode(scratch_.data(), n, run);
      else W::encode(queue_of<Space>(mail.topology().world()), scratch_.data(), n, run);
    } else {
      fill(run);
    }
  }

  // In the mail at hand; each leg opens another.
  int slip_ = -1;
  [[no_unique_address]] detail::IfEncodes<W, Buffer<T, Space>> scratch_;
};

}  // namespace parallax
