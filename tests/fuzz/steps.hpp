// How many basic blocks of the sources that are compiled with -fsanitize-coverage=trace-pc were entered.
#pragma once

#include <cstdint>

namespace tw::fuzz {

extern std::uint64_t steps;

}  // namespace tw::fuzz
