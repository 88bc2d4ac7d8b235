// A program of train.cpp, compiled plainly, under -Ofast, or both ways: then it runs those that its argument names. Of an inline
// function that two translation units have, a linker takes the body of the first.
#include <cstring>

[[gnu::weak]] int plain();
[[gnu::weak]] int loose();

int main(int, char** argv) { return std::strcmp(argv[1], "plain") == 0 ? plain() : loose(); }
