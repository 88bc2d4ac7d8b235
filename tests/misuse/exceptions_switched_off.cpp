// expect: parallax: errors are exceptions: compile without -fno-exceptions
// flags: -fno-exceptions
#include <parallax/parallax.hpp>

int main() {}
