#define PARALLAX_ROWS_ONCE template
#include "parallax/compiled/rows.hpp"
