#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <regex>
#include <string>
#include <thread>

#include "comm/launch.hpp"
#include "models/compute/error.hpp"
#include "tests/comm/support.hpp"

namespace tw {

using namespace comm;
using namespace models;

namespace {

TEST(Job, KnowsItsPlace) {
  Job& job = test_job();
  const char* expected = std::getenv("TW_TEST_RANKS");
  ASSERT_NE(expected, nullptr) << "the test list says how many ranks were started";
  EXPECT_EQ(job.size(), std::atoi(expected));
  EXPECT_EQ(job.launcher(), std::getenv("TW_TEST_LAUNCHER"));
  EXPECT_EQ(job.nodes(), 1);
  EXPECT_EQ(job.node(), 0);
  EXPECT_EQ(job.local_size(), job.size());
  EXPECT_EQ(job.local_rank(), job.rank());
  EXPECT_EQ(job.is_root(), job.rank() == 0);
  EXPECT_EQ(job.is_node_leader(), job.rank() == 0);
  EXPECT_FALSE(job.host().empty());
  const std::regex name_and_version("(Open MPI|MPICH|MVAPICH2?|Intel\\(R\\) MPI Library) [0-9][^\\t\\n]*");
  EXPECT_TRUE(std::regex_match(job.library(), name_and_version)) << job.library();
}

TEST(Job, RefusesASecondOne) { EXPECT_THROW(Job(nullptr, nullptr), Error); }

TEST(Job, GathersTextsOfUnequalLength) {
  Job& job = test_job();
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank % 2 == 0 ? 3 * rank : 0), static_cast<char>('a' + rank));
  };
  const std::vector<std::string> all = job.gather(text_of(job.rank()));
  ASSERT_EQ(static_cast<int>(all.size()), job.size());
  for (int r = 0; r < job.size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], text_of(r));
}

TEST(Job, GathersZeroBytes) {
  Job& job = test_job();
  const std::vector<std::string> all = job.gather(std::string("a\0b", 3));
  for (const std::string& one : all) EXPECT_EQ(one, std::string("a\0b", 3));
}

TEST(Job, BroadcastsFromAnyRoot) {
  Job& job = test_job();
  for (int root = 0; root < job.size(); ++root)
    EXPECT_EQ(job.broadcast("from " + std::to_string(job.rank()), root), "from " + std::to_string(root));
  EXPECT_EQ(job.broadcast("", 0), "");
}

TEST(Job, SumsAndMaximaAreElementWise) {
  Job& job = test_job();
  const double n = job.size(), r = job.rank();
  EXPECT_EQ(job.sum({r, 1, -r}), (std::vector<double>{n * (n - 1) / 2, n, -n * (n - 1) / 2}));
  EXPECT_EQ(job.maximum({r, 1, -r}), (std::vector<double>{n - 1, 1, 0}));
  EXPECT_TRUE(job.sum({}).empty());
}

TEST(Job, AgreesOnTheFirstFailure) {
  Job& job = test_job();
  EXPECT_EQ(job.agree(""), "");
  // All but rank 0 fail, each with its own text; the lowest failing one is told to everybody.
  const std::string agreed = job.agree(job.rank() == 0 ? "" : "no room on " + std::to_string(job.rank()));
  if (job.size() == 1)
    EXPECT_EQ(agreed, "");
  else
    EXPECT_EQ(agreed, "rank 1 (" + job.host() + "): no room on 1");
  EXPECT_EQ(job.agree("all"), "rank 0 (" + job.gather(job.host())[0] + "): all");
}

TEST(Job, ItsFirstRanksAreAJobOfTheirOwn) {
  Job& job = test_job();
  for (int ranks = 1; ranks <= job.size(); ++ranks) {
    const std::unique_ptr<Job> part = job.first(ranks);
    ASSERT_EQ(part != nullptr, job.rank() < ranks);
    if (part) {
      EXPECT_EQ(part->size(), ranks);
      EXPECT_EQ(part->rank(), job.rank());
      EXPECT_EQ(part->local_size(), ranks);
      EXPECT_EQ(part->host(), job.host());
      EXPECT_EQ(part->launcher(), job.launcher());
      EXPECT_EQ(part->sum({1}), std::vector<double>{static_cast<double>(ranks)});
    }
    job.meet();
  }
  EXPECT_THROW(job.first(0), Error);
  EXPECT_THROW(job.first(job.size() + 1), Error);
}

TEST(Job, RanksThatMeetSleepUntilTheLastOneComes) {
  Job& job = test_job();
  job.barrier();
  const std::clock_t before = std::clock();
  const auto start = std::chrono::steady_clock::now();
  if (job.rank() == job.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  job.meet();
  const double cpu_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  EXPECT_LT(cpu_seconds, std::max(0.1, waited.count() / 5)) << "one that spins takes all of it";
  // All have been here: what the last one says now is heard by everybody.
  EXPECT_EQ(job.sum({1}), std::vector<double>{static_cast<double>(job.size())});
}

TEST(Layout, CountsNodesByTheirLowestRank) {
  // Six ranks on three nodes, dealt out in turns, the last node with one rank: 0 1 0 1 4 0.
  const std::vector<int> leader_of = {0, 1, 0, 1, 4, 0};
  const int node[] = {0, 1, 0, 1, 2, 0}, local[] = {0, 0, 1, 1, 0, 2}, sizes[] = {3, 2, 3, 2, 1, 3};
  for (int rank = 0; rank < 6; ++rank) {
    const NodePlace place = place_on_node(leader_of, rank);
    EXPECT_EQ(place.node, node[rank]);
    EXPECT_EQ(place.local_rank, local[rank]);
    EXPECT_EQ(place.local_size, sizes[rank]);
    EXPECT_EQ(place.nodes, 3);
  }
}

TEST(Layout, RefusesWhatCannotBe) {
  EXPECT_THROW(place_on_node({0, 0}, 2), std::invalid_argument);
  EXPECT_THROW(place_on_node({0, 0, 1}, 0), std::invalid_argument);  // rank 1 leads nobody, not even itself
  EXPECT_THROW(place_on_node({1, 1}, 0), std::invalid_argument);     // a leader is the lowest
  EXPECT_THROW(place_on_node({-1}, 0), std::invalid_argument);
}

}  // namespace
}  // namespace tw
