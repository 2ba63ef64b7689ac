// The real libpowercap and the CPU frequency knobs on made-up trees: what is found and why not, set, read back,
// restored; killed runs and `trainwatt restore`.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "power/knob/guardian.hpp"
#include "power/knob/settings.hpp"
#include "tests/power/ordinary_user.hpp"
#include "tests/power/sandbox.hpp"

namespace tw {

using namespace power;

namespace {

namespace fs = std::filesystem;

const std::string zone = "intel-rapl:1";

class KnobsTree : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_sandbox(); !why.empty()) GTEST_SKIP() << why;
    clear_tree();
    char name[] = "/tmp/trainwatt-knobs-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base = name;
    chmod(name, 0777);
    setenv("TRAINWATT_RUN_DIR", (base / "run").c_str(), 1);
  }
  void TearDown() override {
    if (!base.empty()) fs::remove_all(base);
  }
  /// Two packages in the wrong order, with what surrounds them; two CPUs.
  void make_node() {
    make_cap(zone, "package-0", 1, "1");  // long_term is not always the first
    make_cap("intel-rapl:0", "package-1", 0, "0");
    make_zone("intel-rapl:1/intel-rapl:1:0", "core", 1, 1000);
    make_zone("intel-rapl:2", "psys", 1, 1000);
    make_zone("intel-rapl-mmio:0", "package-0", 1, 1000);
    for (const char* other : {"intel-rapl:1/intel-rapl:1:0", "intel-rapl:2", "intel-rapl-mmio:0"})
      write_constraint(other, 0, "long_term", "0205000000");
    make_policy(0, 1'200'000, 3'400'000);
    make_policy(1, 1'400'000, 3'800'000);
  }
  /// Lets only their owner write the files.
  static void take_grants() {
    for (const auto& entry : fs::recursive_directory_iterator("/sys/class/powercap"))
      chmod(entry.path().c_str(), entry.is_directory() ? 0755 : 0644);
  }
  static void make_cap(const std::string& path, const std::string& name, int constraint, const std::string& enabled) {
    make_zone(path, name, 1'000'000, 262'143'328'850);
    write_zone_file(path, "enabled", enabled);
    write_constraint(path, constraint, "long_term", "205000000");
    write_constraint(path, 1 - constraint, "short_term", "246000000");
  }
  static void write_constraint(const std::string& path, int number, const std::string& name,
                               const std::string& limit_uw) {
    const std::string prefix = "constraint_" + std::to_string(number) + "_";
    write_zone_file(path, prefix + "name", name);
    write_zone_file(path, prefix + "power_limit_uw", limit_uw);
    write_zone_file(path, prefix + "time_window_us", "999424");
    write_zone_file(path, prefix + "max_power_uw", "205000000");
  }
  /// Every file of both trees.
  static std::map<std::string, std::string> contents() {
    std::map<std::string, std::string> files;
    for (const char* root : {"/sys/class/powercap", "/sys/devices/system/cpu"})
      for (const auto& entry : fs::recursive_directory_iterator(root))
        if (entry.is_regular_file()) files[entry.path()] = read_line(entry.path());
    return files;
  }
  static std::map<std::string, KnobFinding> find() {
    std::map<std::string, KnobFinding> found;
    for (KnobFinding& finding : find_knobs())
      if (finding.kind == KnobKind::cpu_frequency || finding.kind == KnobKind::cpu_power_limit) {
        EXPECT_EQ(finding.detail.empty(), finding.reason.empty()) << finding.domain;
        const std::string domain = finding.domain;
        EXPECT_EQ(found.count(domain), 0u) << domain;
        found.emplace(domain, std::move(finding));
      }
    return found;
  }
  static std::string limit() { return read_line(zone_folder(zone) + "/constraint_1_power_limit_uw"); }

  /// Starts settings_run on these trees; returns once its settings are applied.
  pid_t start(pid_t* guardian) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    const pid_t run = fork();
    if (run == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(SETTINGS_RUN, SETTINGS_RUN, "real", nullptr);
      _exit(127);
    }
    close(ends[1]);
    FILE* output = fdopen(ends[0], "r");
    char line[256] = {};
    *guardian = -1;
    while (*guardian < 0 && std::fgets(line, sizeof line, output)) std::sscanf(line, "ready %d", guardian);
    std::fclose(output);
    return run;
  }
  static int run_tool(const std::string& arguments, std::string* output) {
    FILE* pipe = popen((std::string(TRAINWATT_TOOL) + " " + arguments + " 2>&1").c_str(), "r");
    output->clear();
    for (int c; (c = std::fgetc(pipe)) != EOF;) *output += static_cast<char>(c);
    return WEXITSTATUS(pclose(pipe));
  }
  fs::path base;
};

TEST_F(KnobsTree, NothingThereHasAReason) {
  const auto found = find();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("cpu").reason, "no_driver");
  EXPECT_EQ(found.at("rapl").reason, "no_driver");
}

TEST_F(KnobsTree, FindsPackagesByNameAndTheCpus) {
  make_node();
  const auto found = find();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.at("rapl:package-0").reason, "");
  EXPECT_EQ(found.at("rapl:package-0").knob->range().maximum, 205);
  EXPECT_EQ(found.at("rapl:package-0").knob->get(), 205);
  EXPECT_EQ(found.at("rapl:package-1").knob->get(), std::nullopt);  // not enabled
  EXPECT_EQ(found.at("cpu").reason, "");
  EXPECT_EQ(found.at("cpu").knob->range().minimum, 1200);
  EXPECT_EQ(found.at("cpu").knob->range().maximum, 3800);
  EXPECT_TRUE(found.at("cpu").knob->range().values.empty());
  EXPECT_EQ(found.at("cpu").knob->observe(), 1300);
}

TEST_F(KnobsTree, APackageWithoutALimitIsUnsupported) {
  make_zone("intel-rapl:0", "package-0", 1, 1000);
  EXPECT_EQ(find().at("rapl:package-0").reason, "unsupported");
}

TEST_F(KnobsTree, FrequenciesAreEnumerated) {
  make_policy(0, 1'200'000, 3'400'000);
  const auto write = [](const char* name, const char* text) {
    std::FILE* file = std::fopen(policy_file(0, name).c_str(), "w");
    std::fputs(text, file);
    std::fclose(file);
  };
  write("scaling_available_frequencies", "3000000 2000000 1200000 \n");
  write("scaling_boost_frequencies", "3800000 \n");
  const auto found = find();
  EXPECT_EQ(found.at("cpu").knob->range().values, (std::vector<double>{1200, 2000, 3000, 3800}));
  EXPECT_EQ(found.at("cpu").knob->observe(), 1200);
  write("scaling_cur_freq", "<unknown>\n");
  EXPECT_EQ(found.at("cpu").knob->observe(), std::nullopt);
  EXPECT_EQ(found.at("cpu").knob->set(2000), 2000);
  EXPECT_THROW(found.at("cpu").knob->set(2100), NotApplied);
}

TEST_F(KnobsTree, TheGovernorIsEnumeratedSetAndRestored) {
  make_node();
  const auto before = contents();
  {
    Settings settings(find_knobs());
    const auto finding = std::find_if(settings.findings().begin(), settings.findings().end(), [](const KnobFinding& one) {
      return one.kind == KnobKind::cpu_governor;
    });
    ASSERT_NE(finding, settings.findings().end());
    EXPECT_EQ(finding->reason, "");
    const double powersave = set_point_of_name(KnobKind::cpu_governor, "powersave").value();
    const double schedutil = set_point_of_name(KnobKind::cpu_governor, "schedutil").value();
    EXPECT_EQ(finding->knob->range().values, (std::vector<double>{powersave, schedutil}));
    EXPECT_EQ(finding->knob->get(), schedutil);
    // Beside the frequency, alone, and that alone: neither keeps what is the other's.
    for (const std::map<KnobKind, double>& wanted : std::vector<std::map<KnobKind, double>>{
             {{KnobKind::cpu_governor, powersave}, {KnobKind::cpu_frequency, 2000}},
             {{KnobKind::cpu_governor, powersave}},
             {{KnobKind::cpu_frequency, 2000}},
             {{KnobKind::cpu_governor, powersave}, {KnobKind::cpu_frequency, 1500}}}) {
      for (const AppliedSetting& one : settings.apply(wanted)) EXPECT_EQ(one.accepted, one.requested) << one.detail;
      for (const unsigned cpu : {0u, 1u}) {
        const bool set = wanted.count(KnobKind::cpu_governor) > 0;
        EXPECT_EQ(read_line(policy_file(cpu, "scaling_governor")), set ? "powersave" : "schedutil");
      }
    }
    for (const RestoredSetting& one : settings.restore_all())
      EXPECT_EQ(one.outcome, RestoredSetting::Outcome::put_back) << one.detail;
  }
  EXPECT_EQ(contents(), before);
}

TEST_F(KnobsTree, SetsReadsBackAndRestoresToTheLetter) {
  make_node();
  const auto before = contents();
  const auto changed = [&] {
    std::map<std::string, std::string> difference;
    for (const auto& [path, text] : contents())
      if (before.at(path) != text) difference[path] = text;
    return difference;
  };
  {
    Settings settings(find_knobs());
    for (const auto& [watts, mhz] : std::vector<std::pair<double, double>>{{120, 3800}, {150, 1200}, {205, 2000}}) {
      const auto applied = settings.apply({{KnobKind::cpu_power_limit, watts}, {KnobKind::cpu_frequency, mhz}});
      ASSERT_EQ(applied.size(), 3u);
      for (const AppliedSetting& one : applied)
        EXPECT_EQ(one.accepted, one.kind == KnobKind::cpu_frequency ? mhz : watts) << one.domain << one.detail;
    }
    settings.apply({{KnobKind::cpu_power_limit, 120}, {KnobKind::cpu_frequency, 2000}});
    EXPECT_EQ(changed(), (std::map<std::string, std::string>{
                             {zone_folder(zone) + "/constraint_1_power_limit_uw", "120000000"},
                             {zone_folder("intel-rapl:0") + "/constraint_0_power_limit_uw", "120000000"},
                             {zone_folder("intel-rapl:0") + "/enabled", "1"},
                             {policy_file(0, "scaling_min_freq"), "2000000"},
                             {policy_file(0, "scaling_max_freq"), "2000000"},
                             {policy_file(1, "scaling_min_freq"), "2000000"},
                             {policy_file(1, "scaling_max_freq"), "2000000"}}));
  }
  EXPECT_EQ(changed(), (std::map<std::string, std::string>{}));
}

TEST_F(KnobsTree, AnOrdinaryUserIsToldWhatWouldHelp) {
  make_node();
  take_grants();
  const AsOrdinaryUser user;
  auto found = find();
  for (const char* domain : {"cpu", "rapl:package-0", "rapl:package-1"}) {
    const KnobFinding& finding = found.at(domain);
    if (getuid() == 0) {  // else the tree is this user's own
      EXPECT_EQ(finding.reason, "permission") << domain;
      EXPECT_NE(finding.detail.find("Permission denied"), std::string::npos) << finding.detail;
      EXPECT_NE(finding.grant.find("run as root"), std::string::npos) << finding.grant;
      EXPECT_THROW(finding.knob->set(finding.knob->range().maximum), NotApplied);
    }
    EXPECT_FALSE(finding.knob->save().empty());  // reading needs no right
  }
}

TEST_F(KnobsTree, AnOrdinaryUserWithTheGrantSetsAndRestores) {
  make_node();
  take_grants();
  for (const std::string& file : {zone_folder(zone) + "/constraint_1_power_limit_uw", zone_folder(zone) + "/enabled",
                                  policy_file(0, "scaling_min_freq"), policy_file(0, "scaling_max_freq"),
                                  policy_file(1, "scaling_min_freq"), policy_file(1, "scaling_max_freq")})
    chmod(file.c_str(), 0666);
  const auto before = contents();
  const AsOrdinaryUser user;
  {
    Settings settings(find_knobs());
    for (const AppliedSetting& one :
         settings.apply({{KnobKind::cpu_power_limit, 120}, {KnobKind::cpu_frequency, 2000}}))
      EXPECT_EQ(one.accepted.has_value(), one.domain != "rapl:package-1" || getuid() != 0) << one.domain << one.detail;
    EXPECT_EQ(limit(), "120000000");
    struct stat status {};
    ASSERT_EQ(stat((base / "run").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
  }
  EXPECT_EQ(contents(), before);
}

TEST_F(KnobsTree, AKilledRunIsPutBackByItsGuardian) {
  make_node();
  const auto before = contents();
  pid_t guardian = -1;
  const pid_t run = start(&guardian);
  ASSERT_GT(guardian, 0);
  EXPECT_EQ(read_line(policy_file(1, "scaling_max_freq")), "1500000");
  kill(run, SIGKILL);
  waitpid(run, nullptr, 0);
  for (int i = 0; i < 30'000 && fs::exists(base / "run/settings.json"); ++i) usleep(10'000);
  EXPECT_EQ(contents(), before);
}

TEST_F(KnobsTree, TheToolRestoresWhatBothKilledLeft) {
  make_node();
  const auto before = contents();
  std::string output;
  EXPECT_EQ(run_tool("restore", &output), 0);
  EXPECT_EQ(output.find("nothing to restore in "), 0u) << output;
  EXPECT_NE(output.find("/run\nnot checked: /run/trainwatt"), std::string::npos) << output;

  pid_t guardian = -1;
  pid_t run = start(&guardian);
  ASSERT_GT(guardian, 0);
  EXPECT_EQ(run_tool("restore", &output), 3);
  EXPECT_NE(output.find("settings are held by settings_run, process " + std::to_string(run)), std::string::npos)
      << output;
  kill(guardian, SIGKILL);
  kill(run, SIGKILL);
  waitpid(run, nullptr, 0);
  EXPECT_EQ(read_line(policy_file(0, "scaling_min_freq")), "1500000");
  EXPECT_EQ(run_tool("restore", &output), 0);
  EXPECT_NE(output.find("restored"), std::string::npos) << output;
  EXPECT_EQ(contents(), before);

  run = start(&guardian);
  kill(guardian, SIGKILL);
  kill(run, SIGKILL);
  waitpid(run, nullptr, 0);
  std::FILE* file = std::fopen(policy_file(0, "scaling_max_freq").c_str(), "r+");
  std::fputs("2500000", file);
  std::fclose(file);
  EXPECT_EQ(run_tool("restore", &output), 0);
  EXPECT_NE(output.find("someone else has changed it: cpu0 scaling_max_freq = 2500000 kHz"), std::string::npos)
      << output;
  EXPECT_EQ(read_line(policy_file(0, "scaling_max_freq")), "2500000");
  EXPECT_EQ(read_line(policy_file(0, "scaling_min_freq")), "1200000");
  EXPECT_EQ(read_line(policy_file(1, "scaling_max_freq")), "3800000");

  // An epilog ends a run that still holds its settings.
  clear_tree();
  make_node();
  run = start(&guardian);
  ASSERT_GT(guardian, 0);
  EXPECT_EQ(run_tool("restore --all", &output), 0);
  EXPECT_EQ(contents(), before);
  kill(run, SIGTERM);
  waitpid(run, nullptr, 0);
  EXPECT_EQ(contents(), before);
}

}  // namespace
}  // namespace tw
