// Options that several commands have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/terminal/describe.hpp"
#include "bench/tool/inputs/pricing.hpp"
#include "bench/tool/inputs/report_file.hpp"

namespace CLI {
class App;
}

namespace tw::bench::tool {

struct LookOptions {
  std::optional<int> width;  ///< columns; the terminal's where absent, 100 where there is none
  bool ascii = false;
};
void add_look(CLI::App& command, LookOptions& look);

/// `otherwise`: the order without --sort.
void add_sort(CLI::App& command, SortOptions& sort, const char* otherwise);

/// `is_of_many`: each value names its system (NAME=…).
void add_prices(CLI::App& command, PriceOptions& prices, bool is_of_many);

/// How systems are compared, for `compare` and `html`.
struct SystemsOptions {
  std::vector<std::string> systems;  ///< "FILE", or "NAME=FILE,FILE,…" of several runs
  std::string reference;             ///< name; empty: the first
  std::string scope, only;
  std::string kit;                        ///< that the runs must be of, for an award
  std::vector<std::string> weights;       ///< "TEXT=W", or one file
  std::vector<std::string> run_variance;  ///< earlier runs of a machine, as `systems`
  PriceOptions prices;
};
void add_systems(CLI::App& command, SystemsOptions& options);

/// The words that options of these commands take, for completion by a shell; those of plans, too.
KnownWords known_words();

/// The file that -o names.
void add_out(CLI::App& command, std::string& out);

inline constexpr const char* report_help = "report.json, or records.jsonl of an unfinished run";
inline constexpr const char* site_help = "JSON file with the site's commands that change clocks and power limits";
inline constexpr const char* energy_csv_help = "CSV file of the site's power meter for this node: time,watts";

}  // namespace tw::bench::tool
