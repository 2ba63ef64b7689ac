// Preloaded into one rank of a whole program: its machine then has another C library than the others'.
extern "C" const char* gnu_get_libc_version() { return "9.99"; }
