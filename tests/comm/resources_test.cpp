// The file of hosts and devices: what it means, and by which sentence each bad one is refused.
#include "parallax/detail/launch/resources.hpp"

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"

namespace px = parallax;

namespace {

// What a file says, in one line: for comparisons.
std::string said(px::Resources const& resources) {
  std::string text = resources.mode + ";";
  for (px::HostResources const& host : resources.hosts) {
    text += " " + std::to_string(host.line) + " " + (host.user.empty() ? "" : host.user + "@") + host.name;
    if (host.port != 0) text += " port " + std::to_string(host.port);
    text += host.here() ? " here" : "";
    text += " " + std::to_string(host.ranks);
    for (int const device : host.devices) text += "," + std::to_string(device);
    text += ";";
  }
  return text;
}
std::string parsed(std::string_view text) {
  try {
    return said(px::parse_resources(text, "hosts"));
  } catch (px::Error const& error) {
    if (error.code() != px::Errc::invalid_argument || error.operation() != "launch") return "another error";
    return error.detail();
  }
}

}  // namespace

TEST_CASE("a file of hosts says where ranks run", "[comm][launch]") {
  CHECK(parsed("node0: 0,1,2\n") == "; 1 node0 3,0,1,2;");
  CHECK(parsed("192.168.0.1: 2, 0 ,1") == "; 1 192.168.0.1 3,2,0,1;");
  CHECK(parsed("node:7 port=2222 # and a comment") == "; 1 node port 2222 1,7;");
  CHECK(parsed("# nothing\n\n \t\r\nnode slots=4\r\nother") == "; 4 node 4; 5 other 1;");
  CHECK(parsed("me@node_1.example-net.org\tslots=2 port=22") == "; 1 me@node_1.example-net.org port 22 2;");
  CHECK(parsed("[fe80::1%eth0]: 0\n[::1] slots=3\n[2001:db8::2]") == "; 1 fe80::1%eth0 1,0; 2 ::1 here 3; 3 2001:db8::2 1;");
  CHECK(parsed("you@[::1]") == "; 1 you@::1 1;");
  CHECK(parsed("localhost port=2222\nlocalhost.") == "; 1 localhost port 2222 1; 2 localhost. 1;");
  CHECK(parsed("localhost slots=2") == "; 1 localhost here 2;");
  CHECK(parsed("127.0.0.1#here") == "; 1 127.0.0.1 here 1;");
  CHECK(parsed("mode = hybrid\na") == "hybrid; 2 a 1;");
  CHECK(parsed("a\n  mode=all_reduce # all") == "all_reduce; 1 a 1;");
  CHECK(parsed("mode = async\na") == "async; 2 a 1;");
  CHECK(parsed("mode\t=\tparameter_server\nmode\nmode2") == "parameter_server; 2 mode 1; 3 mode2 1;");
  std::string most;
  for (int host = 0; host < 16; ++host) most += "h" + std::to_string(host) + " slots=4096\n";
  CHECK(px::parse_resources(most, "hosts").ranks() == px::most_ranks_of_job);
}

TEST_CASE("a bad file of hosts is refused by its line and column", "[comm][launch]") {
  struct Bad {
    std::string_view text, sentence;
  };
  std::string const devices = "a device is a number from 0 to 4095, not ",
                    settings = "behind a host stands slots=N or port=N, not ";
  std::string const modes = "a mode is hybrid, all_reduce, parameter_server or async, not ";
  std::string const long_name(254, 'a'), long_word(100, '=');
  std::vector<std::pair<std::string, std::string>> const bad{
      {"", "hosts: it names no host"},
      {"\n# only this", "hosts: it names no host"},
      {"mode=hybrid", "hosts: it names no host"},
      {"node0:", "hosts:1:7: a device is missing"},
      {"node0: # none", "hosts:1:8: a device is missing"},
      {"node0: 0,", "hosts:1:10: a device is missing"},
      {"node0: ,1", "hosts:1:8: " + devices + "',1'"},
      {"node0: 0,,1", "hosts:1:10: " + devices + "',1'"},
      {"node0: a", "hosts:1:8: " + devices + "'a'"},
      {"node0: -1", "hosts:1:8: " + devices + "'-1'"},
      {"node0: 0 1", "hosts:1:10: " + settings + "'1'"},
      {"node0: 0;1", "hosts:1:9: devices are parted by ',', not by ';1'"},
      {"node0: 0,1,0", "hosts:1:12: device 0 is named twice"},
      {"node0: 00,0", "hosts:1:11: device 0 is named twice"},
      {"node0: 4096", "hosts:1:8: a device is from 0 to 4095, not 4096"},
      {"node0: 99999999999999999999999", "hosts:1:8: a device is from 0 to 4095, not 99999999999999999999"},
      {"node0: 0 slots=1", "hosts:1:10: a host has devices or slots, not both"},
      {"node0:: 0", "hosts:1:7: " + devices + "':'"},
      {"a\nnode0 4", "hosts:2:7: " + settings + "'4'"},
      {"a slot=4", "hosts:1:3: " + settings + "'slot=4'"},
      {"a slots", "hosts:1:3: " + settings + "'slots'"},
      {"a slots =4", "hosts:1:3: " + settings + "'slots'"},
      {"a slots=", "hosts:1:9: slots is a number from 1 to 4096, not the end of the line"},
      {"a slots= 4", "hosts:1:9: slots is a number from 1 to 4096, not the end of the line"},
      {"a slots=x", "hosts:1:9: slots is a number from 1 to 4096, not 'x'"},
      {"a slots=0", "hosts:1:9: slots is from 1 to 4096, not 0"},
      {"a slots=4097", "hosts:1:9: slots is from 1 to 4096, not 4097"},
      {"a slots=4x", "hosts:1:10: a space is missing before 'x'"},
      {"a slots=4 slots=4", "hosts:1:11: slots is given twice"},
      {"a port=0", "hosts:1:8: a port is from 1 to 65535, not 0"},
      {"a port=65536", "hosts:1:8: a port is from 1 to 65535, not 65536"},
      {"a port=1 port=2", "hosts:1:10: port is given twice"},
      {"a=b", "hosts:1:2: a space is missing before '=b'"},
      {"a,b", "hosts:1:2: a space is missing before ',b'"},
      {"-oProxyCommand=x", "hosts:1:1: a host's name begins with '-': '-oProxyCommand=x'"},
      {"  -a", "hosts:1:3: a host's name begins with '-': '-a'"},
      {"-me@a", "hosts:1:1: the user's name begins with '-': '-me@a'"},
      {"me@-a", "hosts:1:4: a host's name begins with '-': '-a'"},
      {"@a", "hosts:1:2: the user's name is missing before 'a'"},
      {"me@", "hosts:1:4: a host's name is missing before the end of the line"},
      {"me@you@a", "hosts:1:7: a space is missing before '@a'"},
      {"$(reboot)", "hosts:1:1: a host's name is missing before '$(reboot)'"},
      {"a`b`", "hosts:1:2: a space is missing before '`b`'"},
      {"\xffname", "hosts:1:1: a host's name is missing before '?name'"},
      {std::string{"a\0b", 3}, "hosts:1:2: a space is missing before '?b'"},
      {long_name, "hosts:1:1: a host's name has 254 characters; 253 are the most"},
      {long_word, "hosts:1:1: a host's name is missing before '" + long_word.substr(0, 39) + "'"},
      {"[::1", "hosts:1:5: ']' is missing behind the address"},
      {"[]", "hosts:1:2: in brackets stands an address of version 6, not ']'"},
      {"[node]", "hosts:1:2: in brackets stands an address of version 6, not 'node]'"},
      {"[1.2.3.4]", "hosts:1:2: in brackets stands an address of version 6, not '1.2.3.4]'"},
      {"[fe80::1%]", "hosts:1:2: in brackets stands an address of version 6, not 'fe80::1%]'"},
      {"[fe80::1%-x]", "hosts:1:2: in brackets stands an address of version 6, not 'fe80::1%-x]'"},
      {"[fe80::1%a;b]", "hosts:1:11: ']' is missing behind the address"},
      {std::string{"[::1\0]", 6}, "hosts:1:5: ']' is missing behind the address"},
      {"[::1]x", "hosts:1:6: a space is missing before 'x'"},
      {"fe80::1", "hosts:1:6: " + devices + "':1'"},
      {"a\nb\na", "hosts:3:1: host a is named twice, in line 1 first"},
      {"a\nme@a", "hosts:2:1: host a is named twice, in line 1 first"},
      {"mode=", "hosts:1:6: a mode is missing: hybrid, all_reduce, parameter_server or async"},
      {"mode=fast", "hosts:1:6: " + modes + "'fast'"},
      {"mode = Hybrid", "hosts:1:8: " + modes + "'Hybrid'"},
      {"mode=asynchronous", "hosts:1:6: " + modes + "'asynchronous'"},
      {"mode=hybrid a", "hosts:1:13: behind the mode stands 'a'"},
      {"mode=hybrid\nmode=hybrid\na", "hosts:2:1: the mode is given twice, in line 1 first"},
  };
  for (auto const& [text, sentence] : bad) {
    INFO(text);
    CHECK(parsed(text) == sentence);
  }
  std::string many;
  for (int host = 0; host < 16; ++host) many += "h" + std::to_string(host) + " slots=4096\n";
  CHECK(parsed(many + "one") == "hosts:17:1: with this host there are 65537 ranks; 65536 are the most");
  CHECK(parsed(std::string(px::most_resource_bytes + 1, '\n')) == "hosts: it has 1048577 bytes; a MiB is the most");
  std::printf("%zu bad files\n", bad.size() + 2);
}

TEST_CASE("any text that is put together by the rules is read as it was meant", "[comm][launch]") {
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  auto const one_of = [&](auto const& list) { return list[random() % list.size()]; };
  std::vector<std::string> const spaces{"", " ", "\t", "  "}, ends{"", " ", "# ]a,[", "\r"}, users{"", "", "me@", "a-b@"};
  for (int turn = 0; turn < 2000; ++turn) {
    std::string text;
    px::Resources meant;
    int const lines = 1 + static_cast<int>(random() % 5);
    for (int number = 1; number <= lines; ++number) {
      px::HostResources host;
      host.line = number;
      std::string const user = one_of(users), sign = std::to_string(number);
      host.user = user.substr(0, user.size() - (user.empty() ? 0 : 1));
      bool const v6 = random() % 3 == 0, dealt = random() % 2 == 0;
      host.name = (v6 ? "fd00::" : "n") + sign;
      text += one_of(spaces) + user + (v6 ? "[" + host.name + "]" : host.name);
      if (dealt) {
        host.ranks = 1 + static_cast<int>(random() % 4);
        text += ":";
        for (int i = 0; i < host.ranks; ++i) {
          host.devices.push_back(i * 7 % 5);
          text += (i > 0 ? "," : "") + one_of(spaces) + std::to_string(host.devices.back()) + one_of(spaces);
        }
      } else if (random() % 2 == 0) {
        host.ranks = 1 + static_cast<int>(random() % 4096);
        text += " slots=" + std::to_string(host.ranks);
      }
      if (random() % 3 == 0) host.port = 1 + static_cast<int>(random() % 65535), text += " port=" + std::to_string(host.port);
      text += one_of(ends) + "\n";
      meant.hosts.push_back(host);
    }
    INFO(text);
    REQUIRE(parsed(text) == said(meant));
  }
}

TEST_CASE("a file of hosts is read, or is said to be none", "[comm][launch]") {
  parallax_test::Scratch const scratch;
  std::string const path = scratch.path("hosts");
  std::ofstream{path} << "mode = hybrid\nlocalhost slots=2\n";
  CHECK(said(px::read_resources(path)) == "hybrid; 2 localhost here 2;");
  std::ofstream{path} << "localhost slots=0\n";
  CHECK_THROWS_WITH(px::read_resources(path),
                    "parallax: invalid argument in launch: " + path + ":1:17: slots is from 1 to 4096, not 0");
  CHECK_THROWS_WITH(px::read_resources(scratch.path("none")),
                    "parallax: file in launch: " + scratch.path("none") + ": it cannot be opened (errno 2)");
  CHECK_THROWS_WITH(px::read_resources(scratch.path("")), parallax_test::contains(": it cannot be read"));
}
