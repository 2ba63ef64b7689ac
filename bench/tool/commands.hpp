// The subcommands of `trainwatt`. Each prints to stdout and returns the exit code (DESIGN §9).
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/plan/plan_options.hpp"

namespace tw::tool {

/// Bad usage or an unreadable file: main prints the text as one line and ends with exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// 0: all are good; 1: some file breaks the schema or an invariant, or is at odds with the catalog; 2: some file cannot
/// be read. Takes reports, and the records.jsonl of unfinished runs.
int validate(const std::vector<std::string>& paths);

inline constexpr const char* run_order = "run";  ///< of --sort
struct SortOptions {
  std::string by;     ///< run_order, or a name of results/ranking.hpp; empty: run_order
  std::string scope;  ///< of figures of joules; empty: the one that most points have
};

struct ShowOptions {
  std::string path;
  SortOptions sort;                 ///< of the table
  std::optional<int> width;         ///< columns; the terminal's where absent, 100 where there is none
  bool ascii = false;
};
int show(const ShowOptions& options);

struct ExportCommand {
  std::string path, out;             ///< out: folder, made where it is not there
  std::vector<std::string> formats;  ///< names of results/exports.def
  SortOptions sort;
};
/// Writes a report in other formats, each file whole or not at all. None is written over one that is there.
int export_report(const ExportCommand& options);

struct ModelsOptions {
  std::string model;                ///< empty: all networks of the catalog
  std::string precision = "float32";
  std::optional<int> layers;
  std::optional<long long> micro_batch, seq_len;
  long long accumulate = 1, ranks = 1;
  bool json = false;
};
/// All networks of the catalog; or what a training step of one computes, without running it.
int models(const ModelsOptions& options);

struct PlanCommand {
  PlanOptions options;
  std::string device = "auto";
  int nodes = 1;
  std::string on;          ///< what `trainwatt probe --json` wrote on the node that the plan is for; empty: this one
  std::string site;        ///< a site's own commands for knobs; empty: none
  std::string energy_csv;  ///< this node's power by the site's own meter; empty: none
  bool json = false;
};
/// The points of a plan, those that the node cannot do with the reason, and the time, node-hours and energy they take.
int plan(const PlanCommand& command);

struct ProbeOptions {
  std::string site;        ///< a site's own commands for knobs; empty: none
  std::string energy_csv;  ///< this node's power by the site's own meter; empty: none
  bool json = false;
};
/// All meters, telemetry and knobs of this node: available or not, why not, and the smallest grant that would change it.
int probe(const ProbeOptions& options);

struct MeterCommand {
  std::vector<std::string> command;
  std::vector<std::string> argv;  ///< the whole command line, for the report
  std::string out;         ///< folder for report.json; empty: out/meter-<time>
  std::string energy_csv;  ///< this node's power by the site's own meter; empty: none
  std::optional<double> estimate_watts;
  bool parse = false;      ///< copy the command's output through, and look for samples in it
};
inline constexpr int meter_failure = 125;  ///< of `meter` itself: the command's own code passes through
/// Runs a command and writes its joules to a report. Under mpirun or srun one process of each node reads.
int meter(const MeterCommand& options);

/// Puts back what runs that are dead have left (`all`: also one that still lives). 0: nothing of them is left, 3: something
/// is, or a journal is not trusted.
int restore(bool all);

}  // namespace tw::tool
