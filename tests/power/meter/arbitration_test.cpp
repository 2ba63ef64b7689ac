// Whatever combination of sources is there, no joule stands twice in a scope.
#include "power/meter/energy_meter.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>

namespace tw {

using namespace power;

namespace {

class StubMeter : public EnergyMeter {
 public:
  StubMeter(std::string domain, EnergyScope scope, EnergyMethod method)
      : domain_(std::move(domain)), scope_(scope), method_(method) {}
  std::string domain() const override { return domain_; }
  EnergyScope scope() const override { return scope_; }
  EnergyMethod method() const override { return method_; }
  EnergySample read() override { return {}; }
  double update_period_seconds() const override { return 0.001; }
  double wrap_seconds() const override { return std::numeric_limits<double>::infinity(); }
  double maximum_power_watts() const override { return 100; }
  bool maximum_power_is_default() const override { return false; }

 private:
  std::string domain_;
  EnergyScope scope_;
  EnergyMethod method_;
};

constexpr auto device = EnergyScope::device, package = EnergyScope::package, dram = EnergyScope::dram,
               node = EnergyScope::node;
constexpr auto counter = EnergyMethod::counter, integrated = EnergyMethod::integrated_power;

/// The findings of one made-up node.
class Node {
 public:
  Node& open(const std::string& domain, EnergyScope scope, EnergyMethod method = counter) {
    MeterFinding finding;
    finding.domain = domain;
    finding.meter = std::make_unique<StubMeter>(domain, scope, method);
    finding.scope = scope;
    finding.counted = true;  // what a source alone would say
    findings_.push_back(std::move(finding));
    return *this;
  }
  Node& closed(const std::string& domain, std::optional<EnergyScope> scope, const std::string& reason) {
    MeterFinding finding;
    finding.domain = domain;
    finding.scope = scope;
    finding.reason = reason;
    findings_.push_back(std::move(finding));
    return *this;
  }
  /// "counted", else the reason; with the scope whose total it leaves short, if any.
  std::map<std::string, std::string> outcome() {
    arbitrate(findings_);
    std::map<std::string, std::string> result;
    for (const MeterFinding& one : findings_) {
      EXPECT_TRUE(!one.counted || (one.meter && one.reason.empty())) << one.domain;
      EXPECT_TRUE(!one.meter || one.counted || !one.reason.empty()) << one.domain;
      result[one.domain] = (one.counted ? "counted" : one.reason) +
                           (!one.meter && one.scope ? std::string(" in ") + to_string(*one.scope) : "");
    }
    return result;
  }
  std::string detail(const std::string& domain) const {
    for (const MeterFinding& one : findings_)
      if (one.domain == domain) return one.detail;
    return "not there";
  }

 private:
  std::vector<MeterFinding> findings_;
};

using Outcome = std::map<std::string, std::string>;

TEST(Arbitration, CountsWhatIsAlone) {
  EXPECT_EQ(Node().open("rapl:package-0", package).open("rapl:package-1", package).outcome(),
            (Outcome{{"rapl:package-0", "counted"}, {"rapl:package-1", "counted"}}));
  EXPECT_EQ(Node().closed("rapl", std::nullopt, "no_driver").outcome(), (Outcome{{"rapl", "no_driver"}}));
}

TEST(Arbitration, CountsOneOfPowercapAndPerf) {
  Node both;
  both.open("rapl:package-0", package).open("rapl:package-0/dram", dram).open("rapl:psys", node);
  both.open("perf:package-0", package).open("perf:package-0/dram", dram).open("perf:psys", node);
  EXPECT_EQ(both.outcome(), (Outcome{{"rapl:package-0", "counted"},
                                     {"rapl:package-0/dram", "counted"},
                                     {"rapl:psys", "counted"},
                                     {"perf:package-0", "duplicate"},
                                     {"perf:package-0/dram", "duplicate"},
                                     {"perf:psys", "duplicate"}}));
  EXPECT_EQ(both.detail("perf:package-0"), "a cross-check of rapl:package-0, which is counted");
}

TEST(Arbitration, TakesTheSourceThatMissesNothing) {
  // package-1 is closed in powercap: the total comes from perf, whose two are both there, and nothing is missing.
  Node node_of_two;
  node_of_two.open("rapl:package-0", package).closed("rapl:package-1", package, "permission");
  node_of_two.open("perf:package-0", package).open("perf:package-1", package);
  EXPECT_EQ(node_of_two.outcome(), (Outcome{{"rapl:package-0", "duplicate"},
                                            {"rapl:package-1", "permission"},
                                            {"perf:package-0", "counted"},
                                            {"perf:package-1", "counted"}}));
}

TEST(Arbitration, LeavesATotalShortWhereEverySourceMissesSomething) {
  Node short_node;
  short_node.open("rapl:package-0", package).closed("rapl:package-1", package, "permission");
  short_node.open("perf:package-1", package).closed("perf:package-0", package, "unsupported");
  EXPECT_EQ(short_node.outcome(), (Outcome{{"rapl:package-0", "counted"},
                                           {"rapl:package-1", "permission in package"},
                                           {"perf:package-0", "unsupported in package"},
                                           {"perf:package-1", "duplicate"}}));
}

TEST(Arbitration, AnOrdinaryUserGetsPerf) {
  Node user;
  user.closed("rapl:package-0", package, "permission").open("perf:package-0", package);
  EXPECT_EQ(user.outcome(), (Outcome{{"rapl:package-0", "permission"}, {"perf:package-0", "counted"}}));
}

TEST(Arbitration, CountsEachGpuOnceByItsBestMeter) {
  Node gpus;
  gpus.open("nvml-power:GPU-a", device, integrated).open("nvml:GPU-a", device);
  gpus.closed("nvml:GPU-b", device, "unsupported").open("nvml-power:GPU-b", device, integrated);
  EXPECT_EQ(gpus.outcome(), (Outcome{{"nvml:GPU-a", "counted"},
                                     {"nvml-power:GPU-a", "duplicate"},
                                     {"nvml:GPU-b", "unsupported"},
                                     {"nvml-power:GPU-b", "counted"}}));
  EXPECT_EQ(gpus.detail("nvml-power:GPU-a"), "a cross-check of nvml:GPU-a, which is counted");
}

TEST(Arbitration, AddsGpusOfTwoVendors) {
  EXPECT_EQ(Node().open("nvml:GPU-a", device).open("amdsmi:GPU-b", device).outcome(),
            (Outcome{{"nvml:GPU-a", "counted"}, {"amdsmi:GPU-b", "counted"}}));
}

TEST(Arbitration, CrayAcceleratorsAreTheGpusAgain) {
  // Both are counters; Cray's are complete and first by trust.
  Node cray;
  cray.open("nvml:GPU-a", device).open("nvml:GPU-b", device).open("cray:accel0", device).open("cray:accel1", device);
  EXPECT_EQ(cray.outcome(), (Outcome{{"nvml:GPU-a", "duplicate"},
                                     {"nvml:GPU-b", "duplicate"},
                                     {"cray:accel0", "counted"},
                                     {"cray:accel1", "counted"}}));
}

TEST(Arbitration, WhatIsNotTheJobsIsNotMissed) {
  Node cray;
  cray.open("nvml:GPU-a", device).closed("nvml:GPU-b", device, "not_visible");
  cray.open("cray:accel0", device).closed("cray:accel1", device, "permission");
  EXPECT_EQ(cray.outcome(), (Outcome{{"nvml:GPU-a", "counted"},
                                     {"nvml:GPU-b", "not_visible in device"},
                                     {"cray:accel0", "duplicate"},
                                     {"cray:accel1", "permission"}}));
}

TEST(Arbitration, CountsOneMeterOfTheNode) {
  Node full;
  full.open("hwmon:module-0", node, integrated).open("external", node, integrated).open("ipmi:dcmi", node, integrated);
  full.open("rapl:psys", node).open("cray:node", node);
  EXPECT_EQ(full.outcome(), (Outcome{{"hwmon:module-0", "duplicate"},
                                     {"external", "duplicate"},
                                     {"ipmi:dcmi", "duplicate"},
                                     {"rapl:psys", "duplicate"},
                                     {"cray:node", "counted"}}));
  Node powers;
  powers.open("hwmon:module-0", node, integrated).open("ipmi:dcmi", node, integrated);
  powers.open("external", node, integrated);
  EXPECT_EQ(powers.outcome(),
            (Outcome{{"hwmon:module-0", "duplicate"}, {"external", "counted"}, {"ipmi:dcmi", "duplicate"}}));
}

TEST(Arbitration, ModulesAddUpAndNodesDoNot) {
  EXPECT_EQ(Node().open("hwmon:module-0", node, integrated).open("hwmon:module-1", node, integrated).outcome(),
            (Outcome{{"hwmon:module-0", "counted"}, {"hwmon:module-1", "counted"}}));
  EXPECT_EQ(Node()
                .open("hwmon:module-0", node, integrated)
                .open("hwmon:module-1", node, integrated)
                .open("ipmi:dcmi", node, integrated)
                .outcome(),
            (Outcome{{"hwmon:module-0", "duplicate"}, {"hwmon:module-1", "duplicate"}, {"ipmi:dcmi", "counted"}}));
}

TEST(Arbitration, ScopesDoNotMix) {
  // psys contains package, and both are counted: each in a column of its own.
  EXPECT_EQ(Node().open("rapl:psys", node).open("rapl:package-0", package).open("nvml:GPU-a", device).outcome(),
            (Outcome{{"rapl:psys", "counted"}, {"rapl:package-0", "counted"}, {"nvml:GPU-a", "counted"}}));
}

TEST(Arbitration, NeverCountsAnEstimate) {
  EXPECT_EQ(Node().open("estimate:cpu", package, EnergyMethod::estimate).open("perf:package-0", package).outcome(),
            (Outcome{{"estimate:cpu", "duplicate"}, {"perf:package-0", "counted"}}));
  EXPECT_EQ(Node().open("estimate:cpu", package, EnergyMethod::estimate).open("rapl:psys", node).outcome(),
            (Outcome{{"estimate:cpu", "estimate"}, {"rapl:psys", "counted"}}));
  // What is missing stays missing.
  EXPECT_EQ(Node()
                .closed("rapl:package-0", package, "permission")
                .open("estimate:cpu", package, EnergyMethod::estimate)
                .outcome(),
            (Outcome{{"rapl:package-0", "permission in package"}, {"estimate:cpu", "estimate"}}));
}

TEST(Arbitration, KeepsWhatASourceSaysOfItsOwnSensors) {
  EXPECT_EQ(
      Node()
          .open("rapl:package-0", package)
          .closed("rapl:package-0/core", std::nullopt, "contained")
          .closed("rapl-mmio:package-0", std::nullopt, "duplicate")
          .outcome(),
      (Outcome{
          {"rapl:package-0", "counted"}, {"rapl:package-0/core", "contained"}, {"rapl-mmio:package-0", "duplicate"}}));
}

/// Every combination of every source: exactly one source is counted in each scope that has a meter.
TEST(Arbitration, CountsOneSourceInEveryCombination) {
  const struct {
    const char* domain;
    EnergyScope scope;
    EnergyMethod method;
  } all[] = {{"rapl:package-0", package, counter},   {"perf:package-0", package, counter},
             {"hwmon:grace-0", package, integrated}, {"cray:cpu", package, counter},
             {"rapl:psys", node, counter},           {"cray:node", node, counter},
             {"ipmi:dcmi", node, integrated},        {"external", node, integrated},
             {"hwmon:module-0", node, integrated},   {"estimate:cpu", package, EnergyMethod::estimate},
             {"perf:psys", node, counter},           {"rapl:package-0/dram", dram, counter},
             {"perf:package-0/dram", dram, counter}};
  for (unsigned mask = 1; mask < 1u << std::size(all); ++mask) {
    Node some;
    std::map<EnergyScope, int> measured, counted;
    for (std::size_t i = 0; i < std::size(all); ++i)
      if (mask >> i & 1) {
        some.open(all[i].domain, all[i].scope, all[i].method);
        if (all[i].method != EnergyMethod::estimate) measured[all[i].scope] = 1;
      }
    const Outcome outcome = some.outcome();
    for (const auto& one : all)
      if (outcome.count(one.domain) && outcome.at(one.domain) == "counted") {
        ++counted[one.scope];
        ASSERT_NE(one.method, EnergyMethod::estimate) << mask;
      }
    ASSERT_EQ(counted, measured) << mask;
  }
}

}  // namespace
}  // namespace tw
