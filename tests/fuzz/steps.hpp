// How many basic blocks of the sources that are compiled with -fsanitize-coverage=trace-pc were entered.
#pragma once

#include <cstdint>

namespace tw::fuzz {

/// Volatile, since the compiler inserts the calls that count after it has looked for what may change.
extern volatile std::uint64_t steps;

}  // namespace tw::fuzz
