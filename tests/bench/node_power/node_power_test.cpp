// Which meters a process reads for its node, and which of them are the job's.
#include "bench/node_power/node_power.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "power/meter/domain_kinds.hpp"
#include "power/meter/energy_meter.hpp"
#include "results/validation/sensors.hpp"
#include "tests/power/fake_meter.hpp"

namespace tw {

using namespace bench;
using namespace power;
using namespace results;

namespace {

using Names = std::set<std::string>;

MeterFinding finding(const std::string& domain, std::optional<EnergyScope> scope, bool counted,
                     const std::string& reason = "") {
  MeterFinding one;
  one.domain = domain;
  one.scope = scope;
  one.counted = counted;
  one.reason = reason;
  if (reason.empty() || reason == "duplicate")
    one.meter = std::make_unique<FakeMeter>(std::make_shared<FakeState>(), 1e9);
  return one;
}

std::vector<MeterFinding> node() {
  std::vector<MeterFinding> all;
  const auto device = EnergyScope::device;
  for (const std::string gpu : {"a", "b"}) {
    all.push_back(finding("nvml:GPU-" + gpu, device, true));
    all.push_back(finding("nvml-power:GPU-" + gpu, {}, false, "duplicate"));
  }
  all.push_back(finding("amdsmi:0000:c1:00.0", device, true));
  all.push_back(finding("amdgpu:0000:c1:00.0", device, false, "duplicate"));
  all.push_back(finding("amdsmi:0000:c2:00.0", {}, false, "unsupported"));
  all.push_back(finding("amdgpu:0000:c2:00.0", device, true));
  all.push_back(finding("amdgpu:0000:04:00.0", EnergyScope::package, true));  // an APU
  all.push_back(finding("rapl:package-0", EnergyScope::package, false, "duplicate"));
  return all;
}

/// Neither room includes the other: each has a list.
TEST(DomainKinds, AreTheSameForMetersAndForReadersOfReports) {
  for (const power::DomainKind& kind : power::domain_kinds) {
    const std::string domain = std::string(kind.name) + ":0";
    EXPECT_EQ(results::source_of(domain), power::kind_of(domain).source) << domain;
    EXPECT_EQ(results::kind_of(domain).is_gpu, !power::gpu_of(domain).empty()) << domain;
  }
  for (const results::DomainKind& kind : results::domain_kinds)
    EXPECT_LT(power::rank_of_source(power::kind_of(kind.prefix).source), std::ssize(power::domain_kinds))
        << kind.prefix;
  EXPECT_EQ(power::gpu_of("nvml-power:GPU-1"), "nvml:GPU-1");
  EXPECT_EQ(power::gpu_of("nvml"), "") << "a whole source is of no GPU";
  EXPECT_EQ(results::kind_of("rapl:psys").scope, Scope::node);
  EXPECT_EQ(results::kind_of("perf:package-0/dram").scope, Scope::dram);
  EXPECT_EQ(results::kind_of("rapl:package-0").scope, Scope::package);
  EXPECT_EQ(results::kind_of("rapl").scope, Scope::none) << "a whole source has several";
  EXPECT_TRUE(results::kind_of("cray:accel0").is_gpu);
}

TEST(GpuChoice, WhatNoRankMayUseIsNotCounted) {
  GpuChoice gpus;
  gpus.visible = Names{"nvml:GPU-a", "amdgpu:0000:c1:00.0"};
  std::map<std::string, std::string> left_out;
  for (const MeterFinding& one : choose(node(), gpus)) {
    if (one.reason != "not_visible") continue;
    EXPECT_FALSE(one.counted) << one.domain;
    left_out[one.domain] = one.detail;
  }
  ASSERT_EQ(left_out.size(), 3u);
  EXPECT_NE(left_out.at("nvml:GPU-b").find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  EXPECT_NE(left_out.at("amdgpu:0000:c2:00.0").find("ROCR_VISIBLE_DEVICES"), std::string::npos);
  EXPECT_TRUE(left_out.count("amdsmi:0000:c2:00.0"));
  for (const MeterFinding& one : choose(node(), gpus)) {
    const bool ours =
        one.domain == "nvml:GPU-a" || one.domain == "amdsmi:0000:c1:00.0" || one.domain == "amdgpu:0000:04:00.0";
    EXPECT_EQ(one.counted, ours) << one.domain;
  }
}

TEST(GpuChoice, SaysNothingWhereNobodyAsked) {
  const auto before = node(), after = choose(node(), {});
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].counted, after[i].counted);
    EXPECT_EQ(before[i].reason, after[i].reason);
  }
}

std::set<std::string> telemetry_of(const GpuChoice& gpus) {
  std::vector<TelemetryFinding> all;
  for (const char* domain :
       {"cpu", "nvml:GPU-a", "nvml:GPU-b", "amdgpu:0000:c1:00.0", "amdgpu:0000:c2:00.0", "rapl:package-0"})
    all.push_back({domain, nullptr, "", ""});
  Names left;
  for (const TelemetryFinding& one : choose(std::move(all), gpus)) left.insert(one.domain);
  return left;
}

TEST(GpuChoice, HeatAndErrorsOfOthersGpusAreNotTheJobs) {
  GpuChoice gpus;
  EXPECT_EQ(telemetry_of(gpus).size(), 6u);
  gpus.visible = Names{"nvml:GPU-a", "amdgpu:0000:c2:00.0"};
  EXPECT_EQ(telemetry_of(gpus), (Names{"cpu", "nvml:GPU-a", "amdgpu:0000:c2:00.0", "rapl:package-0"}));
  gpus.only = Names{"nvml:GPU-a"};
  EXPECT_EQ(telemetry_of(gpus), Names{"nvml:GPU-a"});
}

class DeviceMeter : public FakeMeter {
 public:
  using FakeMeter::FakeMeter;
  EnergyScope scope() const override { return EnergyScope::device; }
};

/// The domains that are counted on a Cray node of two GPUs with these findings of the driver.
Names counted_on_cray(const std::vector<std::string>& listed, const GpuChoice& gpus) {
  std::vector<MeterFinding> all;
  const auto add = [&](const std::string& domain) {
    const bool opens = domain.find('#') == std::string::npos;
    MeterFinding one = finding(domain, EnergyScope::device, opens, opens ? "" : "permission");
    if (opens) one.meter = std::make_unique<DeviceMeter>(std::make_shared<FakeState>(), 1e9);
    all.push_back(std::move(one));
  };
  for (const char* accelerator : {"cray:accel0", "cray:accel1"}) add(accelerator);
  for (const std::string& domain : listed) add(domain);
  all = choose(std::move(all), gpus);
  arbitrate(all);
  Names counted;
  for (const MeterFinding& one : all) {
    if (one.counted) counted.insert(one.domain);
    EXPECT_TRUE(one.counted || !one.domain.starts_with("cray:") || one.reason == "not_visible") << one.reason;
  }
  return counted;
}

TEST(GpuChoice, CraysAcceleratorsCountWhereAllGpusAreTheJobs) {
  const std::vector<std::string> both = {"nvml:GPU-a", "nvml:GPU-b"};
  GpuChoice gpus;
  gpus.visible = Names{"nvml:GPU-a", "nvml:GPU-b"};
  EXPECT_EQ(counted_on_cray(both, gpus), (Names{"cray:accel0", "cray:accel1"}));
  gpus.unread.push_back({"gpu", "tasks_unknown", ""});
  EXPECT_EQ(counted_on_cray(both, gpus), (Names{"nvml:GPU-a", "nvml:GPU-b"}))
      << "other tasks may have what is not known";
  gpus.unread.clear();
  EXPECT_EQ(counted_on_cray({"nvml:GPU-a"}, gpus), Names{"nvml:GPU-a"}) << "another rank reads its own by the driver";
  gpus.visible = Names{"nvml:GPU-a"};
  EXPECT_EQ(counted_on_cray(both, gpus), Names{"nvml:GPU-a"});
  EXPECT_EQ(counted_on_cray({"nvml:GPU-a", "nvml:#1"}, gpus), Names{"nvml:GPU-a"}) << "a cgroup keeps the other away";
  EXPECT_EQ(counted_on_cray({"nvml:GPU-a"}, gpus), Names{"nvml:GPU-a"}) << "a cgroup hides the other";
  gpus.visible = Names{};
  EXPECT_EQ(counted_on_cray({}, gpus), Names{}) << "no driver answers: whose they are is not known";
}

TEST(EnergyRow, HasTheLedgersFiguresAndNoZeroForWhatIsNotKnown) {
  LedgerRow from;
  from.domain = "rapl:package-0", from.scope = "package", from.method = "counter";
  from.energy_joules = 100, from.uncertainty_joules = 2;
  from.window_seconds = 4, from.update_period_seconds = 0.001, from.wraps = 2, from.counted = true;
  EnergyRow row = energy_row(from, "node1");
  EXPECT_EQ(row.host, "node1");
  EXPECT_EQ(row.domain + row.scope + row.method + row.reason, "rapl:package-0packagecounter");
  EXPECT_EQ(row.energy_j, 100);
  EXPECT_EQ(row.uncertainty_j, 2);
  EXPECT_EQ(row.window_s, 4);
  EXPECT_EQ(row.update_period_s, 0.001);
  EXPECT_EQ(row.wraps, 2);
  EXPECT_TRUE(row.counted);
  EXPECT_FALSE(row.detail);
  from.energy_joules.reset(), from.window_seconds = from.update_period_seconds = 0, from.reason = "lost",
                              from.detail = "did not answer";
  row = energy_row(from, "node1");
  EXPECT_FALSE(row.energy_j || row.wraps || row.window_s || row.update_period_s);
  EXPECT_EQ(row.reason, "lost");
  EXPECT_EQ(row.detail, "did not answer");
}

TEST(GpuChoice, ARankThatIsNoReaderHasItsOwnAlone) {
  GpuChoice gpus;
  gpus.visible = gpus.only = Names{"nvml:GPU-b"};
  const auto left = choose(node(), gpus);
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].domain, "nvml:GPU-b");
  EXPECT_EQ(left[1].domain, "nvml-power:GPU-b");
}

}  // namespace
}  // namespace tw
