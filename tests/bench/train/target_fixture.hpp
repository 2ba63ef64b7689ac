// A point that is trained to a target in this process, with steps of a test's own where it gives some.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "bench/train/point/measure_point.hpp"
#include "models/compute/registry.hpp"
#include "results/record/report_io.hpp"

namespace tw {

class TargetRuns : public testing::Test {
 protected:
  /// Runs the first point of a request, its task changed by `change`, on one thread.
  static Record run(const Axes& axes, const std::function<void(TaskDescription&)>& change,
                    const StepSourceFactory& steps, int seeds = 3) {
    static Job job(nullptr, nullptr);  // one for each process
    Request request;
    request.axes.push_back(axes);
    request.target = TargetRequest{.value = {}, .seed_count = seeds, .seeds = {}};
    request.seed = 11;
    RunPlan plan = make_plan(request, 1, "cpu");
    change(*plan.points[0].task);
    const std::unique_ptr<Device> device = create_device("cpu", DeviceOptions{0, 1});
    const Machines machines(job);
    EnergyWindow energy(job, machines);
    Progress progress(false, 1, 0);
    RunContext context{job, *device, plan, energy, progress, 25, "none asked for", {}, nullptr, {}, {}, steps};
    Record record = run_point(context, plan.points[0]);
    const Validation found = validate_record_lines(to_json_line(record) + "\n");
    EXPECT_TRUE(found.violations.empty()) << fault_line(found.violations.front());
    return record;
  }
  static Record run(const std::string& model, const std::function<void(TaskDescription&)>& change,
                    const StepSourceFactory& steps, int seeds = 3) {
    Axes axes;
    axes.model = {model};
    return run(axes, change, steps, seeds);
  }
  static bool has(const Record& record, const char* flag) {
    return has_flag(record, FlagName(flag));
  }
};

}  // namespace tw
