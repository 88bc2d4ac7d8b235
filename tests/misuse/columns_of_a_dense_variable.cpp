// expect: parallax: Columns cuts a Sparse variable: Columns<Variable<Sparse, ...>, parts>
#include <parallax/parallax.hpp>
#include <parallax/step/columns.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Columns<px::Variable<px::Dense>, 2> wide{session, "wide", {4, 2}};
