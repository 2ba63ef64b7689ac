// `trainwatt probe` and `trainwatt meter`, as a user runs them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "results/record/report_io.hpp"
#include "tests/bench/tool/built.hpp"
#include "tests/support/nvml/stand_in.hpp"

namespace tw {

using namespace results;

namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string out, err;
};

class PowerTool : public testing::Test {
 protected:
  PowerTool() : folder_(fs::path(testing::TempDir()) / ("trainwatt-power-tool-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~PowerTool() override { fs::remove_all(folder_); }

  static std::string contents(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  Outcome run(const std::string& arguments, const std::string& environment = "") {
    const std::string command = "env " + environment + " '" + built::trainwatt + "' " + arguments + " > '" +
                                (folder_ / "out.txt").string() + "' 2> '" + (folder_ / "err.txt").string() + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(folder_ / "out.txt"), contents(folder_ / "err.txt")};
  }
  std::string out() const { return (folder_ / "report").string(); }
  Report report() const { return report_from_json(contents(folder_ / "report" / "report.json")); }
  /// Those with these words; there may be more, as of settings that somebody else's run holds on this machine.
  static long warnings_of(const Report& read, const char* words) {
    return std::ranges::count_if(read.context.warnings,
                                 [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }
  /// The schema and all invariants.
  void expect_good_report() {
    const Outcome validated = run("validate '" + out() + "/report.json'");
    EXPECT_EQ(validated.code, 0) << validated.out << validated.err;
  }

  fs::path folder_;
  const std::string stand_in_ = std::string("LD_LIBRARY_PATH=") + built::nvml_folder;
};

TEST_F(PowerTool, ProbeIsAUsefulPageWhateverIsThere) {
  const Outcome bare = run("probe");
  EXPECT_EQ(bare.code, 0) << bare.err;
  for (const char* word : {"Energy meters of ", "Telemetry", "Settings", "rapl", "nvml", "gpu_clock_mhz",
                           "gpu_power_limit_w", "cpu_frequency_mhz", "cpu_power_limit_w"})
    EXPECT_NE(bare.out.find(word), std::string::npos) << word << "\n" << bare.out;
  EXPECT_EQ(run("probe --site /nowhere/site.json").code, 2);

  standin::StandIn gpus(2);
  const Outcome gpu = run("probe", stand_in_);
  EXPECT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_NE(gpu.out.find("nvml:" + gpus.gpu(1).uuid), std::string::npos) << gpu.out;
  EXPECT_NE(gpu.out.find("counted"), std::string::npos);
  EXPECT_NE(gpu.out.find("Reports from this node contain energy"), std::string::npos);
  gpus.edit(0, [](standin::Gpu& one) { one.deny_set = 1; });

  const nlohmann::json json = nlohmann::json::parse(run("probe --json", stand_in_).out);
  int counted = 0, clocks = 0;
  for (const auto& meter : json.at("meters")) {
    counted += meter.at("counted").get<bool>() && meter.at("scope") == "device";
    EXPECT_TRUE(meter.at("counted").get<bool>() || !meter.at("reason").get<std::string>().empty()) << meter;
  }
  for (const auto& knob : json.at("knobs")) {
    EXPECT_TRUE(knob.at("writable").get<bool>() || !knob.at("reason").get<std::string>().empty()) << knob;
    clocks += knob.at("kind") == "gpu_clock_mhz" && knob.at("maximum") == 1980;
  }
  EXPECT_EQ(counted, 2);
  EXPECT_EQ(clocks, 2);
  EXPECT_EQ(json.at("gpus"), nlohmann::json::array({gpus.gpu(0).name, gpus.gpu(1).name}));
  EXPECT_GE(json.at("cpu").at("cores").get<int>(), 1);
  EXPECT_EQ(nlohmann::json::parse(run("probe --json", stand_in_ + " CUDA_VISIBLE_DEVICES=1").out).at("gpus").size(),
            1u);
}

TEST_F(PowerTool, ProbeCountsWhatARunStartedHereWould) {
  standin::StandIn gpus(3);
  const auto meters = [&](const std::string& environment) {
    std::map<std::string, std::string> states;  // by domain: "counted" or the reason
    const nlohmann::json json = nlohmann::json::parse(run("probe --json", stand_in_ + " " + environment).out);
    for (const auto& meter : json.at("meters"))
      states[meter.at("domain")] = meter.at("counted").get<bool>() ? "counted" : meter.at("reason").get<std::string>();
    for (const auto& row : json.at("telemetry"))
      if (row.at("domain").get<std::string>().starts_with("nvml:"))
        states["seen"] += row.at("domain").get<std::string>();
    return states;
  };
  auto states = meters("CUDA_VISIBLE_DEVICES=1");
  EXPECT_EQ(states["nvml:" + gpus.gpu(0).uuid], "not_visible");
  EXPECT_EQ(states["nvml:" + gpus.gpu(1).uuid], "counted");
  EXPECT_EQ(states["seen"], "nvml:" + gpus.gpu(1).uuid);
  gpus.edit(1, [](standin::Gpu& gpu) { gpu.name = "Stand-in T4"; });
  states = meters("CUDA_VISIBLE_DEVICES=1");
  EXPECT_EQ(states["gpu"], "gpus_unclear");
  EXPECT_EQ(states["nvml:" + gpus.gpu(1).uuid], "not_visible");
}

TEST_F(PowerTool, MeterPassesTheCommandsCodeThrough) {
  const Outcome seven = run("meter --out '" + out() + "' -- sh -c 'echo heard; exit 7'");
  EXPECT_EQ(seven.code, 7) << seven.err;
  EXPECT_EQ(seven.out, "heard\n") << "inherited";
  expect_good_report();
  const Record record = report().records.at(0);
  EXPECT_EQ(record.verdict.status, Status::invalid) << "a command that failed is no measurement";
  EXPECT_FALSE(record.summary.samples_per_s);
  EXPECT_EQ(run("meter --out '" + out() + "2' -- sh -c 'kill -TERM $$'").code, 128 + 15);
}

TEST_F(PowerTool, MeterIsItsOwnFailureWith125) {
  const Outcome unknown = run("meter --out '" + out() + "' -- /nowhere/command");
  EXPECT_EQ(unknown.code, 125);
  EXPECT_NE(unknown.err.find("error[cannot-run]: /nowhere/command: "), std::string::npos) << unknown.err;
  EXPECT_FALSE(fs::exists(out())) << "nothing half-written";
  EXPECT_EQ(run("meter --out '" + out() + "/a/b' -- /nowhere/command").code, 125);
  EXPECT_FALSE(fs::exists(out())) << "nor anything above it";
  fs::create_directories(out());
  EXPECT_EQ(run("meter --out '" + out() + "' -- /nowhere/command").code, 125);
  EXPECT_TRUE(fs::exists(out())) << "what was there stays";
  std::ofstream(fs::path(out()) / "notes") << "mine\n";
  EXPECT_EQ(run("meter --out '" + out() + "' -- true").code, 125) << "never overwritten";
}

// Two commands of one second, as a script has them.
TEST_F(PowerTool, CommandsWithoutAFolderEachHaveTheirOwn) {
  const std::string tool = "cd '" + folder_.string() + "' && for i in 1 2 3 4; do '" + built::trainwatt +
                           "' meter -- touch ran$i 2>>err.txt || exit 1 & done; wait";
  EXPECT_EQ(std::system(tool.c_str()), 0) << contents(folder_ / "err.txt");
  for (const char* one : {"ran1", "ran2", "ran3", "ran4"}) EXPECT_TRUE(fs::exists(folder_ / one)) << one;
  int reports = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) reports += fs::exists(entry.path() / "report.json");
  EXPECT_EQ(reports, 4) << contents(folder_ / "err.txt");
}

// One task of two is metered, and it is not the first: nobody would come to read.
TEST_F(PowerTool, TheOnlyMeteredTaskReads) {
  const Outcome done =
      run("meter --parse --out '" + out() + "' -- echo samples=64",
          "XDG_RUNTIME_DIR='" + folder_.string() + "' PMIX_NAMESPACE=alone" + std::to_string(getpid()) +
              " OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
              "OMPI_COMM_WORLD_LOCAL_SIZE=2");
  EXPECT_EQ(done.code, 0) << done.err;
  std::vector<fs::path> reports;
  for (const auto& entry : fs::recursive_directory_iterator(out()))
    if (entry.path().filename() == "report.json") reports.push_back(entry.path());
  ASSERT_EQ(reports.size(), 1u) << done.err;
  const Report read = report_from_json(contents(reports[0]));
  EXPECT_EQ(read.records.at(0).trials.at(0).samples, 64);
  EXPECT_EQ(warnings_of(read, "local rank 1 reads"), 1) << done.err;
  for (const fs::path& runtime : {fs::path("/run"), folder_})
    for (const auto& entry : fs::directory_iterator(runtime))
      EXPECT_EQ(entry.path().filename().string().find("-alone" + std::to_string(getpid())), std::string::npos)
          << entry.path();
}

TEST_F(PowerTool, MeterSaysWhatIsWrongWithItsWords) {
  const std::string csv = (folder_ / "power.csv").string();
  std::ofstream(csv) << "time,watts\n1,100\nnow,100\n";
  const std::string stale = (folder_ / "stale.csv").string();
  std::ofstream(stale) << "time,watts\n" << std::time(nullptr) << "000,100\n" << std::time(nullptr) << "500,100\n";
  const std::pair<std::string, std::string> wrong[] = {
      {"meter", "error[no-command]: "},
      {"meter --", "error[no-command]: "},
      {"meter true", "trainwatt meter [options] -- true"},
      {"meter --parse sleep 1", "trainwatt meter [options] -- sleep 1"},
      {"meter --parse=maybe -- true", "error[bad-value]: --parse"},
      {"meter --energy-csv '" + stale + "' -- true", "error[bad-power-file]: "},
      {"meter --otu x -- true", "error[unknown-option]: "},
      {"meter --out", "error[bad-value]: --out: "},
      {"meter --estimate-watts abc --", "error[bad-value]: --estimate-watts abc: "},
      {"meter --estimate-watts=abc -- true", "error[bad-value]: --estimate-watts abc: "},
      {"meter --estimate-watts=-5 -- true", "error[bad-value]: --estimate-watts -5: "},
      {"meter --estimate-watts nan -- true", "error[bad-value]: --estimate-watts nan: "},
      {"meter --energy-csv /nowhere/power.csv -- true", "error[cannot-read]: --energy-csv /nowhere/power.csv: "},
      {"meter --energy-csv '" + csv + "' -- true", csv + ":3: "}};
  for (const auto& [words, said] : wrong) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 125) << words;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << words << " said: " << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(run("meter --help").code, 0);
}

TEST_F(PowerTool, MeterKeepsItsOwnOptionsAndTheCommandsApart) {
  ASSERT_EQ(run("meter --parse --out '" + out() + "' -- echo -- --out samples=5").code, 0);
  EXPECT_EQ(contents(folder_ / "out.txt"), "-- --out samples=5\n");
  std::vector<std::string> argv = report().context.argv;
  ASSERT_FALSE(argv.empty());
  EXPECT_TRUE(argv.front().ends_with("trainwatt")) << argv.front();
  argv.erase(argv.begin());
  EXPECT_EQ(argv,
            (std::vector<std::string>{"meter", "--parse", "--out", out(), "--", "echo", "--", "--out", "samples=5"}));
}

TEST_F(PowerTool, AWindowShorterThanTheMetersPeriodHasNoJoules) {
  standin::StandIn gpus(1);
  gpus.edit(0, [](standin::Gpu& gpu) { gpu.step_ns = 200'000'000; });
  const EnergyRow* row = nullptr;
  Report read;
  Outcome done;
  do {  // where others use the machine, a moment may take longer; CTest's time limit ends the trying
    fs::remove_all(out());
    done = run("meter --out '" + out() + "' -- true", stand_in_);
    ASSERT_EQ(done.code, 0) << done.err;
    read = report();
    const std::vector<EnergyRow>& rows = read.records.at(0).trials.at(0).energy;
    row = &*std::ranges::find(rows, "nvml:" + gpus.gpu(0).uuid, &EnergyRow::domain);
    ASSERT_EQ(row->method, results::Method::counter);
  } while (!row->window_s || !row->update_period_s || *row->window_s >= *row->update_period_s);
  expect_good_report();
  EXPECT_FALSE(row->energy_j);
  EXPECT_EQ(row->reason, "too_short");
  EXPECT_FALSE(read.records[0].summary.energy_j.at(results::Scope::device));
  EXPECT_NE(done.err.find("s: use a longer window"), std::string::npos) << done.err;
  for (const IdleRow& idle : read.context.idle_power)
    EXPECT_TRUE(idle.power_w) << "a second, whatever the command takes";
  EXPECT_EQ(read.context.idle_power.size(), 2u);
}

TEST_F(PowerTool, AnEstimateIsLabelledAndCountsNowhere) {
  const Outcome done = run("meter --estimate-watts 200 --out '" + out() + "' -- sleep 0.2");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find(" J, estimated by estimate:cpu, not measured"), std::string::npos) << done.err;
  expect_good_report();
  const Outcome shown = run("show '" + out() + "/report.json'");
  EXPECT_NE(shown.out.find("\n  estimate     package by estimate:cpu: "), std::string::npos) << shown.out;
  const Record record = report().records.at(0);
  const auto row = std::ranges::find(record.trials.at(0).energy, "estimate:cpu", &EnergyRow::domain);
  ASSERT_NE(row, record.trials[0].energy.end());
  EXPECT_TRUE(row->energy_j && !row->counted);
}

TEST_F(PowerTool, MeterReadsJoulesAndSamples) {
  standin::StandIn gpus(1);
  gpus.edit(0, [](standin::Gpu& gpu) { gpu.step_ns = 1'000'000; });
  const Outcome done =
      run("meter --parse --out '" + out() +
              "' -- sh -c 'echo samples=1 seconds=1; sleep 2.5; echo step 9 samples=6400 seconds=1.25'",
          stand_in_);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "samples=1 seconds=1\nstep 9 samples=6400 seconds=1.25\n") << "copied through";
  expect_good_report();
  const Report read = report();
  const Record& record = read.records.at(0);
  EXPECT_EQ(record.verdict.status, Status::valid);
  const double window = record.trials.at(0).window_s;
  EXPECT_GE(window, 2.5);
  EXPECT_EQ(record.trials[0].samples_s, 1.25);
  EXPECT_NEAR(record.summary.samples_per_s.value().value, 6400 / 1.25, 1e-6)
      << "over its own seconds, without start and end";
  const double watts = 1e-3 * static_cast<double>(standin::operation(gpus.gpu(0)).power_mw);
  const Estimate joules = record.summary.energy_j.at(results::Scope::device).value();
  const EnergyRow& row = *std::find_if(record.trials[0].energy.begin(), record.trials[0].energy.end(),
                                       [](const EnergyRow& one) { return one.counted; });
  EXPECT_NE(done.err.find("J ± "), std::string::npos) << done.err;
  // Between a reading and its time, or the command's, this machine's others may run for a moment.
  EXPECT_NEAR(row.window_s.value(), window, 1) << "the command's, not an idle second's";
  EXPECT_NEAR(joules.value, watts * row.window_s.value(), row.uncertainty_j.value() + 0.1 * joules.value);
  EXPECT_NEAR(record.summary.samples_per_j.at(results::Scope::device)->value, 6400 / joules.value, 1e-9 * 6400);
  ASSERT_EQ(read.context.idle_power.size(), 2u);
  EXPECT_EQ(read.context.idle_power[0].when, tw::results::IdleTime::before);
  EXPECT_NEAR(read.context.idle_power[1].power_w.value(), watts, 0.2 * watts);
}

/// "device" rows that are counted; what else there is of that scope goes to `reasons`.
std::vector<std::string> counted_gpus(const Record& record, std::set<std::string>& reasons) {
  std::vector<std::string> counted;
  for (const EnergyRow& row : record.trials.at(0).energy)
    if (row.scope == results::Scope::device && row.counted)
      counted.push_back(row.domain);
    else if (row.scope == results::Scope::device)
      reasons.insert(row.reason);
  return counted;
}

TEST_F(PowerTool, MeterCountsTheGpusThatTheCommandMayUse) {
  standin::StandIn gpus(3);
  gpus.edit(1, [](standin::Gpu& gpu) { gpu.step_ns = 1'000'000; });
  std::set<std::string> reasons;
  const Outcome done = run("meter --parse --out '" + out() + "' -- sh -c 'sleep 0.5; echo samples=6400'",
                           stand_in_ + " CUDA_VISIBLE_DEVICES=1");
  ASSERT_EQ(done.code, 0) << done.err;
  expect_good_report();
  const Record record = report().records.at(0);
  EXPECT_EQ(counted_gpus(record, reasons), std::vector<std::string>{"nvml:" + gpus.gpu(1).uuid});
  EXPECT_TRUE(reasons.count("not_visible"));
  EXPECT_TRUE(record.summary.samples_per_j.at(results::Scope::device));
}

TEST_F(PowerTool, AGpuThatIsCutIntoInstancesIsFlagged) {
  standin::StandIn gpus(2);
  for (standin::Count mig : {0, 1}) {
    SCOPED_TRACE(mig);
    fs::remove_all(out());
    gpus.edit(0, [&](standin::Gpu& gpu) { gpu.mig = mig, gpu.step_ns = 1'000'000; });
    ASSERT_EQ(
        run("meter --out '" + out() + "' -- sleep 0.3", stand_in_ + " CUDA_VISIBLE_DEVICES=" + gpus.gpu(0).uuid).code,
        0);
    expect_good_report();
    const Report read = report();
    EXPECT_EQ(has_flag(read.records.at(0), Flag::shared_device), mig);
    EXPECT_EQ(warnings_of(read, "MIG is on"), mig ? 1 : 0);
    EXPECT_TRUE(read.records[0].summary.energy_j.at(results::Scope::device));
  }
}

TEST_F(PowerTool, NumbersThatMayNameAnyGpuLeaveNoJoules) {
  standin::StandIn gpus(2);
  gpus.edit(1, [](standin::Gpu& gpu) { gpu.name = "Stand-in T4"; });
  const std::string command = "meter --out '" + out() + "' -- sleep 0.3";
  ASSERT_EQ(run(command, stand_in_ + " CUDA_VISIBLE_DEVICES=1").code, 0);
  expect_good_report();
  EXPECT_FALSE(report().records.at(0).summary.energy_j.at(results::Scope::device));
  EXPECT_NE(report().records[0].summary.energy_reason.find("gpu: gpus_unclear"), std::string::npos);
  EXPECT_EQ(warnings_of(report(), "CUDA_DEVICE_ORDER=PCI_BUS_ID"), 1);
  fs::remove_all(out());
  ASSERT_EQ(run(command, stand_in_ + " CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID").code, 0);
  std::set<std::string> reasons;
  EXPECT_EQ(counted_gpus(report().records.at(0), reasons), std::vector<std::string>{"nvml:" + gpus.gpu(1).uuid});
}

TEST_F(PowerTool, WhereTasksAreNotKnownTheGpusHaveNoJoules) {
  standin::StandIn gpus(1);
  for (const char* launcher :
       {"SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", "PMI_RANK=0 PMI_SIZE=2"}) {
    fs::remove_all(out());
    const Outcome done = run("meter --parse --out '" + out() + "' -- sh -c 'sleep 0.3; echo samples=6400'",
                             stand_in_ + " XDG_RUNTIME_DIR='" + folder_.string() + "' " + launcher);
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.err.find("warning[gpu-energy-missing]: "), std::string::npos) << done.err;
    fs::path path;
    for (const auto& entry : fs::recursive_directory_iterator(out()))
      if (entry.path().filename() == "report.json") path = entry.path();
    const Summary summary = report_from_json(contents(path)).records.at(0).summary;
    EXPECT_FALSE(summary.energy_j.at(results::Scope::device) || summary.samples_per_j.at(results::Scope::device))
        << launcher;
    EXPECT_NE(summary.energy_reason.find("gpu: tasks_unknown"), std::string::npos) << summary.energy_reason;
  }
}

TEST_F(PowerTool, OneProcessOfANodeReadsWhateverTheLauncher) {
  standin::StandIn gpus(2);
  struct Case {
    std::string variables;  // %d: the rank
    bool knows_the_tasks;
  };
  const std::string whole = " PMI_RANK=%d PMI_SIZE=2";
  const fs::path work = folder_ / "work";  // for longer than a meter's period
  std::ofstream(work) << "#!/bin/sh\nsleep 0.3\ntouch \"$1\"\n";
  fs::permissions(work, fs::perms::owner_all);
  for (const Case& launcher :
       {Case{"MPI_LOCALRANKID=%d MPI_LOCALNRANKS=2" + whole, true}, Case{whole, false},
        Case{"PALS_APID=a-1 PALS_RANKID=%d PALS_LOCAL_RANKID=%d PALS_LOCAL_SIZE=2", true},
        Case{"MPI_LOCALRANKID=%d MPI_LOCALNRANKS=2 SLURM_STEP_ID=0 SLURM_PROCID=0" + whole, true}}) {
    SCOPED_TRACE(launcher.variables);
    fs::remove_all(out());
    // Each behind a shell of its own, as launchers' wrappers are.
    std::string script = "#!/bin/sh\n";
    for (const std::string rank : {"0", "1"}) {
      std::string variables = launcher.variables;
      for (std::size_t at; (at = variables.find("%d")) != std::string::npos;) variables.replace(at, 2, rank);
      script += "env " + variables + " CUDA_VISIBLE_DEVICES=" + rank + " sh -c '\"" + built::trainwatt +
                "\" meter --out \"" + out() + "\" -- \"" + work.string() + "\" \"" +
                (folder_ / ("ran" + rank)).string() + "\"; exit $?' & p" + rank + "=$!\n";
      fs::remove(folder_ / ("ran" + rank));
    }
    std::ofstream(folder_ / "launch") << script << "wait $p0 && wait $p1\n";
    const int status = std::system(("env " + stand_in_ + " XDG_RUNTIME_DIR='" + folder_.string() + "' sh '" +
                                    (folder_ / "launch").string() + "' 2> '" + (folder_ / "err.txt").string() + "'")
                                       .c_str());
    EXPECT_EQ(status, 0) << contents(folder_ / "err.txt");
    EXPECT_TRUE(fs::exists(folder_ / "ran0"));
    EXPECT_TRUE(fs::exists(folder_ / "ran1"));
    std::vector<fs::path> reports;
    for (const auto& entry : fs::recursive_directory_iterator(out()))
      if (entry.path().filename() == "report.json") reports.push_back(entry.path());
    ASSERT_EQ(reports.size(), 1u);
    std::set<std::string> reasons;
    EXPECT_EQ(counted_gpus(report_from_json(contents(reports[0])).records.at(0), reasons).size(), 2u);
    EXPECT_EQ(reasons.count("tasks_unknown"), launcher.knows_the_tasks ? 0u : 1u);
  }
}

TEST_F(PowerTool, ParsingEndsWithTheCommandNotWithWhatItLeavesBehind) {
  const std::string go = (folder_ / "go").string();
  const Outcome done = run("meter --parse --out '" + out() + "' -- sh -c '(while [ ! -e \"" + go +
                           "\" ]; do sleep 0.1; done; echo samples=7) & yes x | head -c 200000; echo samples=6400'");
  EXPECT_EQ(done.code, 0) << done.err;  // else it waits for `go`, until CTest's time limit
  EXPECT_EQ(report().records.at(0).trials.at(0).samples, 6400);
  EXPECT_EQ(done.out.size(), 200000 + std::string("samples=6400\n").size()) << "all that was written by then";
  std::ofstream(folder_ / "go").put('\n');
  while (contents(folder_ / "out.txt").find("samples=7\n") ==
         std::string::npos)  // still arrives, or CTest's time limit
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST_F(PowerTool, ASignalAfterTheCommandLosesIdlePowerAlone) {
  standin::StandIn gpus(1);
  gpus.edit(0, [](standin::Gpu& gpu) { gpu.step_ns = 1'000'000; });
  Report read;
  do {  // where others use the machine, the signal may come after that second; CTest's time limit ends the trying
    fs::remove_all(out());
    const Outcome done =
        run("meter --out '" + out() +
                "' -- sh -c 'command=$$; (while kill -0 $command; do sleep 0.01; done; kill -TERM $PPID) "
                "2> /dev/null & sleep 0.3; exit 3'",
            stand_in_);
    ASSERT_EQ(done.code, 3) << done.err;
    read = report();
  } while (read.context.idle_power.size() > 1);
  ASSERT_EQ(read.context.idle_power.size(), 1u);
  EXPECT_EQ(read.context.idle_power[0].when, tw::results::IdleTime::before);
  EXPECT_EQ(warnings_of(read, "no idle power after"), 1);
  EXPECT_TRUE(read.records.at(0).summary.energy_j.at(results::Scope::device));
}

TEST_F(PowerTool, OneSeriesIsNotReadBySeveralNodes) {
  std::ofstream(folder_ / "power.csv") << "time,watts\n";
  const std::string two_nodes =
      "PMIX_NAMESPACE=test OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "
      "XDG_RUNTIME_DIR='" +
      folder_.string() + "' OMPI_COMM_WORLD_LOCAL_SIZE=";
  const std::string command = "meter --out '" + out() + "' --energy-csv '" + folder_.string();
  const Outcome refused = run(command + "/power.csv' -- true", two_nodes + "1");
  EXPECT_EQ(refused.code, 125);
  EXPECT_NE(refused.err.find("{host}"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(out()));
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::time_t now = std::time(nullptr);
  std::ofstream(folder_ / (std::string(host) + ".csv")) << "time,watts\n" << now - 2 << ",100\n" << now - 1 << ",100\n";
  const Outcome done = run(command + "/{host}.csv' -- true", two_nodes + "1");
  EXPECT_EQ(done.code, 0) << done.err;
}

TEST_F(PowerTool, SecondsThatCannotBeAreNotDividedBy) {
  for (const char* seconds : {"", " seconds=0", " seconds=1e9"}) {
    fs::remove_all(out());
    const Outcome done = run("meter --parse --out '" + out() + "' -- echo samples=6400" + seconds);
    EXPECT_EQ(done.code, 0) << done.err;
    expect_good_report();
    const Trial trial = report().records.at(0).trials.at(0);
    EXPECT_FALSE(trial.samples_s) << seconds;
    EXPECT_NEAR(report().records[0].summary.samples_per_s.value().value * trial.window_s, 6400, 1e-3);
    EXPECT_EQ(done.err.find("1000000000") != std::string::npos, std::string(seconds) == " seconds=1e9") << done.err;
  }
}

}  // namespace
}  // namespace tw
