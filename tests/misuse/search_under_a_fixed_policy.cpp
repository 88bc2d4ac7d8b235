// expect: parallax: pieces are searched for a variable under Auto: Variable<Sparse, Auto>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};

void search(px::Variable<px::Sparse> const& words) { session.search_pieces(words); }
