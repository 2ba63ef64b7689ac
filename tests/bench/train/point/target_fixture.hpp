// A point that is trained to a target in this process, with steps of a test's own where it gives some.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "bench/train/point/measure_point.hpp"
#include "models/compute/registry.hpp"
#include "results/record/report_io.hpp"
#include "results/validation/validate.hpp"
#include "tests/support/needs_cpu.hpp"

namespace tw {

class TargetRuns : public testing::Test {
 protected:
  void SetUp() override { TW_NEEDS_CPU(); }
  /// Runs the first point of a request, its task changed by `change`, on one thread.
  static results::Record run(const bench::Axes& axes, const std::function<void(models::TaskDescription&)>& change,
                             const bench::StepSourceFactory& steps, int seeds = 3) {
    static comm::Job job(nullptr, nullptr);  // one for each process
    bench::Request request;
    request.axes.push_back(axes);
    request.target = bench::TargetRequest{.value = {}, .seed_count = seeds, .seeds = {}};
    request.seed = 11;
    bench::RunPlan plan = bench::make_plan(request, 1, "cpu");
    change(*plan.points[0].task);
    plan.points[0].network.drawn_tokens = plan.points[0].task->drawn_tokens;
    const std::unique_ptr<models::Device> device = models::create_device("cpu", models::DeviceOptions{0, 1});
    const bench::Machines machines(job);
    bench::EnergyWindow energy(job, machines);
    bench::Progress progress(false, 1, 0);
    bench::RunContext context{job, *device, plan, energy, progress, 25, "none asked for", {}, nullptr, {}, {}, steps};
    results::Record record = bench::run_point(context, plan.points[0]);
    const results::Validation found = results::validate_record_lines(results::to_json_line(record) + "\n");
    EXPECT_TRUE(found.violations.empty()) << results::fault_line(found.violations.front());
    return record;
  }
  static results::Record run(const std::string& model, const std::function<void(models::TaskDescription&)>& change,
                    const bench::StepSourceFactory& steps, int seeds = 3) {
    bench::Axes axes;
    axes.model = {model};
    return run(axes, change, steps, seeds);
  }
  static bool has(const results::Record& record, const char* flag) {
    return results::has_flag(record, results::FlagName(flag));
  }
};

}  // namespace tw
