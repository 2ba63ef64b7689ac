// Forgeries that leave out a part of what was measured: the time before an evaluation, a GPU of a rank.
#include <gtest/gtest.h>

#include <algorithm>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/validation/validate.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

bool finds(const std::vector<Fault>& faults, const std::string& code) {
  return std::ranges::find(faults, code, &Fault::code) != faults.end();
}

/// A clock of evaluations that runs slower than the steps makes a target come sooner.
TEST(Forgery, EvaluationsComeAfterTheirSteps) {
  const Report good = sample_target_report();
  EXPECT_TRUE(validate_report(to_json(good)).violations.empty());
  Report early = good, little = good;
  for (Record& record : early.records)
    for (Trial& trial : record.trials)
      for (Evaluation& one : trial.target_run->evaluations) one.time_s *= 1e-3;
  for (Record& record : little.records)
    for (Trial& trial : record.trials) trial.target_run->evaluation_s = 0.9 * trial.window_s;
  for (Report* forged : {&early, &little}) {
    summarise(*forged);
    EXPECT_TRUE(finds(validate_report(to_json(*forged)).violations, "target_run"));
  }
}

/// A GPU of a rank, beside others of its host that count.
TEST(Forgery, ACountedHostLeavesOutNoGpuOfARank) {
  const auto found = [](const std::string& second_uuid, const std::string& reason, bool is_listed) {
    Report report = sample_energy_report();
    DeviceEntry& first = report.context.devices[0];
    DeviceEntry& second = report.context.devices[1];
    first.kind = second.kind = "cuda", first.uuid = "GPU-1", second.uuid = second_uuid;
    const auto add = [&](const std::string& uuid, bool counted) {
      MeterEntry meter;
      meter.host = first.host, meter.domain = "nvml:" + uuid, meter.scope = Scope::device;
      meter.available = true, meter.counted = counted, meter.reason = counted ? "" : reason;
      report.context.meters.push_back(meter);
    };
    add("GPU-1", true);
    if (is_listed) add(second.uuid, reason.empty());
    return finds(validate_report(to_json(report)).violations, "gpus_missing");
  };
  EXPECT_FALSE(found("GPU-2", "", true));
  EXPECT_FALSE(found("GPU-1", "", false)) << "ranks may share one";
  for (const char* reason : {"not_visible", "contained", "duplicate"}) EXPECT_TRUE(found("GPU-2", reason, true));
  EXPECT_TRUE(found("GPU-2", "", false));
  EXPECT_TRUE(found("", "", false));
}

}  // namespace
}  // namespace tw
