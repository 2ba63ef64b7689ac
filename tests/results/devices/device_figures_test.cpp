// Vendors' peaks, MFU and the use of GPUs: what they are, when they are absent, and that nobody can state others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/devices/device_figures.hpp"
#include "results/export/export.hpp"
#include "results/html/page.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/terminal/tables.hpp"
#include "results/validation/validate.hpp"
#include "tests/results/golden.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

constexpr const char* h100 = "NVIDIA H100 80GB HBM3";
constexpr std::uint64_t gib = std::uint64_t{1} << 30;

DeviceEntry gpu(int rank, const std::string& uuid, const std::string& name = h100) {
  DeviceEntry device;
  device.rank = rank, device.host = "node1", device.kind = "cuda", device.name = name, device.uuid = uuid;
  device.instruction_set = "sm_90", device.threads = 1, device.memory_bytes = 80 * gib;
  device.libraries = {"CUDA runtime 13.0", "CUDA driver 13.1"};
  return device;
}

/// Of a value in the first third of the window and another in the rest.
SeriesRow row_of(const std::string& uuid, const std::string& quantity, double window_s, double first, double rest) {
  return {"node1", "nvml:" + uuid, quantity, {0, window_s / 3}, {first, rest}, {first, rest}, {first, rest}};
}

/// A point of two ranks on a GPU each, three trials.
Report gpu_report() {
  Report report = sample_report();
  report.records.resize(1);
  report.context.devices = {gpu(0, "GPU-a"), gpu(1, "GPU-b")};
  for (const std::string& library : report.context.devices[0].libraries)
    report.context.versions[text::library_name(library)] = library;
  std::string& plan = report.plan.canonical_json;
  plan.replace(plan.find(R"("device":"cpu")"), 14, R"("device":"cuda")");
  const std::size_t second = plan.find("},{"), last = plan.find("}]");
  plan.erase(second, last - second);
  Record& record = report.records[0];
  record.workload.device = "cuda";
  record.summary.ceiling_flops_per_s.reset();
  for (Trial& trial : record.trials)
    for (const char* uuid : {"GPU-a", "GPU-b"}) {
      const bool is_first = uuid == std::string("GPU-a");
      trial.series.push_back(row_of(uuid, "utilisation", trial.window_s, is_first ? 0.6 : 0.9, is_first ? 0.9 : 0.96));
      trial.series.push_back(row_of(uuid, "sm_active", trial.window_s, 0.5, 0.5));
      trial.series.push_back(
          row_of(uuid, "memory_used_bytes", trial.window_s, 10.0 * gib, (is_first ? 61.0 : 62.0) * gib));
    }
  summarise(report);
  return report;
}

std::vector<std::string> codes_of(const std::vector<Fault>& faults) {
  std::vector<std::string> codes;
  for (const Fault& fault : faults) codes.push_back(fault.code);
  return codes;
}
DeviceFigures figures_of(const Report& report) {
  return device_figures(report.records[0], valid_trials(report.records[0]), report.context.devices);
}

TEST(VendorPeaks, AreThoseOfTheDataSheets) {
  EXPECT_EQ(find_vendor_peak(h100)->flops_per_s("bf16"), 989.4e12);
  EXPECT_EQ(find_vendor_peak(h100)->flops_per_s("fp16"), 989.4e12);
  EXPECT_EQ(find_vendor_peak(h100)->flops_per_s("tf32"), 494.7e12);
  EXPECT_DOUBLE_EQ(find_vendor_peak(h100)->flops_per_s("float32").value(), 66.9e12);
  EXPECT_EQ(find_vendor_peak(h100)->flops_per_s("fp8"), 1978.9e12);
  EXPECT_EQ(find_vendor_peak("NVIDIA H100 PCIe")->flops_per_s("bf16"), 756e12);
  EXPECT_EQ(find_vendor_peak("NVIDIA A100-SXM4-80GB")->flops_per_s("bf16"), 312e12);
  EXPECT_EQ(find_vendor_peak("NVIDIA A100-SXM4-80GB")->flops_per_s("fp8"), std::nullopt);
  EXPECT_EQ(find_vendor_peak(h100)->flops_per_s("float32_bf16"), std::nullopt);
  for (const char* other : {"NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA H100", "H100", "nvidia h200", ""})
    EXPECT_EQ(find_vendor_peak(other), nullptr) << other;
}

TEST(VendorPeaks, EachRowIsOneDeviceWithItsSheet) {
  std::set<std::string_view> names;
  for (const VendorPeak& row : vendor_peaks()) {
    SCOPED_TRACE(row.device);
    EXPECT_TRUE(names.insert(row.device).second);
    EXPECT_FALSE(row.sheet.empty());
    EXPECT_GT(row.float32, 1);
    EXPECT_GT(row.half, row.float32);
    EXPECT_TRUE(row.tf32 == 0 || (row.tf32 > row.float32 && row.tf32 < row.half));
    // Dense peaks double from bf16 to fp8; a peak with sparsity in one of the columns would be found here.
    EXPECT_TRUE(row.fp8 == 0 || std::abs(row.fp8 / row.half - 2) < 0.03) << row.fp8 / row.half;
    EXPECT_GT(row.bandwidth_gb_per_s, 500);
    EXPECT_GT(row.memory_gb, 30);
  }
}

TEST(VendorPeaks, TheManualHasTheList) {
  std::ifstream file(TRAINWATT_MANUAL);
  std::ostringstream manual;
  manual << file.rdbuf();
  const auto number = [](double value) {
    std::ostringstream text;
    text << value;
    return value > 0 ? text.str() : std::string("–");
  };
  for (const VendorPeak& row : vendor_peaks()) {
    const std::string line = "| `" + std::string(row.device) + "` | " + number(row.float32) + " | " + number(row.tf32) +
                             " | " + number(row.half) + " | " + number(row.fp8) + " | " +
                             number(row.bandwidth_gb_per_s) + " | " + number(row.memory_gb) + " | " +
                             std::string(row.sheet) + " |\n";
    EXPECT_NE(manual.str().find(line), std::string::npos) << line;
  }
}

TEST(Mfu, IsFlopsByThePeaksOfTheGpusOfItsRanks) {
  const Report report = gpu_report();
  const Summary& s = report.records[0].summary;
  ASSERT_TRUE(s.mfu);
  EXPECT_EQ(s.peak_flops_per_s, 2 * 989.4e12);
  EXPECT_DOUBLE_EQ(*s.mfu, s.flops_per_s->value / (2 * 989.4e12));
  EXPECT_EQ(s.mfu_reason, "");
  // Of a point on fewer ranks the others' GPUs do not count; ranks that share a GPU have one.
  Report half = report;
  half.records[0].workload.ranks = 1;
  EXPECT_EQ(figures_of(half).peak_flops_per_s, 989.4e12);
  Report shared = report;
  shared.context.devices[1].uuid = "GPU-a";
  EXPECT_EQ(figures_of(shared).peak_flops_per_s, 989.4e12);
  Report on_two_hosts = shared;  // stand-ins for GPUs may have one name on all nodes
  on_two_hosts.context.devices[1].host = "node2";
  EXPECT_EQ(figures_of(on_two_hosts).peak_flops_per_s, 2 * 989.4e12);
  Report mixed = report;
  mixed.context.devices[1].name = "NVIDIA A100-SXM4-80GB";
  EXPECT_EQ(figures_of(mixed).peak_flops_per_s, 989.4e12 + 312e12);
}

TEST(Mfu, IsAbsentWithTheReason) {
  const auto reason_of = [](auto change) {
    Report report = gpu_report();
    change(report);
    summarise(report);
    EXPECT_EQ(report.records[0].summary.mfu, std::nullopt);
    EXPECT_EQ(report.records[0].summary.peak_flops_per_s, std::nullopt);
    return report.records[0].summary.mfu_reason;
  };
  const auto named = [&](const std::string& name) {
    return reason_of([&](Report& report) { report.context.devices[1].name = name; });
  };
  EXPECT_EQ(named("NVIDIA H100 NVL"), "NVIDIA H100 NVL: not in the list of vendor peaks");
  EXPECT_EQ(named("NVIDIA H200 NVL"), "NVIDIA H200 NVL: not in the list of vendor peaks");
  EXPECT_NE(named("NVIDIA A100-SXM4-40GB MIG 3g.20gb").find("MIG instance"), std::string::npos);
  EXPECT_NE(reason_of([](Report& r) { r.context.devices[0].uuid = "MIG-a"; }).find("MIG instance"), std::string::npos);
  EXPECT_EQ(reason_of([](Report& r) {
              r.records[0].workload.precision = "fp8";
              for (DeviceEntry& device : r.context.devices) device.name = "NVIDIA A100-SXM4-80GB";
            }),
            "NVIDIA A100-SXM4-80GB: the vendor states no dense peak for fp8");
  for (const char* kind : {"cpu", "reference"})
    EXPECT_EQ(reason_of([&](Report& r) {
                for (DeviceEntry& device : r.context.devices) device.kind = kind;
              }),
              std::string("device ") + kind + ": the list of vendor peaks has GPUs only");
  EXPECT_EQ(reason_of([](Report& r) { r.context.devices.clear(); }), no_list_of_peaks.text());
  Report command = gpu_report();
  command.records[0].workload.device = "command";
  command.records[0].summary.peak_flops_per_s.reset(), command.records[0].summary.mfu_reason = "not defined";
  summarise(command);
  EXPECT_EQ(command.records[0].summary.mfu_reason, "not defined");
}

TEST(Mfu, AReasonThatTheWriterNeverGivesIsFound) {
  const auto codes_of = [](auto change) {
    Report report = gpu_report();
    for (DeviceEntry& device : report.context.devices) device.name = "NVIDIA H100 NVL";
    summarise(report);
    change(report);
    std::vector<std::string> codes;
    for (const Fault& fault : validate_report(to_json(report)).violations) codes.push_back(fault.code);
    return codes;
  };
  using Codes = std::vector<std::string>;
  EXPECT_EQ(codes_of([](Report&) {}), Codes());
  const auto stating = [&](const std::string& reason) {
    return codes_of([&](Report& report) { report.records[0].summary.mfu_reason = reason; });
  };
  EXPECT_EQ(stating(no_list_of_peaks.text()), Codes()) << "of a report from before the list";
  EXPECT_EQ(stating("the meter was being repaired"), Codes{"reason_differs"});
  EXPECT_EQ(stating("NVIDIA H200 NVL: not in the list of vendor peaks"), Codes{"reason_differs"}) << "another device's";
  const auto stating_of_mig = [&](const std::string& reason) {
    return codes_of([&](Report& report) {
      for (DeviceEntry& device : report.context.devices) device.name += " MIG 1g.10gb";
      summarise(report);
      report.records[0].summary.mfu_reason = reason;
    });
  };
  EXPECT_EQ(stating_of_mig(no_peak_of_mig.text({"NVIDIA H100 NVL MIG 1g.10gb"})), Codes());
  EXPECT_EQ(stating_of_mig("NVIDIA H100 NVL MIG 1g.10gb: a MIG instance, and the vendor's peak is that of the whole GPU"),
            Codes()) << "an earlier wording";
  EXPECT_EQ(stating_of_mig("NVIDIA H100 NVL MIG 1g.10gb: not in the list of vendor peaks"), Codes{"reason_differs"});
  EXPECT_EQ(stating("device cpu: the list of vendor peaks has GPUs only"), Codes{"reason_differs"});
}

TEST(GpuUse, IsTheMeanOverGpusAndWindows) {
  const Report report = gpu_report();
  ASSERT_TRUE(report.records[0].summary.gpu);
  const GpuUse& use = *report.records[0].summary.gpu;
  EXPECT_EQ(use.gpus, 2);
  // A third of the window at the first value: (0.6 + 2 × 0.9) / 3 = 0.8 and (0.9 + 2 × 0.96) / 3 = 0.94.
  EXPECT_NEAR(use.utilisation.value(), (0.8 + 0.94) / 2, 1e-12);
  EXPECT_NEAR(use.sm_active.value(), 0.5, 1e-12);
  EXPECT_EQ(use.memory_used_bytes, 62 * gib);
  EXPECT_EQ(use.memory_bytes, 80 * gib);
  EXPECT_EQ(use.reason, "");
}

TEST(GpuUse, IsAbsentWhereASeriesIs) {
  Report report = gpu_report();
  std::vector<SeriesRow>& last = report.records[0].trials[2].series;
  std::erase_if(last, [](const SeriesRow& row) { return row.quantity == "sm_active" && row.domain == "nvml:GPU-b"; });
  report.context.devices[0].memory_bytes.reset(), report.context.devices[1].memory_bytes.reset();
  summarise(report);
  const GpuUse use = report.records[0].summary.gpu.value();
  EXPECT_TRUE(use.utilisation);
  EXPECT_EQ(use.sm_active, std::nullopt);
  EXPECT_EQ(use.memory_bytes, std::nullopt);
  EXPECT_EQ(use.reason, "memory_bytes: not recorded; sm_active: nvml:GPU-b recorded none");
  // The GPUs of ranks that sleep are not those of the point.
  report.records[0].workload.ranks = 1;
  EXPECT_NEAR(figures_of(report).gpu->utilisation.value(), 0.8, 1e-12);
  EXPECT_TRUE(figures_of(report).gpu->sm_active);
  report.context.devices[0].uuid = "MIG-a";
  EXPECT_NE(figures_of(report).gpu->reason.find("MIG instance"), std::string::npos);
  report.context.devices[0].kind = "cpu";
  EXPECT_EQ(figures_of(report).gpu, std::nullopt);
}

TEST(GpuUse, IsInEveryView) {
  const Report report = gpu_report();
  const std::string shown = show_report(report, {.width = 160});
  for (const char* words : {"2 GPUs, busy 87.0 %, SM active 50.0 %, 62.0 GiB in use of 80.0 GiB", "of 1.98 PFLOP/s",
                            "the vendor's dense peak; by model FLOPs", "memory_used_bytes: "})
    EXPECT_NE(shown.find(words), std::string::npos) << words << "\n" << shown;
  const std::string table = summary_table(report, {.width = 200});
  for (const char* title : {"MFU", "GPU busy", "SM active", "GPU memory", "peak memory", "62.0 GiB", "360 MiB"})
    EXPECT_NE(table.find(title), std::string::npos) << title << "\n" << table;
  const std::string csv = to_csv(report, {}), metrics = to_prometheus(report, {}), markdown = to_markdown(report, {});
  for (const char* column : {"peak_flops_per_s", "gpu_utilisation", "gpu_sm_active", "gpu_memory_used_bytes"})
    EXPECT_NE(csv.find(std::string(",") + column + ","), std::string::npos) << column;
  EXPECT_NE(csv.find("," + std::to_string(62 * gib) + ","), std::string::npos) << csv;
  for (const char* words :
       {"trainwatt_mfu_ratio{", "trainwatt_gpu_utilisation_ratio{", "trainwatt_gpu_sm_active_ratio{",
        "trainwatt_gpu_memory_used_bytes{", "trainwatt_peak_device_memory_bytes{"})
    EXPECT_NE(metrics.find(words), std::string::npos) << words;
  EXPECT_NE(markdown.find("| GPU busy |"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("| 62.0 GiB |"), std::string::npos) << markdown;
  const page::Page page = page::build({{"A", report}}, nullptr);
  const auto points = std::ranges::find(page.sections, "points", &page::Section::id);
  const std::vector<std::string>& head = std::get<page::Table>(points->blocks.at(0)).head;
  for (const char* title : {"MFU", "GPU busy", "SM active", "GPU memory", "peak memory"})
    EXPECT_NE(std::ranges::find(head, title), head.end()) << title;
}

TEST(DeviceChecks, AGoodReportIsGoodAndReadBack) {
  const Report report = gpu_report();
  expect_golden("good_gpu.json", to_json(report));
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>());
  const Report again = report_from_json(to_json(report));
  EXPECT_EQ(to_json(again), to_json(report));
  EXPECT_EQ(again.records[0].summary.gpu->utilisation, report.records[0].summary.gpu->utilisation);
}

TEST(DeviceChecks, OtherFiguresAreFound) {
  const auto found = [](auto change) {
    Report report = gpu_report();
    change(report.records[0].summary, report);
    return codes_of(validate_report(to_json(report)).violations);
  };
  using Codes = std::vector<std::string>;
  EXPECT_EQ(found([](Summary& s, Report&) { s.mfu = 0.5; }), Codes{"figure_differs"});
  EXPECT_EQ(found([](Summary& s, Report&) { *s.peak_flops_per_s /= 2, *s.mfu *= 2; }), Codes{"peak_differs"});
  // Another device than the one that was measured has another peak.
  EXPECT_EQ(found([](Summary&, Report& r) {
              for (DeviceEntry& device : r.context.devices) device.name = "NVIDIA A100-SXM4-80GB";
            }),
            Codes{"peak_differs"});
  EXPECT_EQ(found([](Summary&, Report& r) {
              for (DeviceEntry& device : r.context.devices) device.name = "NVIDIA H100 NVL";
            }),
            Codes{"peak_differs"});
  EXPECT_EQ(found([](Summary& s, Report&) { s.gpu->utilisation = 0.99; }), Codes{"gpu_use_differs"});
  EXPECT_EQ(found([](Summary& s, Report&) { s.gpu->sm_active.reset(), s.gpu->reason = "x"; }),
            (Codes{"gpu_use_differs", "reason_missing"}));
  EXPECT_EQ(found([](Summary& s, Report&) { *s.gpu->memory_used_bytes /= 2; }), Codes{"gpu_use_differs"});
  EXPECT_EQ(found([](Summary& s, Report&) { s.gpu->gpus = 1; }), Codes{"gpu_use_differs"});
}

TEST(DeviceChecks, AReportFromBeforeTheListIsGoodAndItsMfuIsNoted) {
  Report report = gpu_report();
  for (DeviceEntry& device : report.context.devices) device.memory_bytes.reset();
  Summary& s = report.records[0].summary;
  s.peak_flops_per_s.reset(), s.mfu.reset(), s.gpu.reset(), s.mfu_reason = no_list_of_peaks.text();
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>{"mfu_left_out"});
}

TEST(DeviceChecks, BothPartsOfCudaAreAmongTheVersions) {
  const auto found = [](const std::string& removed, const std::map<std::string, std::string>& added) {
    Report report = gpu_report();
    auto& versions = report.context.versions;
    versions.erase("CUDA driver"), versions.erase(removed);
    versions.insert(added.begin(), added.end());
    return codes_of(validate_report(to_json(report)).violations);
  };
  using Codes = std::vector<std::string>;
  EXPECT_EQ(found("", {{"CUDA driver", "CUDA driver 13.1"}}), Codes());
  EXPECT_EQ(found("", {}), Codes{"version_missing"});
  EXPECT_EQ(found("", {{"CUDA driver", "CUDA driver 12.9"}}), Codes{"version_differs"});
  // As earlier programs wrote them: the last of them only, under the first word.
  EXPECT_EQ(found("CUDA runtime", {{"CUDA", "CUDA driver 13.1"}}), Codes());
  EXPECT_EQ(found("CUDA runtime", {{"CUDA", "CUDA driver 12.9"}}), (Codes{"version_differs", "version_differs"}));
}

}  // namespace
}  // namespace tw
