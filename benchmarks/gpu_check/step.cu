// step SECTION [--tiny]: whole steps of a session on the device, by one rank and by two that share it. Sections: bits, times.
// Prints one JSON object a line.
#include <string_view>

#include "parallax/comm/cuda_thread.hpp"
#include "training.hpp"

namespace {

namespace px = parallax;
using gpu_check::Shape;

constexpr Shape shapes[] = {{800'000, 128, 2'560, "uniform"},
                            {800'000, 128, 2'560, "zipf"},
                            {1'000'000, 64, 100'000, "uniform"},
                            {1'000'000, 64, 100'000, "zipf"}};

Shape small(Shape const& shape) { return {shape.rows / 1000, shape.width / 16, shape.ids / 500, shape.distribution, 50}; }

// Of a table small enough for the host to fill it quickly.
bool bits(bool tiny) {
  bool all = true;
  for (int const ranks : {1, 2})
    for (Shape shape : shapes) {
      shape.rows = 200'000;
      if (tiny) shape = small(shape);
      px::run_cuda_threads(ranks, [&](px::CudaThreadCommunicator& world) {
        bool const right = training_has_host_bits(world, "threads", shape);
        if (world.rank() == 0) all = all && right;
      });
    }
  return all;
}

void times(bool tiny) {
  for (int const ranks : {1, 2})
    for (Shape shape : shapes) {
      if (tiny) shape = small(shape);
      px::run_cuda_threads(ranks, [&](px::CudaThreadCommunicator& world) {
        print_step_times<false>(world, "threads", shape, tiny ? 3 : 21, tiny ? 2 : 8);
        print_step_times<true>(world, "threads", shape, tiny ? 3 : 21, tiny ? 2 : 8);
      });
    }
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const section = argc > 1 ? argv[1] : "";
  bool const tiny = argc > 2 && std::string_view{argv[2]} == "--tiny";
  if (!gpu_check::device_answers()) return 77;
  try {
    if (section == "bits") return bits(tiny) ? 0 : 1;
    if (section == "times") return times(tiny), 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "step %s: %s\n", argv[1], error.what());
    return 1;
  }
  return 2;
}
