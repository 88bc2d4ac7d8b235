// Calls of the system that go on after an interruption by a signal, and questions to ask before the system would answer by a
// signal. For the headers that call it: files (detail/interop/file.hpp), memory of a host (detail/memory/nameless_file.hpp),
// sockets and pipes (comm).
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/uninterrupted.hpp"

namespace parallax::inline v0_2::detail {

// Opens a file that no started program inherits. Returns its descriptor, which the caller closes, or -1, with errno.
int open_descriptor(char const* path, int flags, ::mode_t mode = 0) noexcept;

// Makes a file that is not there. If a mount refuses O_EXCL itself, as some of FUSE do, makes it without: a file made meanwhile
// by somebody else is then emptied. Returns its descriptor, which the caller closes, or -1, with errno.
int make_descriptor(char const* path, int flags, ::mode_t mode) noexcept;

// Returns true if a file of this process may have so many bytes. A process that makes it longer than RLIMIT_FSIZE is ended by
// SIGXFSZ. A process can ask before, and say EFBIG. Of bytes across the limit the system writes the part before it.
bool may_have_bytes(std::uint64_t bytes) noexcept;

// Reads until there is no more, or no room, waiting. Returns the number of bytes read, or -1, with errno.
::ssize_t read_all(int from, void* to, std::size_t room) noexcept;

// Writes all, waiting. Returns true if the system took all; false, with errno, if it took a part or nothing.
bool write_all(int to, void const* from, std::size_t bytes) noexcept;

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/core/system-inl.hpp"
#endif
