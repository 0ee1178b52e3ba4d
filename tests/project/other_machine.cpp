// Compiled for a machine that nobody has: it must say so before main.

#include <cstdio>

#include "lockstep/kernel/isa.hpp"

int main() { std::puts("main was reached"); }
