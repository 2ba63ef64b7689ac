// A report of very many trials, consistent in all that `validate` looks at.
#pragma once

#include <cstddef>

#include "results/record/record.hpp"

namespace tw::testing {

/// One record of so many trials of two steps each, none like another, one in four of them an outlier; without a meter.
results::Report large_report(std::size_t trials);

}  // namespace tw::testing
