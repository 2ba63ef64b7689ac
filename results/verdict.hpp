// What a point is worth, and why.
#pragma once

#include "results/record.hpp"

namespace tw {

/// Fills record.summary (all that follows from trials, workload and the model FLOPs, ceiling and memory already set
/// there) and record.verdict, from the raw samples alone.
void summarise(Record& record);

/// Exit code of a whole run (DESIGN §9): 0 good, 4 where no record is valid although one was tried.
int exit_code(const Report& report);

}  // namespace tw
