// What a window holds where one rank reads the meters and another works. Run alone and under mpirun.
#include "bench/train/node/energy_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "bench/train/point/measure_point.hpp"
#include "models/compute/registry.hpp"
#include "tests/comm/support.hpp"
#include "tests/support/needs_cpu.hpp"
#include "tests/support/nvml/stand_in.hpp"

namespace tw {

using namespace bench;
using namespace comm;
using namespace models;
using namespace power;
using namespace results;

namespace {

TEST(EnergyWindow, HoldsTheStepsOfAllRanksAndNothingElse) {
  Job& job = test_job();
  std::optional<standin::StandIn> gpus;
  if (job.is_root()) gpus.emplace(1);
  const std::filesystem::path folder = job.broadcast(gpus ? gpus->folder().string() : "");
  setenv(standin::folder_variable, folder.c_str(), 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  constexpr standin::Count slow_ms = 200, work_ms = 100;
  if (job.is_root()) {
    gpus->freeze();
    gpus->edit(0, [](standin::Gpu& gpu) { gpu.slow_ms = slow_ms; });
  }
  job.barrier();
  {  // The GPU's time stands still for seconds: that is how its counter is, and not a stall.
    const EnergyWindow::WarmUp warm_up(energy);
    std::this_thread::sleep_for(std::chrono::seconds(3));
  }
  job.barrier();
  const auto work = [&] {  // the GPU's time goes on with it alone
    if (job.rank() < job.size() - 1) return;
    standin::edit_state(folder, [](standin::State& state) { state.frozen_ns += work_ms * 1'000'000; });
  };
  energy.begin();
  work();  // the reader is slow: it must have read by now
  if (job.rank() == job.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(3 * slow_ms));
  work();  // the reader has nothing to do: it must wait
  energy.end();
  work();  // it must have read again
  Trial trial;
  energy.collect(trial);
  const auto row = std::ranges::find_if(trial.energy, [](const EnergyRow& one) { return one.counted; });
  ASSERT_NE(row, trial.energy.end());
  const double watts = 1e-3 * static_cast<double>(standin::operation(standin::read_state(folder).gpus[0]).power_mw);
  EXPECT_NEAR(row->energy_j.value(), watts * 2e-3 * work_ms, 1e-9);
  EXPECT_GE(trial.clock_skew_s.value(), 2e-3 * slow_ms) << "both readings";
  job.barrier();  // before the folder goes
}

/// Steps whose clock is slow to answer, as where a machine stops the thread that asks.
class StepsOfASlowClock : public StepSource {
 public:
  StepResult step(const GradientSync&) override { return {4 - 1e-3 * ++steps_, 1, {}}; }
  std::uint64_t planned_bytes() const override { return 0; }
  std::chrono::steady_clock::time_point now() const override {
    constexpr auto delay = std::chrono::milliseconds(5);
    std::this_thread::sleep_for(delay);
    const auto shown = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(delay);
    return shown;
  }

 private:
  int steps_ = 0;
};

TEST(EnergyWindow, NoMetersWindowDiffersFromTheStepsByMoreThanTheSkewThatIsStated) {
  TW_NEEDS_CPU();
  Job& job = test_job();
  std::optional<standin::StandIn> gpus;
  if (job.is_root()) gpus.emplace(1);
  setenv(standin::folder_variable, job.broadcast(gpus ? gpus->folder().string() : "").c_str(), 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  Request request;
  request.axes.emplace_back().model = {"resnet-tiny"};
  request.measurement.trials = 3, request.measurement.warmup_steps = 0, request.measurement.steps = 2;
  request.measurement.ceiling_seconds = 0;
  const RunPlan plan = make_plan(request, job.size(), "cpu");
  const std::unique_ptr<Device> device = create_device("cpu", DeviceOptions{0, 1});
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  Progress progress(false, 1, 0);
  const auto steps = [](Device&, const TrainerConfig&) { return std::make_unique<StepsOfASlowClock>(); };
  RunContext context{job, *device, plan, energy, progress, 25, "", {}, nullptr, {}, {}, steps};
  const Record record = run_point(context, plan.points[0]);
  ASSERT_EQ(record.trials.size(), 3u);
  for (const Trial& trial : record.trials) {
    int windows = 0;
    for (const EnergyRow& row : trial.energy) {
      if (!row.window_s) continue;
      ++windows;
      EXPECT_GE(*row.window_s, trial.window_s) << "the joules hold all steps";
      EXPECT_LE(std::abs(*row.window_s - trial.window_s), trial.clock_skew_s.value()) << row.domain;
    }
    EXPECT_GT(windows, 0);
  }
  job.barrier();  // before the folder goes
}

std::int64_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(EnergyWindow, APartOfTheJobReadsTheMetersThatAreOpen) {
  Job& job = test_job();
  const Machines machines(job);
  EnergyWindow whole(job, machines);
  const auto rows = [&](EnergyWindow& energy) {
    energy.begin();
    energy.end();
    Trial trial;
    energy.collect(trial);
    std::vector<std::string> domains;
    for (const EnergyRow& row : trial.energy) domains.push_back(row.host + " " + row.domain);
    return domains;
  };
  const std::vector<std::string> all = rows(whole);
  const std::int64_t before = open_files();
  EnergyWindow part(job, machines, {}, &whole);
  EXPECT_EQ(open_files(), before) << "nothing is opened once more";
  EXPECT_EQ(rows(part), all);
  EXPECT_EQ(rows(whole), all) << "and the whole goes on";
}

/// A site's command that is read back, which counts how often it is run.
class CommandKnob : public Knob {
 public:
  KnobKind kind() const override { return KnobKind::cpu_governor; }
  std::string domain() const override { return "cpu"; }
  KnobRange range() const override { return {1, 1, {}}; }
  std::optional<double> get() override { return 1; }
  double set(double value) override { return value; }
  std::optional<double> observe() override { return 1; }
  KnobState save() override {
    ++runs;
    return {{"value", "1"}};
  }
  bool is_ours(double, double) override { return true; }
  void restore(const KnobState&) override {}
  std::map<std::string, std::string> programs() const override { return {{"get", "/bin/true"}}; }
  int runs = 0;
};

// Its CPU time is nobody else's: the window's CPU times are read between end() and collect().
TEST(EnergyWindow, RunsASitesCommandWhenTheWindowsCpuTimesHaveBeenRead) {
  Job& job = test_job();
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  CommandKnob knob;
  KnobWatch watch;
  watch.watch({{&knob, KnobState{{"value", "1"}}, true}});
  energy.watch(&watch);
  energy.begin();
  energy.end();
  EXPECT_EQ(knob.runs, 0);
  Trial trial;
  energy.collect(trial);
  EXPECT_EQ(knob.runs, machines.has_part() ? 1 : 0);
  ASSERT_TRUE(trial.setting_changes);
  EXPECT_TRUE(trial.setting_changes->empty());
  energy.idle(results::IdleTime::after);
  EXPECT_EQ(knob.runs, machines.has_part() ? 1 : 0) << "nothing is set then";
}

TEST(Machines, AddUpWhatTheirRanksBring) {
  Job& job = test_job();
  const auto ranks = static_cast<std::size_t>(job.size());
  std::vector<Sighted> sighted(ranks, Sighted{"m", {}, {}});
  EXPECT_EQ(Machines(sighted, job.rank()).sum_here(job, 1), ranks) << "pods of one machine";
  sighted.back().machine = "n";
  const bool last = job.rank() == job.size() - 1;
  EXPECT_EQ(Machines(sighted, job.rank()).sum_here(job, 1), last ? 1 : ranks - 1);
}

}  // namespace
}  // namespace tw
