// Calls of files that a signal interrupts are made again, a mount's lacks are done without, and a file that is too long is
// refused: the program's own definitions of the calls fail.
#include "../support/failing_calls.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "../catch.hpp"
#include "parallax/detail/interop/file.hpp"
#include "scratch.hpp"

namespace {

// Interruptions that are still to come, of each call.
int of_open = 0, of_fsync = 0;
// A mount's answers to O_EXCL, to opening a folder, to a folder's fsync and to a file's; 0: it has that.
int for_exclusive = 0, for_folder = 0, for_names = 0, for_bytes = 0;

int answer(parallax_test::SystemCall const& call) {
  std::string_view const name = call.name;
  struct ::stat status {};
  if (name == "ftruncate") return ENOSYS;  // no file needs it
  if (name != "open" && name != "fsync") return 0;
  if (int& left = name == "open" ? of_open : of_fsync; left > 0) return --left, EINTR;
  if (name == "open") return call.flags & O_EXCL ? for_exclusive : call.flags & O_DIRECTORY ? for_folder : 0;
  ::fstat(call.fd, &status);
  return S_ISDIR(status.st_mode) ? for_names : for_bytes;
}
[[maybe_unused]] bool const answers = (parallax_test::call_judge = answer, true);

// Returns the contents of the file after it was written anew; or the error's words.
std::string written(std::string const& path, std::string const& text) {
  try {
    parallax::NewFile file{path, text.size()};
    for (std::size_t i = text.size(); i-- > 0;) file.write(i, std::as_bytes(std::span{text}.subspan(i, 1)));
    file.finish();
    parallax::MappedFile const mapped{path};
    return {reinterpret_cast<char const*>(mapped.bytes().data()), mapped.bytes().size()};
  } catch (parallax::FileError const& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a file that a signal interrupts is made and opened all the same", "[interop][file]") {
  parallax_test::Scratch const scratch;
  std::string const path = scratch.path("file"), text = "hello";
  of_open = 2;
  parallax::NewFile file{path, text.size()};
  CHECK(of_open == 0);
  file.write(0, std::as_bytes(std::span{text}));
  of_fsync = 2, of_open = 1;
  file.finish();
  CHECK(of_fsync + of_open == 0);
  of_open = 2;
  parallax::MappedFile const mapped{path};
  CHECK(of_open == 0);
  CHECK(mapped.bytes().size() == text.size());
}

TEST_CASE("the folder of a new file is brought to the disk although a signal interrupts that", "[interop][file]") {
  parallax_test::Scratch const scratch;
  parallax::NewFile file{scratch.path("file"), 0};
  of_fsync = 3;  // of the file and of its folder
  file.finish();
  CHECK(of_fsync == 0);
}

TEST_CASE("a mount without ftruncate, O_EXCL or names on the disk has whole files all the same", "[interop][file]") {
  parallax_test::Scratch const scratch;
  std::string const path = scratch.path("file");
  std::string text = "a";
  for (int* const lacking : {&for_exclusive, &for_folder, &for_names})
    for (int const code : {EINVAL, ENOSYS, EOPNOTSUPP}) {
      *lacking = code;
      text += "b";
      CHECK(written(path, text) == text);
      *lacking = 0;
    }
  for_folder = EACCES;
  CHECK(written(path, text + "c") == text + "c");
  for_folder = 0;
}

TEST_CASE("what goes wrong on a disk is an error that names the call", "[interop][file]") {
  parallax_test::Scratch const scratch;
  std::string const path = scratch.path("file");
  auto const folder = path.substr(0, path.rfind('/') + 1);
  auto const text_of = [](int code) { return std::generic_category().message(code); };
  for (int const code : {EIO, ENOSPC, EDQUOT}) {
    for_names = code;
    CHECK(written(path, "text") == folder + ": fsync: " + text_of(code));
    for_names = 0;
    for_bytes = code;
    CHECK(written(path, "text") == path + ".part: fsync: " + text_of(code));
    for_bytes = 0;
  }
  for_folder = EMFILE;  // which says nothing of the mount
  CHECK(written(path, "text") == folder + ": open: " + text_of(EMFILE));
  for_folder = 0, for_exclusive = EACCES;
  CHECK(written(path, "text") == path + ".part: open: " + text_of(EACCES));
  for_exclusive = 0, for_bytes = EINVAL;  // bytes that are on no disk are none
  CHECK(written(path, "text") == path + ".part: fsync: " + text_of(EINVAL));
  for_bytes = 0;
}

TEST_CASE("a file beyond the limit of the process is an error, and no signal", "[interop][file]") {
  parallax_test::Scratch const scratch;
  std::string const path = scratch.path("file");
  REQUIRE(written(path, "before") == "before");
  pid_t const process = ::fork();
  if (process == 0) {
    auto const limited = [](rlim_t bytes) {
      ::rlimit const limit{bytes, 2000};
      return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
    };
    std::string const fits(1000, 'a'), long_text(1500, 'b'), refused = path + ".part: pwrite: File too large";
    bool right = limited(1000) && written(path, fits) == fits && written(path, long_text) == refused && limited(2000);
    try {
      parallax::NewFile file{path, long_text.size()};
      right = right && limited(1000);
      file.write(0, std::as_bytes(std::span{long_text}));  // of which a part fits now
      right = false;
    } catch (parallax::FileError const& error) {
      right = right && error.code() == EFBIG && error.what() == refused;
    }
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  CHECK(status == 0);
  CHECK(parallax::MappedFile{path}.bytes().size() == 1000);  // the one that fitted, and is not replaced
  CHECK_FALSE(std::filesystem::exists(path + ".part"));
}
