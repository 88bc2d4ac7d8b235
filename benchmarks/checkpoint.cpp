// A checkpoint beside plain pwrite and pread of as many bytes, by as many threads, with fsync: two large tables, and a thousand small
// tensors. Files lie below the folder that TMPDIR names, which should be on a disk.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr int ranks = 2;
constexpr std::size_t call_bytes = std::size_t{1} << 20;

struct Large {
  Large(px::ThreadCommunicator& world, bool smoke, float initial)
      : session{world},
        words{session, "words", {smoke ? 1'000 : 300'000, 64, px::uniform(initial, 1, 3)}},
        softmax{session, "softmax", {smoke ? 1'000 : 300'000, 64, px::uniform(initial, 1, 4)}} {}
  auto with(auto&& operation) { return operation(words, softmax); }
  double sum() {
    double sum = 0;
    for (auto const rows : {words.local(), softmax.local(), words.slot("m")})
      for (std::int64_t i = 0; i < rows.rows; ++i) sum += static_cast<double>(rows.row(i)[i % 64]);
    return sum;
  }

  px::Session<px::ThreadCommunicator> session;
  px::Variable<px::Sparse, px::LazyAdam> words, softmax;
};

struct Small {
  Small(px::ThreadCommunicator& world, bool smoke, float initial) : session{world}, memory(smoke ? 20 : 1'000) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
      memory[i].assign(4'096, initial + static_cast<float>(i));
      tensors.emplace_back(session, "tensor " + std::to_string(i), px::bind(memory[i]));
    }
  }
  auto with(auto&& operation) { return operation(tensors); }
  double sum() {
    double sum = 0;
    for (auto const& values : memory) sum += static_cast<double>(values[values.size() / 2]);
    return sum;
  }

  px::Session<px::ThreadCommunicator> session;
  std::vector<std::vector<float>> memory;
  std::vector<px::Variable<px::Dense, px::Momentum>> tensors;
};

void must(bool right, char const* what) {
  if (!right) std::perror(what), std::exit(1);
}

// A rank's file by plain calls.
struct Plain {
  Plain(std::string folder, int rank, std::size_t size) : path{folder + "/plain-" + std::to_string(rank)}, bytes(size) {
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 >> 3);
  }
  void write() {
    ::unlink(path.c_str());
    int const file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    must(file >= 0, "open");
    for (std::size_t at = 0; at < bytes.size(); at += call_bytes) {
      std::size_t const count = std::min(call_bytes, bytes.size() - at);
      must(::pwrite(file, bytes.data() + at, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count), "pwrite");
    }
    must(::fsync(file) == 0, "fsync");
    ::close(file);
  }
  void read() {
    int const file = ::open(path.c_str(), O_RDONLY);
    must(file >= 0, "open");
    for (std::size_t at = 0; at < bytes.size(); at += call_bytes) {
      std::size_t const count = std::min(call_bytes, bytes.size() - at);
      must(::pread(file, bytes.data() + at, count, static_cast<off_t>(at)) == static_cast<ssize_t>(count), "pread");
    }
    ::close(file);
  }

  std::string path;
  std::vector<std::byte> bytes;
};

// Takes the files below a folder out of memory.
void forget(std::string const& folder) {
  for (auto const& entry : std::filesystem::recursive_directory_iterator{folder}) {
    if (!entry.is_regular_file()) continue;
    int const file = ::open(entry.path().c_str(), O_RDONLY);
    must(file >= 0, "open");
    must(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
    ::close(file);
  }
}

// Bytes that this process has asked files for.
double bytes_read() {
  std::FILE* const file = std::fopen("/proc/self/io", "r");
  long long bytes = 0;
  must(file && std::fscanf(file, "rchar: %lld", &bytes) == 1, "/proc/self/io");
  std::fclose(file);
  return static_cast<double>(bytes);
}

// MiB of this process: resident now, or at most since `begin_peak`.
void begin_peak() {
  std::FILE* const file = std::fopen("/proc/self/clear_refs", "w");
  must(file && std::fputs("5", file) >= 0 && std::fclose(file) == 0, "/proc/self/clear_refs");
}
double resident(char const* field) {
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  must(file != nullptr, "/proc/self/status");
  char line[256];
  long kib = -1;
  while (kib < 0 && std::fgets(line, sizeof(line), file))
    if (std::string_view{line}.starts_with(field)) kib = std::atol(line + std::string_view{field}.size());
  std::fclose(file);
  return static_cast<double>(kib) / 1024;
}

// The median of rank 0's seconds of each contender, in turn, all ranks together. `before` is not counted.
template <class Before, class... Run>
std::vector<double> medians(px::ThreadCommunicator& world, int rounds, Before&& before, Run&&... runs) {
  std::vector<std::vector<double>> took(sizeof...(Run));
  for (int round = -1; round < rounds; ++round) {
    std::size_t number = 0;
    auto const time = [&](auto& run) {
      if (world.rank() == 0) before();
      px::barrier(world);
      auto const begin = std::chrono::steady_clock::now();
      run();
      px::barrier(world);
      std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
      if (round >= 0) took[number].push_back(seconds.count());
      ++number;
    };
    (time(runs), ...);
  }
  std::vector<double> result;
  for (auto& each : took) {
    std::nth_element(each.begin(), each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2), each.end());
    result.push_back(each[each.size() / 2]);
  }
  return result;
}

template <class Trainer>
void checkpoint(measure::Report& report, measure::Options const& options, std::string const& name, std::string const& folder) {
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    Trainer trainer{world, options.smoke, 1}, other{world, options.smoke, 5};
    auto const save = [&] { trainer.with([&](auto&... things) { trainer.session.save(folder, {.keep = 1}, things...); }); };
    auto const save_async = [&] {
      trainer.with([&](auto&... things) { trainer.session.save_async(folder, {.keep = 1}, things...); });
    };
    auto const restore = [&] { other.with([&](auto&... things) { other.session.restore(folder, {}, things...); }); };
    save();
    std::size_t bytes = 0;
    for (auto const& entry : std::filesystem::recursive_directory_iterator{folder})
      if (entry.is_regular_file()) bytes += static_cast<std::size_t>(entry.file_size());
    px::barrier(world);
    Plain plain{folder, world.rank(), bytes / ranks};
    std::vector<std::byte> copy(plain.bytes.size());
    auto const write = [&] { plain.write(); };
    auto const read = [&] { plain.read(); };
    auto const written = medians(
        world, options.rounds, [] {}, write, save, [&] { write(); });
    px::barrier(world);
    double const before = world.rank() == 0 ? bytes_read() : 0, held = resident("VmRSS:");
    if (world.rank() == 0) begin_peak();
    px::barrier(world);
    restore();
    px::barrier(world);
    double const taken = (resident("VmHWM:") - held) / ranks;
    double const share = world.rank() == 0 ? (bytes_read() - before) / static_cast<double>(bytes) : 0;
    px::barrier(world);
    auto const cold = medians(
        world, options.rounds, [&] { forget(folder); }, read, restore);
    auto const hot = medians(
        world, options.rounds, [] {}, read, restore);
    save_async();  // takes its memory
    auto const copied = medians(
        world, options.rounds, [] {}, [&] { std::copy(plain.bytes.begin(), plain.bytes.end(), copy.begin()); }, save_async,
        [&] { trainer.session.finish(); });
    std::vector<double> wrong{trainer.sum() == other.sum() ? 0.0 : 1.0};
    px::allreduce(world, std::span{wrong});
    other.session.finish();
    if (world.rank() != 0) return;
    double const goal = std::same_as<Trainer, Large> ? 0.8 : 0;  // a thousand names and some twenty fsyncs are no bytes
    std::string const what = name + ", " + std::to_string(bytes / 1'000'000) + " MB: ";
    report.line(what + "plain, against itself", written[2], "pwrite and fsync", written[0]);
    report.line(what + "save", written[1], "pwrite and fsync", written[0], goal);
    report.line(what + "restore", cold[1], "pread", cold[0], goal);
    report.line(what + "restore, files in memory", hot[1], "pread", hot[0]);
    report.line(what + "save_async, its pause", copied[1], "copy of the bytes", copied[0]);
    report.result(name, wrong[0] == 0);
    std::printf("%sa restore has read %.3f of the bytes, of at most 1.05\n", what.c_str(), share);
    report.result(name + ", bytes read", options.smoke || share <= 1.05);
    std::printf("%sa restore has taken %.1f MiB a rank beside the tables, of at most 64\n", what.c_str(), taken);
    report.result(name + ", memory", taken <= 64);
  });
}

// Steps of one rank, with a core left for the thread that writes: the 99th of a hundred, without saves and beside one after the
// other, and the one in which the cut is taken. The promise is 1.05 times the step, and a copy of the rank's shard.
void steps_beside(measure::Report& report, measure::Options const& options, std::string const& folder) {
  px::SelfCommunicator world;
  px::Session session{world};
  std::int64_t const rows = options.smoke ? 1'000 : 100'000;
  int const steps = options.smoke ? 20 : 2'000;
  px::Variable<px::Sparse, px::LazyAdam> words{session, "words", {rows, 64, px::uniform(0, 1, 3)}};
  std::vector<std::int64_t> ids(1'000);
  std::vector<float> const gradient(ids.size() * 64, 0.25f);
  std::vector<float> const shard(static_cast<std::size_t>(rows) * 64 * 3, 0.5f);  // the table, m and v
  std::vector<float> copy(shard.size());
  int saves = 0;
  std::vector<double> cuts, copies;
  auto const seconds_since = [](std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>{std::chrono::steady_clock::now() - begin}.count();
  };
  auto const run = [&](bool saving) {
    std::vector<double> took;
    for (int step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<std::int64_t>(i * 7919 + static_cast<std::size_t>(step) * 31) % rows;
      bool const cuts_here = saving && step % 250 == 0;
      if (cuts_here) session.finish();  // the save before has ended
      auto const begin = std::chrono::steady_clock::now();
      if (cuts_here) session.save_async(folder, {.keep = 1}, words), ++saves;
      auto const pulled = session.pull(words, ids);
      session.step(px::grad(pulled, gradient));
      took.push_back(seconds_since(begin));
      if (cuts_here) cuts.push_back(took.back());
    }
    session.finish();
    std::sort(took.begin(), took.end());
    return took[took.size() * 99 / 100];
  };
  std::vector<std::vector<double>> of(3);
  for (int round = -1; round < options.rounds; ++round) {
    if (round == 0) cuts.clear(), copies.clear();
    for (int who = 0; who < 3; ++who) {
      double const seconds = run(who == 1);
      if (round >= 0) of[static_cast<std::size_t>(who)].push_back(seconds);
    }
    auto const begin = std::chrono::steady_clock::now();
    std::copy(shard.begin(), shard.end(), copy.begin());
    copies.push_back(seconds_since(begin));
  }
  auto const median = [](std::vector<double> each) {
    std::sort(each.begin(), each.end());
    return each[each.size() / 2];
  };
  double const without = median(of[0]), beside = median(of[1]), promised = 1.05 * without + median(copies);
  report.line("99th of 100 steps, against itself", median(of[2]), "without saves", without);
  report.line("99th of 100 steps, beside saves", beside, "without saves", without);
  report.line("99th of 100 steps, beside saves", beside, "1.05 x, and a copy", promised, 1);
  report.line("a step in which the cut is taken", median(cuts), "1.05 x, and a copy", promised);
  report.result("steps beside saves", saves > 0 && copy == shard && px::detail::generations_in(folder).size() == 1);
}

}  // namespace

int main(int argc, char** argv) {
  measure::Options const options{argc, argv};
  measure::Report report{options};
  std::string folder = (std::filesystem::temp_directory_path() / "parallax-checkpoint-XXXXXX").string();
  must(::mkdtemp(folder.data()) != nullptr, "mkdtemp");
  checkpoint<Large>(report, options, "two tables", folder + "/large");
  checkpoint<Small>(report, options, options.smoke ? "20 tensors" : "1,000 tensors", folder + "/small");
  steps_beside(report, options, folder + "/beside");
  std::filesystem::remove_all(folder);
  return report.exit_code();
}
