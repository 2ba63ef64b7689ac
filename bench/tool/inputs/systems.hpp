// The systems of a comparison, as the command line names them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "bench/tool/inputs/errors.hpp"
#include "bench/tool/inputs/pricing.hpp"
#include "results/compare/comparison.hpp"

namespace tw::tool {

/// Of words "FILE", or "NAME=FILE,FILE,..." of several runs; each name once. A FILE may be a folder that holds
/// run-1/report.json, run-2/report.json, …, or the bundle of such a folder: all of its runs. A single one may be an unfinished run's records. Throws
/// UsageError, of a run of such a folder that has no report with the code "run-without-report": no run is left out by
/// chance.
std::vector<SystemInput> read_systems(const std::vector<std::string>& words);
/// Groups of earlier runs, as systems are named, that say how runs differ (CompareOptions::run_variance). Throws
/// UsageError with a code of results/compare/run_variance.hpp for those that do not.
std::vector<SystemInput> read_run_variance(const std::vector<std::string>& words,
                                           const std::vector<SystemInput>& systems, const CompareOptions& options);
/// 0; 4 with a line on stderr where nothing of them could be compared, or where a tender, which is runs of a kit, has
/// no verdict.
int code_of(const Comparison& comparison, const std::vector<SystemInput>& systems);
/// "a.json, b.json": what errors that concern all of them begin with.
std::string files_of(const std::vector<SystemInput>& systems);
/// Of "TEXT=NUMBER" words, or of one JSON file. Throws UsageError.
std::map<std::string, double> read_weights(const std::vector<std::string>& words);
/// Place of the system of that name, or of that path; the first where it is empty. Throws UsageError.
std::size_t reference_of(const std::vector<SystemInput>& systems, const std::string& name);
/// Throws UsageError for a scope that is none.
void check_scope(const std::string& scope);
/// The price of each system, and what a comparison makes of it. Throws UsageError.
void add_prices(std::vector<SystemInput>& systems, CompareOptions& options, const Prices& prices,
                const PriceOptions& wanted);

}  // namespace tw::tool
