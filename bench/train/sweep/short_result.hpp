// A point's result in a few words, for its line of the progress.
#pragma once

#include <string>

#include "results/record/record.hpp"

namespace tw::bench {

/// "valid · 4510 tokens/s · 0.71 of ceiling · loss 5.100 → 4.900", or why there is none.
std::string short_result(const results::Record& record);

}  // namespace tw::bench
