// A process and the launcher that started it, by PMI-1's protocol: what is asked, and what becomes of answers that are none.
// The launcher is one of the test's own; tests/mpi has starts by a real one.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "expected.hpp"
#include "parallax/comm/socket.hpp"

namespace px = parallax;
namespace pmi = parallax::detail;
using namespace std::chrono_literals;

namespace {

pmi::Moment within(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

// What a launcher answers; MPICH's mpiexec, or flux run (0.88), whose jobs have names of letters beyond ASCII.
struct Dialect {
  std::string init, maxes, store, put, got, missing, barrier;
};
Dialect const hydra{"response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                    "maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
                    "my_kvsname kvsname=",
                    "put_result rc=0 msg=success",
                    "get_result rc=0 msg=success value=",
                    "get_result rc=-1 msg=key_not_found value=unknown",
                    "barrier_out"};
Dialect const flux{"response_to_init rc=0 pmi_version=1 pmi_subversion=1",
                   "maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024",
                   "my_kvsname rc=0 kvsname=\306\222",
                   "put_result rc=0",
                   "get_result rc=0 value=",
                   "get_result rc=4",
                   "barrier_out rc=0"};

// Serves ranks as mpiexec does. `lies`: what it answers to a request instead, or "hang up"; nothing for the truth.
class Launcher {
 public:
  using Lies = std::function<std::optional<std::string>(int rank, std::string const& command)>;

  explicit Launcher(int ranks, Lies lies = {}, bool byte_by_byte = false, Dialect words = hydra)
      : lies_{std::move(lies)}, byte_by_byte_{byte_by_byte}, words_{std::move(words)}, heard_(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw std::runtime_error{"there is no pair of sockets"};
      mine_.emplace_back(ends[0]);
      theirs_.emplace_back(ends[1]);
    }
    serves_ = std::jthread{[this](std::stop_token const& stop) { serve(stop); }};
  }

  pmi::PmiClient client(int rank) { return {std::move(theirs_[static_cast<std::size_t>(rank)]), rank}; }
  std::atomic<int> finalized{0}, named{0};  // requests

 private:
  void serve(std::stop_token const& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> polled;
      for (auto const& socket : mine_) polled.push_back({socket ? socket.get() : -1, POLLIN, 0});
      if (::poll(polled.data(), static_cast<nfds_t>(polled.size()), 5) <= 0) continue;
      for (std::size_t rank = 0; rank < mine_.size(); ++rank)
        if (polled[rank].revents != 0) hear(rank);
    }
  }
  void hear(std::size_t rank) {
    std::array<char, 4096> bytes;
    auto const count = ::recv(mine_[rank].get(), bytes.data(), bytes.size(), 0);
    if (count <= 0) return mine_[rank].close();
    heard_[rank].append(bytes.data(), static_cast<std::size_t>(count));
    for (std::size_t end; (end = heard_[rank].find('\n')) != std::string::npos;) {
      std::string const line = heard_[rank].substr(0, end);
      heard_[rank].erase(0, end + 1);
      answer(rank, line);
    }
  }
  void answer(std::size_t rank, std::string const& line) {
    std::string const command{pmi::pmi_value(line, "cmd").value_or("")};
    if (auto const lie = lies_ ? lies_(static_cast<int>(rank), command) : std::nullopt) {
      if (*lie == "hang up") return mine_[rank].close();
      say(rank, *lie);
      return;
    }
    if (command == "initack")
      say(rank, "cmd=initack\ncmd=set size=3\ncmd=set rank=" + std::to_string(rank) + "\ncmd=set debug=0\n");
    auto const reply = [&](std::string const& text) { say(rank, "cmd=" + text + "\n"); };
    if (command == "init") reply(words_.init);
    if (command == "get_maxes") reply(words_.maxes);
    if (command == "get_my_kvsname") reply(words_.store + "kvs_7");
    if (command == "finalize") ++finalized, reply("finalize_ack");
    if (command == "put") {
      std::string const store = words_.store.substr(words_.store.find("kvsname=")) + "kvs_7 ";
      named += line.find(store) != std::string::npos;
      fresh_[std::string{*pmi::pmi_value(line, "key")}] = *pmi::pmi_value(line, "value");
      reply(words_.put);
    }
    if (command == "get") {
      auto const found = store_.find(std::string{*pmi::pmi_value(line, "key")});
      reply(found == store_.end() ? words_.missing : words_.got + found->second);
    }
    if (command == "barrier_in" && ++arrived_ == mine_.size()) {
      arrived_ = 0;
      store_.merge(fresh_);
      for (std::size_t each = 0; each < mine_.size(); ++each) say(each, "cmd=" + words_.barrier + "\n");
    }
  }
  void say(std::size_t rank, std::string const& text) {
    std::size_t const piece = byte_by_byte_ ? 1 : text.size();
    for (std::size_t i = 0; i < text.size(); i += piece) {
      [[maybe_unused]] auto const sent = ::send(mine_[rank].get(), text.data() + i, piece, MSG_NOSIGNAL);
      if (byte_by_byte_) std::this_thread::sleep_for(100us);
    }
  }

  Lies lies_;
  bool byte_by_byte_;
  Dialect words_;
  std::vector<std::string> heard_;
  std::vector<pmi::OwnedDescriptor> mine_, theirs_;
  std::map<std::string, std::string> store_, fresh_;
  std::size_t arrived_ = 0;
  std::jthread serves_;
};

// All that a rank says to its launcher; what it found.
std::string converse(pmi::PmiClient client, bool leaves, pmi::Moment until) {
  client.begin(until);
  if (leaves) client.put("place", "px1/7/-/a/::1,node-7", until);
  client.barrier(until);
  std::string const found = client.get("place", until);
  client.finalize(until);
  return found;
}

std::optional<px::Error> error_of(std::function<void()> const& body) {
  try {
    body();
  } catch (px::Error const& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("what one rank leaves with the launcher, all find after the barrier", "[comm][socket][pmi]") {
  for (Dialect const& words : {hydra, flux})
    for (bool const byte_by_byte : {false, true}) {
      Launcher launcher{3, {}, byte_by_byte, words};
      std::array<std::string, 3> found;
      {
        std::vector<std::jthread> ranks;
        for (int rank = 0; rank < 3; ++rank)
          ranks.emplace_back([&, rank, client = launcher.client(rank)]() mutable {
            try {
              found[static_cast<std::size_t>(rank)] = converse(std::move(client), rank == 0, within(20s));
            } catch (px::Error const& error) {
              found[static_cast<std::size_t>(rank)] = error.what();
            }
          });
      }
      for (std::string const& one : found) CHECK(one == "px1/7/-/a/::1,node-7");
      CHECK(launcher.finalized == 3);
      CHECK(launcher.named == 1);
    }
}

TEST_CASE("at a port the launcher says who a process is", "[comm][socket][pmi]") {
  Launcher launcher{3};
  auto client = launcher.client(2);
  auto const own = client.identify("2", within(20s));
  CHECK(own.rank == 2);
  CHECK(own.size == 3);
}

TEST_CASE("an answer that is none is named, with the rank, the request and what came", "[comm][socket][pmi]") {
  struct Lie {
    std::string to, answer, said;
  };
  std::string const endless(pmi::most_pmi_line + 2000, 'x');
  std::vector<Lie> const lies{
      {"init", "hang up", "which hangs up"},
      {"init", "cmd=response_to_init rc=-1 pmi_version=2 pmi_subversion=0\n", "refused it: 'cmd=response_to_init rc=-1"},
      {"init", "cmd=response_to_init rc=none\n", "without a number: 'cmd=response_to_init rc=none'"},
      {"init", "    37cmd=init-response;rc=0;\n", "something else: '    37cmd=init-response"},
      {"init", "\n", "something else: ''"},
      {"init", "HTTP/1.1 400 Bad Request\r\n", "something else: 'HTTP/1.1 400 Bad Request?'"},
      {"init", "cmd=maxes rc=0\n", "something else: 'cmd=maxes rc=0'"},
      {"init", endless, "a line without an end: 'xxx"},
      {"get_maxes", "cmd=maxes rc=0\n", "without 'vallen_max'"},
      {"get_maxes", "cmd=maxes vallen_max=\n", "without 'vallen_max'"},
      {"get_maxes", "cmd=maxes vallen_max=much\n", "without a number from 1 on as 'vallen_max'"},
      {"get_maxes", "cmd=maxes vallen_max=-4\n", "without a number from 1 on as 'vallen_max'"},
      {"get_maxes", "cmd=maxes vallen_max=99999999999999\n", "without a number from 1 on as 'vallen_max'"},
      {"get_my_kvsname", "cmd=my_kvsname\n", "without 'kvsname'"},
      {"get_my_kvsname", "cmd=my_kvsname kvsname=" + std::string(2000, 'k') + "\n", "bytes; 1000 are the most"},
      {"put", "cmd=put_result rc=6\n", "refused it: 'cmd=put_result rc=6'"},
      {"put", "hang up", "which hangs up"},
      {"barrier_in", "cmd=barrier_out rc=1 msg=failed\n", "refused it: 'cmd=barrier_out rc=1"},
      {"barrier_in", "cmd=barrier", "which was not answered within"},
      {"barrier_in", "", "which was not answered within the deadline: another rank has not come"},
      {"get", "cmd=get_result rc=-1 msg=key_not_found value=unknown\n", "refused it: 'cmd=get_result rc=-1"},
      {"get", "cmd=get_result rc=0\n", "without 'value'"},
      {"get", std::string{"cmd=get_result\0rc=0\n", 20}, "something else: 'cmd=get_result?rc=0'"},
      {"finalize", "hang up", "which hangs up"},
      {"finalize", "cmd=abort\n", "something else: 'cmd=abort'"},
      {"initack", "cmd=initack rc=1\n", "refused it"},
      {"initack", "cmd=initack\ncmd=set size=2\ncmd=set rank=2\ncmd=set debug=0\n", "said no rank"},
      {"initack", "cmd=initack\ncmd=set size=0\n", "without a number from 1 on as 'size'"},
      {"initack", "cmd=initack\ncmd=set debug=0\ncmd=set debug=0\ncmd=set size=2\n", "said no rank"},
  };
  for (Lie const& lie : lies) {
    INFO(lie.to << " is answered by " << pmi::shown_line(lie.answer));
    Launcher launcher{
        1, [&](int, std::string const& command) { return command == lie.to ? std::optional{lie.answer} : std::nullopt; }};
    auto client = launcher.client(0);
    bool const late = lie.said.find("within") != std::string::npos;
    auto const until = within(late ? 200ms : 20s);
    auto const error = error_of([&] {
      if (lie.to == "initack") client.identify("0", until);
      converse(std::move(client), true, until);
    });
    REQUIRE(error);
    INFO(error->what());
    CHECK(error->code() == (late ? px::Errc::timeout : px::Errc::transport));
    CHECK(error->rank() == 0);
    bool const by_put = lie.answer.size() > 1000 && lie.to == "get_my_kvsname";  // its request is too long then
    CHECK(error->detail().find("rank 0 asked its launcher by PMI for '" + (by_put ? "put" : lie.to) + "', which") !=
          std::string::npos);
    CHECK(error->detail().find(lie.said) != std::string::npos);
    CHECK(error->detail().size() < 400);
    CHECK(launcher.finalized == 0);
  }
}

TEST_CASE("a launcher that is cut off in the middle of a line is named with what it said", "[comm][socket][pmi]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  pmi::OwnedDescriptor own{ends[0]};
  REQUIRE(::send(own.get(), "cmd=response_to_in", 18, MSG_NOSIGNAL) == 18);
  REQUIRE(::shutdown(own.get(), SHUT_WR) == 0);
  pmi::PmiClient client{pmi::OwnedDescriptor{ends[1]}, 4};
  auto const error = error_of([&] { client.begin(within(20s)); });
  REQUIRE(error);
  CHECK(error->detail() ==
        "rank 4 asked its launcher by PMI for 'init', which hangs up in the middle of its answer: 'cmd=response_to_in'");
}

TEST_CASE("the environment of a launcher says who a process is", "[comm][socket][pmi]") {
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  CHECK_FALSE(pmi::sockets_claim(variable));
  Variable const rank{"PMI_RANK", "0"}, size{"PMI_SIZE", "1"};
  CHECK_FALSE(pmi::sockets_claim(variable));  // a launcher that gives no way to be asked
  CHECK_FALSE(px::socket_options_from_environment());
  {
    Variable const alone{"PMI_FD", "987"};  // whom nobody needs to ask
    CHECK(pmi::sockets_claim(variable) == std::string{"987"});
    auto const options = px::socket_options_from_environment();
    REQUIRE(options);
    CHECK(options->size == 1);
    CHECK(options->address == "pmi:");
    CHECK(px::SocketCommunicator{*options}.size() == 1);
    Variable const of_torch{"RANK", "1"}, two{"WORLD_SIZE", "2"}, host{"MASTER_ADDR", "node"}, port{"MASTER_PORT", "1"};
    CHECK(px::socket_options_from_environment()->address == "node:1");  // what a script says goes before
  }
  Variable const two{"PMI_SIZE", "2"};
  std::FILE* const file = std::tmpfile();
  for (std::string const& descriptor : {std::string{"987"}, std::to_string(::fileno(file))}) {
    Variable const inherited{"PMI_FD", descriptor};
    auto const error = error_of([] { px::socket_options_from_environment(); });
    REQUIRE(error);
    CHECK(error->code() == px::Errc::misuse);
    CHECK(error->detail().find("PMI_FD=" + descriptor + " is no socket of a launcher here") != std::string::npos);
  }
  CHECK(std::ftell(file) == 0);  // nothing was written there
  std::fclose(file);
  for (char const* wrong : {"", "x", "-1", "2", "4294967296"}) {
    Variable const bad{"PMI_RANK", wrong}, descriptor{"PMI_FD", "987"};
    auto const error = error_of([] { px::socket_options_from_environment(); });
    REQUIRE(error);
    CHECK(error->code() == px::Errc::invalid_argument);
    CHECK(error->detail().find("PMI_RANK") != std::string::npos);
  }
  auto const nobody = error_of([] { px::SocketCommunicator{{.rank = 0, .size = 2, .address = "pmi:", .deadline = 1s}}; });
  REQUIRE(nobody);
  CHECK(nobody->code() == px::Errc::misuse);
}

TEST_CASE("a launcher at a port that nobody listens at is an error", "[comm][socket][pmi]") {
  Variable const port{"PMI_PORT", px::SocketListener{}.address()}, id{"PMI_ID", "0"};
  auto const error = error_of([] { px::socket_options_from_environment(); });
  REQUIRE(error);
  CHECK(error->code() == px::Errc::transport);
}

TEST_CASE("a launcher at a name that nobody knows is told by that name", "[comm][socket][pmi]") {
  Variable const port{"PMI_PORT", "no-such-host.invalid:41629"}, id{"PMI_ID", "0"};
  auto const error = error_of([] { px::socket_options_from_environment(); });
  REQUIRE(error);
  CHECK(error->code() == px::Errc::transport);
  CHECK(error->detail() ==
        "the launcher is to be asked at PMI_PORT='no-such-host.invalid:41629', and nobody here knows the name "
        "'no-such-host.invalid': /etc/hosts lacks the name of its machine");
}
