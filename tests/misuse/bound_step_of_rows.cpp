// expect: parallax: a bound step is of grad(dense variable, gradient) under AllReduce, without a transform
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Sums {
  struct Request {};
  void iallreduce(float const*, float*, std::size_t, Request&);
  void iallreduce(double const*, double*, std::size_t, Request&);
  bool test(Request&);
};
struct World : px::SelfCommunicator {
  px::SumOrder sum_order() const;
  px::request_of<px::SelfCommunicator> iallreduce(int, float const*, float*, std::size_t);
  px::request_of<px::SelfCommunicator> iallreduce(int, double const*, double*, std::size_t);
  Sums bare();
};

World world;
px::Session session{world};

void bind(px::Variable<px::Sparse> const& table, std::vector<int> const& ids, std::vector<float> const& rows) {
  session.bind_step(px::grad(table, ids, rows));
}
