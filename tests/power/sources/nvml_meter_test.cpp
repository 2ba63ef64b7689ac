// NVIDIA energy meters over the stand-in library, whose joules are exact.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <system_error>

#include "power/meter/ledger.hpp"
#include "power/meter/reader.hpp"
#include "power/sources/nvml/library.hpp"
#include "power/visible_gpus.hpp"
#include "tests/power/sources/nvml_finders.hpp"
#include "tests/support/nvml/stand_in.hpp"

namespace tw {

using namespace power;

namespace {

const std::string first = "GPU-00000000-1111-2222-3333-444444444444",
                  second = "GPU-00000001-1111-2222-3333-444444444444";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(NvmlMeter, CountsTheVeryJoules) {
  standin::StandIn machine;
  machine.edit(1, [](standin::Gpu& gpu) { gpu.load_percent = 0; });
  auto findings = nvml_find_meters({});
  ASSERT_EQ(findings.size(), 4u);
  machine.freeze();
  EnergyReader reader(std::move(findings));
  const EnergySnapshot begin = reader.snapshot();
  machine.advance_milliseconds(10'000);
  const EnergySnapshot end = reader.snapshot();
  const auto joules = [&](std::size_t i) { return end.readings[i].sample->joules - begin.readings[i].sample->joules; };
  EXPECT_EQ(reader.findings()[0].domain, "nvml:" + first);
  EXPECT_EQ(reader.findings()[0].meter->scope(), EnergyScope::device);
  EXPECT_EQ(reader.findings()[0].meter->method(), EnergyMethod::counter);
  EXPECT_TRUE(reader.findings()[0].counted);
  EXPECT_EQ(reader.findings()[0].reason, "");
  EXPECT_NEAR(joules(0), 6200, 1e-9);  // 70 + 450 + 100 W for 10 s
  EXPECT_EQ(reader.findings()[2].domain, "nvml:" + second);
  EXPECT_NEAR(joules(2), 700, 1e-9);
}

TEST(NvmlMeter, MeasuresTheUpdatePeriod) {
  standin::StandIn machine(1);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.step_ns = 50'000'000; });
  // Where others use the machine, one half second may tell nothing; CTest's time limit ends the trying.
  double period_seconds = 0;
  while (!(period_seconds > 0.025 && period_seconds < 0.1)) {
    const auto findings = nvml_find_meters({});
    ASSERT_NE(findings.at(0).meter, nullptr);
    period_seconds = findings[0].meter->update_period_seconds();
    EXPECT_EQ(findings[0].meter->maximum_power_watts(), 700);
    EXPECT_FALSE(findings[0].meter->maximum_power_is_default());
    EXPECT_TRUE(std::isinf(findings[0].meter->wrap_seconds()));
  }
}

TEST(NvmlMeter, IntegratesPowerAsACrossCheckThatIsNotCounted) {
  standin::StandIn machine(1);
  EnergyReader reader(nvml_find_meters({}));
  ASSERT_EQ(reader.findings().size(), 2u);
  const MeterFinding& check = reader.findings()[1];
  EnergySnapshot begin = reader.snapshot();
  const EnergySnapshot end = reader.snapshot();
  const EnergySample from = begin.readings[1].sample.value(), to = end.readings[1].sample.value();
  const double seconds = std::chrono::duration<double>(to.time - from.time).count();
  EXPECT_NEAR(check.meter->joules_between(from, to), 620 * seconds, 1e-6);
  EXPECT_TRUE(has(check.detail, "nvml:" + first));
  begin.readings[1].sample->time = to.time - std::chrono::microseconds(1);  // however long this process was held up
  const LedgerRow row = make_ledger(reader.findings(), begin, end)[1];
  EXPECT_EQ(row.domain, "nvml-power:" + first);
  EXPECT_EQ(row.method, "integrated_power");
  EXPECT_EQ(row.reason, "duplicate");
  EXPECT_FALSE(row.counted);
  EXPECT_TRUE(has(row.detail, " is shorter than the ")) << row.detail;
}

TEST(NvmlMeter, CountsIntegratedPowerWhereThereIsNoCounter) {
  for (const bool still : {false, true}) {
    standin::StandIn machine(1);
    machine.edit(0, [&](standin::Gpu& gpu) { (still ? gpu.still : gpu.no_energy) = 1; });
    const auto findings = nvml_find_meters({});
    ASSERT_EQ(findings.size(), 2u);
    EXPECT_EQ(findings[0].meter, nullptr);
    EXPECT_EQ(findings[0].reason, "unsupported");
    EXPECT_TRUE(has(findings[0].detail, "nvmlDeviceGetTotalEnergyConsumption"));
    EXPECT_FALSE(findings[0].scope.has_value());  // nothing is missing
    EXPECT_TRUE(findings[1].counted);
    EXPECT_EQ(findings[1].reason, "");
    const EnergySample from = findings[1].meter->read(), to = findings[1].meter->read();
    const double seconds = std::chrono::duration<double>(to.time - from.time).count();
    EXPECT_NEAR(findings[1].meter->joules_between(from, to), 620 * seconds, 1e-6);
  }
}

TEST(NvmlMeter, ANodeLacksTheJoulesOfAGpuWithoutAnySensor) {
  standin::StandIn machine(1);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.no_energy = gpu.no_power = 1; });
  const auto findings = nvml_find_meters({});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].scope, EnergyScope::device);
  for (const MeterFinding& finding : findings) {
    EXPECT_EQ(finding.meter, nullptr);
    EXPECT_EQ(finding.reason, "unsupported");
    EXPECT_FALSE(finding.counted);
  }
}

TEST(NvmlMeter, KeepsToTheUuidWhateverTheDriversOrder) {
  standin::StandIn machine;
  machine.edit(1, [](standin::Gpu& gpu) { gpu.load_percent = 0; });
  machine.edit_all([](standin::State& state) { state.reversed = 1; });
  auto findings = nvml_find_meters({});
  ASSERT_EQ(findings.size(), 4u);
  EXPECT_EQ(findings[0].domain, "nvml:" + second);
  machine.freeze();
  const auto joules = [&](const std::string& uuid) { return of_domain(findings, "nvml:" + uuid).meter->read().joules; };
  const double busy = joules(first), idle = joules(second);
  machine.advance_milliseconds(1000);
  EXPECT_NEAR(joules(first) - busy, 620, 1e-9);
  EXPECT_NEAR(joules(second) - idle, 70, 1e-9);
}

TEST(NvmlMeter, SaysWhenAGpuIsLost) {
  standin::StandIn machine;
  EnergyReader reader(nvml_find_meters({}));
  machine.edit(0, [](standin::Gpu& gpu) { gpu.lost = 1; });
  const EnergySnapshot snapshot = reader.snapshot();
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_FALSE(snapshot.readings[i].sample.has_value());
    EXPECT_EQ(snapshot.readings[i].reason, "lost");
    EXPECT_TRUE(has(snapshot.readings[i].detail, first));
    EXPECT_TRUE(has(snapshot.readings[i].detail, "GPU is lost"));
    EXPECT_TRUE(has(snapshot.readings[i].detail, "NVML error 15"));
  }
  EXPECT_TRUE(snapshot.readings[2].sample.has_value());
}

TEST(NvmlMeter, DoesNotCountOnAcrossACounterThatWentBack) {
  standin::StandIn machine(1);
  const auto findings = nvml_find_meters({});
  machine.freeze();
  const double before = findings.at(0).meter->read().joules;
  machine.edit(0, [](standin::Gpu& gpu) { gpu.went_back_mj = 1; });
  EXPECT_THROW(findings[0].meter->read(), std::system_error);
  machine.advance_milliseconds(1000);
  EXPECT_NEAR(findings[0].meter->read().joules - before, 620, 1e-9) << "for later windows";
}

TEST(NvmlMeter, NamesWhatItMayNotSee) {
  standin::StandIn machine;
  machine.edit(1, [](standin::Gpu& gpu) { gpu.hidden = 1; });
  const auto findings = nvml_find_meters({});
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].domain, "nvml:#1");
  EXPECT_EQ(findings[0].reason, "permission");
  EXPECT_NE(findings[0].grant, "");
  EXPECT_FALSE(findings[0].scope.has_value());  // not this job's GPU
  EXPECT_EQ(findings[1].domain, "nvml:" + first);
}

TEST(NvmlMeter, TellsAModulesCounterAndMig) {
  standin::StandIn machine;
  machine.edit(0, [](standin::Gpu& gpu) { gpu.name = "NVIDIA GH200 480GB"; });
  machine.edit(1, [](standin::Gpu& gpu) { gpu.mig = 1; });
  const auto findings = nvml_find_meters({});
  EXPECT_TRUE(has(findings.at(0).detail, "GH200"));
  EXPECT_TRUE(has(findings[0].detail, "module"));
  EXPECT_FALSE(has(findings[0].detail, "MIG"));
  EXPECT_TRUE(has(findings.at(2).detail, "MIG"));
  EXPECT_FALSE(findings[0].shared);
  EXPECT_TRUE(findings[2].shared && findings.at(3).shared);
  EXPECT_FALSE(has(findings[2].detail, "module"));
}

TEST(NvmlMeter, SaysWhyThereIsNothing) {
  {
    standin::StandIn machine(0);
    const auto findings = nvml_find_meters({});
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].domain, "nvml");
    EXPECT_EQ(findings[0].reason, "no_driver");
  }
  standin::StandIn machine;
  for (const auto& [code, words] : {std::pair<int, const char*>{9, "load the module"}, {18, "reboot"}}) {
    machine.edit_all([code](standin::State& state) { state.init_code = static_cast<standin::Count>(code); });
    const auto findings = nvml_find_meters({});
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].meter, nullptr);
    EXPECT_EQ(findings[0].reason, "no_driver");
    EXPECT_TRUE(has(findings[0].detail, "nvmlInit_v2"));
    EXPECT_TRUE(has(findings[0].detail, words)) << findings[0].detail;
  }
}

TEST(NvmlLibrary, IsNotThere) {
  Unavailable why;
  EXPECT_EQ(nvml::Library::open(&why, "libnvidia-ml.so.of-no-driver"), nullptr);
  EXPECT_EQ(why.reason, "no_driver");
  EXPECT_TRUE(has(why.detail, "libnvidia-ml.so.of-no-driver"));
}

TEST(NvmlLibrary, NamesTheSymbolThatIsMissing) {
  Unavailable why;
  EXPECT_EQ(nvml::Library::open(&why, "libc.so.6"), nullptr);  // a library without any of them
  EXPECT_EQ(why.reason, "unsupported");
  EXPECT_TRUE(has(why.detail, "nvmlInit_v2"));
}

class CudaVisibleDevices : public testing::Test {
 protected:
  /// The first digits of what a text names, or why that is not known.
  std::string chosen(const std::string& text, bool by_pci_bus = false) {
    Unavailable why;
    const auto library = nvml::Library::open(&why);
    if (!library) return why.detail;
    const nvml::Named named = nvml::visible_devices(*library, nvml::find_devices(*library), text, by_pci_bus);
    std::string uuids;
    for (const nvml::Device& device : named.devices) uuids += (uuids.empty() ? "" : " ") + device.uuid.substr(11, 1);
    return named.unclear.empty() ? uuids : uuids + "?" + named.unclear;
  }
  standin::StandIn machine_{3};
};

TEST_F(CudaVisibleDevices, NamesWholeGpus) {
  EXPECT_EQ(chosen(""), "");
  EXPECT_EQ(chosen("1,0"), "1 0");
  EXPECT_EQ(chosen(first + "," + first + ", 2"), "0 2");
  EXPECT_EQ(chosen("GPU-00000001"), "1");
  EXPECT_EQ(chosen("GPU-0"), "");  // which one?
  EXPECT_EQ(chosen("1,7,0"), "1");
  EXPECT_EQ(chosen("1,-1,0"), "1");
  EXPECT_EQ(chosen("1x"), "");
}

TEST_F(CudaVisibleDevices, NamesMigDevicesByTheirGpu) {
  machine_.edit(2, [](standin::Gpu& gpu) { gpu.mig = 1; });
  EXPECT_EQ(chosen("MIG-00000002-1111-2222-3333-444444444444"), "2");
  EXPECT_EQ(chosen("MIG-00000001-1111-2222-3333-444444444444"), "");
  EXPECT_TRUE(has(chosen("0"), "MIG"));
}

TEST_F(CudaVisibleDevices, NamesMigDevicesOfOldDriversByTheirGpuToo) {
  machine_.edit(1, [](standin::Gpu& gpu) { gpu.mig = 1; });
  EXPECT_EQ(chosen("MIG-GPU-00000001-1111-2222-3333-444444444444/7/0"), "1");
  EXPECT_EQ(chosen("MIG-GPU-00000009-1111-2222-3333-444444444444/7/0"), "");
}

TEST_F(CudaVisibleDevices, AnInstanceIsToldFromAGpu) {
  machine_.edit(2, [](standin::Gpu& gpu) { gpu.mig = 1; });
  const std::string rest = "-1111-2222-3333-444444444444";
  const GpuName whole = name_of_gpu("GPU-00000001" + rest);
  EXPECT_EQ(whole.uuid, "GPU-00000001" + rest);
  EXPECT_EQ(whole.whole, whole.uuid);
  const GpuName part = name_of_gpu("GPU-ffffffff" + rest);
  EXPECT_EQ(part.uuid, "MIG-ffffffff" + rest);
  EXPECT_EQ(part.whole.substr(0, 4), "GPU-");
  EXPECT_NE(part.whole, "GPU-ffffffff" + rest);
  EXPECT_EQ(name_of_gpu("GPU-eeeeeeee" + rest).whole, "GPU-eeeeeeee" + rest) << "nobody knows it";
  EXPECT_EQ(name_of_gpu("").whole, "");
}

TEST_F(CudaVisibleDevices, CountsOnlyWhatCanBeOpened) {
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.hidden = 1; });  // listed all the same
  EXPECT_EQ(chosen("0"), "1");
  EXPECT_EQ(chosen("1"), "2");
  EXPECT_EQ(chosen("0,1,2"), "1 2");
  machine_.edit(2, [](standin::Gpu& gpu) { gpu.hidden = 1, gpu.name = "another"; });
  EXPECT_EQ(chosen("0"), "1");
}

TEST_F(CudaVisibleDevices, CountsAlongThePciBusesNotTheDriversNumbers) {
  machine_.edit_all([](standin::State& state) { state.reversed = 1; });
  EXPECT_EQ(chosen("0"), "0");
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.pci_bus = 0xc1; });
  EXPECT_EQ(chosen("0"), "1");
  EXPECT_EQ(chosen("2", true), "0");
}

TEST_F(CudaVisibleDevices, NumbersOfUnequalGpusMeanNothingWithoutAnOrder) {
  machine_.edit(1, [](standin::Gpu& gpu) { gpu.name = "Stand-in T4"; });
  EXPECT_TRUE(has(chosen("0"), "?they differ")) << chosen("0");
  EXPECT_TRUE(has(chosen("0"), "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name them by UUID"));
  EXPECT_EQ(chosen("0", true), "0");
  EXPECT_EQ(chosen("1,2,0"), "1 2 0") << "all of them, in whatever order";
  EXPECT_EQ(chosen(first), "0");
  EXPECT_TRUE(chosen(second + ",0").starts_with("1?")) << "the number may name any: " << chosen(second + ",0");
}

TEST_F(CudaVisibleDevices, WhetherCudaCountsALostGpuIsNotKnown) {
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.lost = 1; });
  EXPECT_TRUE(has(chosen("0", true), "name them by UUID")) << chosen("0", true);
  EXPECT_EQ(chosen(second), "1");
}

}  // namespace
}  // namespace tw
