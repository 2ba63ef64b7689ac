// A folder with a journal, and knobs whose hardware is a file.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "power/knob/restore.hpp"
#include "tests/power/knob/file_knob.hpp"

namespace tw {

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/trainwatt-journal-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base = name;
    path = base / "run";
    make_file_knobs(base / "knobs");
  }
  void TearDown() override { std::filesystem::remove_all(base); }

  /// A journal of a dead run, and its settings in force.
  void leave_behind(const std::string& of_boot = power::boot_id(),
                    const std::string& of_namespace = power::this_process().pid_namespace) {
    auto folder = power::JournalFolder::open(path, true);
    power::Owner dead = power::this_process();
    dead.start_time += 1;
    dead.pid_namespace = of_namespace;
    folder->write({of_boot,
                   dead,
                   {},
                   {{power::KnobKind::cpu_frequency, "cpu", {{"value", "2500"}}, {{1500, 1500}}},
                    {power::KnobKind::gpu_clock, "nvml:GPU-0", {}, {{900, std::nullopt}}}}});
    write_file_text(base / "knobs/cpu_frequency_mhz", "1500");
    write_file_text(base / "knobs/gpu_clock_mhz", "900");
  }
  power::RestoreSummary restore() const {
    power::RestoreOptions options;
    options.folders = {path};
    options.find = file_knobs(base / "knobs");
    return power::restore_journals(options);
  }
  void expect_values(const char* cpu, const char* gpu) const {
    EXPECT_EQ(file_text(base / "knobs/cpu_frequency_mhz"), cpu);
    EXPECT_EQ(file_text(base / "knobs/gpu_clock_mhz"), gpu);
  }
  void expect_refused(const std::string& why) const {
    const power::RestoreSummary summary = restore();
    ASSERT_EQ(summary.problems.size(), 1u);
    EXPECT_NE(summary.problems[0].find(why), std::string::npos) << summary.problems[0];
    EXPECT_TRUE(summary.reports.empty());
    expect_values("1500", "900");
  }
  std::filesystem::path base, path;
};

}  // namespace tw
