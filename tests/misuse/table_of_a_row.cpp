// expect: parallax: the members of a Table are rows, width and initial: it has no row
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {.row = 4, .width = 2, .initial = px::uniform(-1, 1)}, px::Reduce::sum};
