// Who reads and sets what: one reader for each machine, one hand for each GPU.
#include "bench/train/job/machines.hpp"
#include "bench/train/node/device_choice.hpp"

#include <gtest/gtest.h>

namespace tw {

using namespace bench;
using namespace power;

namespace {

using Names = std::set<std::string>;

TEST(Machines, TheFirstRankReadsWhatTheDriverListsToIt) {
  const std::vector<Sighted> ranks = {{"m", {"a", "b", "c"}, {"a"}}, {"m", {"a", "b", "c"}, {"b"}}};
  const Machines first(ranks, 0), second(ranks, 1);
  EXPECT_TRUE(first.is_reader());
  EXPECT_FALSE(second.is_reader());
  EXPECT_EQ(second.reader(), 0);
  EXPECT_FALSE(second.has_part());
  EXPECT_EQ(first.visible(), (Names{"a", "b"})) << "c is nobody's";
}

TEST(Machines, AGpuOfOneRankAloneIsThatRanks) {
  const std::vector<Sighted> ranks = {{"m", {}, {}}, {"m", {"a"}, {"a"}}, {"m", {"a"}, {"a"}}, {"m", {"b"}, {"b"}}};
  const Machines reader(ranks, 0);
  EXPECT_TRUE(reader.only_here().empty());
  EXPECT_EQ(Machines(ranks, 1).only_here(), Names{"a"});
  EXPECT_TRUE(Machines(ranks, 2).only_here().empty()) << "rank 1 has it";
  EXPECT_EQ(Machines(ranks, 3).only_here(), Names{"b"});
  EXPECT_FALSE(Machines(ranks, 2).has_part());
}

TEST(Machines, WhatOneRankCannotTellItsMachineCannot) {
  const std::vector<Sighted> ranks = {{"m", {"a"}, {"a"}}, {"m", {"a"}, {}, "numbers"}, {"n", {"b"}, {"b"}}};
  EXPECT_EQ(Machines(ranks, 0).unclear(), "numbers");
  EXPECT_EQ(Machines(ranks, 2).unclear(), "");
  EXPECT_EQ(Machines(ranks, 2).unclear_anywhere(), "numbers");
}

TEST(Machines, WhoComputesOnAGpuUsesNoOther) {
  const Sight all{{"nvml:GPU-a", "nvml:GPU-b"}, {"nvml:GPU-a", "nvml:GPU-b"}, "numbers"};
  const Sight used = used_of(all, "GPU-b");
  EXPECT_EQ(used.visible, std::vector<std::string>{"nvml:GPU-b"});
  EXPECT_EQ(used.addressable, all.addressable) << "it may ask the other";
  EXPECT_EQ(used.unclear, "");
  EXPECT_EQ(used_of(all, "").visible, all.visible) << "a CPU's";
  EXPECT_EQ(used_of(all, "GPU-instance").visible, all.visible) << "of a name that is not the meter's";
  EXPECT_EQ(used_of(all, "GPU-instance").unclear, "numbers");
}

TEST(Machines, HostsOfOneNameOnSeveralMachinesAreToldApart) {
  const auto on = [](const char* machine, const char* host) { return Sighted{machine, {}, {}, "", host}; };
  const std::vector<Sighted> ranks = {on("m", "node"), on("m", "node"), on("n", "node"), on("n", "other"),
                                      on("o", "node")};
  std::vector<std::string> hosts;
  for (int rank = 0; rank < 5; ++rank) hosts.push_back(Machines(ranks, rank).host());
  EXPECT_EQ(hosts, (std::vector<std::string>{"node#0", "node#0", "node#1", "other", "node#2"}));
}

TEST(Machines, NodesOfOneMachineShareAReaderAndOtherMachinesHaveTheirOwn) {
  // Two pods of one machine, each with its own GPU, and another machine.
  const std::vector<Sighted> ranks = {{"m", {"a"}, {"a"}}, {"m", {"b"}, {"b"}}, {"n", {"c"}, {"c"}}, {"n", {"c"}, {"c"}}};
  const Machines pod(ranks, 1), other(ranks, 2);
  EXPECT_EQ(pod.reader(), 0);
  EXPECT_EQ(pod.only_here(), Names{"b"});
  EXPECT_EQ(pod.visible(), (Names{"a", "b"}));
  EXPECT_TRUE(other.is_reader());
  EXPECT_TRUE(other.only_here().empty());
  EXPECT_EQ(other.visible(), Names{"c"});
  EXPECT_EQ(other.visible_anywhere(), (Names{"a", "b", "c"}));
}

TEST(DeviceChoice, RanksThatAreShownDifferentGpusTakeTurnsAmongTheirLikes) {
  // Two nodes of two groups with two GPUs each, ranks dealt out in turn: by the place on the node, both of a group
  // would take the same one.
  std::vector<std::string> shown;
  for (const char* node : {"0: ", "1: "})
    for (const char* gpus : {"0,1", "2,3", "0,1", "2,3"}) shown.push_back(std::string(node) + gpus);
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(gpu_index(shown, rank, 2), rank % 4 / 2) << rank;
}

TEST(DeviceChoice, RanksOfANodeTakeItsGpusInTurn) {
  const std::vector<std::string> same(6, "0: all");
  EXPECT_EQ(gpu_index(same, 0, 4), 0);
  EXPECT_EQ(gpu_index(same, 3, 4), 3);
  EXPECT_EQ(gpu_index(same, 5, 4), 1) << "more ranks than GPUs share them";
  EXPECT_EQ(gpu_index(same, 3, 1), 0) << "each task is shown its own";
}

}  // namespace
}  // namespace tw
