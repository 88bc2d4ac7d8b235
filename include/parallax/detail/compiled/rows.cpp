#define PARALLAX_ROWS_ONCE template
#include "parallax/detail/compiled/rows.hpp"
