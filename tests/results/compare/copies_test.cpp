// One measurement that somebody multiplied is found, and no two runs of one machine are taken for it.
#include "results/compare/copies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "results/analysis/verdict.hpp"
#include "tests/results/compare/compared.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

/// How the steps and the meters of a machine are.
struct Machine {
  const char* name;
  int steps = 300;
  double step_s = 0.05;
  double noise = 0.01;     ///< of a step, as a share
  double drift = 0;        ///< along a trial
  double alternation = 0;  ///< of every fourth step
  double tick_s = 0;       ///< of the clock
  double power_noise = 0.01, power_tick_w = 0;
  int trials = 5;
  double turbo = 0;    ///< by how much every other step is slower, at random
  double pattern = 0;  ///< of a step, the same in each trial of each run
  double pulse = 0;    ///< of power, likewise
};
constexpr Machine machines[] = {
    {.name = "busy CPU", .noise = 0.05},
    {.name = "CPU that grows warm", .noise = 0.004, .drift = 0.05},
    {.name = "quiet GPU", .steps = 1000, .noise = 2e-5, .power_noise = 1e-3, .power_tick_w = 0.001},
    {.name = "GPU with a slower step in four", .noise = 1e-4, .alternation = 0.05, .tick_s = 5e-7},
    {.name = "quiet GPU that grows warm", .steps = 200, .noise = 2e-5, .drift = 0.05, .power_noise = 1e-4},
    {.name = "coarse clock", .step_s = 0.02, .noise = 0.002, .tick_s = 1e-4, .power_tick_w = 1},
    {.name = "a few long steps", .steps = 9, .step_s = 6, .noise = 0.002, .trials = 3},
    {.name = "two speeds, 8 steps", .steps = 8, .step_s = 6, .noise = 2e-5, .turbo = 0.02},
    {.name = "two speeds, 9 steps", .steps = 9, .step_s = 6, .noise = 2e-5, .turbo = 0.02},
    {.name = "two speeds, 12 steps", .steps = 12, .step_s = 6, .noise = 2e-5, .turbo = 0.02},
    {.name = "two speeds, 20 steps", .steps = 20, .step_s = 6, .noise = 2e-5, .turbo = 0.02},
    {.name = "repeats itself", .noise = 2e-5, .power_noise = 1e-5, .pattern = 0.02, .pulse = 0.05},
    {.name = "repeats itself, 9 steps", .steps = 9, .noise = 2e-5, .power_noise = 1e-5, .pattern = 0.02, .pulse = 0.05},
};

double ticked(double value, double tick) { return tick > 0 ? tick * std::round(value / tick) : value; }

/// A run of it: noise with outliers, a warm-up, a drift, a period, the tick of its clock; power that wanders.
Record run_of(const Machine& machine, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::mt19937_64 same(5);
  std::vector<double> pattern;
  for (int i = 0; i < 1000; ++i) pattern.push_back(normal(same));
  normal.reset();
  Record record = made_record(id, {});
  const double speed = 1 + 0.01 * normal(random);
  for (int t = 0; t < machine.trials; ++t) {
    Trial& trial = record.trials.emplace_back();
    for (int i = 0; i < machine.steps; ++i) {
      const double along = static_cast<double>(i) / machine.steps;
      double step = machine.step_s * speed * (1 + machine.drift * (1 - std::exp(-3 * along)));
      if (i % 4 == 0) step *= 1 + machine.alternation;
      if (machine.turbo > 0 && random() % 2 == 0) step *= 1 + machine.turbo;
      step *= 1 + machine.pattern * pattern.at(static_cast<std::size_t>(i));
      step *= 1 + machine.noise * normal(random) * (random() % 50 == 0 ? 10 : 1);
      trial.step_time_s.push_back(ticked(step, machine.tick_s));
      trial.window_s += trial.step_time_s.back();
      trial.loss.push_back(5 - 0.001 * i);  // the same weights and data: every run has these
    }
    for (const char* phase : {"forward", "backward", "optimizer"})
      trial.phase_s[phase] = 0.3 * machine.step_s * (1 + 0.3 * machine.noise * normal(random));
    double watts = 300, wander = 0;
    SeriesRow power{"node1", "meter:0", "power_w", {}, {}, {}, {}};
    for (int i = 0; i < 200; ++i) {
      wander = 0.9 * wander + machine.power_noise * normal(random);
      watts = ticked(300 * (1 - 0.2 * std::exp(-i / 5.0)) *
                         (1 + machine.pulse * pattern.at(static_cast<std::size_t>(i))) * (1 + wander),
                     machine.power_tick_w);
      power.time_s.push_back(0.1 * i), power.mean.push_back(watts);
    }
    power.minimum = power.maximum = power.mean;
    trial.series = {power};
    EnergyRow row;
    row.scope = Scope::node, row.domain = "meter:0", row.host = "node1", row.method = Method::counter;
    row.energy_j = ticked(300 * trial.window_s * (1 + 0.2 * machine.power_noise * normal(random)), 6.1035e-5);
    row.window_s = trial.window_s;
    trial.energy = {row};
  }
  return record;
}

std::vector<Difference> between(const Record& a, const Record& b) { return copies({{"A", {&a}}, {"B", {&b}}}, 0); }

/// Of each machine 46 runs, and so 1035 pairs, of the same shape of warm-up, drift and period.
TEST(Copies, NoTwoRunsOfAMachineAreTakenForOne) {
  std::mt19937_64 random(7);
  for (const Machine& machine : machines) {
    SCOPED_TRACE(machine.name);
    std::vector<Record> runs;
    for (int run = 0; run < 46; ++run) runs.push_back(run_of(machine, random));
    MeasuredSystem all{"A", {}};
    for (const Record& run : runs) all.runs.push_back(&run);
    const std::vector<Difference> found = copies({all}, 1);
    EXPECT_TRUE(found.empty()) << found[0].system_value << ": " << found[0].why;
  }
}

/// Steps that a machine always takes in the same time say nothing.
TEST(Copies, EqualStepsAreNoCopy) {
  Record a = made_record(id, slow), b = made_record(id, times(slow, 1 + 1e-7));
  EXPECT_TRUE(between(a, b).empty());
}

void multiply(std::vector<double>& values, double factor) {
  for (double& value : values) value *= factor;
}
void multiply_steps(Record& record, double factor) {
  for (Trial& trial : record.trials) {
    trial.window_s *= factor, multiply(trial.step_time_s, factor);
    for (auto& [name, seconds] : trial.phase_s) seconds *= factor;
  }
}
void multiply_power(Record& record, double factor) {
  for (Trial& trial : record.trials) {
    for (SeriesRow& series : trial.series)
      for (auto* values : {&series.minimum, &series.mean, &series.maximum}) multiply(*values, factor);
    for (EnergyRow& row : trial.energy) *row.energy_j *= factor;
  }
}
/// Everything of the steps is new.
void measure_steps_anew(Record& record, const Machine& machine, std::mt19937_64& random) {
  const Record other = run_of(machine, random);
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    Trial &trial = record.trials[t], own = other.trials[t];
    trial.step_time_s = own.step_time_s, trial.window_s = own.window_s, trial.phase_s = own.phase_s;
  }
}

/// As several runs of their own: each a little slower than the one before.
TEST(Copies, AMultipliedRunIsFound) {
  std::mt19937_64 random(11);
  for (const Machine& machine : machines) {
    if (machine.noise < machine.tick_s / machine.step_s) continue;  // whose clock does not show it
    if (machine.pattern > 0) continue;                              // whose runs are in one ratio anyway
    SCOPED_TRACE(machine.name);
    const Record a = run_of(machine, random);
    for (const double factor : {1 + 1e-7, 1 + 1e-5, 1.001, 0.8, 2.0}) {
      SCOPED_TRACE(factor);
      Record b = a;
      multiply_steps(b, factor);
      EXPECT_FALSE(between(a, b).empty());
      multiply_power(b, factor);
      EXPECT_FALSE(between(a, b).empty());
    }
  }
}

/// A hundredth of the machine's own noise hides nothing, nor does another order of the trials.
TEST(Copies, ARunWithALittleNoiseIsFound) {
  std::mt19937_64 random(13);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const Machine& machine = machines[0];
  const Record a = run_of(machine, random);
  Record b = a;
  for (Trial& trial : b.trials)
    for (double& step : trial.step_time_s) step *= 1 + 0.01 * machine.noise * uniform(random);
  std::ranges::rotate(b.trials, b.trials.begin() + 2);
  EXPECT_FALSE(between(a, b).empty());
}

TEST(Copies, PowerOfAnotherRunIsFound) {
  std::mt19937_64 random(17);
  const Machine& machine = machines[0];
  const Record a = run_of(machine, random);
  Record b = a;
  measure_steps_anew(b, machine, random);
  multiply_power(b, 1.0001);
  EXPECT_FALSE(between(a, b).empty());
}

TEST(Copies, JoulesOfAnotherRunAreFound) {
  std::mt19937_64 random(19);
  const Machine& machine = machines[0];
  const Record a = run_of(machine, random);
  Record b = a;
  measure_steps_anew(b, machine, random);
  for (Trial& trial : b.trials) trial.series.clear();
  EXPECT_FALSE(between(a, b).empty());
  for (Trial& trial : b.trials) *trial.energy[0].energy_j *= 1 + 1e-7;
  EXPECT_FALSE(between(a, b).empty());
}

/// Nothing but steps.
void forget_power(Record& record) {
  for (Trial& trial : record.trials) trial.series.clear(), trial.energy.clear(), trial.phase_s.clear();
}

/// Of 20 steps in one trial, or in several.
TEST(Copies, AFewMultipliedStepsAreFound) {
  std::mt19937_64 random(29);
  for (const Machine& machine : {Machine{.name = "20 steps", .steps = 20, .noise = 0.002, .trials = 1},
                                 {.name = "20 steps of 3 trials", .steps = 20, .noise = 2e-5, .trials = 3},
                                 {.name = "7 steps of 3 trials", .steps = 7, .noise = 0.002, .trials = 3},
                                 {.name = "two speeds, 20 steps", .steps = 20, .noise = 2e-5, .turbo = 0.02}}) {
    SCOPED_TRACE(machine.name);
    Record a = run_of(machine, random);
    forget_power(a);
    for (int k = 1; k < 6; ++k) {
      Record b = a;
      multiply_steps(b, 1 + 1e-7 * k);
      EXPECT_FALSE(between(a, b).empty());
    }
  }
}

/// Two sensors of one record are proportional. This does not make it one that repeats itself.
TEST(Copies, PowerOfTwoSensorsInOneRatioIsFound) {
  std::mt19937_64 random(31);
  const Machine& machine = machines[0];
  Record a = run_of(machine, random);
  for (Trial& trial : a.trials) {
    SeriesRow whole = trial.series[0];
    whole.domain = "rapl:psys-0";
    multiply(whole.mean, 1.3);
    trial.series.push_back(whole);
  }
  Record b = a;
  measure_steps_anew(b, machine, random);
  multiply_power(b, 1.02);
  EXPECT_FALSE(between(a, b).empty());
}

/// A machine whose trials are in one ratio to each other has runs that are, too, to within 0.2 % of 1 or not.
TEST(Copies, AMachineThatRepeatsItselfIsNoCopy) {
  for (const int steps : {9, 20, 300}) {
    SCOPED_TRACE(steps);
    std::mt19937_64 random(37);
    const Machine machine{
        .name = "", .steps = steps, .noise = 1e-6, .power_noise = 1e-6, .pattern = 0.02, .pulse = 0.05};
    EXPECT_TRUE(between(run_of(machine, random), run_of(machine, random)).empty());
    Record one_trial = run_of(machine, random), other = run_of(machine, random);
    one_trial.trials.resize(1);
    EXPECT_TRUE(steps == 9 || !between(one_trial, other).empty()) << "of one trial nobody knows";
  }
}

/// What a record takes does not grow with its trials, nor what a run takes with the runs before it.
TEST(Copies, ManyTrialsAndRunsTakeNoLonger) {
  std::mt19937_64 random(41);
  const Machine machine{.name = "", .steps = 20};
  const Record some = run_of(machine, random);
  Record a = some;
  for (int t = 0; t < 20000; ++t) {
    Trial& trial = a.trials.emplace_back(some.trials[static_cast<std::size_t>(t) % some.trials.size()]);
    for (double& step : trial.step_time_s) step *= std::uniform_real_distribution<double>(1, 1.01)(random);
  }
  Record b = a;
  multiply_steps(b, 1.5);
  EXPECT_FALSE(between(a, b).empty());

  std::vector<Record> runs;
  for (int run = 0; run < 200; ++run) runs.push_back(run_of({.name = "", .steps = 50, .trials = 2}, random));
  Record near = runs.at(150), far = runs.at(20);
  multiply_steps(near, 1.5), multiply_steps(far, 1.5);
  MeasuredSystem all{"A", {}};
  for (const Record& run : runs) all.runs.push_back(&run);
  all.runs.push_back(&far), all.runs.push_back(&near);
  const std::vector<Difference> found = copies({all}, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].system_value, "runs 151 and 202 are the same");
}

TEST(Copies, RunsOfOneIndexAreNamed) {
  const auto said = [](const std::vector<std::optional<int>>& indices) {
    std::vector<Report> runs(indices.size());
    for (std::size_t run = 0; run < runs.size(); ++run) runs[run].context.run_index = indices[run];
    const std::vector<Difference> found = index_differences(runs);
    EXPECT_TRUE(found.empty() || found[0].blocking == (runs.size() > 1)) << "one run decides nothing anyway";
    EXPECT_TRUE(found.empty() || index_differences(runs, true).at(0).blocking) << "but for one beside earlier runs";
    return found.empty() ? "" : found[0].system_value;
  };
  EXPECT_EQ(said({1, 2, 3}), "");
  EXPECT_EQ(said({1}), "");
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({{}, {}, 2, {}}), "");
  EXPECT_EQ(said({1, 2, 3, 1, 2}), "") << "two series";
  EXPECT_EQ(said({1, 1, 1}), "1 in all 3 runs");
  EXPECT_EQ(said({3, 2}), "no run 1") << "a choice of a series";
  EXPECT_EQ(said({1, 2, 4, 8}), "no run 3, 5 to 7");
  EXPECT_EQ(said({{}, 3}), "no run 2") << "without an index it is the first";
  EXPECT_EQ(said({3}), "no run 1 to 2");
  EXPECT_EQ(said({1, 3, 2}), "");
}

/// Five runs that are one support no claim.
TEST(Copies, MultipliedRunsSupportNoClaim) {
  std::mt19937_64 random(23);
  std::vector<SystemInput> systems = {made_system("A", {}), made_system("B", {})};
  const Record copied = run_of(machines[0], random);
  for (SystemInput& system : systems) {
    system.runs.clear();
    for (int run = 0; run < 5; ++run) {
      Record record = system.name == "A" ? run_of(machines[0], random) : copied;
      if (system.name == "B") multiply_steps(record, 0.5 * (1 + 1e-7 * run));
      summarise(record);
      record.launch = system.name + std::to_string(run);
      system.runs.push_back(made_report({record}));
      system.runs.back().context.launch = record.launch;
    }
  }
  const Comparison c = compare(systems, {});
  ASSERT_NE(difference(c, "samples"), nullptr);
  EXPECT_TRUE(difference(c, "samples")->blocking);
  EXPECT_EQ(ratio(c).verdict, Claim::not_comparable);
}

TEST(Overlap, RunsOfASystemAtTheSameTimeOnOneHost) {
  const auto found = [](const char* second_start, const char* second_host) {
    std::vector<Report> runs = {made_report({}), made_report({})};
    runs[0].context.started_at = "2026-03-01T10:00:00Z", runs[0].context.finished_at = "2026-03-01T10:10:00Z";
    runs[1].context.started_at = second_start, runs[1].context.finished_at = "2026-03-01T10:15:00Z";
    runs[1].context.hosts[0].name = second_host;
    return overlap_differences(runs);
  };
  ASSERT_EQ(found("2026-03-01T10:05:00Z", "node1").size(), 1u);
  EXPECT_FALSE(found("2026-03-01T10:05:00Z", "node1")[0].blocking) << "two machines may share a name";
  EXPECT_TRUE(found("2026-03-01T10:05:00Z", "node2").empty());
  EXPECT_TRUE(found("2026-03-01T10:10:00Z", "node1").empty()) << "one after another";
  EXPECT_TRUE(found("2026-03-01T10:09:59Z", "node1").empty()) << "the clock was put right between them";
  EXPECT_TRUE(overlap_differences({made_report({})}).empty());
}

}  // namespace
}  // namespace tw
