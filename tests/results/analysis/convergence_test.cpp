// The band that the curves of another framework give, and when they say nothing about a run.
#include "results/analysis/convergence.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace tw {

using namespace results;

namespace {

/// Evaluations at 0.3 until step 10·n, and one at 0.05 there.
std::string curve(int n) {
  std::string text = "[";
  for (int i = 1; i < n; ++i) text += "0.3, ";
  return text + "0.05]";
}

/// A file as scripts/oracle/converge.py writes it: passages of 100, 120, 140 and 120 steps at micro-batch 32, of 200
/// at 8.
std::string curves() {
  const std::string wide = curve(10) + "," + curve(12) + "," + curve(14) + "," + curve(12);
  const std::string narrow = curve(20) + "," + curve(20) + "," + curve(20);
  return R"({"name": "gratings", "model": "resnet-tiny", "parameters": 132186, "metric": "error", "target": 0.05,
             "seq_len": 0, "global_batch": 64, "held_out_samples": 1024, "evaluation_interval": 10,
             "optimizer": {"kind": "sgd", "learning_rate": 0.01, "final_share": 0.1, "warmup_steps": 10, "decay_steps": 1000},
             "framework": "JAX 0, float32", "runs": [{"micro_batch": 32, "curves": [)" +
         wide + R"(]}, {"micro_batch": 8, "curves": [)" + narrow + "]}]}";
}

struct Judged {
  Target target;
  Workload workload;
  Judged() {
    target.task = "gratings", target.metric = TargetMetric::error, target.value = 0.05;
    target.held_out_samples = 1024, target.evaluation_interval = 10, target.most_steps = 600;
    target.schedule = {0.01, 0.1, 10, 1000};
    workload.model = "resnet-tiny", workload.optimizer = "sgd", workload.parameters = 132186;
    workload.micro_batch = 32, workload.global_batch = 64;
  }
};

/// Why there is no reference where `change` is made.
template <class Change>
std::string why_none(Change change) {
  Judged run;
  change(run);
  find_reference(run.target, run.workload, 3, curves());
  EXPECT_EQ(run.target.reference.has_value(), run.target.reference_reason.empty());
  return run.target.reference_reason;
}

TEST(Reference, TheBandIsForTheMeanOfSoManyRuns) {
  Judged run;
  const double sd = std::sqrt(800.0 / 3), t = 7.453319;  // of 100, 120, 140, 120; 3 degrees of freedom
  for (const int runs : {1, 3, 5}) {
    find_reference(run.target, run.workload, runs, curves());
    ASSERT_TRUE(run.target.reference) << run.target.reference_reason;
    const ConvergenceReference& r = *run.target.reference;
    EXPECT_EQ(r.source, "JAX 0, float32");
    EXPECT_EQ(r.seeds, 4);
    EXPECT_DOUBLE_EQ(r.steps_mean, 120);
    EXPECT_DOUBLE_EQ(r.steps_sd, sd);
    const double half = t * sd * std::sqrt(1.0 / 4 + 1.0 / runs);
    EXPECT_NEAR(r.steps_low, std::max(0.0, 120 - half), 1e-9);
    EXPECT_NEAR(r.steps_high, 120 + half, 1e-9);
  }
}

TEST(Reference, TheBandIsNoNarrowerThanAnEvaluationInterval) {
  Judged run;
  run.workload.micro_batch = 8;  // batch norm: a curve for each micro-batch
  find_reference(run.target, run.workload, 3, curves());
  ASSERT_TRUE(run.target.reference) << run.target.reference_reason;
  EXPECT_DOUBLE_EQ(run.target.reference->steps_low, 190);
  EXPECT_DOUBLE_EQ(run.target.reference->steps_high, 210);
}

TEST(Reference, AnEasierTargetIsReadOffTheSameCurves) {
  Judged run;
  run.target.value = 0.3;
  find_reference(run.target, run.workload, 3, curves());
  ASSERT_TRUE(run.target.reference);
  EXPECT_DOUBLE_EQ(run.target.reference->steps_mean, 10);
}

TEST(Reference, OtherRunsAreNotHeldAgainstIt) {
  EXPECT_EQ(why_none([](Judged&) {}), "");
  EXPECT_EQ(why_none([](Judged& run) { run.workload.micro_batch = 16; }),
            "batch norm sees the micro-batch: the reference has it at 32, 8, not 16");
  EXPECT_EQ(why_none([](Judged& run) { run.target.value = 0.04; }),
            "4 of the reference's 4 curves end over 0.04: it was trained to 0.05");
  EXPECT_EQ(why_none([](Judged& run) { run.workload.layers = 3; }), "the reference has all layers");
  for (const std::string key : {"model", "parameters", "seq_len", "global_batch", "metric", "held_out_samples",
                                "evaluation_interval", "optimizer", "drawn_tokens"}) {
    const std::string why = why_none([&](Judged& run) {
      if (key == "model") run.workload.model = "resnet-50";
      if (key == "parameters") run.workload.parameters += 1;
      if (key == "seq_len") run.workload.seq_len = 32;
      if (key == "global_batch") run.workload.global_batch = 128;
      if (key == "metric") run.target.metric = TargetMetric::excess_loss;
      if (key == "held_out_samples") run.target.held_out_samples = 512;
      if (key == "evaluation_interval") run.target.evaluation_interval = 20;
      if (key == "drawn_tokens") run.target.drawn_tokens = 64;
      if (key == "optimizer") run.workload.optimizer = "adamw";
    });
    EXPECT_TRUE(why.starts_with("the reference has " + key + " ")) << key << ": " << why;
  }
  // Curves of another schedule judge nothing.
  for (const auto& change : {+[](Schedule& s) { s.learning_rate = 0.05; }, +[](Schedule& s) { s.final_share = 0.2; },
                             +[](Schedule& s) { s.warmup_steps = 20; }, +[](Schedule& s) { s.decay_steps = 500; }})
    EXPECT_TRUE(
        why_none([&](Judged& run) { change(run.target.schedule); }).starts_with("the reference has optimizer "));
  Judged run;
  find_reference(run.target, run.workload, 3, "");
  EXPECT_EQ(run.target.reference_reason, "no reference for this task");
}

TEST(Reference, OneThatARecordBringsAlongIsHeldAgainstThatOfThisVersion) {
  Record record;
  Judged run;
  record.workload = run.workload, record.target = run.target;
  record.trials.resize(3);
  record.summary.to_target.emplace().steps = Estimate{};
  const auto judge = [&](double steps, auto change) {
    record.summary.to_target->steps->value = steps;
    find_reference(*record.target, record.workload, 3, curves());
    change(*record.target);
    return check_reference(record, curves());
  };
  const auto is_good = [](const ReferenceFinding& found) { return found.fault.empty() && found.note.empty(); };
  const auto none = [](Target& t) { t.reference.reset(), t.reference_reason = "none here"; };
  EXPECT_TRUE(is_good(judge(120, [](Target&) {})));
  EXPECT_TRUE(is_good(judge(1e4, [](Target&) {}))) << "that the run is off is judge_target's to say";
  EXPECT_TRUE(is_good(judge(120, [](Target& t) { t.reference->steps_high *= 1 + 1e-12; }))) << "as text rounds";
  for (const auto& change :
       {+[](Target& t) { t.reference->steps_high = 1e9; }, +[](Target& t) { t.reference->steps_low = 0; },
        +[](Target& t) { t.reference->seeds = 9; }, +[](Target& t) { t.reference->source = "mine"; },
        +[](Target& t) { t.reference->steps_mean += 1; }, +[](Target& t) { t.reference->steps_sd += 1; }})
    EXPECT_NE(judge(120, change).fault.find("the 120 steps of these runs lie within it"), std::string::npos);
  EXPECT_NE(judge(1000, none).fault.find("the 1000 steps of these runs lie outside it"), std::string::npos);
  EXPECT_EQ(judge(120, none).fault, "");
  EXPECT_TRUE(judge(120, none).note.starts_with("is null, that of this version is "));
  find_reference(*record.target, record.workload, 3, curves());
  EXPECT_NE(check_reference(record, "")
                .note.find("was not checked: this version has none for it: no reference for this task"),
            std::string::npos);
  none(*record.target);
  EXPECT_TRUE(is_good(check_reference(record, ""))) << "neither has one";
  record.trials.clear();
  EXPECT_TRUE(is_good(check_reference(record, curves()))) << "nothing was run";
}

TEST(Reference, AFileThatLacksAKeyIsNone) {
  std::string text = curves();
  const std::string key = R"("parameters": 132186, )";
  text.erase(text.find(key), key.size());
  Judged run;
  find_reference(run.target, run.workload, 3, text);
  EXPECT_EQ(run.target.reference_reason, "the reference has parameters null, not 132186");
}

}  // namespace
}  // namespace tw
