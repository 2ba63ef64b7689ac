// The inventory on made-up /proc and /sys trees, and what must hold on any real machine.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "bench/inventory/busy.hpp"
#include "bench/inventory/inventory.hpp"
#include "results/record/report_io.hpp"

namespace tw {

using namespace bench;
using namespace results;

namespace {

namespace fs = std::filesystem;

/// A file system root of its own, removed at the end.
class Root {
 public:
  Root() {
    std::string pattern = (fs::temp_directory_path() / "tw-inventory-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Root() { fs::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << text;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// A process's line in /proc, which has used so many ticks.
std::string stat_of(const std::string& name, int user, int system) {
  return "1 (" + name + ") R 1 1 1 0 -1 4194304 1 0 0 0 " + std::to_string(user) + ' ' + std::to_string(system) + " 0 0 20 0 1 0\n";
}

TEST(Busy, NamesTheProgramsThatHaveTheCpu) {
  const Root root;
  const auto use = [&](int busy, int idle) {
    root.write("proc/stat", "cpu " + std::to_string(busy) + " 0 0 " + std::to_string(idle) + " 0 0 0 0\n");
    ProcessorUse now = read_processor_use(root.path());
    now.own_seconds = 0;
    return now;
  };
  root.write("proc/10/stat", stat_of("cc1plus", 100, 0));
  root.write("proc/11/stat", stat_of("a (b) c", 500, 0));
  root.write("proc/12/stat", stat_of("idle", 7000, 0));
  root.write("proc/self/stat", stat_of("no process id", 0, 0));
  root.write("proc/14/stat/folder",
             "");  // can be opened and not read, as the file of a process that has ended meanwhile
  const ProcessorUse before = use(1000, 1000);
  root.write("proc/10/stat", stat_of("cc1plus", 120, 10));
  root.write("proc/11/stat", stat_of("a (b) c", 500, 20));
  root.write("proc/12/stat", stat_of("idle", 7000, 1));
  root.write("proc/13/stat", stat_of("cc1plus", 20, 0));
  EXPECT_EQ(others_at_work(before, use(1078, 1022)), "other programs use 78 % of the CPU: cc1plus, a (b) c");
  EXPECT_EQ(others_at_work(before, use(1004, 1096)), "") << "a quiet machine";
  EXPECT_EQ(others_at_work(use(0, 0), use(50, 50)), "other programs use 50 % of the CPU (in processes that this one cannot see)");
  EXPECT_EQ(others_at_work(ProcessorUse{}, use(50, 50)), "") << "nobody knows";
}

TEST(Busy, LeavesThisProcessOut) {
  EXPECT_EQ(read_processor_use().programs.count(getpid()), 0u);
  EXPECT_GT(read_processor_use().programs.size(), 0u);
}

TEST(Host, ReadsAFixtureTree) {
  const Root root;
  root.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast(R) CPU @ 3.00GHz\nmodel\t\t: 143\n");
  root.write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:    8000000 kB\n");
  root.write("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
  root.write("proc/sys/kernel/hostname", "node17\n");
  root.write("etc/os-release", "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  root.write("proc/stat", "cpu  100 0 100 700 0 0 0 100 50 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  for (const char* cpu : {"cpu0", "cpu1"}) {
    const fs::path folder = fs::path("sys/devices/system/cpu") / cpu / "cpufreq";
    root.write(folder / "scaling_governor", std::string(cpu) == "cpu0" ? "powersave\n" : "performance\n");
    root.write(folder / "scaling_min_freq", std::string(cpu) == "cpu0" ? "800000\n" : "900000\n");
    root.write(folder / "scaling_max_freq", "3700000\n");
  }
  root.write("sys/devices/system/cpu/cpufreq/boost", "1\n");  // must not be taken for a CPU

  const HostInfo host = inspect_host(root.path());
  EXPECT_EQ(host.cpu, "Fast(R) CPU @ 3.00GHz");
  EXPECT_EQ(host.name, "node17");
  EXPECT_EQ(host.kernel, "6.1.0-9-amd64");
  EXPECT_EQ(host.os, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(host.memory_bytes, 16000000ull * 1024);
  EXPECT_EQ(host.cpu_governor, "performance,powersave");
  EXPECT_EQ(host.cpu_min_mhz, 800.0);
  EXPECT_EQ(host.cpu_max_mhz, 3700.0);
  EXPECT_DOUBLE_EQ(host.steal_share_since_boot.value(), 0.1);  // guest time is inside user: 1000 ticks, 100 stolen
  EXPECT_FALSE(host.cgroup_cpu_limit);
  EXPECT_FALSE(host.cgroup_memory_limit_bytes);
  EXPECT_EQ(host.sockets, 0) << "the kernel does not say";
}

TEST(Host, CountsWhatTheKernelLists) {
  const Root root;
  root.write("sys/devices/system/cpu/online", "0-3,6\n");
  root.write("sys/devices/system/node/online", "0-1\n");
  const auto cpu = [&](int number, const char* socket, const char* core) {
    const fs::path topology = "sys/devices/system/cpu/cpu" + std::to_string(number) + "/topology";
    root.write(topology / "physical_package_id", socket);
    root.write(topology / "core_id", core);
  };
  cpu(0, "0\n", "0\n"), cpu(1, "0\n", "0\n"), cpu(2, "1\n", "0\n"), cpu(3, "1\n", "1\n"), cpu(6, "1\n", "1\n");
  cpu(4, "2\n", "0\n");  // offline
  const HostInfo free = inspect_host(root.path());
  EXPECT_EQ(free.sockets, 2);
  EXPECT_EQ(free.cores, 3);
  EXPECT_EQ(free.hardware_threads, 5);
  EXPECT_EQ(free.usable_threads, 5);
  EXPECT_EQ(free.numa_nodes, 2);
  root.write("proc/self/mountinfo", "30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  root.write("proc/self/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/job/cpuset.cpus.effective", "1-2,4\n");
  root.write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(inspect_host(root.path()).usable_threads, 2) << "its group sets none, that above it does";
}

TEST(Host, EmptyTreeGivesAbsentFields) {
  const Root root;
  const HostInfo host = inspect_host(root.path());
  EXPECT_EQ(host.cpu, "");
  EXPECT_FALSE(host.hypervisor);
  EXPECT_FALSE(host.container);
  EXPECT_FALSE(host.cpu_governor);
  EXPECT_FALSE(host.cpu_max_mhz);
  EXPECT_FALSE(host.steal_share_since_boot);
  EXPECT_TRUE(host.nics.empty());
  EXPECT_FALSE(memory_available_bytes(root.path()));
  EXPECT_FALSE(memory_total_bytes(root.path()));
  EXPECT_FALSE(read_cpu_times(root.path()));
  EXPECT_EQ(peak_resident_bytes(root.path()), 0u);
}

TEST(Host, ThisMachine) {
  const HostInfo host = inspect_node(), kernels = inspect_host();
  EXPECT_GE(kernels.sockets, 1);
  EXPECT_GE(kernels.cores, kernels.sockets);
  EXPECT_GE(kernels.hardware_threads, kernels.cores);
  EXPECT_GE(kernels.usable_threads, 1);
  EXPECT_FALSE(host.name.empty());
  EXPECT_GT(host.memory_bytes, 64ull << 20);
  EXPECT_FALSE(host.kernel.empty());
  if (library_versions().at("hwloc") == "not built in") GTEST_SKIP() << "hwloc is not built in: no topology";
  EXPECT_GE(host.sockets, 1);
  EXPECT_GE(host.cores, 1);
  EXPECT_GE(host.hardware_threads, host.cores);
  EXPECT_LE(host.usable_threads, host.hardware_threads);
  EXPECT_EQ(host.sockets, kernels.sockets);
  EXPECT_EQ(host.cores, kernels.cores);
  EXPECT_EQ(host.usable_threads, kernels.usable_threads);
  EXPECT_EQ(host.topology_xml_sha256.size(), 64u);
  EXPECT_EQ(host.topology_xml_sha256, inspect_node().topology_xml_sha256);
}

TEST(Hypervisor, CpuBitDecidesAndFirmwareAddsTheCloud) {
  const Root root;
  EXPECT_EQ(find_hypervisor("KVMKVMKVM", root.path()), "kvm");
  EXPECT_EQ(find_hypervisor("VMwareVMware", root.path()), "vmware");
  EXPECT_EQ(find_hypervisor("NewNewNewNew", root.path()), "unknown (NewNewNewNew)");
  EXPECT_EQ(find_hypervisor("", root.path()), std::nullopt);
  root.write("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
  EXPECT_EQ(find_hypervisor("KVMKVMKVM", root.path()), "kvm (Amazon EC2)");
  EXPECT_EQ(find_hypervisor("", root.path()), std::nullopt)
      << "a bare-metal instance carries the cloud's vendor string";
}

TEST(Hypervisor, WithoutCpuidFirmwareDecides) {
  const Root root;
  EXPECT_EQ(find_hypervisor(std::nullopt, root.path()), std::nullopt);
  root.write("sys/class/dmi/id/sys_vendor", "Dell Inc.\n");
  EXPECT_EQ(find_hypervisor(std::nullopt, root.path()), std::nullopt);
  root.write("sys/class/dmi/id/product_name", "QEMU Virtual Machine\n");
  EXPECT_EQ(find_hypervisor(std::nullopt, root.path()), "QEMU");
  root.write("sys/hypervisor/type", "xen\n");
  EXPECT_EQ(find_hypervisor(std::nullopt, root.path()), "xen");
}

TEST(Container, EachTrace) {
  const auto with = [](const fs::path& file, const std::string& text) {
    const Root root;
    root.write(file, text);
    return find_container({}, root.path());
  };
  const Root empty;
  EXPECT_EQ(find_container({}, empty.path()), std::nullopt);
  EXPECT_EQ(find_container({{"APPTAINER_NAME", "image.sif"}}, empty.path()), "apptainer");
  EXPECT_EQ(find_container({{"SINGULARITY_NAME", "image.sif"}}, empty.path()), "singularity");
  EXPECT_EQ(find_container({{"APPTAINER_NAME", ""}}, empty.path()), std::nullopt);
  EXPECT_EQ(with(".dockerenv", ""), "docker");
  EXPECT_EQ(with("run/.containerenv", "engine=\"podman-4.3.1\"\nname=\"x\"\n"), "podman-4.3.1");
  EXPECT_EQ(with("run/.containerenv", ""), "podman");
  EXPECT_EQ(with("run/systemd/container", "systemd-nspawn\n"), "systemd-nspawn");
  EXPECT_EQ(with("proc/1/environ", std::string("PATH=/bin\0container=lxc\0", 24)), "lxc");
  EXPECT_EQ(with("proc/self/cgroup", "0::/kubepods/besteffort/pod1/abc\n"), "kubernetes");
  EXPECT_EQ(with("proc/self/cgroup", "4:memory:/docker/abc\n"), "docker");
  EXPECT_EQ(with("proc/self/cgroup", "0::/system.slice/docker.service\n"), std::nullopt) << "the daemon itself";
  EXPECT_EQ(with("proc/self/cgroup", "0::/user.slice/user-1000.slice\n"), std::nullopt);
}

TEST(Nics, HardwareFirstThenRdma) {
  const Root root;
  root.write("sys/class/net/lo/operstate", "unknown\n");
  root.write("sys/class/net/docker0/operstate", "up\n");
  root.write("sys/class/net/eth0/operstate", "up\n");
  EXPECT_EQ(find_nics(root.path()), (std::vector<std::string>{"docker0 speed unknown", "eth0 speed unknown"}));
  root.write("sys/class/net/eth0/device/vendor", "0x1af4\n");
  root.write("sys/class/net/eth0/speed", "10000\n");
  root.write("sys/class/net/eth1/operstate", "down\n");
  root.write("sys/class/net/eth1/device/vendor", "0x1af4\n");
  root.write("sys/class/net/eth1/speed", "-1\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  root.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  EXPECT_EQ(find_nics(root.path()), (std::vector<std::string>{"eth0 10000 Mbit/s", "eth1 down",
                                                              "mlx5_0:1 RDMA 400 Gb/sec (4X NDR) InfiniBand ACTIVE"}));
}

TEST(Cgroup, Version2TakesTheSmallestAlongTheChain) {
  const Root root;
  root.write("proc/self/cgroup", "0::/slurm/job1/step0\n");
  root.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  const fs::path top = "sys/fs/cgroup";
  root.write(top / "slurm/job1/cpu.max", "250000 100000\n");
  root.write(top / "slurm/job1/step0/cpu.max", "max 100000\n");
  root.write(top / "slurm/job1/memory.max", "4000000000\n");
  root.write(top / "slurm/job1/memory.current", "1500000000\n");
  root.write(top / "slurm/job1/memory.stat",
             "anon 900000000\nfile 600000000\ninactive_file 400000000\nactive_file 100000000\n");
  root.write(top / "slurm/job1/step0/memory.max", "max\n");
  root.write(top / "slurm/memory.max", "9000000000\n");
  root.write("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.cpus, 2.5);
  EXPECT_EQ(limits.memory_bytes, 4000000000u);
  EXPECT_EQ(limits.memory_available_bytes, 3000000000u);
  EXPECT_EQ(memory_available_bytes(root.path()), 3000000000u);
  EXPECT_EQ(memory_total_bytes(root.path()), 4000000000u);
  const HostInfo host = inspect_host(root.path());
  EXPECT_EQ(host.cgroup_cpu_limit, "2.5 CPUs");
  EXPECT_EQ(host.cgroup_memory_limit_bytes, 4000000000u);
}

TEST(Cgroup, Version1InAContainerThatMountsOnlyItsOwnPart) {
  const Root root;
  root.write("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
  root.write("proc/self/mountinfo",
             "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
             "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
  EXPECT_FALSE(read_cgroup_limits(root.path()).cpus);
  EXPECT_FALSE(read_cgroup_limits(root.path()).memory_bytes);
  root.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1900000000\n");
  root.write("sys/fs/cgroup/memory/memory.stat",
             "inactive_file 7\ntotal_inactive_file 1000000000\ntotal_active_file 0\n");
  EXPECT_EQ(read_cgroup_limits(root.path()).cpus, 1.5);
  EXPECT_EQ(usable_cores(64, root.path()), 2);
  EXPECT_EQ(usable_cores(1, root.path()), 1);
  EXPECT_EQ(usable_cores(0, root.path()), 1);
  EXPECT_EQ(read_cgroup_limits(root.path()).memory_bytes, 2000000000u);
  EXPECT_EQ(read_cgroup_limits(root.path()).memory_available_bytes, 1100000000u);
}

TEST(Steal, ShareBetweenTwoReadings) {
  EXPECT_EQ(steal_share(CpuTimes{100, 0, 10}, CpuTimes{300, 0, 60}), 0.25);
  EXPECT_EQ(steal_share(std::nullopt, CpuTimes{300, 0, 60}), std::nullopt);
  EXPECT_EQ(steal_share(CpuTimes{300, 0, 60}, CpuTimes{300, 0, 60}), std::nullopt) << "no time has passed";
  EXPECT_EQ(steal_share(CpuTimes{100, 0, 70}, CpuTimes{300, 0, 60}), std::nullopt) << "some kernels let steal run backwards";
}

TEST(ForeignShare, IsWhatTheJobDidNotUse) {
  const auto second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const CpuTimes before{1000, 500, 0}, after{1000 + 8 * second, 500 + 4 * second, 0};
  EXPECT_DOUBLE_EQ(foreign_share(before, after, 3).value(), 0.125);
  EXPECT_DOUBLE_EQ(foreign_share(before, after, 4.1).value(), 0) << "ticks are coarse: never negative";
  EXPECT_EQ(foreign_share(std::nullopt, after, 0), std::nullopt);
  EXPECT_EQ(foreign_share(after, after, 0), std::nullopt) << "no time has passed";
  const double spent = process_cpu_seconds();
  volatile double sum = 0;
  for (int i = 0; i < 20'000'000; ++i) sum = sum + i;
  EXPECT_GT(process_cpu_seconds(), spent);
}

TEST(Process, PeakMemoryGrowsWithTouchedPages) {
  const std::uint64_t before = peak_resident_bytes();
  ASSERT_GT(before, 0u);
  const std::vector<char> pages(64u << 20, 1);
  EXPECT_GE(peak_resident_bytes(), before + (48u << 20)) << pages.back();
}

TEST(Process, AffinityFollowsTheMask) {
  const std::vector<int> all = affinity_list();
  ASSERT_FALSE(all.empty());
  cpu_set_t one, saved;
  ASSERT_EQ(sched_getaffinity(0, sizeof saved, &saved), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(all.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(affinity_list(), std::vector<int>{all.back()});
  EXPECT_EQ(affinity_threads(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof saved, &saved), 0);
  EXPECT_EQ(affinity_list(), all);
}

TEST(Process, DiskSpaceOfAFolderThatDoesNotExistYet) {
  const auto there = disk_available_bytes("."), later = disk_available_bytes("not/yet/made");
  ASSERT_TRUE(there && later);
  EXPECT_GT(*later, 0u);
}

TEST(Environment, KeepsWhatMattersAndNoSecrets) {
  const char* variables[] = {"OMP_NUM_THREADS=2",
                             "OMPI_MCA_btl=self,vader",
                             "OMPI_MCA_orte_precondition_transports=1234-5678",
                             "SLURM_JOB_ID=7",
                             "SLURM_JWT=abc",
                             "HOME=/home/x",
                             "NCCL_API_TOKEN=zzz",
                             "CUDA_VISIBLE_DEVICES=",
                             "ONEDNN_VERBOSE=a=b",
                             "MALFORMED",
                             nullptr};
  EXPECT_EQ(relevant_environment(variables), (std::map<std::string, std::string>{{"CUDA_VISIBLE_DEVICES", ""},
                                                                                 {"OMPI_MCA_btl", "self,vader"},
                                                                                 {"OMP_NUM_THREADS", "2"},
                                                                                 {"ONEDNN_VERBOSE", "a=b"},
                                                                                 {"SLURM_JOB_ID", "7"}}));
}

TEST(Versions, NameTheBuild) {
  const auto versions = library_versions();
  for (const char* name : {"compiler", "glibc", "hwloc", "kernel", "build_type"})
    EXPECT_FALSE(versions.at(name).empty()) << name;
}

TEST(BetweenRanks, RoundTripsAllAndNothing) {
  HostInfo host;
  EXPECT_EQ(to_json_line(results::host_from_json(to_json_line(host))), to_json_line(host));
  host.name = "n\"1";
  host.cpu = "line\nbreak";
  host.hypervisor = "kvm";
  host.cpu_max_mhz = 3700.125;
  host.nics = {"eth0 10000 Mbit/s", "eth1 down"};
  host.memory_bytes = 1ull << 53;
  host.cgroup_memory_limit_bytes = 5;
  host.usable_threads = 3;
  const HostInfo back = results::host_from_json(to_json_line(host));
  EXPECT_EQ(back.name, host.name);
  EXPECT_EQ(back.cpu, host.cpu);
  EXPECT_EQ(back.hypervisor, host.hypervisor);
  EXPECT_EQ(back.container, std::nullopt);
  EXPECT_EQ(back.cpu_max_mhz, host.cpu_max_mhz);
  EXPECT_EQ(back.nics, host.nics);
  EXPECT_EQ(back.memory_bytes, host.memory_bytes);
  EXPECT_EQ(back.cgroup_memory_limit_bytes, host.cgroup_memory_limit_bytes);
  EXPECT_EQ(back.usable_threads, 3);
  EXPECT_EQ(to_json_line(host).find('\n'), std::string::npos) << "one line";

  DeviceEntry device;
  device.rank = 3;
  device.host = "n1";
  device.kind = "cpu";
  device.affinity = {0, 2};
  device.libraries = {"oneDNN 2.6.3"};
  const DeviceEntry same = results::device_from_json(to_json_line(device));
  EXPECT_EQ(same.rank, 3);
  EXPECT_EQ(same.host, "n1");
  EXPECT_EQ(same.affinity, device.affinity);
  EXPECT_EQ(same.libraries, device.libraries);
}

TEST(BetweenRanks, RefusesOtherText) {
  EXPECT_THROW(results::host_from_json(""), std::runtime_error);
  EXPECT_THROW(results::host_from_json("{\"name\": 1}"), std::runtime_error);
  EXPECT_THROW(results::device_from_json("[]"), std::runtime_error);
}

TEST(BetweenRanks, SurvivesBytesThatAreNotText) {
  HostInfo host;
  host.cpu = "odd \xff name";
  EXPECT_NO_THROW(results::host_from_json(to_json_line(host)));
}

}  // namespace
}  // namespace tw
