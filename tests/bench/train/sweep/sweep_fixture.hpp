// Points over the stand-in driver, whose steps follow its clock: what tests of settings and of searches share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "bench/plan/options/axes.hpp"
#include "bench/train/point/measure_point.hpp"
#include "bench/train/sweep/cool_down.hpp"
#include "bench/train/sweep/search_run.hpp"
#include "models/compute/registry.hpp"
#include "power/knob/journal.hpp"
#include "power/sources/powercap/cap_knob.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/selection/search.hpp"
#include "tests/support/needs_cpu.hpp"
#include "tests/support/nvml/stand_in.hpp"

namespace tw::sweep_test {

namespace fs = std::filesystem;

inline constexpr double fixed_seconds = 0.002, clocked_seconds = 0.008, full_mhz = 1980;

/// A step of a + b/f seconds at the clock that the stand-in runs at. The clock that times it and the GPU's own, with it
/// its joules, go on by exactly that much, whatever the sleep came to.
class ClockedSteps : public bench::StepSource {
  using Clock = std::chrono::steady_clock;

 public:
  ClockedSteps(standin::StandIn& gpus, std::function<void(int)> during) : gpus_(gpus), during_(std::move(during)) {
    gpus_.edit_all([](standin::State& state) { state.frozen_ns = state.now_ns(), state.frozen = 1; });
  }
  /// The GPU's clock goes on as others do, which are ahead of it: no sleep is too short.
  ~ClockedSteps() override {
    gpus_.edit_all([](standin::State& state) { state.frozen = 0; });
  }
  ClockedSteps(const ClockedSteps&) = delete;
  ClockedSteps& operator=(const ClockedSteps&) = delete;
  models::StepResult step(const models::GradientSync&) override {
    const double mhz = static_cast<double>(gpus_.effective_clock_mhz(0));
    if (during_) during_(steps_);
    const auto duration = std::chrono::duration<double>(fixed_seconds + clocked_seconds * full_mhz / mhz);
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(duration);
    next_ = std::max(next_, Clock::now()) + nanoseconds;
    std::this_thread::sleep_until(next_);
    now_ += nanoseconds;
    gpus_.edit_all([&](standin::State& state) { state.frozen_ns += static_cast<standin::Count>(nanoseconds.count()); });
    return models::StepResult{4 - 1e-3 * ++steps_, 1};
  }
  std::uint64_t planned_bytes() const override { return 0; }
  Clock::time_point now() const override { return now_; }

 private:
  standin::StandIn& gpus_;
  std::function<void(int)> during_;
  Clock::time_point next_, now_ = Clock::now();
  int steps_ = 0;
};

inline double expected_joules_per_step(const standin::Gpu& gpu, double mhz) {
  const double watts = 1e-3 * (static_cast<double>(gpu.idle_mw) + static_cast<double>(gpu.memory_mw) +
                               static_cast<double>(gpu.dynamic_mw) * std::pow(mhz / full_mhz, 3));
  return watts * (fixed_seconds + clocked_seconds * full_mhz / mhz);
}

class Sweep : public testing::Test {
 protected:
  Sweep() : gpus_(1) {
    run_folder_ = fs::path(testing::TempDir()) / ("trainwatt-sweep-" + std::to_string(getpid()));
    fs::create_directories(run_folder_);
    fs::permissions(run_folder_, fs::perms::owner_all);
    setenv("TRAINWATT_RUN_DIR", run_folder_.c_str(), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    measurement_.window_seconds = 0.4;
    measurement_.trials = 1;
    measurement_.ceiling_seconds = 0;
    gpus_.edit(0, [](standin::Gpu& gpu) {
      gpu.step_ns = 1'000'000;
      gpu.limit_mw = 650'000;
    });
  }
  ~Sweep() override {
    fs::remove_all(run_folder_);
    fs::remove_all(power::journal_folder_of_rank(0));
  }
  void SetUp() override {
    TW_NEEDS_CPU();
    if (geteuid() != 0) GTEST_SKIP() << "needs root, as the driver's settings do";
  }

  static comm::Job& job() {
    static comm::Job job(nullptr, nullptr);  // one for each process
    return job;
  }
  bool has_journal() const { return fs::exists(run_folder_ / "settings.json"); }

  results::Report run(const std::map<power::KnobKind, std::vector<std::string>>& setting) {
    comm::Job& job = Sweep::job();
    bench::Request request;
    bench::Axes axes;
    axes.model = {"resnet-tiny"};
    axes.setting = setting;
    request.axes = {axes};
    request.measurement = measurement_;
    const bench::RunPlan plan = bench::make_plan(request, 1, "cpu");
    const std::unique_ptr<models::Device> device = models::create_device("cpu", models::DeviceOptions{0, 1});
    const bench::Machines machines(job);
    bench::EnergyWindow energy(job, machines);
    bench::Progress progress(false, 1, 0);
    bench::JobSettings settings(job, machines, options_);
    bench::RunContext context{
        job,
        *device,
        plan,
        energy,
        progress,
        25,
        "",
        {},
        &settings,
        {},
        machines.visible_anywhere(),
        [&](models::Device&, const models::TrainerConfig&) { return std::make_unique<ClockedSteps>(gpus_, during_); }};
    results::Report report;
    report.context.meters = energy.entries();
    for (const bench::Point& point : plan.points) report.records.push_back(bench::run_point(context, point));
    EXPECT_TRUE(settings.restore());
    news_ = settings.news();
    EXPECT_EQ(news_.size(), expected_news_);
    results::flag_unstable(report);
    return report;
  }
  /// What a search over graphics clocks measures and comes to.
  results::Report search(const std::string& clocks, double max_slowdown) {
    bench::Request request;
    request.axes.emplace_back().model = {"resnet-tiny"};
    request.axes.front().setting = {{power::KnobKind::gpu_clock, {clocks}}};
    request.measurement = measurement_;
    request.search = bench::SearchRequest{results::SearchMerit::energy, max_slowdown, 0, 0};
    const bench::RunPlan plan =
        bench::make_plan(request, 1, "cuda");  // the steps go by the GPU's clock, whatever computes
    const std::unique_ptr<models::Device> device = models::create_device("cpu", models::DeviceOptions{0, 1});
    const bench::Machines machines(job());
    bench::EnergyWindow energy(job(), machines);
    bench::Progress progress(false, 1, 0);
    bench::JobSettings settings(job(), machines, options_);
    bench::RunContext context{
        job(),
        *device,
        plan,
        energy,
        progress,
        25,
        "",
        {},
        &settings,
        {},
        machines.visible_anywhere(),
        [&](models::Device&, const models::TrainerConfig&) { return std::make_unique<ClockedSteps>(gpus_, during_); }};
    results::Report report;
    report.plan.canonical_json = plan.canonical_json();
    report.search = bench::run_search(job(), plan, [&](const bench::Point& point) -> const results::Record& {
      report.records.push_back(bench::run_point(context, point));
      return report.records.back();
    });
    for (results::SearchOutcome& outcome : *report.search) results::conclude(outcome, report.records);
    EXPECT_TRUE(settings.restore());
    return report;
  }
  static bool has(const results::Record& record, const char* flag) {
    return results::has_flag(record, results::FlagName(flag));
  }

  standin::StandIn gpus_;
  std::function<void(int)> during_;  ///< called at each step
  std::size_t expected_news_ = 0;    ///< lines that JobSettings::news() has after run()
  std::vector<std::string> news_;    ///< them
  bench::Measurement measurement_;
  bench::JobSettingsOptions options_;
  fs::path run_folder_;
};

}  // namespace tw::sweep_test
