// What a report says of its networks and tasks is what the catalog says, or is noted where another program wrote it.
#include "bench/tool/inputs/recorded_networks.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/plan/options/layers_file.hpp"
#include "models/catalog/description.hpp"
#include "models/catalog/floors.hpp"
#include "models/catalog/tasks.hpp"
#include "results/record/version.hpp"

namespace tw::bench::tool {
namespace {

using Lines = std::vector<std::string>;

/// A report of one point, of this program.
results::Report report_of(const models::NetworkDescription& network) {
  results::Report report;
  report.program = results::program_info("trainwatt-train");
  report.plan.canonical_json = "{}";
  results::Record& record = report.records.emplace_back();
  record.trials.resize(1);
  results::Workload& w = record.workload;
  w.model = network.name, w.device = "cpu", w.precision = "float32";
  w.data = models::to_string(network.data().kind);
  w.optimizer = models::to_string(models::default_optimizer(network).kind);
  w.parameters = models::count_parameters(network);
  w.micro_batch = network.default_micro_batch, w.accumulate = 1, w.global_batch = w.micro_batch;
  if (network.has_sequence()) w.seq_len = network.default_seq_len;
  return report;
}
results::Report report_of(const std::string& model) { return report_of(models::find_network(model)); }

void set_target(results::Record& record, const models::NetworkDescription& network,
                const models::TaskDescription& task) {
  if (task.seq_len > 0) record.workload.seq_len = task.seq_len;
  results::Target& target = record.target.emplace();
  target.task = task.name;
  target.metric = task.metric == models::TaskDescription::Metric::error ? results::TargetMetric::error
                                                                        : results::TargetMetric::excess_loss;
  target.value = task.target;
  models::NetworkDescription drawing = network;
  drawing.drawn_tokens = task.drawn_tokens;
  target.floor = models::exact_floor(drawing, record.workload.seq_len.value_or(0));
  if (task.drawn_tokens > 0) target.drawn_tokens = task.drawn_tokens;
  target.held_out_samples = task.held_out_samples, target.evaluation_interval = task.evaluation_interval;
  target.most_steps = task.most_steps;
  target.schedule = {task.learning_rate, task.final_learning_rate_share, task.warmup_steps, task.decay_steps};
  if (!task.extrapolated_from.empty()) target.extrapolated_from = task.extrapolated_from;
}

/// Likewise of a run to the target of its task.
results::Report target_report_of(const std::string& model) {
  results::Report report = report_of(model);
  set_target(report.records[0], models::find_network(model), models::task_of(model).value());
  return report;
}

/// Faults and notes, each "CODE WHERE".
struct Findings {
  Lines faults, notes;
};
Findings findings_in(const results::Report& report) {
  results::Validation validation;
  check_networks(report, validation);
  Findings found;
  for (const results::Fault& fault : validation.violations) found.faults.push_back(fault.code + " " + fault.where);
  for (const results::Fault& note : validation.warnings) found.notes.push_back(note.code + " " + note.where);
  return found;
}
template <class Change>
Findings findings_after(results::Report report, Change change) {
  change(report.records[0]);
  return findings_in(report);
}

/// Another program's, after `change`.
template <class Change>
Findings findings_of_another(results::Report report, Change change) {
  report.program.git_commit = "0123456789ab";
  return findings_after(std::move(report), change);
}

/// Where this build does not know its commit, no report is known to be its own.
bool knows_itself() { return results::program_info("").git_commit != "unknown"; }

/// `line` is a fault of this program's report, and of another's what `of_another` says.
template <class Change>
void expect_fault_of_own(const results::Report& report, Change change, const std::string& line,
                         const Findings& of_another) {
  const Findings other = findings_of_another(report, change);
  EXPECT_EQ(other.faults, of_another.faults);
  EXPECT_EQ(other.notes, of_another.notes);
  const Findings own = findings_after(report, change);
  EXPECT_EQ(own.faults, knows_itself() ? Lines{line} : of_another.faults);
  EXPECT_EQ(own.notes, knows_itself() ? Lines() : of_another.notes);
}

TEST(RecordedNetworks, WhatTheCatalogSaysIsGood) {
  for (const models::NetworkDescription& network : models::catalog()) {
    const Findings found = findings_in(report_of(network.name));
    EXPECT_EQ(found.faults, Lines()) << network.name;
    EXPECT_EQ(found.notes, Lines()) << network.name;
  }
  for (const models::TaskDescription& task : models::tasks()) {
    const Findings found = findings_in(target_report_of(task.model));
    EXPECT_EQ(found.faults, Lines()) << task.name;
    EXPECT_EQ(found.notes, Lines()) << task.name;
  }
}

TEST(RecordedNetworks, TheOptimizerIsTheNetworks) {
  for (const char* model : {"gpt2-tiny", "dlrm-tiny", "resnet-tiny"})
    for (const char* optimizer : {"lamb", model == std::string("gpt2-tiny") ? "sgd" : "adamw"}) {
      const auto change = [&](results::Record& r) { r.workload.optimizer = optimizer; };
      const Lines faults = {"network_differs /records/0/workload/optimizer"};
      EXPECT_EQ(findings_after(report_of(model), change).faults, faults) << model << " " << optimizer;
      EXPECT_EQ(findings_of_another(report_of(model), change).faults, faults) << model << " " << optimizer;
    }
}

TEST(RecordedNetworks, TheMicroBatchIsOneThatTheNetworkTrainsOn) {
  const auto faults = [](std::int64_t micro_batch, bool has_run) {
    return findings_after(report_of("inception-tiny"),
                          [&](results::Record& r) {
                            r.workload.micro_batch = micro_batch;
                            if (!has_run) r.trials.clear();
                          })
        .faults;
  };
  EXPECT_EQ(faults(1, true), Lines{"network_differs /records/0/workload/micro_batch"});
  EXPECT_EQ(faults(2, true), Lines());
  EXPECT_EQ(faults(1, false), Lines()) << "a point whose size was never found";
}

TEST(RecordedNetworks, AnUnknownNetworkIsOfAnotherVersion) {
  expect_fault_of_own(report_of("gpt2-tiny"), [](results::Record& r) { r.workload.model = "future-net"; },
                      "network_differs /records/0/workload/model", {{}, {"network_unknown /records/0/workload/model"}});
}

TEST(RecordedNetworks, DataMayBeMissingInReportsOfOthers) {
  expect_fault_of_own(report_of("gpt2-tiny"), [](results::Record& r) { r.workload.data.reset(); },
                      "network_differs /records/0/workload/data", {});
}

/// Whoever checks a report has given no option.
TEST(RecordedNetworks, AFaultOfLayersNamesThePlan) {
  results::Report report = report_of("gpt2-tiny");
  report.records[0].workload.model = "custom-x-0123456789ab";
  report.plan.canonical_json = R"({"layers_file":{"name":"x"}})";
  results::Validation validation;
  check_networks(report, validation);
  ASSERT_EQ(validation.violations.size(), 1u);
  const std::string& text = validation.violations[0].text;
  EXPECT_TRUE(text.starts_with("the plan's layers_file describes no network: ")) << text;
  EXPECT_EQ(text.find("--"), std::string::npos) << text;
}

/// Whatever it is, the reference would be gone with it. Its value and its batch are free.
TEST(RecordedNetworks, TheTaskIsTheNetworks) {
  const auto expect = [](auto change) {
    expect_fault_of_own(target_report_of("dlrm-tiny"), [&](results::Record& r) { change(*r.target); },
                        "task_differs /records/0/target", {{}, {"task_differs /records/0/target"}});
  };
  expect([](results::Target& t) { t.task = "foo"; });
  expect([](results::Target& t) { t.metric = results::TargetMetric::excess_loss; });
  expect([](results::Target& t) { t.held_out_samples = 64; });
  expect([](results::Target& t) { t.evaluation_interval *= 2; });
  expect([](results::Target& t) { t.most_steps *= 100; });
  expect([](results::Target& t) { t.schedule.learning_rate = 0.7; });
  expect([](results::Target& t) { t.schedule.final_share = 1; });
  expect([](results::Target& t) { t.schedule.warmup_steps += 1; });
  expect([](results::Target& t) { t.schedule.decay_steps += 1; });
  expect([](results::Target& t) { t.extrapolated_from = "dlrm with tables of at most 10 rows"; });
  const Findings free = findings_after(target_report_of("dlrm-tiny"), [](results::Record& r) {
    r.target->value *= 2, r.workload.micro_batch *= 2, r.workload.global_batch *= 4;
  });
  EXPECT_EQ(free.faults, Lines());
  EXPECT_EQ(free.notes, Lines());
  expect_fault_of_own(target_report_of("bert-tiny"),
                      [](results::Record& r) {
                        r.workload.layers = 1;
                        r.workload.parameters =
                            models::count_parameters(models::cut_layers(models::find_network("bert-tiny"), 1));
                      },
                      "task_differs /records/0/target", {{}, {"task_differs /records/0/target"}});
}

/// The plan has the file, which every version reads alike.
TEST(RecordedNetworks, TheTaskOfAFileIsInThePlan) {
  const std::string layers =
      R"({"input":{"channels":1,"classes":4,"kind":"images","size":8},"layers":[{"layer":"flatten"},)"
      R"({"layer":"loss","per":"sample"}],"name":"own","task":{"evaluation_interval":5,"extrapolated_from":"another",)"
      R"("global_batch":8,"held_out_samples":64,"most_steps":50,"target":0.2}})";
  const models::NetworkDescription network = network_of_layers("custom", layers);
  results::Report report = report_of(network);
  report.plan.canonical_json = R"({"layers_file":)" + layers + "}";
  set_target(report.records[0], network, models::task_of(network).value());
  EXPECT_EQ(findings_in(report).faults, Lines());
  EXPECT_EQ(findings_in(report).notes, Lines());
  const auto expect = [&](auto change, const Lines& faults) {
    EXPECT_EQ(findings_after(report, change).faults, faults);
    EXPECT_EQ(findings_of_another(report, change).faults, faults);
  };
  const Lines differs = {"task_differs /records/0/target"};
  expect([](results::Record& r) { r.target->value = 0.5; }, {});
  expect([](results::Record& r) { r.target->most_steps = 500; }, differs);
  expect([](results::Record& r) { r.target->held_out_samples = 8; }, differs);
  expect([](results::Record& r) { r.target->schedule.learning_rate *= 2; }, differs);
  expect([](results::Record& r) { r.target->task = "gratings"; }, differs);
  expect([](results::Record& r) { r.target->floor = 0.1; }, {"network_differs /records/0/target/floor"});
  expect([](results::Record& r) { r.target->extrapolated_from.reset(); },
         {"network_differs /records/0/target/extrapolated_from"});
  // A file without a task is another file: the name has its hash.
  const std::string without = layers.substr(0, layers.find(R"(,"task")")) + "}";
  report.plan.canonical_json = R"({"layers_file":)" + without + "}";
  EXPECT_EQ(findings_in(report).faults, Lines{"network_differs /records/0/workload/model"});
  report.records[0].workload.model = network_of_layers("custom", without).name;
  EXPECT_EQ(findings_in(report).faults, differs);
}

/// With fewer different tokens a target is reached sooner, at the same floor.
TEST(RecordedNetworks, TheDrawnTokensAreTheTasks) {
  for (const std::optional<std::int64_t> forged : {std::optional<std::int64_t>(64), std::optional<std::int64_t>()})
    expect_fault_of_own(target_report_of("llama3.2-1b"), [&](results::Record& r) { r.target->drawn_tokens = forged; },
                        "task_differs /records/0/target", {{}, {"task_differs /records/0/target"}});
  expect_fault_of_own(target_report_of("gpt2-tiny"), [](results::Record& r) { r.target->drawn_tokens = 64; },
                      "task_differs /records/0/target", {{}, {"task_differs /records/0/target"}});
  for (const char* model : {"llama3.2-1b", "resnet-tiny"})  // which has 128256, and which has none
    EXPECT_EQ(findings_of_another(target_report_of(model), [](results::Record& r) { r.target->drawn_tokens = 128257; })
                  .faults,
              Lines{"network_differs /records/0/target/drawn_tokens"})
        << model;
}

/// A run that was resumed by this program, after another had begun it, has records of both.
TEST(RecordedNetworks, EachLaunchHasItsProgram) {
  results::Report report = target_report_of("dlrm-tiny");
  report.records.push_back(report.records[0]);
  report.records[0].id = "a", report.records[1].id = "b";
  for (results::Record& record : report.records) record.target->most_steps += 1;
  results::RunPart first;
  first.program = report.program, first.program.git_commit = "0123456789ab";
  first.context.emplace(), first.points = {"a"};
  report.parts = {first};
  const Findings found = findings_in(report);
  EXPECT_EQ(found.faults, knows_itself() ? Lines{"task_differs /records/1/target"} : Lines());
  EXPECT_EQ(found.notes.size(), knows_itself() ? 1u : 2u);
}

}  // namespace
}  // namespace tw::bench::tool
