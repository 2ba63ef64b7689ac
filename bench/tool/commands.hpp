// The subcommands of `trainwatt`. Each prints to stdout and returns the exit code (README.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/plan/options/plan_options.hpp"
#include "bench/tool/inputs/errors.hpp"
#include "bench/tool/inputs/offer.hpp"
#include "bench/tool/inputs/pricing.hpp"
#include "bench/tool/inputs/report_file.hpp"

namespace tw::tool {

/// 0: all are good; 1: some file breaks the schema or an invariant, or is at odds with the catalog, a bundle was
/// altered, breaks a run rule, or is not of the kit or of a signer; 2: some file cannot be read. Of a report that is no
/// bundle run rules change no code. Takes reports, the records.jsonl of unfinished runs, and bundles. What is found
/// goes to stdout, and only files that cannot be read to stderr.
int validate(const ValidateOptions& options);

struct FreezeCommand {
  PlanOptions options;
  std::string out, title, contact, notes;
};
/// Writes a plan as a kit, which others run with `trainwatt-train --config`.
int freeze(const FreezeCommand& command);

struct BundleCommand {
  std::string folder, out;
  std::string sign;     ///< key for ssh-keygen; empty: no signature
  bool force = false;   ///< also of a report that is not good, which the bundle then says
};
/// Packs a run's folder into one archive. 1: its report is not good.
int bundle(const BundleCommand& command);

struct ShowOptions {
  std::string path;
  SortOptions sort;                 ///< of the table
  std::optional<int> width;         ///< columns; the terminal's where absent, 100 where there is none
  bool ascii = false;
};
int show(const ShowOptions& options);

struct ExportCommand {
  std::string path, out;             ///< out: folder, made where it is not there
  std::vector<std::string> formats;  ///< names of results/export/exports.def
  SortOptions sort;
  PriceOptions prices;               ///< for the formats that take costs
};
/// Writes a report in other formats, each file whole or not at all. None is written over one that is there.
int export_report(const ExportCommand& options);

enum class OutputForm { text, json, markdown, csv };
struct CompareCommand {
  std::vector<std::string> systems;         ///< "FILE", or "NAME=FILE,FILE,…" of several runs
  std::vector<std::string> run_variance;    ///< likewise: earlier runs of a machine
  std::string reference;                    ///< name; empty: the first
  std::vector<std::string> figures, weights;///< weights: "TEXT=W", or one file
  std::string scope, only, baseline;
  PriceOptions prices;
  OutputForm form = OutputForm::text;
  std::optional<int> width;
  bool ascii = false;
};
/// Holds reports against each other. 0; 1: a rule of the baseline is violated; 4: nothing could be compared, a tender
/// has no verdict, or a rule is undecided or not checked on some point.
int compare_reports(const CompareCommand& command);

struct HtmlCommand {
  std::vector<std::string> systems;         ///< as compare's; one: a report, or the records.jsonl of an unfinished run
  std::string out;                          ///< the page; never written over one that is there
  std::string reference, scope, only;       ///< as compare's
  std::vector<std::string> weights, run_variance;
  PriceOptions prices;
};
/// Writes one page that needs nothing else, of a report or of a comparison. 0; 4: the page says that nothing could be compared.
int html(const HtmlCommand& command);

struct CostCommand {
  std::string path;
  PriceOptions prices;
  bool json = false;
  std::optional<int> width;
  bool ascii = false;
};
/// What the points of a report cost. 0; 4: no point has a cost.
int cost(const CostCommand& command);

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
  bool runs_only = false;  ///< print how many runs the plan asks for, and nothing else
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
