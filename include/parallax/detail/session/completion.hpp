// The proof that a run came to its end on every rank: `Session::finish` makes it, and a launcher reads its file.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/version.hpp"

namespace parallax::inline v0_2 {

// Work of one rank in its session until it finished.
struct RankRecord {
  // Steps applied.
  std::int64_t steps = 0;
  // Collective operations begun, `finish` included.
  std::uint64_t operations = 0;
  // Bytes of payload, all but control words, from this rank to other ranks in the session.
  std::uint64_t sent = 0, received = 0;  // bytes likewise from other ranks
};

// Result of `finish`: the records of all ranks, alike on all of them. A launcher's exit status proves less: mpiexec may return
// 0 for a job with a rank that left half way. If this exists, none did.
struct Completion {
  // Rank of this copy.
  int rank = 0;
  // One for each rank, by its number.
  List<RankRecord> records;

  // Local. Returns one JSON object in one line: the library's version, the number of ranks, and their records in order.
  std::string text() const {
    std::string text = joined({"{\"parallax\": \"" PARALLAX_VERSION "\", \"ranks\": ", records.size(), ", \"records\": ["});
    for (std::size_t r = 0; r < records.size(); ++r) {
      RankRecord const& record = records[r];
      append(text, {r > 0 ? ", " : "", "{\"steps\": ", record.steps, ", \"operations\": ", record.operations,
                    ", \"bytes_sent\": ", record.sent, ", \"bytes_received\": ", record.received, '}'});
    }
    return text += "]}\n";
  }

  // Local. Writes, on rank 0 only, the text to `path`, whole or not at all. Throws Error (invalid_argument) if it cannot be
  // written, with the name of the failed call and the reason; then nothing is left of the file.
  void save(std::string const& path) const {
    if (rank != 0) return;
    std::string const draft = joined({path, ".part"}), all = text();
    auto const write = [&] {  // returns the name of the call that fails and has set errno
      std::FILE* const file = std::fopen(draft.c_str(), "wb");
      if (!file) return "open";
      bool const written = std::fwrite(all.data(), 1, all.size(), file) == all.size();
      int const code = errno;
      bool const closed = std::fclose(file) == 0;
      if (!written) errno = code;
      return !written ? "write" : !closed ? "close" : std::rename(draft.c_str(), path.c_str()) != 0 ? "rename" : nullptr;
    };
    char const* call;
    do call = write();
    while (call && errno == EINTR);
    if (!call) return;
    std::string const why = std::strerror(errno);
    if (std::string_view{call} != "open") std::remove(draft.c_str());
    throw Error{Errc::invalid_argument, rank, "save", "",
                joined({"the record of completion cannot be written to ", path, ": ", call, ": ", why})};
  }
};

}  // namespace parallax
