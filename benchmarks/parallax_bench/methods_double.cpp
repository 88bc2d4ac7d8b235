// The trainings for double.
#define BENCH_SCALAR double
#include "methods.cpp"
