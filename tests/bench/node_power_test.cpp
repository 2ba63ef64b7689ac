// Which meters a process reads for its node, and which of them are the job's.
#include "bench/node_power/node_power.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "tests/power/fake_meter.hpp"

namespace tw {
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
