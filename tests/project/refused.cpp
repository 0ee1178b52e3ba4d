// What the compile-failure tests are tested with.

#if defined(REFUSED)
static_assert(sizeof(int) == 1, "lockstep: an authored sentence; see a header");
#elif defined(ACCEPTED)
static_assert(sizeof(char) == 1);
#endif

int main() {}
