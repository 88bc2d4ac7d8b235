// step SECTION [--tiny]: whole steps of a session on the device, by one rank and by two that share it. Sections: bits,
// variations, times. Prints one JSON object a line, and one that says why for a shape that fails: the others are run all the
// same.
#include <string_view>

#include "parallax/comm/cuda_thread.hpp"
#include "parallax/comm/staged.hpp"
#include "parallax/comm/thread.hpp"
#include "training.hpp"

namespace {

namespace px = parallax;
using gpu_check::Shape;

constexpr Shape shapes[] = {{800'000, 128, 2'560, "uniform"},
                            {800'000, 128, 2'560, "zipf"},
                            {1'000'000, 64, 100'000, "uniform"},
                            {1'000'000, 64, 100'000, "zipf"}};

Shape small(Shape const& shape) { return {shape.rows / 1000, shape.width / 16, shape.ids / 500, shape.distribution, 50}; }

// Whether `body(communicator, shape)` is true for all numbers of ranks and shapes, whose tables have at most `rows` rows.
template <class Body>
bool all_of_them(std::int64_t rows, bool tiny, Body const& body) {
  bool all = true;
  for (int const ranks : {1, 2})
    for (Shape shape : shapes) {
      shape.rows = std::min(shape.rows, rows);
      if (tiny) shape = small(shape);
      auto const on_rank = [&](px::CudaThreadCommunicator& world) {
        bool const right = body(world, shape);
        if (world.rank() == 0) all = all && right;
      };
      try {
        px::run_cuda_threads(ranks, on_rank, {std::chrono::seconds{15}});
      } catch (std::exception const& error) {
        all = false;
        gpu_check::print_object("\"failed\": " + gpu_check::json_string(error.what()) + ", " +
                                gpu_check::shape_text(ranks, "threads", shape));
      }
    }
  return all;
}

// Of tables small enough for the host to fill them quickly.
bool bits(bool tiny) {
  return all_of_them(200'000, tiny, [](px::CudaThreadCommunicator& world, Shape const& shape) {
    return training_has_host_bits(world, "threads", shape);
  });
}

// What else there is, by threads that share the device, and by the host's memory; of one small shape.
bool variations(bool tiny) {
  Shape const full{50'000, 128, 2'560, "zipf", 1 << 16}, shape = tiny ? small(full) : full;
  bool all = true;
  for (int const ranks : {1, 2}) {
    auto const try_over = [&](char const* over, auto const& run) {
      try {
        run([&](auto& world) {
          bool const right = everything_has_host_bits(world, over, shape);
          if (world.rank() == 0) all = all && right;
        });
      } catch (std::exception const& error) {
        all = false;
        gpu_check::print_object("\"failed\": " + gpu_check::json_string(error.what()) + ", " +
                                gpu_check::shape_text(ranks, over, shape));
      }
    };
    px::ThreadOptions const options{std::chrono::seconds{15}};
    try_over("threads", [&](auto const& body) { px::run_cuda_threads(ranks, body, options); });
    try_over("host memory", [&](auto const& body) {
      px::run_threads(
          ranks,
          [&](px::ThreadCommunicator& host) {
            px::CudaPool pool;
            px::CudaStream const stream;
            px::Staged<px::ThreadCommunicator> world{host, {stream.get(), pool}};
            body(world);
          },
          options);
    });
  }
  return all;
}

bool times(bool tiny) {
  return all_of_them(1'000'000, tiny, [&](px::CudaThreadCommunicator& world, Shape const& shape) {
    print_step_times<false>(world, "threads", shape, tiny ? 3 : 21, tiny ? 2 : 8);
    print_step_times<true>(world, "threads", shape, tiny ? 3 : 21, tiny ? 2 : 8);
    return true;
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const section = argc > 1 ? argv[1] : "";
  bool const tiny = argc > 2 && std::string_view{argv[2]} == "--tiny";
  if (!gpu_check::device_answers()) return 77;
  if (section == "bits") return bits(tiny) ? 0 : 1;
  if (section == "variations") return variations(tiny) ? 0 : 1;
  if (section == "times") return times(tiny) ? 0 : 1;
  return 2;
}
