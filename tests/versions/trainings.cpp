// Trains with each part named, in this order, and prints a line for each: trainings NAME..., of parts that are linked, whose list is
// PARTS; or trainings local|global (NAME LIBRARY)..., of parts that are loaded; or trainings mpi NAME [NAME [FAULT]], of linked parts on
// all ranks of MPI, the second one inside of the first.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "load.hpp"

#if defined(PARTS)
#define PART(name) extern "C" Part const name;
PARTS
#undef PART
#endif

namespace {

Part const& linked([[maybe_unused]] char const* wanted) {
#if defined(PARTS)
#define PART(name) \
  if (std::strcmp(wanted, #name) == 0) return name;
  PARTS
#undef PART
#endif
  std::fprintf(stderr, "there is no part %s\n", wanted);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2 && std::strcmp(argv[1], "mpi") == 0) {
    std::string const line =
        linked(argv[2]).train_by_mpi(argc > 3 ? &linked(argv[3]) : nullptr, argc > 4 ? argv[4] : "") + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);  // at once: lines of ranks stay whole
    return 0;
  }
  bool const loads = argc > 1 && (std::strcmp(argv[1], "local") == 0 || std::strcmp(argv[1], "global") == 0);
  int const flags = loads && argv[1][0] == 'g' ? RTLD_GLOBAL : RTLD_LOCAL;
  for (int i = loads ? 2 : 1; i < argc; i += loads ? 2 : 1)
    std::printf("%s\n", (loads ? loaded(argv[i + 1], argv[i], flags) : linked(argv[i])).train().c_str());
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
