// What a folder holds of an earlier launch, and when that was not the same run.
#include "bench/train/sweep/resume.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>

#include "bench/train/job/outcome.hpp"
#include "bench/train/point/progress.hpp"
#include "results/record/report_io.hpp"

namespace tw {

using namespace bench;
using namespace results;

namespace {

namespace fs = std::filesystem;

Report report_of_two_nodes() {
  Report report;
  report.program = {"trainwatt-train", "0.1.0", "abc"};
  report.context.versions = {{"mpi", "4.1"}, {"oneDNN", "2.6"}};
  for (const char* name : {"n1", "n2"}) {
    HostInfo host;
    host.name = name, host.cpu = "a CPU", host.sockets = 2, host.cores = 64, host.memory_bytes = 512ull << 30;
    report.context.hosts.push_back(host);
  }
  for (int rank = 0; rank < 4; ++rank) {
    DeviceEntry device;
    device.rank = rank, device.host = rank < 2 ? "n1" : "n2", device.kind = "cuda", device.name = "a GPU";
    device.uuid = "GPU-" + std::to_string(rank), device.threads = 8;
    report.context.devices.push_back(device);
  }
  report.plan.canonical_json = R"({"points":[{"id":"a"},{"id":"b"}],"seed":1,"steps":null})";
  return report;
}

RunStart start_of(const Report& report) { return {report.program, report.context, report.plan, {}, "", {}, {}}; }

/// What is said where `change` is made to the second launch; the exit codes' kinds as a mark before each.
std::vector<std::string> said(const std::function<void(Report&)>& change) {
  const Report before = report_of_two_nodes();
  Report now = before;
  change(now);
  std::vector<std::string> lines;
  for (const LaunchDifference& one : differences(start_of(before), now))
    lines.push_back((one.is_usage ? "plan: " : "") + one.text);
  return lines;
}

/// Ranks of several nodes are started there again, each node with as many as it had.
TEST(ResumeCommand, NamesTheNodesOfTheRanks) {
  Context launch = report_of_two_nodes().context;
  launch.launcher = "mpirun", launch.versions["mpi"] = "Open MPI 4.1.4";
  EXPECT_EQ(resume_command(launch, "out/r"), "mpirun -np 4 --host n1:2,n2:2 trainwatt-train --resume out/r");
  Context turns = launch;
  for (DeviceEntry& device : turns.devices) device.host = device.rank % 2 == 0 ? "n1" : "n2";
  EXPECT_EQ(resume_command(turns, "out/r"),
            "mpirun -np 4 --host n1:2,n2:2 --map-by node trainwatt-train --resume out/r");
  Context other = launch;
  other.versions["mpi"] = "MPICH Version 4.0";
  EXPECT_EQ(resume_command(other, "out/r"), "mpirun -np 4 -hosts n1:2,n2:2 trainwatt-train --resume out/r");
  Context job = launch;
  job.environment["SLURM_JOB_ID"] = "7";
  EXPECT_EQ(resume_command(job, "out/r"), "mpirun -np 4 trainwatt-train --resume out/r") << "whose nodes may be others";
  job.launcher = "srun";
  EXPECT_EQ(resume_command(job, "out/r"), "srun -N 2 -n 4 trainwatt-train --resume out/r");
  Context one = launch;
  one.hosts.resize(1), one.devices.resize(2);
  EXPECT_EQ(resume_command(one, "out/r"), "mpirun -np 2 trainwatt-train --resume out/r");
  one.devices.resize(1), one.launcher = "none";
  EXPECT_EQ(resume_command(one, "a run"), "trainwatt-train --resume 'a run'");
}

using Lines = std::vector<std::string>;

TEST(Differences, TheSameRunHasNone) {
  EXPECT_EQ(said([](Report&) {}), Lines());
  EXPECT_EQ(said([](Report& now) {  // a job that is queued again
              for (HostInfo& host : now.context.hosts) host.name += "7", host.memory_bytes -= 1 << 20;
              for (DeviceEntry& device : now.context.devices) device.host += "7";
              now.context.started_at = "later";
              now.context.environment["SLURM_JOB_ID"] = "8";
            }),
            Lines());
}

TEST(Differences, EachIsNamedWithBothValues) {
  EXPECT_EQ(said([](Report& now) { now.program.git_commit = "def"; }), Lines{"commit abc, now def"});
  EXPECT_EQ(said([](Report& now) { now.program.version = "0.2.0"; }), Lines{"version 0.1.0, now 0.2.0"});
  EXPECT_EQ(said([](Report& now) { now.context.versions["oneDNN"] = "3.0"; }), Lines{"oneDNN 2.6, now 3.0"});
  EXPECT_EQ(said([](Report& now) { now.context.versions.erase("mpi"); }), Lines{"mpi 4.1, now none"});
  EXPECT_EQ(said([](Report& now) { now.context.hosts[1].cpu = "another"; }), Lines{"CPU of node 1 a CPU, now another"});
  EXPECT_EQ(said([](Report& now) { now.context.hosts.pop_back(); })[0], "nodes 2, now 1");
  EXPECT_EQ(said([](Report& now) { now.context.hosts[0].memory_bytes = 256ull << 30; }),
            Lines{"memory of node 0 549755813888 bytes, now 274877906944 bytes"});
  EXPECT_EQ(
      said([](Report& now) { now.context.hosts[0].cores = 32; }),
      Lines{"processors of node 0 2 sockets, 64 cores, 0 threads (0 usable), 0 NUMA nodes, now 2 sockets, 32 cores, 0 "
            "threads (0 usable), 0 NUMA nodes"});
  EXPECT_EQ(said([](Report& now) { now.context.hosts[0].cgroup_cpu_limit = "8"; }),
            Lines{"CPU limit of node 0 none, now 8"});
  EXPECT_EQ(said([](Report& now) { now.context.devices[3].uuid = "GPU-x"; }),
            Lines{"device UUID of rank 3 GPU-3, now GPU-x"});
  EXPECT_EQ(said([](Report& now) { now.context.devices[0].name = "b GPU"; }),
            Lines{"device of rank 0 cuda a GPU, now cuda b GPU"});
  EXPECT_EQ(said([](Report& now) { now.context.devices[0].instruction_set = "sm_90"; }),
            Lines{"instruction set of rank 0 none, now sm_90"});
  EXPECT_EQ(said([](Report& now) {
              for (DeviceEntry& device : now.context.devices) device.threads = 4;
            }),
            Lines{"threads of rank 0 8, now 4 (and of 3 more)"});
  EXPECT_EQ(said([](Report& now) { now.context.devices[1].host = "n2"; }), Lines{"node of rank 1 0, now 1"});
  EXPECT_EQ(said([](Report& now) { now.context.hosts[1].kernel = "6.1.0-20"; }),
            Lines{"kernel of node 1 none, now 6.1.0-20"});
  EXPECT_EQ(said([](Report& now) { now.context.devices[2].libraries = {"CUDA 12.4"}; }),
            Lines{"libraries of rank 2 none, now CUDA 12.4"});
}

TEST(Differences, MetersThatAreGoneAreNamed) {
  Report before = report_of_two_nodes();
  for (const char* host : {"n1", "n2"})
    for (const char* domain : {"rapl:package-0", "rapl:package-1", "hwmon:hwmon3/power1"})
      before.context.meters.push_back(
          {host, domain, "", "", results::Scope::package, results::Method::counter, true, domain[0] == 'r', 0.001});
  Report now = before;
  const auto lines = [&] {
    Lines all;
    for (const LaunchDifference& one : differences(start_of(before), now)) all.push_back(one.text);
    return all;
  };
  now.context.meters[2].domain = "hwmon:hwmon5/power1";  // numbered otherwise since it has booted
  for (MeterEntry& meter : now.context.meters) meter.host += "7";
  EXPECT_EQ(lines(), Lines());
  now.context.meters[3].available = false;
  EXPECT_EQ(lines(), Lines{"meters of node 1 2 rapl package, now 1 rapl package"});
}

TEST(Differences, OtherNodesAreNoDifferenceButAreNamed) {
  const Report before = report_of_two_nodes();
  Context now = before.context;
  EXPECT_EQ(other_hosts(start_of(before), now), "");
  now.hosts[1].name = "n3";
  EXPECT_EQ(other_hosts(start_of(before), now), "other nodes than before (n1, n3, before n1, n2)");
  // Back on the nodes of the last launch, but not on those of the first.
  RunStart start = start_of(before);
  start.parts = {{start.program, {}, {}, now}};
  EXPECT_EQ(other_hosts(start, before.context), "other nodes than before (n1, n2, before n1, n3)");
}

TEST(Differences, OfThePlanAreTheUsers) {
  const auto with_plan = [](const std::string& plan) {
    return said([&](Report& now) { now.plan.canonical_json = plan; });
  };
  EXPECT_EQ(with_plan(R"({"points":[{"id":"a"},{"id":"b"}],"seed":2,"steps":null})"), Lines{"plan: seed 1, now 2"});
  EXPECT_EQ(with_plan(R"({"points":[{"id":"a"}],"seed":1,"steps":3})"),
            (Lines{"plan: steps none, now 3", "plan: points 2, now 1", "plan: point b, now none"}));
  EXPECT_EQ(with_plan(R"({"points":[{"id":"b"},{"id":"a"}],"seed":1,"steps":null})"),
            Lines{"plan: the order of the points"});
  EXPECT_EQ(with_plan(R"({"points":[{"id":"a","seeds":[1,2]},{"id":"b","micro_batch":4}],"seed":1,"steps":null})"),
            (Lines{"plan: a: seeds none, now [1,2]", "plan: b: micro_batch none, now 4"}));
  EXPECT_EQ(said([](Report& now) { now.context.devices.pop_back(), now.plan.canonical_json = "{}"; }),
            Lines{"plan: ranks 4, now 3"})
      << "everything else follows from that";
}

TEST(Differences, OfOptionsBesideThePlan) {
  Options before, now;
  EXPECT_TRUE(differences(before, now).empty());
  now.bucket_mib = 4, now.energy_csv = "a.csv", now.estimate_watts = 200, now.site = "s.json";
  Lines lines;
  for (const LaunchDifference& one : differences(before, now)) lines.push_back(one.text);
  EXPECT_EQ(lines, (Lines{"--site none, now s.json", "--energy-csv none, now a.csv", "--estimate-watts none, now 200",
                          "--bucket-mib 25, now 4"}));
  now = before, now.threads = 2, now.out = "elsewhere", now.force = now.force_resume = true;
  EXPECT_TRUE(differences(before, now).empty()) << "seen in the machine, or of no matter";
}

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "trainwatt-resume-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  static std::string line(const std::string& id) {
    Record record;
    record.id = id;
    return to_json_line(record) + "\n";
  }
  template <class Error = std::runtime_error>
  std::string thrown(const std::function<void()>& work) const {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  }
  fs::path folder_;
};

TEST_F(Folder, HoldsARunOrNothing) {
  EXPECT_FALSE(holds_run(folder_));
  put("run.lock", "1 n1\n");
  put("run.json.tmp.4711", "{");
  EXPECT_FALSE(holds_run(folder_)) << "killed before it had written anything";
  put("records.jsonl", "");
  EXPECT_NE(thrown<UsageError>([&] { holds_run(folder_); }).find("run.json"), std::string::npos);
  put("run.json", "");
  EXPECT_TRUE(holds_run(folder_));
  EXPECT_NE(thrown<UsageError>([&] { holds_run(folder_ / "run.json"); }).find("[bad-folder] "), std::string::npos);
}

TEST_F(Folder, FinishedPointsAreReadAndATornLineIsNot) {
  put("run.json", to_json(start_of(report_of_two_nodes())));
  EXPECT_TRUE(read_earlier(folder_).records.empty()) << "killed in its first point";
  for (const std::string& torn : {std::string(), std::string("{\"id\": \"to"), std::string(100, '\0')}) {
    put("records.jsonl", line("a") + line("b") + torn);
    const Earlier earlier = read_earlier(folder_);
    ASSERT_EQ(earlier.records.size(), 2u);
    EXPECT_EQ(earlier.records[1].id, "b");
    EXPECT_EQ(earlier.start.plan.canonical_json, report_of_two_nodes().plan.canonical_json);
  }
}

TEST_F(Folder, DamageIsNamedWithFileAndLine) {
  put("run.json", to_json(start_of(report_of_two_nodes())));
  put("records.jsonl", line("a") + "{\"id\": \"torn in the middle\n" + line("c"));
  const std::string text = thrown([&] { read_earlier(folder_); });
  EXPECT_NE(text.find((folder_ / "records.jsonl").string() + ": line 2: "), std::string::npos) << text;
  put("run.json", "{\"schema_version\": \"1.0\"}");
  const std::string start = thrown([&] { read_earlier(folder_); });
  EXPECT_NE(start.find((folder_ / "run.json").string() + ": "), std::string::npos) << start;
}

TEST_F(Folder, PartsKnowTheirPoints) {
  Earlier earlier{start_of(report_of_two_nodes()), {}};
  for (const char* id : {"a", "b", "c"}) earlier.records.emplace_back().id = id;
  earlier.start.forced_over = {"commit 1, now 2"};
  earlier.start.parts = {{earlier.start.program, {"a", "b"}, {}, earlier.start.context}};
  const std::vector<RunPart> parts = parts_of(earlier);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].points, (Lines{"a", "b"}));
  EXPECT_EQ(parts[1].points, Lines{"c"});
  EXPECT_EQ(parts[1].forced_over, Lines{"commit 1, now 2"});
  EXPECT_TRUE(parts[1].context);
}

TEST_F(Folder, ARecordThatAnEarlierPartListsAndNoLineHoldsIsNamed) {
  Earlier earlier{start_of(report_of_two_nodes()), {}};
  earlier.start.parts = {{earlier.start.program, {"a", "b"}, {}, earlier.start.context}};
  for (const char* id : {"a", "b", "c"}) earlier.records.emplace_back().id = id;
  earlier.records.erase(earlier.records.begin() + 1);
  Report report;
  report.parts = parts_of(earlier);
  report.records = earlier.records;
  for (const bool is_forced : {false, true})
    EXPECT_EQ(unfit_records(report, is_forced),
              "part 1 measured b, but records.jsonl has no such line: damaged: restore the file, or "
              "start a new run in another folder");
}

TEST_F(Folder, IsHeldByOneProcessUntilItEnds) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder_);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const std::string text = thrown<Stop>([&] { RunLock lock(folder_); });
  EXPECT_NE(text.find("process " + std::to_string(child) + " on "), std::string::npos) << text;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(folder_ / "run.lock"));
  {
    const RunLock lock(folder_);
    EXPECT_NE(thrown<Stop>([&] { RunLock second(folder_); }), "nothing thrown");
  }
  EXPECT_FALSE(fs::exists(folder_ / "run.lock"));
  close(ready[0]), close(ready[1]);
}

int no_locks(int, int) {
  errno = ENOSYS;
  return -1;
}

TEST_F(Folder, WithoutLocksAnotherHostsProcessKeepsItUntilTheFileIsRemoved) {
  {
    const RunLock lock(folder_, no_locks);
    EXPECT_FALSE(lock.is_known());
    EXPECT_TRUE(fs::exists(folder_ / "run.lock"));
  }
  for (const std::string& holder : {std::string("4711 elsewhere\n"), std::string()}) {
    put("run.lock", holder);
    const std::string text = thrown<Stop>([&] { RunLock lock(folder_, no_locks); });
    EXPECT_NE(text.find(holder.empty() ? "another process" : "process 4711 on elsewhere"), std::string::npos) << text;
    EXPECT_NE(text.find("remove " + (folder_ / "run.lock").string()), std::string::npos) << text;
    EXPECT_TRUE(fs::exists(folder_ / "run.lock")) << "it is another's";
  }
  put("run.lock", "4711 elsewhere\n");
  EXPECT_TRUE(RunLock(folder_).is_known()) << "a file system that knows locks says that it has ended";
  // Of this host it is known which processes live.
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  put("run.lock", std::to_string(getppid()) + " " + host + "\n");
  EXPECT_NE(thrown<Stop>([&] { RunLock lock(folder_, no_locks); }).find("[run-locked] "), std::string::npos);
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  put("run.lock", std::to_string(ended) + " " + host + "\n");
  EXPECT_EQ(thrown<Stop>([&] { RunLock lock(folder_, no_locks); }), "nothing thrown");
}

TEST(Pace, FollowsThePlanUntilAPointWasMeasured) {
  Pace pace(10, 4);
  EXPECT_EQ(pace.left_seconds(0), 40);
  EXPECT_EQ(pace.left_seconds(4), 36);
  EXPECT_EQ(pace.left_seconds(15), 30) << "late, but the others may be in time";
  pace.finish(0.1, false);  // unsupported
  EXPECT_EQ(pace.left_seconds(0), 30);
  pace.finish(20, true);
  EXPECT_EQ(pace.left_seconds(0), 40) << "as long as the one before";
  pace.finish(30, true);
  EXPECT_EQ(pace.left_seconds(5), 20);
  pace.finish(30, true);
  EXPECT_FALSE(pace.left_seconds(0)) << "nothing is left";
  EXPECT_FALSE(Pace(0, 4).left_seconds(0)) << "steps take as long as they take";
}

}  // namespace
}  // namespace tw
