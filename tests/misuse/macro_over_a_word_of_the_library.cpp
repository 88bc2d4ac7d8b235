// expect: parallax: min, max, move, clear or erase is a macro: #undef it behind the header that defines it, or include parallax before
// flags:
#include <vector>
#define move(y, x) wmove(stdscr, y, x)  // as curses has it for C
#include <parallax/detail/core/config.hpp>

int main() {}
