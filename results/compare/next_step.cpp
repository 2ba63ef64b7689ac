// What to do after a comparison's answer.
#include <fmt/format.h>

#include <algorithm>

#include "results/analysis/verdict.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/compare/differences.hpp"
#include "results/record/repeat_program.hpp"

namespace tw::results::words {
namespace {

/// From this number of runs on, to make them is no advice.
constexpr int many_runs = 100;

/// The first figure with such a ratio to the reference, over all workloads; null if there is none.
const FigureComparison* figure_with(const Comparison& comparison, Claim claim) {
  const auto found = std::ranges::find_if(comparison.figures, [&](const FigureComparison& figure) {
    return std::ranges::find(figure.overall, claim, &Ratio::verdict) != figure.overall.end();
  });
  return found == comparison.figures.end() ? nullptr : &*found;
}

NextStep of_no_figures(const Comparison& comparison) {
  for (const ComparedSystem& system : comparison.systems)
    if (system.valid == 0)
      return {"see_verdicts",
              fmt::format("trainwatt show {} prints why no point of {} is valid; fix that and measure again",
                          system.paths.empty() ? "FILE" : system.paths.front(), system.name)};
  const auto fault = std::ranges::find_if(comparison.differences, [](const Difference& difference) {
    return difference.blocking && difference.what == validation_difference;
  });
  if (fault != comparison.differences.end()) {
    const ComparedSystem& faulty = comparison.systems[fault->system];
    return {"validate_report", fmt::format("trainwatt validate {} lists the faults of {}; ask who measured it for the "
                                           "report as the program wrote it, or measure again",
                                           faulty.paths.empty() ? "FILE" : faulty.paths.front(), faulty.name)};
  }
  constexpr const char* one_plan = "trainwatt freeze writes one plan for all machines, and --config runs it";
  if (std::ranges::any_of(comparison.differences, &Difference::blocking))
    return {"resolve_differences",
            std::string("resolve what blocks the comparison (below) and measure again: ") + one_plan};
  return {"run_one_plan", std::string("run the same points on each machine: ") + one_plan};
}

NextStep of_single_runs(const Comparison& comparison, bool is_disturbed) {
  std::vector<std::string> once;
  for (const ComparedSystem& system : comparison.systems)
    if (system.started_at.size() < 2) once.push_back(system.name);
  const bool is_each = once.size() == comparison.systems.size();
  return {
      "repeat_runs",
      fmt::format(
          "run {} 5 times{} and compare the folders: {} (the report's own, with another --out); or give earlier "
          "runs of the machine (--run-variance)",
          is_each ? "each" : listed(once), is_disturbed ? ", when nothing else runs there," : "", repeat_command())};
}

NextStep of_open(const Ratio& ratio) {
  if (ratio.needed && *ratio.needed < many_runs)
    return {
        "more_runs",
        fmt::format("make about {0} runs of each ({1} with the same --out adds those that are missing), or treat them "
                    "as equal if a difference within the interval does not matter",
                    *ratio.needed, repeat_command(*ratio.needed))};
  return {"treat_as_equal",
          "treat them as equal here and use another criterion; a difference within the interval " +
              (ratio.needed ? fmt::format("takes {} {} runs of each to show",
                                          *ratio.needed >= most_replicates ? "over" : "about", *ratio.needed)
                            : "cannot be shown by more runs")};
}

NextStep of_decided(const Comparison& comparison) {
  if (std::ranges::any_of(comparison.systems, [](const ComparedSystem& one) { return !one.broken_rules.empty(); }))
    return {"keep_run_rules",
            "before you publish or buy by this, fix the broken run rules (below) and measure again; trainwatt freeze "
            "writes a kit that keeps them"};
  if (comparison.currency.empty())
    return {"add_prices", std::string("add prices to compare what it costs: --prices FILE, such as ") + prices_example};
  return {"keep_evidence", "keep the reports: trainwatt bundle FOLDER packs the runs of a system into one file"};
}

NextStep found(const Comparison& comparison) {
  if (!comparison.compared) return of_no_figures(comparison);
  if (!comparison.not_an_award.empty())
    return {"mend_offer",
            fmt::format(
                "fix the problems listed above, and run the kit again: {} -- COMMAND --config KIT makes as many runs "
                "as it asks for; trainwatt validate FOLDER --kit KIT checks them",
                repeat_program)};
  if (const FigureComparison* open = figure_with(comparison, Claim::no_claim); open != nullptr) {
    if (!open->note.empty())  // lower bounds
      return {"measure_node_energy",
              "measure the energy of the whole node: trainwatt probe lists its meters, and --energy-csv takes the "
              "site's own"};
    const bool has_single =
        std::ranges::any_of(comparison.systems, [](const ComparedSystem& one) { return one.started_at.size() < 2; });
    if (has_single) return of_single_runs(comparison, true);
    return {"repeat_quiet",
            "run the same commands again when nothing else runs on these machines; trainwatt show names the points"};
  }
  if (figure_with(comparison, Claim::single_run) != nullptr) return of_single_runs(comparison, false);
  if (comparison.names_one()) return of_decided(comparison);
  if (const FigureComparison* open = figure_with(comparison, Claim::no_difference); open != nullptr)
    return of_open(*std::ranges::find(open->overall, Claim::no_difference, &Ratio::verdict));
  return of_decided(comparison);
}

NextStep found(const Report& report) {
  const auto counts = [](const Record& record) { return is_valid(record); };
  if (report.records.empty())
    return {"resume_run", "no point was finished: continue the run by the same command with --resume FOLDER"};
  if (std::ranges::none_of(report.records, counts))
    return {"see_verdicts", "read why no point counts (its verdict), fix that and measure again"};
  const std::string compare =
      "to compare with another machine, run the same there and give both to trainwatt compare, or to trainwatt html "
      "for a page (A=REPORT B=REPORT)";
  if (report.context.run_index) return {"compare", compare + ", each as the folder of its runs"};
  const std::string several = ". One run of each decides nothing: ";
  if (report.plan.suite == command_suite)
    return {"repeat_runs", compare + several + "meter the command several times, and give the files as A=FILE,FILE"};
  return {"repeat_runs",
          compare + several + "make several with " + repeat_command() + " (this report's own, with another --out)"};
}

NextStep said(NextStep step) {
  step.text = "Next: " + step.text + ".";
  return step;
}

}  // namespace

NextStep next_step(const Comparison& comparison) { return said(found(comparison)); }
NextStep next_step(const Report& report) { return said(found(report)); }

}  // namespace tw::results::words
