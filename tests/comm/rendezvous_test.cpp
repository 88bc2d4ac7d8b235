// How ranks over sockets learn where rank 0 listens: by a file, by the word that it holds, and by names that become known late.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "expected.hpp"
#include "parallax/detail/conformance/exchange.hpp"
#include "sockets.hpp"

namespace px = parallax;
namespace detail = parallax::detail;
using namespace std::chrono_literals;

namespace {

// A folder of its own, which goes with it.
struct Folder {
  Folder() { REQUIRE(::mkdtemp(name.data())); }
  ~Folder() { std::filesystem::remove_all(name.c_str()); }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  std::string file(std::string const& of) const { return name + "/" + of; }
  // What is in it.
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator{name}, std::filesystem::directory_iterator{}));
  }
  std::string name = "/tmp/parallax_meet_XXXXXX";
};

void write_private(std::string const& path, std::string const& text) {
  std::ofstream{path} << text;
  ::chmod(path.c_str(), 0600);
}

// What becomes of a rank: an error, or none where it joined and exchanged.
using Errors = std::vector<std::optional<px::Error>>;
// Ranks of a world of so many, each on a thread after a delay. `listener`: rank 0's own, or none.
Errors meet(px::SocketOptions const& all, std::vector<std::pair<int, std::chrono::milliseconds>> const& ranks,
            std::optional<px::SocketListener> listener = {}) {
  Errors errors(ranks.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      std::this_thread::sleep_for(ranks[i].second);
      px::SocketOptions mine = all;
      mine.rank = ranks[i].first;
      try {
        px::SocketCommunicator comm =
            listener && mine.rank == 0 ? px::SocketCommunicator{std::move(*listener), mine} : px::SocketCommunicator{mine};
        parallax_conformance::exchange_ragged(comm, 0, 7);
      } catch (px::Error const& error) {
        errors[i] = error;
      }
    });
  threads.clear();
  return errors;
}

void check_none(Errors const& errors) {
  for (auto const& error : errors) {
    if (error) INFO(error->what());
    CHECK_FALSE(error);
  }
}

// A resolver of the test's own, while it lives.
struct Resolver {
  explicit Resolver(detail::NameLookUp::Resolver own) : before_{std::exchange(detail::NameLookUp::resolver, own)} {}
  ~Resolver() { detail::NameLookUp::resolver = before_; }
  detail::NameLookUp::Resolver before_;
};

std::atomic<int> asked{0};
std::atomic<bool> released{false};
std::vector<detail::SocketAddress> known_late(detail::HostAndPort const& name) {
  if (name.host != "trainer-0.job" || ++asked <= 3) return {};
  return detail::addresses_of({"127.0.0.1", name.port});
}
std::vector<detail::SocketAddress> never_answers(detail::HostAndPort const&) {
  while (!released) std::this_thread::sleep_for(1ms);
  released = false;
  return {};
}

}  // namespace

TEST_CASE("ranks meet by a file, in any order, and nothing of it is left", "[comm][socket][rendezvous]") {
  Folder const folder;
  px::SocketOptions const all{.size = 3, .address = "file:" + folder.file("meet"), .deadline = 20s};
  check_none(meet(all, {{0, 0ms}, {1, 50ms}, {2, 0ms}}));
  check_none(meet(all, {{0, 300ms}, {1, 0ms}, {2, 0ms}}));
  CHECK(folder.files() == 0);
  px::SocketOptions keyed = all;
  keyed.key = "of the job";
  check_none(meet(keyed, {{0, 100ms}, {1, 0ms}, {2, 0ms}}));
  CHECK(folder.files() == 0);
}

TEST_CASE("of where rank 0 listens already it leaves word", "[comm][socket][rendezvous]") {
  Folder const folder;
  px::SocketOptions const all{.size = 3, .address = "file:" + folder.file("meet"), .deadline = 20s};
  check_none(meet(all, {{0, 100ms}, {1, 0ms}, {2, 0ms}}, px::SocketListener{}));
  check_none(meet(all, {{0, 100ms}, {1, 0ms}, {2, 0ms}}, px::SocketListener{"0.0.0.0:0"}));
  CHECK(folder.files() == 0);
}

TEST_CASE("the file is its owner's alone, and has a key only where the ranks have none", "[comm][socket][rendezvous]") {
  Folder const folder;
  std::string const path = folder.file("meet");
  for (std::string const key : {"", "of the job"}) {
    std::jthread const alone{[&] { meet({.size = 2, .address = "file:" + path, .key = key, .deadline = 600ms}, {{0, 0ms}}); }};
    std::optional<std::string> word;
    for (int k = 0; k < 5000 && !word; ++k) std::this_thread::sleep_for(1ms), word = detail::word_in_file(path);
    REQUIRE(word);
    auto const place = detail::place_in(*word);
    REQUIRE(place);
    CHECK(place->key.size() == (key.empty() ? 32 : 0));
    CHECK(word->find("of the job") == std::string::npos);
    struct stat facts {};
    REQUIRE(::stat(path.c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0600);
  }
  CHECK(folder.files() == 0);  // though nobody came
}

TEST_CASE("a file that an earlier job has left does not mislead", "[comm][socket][rendezvous]") {
  Folder const folder;
  std::string const path = folder.file("meet");
  px::SocketOptions const all{.size = 3, .address = "file:" + path, .deadline = 20s};
  auto const port_of = [](px::SocketListener const& listener) {
    return static_cast<std::uint16_t>(std::stoi(detail::split_address(listener.address()).port));
  };
  detail::MeetingPlace stale;
  stale.addresses = {"127.0.0.1"};
  stale.key = detail::new_key();
  stale.port = port_of(px::SocketListener{});  // where nobody listens any more
  write_private(path, detail::word_of(stale, 4096) + "\n");
  check_none(meet(all, {{0, 300ms}, {1, 0ms}, {2, 0ms}}));
  CHECK(folder.files() == 0);

  px::SocketListener silent;  // the port is another program's by now
  stale.port = port_of(silent);
  write_private(path, detail::word_of(stale, 4096) + "\n");
  check_none(meet({.size = 3, .address = all.address, .deadline = 30s}, {{0, 300ms}, {1, 0ms}, {2, 0ms}}));
  CHECK(folder.files() == 0);

  for (std::string const text : {"", "\n", "px1/", "px2/7/-/a/::1", "some letter\nto somebody\n"}) {
    write_private(path, text);
    check_none(meet(all, {{0, 200ms}, {1, 0ms}, {2, 0ms}}));
  }
}

TEST_CASE("a key that the ranks were given is theirs, whatever an earlier job has left in the file",
          "[comm][socket][rendezvous]") {
  Folder const folder;
  std::string const path = folder.file("meet");
  detail::MeetingPlace stale;
  stale.addresses = {"127.0.0.1"};
  stale.key = detail::new_key();
  stale.port = 7;
  write_private(path, detail::word_of(stale, 4096) + "\n");
  detail::RankFacts mine;
  detail::set_host(mine);
  for (std::string const given : {"of the job", ""}) {
    px::SocketOptions const options{.rank = 1, .size = 2, .address = "file:" + path, .key = given};
    detail::Rendezvous rendezvous{options, mine, std::chrono::steady_clock::now() + 20s};
    CHECK(rendezvous.look().size() == 1);
    CHECK(rendezvous.key() == (given.empty() ? stale.key : given));
  }
  // And they meet, though the file leads to one who knows the key in it.
  px::SocketOptions const all{.size = 3, .address = "file:" + path, .key = "of the job", .deadline = 20s};
  check_none(meet(all, {{0, 200ms}, {1, 0ms}, {2, 0ms}}));
  CHECK(folder.files() == 0);
}

TEST_CASE("a file that others may read or write is not trusted", "[comm][socket][rendezvous]") {
  Folder const folder;
  std::string const path = folder.file("meet");
  px::SocketOptions const one{.size = 2, .address = "file:" + path, .deadline = 20s};
  auto const refused = [&](std::string const& words) { return has(meet(one, {{1, 0ms}})[0], px::Errc::file, words); };
  std::string const word = "px1/7/0123456789abcdef0123456789abcdef/1/127.0.0.1\n";
  write_private(path, word);
  for (::mode_t const mode : {0640, 0606, 0604, 0620}) {
    ::chmod(path.c_str(), mode);
    CHECK(refused("can be read by others: its mode must be 0600"));
  }
  if (::geteuid() == 0) {
    write_private(path, word);
    REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
    CHECK(refused("belongs to another user"));
  } else {
    write_private(path, word);
    ::chmod(path.c_str(), 0000);
    CHECK(refused("cannot be read: Permission denied"));
  }
  std::filesystem::remove(path);
  write_private(folder.file("elsewhere"), word);
  std::filesystem::create_symlink(folder.file("elsewhere"), path);
  CHECK(refused("cannot be read"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK(refused("is no file"));
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(refused("is no file"));
}

TEST_CASE("a file that rank 0 cannot write is an error at once", "[comm][socket][rendezvous]") {
  Folder const folder;
  for (std::string const& path : {folder.file("no/such/folder"), folder.name, std::string{"/proc/meet"}})
    CHECK(
        has(meet({.size = 2, .address = "file:" + path, .deadline = 20s}, {{0, 0ms}})[0], px::Errc::file, "cannot be written"));
  CHECK(folder.files() == 0);
  CHECK(has(meet({.size = 2, .address = "file:"}, {{0, 0ms}})[0], px::Errc::invalid_argument, "names no file"));
}

TEST_CASE("where rank 0 does not come, the file is named", "[comm][socket][rendezvous]") {
  Folder const folder;
  std::string const address = "file:" + folder.file("meet");
  auto const errors = meet({.size = 3, .address = address, .deadline = 300ms}, {{1, 0ms}, {2, 0ms}});
  for (auto const& error : errors) CHECK(has(error, px::Errc::timeout, "for rank 0: " + address + ": is not there yet"));
}

TEST_CASE("rank 0 takes away no file but its own", "[comm][socket][rendezvous]") {
  Folder const folder;
  std::string const path = folder.file("meet");
  {
    std::optional<detail::PlaceFile> earlier{std::in_place, path, "px1/1/-/a/::1"};
    detail::PlaceFile const later{path, "px1/2/-/a/::1"};
    earlier.reset();
    CHECK(detail::word_in_file(path) == "px1/2/-/a/::1");
  }
  CHECK(folder.files() == 0);
}

TEST_CASE("a forked child leaves the file of its parent", "[comm][socket][rendezvous][child]") {
  Folder const folder;
  std::string const path = folder.file("meet");
  std::optional<detail::PlaceFile> own{std::in_place, path, "px1/1/-/a/::1"};
  pid_t const child = ::fork();
  if (child == 0) own.reset(), ::_exit(0);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(detail::word_in_file(path) == "px1/1/-/a/::1");
}

TEST_CASE("a word of rank 0 says what it was made of, in as many bytes as are allowed", "[comm][socket][rendezvous]") {
  detail::MeetingPlace place;
  place.port = 65535;
  place.host = 0xfedcba9876543210;
  place.key = detail::new_key();
  place.addresses = {"10.0.0.7", "2001:db8::7", "no address!", "node-7.local"};
  std::string const word = detail::word_of(place, 1000);
  auto const read = detail::place_in(word);
  REQUIRE(read);
  CHECK(read->port == place.port);
  CHECK(read->host == place.host);
  CHECK(read->key == place.key);
  CHECK(read->addresses == std::vector<std::string>{"10.0.0.7", "2001:db8::7", "node-7.local"});
  for (std::size_t most = 0; most < word.size(); ++most) {
    try {
      std::string const less = detail::word_of(place, most);
      CHECK(less.size() <= most);
      auto const cut = detail::place_in(less);
      REQUIRE(cut);
      CHECK(cut->addresses.size() < 3);
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::transport);
      CHECK(most < word.find("10.0.0.7") + 8);
    }
  }
}

TEST_CASE("what is no word of rank 0 is not read as one", "[comm][socket][rendezvous]") {
  std::string const key = "0123456789abcdef0123456789abcdef";
  CHECK(detail::place_in("px1/1/-/0/a"));
  CHECK(detail::place_in("px1/1/" + key + "/0/a"));
  for (std::string const& wrong : {std::string{},
                                   std::string{"px1"},
                                   std::string{"px1/1/-/0"},
                                   std::string{"px1/1/-/0/"},
                                   std::string{"px1/0/-/0/a"},
                                   std::string{"px1/65536/-/0/a"},
                                   std::string{"px1/-1/-/0/a"},
                                   std::string{"px1/+1/-/0/a"},
                                   std::string{"px1/1x/-/0/a"},
                                   std::string{"px1//-/0/a"},
                                   std::string{"px1/1//0/a"},
                                   std::string{"px1/1/-//a"},
                                   std::string{"px1/1/-/g/a"},
                                   std::string{"px1/1/-/00000000000000000/a,"},
                                   std::string{"px1/1/-/11111111111111111/a"},
                                   std::string{"px1/1/-/0/,a"},
                                   std::string{"px1/1/-/0/a,,b"},
                                   std::string{"px1/1/-/0/a b"},
                                   std::string{"px1/1/-/0/a\n"},
                                   std::string{"px1/1/-/0/a/b"},
                                   std::string{"px1/1/0123/0/a"},
                                   "px1/1/" + key.substr(1) + "X/0/a",
                                   "px1/1/" + key + key + key + key + "0/0/a",
                                   "px1/1/-/0/" + std::string(254, 'a'),
                                   "px1/1/-/0/a" + std::string(5000, ',')})
    CHECK_FALSE(detail::place_in(wrong));
}

TEST_CASE("rank 0 is called where this host can reach it, and by its name last", "[comm][socket][rendezvous]") {
  Folder const folder;
  std::string const path = folder.file("meet");
  px::SocketOptions const options{.rank = 1, .size = 2, .address = "file:" + path};
  detail::RankFacts mine;
  detail::set_host(mine);
  detail::MeetingPlace place;
  place.port = 7;
  place.host = detail::host_mark(mine);
  place.addresses = {"192.0.2.7", "2001:db8::7", "trainer-0.job"};
  auto const own = detail::own_addresses();
  if (!own.empty()) place.addresses.insert(place.addresses.begin(), detail::host_of(own[0]));
  Resolver const resolver{+[](detail::HostAndPort const& name) { return detail::addresses_of({"127.0.0.9", name.port}); }};
  auto const called = [&] {
    write_private(path, detail::word_of(place, 4096));
    detail::Rendezvous rendezvous{options, mine, std::chrono::steady_clock::now() + 20s};
    std::array<std::string, 2> rounds;
    for (std::string& round : rounds)
      for (auto const& address : rendezvous.look()) round += detail::text_of(address) + " ";
    CHECK(rounds[1] == rounds[0] + "127.0.0.9:7 ");
    return rounds[0];
  };
  std::string const there = "192.0.2.7:7 [2001:db8::7]:7 ";
  std::string const here = "127.0.0.1:7 " + (own.empty() ? std::string{} : detail::text_of(own[0].at(7)) + " ") + there;
  CHECK(called() == here);
  ++place.host;  // of another host, where this one's own address is none of rank 0
  CHECK(called() == there);
}

TEST_CASE("a name that becomes known late is asked for again", "[comm][socket][rendezvous]") {
  Resolver const own{&known_late};
  asked = 0;
  std::string const port = detail::split_address(px::SocketListener{}.address()).port;
  check_none(meet({.size = 2, .address = "trainer-0.job:" + port, .deadline = 20s}, {{0, 0ms}, {1, 0ms}}));
  CHECK(asked >= 5);
  asked = 0;
  check_none(meet({.size = 2, .address = "trainer-0.job:" + port, .key = "of the job", .deadline = 20s}, {{0, 0ms}, {1, 0ms}}));
  CHECK(asked >= 4);  // a rank 0 with a key listens everywhere, and asks nobody
}

TEST_CASE("a resolver that does not answer holds nobody beyond the deadline", "[comm][socket][rendezvous]") {
  Resolver const own{&never_answers};
  for (int const rank : {0, 1}) {
    auto const errors = meet({.size = 2, .address = "trainer-0.job:4711", .deadline = 300ms}, {{rank, 0ms}});
    CHECK(has(errors[0], px::Errc::timeout, "trainer-0.job:4711"));
    released = true;  // it is still asked
    while (released) std::this_thread::sleep_for(1ms);
  }
}

TEST_CASE("Kubernetes numbers ranks by the index of their pod", "[comm][socket][rendezvous]") {
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  Variable const index{"JOB_COMPLETION_INDEX", "3"};
  CHECK_FALSE(detail::sockets_claim(variable));  // of a job whose pods do not train together
  CHECK_FALSE(px::socket_options_from_environment());
  Variable const size{"WORLD_SIZE", "4"}, host{"MASTER_ADDR", "trainer-0.job"}, port{"MASTER_PORT", "4711"};
  CHECK(detail::sockets_claim(variable) == std::string{"3"});
  CHECK(px::socket_options_from_environment()->rank == 3);
  CHECK(px::socket_options_from_environment()->address == "trainer-0.job:4711");
  Variable const rank{"RANK", "1"};
  CHECK(px::socket_options_from_environment()->rank == 1);
  Variable const file{"PARALLAX_RENDEZVOUS", "file:/shared/meet"};
  CHECK(px::socket_options_from_environment()->address == "file:/shared/meet");
  ::unsetenv("MASTER_ADDR");
  CHECK(detail::sockets_claim(variable) == std::string{"1"});
  CHECK(px::socket_options_from_environment()->address == "file:/shared/meet");
}

TEST_CASE("ranks of torchrun meet beside its own store", "[comm][socket][rendezvous]") {
  Variable const rank{"RANK", "1"}, size{"WORLD_SIZE", "4"}, host{"MASTER_ADDR", "node"}, port{"MASTER_PORT", "29500"};
  CHECK(px::socket_options_from_environment()->address == "node:29500");
  Variable const run{"TORCHELASTIC_RUN_ID", "a6926959"}, restarts{"TORCHELASTIC_RESTART_COUNT", "0"};
  std::string first;
  {
    Variable const store{"TORCHELASTIC_USE_AGENT_STORE", "True"};
    first = px::socket_options_from_environment()->address;
    int const beside = std::stoi(detail::split_address(first).port);
    CHECK(beside >= 20000);
    CHECK(beside < 32000);
    CHECK(px::socket_options_from_environment()->address == first);
    Variable const again{"TORCHELASTIC_RESTART_COUNT", "1"};
    CHECK(px::socket_options_from_environment()->address != first);
    Variable const own{"PARALLAX_PORT", "4711"};
    CHECK(px::socket_options_from_environment()->address == "node:4711");
  }
  Variable const without{"TORCHELASTIC_USE_AGENT_STORE", "False"};
  CHECK(px::socket_options_from_environment()->address == "node:29500");
}

TEST_CASE("after the meeting no rank listens anywhere", "[comm][socket][rendezvous][strangers]") {
  Folder const folder;
  std::string const address = "file:" + folder.file("meet");
  std::atomic<int> together{0};
  std::atomic<bool> over{false};
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      px::SocketCommunicator comm{{.rank = rank, .size = 3, .address = address, .deadline = 20s}};
      ++together;
      while (!over) std::this_thread::yield();
      parallax_conformance::exchange_ragged(comm, 0, 7);
    });
  while (together < 3) std::this_thread::yield();
  int listening = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    int listens = 0;
    ::socklen_t size = sizeof listens;
    listening += ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
  }
  over = true;
  CHECK(listening == 0);
}
