// Bodies of parallax/detail/transport/socket/greeting.hpp.
#pragma once

#include "parallax/detail/transport/socket/greeting.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void fill_by_chance(void* bytes, std::size_t size) {
  if (::getentropy(bytes, size) != 0) throw system_error("getentropy");
}

PARALLAX_INLINE void set_text(std::array<char, 64>& to, std::string_view text) {
  to.fill('\0');
  text = text.substr(0, to.size() - 1);
  std::memcpy(to.data(), text.data(), text.size());
}

PARALLAX_INLINE void set_host(RankFacts& facts) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  set_text(facts.name, name.data());
  OwnedDescriptor const file{open_descriptor("/proc/sys/kernel/random/boot_id", O_RDONLY)};
  if (!file && is_lack()) throw system_error("open", facts.rank);  // else it would be taken for a host of its own
  std::array<char, 64> boot{};
  if (file && read_all(file.get(), boot.data(), boot.size() - 1) > 0) boot[std::strcspn(boot.data(), "\n")] = '\0';
  set_text(facts.boot, boot.data());
}

PARALLAX_INLINE Greeting::State Greeting::understand() {
  if (!std::exchange(greeted_, true)) {
    Hello const expected;
    if (their_hello_.protocol != expected.protocol) return fail("speaks another language");
    if (their_hello_.order != expected.order) return fail("has another order of bytes");
    if (their_hello_.version != expected.version) {
      another_version_ = true;
      if (!calls_) {  // so the caller can tell, too
        [[maybe_unused]] auto const said = ::send(socket_.get(), &my_hello_, sizeof my_hello_, MSG_NOSIGNAL);
      }
      return fail(joined({"speaks version ", their_hello_.version, " of the protocol, and this rank version ", expected.version,
                          ": build the programs of all ranks with one version of parallax"}));
    }
    hear(&their_proof_, sizeof their_proof_);
    if (calls_) say_proof();
    else say(&my_hello_, sizeof my_hello_);
    return State::pending;
  }
  if (!same_code(their_proof_.code, code_of(their_proof_.facts, !calls_))) return fail("does not know the key of this job");
  proven_ = true;
  their_proof_.facts.boot.back() = their_proof_.facts.name.back() = '\0';
  if (!calls_) say_proof();
  return State::pending;
}

PARALLAX_INLINE Greeting::State Greeting::move_on() {
  for (;;) {
    bool const speaks = said_ < to_say_.size();
    if (!speaks && proven_) return State::done;
    auto const count = speaks ? ::send(socket_.get(), to_say_.data() + said_, to_say_.size() - said_, MSG_NOSIGNAL)
                              : ::recv(socket_.get(), to_hear_.data() + heard_, to_hear_.size() - heard_, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN))
      return std::chrono::steady_clock::now() < until_ ? State::pending : fail("says nothing");
    if (count < 0) return fail(std::strerror(errno));
    if (count == 0)
      return fail(greeted_ ? "hangs up: perhaps it has another key (PARALLAX_JOB_KEY)"
                  : calls_ ? "hangs up: perhaps it has an older version of parallax"
                           : "hangs up");
    (speaks ? said_ : heard_) += static_cast<std::size_t>(count);
    if (!speaks && heard_ == to_hear_.size() && understand() == State::failed) return State::failed;
  }
}

}  // namespace parallax::detail
