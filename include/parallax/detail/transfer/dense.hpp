// Reduce-scatter and allgather of a dense vector over the hops of a topology, as operations that progress when polled. The ways
// of dense gradients call them, and the collectives on spans.
#pragma once

#include <cstring>

#include "parallax/comm/wire.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/transfer/lane.hpp"
#include "parallax/detail/transfer/lent_hop.hpp"

namespace parallax::inline v0_2 {

// The sum over ranks of a vector laid out owner after owner: every owner ends with the sum of its own part. Order of sums:
// ranks of a host ascending, then hosts; the first addend is copied. Source of the two phases: Rabenseifner, ICCS 2004. At most
// two hops. In memory of another space than the host's, its operations are found by the space's queue: copy_bytes, and
// add_elements(queue, out, in, n). Works in rounds of at most `round_size` elements per part, so that the scratch is (ranks of
// a hop - 1) x round_size elements; of fewer if a hop stays within shared memory, so that a round's addends are still in the
// cache when they are added. If the wire encodes, a rank's own addend is encoded and decoded as well, also on a rank that is
// alone; (targets of a hop) x round_size outgoing elements are in scratch.
template <class T, Communicator C, MemorySpace Space = HostSpace, Wire<T> W = IdentityWire>
class ReduceScatter {
  using Element = typename detail::Travelling<T, Space, W>::type;
  static constexpr bool on_host = std::same_as<Space, HostSpace>;

 public:
  // Collective in the order of the lane. Starts a sum. `offsets` has owners + 1 entries; `input` (offsets.back() elements),
  // `result` (the part of this rank's owner) and the offsets must stay until `poll` is true. With one rank nothing is done,
  // unless the wire encodes. `result` may be this part of `input`, else they do not overlap. If the topology spreads sums and
  // the wire does not encode, `whole` (null, or as many elements as the input, which it may be) ends with all of them; else it
  // is not touched.
  void start(T const* input, Slice<std::size_t const> offsets, std::size_t round_size, T* result, T* whole = nullptr) {
    input_ = input;
    result_ = result;
    whole_ = whole;
    origin_ = 0;
    offsets_ = offsets;
    largest_round_ = std::max<std::size_t>(round_size, 1);
    hop_ = 0;
    begun_ = false;
  }

  // Makes progress on `lane`; returns true once `result` holds the sum. Throws the communicator's errors, and LentHop's.
  bool poll(Lane<C>& lane);

 private:
  static constexpr std::size_t tile = detail::sum_tile;

  // Returns true if owners sum the addends in place, so that no elements are sent.
  static bool lends(Hop const& hop) { return on_host && !encodes<W> && hop.lends; }
  // Opens a hop, once, before its first poll: the place of its sums, and its rounds.
  void open_hop(Lane<C>& lane, Hop const& hop);
  // Polls round by round as messages: posts one, adds its addends, posts the next. Returns true once all rounds are done.
  bool poll_rounds(Lane<C>& lane, Hop const& hop);

  void post_round(Lane<C>& lane, Hop const& hop);
  // Sends the addends from their places: nothing is packed.
  void send(Lane<C>& lane, Hop const& hop);
  // Sends the addends encoded for all targets, this rank too, and packed one after the other.
  void send_encoded(Lane<C>& lane, Hop const& hop);
  // Adds as `add_round`, tile by tile, if the wire encodes.
  void add_decoded_round(Hop const& hop);

  // Adds the round's arrivals to this rank's part, in the order of sums: on the host, tile by tile.
  void add_round(Hop const& hop);

  // Adds the round's arrivals in the order of a device's queue, addend by addend, and does not wait for the device.
  template <class Queue>
  void add_round(Hop const& hop, Queue const& queue) {
    if (hop.self < 0) return;
    auto const round = round_of(own_size(hop));
    T* const out = output_ + round.begin;
    T const* const own = addends_of(hop, static_cast<std::size_t>(hop.self)) + round.begin;
    std::size_t slot = 0;
    for (std::size_t s = 0; s < hop.sources.size(); ++s) {
      T const* const addend = hop.sources[s] == rank_ ? own : received_.data() + slot++ * round.count;
      if (s == 0) copy_bytes(queue, out, addend, round.count * sizeof(T));
      else add_elements(queue, out, addend, round.count);
    }
  }

  // Closes a hop: the part just summed becomes the input of the next one.
  void close_hop(Hop const& hop) {
    if (hop.self >= 0) {
      origin_ = detail::digit_begin(offsets_, hop, static_cast<std::size_t>(hop.self));
      input_ = output_;
    }
    ++hop_;
    begun_ = false;
  }

  // Returns the elements of a round: fewer than asked for if ranks share memory, so that they stay in the cache.
  std::size_t round_size_of(Hop const& hop) const {
    constexpr std::size_t in_cache = std::size_t{256} << 10;  // bytes
    std::size_t const fits = in_cache / sizeof(T) / static_cast<std::size_t>(hop.fan_out);
    return hop.in_memory ? std::clamp(fits, std::size_t{1}, largest_round_) : largest_round_;
  }
  bool last_hop(Lane<C> const& lane) const { return hop_ + 1 == lane.topology().hops().size(); }
  std::size_t own_size(Hop const& hop) const { return detail::digit_size(offsets_, hop, static_cast<std::size_t>(hop.self)); }
  // Returns the elements of the round at hand, of a part of so many.
  detail::PartRound round_of(std::size_t size) const { return detail::round_of_part(size, round_, round_size_); }
  // Returns this rank's addends for the owners of digit t.
  T const* addends_of(Hop const& hop, std::size_t t) const {
    return input_ + (detail::digit_begin(offsets_, hop, t) - origin_);
  }

  // The addends of the hop at hand: the user's, then the sums of the hop before.
  T const* input_ = nullptr;
  std::size_t origin_ = 0;  // the offset of input_[0]
  Slice<std::size_t const> offsets_;
  std::size_t largest_round_ = 1, round_size_ = 1, hop_ = 0, round_ = 0;
  int rank_ = 0;
  bool begun_ = false;
  T *result_ = nullptr, *output_ = nullptr, *whole_ = nullptr;
  // The round of all other ranks, one behind the other; below, the sums between two hops.
  Buffer<Element, Space> received_;
  Buffer<T, Space> partial_;
  LentHop<T, C> lent_;
  // Of a wire that encodes: one round of the addends for all targets.
  struct Encoded {
    Buffer<Element, Space> addends;
    std::size_t own = 0;  // the begin of this rank's among them
  };
  [[no_unique_address]] detail::IfEncodes<W, Encoded> encoded_;
};

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
bool ReduceScatter<T, C, Space, W>::poll(Lane<C>& lane) {
  auto const& hops = lane.topology().hops();
  for (; hop_ < hops.size() && (encodes<W> || lane.topology().size() > 1); close_hop(hops[hop_])) {
    if (!begun_) open_hop(lane, hops[hop_]);
    if (lends(hops[hop_]) ? !lent_.poll(lane, hops[hop_]) : !poll_rounds(lane, hops[hop_])) return false;
  }
  return true;
}

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
void ReduceScatter<T, C, Space, W>::open_hop(Lane<C>& lane, Hop const& hop) {
  begun_ = true;
  round_ = 0;
  round_size_ = round_size_of(hop);
  if (hop.self >= 0) {
    if (!last_hop(lane)) partial_.resize_with_slack(own_size(hop));
    output_ = last_hop(lane) ? result_ : partial_.data();
  }
  if (lends(hop))
    lent_.start(offsets_, largest_round_,
                {addends_of(hop, 0), hop.self >= 0 ? output_ : nullptr, lane.topology().spreads() ? whole_ : nullptr});
}

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
bool ReduceScatter<T, C, Space, W>::poll_rounds(Lane<C>& lane, Hop const& hop) {
  while (true) {
    if (lane.in_flight()) {
      if (!lane.test()) return false;
      if constexpr (encodes<W>) add_decoded_round(hop);
      else if constexpr (on_host) add_round(hop);
      else add_round(hop, queue_of<Space>(lane.topology().world()));
      ++round_;
    }
    if (round_ * round_size_ >= detail::largest_digit(offsets_, hop)) return true;
    post_round(lane, hop);
  }
}

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
void ReduceScatter<T, C, Space, W>::post_round(Lane<C>& lane, Hop const& hop) {
  lane.clear();
  if constexpr (encodes<W>) send_encoded(lane, hop);
  else send(lane, hop);
  if (hop.self >= 0) {
    std::size_t const count = round_of(own_size(hop)).count;
    received_.resize_with_slack(count * (hop.sources.size() - 1));
    std::size_t slot = 0;
    for (int const source : hop.sources)
      if (source != lane.topology().rank())
        lane.expect(source, slot++ * count * sizeof(Element), count * sizeof(Element), Payload::dense);
    rank_ = lane.topology().rank();
  }
  if constexpr (encodes<W>) lane.template post<Space>(encoded_.addends.data(), received_.data());
  else lane.template post<Space>(input_, received_.data());
}

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
void ReduceScatter<T, C, Space, W>::send(Lane<C>& lane, Hop const& hop) {
  for (std::size_t t = 0; t < hop.targets.size(); ++t) {
    if (static_cast<int>(t) == hop.self) continue;
    auto const [begin, count] = round_of(detail::digit_size(offsets_, hop, t));
    std::size_t const first = detail::digit_begin(offsets_, hop, t) - origin_ + begin;
    lane.send(hop.targets[t], first * sizeof(T), count * sizeof(T), Payload::dense);
  }
}

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
void ReduceScatter<T, C, Space, W>::send_encoded(Lane<C>& lane, Hop const& hop) {
  if constexpr (encodes<W>) {
    std::size_t size = 0, at = 0;
    for (std::size_t t = 0; t < hop.targets.size(); ++t) size += round_of(detail::digit_size(offsets_, hop, t)).count;
    encoded_.addends.resize_with_slack(size);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      auto const [begin, count] = round_of(detail::digit_size(offsets_, hop, t));
      W::encode(addends_of(hop, t) + begin, count, encoded_.addends.data() + at);
      if (static_cast<int>(t) == hop.self) encoded_.own = at;
      else lane.send(hop.targets[t], at * sizeof(Element), count * sizeof(Element), Payload::dense);
      at += count;
    }
  }
}

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
void ReduceScatter<T, C, Space, W>::add_decoded_round(Hop const& hop) {
  if constexpr (encodes<W>) {
    if (hop.self < 0) return;
    auto const round = round_of(own_size(hop));
    T* const out = output_ + round.begin;
    T decoded[tile];
    for (std::size_t first = 0; first < round.count; first += tile) {
      std::size_t const n = std::min(tile, round.count - first);
      std::size_t slot = 0;
      for (std::size_t s = 0; s < hop.sources.size(); ++s) {
        bool const own = hop.sources[s] == rank_;
        Element const* const addend = own ? encoded_.addends.data() + encoded_.own : received_.data() + slot++ * round.count;
        W::decode(addend + first, n, s == 0 ? out + first : decoded);
        if (s > 0) detail::add_to(out + first, decoded, n);
      }
    }
  }
}

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
void ReduceScatter<T, C, Space, W>::add_round(Hop const& hop) {
  if (hop.self < 0) return;
  auto const round = round_of(own_size(hop));
  T* const out = output_ + round.begin;
  T const* const own = addends_of(hop, static_cast<std::size_t>(hop.self)) + round.begin;
  T kept[tile];  // of this rank's addend, if it is overwritten before its turn
  for (std::size_t first = 0; first < round.count; first += tile) {
    std::size_t const n = std::min(tile, round.count - first);
    bool const keeps = out == own && hop.sources.size() > 2;
    if (keeps) std::memcpy(kept, own + first, n * sizeof(T));
    std::size_t slot = 0;
    auto const addend = [&](std::size_t s) -> T const* {
      if (hop.sources[s] != rank_) return received_.data() + slot++ * round.count + first;
      return keeps ? kept : own + first;
    };
    if (hop.sources.size() == 1) {
      std::memmove(out + first, addend(0), n * sizeof(T));
      continue;
    }
    T const *const a = addend(0), *const b = addend(1);
    for (std::size_t i = 0; i < n; ++i) out[first + i] = a[i] + b[i];
    for (std::size_t s = 2; s < hop.sources.size(); ++s) detail::add_to(out + first, addend(s), n);
  }
}

// The converse of ReduceScatter: brings every owner's part of a vector laid out owner after owner to every rank, in place. If
// the wire encodes, each part is encoded once, by its owner, into scratch, and decoded by all ranks, the owner too: all end
// with the same bits.
template <class T, Communicator C, MemorySpace Space = HostSpace, Wire<T> W = IdentityWire>
class Allgather {
  using Element = typename detail::Travelling<T, Space, W>::type;
  static constexpr bool on_host = std::same_as<Space, HostSpace>;

 public:
  // Collective in the order of the lane. Starts: this rank gives its part in `values`; all others are overwritten, and its own
  // too if the wire encodes. `values` and `offsets`, as in ReduceScatter, must stay until `poll` is true.
  void start(T* values, Slice<std::size_t const> offsets) {
    values_ = values;
    offsets_ = offsets;
    hop_ = 0;
    begun_ = false;
  }

  // Makes progress on `lane`; returns true once `values` is whole here, and may be changed. Throws the communicator's errors.
  bool poll(Lane<C>& lane);

 private:
  static bool lends(Hop const& hop) { return on_host && !encodes<W> && hop.lends; }
  // Opens a hop, once, in the opposite order of a reduction: posts its parts.
  void open_hop(Lane<C>& lane, Hop const& hop);

  static constexpr std::size_t whole_round = std::size_t{1} << 20;  // elements

  T* values_ = nullptr;
  Slice<std::size_t const> offsets_;
  std::size_t hop_ = 0;  // hops behind us
  bool begun_ = false;
  LentHop<T, C> lent_;
  [[no_unique_address]] detail::IfEncodes<W, Buffer<Element, Space>> encoded_;
};

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
bool Allgather<T, C, Space, W>::poll(Lane<C>& lane) {
  auto const& hops = lane.topology().hops();
  for (; hop_ < hops.size() && (encodes<W> || lane.topology().size() > 1); ++hop_, begun_ = false) {
    Hop const& hop = hops[hops.size() - 1 - hop_];
    if (!begun_) open_hop(lane, hop);
    if (lends(hop) ? !lent_.poll(lane, hop) : !lane.test()) return false;
  }
  if constexpr (encodes<W>) W::decode(encoded_.data(), offsets_.back(), values_);
  return true;
}

template <class T, Communicator C, MemorySpace Space, Wire<T> W>
void Allgather<T, C, Space, W>::open_hop(Lane<C>& lane, Hop const& hop) {
  begun_ = true;
  auto const own = static_cast<std::size_t>(hop.self);
  if (lends(hop)) {  // the converse of a lent reduction: there are no addends, and owners write their parts to all
    T* const part = hop.self < 0 ? nullptr : values_ + detail::digit_begin(offsets_, hop, own);
    return lent_.start(offsets_, whole_round, {nullptr, part, values_ + detail::digit_begin(offsets_, hop, 0)});
  }
  if constexpr (encodes<W>)
    if (hop_ == 0) {
      encoded_.resize_with_slack(offsets_.back());
      if (int const owner = lane.topology().owner(); owner >= 0) {  // else this rank owns nothing
        std::size_t const begin = offsets_[static_cast<std::size_t>(owner)],
                          end = offsets_[static_cast<std::size_t>(owner) + 1];
        W::encode(values_ + begin, end - begin, encoded_.data() + begin);
      }
    }
  lane.clear();
  for (int const source : hop.sources)
    if (source != lane.topology().rank())
      lane.send(source, detail::digit_begin(offsets_, hop, own) * sizeof(Element),
                detail::digit_size(offsets_, hop, own) * sizeof(Element), Payload::dense);
  for (std::size_t t = 0; t < hop.targets.size(); ++t)
    if (t != own)
      lane.expect(hop.targets[t], detail::digit_begin(offsets_, hop, t) * sizeof(Element),
                  detail::digit_size(offsets_, hop, t) * sizeof(Element), Payload::dense);
  if constexpr (encodes<W>) lane.template post<Space>(encoded_.data(), encoded_.data());
  else lane.template post<Space>(values_, values_);
}

}  // namespace parallax
