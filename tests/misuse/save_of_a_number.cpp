// expect: a checkpoint is of variables, ranges of variables, and values: shared_value("name", value) or own_value("name", value)
#include <parallax/checkpoint/checkpoint.hpp>
#include <parallax/parallax.hpp>

int main() {
  parallax::SelfCommunicator world;
  parallax::Session session{world};
  int epoch = 0;
  session.save("run", {}, epoch);
}
