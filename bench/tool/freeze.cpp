// `trainwatt freeze`: a plan as a kit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/plan/options/plan_options.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "bench/plan/plan.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/terminal.hpp"
#include "models/catalog/nearest.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"

namespace tw::bench::tool {
namespace {

struct FreezeCommand {
  PlanOptions options;
  std::string out;
  KitText text;
};

/// Whether some point's global batch is micro-batch × accumulation × as many ranks as an offer happens to have. A task
/// has a global batch of its own, unless both its parts are given.
bool grows_with_ranks(const Request& request) {
  return std::ranges::any_of(request.axes, [&](const Axes& axes) {
    const bool is_of_task = request.target && (axes.micro_batch.empty() || axes.accumulate.empty());
    return axes.global_batch.empty() && axes.ranks.empty() && !is_of_task;
  });
}

/// The global batch: what a suite or config leaves to options.
std::string how_to_fix(const PlanOptions& options) {
  if (!options.config.empty()) return fmt::format("with \"global_batch\" or \"ranks\" in {}", options.config);
  return options.suite.empty() ? "with --global-batch N or --ranks N" : "with --ranks N, which offers then must have";
}

/// The run rules that each run of this plan will break, with what they ask for.
std::vector<std::string> broken_rules(const RunPlan& plan) {
  std::vector<std::string> broken;
  const Measurement& measurement = plan.measurement;
  const bool is_short = measurement.window_seconds < results::published_window_s;
  if (!plan.target && (measurement.steps || is_short))
    broken.push_back(fmt::format("\"window\" (the kit has {}, the rule requires {} s or more)",
                                 measurement.steps ? "steps" : fmt::format("{} s", measurement.window_seconds),
                                 results::published_window_s));
  if (measurement.trials < results::least_trials)
    broken.push_back(fmt::format("\"trials\" (the kit has {}, the rule requires {} or more{})", measurement.trials,
                                 results::least_trials, plan.target ? ", one for each seed" : ""));
  return broken;
}

/// A kit holds set points as values: a share would be another value on each machine.
void refuse_shares(const Request& request) {
  for (const Axes& axes : request.axes)
    for (const auto& [kind, texts] : axes.setting)
      for (const std::string& text : texts)
        if (text.find('%') != std::string::npos) {
          const std::string key = std::ranges::find(setting_axes(), kind, &SettingAxis::kind)->key;
          throw UsageError("range-unknown", key,
                           fmt::format("{} {}: a kit cannot contain shares of a range, because ranges differ between "
                                       "machines: give a value",
                                       key_ref(key), models::cut_word(text)))
              .seen_in(request, &axes);
        }
}

int freeze(const FreezeCommand& command) {
  check_plan_options(command.options);
  const std::string config = command.options.config.empty() ? "" : read_config_text(command.options.config);
  Request request = request_of(command.options, config);
  if (request.kit) throw UsageError("frozen-plan", command.options.config + ": already a kit: hand it out as it is");
  if (std::ranges::any_of(request.axes, [](const Axes& axes) { return axes.model.empty(); }))
    throw UsageError("no-model", "nothing to freeze: give --model, --suite or --config");
  if (has_sizes_by_class(request) && request.device_class.empty())
    throw UsageError(
        "option-needs",
        fmt::format("--suite {}: its sizes depend on the class of device, which all offers must share: add "
                    "--device-class gpu or --device-class cpu",
                    command.options.suite));
  if (request.declared_micro_batch)
    throw UsageError("options-conflict", "micro_batch",
                     fmt::format("--micro-batch {}: the kit leaves the size of these points to those who run it, who "
                                 "then give this option: leave it out",
                                 *request.declared_micro_batch));
  choose_class(request, "");
  refuse_shares(request);
  refuse_existing(command.out);
  // As many ranks as it names are the least that it takes.
  int ranks = 1;
  for (const Axes& axes : request.axes)
    for (const int some : axes.ranks) ranks = std::max(ranks, some);
  make_plan(request, ranks, "cpu");  // what is wrong with it is named as in the options or the config
  const std::string text = kit_json(command.text, request, results::program_info("trainwatt"));
  const Request again = read_config(command.out, text);  // what no run could read back is no kit
  const RunPlan plan = make_plan(again, ranks, "cpu");
  write_out(command.out, text);
  const std::string runs = plan.runs() > 1 ? fmt::format(", {} runs", plan.runs()) : "";
  const std::string of_class = again.device_class.empty() ? "" : ", device class " + again.device_class;
  const std::string what = again.suite == Request().suite ? "plan from the command line" : again.suite;
  fmt::print("{}: {}, {} if run on {}{}{}\nSHA-256 {}\n", results::text::printable(command.out),
             results::text::printable(what), results::text::count(plan.points.size(), "point"),
             results::text::count(static_cast<std::size_t>(ranks), "rank"), of_class, runs, again.kit->sha256);
  if (const std::vector<std::string> broken = broken_rules(plan); !broken.empty())
    say_warning(with_code("breaks-run-rules",
                          fmt::format("{}: each run of the kit breaks the run rule {}, so that validate and compare "
                                      "reject it as an offer: freeze a plan that keeps it",
                                      results::text::printable(command.out), fmt::join(broken, " and "))));
  if (grows_with_ranks(again))
    say_warning(with_code("open-global-batch",
                          results::text::printable(command.out) +
                              ": the kit does not fix the global batch, which grows with the number of ranks: offers "
                              "on different numbers of ranks cannot be compared; freeze it " +
                              how_to_fix(command.options)));
  return 0;
}

}  // namespace

Action add_freeze(CLI::App& command, const Words&) {
  const auto options = std::make_shared<FreezeCommand>();
  add_plan_options(command, options->options);
  add_out(command, options->out);
  command.add_option("--title", options->text.title, "title of the kit; reports contain it")->group("Output");
  command.add_option("--contact", options->text.contact, "who answers questions")->group("Output");
  command.add_option("--notes", options->text.notes, "notes for those who run the kit")->group("Output");
  return [options] { return freeze(*options); };
}

}  // namespace tw::bench::tool
