// What a report says of its networks and of the tasks that they are trained to, beside what the catalog says of them.
#pragma once

#include "results/record/record.hpp"
#include "results/validation/validate.hpp"

namespace tw::bench::tool {

/// Adds a fault where a record's network has other parameters, FLOPs, data or another optimizer than the record, or
/// cannot be trained with its samples and micro-batch, or where its weights need more memory than a rank had. A
/// network, a counting rule and a task may be those of another version: each such is a note, and a fault only in a
/// record of a launch by this very program.
void check_networks(const results::Report& report, results::Validation& found);

}  // namespace tw::bench::tool
