// expect: parallax: px::Padded is for tables on a device under PsShard (an exchange that pads), whose partitioner places rows there
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {.rows = 10, .width = 2}, px::Padded{.capacity = 5}};
