// The calls by which a program waits, and makes descriptors and threads, as its own definitions: each asks `call_judge` of the program
// whether it fails. `Interruptions` is one: of so many calls one fails with EINTR. Replaces functions of the whole program, so that
// only one source file of it includes this, and no sanitizer may define them.
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <type_traits>

namespace parallax_test {

// Kinds of what may go wrong with a call, as bits.
enum CallKind : unsigned {
  interruptible = 1,     // a signal ends it before it has done anything; of `close`: afterwards
  makes_descriptor = 2,  // the process has too many
  makes_thread = 4,      // likewise
  opens = interruptible | makes_descriptor,
};

// A call, before it is done.
struct SystemCall {
  char const* name;
  unsigned kinds;
  void const* caller;  // an address in the code that calls
  int fd = -1;         // of fsync
  int flags = 0;       // of open
};

// Returns the errno by which a call fails, or 0. Asked under any thread, and may keep it waiting. Null: all calls are done.
inline std::atomic<int (*)(SystemCall const&)> call_judge{nullptr};
// True while reads and writes are of half as much as they were asked for.
inline std::atomic<bool> halves_transfers{false};
// A mark of the thread, which the threads that it makes inherit.
inline thread_local int thread_mark = 0;

inline int refused(SystemCall const& call) {
  auto const judge = call_judge.load();
  return judge ? judge(call) : 0;
}
// Returns the call's result, or, where it is refused, -1 or null.
template <class Call>
auto asked(SystemCall const& of, Call const& call) -> decltype(call()) {
  int const why = refused(of);
  if (why == 0) return call();
  errno = why;
  if constexpr (std::is_pointer_v<decltype(call())>) return nullptr;
  else return -1;
}
inline size_t halved(size_t bytes) { return halves_transfers && bytes > 1 ? bytes / 2 : bytes; }
template <class F>
F* next_definition(char const* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

inline std::atomic<long> interruptible_calls{0}, interrupted_calls{0};
inline std::atomic<int> interrupts_every{1};

// An interruption of calls of this process and of its forks: one of so many calls from here on, by chance, but always by the
// same chance. Reads and writes are short meanwhile.
struct Interruptions {
  explicit Interruptions(int every) {
    interruptible_calls = interrupted_calls = 0;
    interrupts_every = every;
    halves_transfers = true;
    call_judge = by_chance;
  }
  ~Interruptions() { end(); }
  Interruptions(Interruptions const&) = delete;
  // Ends all of them, in a fork.
  static void end() {
    call_judge = nullptr;
    halves_transfers = false;
  }

 private:
  static int by_chance(SystemCall const& call) {
    if ((call.kinds & interruptible) == 0) return 0;
    auto const chance = static_cast<unsigned long>(++interruptible_calls) * 0x9e3779b97f4a7c15u;
    if ((chance >> 40) % static_cast<unsigned long>(interrupts_every) != 0) return 0;
    ++interrupted_calls;
    return EINTR;
  }
};

}  // namespace parallax_test

#define PARALLAX_TEST_OF(kinds) __func__, parallax_test::kinds, __builtin_return_address(0)
#define PARALLAX_TEST_ASKED(kinds, ...) parallax_test::asked({PARALLAX_TEST_OF(kinds)}, [&] { return __VA_ARGS__; })
#define PARALLAX_TEST_CALL(number, ...) static_cast<int>(PARALLAX_TEST_ASKED(interruptible, syscall(number, __VA_ARGS__)))
#define PARALLAX_TEST_TRANSFER(number, ...) PARALLAX_TEST_ASKED(interruptible, ::ssize_t{syscall(number, __VA_ARGS__)})
#define PARALLAX_TEST_NEW(number, ...) static_cast<int>(PARALLAX_TEST_ASKED(makes_descriptor, syscall(number, __VA_ARGS__)))
#define PARALLAX_TEST_OPENED(number, ...) static_cast<int>(PARALLAX_TEST_ASKED(opens, syscall(number, __VA_ARGS__)))
#define PARALLAX_TEST_ADDRESS(function, ...)                                                 \
  static auto* const next = parallax_test::next_definition<decltype(::function)>(#function); \
  return parallax_test::asked({PARALLAX_TEST_OF(opens)}, [&] { return next(__VA_ARGS__); })
#define PARALLAX_TEST_MODE(flags)                                      \
  va_list arguments;                                                   \
  va_start(arguments, flags);                                          \
  mode_t const mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0; \
  va_end(arguments)

extern "C" {

// Calls that make descriptors.
int open(char const* path, int flags, ...) {
  PARALLAX_TEST_MODE(flags);
  return static_cast<int>(parallax_test::asked({PARALLAX_TEST_OF(opens), -1, flags},
                                               [&] { return syscall(SYS_openat, AT_FDCWD, path, flags, mode); }));
}
int open64(char const* path, int flags, ...) {
  PARALLAX_TEST_MODE(flags);
  return PARALLAX_TEST_OPENED(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int folder, char const* path, int flags, ...) {
  PARALLAX_TEST_MODE(flags);
  return PARALLAX_TEST_OPENED(SYS_openat, folder, path, flags, mode);
}
std::FILE* fopen(char const* path, char const* how) { PARALLAX_TEST_ADDRESS(fopen, path, how); }
std::FILE* fopen64(char const* path, char const* how) { PARALLAX_TEST_ADDRESS(fopen64, path, how); }
DIR* opendir(char const* path) { PARALLAX_TEST_ADDRESS(opendir, path); }
int socket(int family, int type, int protocol) noexcept { return PARALLAX_TEST_NEW(SYS_socket, family, type, protocol); }
int socketpair(int family, int type, int protocol, int* pair) noexcept {
  return PARALLAX_TEST_NEW(SYS_socketpair, family, type, protocol, pair);
}
int accept(int fd, sockaddr* address, socklen_t* size) { return PARALLAX_TEST_OPENED(SYS_accept4, fd, address, size, 0); }
int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return PARALLAX_TEST_OPENED(SYS_accept4, fd, address, size, flags);
}
int dup(int fd) noexcept { return PARALLAX_TEST_NEW(SYS_dup, fd); }
int pipe(int* ends) noexcept { return PARALLAX_TEST_NEW(SYS_pipe2, ends, 0); }
int pipe2(int* ends, int flags) noexcept { return PARALLAX_TEST_NEW(SYS_pipe2, ends, flags); }
int eventfd(unsigned count, int flags) noexcept { return PARALLAX_TEST_NEW(SYS_eventfd2, count, flags); }
int epoll_create(int) noexcept { return PARALLAX_TEST_NEW(SYS_epoll_create1, 0); }
int epoll_create1(int flags) noexcept { return PARALLAX_TEST_NEW(SYS_epoll_create1, flags); }
int memfd_create(char const* name, unsigned flags) noexcept { return PARALLAX_TEST_OPENED(SYS_memfd_create, name, flags); }
int shm_open(char const* name, int flags, mode_t mode) {
  static auto* const next = parallax_test::next_definition<decltype(::shm_open)>("shm_open");
  return PARALLAX_TEST_ASKED(makes_descriptor, next(name, flags, mode));
}
int getifaddrs(ifaddrs** all) noexcept {
  static auto* const next = parallax_test::next_definition<decltype(::getifaddrs)>("getifaddrs");
  return PARALLAX_TEST_ASKED(makes_descriptor, next(all));
}
// Of names; of an address in digits it needs none.
int getaddrinfo(char const* name, char const* port, addrinfo const* hints, addrinfo** found) {
  static auto* const next = parallax_test::next_definition<decltype(::getaddrinfo)>("getaddrinfo");
  bool const digits = hints && (hints->ai_flags & AI_NUMERICHOST) != 0;
  int const why = digits ? 0 : parallax_test::refused({PARALLAX_TEST_OF(makes_descriptor)});
  if (why == 0) return next(name, port, hints, found);
  errno = why;
  return EAI_SYSTEM;
}

// Calls that wait.
ssize_t read(int fd, void* bytes, size_t size) {
  return PARALLAX_TEST_TRANSFER(SYS_read, fd, bytes, parallax_test::halved(size));
}
ssize_t write(int fd, void const* bytes, size_t size) {
  return PARALLAX_TEST_TRANSFER(SYS_write, fd, bytes, parallax_test::halved(size));
}
ssize_t pread(int fd, void* bytes, size_t size, off_t at) {
  return PARALLAX_TEST_TRANSFER(SYS_pread64, fd, bytes, parallax_test::halved(size), at);
}
ssize_t pwrite(int fd, void const* bytes, size_t size, off_t at) {
  return PARALLAX_TEST_TRANSFER(SYS_pwrite64, fd, bytes, parallax_test::halved(size), at);
}
ssize_t readv(int fd, iovec const* buffers, int count) { return PARALLAX_TEST_TRANSFER(SYS_readv, fd, buffers, count); }
ssize_t writev(int fd, iovec const* buffers, int count) { return PARALLAX_TEST_TRANSFER(SYS_writev, fd, buffers, count); }
ssize_t send(int fd, void const* bytes, size_t size, int flags) {
  return PARALLAX_TEST_TRANSFER(SYS_sendto, fd, bytes, parallax_test::halved(size), flags, nullptr, 0);
}
ssize_t recv(int fd, void* bytes, size_t size, int flags) {
  return PARALLAX_TEST_TRANSFER(SYS_recvfrom, fd, bytes, parallax_test::halved(size), flags, nullptr, nullptr);
}
ssize_t sendmsg(int fd, msghdr const* message, int flags) { return PARALLAX_TEST_TRANSFER(SYS_sendmsg, fd, message, flags); }
ssize_t recvmsg(int fd, msghdr* message, int flags) { return PARALLAX_TEST_TRANSFER(SYS_recvmsg, fd, message, flags); }
int fsync(int fd) {
  return static_cast<int>(parallax_test::asked({PARALLAX_TEST_OF(interruptible), fd}, [&] { return syscall(SYS_fsync, fd); }));
}
int fdatasync(int fd) { return PARALLAX_TEST_CALL(SYS_fdatasync, fd); }
int ftruncate(int fd, off_t size) noexcept { return PARALLAX_TEST_CALL(SYS_ftruncate, fd, size); }
int flock(int fd, int how) noexcept { return PARALLAX_TEST_CALL(SYS_flock, fd, how); }
int dup2(int from, int to) noexcept { return PARALLAX_TEST_CALL(SYS_dup3, from, to, 0); }
int connect(int fd, sockaddr const* address, socklen_t size) { return PARALLAX_TEST_CALL(SYS_connect, fd, address, size); }
int close(int fd) {
  int const result = static_cast<int>(syscall(SYS_close, fd));
  return result != 0 ? result : PARALLAX_TEST_ASKED(interruptible, 0);
}
int poll(pollfd* polled, nfds_t count, int at_most) {
  timespec const limit{at_most / 1000, at_most % 1000 * 1'000'000L};
  return PARALLAX_TEST_CALL(SYS_ppoll, polled, count, at_most < 0 ? nullptr : &limit, nullptr, 0);
}
int ppoll(pollfd* polled, nfds_t count, timespec const* at_most, sigset_t const*) {
  timespec limit = at_most ? *at_most : timespec{};
  return PARALLAX_TEST_CALL(SYS_ppoll, polled, count, at_most ? &limit : nullptr, nullptr, 0);
}
int epoll_wait(int fd, epoll_event* events, int most, int at_most) {
  return PARALLAX_TEST_CALL(SYS_epoll_pwait, fd, events, most, at_most, nullptr, 0);
}
pid_t waitpid(pid_t process, int* status, int options) {
  return PARALLAX_TEST_CALL(SYS_wait4, process, status, options, nullptr);
}
int nanosleep(timespec const* time, timespec* left) {
  int const result = PARALLAX_TEST_CALL(SYS_nanosleep, time, left);
  if (result < 0 && errno == EINTR && left) *left = *time;
  return result;
}

// The call that makes threads.
int pthread_create(pthread_t* thread, pthread_attr_t const* attributes, void* (*work)(void*), void* given) noexcept {
  static auto* const next = parallax_test::next_definition<decltype(::pthread_create)>("pthread_create");
  struct Begin {
    void* (*work)(void*);
    void* given;
    int mark;
  };
  if (int const why = parallax_test::refused({PARALLAX_TEST_OF(makes_thread)})) return why;
  auto* const begin = new Begin{work, given, parallax_test::thread_mark};
  auto const marked = [](void* made) -> void* {
    Begin const its = *static_cast<Begin*>(made);
    delete static_cast<Begin*>(made);
    parallax_test::thread_mark = its.mark;
    return its.work(its.given);
  };
  int const result = next(thread, attributes, marked, begin);
  if (result != 0) delete begin;
  return result;
}

}  // extern "C"
