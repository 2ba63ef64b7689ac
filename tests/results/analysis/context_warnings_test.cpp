// Each warning appears where it must, and only there.
#include <gtest/gtest.h>

#include "results/analysis/context_warnings.hpp"

namespace tw {

using namespace results;

namespace {

HostInfo make_host(const std::string& name, int cores, int threads_per_core = 1) {
  HostInfo host;
  host.name = name;
  host.cpu = "Fast CPU";
  host.cores = cores;
  host.hardware_threads = host.usable_threads = cores * threads_per_core;
  host.memory_bytes = 64ull << 30;
  return host;
}

DeviceEntry make_rank(int rank, const std::string& host, std::vector<int> affinity, int threads) {
  DeviceEntry device;
  device.rank = rank;
  device.host = host;
  device.kind = "cpu";
  device.affinity = std::move(affinity);
  device.threads = threads;
  return device;
}

TEST(NarrowAffinity, OneRankBoundToOneOfTwoCores) {
  const std::vector<HostInfo> hosts = {make_host("a", 2)};
  const std::vector<DeviceEntry> bound = {make_rank(0, "a", {0}, 1)};
  const auto warnings = warn_narrow_affinity(bound, hosts, 0);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].flag, Flag::narrow_affinity);
  EXPECT_NE(warnings[0].text.find("rank 0 on a"), std::string::npos);
  EXPECT_NE(warnings[0].text.find("--bind-to none"), std::string::npos);
  EXPECT_TRUE(warn_narrow_affinity(bound, hosts, 1).empty()) << "one thread was asked for";
  EXPECT_EQ(warn_narrow_affinity(bound, hosts, 2).size(), 1u);
  const auto advice = [&](const char* mpi) { return warn_narrow_affinity(bound, hosts, 0, mpi).at(0).text; };
  EXPECT_NE(advice("Open MPI v4.1.4").find("--map-by slot:PE=2 (srun: --cpus-per-task=2)"), std::string::npos);
  EXPECT_NE(advice("MPICH 4.0.2").find("-bind-to core:2 "), std::string::npos) << "Hydra has no --map-by slot:PE";
  EXPECT_NE(advice("Intel(R) MPI Library 2021.9 for Linux* OS").find("I_MPI_PIN_DOMAIN=2"), std::string::npos);
  const std::vector<DeviceEntry> free = {make_rank(0, "a", {0, 1}, 2)};
  EXPECT_TRUE(warn_narrow_affinity(free, hosts, 0).empty());
}

TEST(NarrowAffinity, SharesOfTheNode) {
  const std::vector<DeviceEntry> ranks = {make_rank(0, "a", {0}, 1), make_rank(1, "a", {1}, 1)};
  const std::vector<HostInfo> two = {make_host("a", 2)}, eight = {make_host("a", 8)};
  EXPECT_TRUE(warn_narrow_affinity(ranks, two, 0).empty()) << "one core each is their share";
  EXPECT_EQ(warn_narrow_affinity(ranks, eight, 0).size(), 1u) << "one line for a host, not for each rank";
}

TEST(NarrowAffinity, WhatTheSchedulerWithheldIsNoFault) {
  HostInfo host = make_host("a", 64);
  host.usable_threads = 4;
  const std::vector<HostInfo> hosts = {host};
  const std::vector<DeviceEntry> ranks = {make_rank(0, "a", {0, 1, 2, 3}, 4)};
  EXPECT_TRUE(warn_narrow_affinity(ranks, hosts, 0).empty());
}

TEST(NarrowAffinity, OneHardwareThreadOfEachCoreIsEnough) {
  const std::vector<HostInfo> hosts = {make_host("a", 2, 2)};
  const std::vector<DeviceEntry> ranks = {make_rank(0, "a", {0, 1}, 2)};
  EXPECT_TRUE(warn_narrow_affinity(ranks, hosts, 0).empty());
}

TEST(NarrowAffinity, ConcernsCpuRanksOnly) {
  std::vector<DeviceEntry> ranks = {make_rank(0, "a", {0}, 1)};
  ranks[0].kind = "cuda";
  const std::vector<HostInfo> hosts = {make_host("a", 64)};
  EXPECT_TRUE(warn_narrow_affinity(ranks, hosts, 0).empty());
}

TEST(Oversubscription, ThreadsAgainstTheUnionOfMasks) {
  const std::vector<HostInfo> hosts = {make_host("a", 2)};
  std::vector<DeviceEntry> ranks = {make_rank(0, "a", {0, 1}, 1), make_rank(1, "a", {0, 1}, 1)};
  EXPECT_TRUE(warn_oversubscription(ranks, hosts).empty());
  ranks[1].threads = 2;
  const auto warnings = warn_oversubscription(ranks, hosts);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].flag, Flag::oversubscribed);
  EXPECT_NE(warnings[0].text.find("2 ranks on a run 3 threads on 2 CPUs"), std::string::npos);
  EXPECT_NE(warnings[0].text.find("use fewer ranks, or --threads 1"), std::string::npos);
  ranks.assign(12, make_rank(0, "a", {0, 1}, 1));
  const auto too_many = warn_oversubscription(ranks, hosts);
  ASSERT_EQ(too_many.size(), 1u);
  EXPECT_EQ(too_many[0].text.find("--threads"), std::string::npos) << "each has one already";
  const std::vector<DeviceEntry> same_core = {make_rank(0, "a", {0}, 1), make_rank(1, "a", {0}, 1)};
  EXPECT_EQ(warn_oversubscription(same_core, hosts).size(), 1u);
  const std::vector<DeviceEntry> two_nodes = {make_rank(0, "a", {0}, 1), make_rank(1, "b", {0}, 1)};
  EXPECT_TRUE(warn_oversubscription(two_nodes, hosts).empty());
}

TEST(Oversubscription, CgroupQuota) {
  std::vector<HostInfo> hosts = {make_host("a", 8)};
  const std::vector<DeviceEntry> ranks = {make_rank(0, "a", {0, 1, 2, 3}, 4)};
  EXPECT_TRUE(warn_oversubscription(ranks, hosts).empty());
  hosts[0].cgroup_cpu_limit = "2.5 CPUs";
  const auto warnings = warn_oversubscription(ranks, hosts);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].text.find("2.5 CPUs"), std::string::npos);
}

TEST(SharedGpus, OneOfAHostIsTakenByOneRank) {
  std::vector<DeviceEntry> ranks = {make_rank(0, "a", {0}, 1), make_rank(1, "a", {0}, 1), make_rank(2, "b", {0}, 1)};
  EXPECT_TRUE(warn_shared_gpus(ranks).empty()) << "CPUs have no UUID";
  ranks[0].uuid = ranks[2].uuid = "GPU-1";  // of two hosts: a name made up twice is no sharing
  ranks[1].uuid = "GPU-2";
  EXPECT_TRUE(warn_shared_gpus(ranks).empty());
  ranks[1].uuid = "GPU-1";
  const auto warnings = warn_shared_gpus(ranks);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].flag, Flag::shared_gpu);
  EXPECT_NE(warnings[0].text.find("2 ranks (0, 1) share GPU-1 on a"), std::string::npos) << warnings[0].text;
}

TEST(UnequalHosts, NamesTheDifference) {
  std::vector<HostInfo> hosts = {make_host("a", 8), make_host("b", 8)};
  hosts[1].memory_bytes -= hosts[1].memory_bytes / 50;  // firmware takes different shares
  EXPECT_TRUE(warn_unequal_hosts(hosts).empty());
  hosts[1].cpu_governor = "powersave";
  ASSERT_EQ(warn_unequal_hosts(hosts).size(), 1u);
  EXPECT_NE(warn_unequal_hosts(hosts)[0].text.find("governor unknown and powersave"), std::string::npos);
  hosts = {make_host("a", 8), make_host("b", 8), make_host("c", 4)};
  ASSERT_EQ(warn_unequal_hosts(hosts).size(), 1u);
  EXPECT_NE(warn_unequal_hosts(hosts)[0].text.find("a and c differ (cores 8 and 4)"), std::string::npos);
}

TEST(StealAndGovernor, Thresholds) {
  std::vector<HostInfo> hosts = {make_host("a", 8)};
  EXPECT_TRUE(warn_steal(hosts).empty());
  EXPECT_TRUE(warn_governor(hosts).empty());
  hosts[0].steal_share_since_boot = 0.01;
  hosts[0].cpu_governor = "performance";
  EXPECT_TRUE(warn_steal(hosts).empty());
  EXPECT_TRUE(warn_governor(hosts).empty());
  hosts[0].steal_share_since_boot = 0.034;
  hosts[0].cpu_governor = "performance,powersave";
  ASSERT_EQ(warn_steal(hosts).size(), 1u);
  EXPECT_NE(warn_steal(hosts)[0].text.find("3.4 %"), std::string::npos);
  EXPECT_EQ(warn_governor(hosts).size(), 1u);
}

TEST(DiskSpace, OnlyWhereItIsKnownToBeShort) {
  EXPECT_TRUE(warn_disk_space(std::nullopt, 1ull << 30, "out").empty());
  EXPECT_TRUE(warn_disk_space(1ull << 30, 1ull << 30, "out").empty());
  const auto warnings = warn_disk_space(1ull << 29, 1ull << 30, "out/r1");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].text.find("for out/r1: 0.5 GiB free"), std::string::npos);
  const auto small = warn_disk_space(12ull << 20, 64ull << 20, "out/r1");
  ASSERT_EQ(small.size(), 1u);
  EXPECT_NE(small[0].text.find("for out/r1: 12.0 MiB free, 64.0 MiB recommended"), std::string::npos) << small[0].text;
}

TEST(DebugBuild, ByItsTypeOrByWhatTheCompilerDid) {
  const auto count = [](const std::string& type) { return warn_debug_build({{"build_type", type}}).size(); };
  EXPECT_EQ(count("Debug"), 1u);
  EXPECT_EQ(count("None, not optimised"), 1u);
  EXPECT_EQ(count("RelWithDebInfo"), 0u);
  EXPECT_EQ(count(""), 0u);
  EXPECT_TRUE(warn_debug_build({}).empty()) << "a metered command's report, or an older one";
}

TEST(ContextWarnings, EveryWarningIsOneLine) {
  std::vector<HostInfo> hosts = {make_host("a", 8), make_host("b", 4)};
  hosts[0].steal_share_since_boot = 0.5;
  hosts[0].cpu_governor = "powersave";
  const std::vector<DeviceEntry> ranks = {make_rank(0, "a", {0}, 2), make_rank(1, "b", {0, 1, 2, 3}, 4)};
  Context context;
  context.hosts = hosts, context.devices = ranks, context.versions["build_type"] = "Release";
  const auto warnings = context_warnings(context, 0);
  std::vector<Flag> flags;
  for (const Warning& warning : warnings) {
    flags.push_back(warning.flag);
    EXPECT_EQ(warning.text.find('\n'), std::string::npos);
  }
  EXPECT_EQ(flags,
            (std::vector{Flag::narrow_affinity, Flag::oversubscribed, Flag::unequal_hosts, Flag::steal, Flag::governor}));
}

}  // namespace
}  // namespace tw
