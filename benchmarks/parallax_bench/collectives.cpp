// parallax-bench collectives: px::reduce_scatter, px::allgatherv and px::alltoallv by size, beside MPI's own, in the columns of
// nccl-tests.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "commands.hpp"
#include "measured.hpp"
#ifdef PARALLAX_HAS_MPI
#include <mpi.h>
#endif

namespace bench {

namespace {

enum class Kind : unsigned char { reduce_scatter, allgather, alltoallv };
constexpr std::string_view kind_names[] = {"reduce_scatter", "allgather", "alltoallv"};

// What one rank sends and receives: `count` elements in all, as nccl-tests count them, of which each rank has or gets an equal
// share. Small whole numbers, so that sums are exact.
template <class T>
class Exchange {
 public:
  Exchange(World const& world, std::size_t count)
      : comm_{&world.comm}, ranks_{at(world.comm.size())}, rank_{at(world.comm.rank())}, share_{count / ranks_} {
    for (std::size_t i = 0; i < count; ++i) whole_.push_back(value(rank_, i));
    part_.assign(share_, T{});
    all_.assign(count, T{});
    counts_.assign(ranks_, share_);
  }

  void ours(Kind kind) {
    std::span<T const> const whole{whole_}, own = whole.first(share_);
    if (kind == Kind::reduce_scatter) px::reduce_scatter<T>(*comm_, whole, part_);
    else if (kind == Kind::allgather) px::allgatherv<T>(*comm_, own, all_, counts_);
    else px::alltoallv<T>(*comm_, whole, counts_, all_, counts_);
  }
#ifdef PARALLAX_HAS_MPI
  void by_mpi(Kind kind) {
    MPI_Datatype const type = std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE;
    int const share = static_cast<int>(share_);
    std::vector<int> const counts(ranks_, share);
    std::vector<int> begins;
    for (std::size_t rank = 0; rank < ranks_; ++rank) begins.push_back(static_cast<int>(rank * share_));
    if (kind == Kind::reduce_scatter)
      MPI_Reduce_scatter(whole_.data(), part_.data(), counts.data(), type, MPI_SUM, MPI_COMM_WORLD);
    else if (kind == Kind::allgather)
      MPI_Allgatherv(whole_.data(), share, type, all_.data(), counts.data(), begins.data(), type, MPI_COMM_WORLD);
    else
      MPI_Alltoallv(whole_.data(), counts.data(), begins.data(), type, all_.data(), counts.data(), begins.data(), type,
                    MPI_COMM_WORLD);
  }
#endif

  // How many elements are not what they must be; forgets them.
  std::int64_t wrong(Kind kind) {
    std::int64_t wrong = 0;
    if (kind == Kind::reduce_scatter) {
      for (std::size_t i = 0; i < share_; ++i) {
        T sum{};
        for (std::size_t rank = 0; rank < ranks_; ++rank) sum += value(rank, rank_ * share_ + i);
        wrong += part_[i] != sum;
      }
    } else {
      for (std::size_t rank = 0; rank < ranks_; ++rank)
        for (std::size_t i = 0; i < share_; ++i)
          wrong += all_[rank * share_ + i] != value(rank, kind == Kind::allgather ? i : rank_ * share_ + i);
    }
    std::fill(part_.begin(), part_.end(), T{});
    std::fill(all_.begin(), all_.end(), T{});
    return wrong;
  }

 private:
  static T value(std::size_t rank, std::size_t i) { return static_cast<T>((3 * rank + i) % 61); }

  px::AnyCommunicator* comm_;
  std::size_t ranks_, rank_, share_;
  std::vector<T> whole_, part_, all_;
  std::vector<std::size_t> counts_;
};

// By method: how many elements were wrong, and the times of every block, ours first. Blocks of both in turn.
template <class T>
std::vector<Ranks::Numbers> exchange(Ranks& ranks, Kind kind, std::size_t count, Schedule const& plan, Progress& progress) {
  std::size_t const methods = ranks.has_vendor() ? 2 : 1;
  return ranks.run([&](World const& world) {
    Exchange<T> exchange{world, count};
    auto const once = [&]([[maybe_unused]] std::size_t method) {
#ifdef PARALLAX_HAS_MPI
      if (method == 1) return exchange.by_mpi(kind);
#endif
      exchange.ours(kind);
    };
    std::vector<Ranks::Numbers> of(methods, Ranks::Numbers(1));
    for (std::size_t m = 0; m < methods; ++m) {
      for (int step = 0; step < std::max(plan.warmup, 1); ++step) once(m);
      if (plan.check) of[m][0] = real(exchange.wrong(kind));
    }
    for (int block = 0; block < plan.blocks(); ++block)
      for (std::size_t m = 0; m < methods; ++m) {
        px::barrier(world.comm);
        double const begin = seconds_now(world.comm);
        for (int step = 0; step < plan.block; ++step) once(m);
        of[m].push_back((seconds_now(world.comm) - begin) / plan.block);
        if (world.comm.rank() == 0) progress.advance();
      }
    Ranks::Numbers numbers;
    for (auto const& of_method : of) numbers.insert(numbers.end(), of_method.begin(), of_method.end());
    return numbers;
  });
}

template <class T>
void run_collectives(Run const& run) {
  auto const& [options, environment, ranks, report, progress, recorded, prints] = run;
  double const n = ranks.size(), bus = (n - 1) / n;
  std::string const type = sizeof(T) == 4 ? "float" : "double";
  Table table{"collectives on " + std::to_string(ranks.size()) + " ranks; busbw = algbw * (N-1)/N",
              {{"size(B)", 11},
               {"count", 10},
               {"type", 6, true},
               {"method", 20, true},
               {"time(us)", 10},
               {"p10", 9},
               {"p90", 9},
               {"algbw(GB/s)", 8},
               {"busbw(GB/s)", 8},
               {"#wrong", 6}},
              prints,
              progress};
  std::vector<Line> speed;
  std::vector<std::string> quickest;  // by kind, of the largest size
  std::size_t largest = 0;
  for (std::size_t k = 0; k < std::size(kind_names); ++k) {
    std::string const name{kind_names[k]};
    std::vector<std::string> names{"px::" + name + (name == "allgather" ? "v" : "")};
    if (ranks.has_vendor()) names.push_back(k == 0 ? "MPI_Reduce_scatter" : k == 1 ? "MPI_Allgatherv" : "MPI_Alltoallv");
    std::vector<Line> of_kind;
    for (auto const& method : names) of_kind.push_back({method, {}});
    quickest.emplace_back();
    for (std::size_t size = options.begin; size <= options.end; size *= options.factor) {
      std::size_t const share = std::max<std::size_t>(size / sizeof(T) / at(ranks.size()), 1);
      std::size_t const count = share * at(ranks.size()), bytes = count * sizeof(T);
      int const suited =
          options.smoke ? 2 : static_cast<int>(std::clamp<std::size_t>((std::size_t{64} << 20) / bytes, 10, 1000));
      int const steps = options.iterations ? options.iterations : suited;
      Schedule const plan{steps, options.warmup, (steps + 4) / 5, options.check};
      progress.begin(name + ", " + std::to_string(bytes) + " bytes", plan.blocks() * static_cast<int>(names.size()));
      auto const results = exchange<T>(ranks, static_cast<Kind>(k), count, plan, progress);
      std::vector<Contender> contenders;
      for (std::size_t m = 0; m < names.size(); ++m) {
        std::vector<double> slowest(at(plan.blocks()));
        std::int64_t wrong = 0;
        for (auto const& of_rank : results) {
          double const* const found = of_rank.data() + m * (slowest.size() + 1);
          wrong += static_cast<std::int64_t>(found[0]);
          for (std::size_t block = 0; block < slowest.size(); ++block)
            slowest[block] = std::max(slowest[block], found[1 + block]);
        }
        Summary const seconds = summary_of(slowest);
        double const algbw = real(bytes) / seconds.median / 1e9;
        contenders.push_back({names[m], seconds});
        table.row({std::to_string(bytes), std::to_string(count), type, names[m], fixed(seconds.median * 1e6, 2),
                   fixed(seconds.low * 1e6, 2), fixed(seconds.high * 1e6, 2), fixed(algbw, 3), fixed(algbw * bus, 3),
                   options.check ? std::to_string(wrong) : "N/A"});
        of_kind[m].points.emplace_back(real(bytes), algbw * bus);
        report.wrong(wrong);
        report.add({{"command", "collectives"},
                    {"method", names[m]},
                    {"size_bytes", static_cast<std::int64_t>(bytes)},
                    {"count", static_cast<std::int64_t>(count)},
                    {"type", type},
                    {"time_us", seconds.median * 1e6},
                    {"time_p10_us", seconds.low * 1e6},
                    {"time_p90_us", seconds.high * 1e6},
                    {"algbw_GBps", algbw},
                    {"busbw_GBps", algbw * bus},
                    {"wrong", wrong}});
      }
      Fastest const fastest{contenders};
      quickest.back() =
          said_time(fastest.winner.value.median) + " by " + fastest.winner.name + (fastest.names.size() > 1 ? " (a tie)" : "");
      largest = bytes;
    }
    for (Line const& line : of_kind) {
      double sum = 0;
      for (auto const& point : line.points) sum += point.second;
      if (prints) print_line("# avg bus bandwidth of " + line.name + ": " + fixed(sum / real(line.points.size()), 3) + " GB/s");
      speed.push_back(line);
    }
  }
  report.found(said(real(largest)) + " bytes take " + listed(quickest) +
               (ranks.has_vendor() ? ": the quicker ones of px's and MPI's." : "."));
  report.section({line_chart("Bus bandwidth", "size (bytes)", "busbw (GB/s)", 2, false, speed)}, table);
}

[[maybe_unused]] bool const here =
    bring("collectives", [](Run const& run) { for_scalar(run.options, [&]<class T>(T) { run_collectives<T>(run); }); });

}  // namespace

}  // namespace bench
