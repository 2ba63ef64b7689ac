// One measurement that somebody multiplied is found, and no two runs of one machine are taken for it.
#include "results/compare/copies.hpp"

#include <gtest/gtest.h>

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
};
constexpr Machine machines[] = {
    {.name = "busy CPU", .noise = 0.05},
    {.name = "CPU that grows warm", .noise = 0.004, .drift = 0.05},
    {.name = "quiet GPU", .steps = 1000, .noise = 2e-5, .power_noise = 1e-3, .power_tick_w = 0.001},
    {.name = "GPU with a slower step in four", .noise = 1e-4, .alternation = 0.05, .tick_s = 5e-7},
    {.name = "quiet GPU that grows warm", .steps = 200, .noise = 2e-5, .drift = 0.05, .power_noise = 1e-4},
    {.name = "coarse clock", .step_s = 0.02, .noise = 0.002, .tick_s = 1e-4, .power_tick_w = 1},
    {.name = "a few long steps", .steps = 9, .step_s = 6, .noise = 0.002, .trials = 3},
};

double ticked(double value, double tick) { return tick > 0 ? tick * std::round(value / tick) : value; }

/// A run of it: noise with outliers, a warm-up, a drift, a period, the tick of its clock; power that wanders.
Record run_of(const Machine& machine, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Record record = made_record(id, {});
  const double speed = 1 + 0.01 * normal(random);
  for (int t = 0; t < machine.trials; ++t) {
    Trial& trial = record.trials.emplace_back();
    for (int i = 0; i < machine.steps; ++i) {
      const double along = static_cast<double>(i) / machine.steps;
      double step = machine.step_s * speed * (1 + machine.drift * (1 - std::exp(-3 * along)));
      if (i % 4 == 0) step *= 1 + machine.alternation;
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
      watts = ticked(300 * (1 - 0.2 * std::exp(-i / 5.0)) * (1 + wander), machine.power_tick_w);
      power.time_s.push_back(0.1 * i), power.mean.push_back(watts);
    }
    power.minimum = power.maximum = power.mean;
    trial.series = {power};
    EnergyRow row;
    row.scope = "node", row.domain = "meter:0", row.host = "node1", row.method = "counter";
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

}  // namespace
}  // namespace tw
