#include "comm/launch.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tw {

using namespace comm;

namespace {

using Variables = std::map<std::string, std::string>;

/// What read_launch() makes of these variables, without those that this process was started with.
Launch launch_of(const Variables& variables) {
  Variables before;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "PMIX_NAMESPACE",
                           "MPI_LOCALRANKID",
                           "MPI_LOCALNRANKS",
                           "PMI_RANK",
                           "PMI_SIZE",
                           "PALS_LOCAL_RANKID",
                           "PALS_APID",
                           "PALS_RANKID",
                           "PALS_LOCAL_SIZE",
                           "SLURM_JOB_ID",
                           "SLURM_STEP_ID",
                           "SLURM_PROCID",
                           "SLURM_LOCALID",
                           "SLURM_NODEID",
                           "SLURM_NTASKS",
                           "SLURM_STEP_NUM_TASKS",
                           "SLURM_STEP_TASKS_PER_NODE"}) {
    if (const char* value = std::getenv(name)) before[name] = value;
    unsetenv(name);
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  Launch launch = read_launch();
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
  for (const auto& [name, value] : before) setenv(name.c_str(), value.c_str(), 1);
  return launch;
}

Variables operator+(Variables a, const Variables& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const Variables open_mpi = {{"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "1234"}};
const Variables hydra = {{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables step = {{"SLURM_JOB_ID", "7"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_PROCID", "5"},
                        {"SLURM_STEP_NUM_TASKS", "6"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "2"},
                        {"SLURM_STEP_TASKS_PER_NODE", "1(x2),4"}};
const Variables pals = {
    {"PALS_APID", "a-1"}, {"PALS_RANKID", "1"}, {"PALS_LOCAL_RANKID", "1"}, {"PALS_LOCAL_SIZE", "2"}};

TEST(Launch, IsReadOfEachLauncher) {
  const Launch alone = launch_of({});
  EXPECT_EQ(alone.launcher, "none");
  EXPECT_EQ(alone.marker, "");
  EXPECT_EQ(alone.ranks, 0);
  struct Case {
    Variables variables;
    std::string launcher, job;
    int rank, ranks, local_rank, local_ranks;
  };
  for (const Case& c : {Case{open_mpi, "mpirun", "1234", 1, 2, 1, 2}, Case{hydra, "mpirun", "", 3, 4, 1, 2},
                        Case{step, "srun", "7.0", 5, 6, 1, 4}, Case{pals, "mpirun", "a-1", 1, 0, 1, 2}}) {
    const Launch launch = launch_of(c.variables);
    SCOPED_TRACE(launch.marker);
    EXPECT_EQ(launch.launcher, c.launcher);
    EXPECT_EQ(launch.job, c.job);
    EXPECT_EQ(launch.rank, c.rank);
    EXPECT_EQ(launch.ranks, c.ranks);
    EXPECT_EQ(launch.local_rank, c.local_rank);
    EXPECT_EQ(launch.local_ranks, c.local_ranks);
    EXPECT_EQ(c.variables.count(launch.marker), 1u);
  }
  const Launch unknown = launch_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}});
  EXPECT_EQ(unknown.launcher, "unknown");
  EXPECT_FALSE(unknown.local_rank);
  EXPECT_EQ(launch_of({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}).launcher, "none");
}

TEST(Launch, TheInnerLauncherCounts) {
  EXPECT_EQ(launch_of(open_mpi + hydra + step).ranks, 2);
  EXPECT_EQ(launch_of(hydra + step).ranks, 4);
  EXPECT_EQ(launch_of(step + pals).ranks, 6);
}

TEST(Launch, MoreProcessesThanMpiConnectsIsAMismatch) {
  struct Case {
    Variables variables;
    int size, local_size;
    std::string said;  ///< the variable and its number; empty: nothing is wrong
  };
  const Variables batch = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  const Variables one_task = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  const Variables one_rank = {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}};
  const std::vector<Case> cases = {
      {{}, 1, 1, ""},
      {open_mpi, 2, 2, ""},
      {open_mpi, 1, 1, "OMPI_COMM_WORLD_SIZE=2"},  // of another installation
      {hydra, 4, 2, ""},
      {hydra, 1, 1, "PMI_SIZE=4"},
      {step, 6, 4, ""},
      {step, 1, 1, "SLURM_STEP_NUM_TASKS=6"},  // srun without PMIx
      {pals, 2, 2, ""},
      {pals, 1, 1, "PALS_LOCAL_SIZE=2"},
      {{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, 1, 1, "PMI_SIZE=2"},
      {{{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}}, 1, 1, "MPI_LOCALNRANKS=2"},
      {batch, 1, 1, ""},                // in a batch script, without a launcher
      {batch + open_mpi, 2, 2, ""},     // mpirun in one
      {one_task, 1, 1, ""},             // srun of one task, as of an interactive shell
      {one_task + open_mpi, 2, 2, ""},  // mpirun in one
      {one_task + hydra, 1, 1, "PMI_SIZE=4"},
      {step + open_mpi, 2, 2, ""},  // an mpirun whose daemons srun has started
      {step + one_rank, 1, 1, ""},  // srun -n 6 mpirun -np 1
      {hydra + one_rank, 1, 1, ""},
      {hydra, 8, 4, ""},  // programs joined on one command line
  };
  for (const Case& c : cases) {
    const std::string said = launcher_mismatch(launch_of(c.variables), c.size, c.local_size);
    SCOPED_TRACE("size " + std::to_string(c.size) + ": " + said);
    EXPECT_EQ(said.empty(), c.said.empty());
    EXPECT_NE(said.find(c.said), std::string::npos);
    EXPECT_NE(said.find(c.said.empty() ? "" : "connects " + std::to_string(c.size)), std::string::npos);
  }
}

}  // namespace
}  // namespace tw
