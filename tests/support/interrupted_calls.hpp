// The calls that a signal may interrupt, as a program's own definitions: while `Interruptions` lives, one of so many fails with
// EINTR, and reads and writes are of half as much as they were asked for. Replaces functions of the whole program, so that only
// one source file of a test includes it, and no sanitizer may define them.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <ctime>

namespace parallax_test {

inline std::atomic<int> interrupts_every{0};  // 0: none
inline std::atomic<long> interruptible_calls{0}, interrupted_calls{0};

// An interruption of calls of this process and of its forks: one of so many calls from here on, by chance, but always by the
// same chance.
struct Interruptions {
  explicit Interruptions(int every) {
    interruptible_calls = interrupted_calls = 0;
    interrupts_every = every;
  }
  ~Interruptions() { interrupts_every = 0; }
  Interruptions(Interruptions const&) = delete;
};

// Returns the call's result, unless that is interrupted.
template <class Call>
auto perhaps(Call const& call) -> decltype(call()) {
  int const every = interrupts_every;
  if (every == 0) return call();
  auto const chance = static_cast<unsigned long>(++interruptible_calls) * 0x9e3779b97f4a7c15u;
  if ((chance >> 40) % static_cast<unsigned long>(every) != 0) return call();
  ++interrupted_calls;
  errno = EINTR;
  return -1;
}
inline size_t halved(size_t bytes) { return interrupts_every && bytes > 1 ? bytes / 2 : bytes; }
template <class F>
F* next_definition(char const* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace parallax_test

#define PARALLAX_TEST_CALL(number, ...) parallax_test::perhaps([&] { return syscall(number, __VA_ARGS__); })

extern "C" {

int open(char const* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t const mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return static_cast<int>(PARALLAX_TEST_CALL(SYS_openat, AT_FDCWD, path, flags, mode));
}
ssize_t read(int fd, void* bytes, size_t size) { return PARALLAX_TEST_CALL(SYS_read, fd, bytes, parallax_test::halved(size)); }
ssize_t write(int fd, void const* bytes, size_t size) {
  return PARALLAX_TEST_CALL(SYS_write, fd, bytes, parallax_test::halved(size));
}
ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  return PARALLAX_TEST_CALL(SYS_pread64, fd, bytes, parallax_test::halved(size), at);
}
ssize_t pwrite(int fd, void const* bytes, size_t size, off_t at) {
  return PARALLAX_TEST_CALL(SYS_pwrite64, fd, bytes, parallax_test::halved(size), at);
}
ssize_t readv(int fd, iovec const* buffers, int count) { return PARALLAX_TEST_CALL(SYS_readv, fd, buffers, count); }
ssize_t send(int fd, void const* bytes, size_t size, int flags) {
  return PARALLAX_TEST_CALL(SYS_sendto, fd, bytes, parallax_test::halved(size), flags, nullptr, 0);
}
ssize_t recv(int fd, void* bytes, size_t size, int flags) {
  return PARALLAX_TEST_CALL(SYS_recvfrom, fd, bytes, parallax_test::halved(size), flags, nullptr, nullptr);
}
ssize_t sendmsg(int fd, msghdr const* message, int flags) { return PARALLAX_TEST_CALL(SYS_sendmsg, fd, message, flags); }
int fsync(int fd) { return static_cast<int>(PARALLAX_TEST_CALL(SYS_fsync, fd)); }
int ftruncate(int fd, off_t size) noexcept { return static_cast<int>(PARALLAX_TEST_CALL(SYS_ftruncate, fd, size)); }
int memfd_create(char const* name, unsigned flags) noexcept {
  return static_cast<int>(PARALLAX_TEST_CALL(SYS_memfd_create, name, flags));
}
int dup2(int from, int to) noexcept { return static_cast<int>(PARALLAX_TEST_CALL(SYS_dup3, from, to, 0)); }
int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return static_cast<int>(PARALLAX_TEST_CALL(SYS_accept4, fd, address, size, flags));
}
int connect(int fd, sockaddr const* address, socklen_t size) {
  return static_cast<int>(PARALLAX_TEST_CALL(SYS_connect, fd, address, size));
}
int poll(pollfd* polled, nfds_t count, int at_most) {
  timespec const limit{at_most / 1000, at_most % 1000 * 1'000'000L};
  return static_cast<int>(PARALLAX_TEST_CALL(SYS_ppoll, polled, count, at_most < 0 ? nullptr : &limit, nullptr, 0));
}
int ppoll(pollfd* polled, nfds_t count, timespec const* at_most, sigset_t const*) {
  timespec limit = at_most ? *at_most : timespec{};
  return static_cast<int>(PARALLAX_TEST_CALL(SYS_ppoll, polled, count, at_most ? &limit : nullptr, nullptr, 0));
}
int epoll_wait(int fd, epoll_event* events, int most, int at_most) {
  return static_cast<int>(PARALLAX_TEST_CALL(SYS_epoll_pwait, fd, events, most, at_most, nullptr, 0));
}
pid_t waitpid(pid_t process, int* status, int options) {
  return static_cast<pid_t>(PARALLAX_TEST_CALL(SYS_wait4, process, status, options, nullptr));
}
int nanosleep(timespec const* time, timespec* left) {
  int const result = static_cast<int>(PARALLAX_TEST_CALL(SYS_nanosleep, time, left));
  if (result < 0 && errno == EINTR && left) *left = *time;
  return result;
}

}  // extern "C"
