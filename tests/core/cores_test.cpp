// The number of cores that the ranks of a host have: by affinity, which is asked of a thread that was given less, and by the
// quotas of control groups. These lie in a folder that stands for the root of a file system.
#include "parallax/detail/core/cores.hpp"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "../catch.hpp"
#include "../interop/scratch.hpp"

namespace detail = parallax::detail;

namespace {

void write(parallax_test::Scratch const& root, std::string const& path, std::string const& text) {
  std::filesystem::path const file = root.path("root" + path);
  std::filesystem::create_directories(file.parent_path());
  std::ofstream{file} << text << "\n";
}

}  // namespace

TEST_CASE("cores are those on which a thread may run", "[core]") {
  ::cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK(detail::CoreSet::own().count() == CPU_COUNT(&before));
  int last = 0;
  for (int core = 0; core < 1024; ++core)
    if (CPU_ISSET(core, &before)) last = core;
  int seen = 0, usable = 0;
  std::jthread{[&] {
    ::cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) return;
    seen = detail::CoreSet::own().count(), usable = detail::usable_cores(detail::CoreSet::own());
  }}.join();
  CHECK(seen == 1);
  CHECK(usable == 1);
  detail::CoreSet set, other;
  set.bits[0] = 5, other.bits[0] = 6, other.bits[15] = 1;
  set.add(other);
  CHECK(set.count() == 4);
}

TEST_CASE("no more cores than the quota pays for, of a group or of any around it", "[core]") {
  {
    parallax_test::Scratch const root;
    auto const cores = [&] { return detail::cores_by_quota(root.path("root").c_str()); };
    CHECK(cores() == 0);
    write(root, "/proc/self/cgroup", "0::/kubepods/pod7/container");
    CHECK(cores() == 0);
    write(root, "/sys/fs/cgroup/kubepods/pod7/container/cpu.max", "max 100000");
    CHECK(cores() == 0);
    write(root, "/sys/fs/cgroup/kubepods/cpu.max", "700000 100000");
    CHECK(cores() == 7);
    write(root, "/sys/fs/cgroup/kubepods/pod7/container/cpu.max", "250000 100000");
    CHECK(cores() == 3);  // two and a half
    write(root, "/sys/fs/cgroup/kubepods/pod7/cpu.max", "10000 100000");
    CHECK(cores() == 1);
    write(root, "/sys/fs/cgroup/other/cpu.max", "1 100000");
    CHECK(cores() == 1);
  }
  {
    parallax_test::Scratch const root;  // within a container, whose group is the root of what it sees
    write(root, "/proc/self/cgroup", "0::/");
    write(root, "/sys/fs/cgroup/cpu.max", "400000 100000");
    CHECK(detail::cores_by_quota(root.path("root").c_str()) == 4);
  }
  {
    parallax_test::Scratch const root;  // of version 1, where the path is that of the host
    write(root, "/proc/self/cgroup", "5:memory:/docker/1234\n4:cpuset:/docker/1234\n3:cpu,cpuacct:/docker/1234\n0::/");
    write(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000");
    write(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
    CHECK(detail::cores_by_quota(root.path("root").c_str()) == 0);
    write(root, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000");
    CHECK(detail::cores_by_quota(root.path("root").c_str()) == 2);
    write(root, "/sys/fs/cgroup/cpuset/docker/1234/cpu.cfs_quota_us", "1");
    write(root, "/sys/fs/cgroup/cpuset/docker/1234/cpu.cfs_period_us", "1");
    CHECK(detail::cores_by_quota(root.path("root").c_str()) == 2);
  }
  for (std::string const wrong : {"", "x", "::", "0:", "3:cpu", "0::no/slash", "\n\n", "3:cpu:///"}) {
    parallax_test::Scratch const root;
    write(root, "/proc/self/cgroup", wrong);
    CHECK(detail::cores_by_quota(root.path("root").c_str()) == 0);
  }
}

TEST_CASE("ranks outnumber cores only where somebody knows how many there are", "[core]") {
  CHECK(detail::outnumber(3, 2));
  CHECK_FALSE(detail::outnumber(2, 2));
  CHECK_FALSE(detail::outnumber(3, 0));
  CHECK(detail::least_cores(0, 3) == 3);
  CHECK(detail::least_cores(2, 0) == 2);
  CHECK(detail::least_cores(2, 1) == 1);
}
