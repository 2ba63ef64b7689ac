// The systems of a comparison, as the command line names them.
#pragma once

#include <string>
#include <vector>

#include "bench/tool/inputs/options.hpp"
#include "results/compare/comparison.hpp"

namespace tw::bench::tool {

/// Of words "FILE", or "NAME=FILE,FILE,..." of several runs; each name once. A FILE may be a folder that holds
/// run-1/report.json, run-2/report.json, …, or the bundle of such a folder: all of its runs. A single one may be an
/// unfinished run's records. Throws UsageError, of a run of such a folder that has no report with the code
/// "run-without-report": no run is left out by chance.
std::vector<results::SystemInput> read_systems(const std::vector<std::string>& words);
/// Takes over how they are compared, and gives each its price. Throws UsageError.
void compare_as(const SystemsOptions& wanted, std::vector<results::SystemInput>& systems,
                results::CompareOptions& options);
/// Throws UsageError for wrong options (--only, --weights).
results::Comparison compared(const std::vector<results::SystemInput>& systems, const results::CompareOptions& options);
/// 0; 4 with a line on stderr where nothing of them could be compared, or where a tender, which is runs of a kit, has
/// no verdict or may not be awarded.
int code_of(const results::Comparison& comparison);
/// "a.json, b.json": what errors that concern all of them begin with.
std::string files_of(const std::vector<results::SystemInput>& systems);

}  // namespace tw::bench::tool
