#include "comm/launch.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace tw::comm {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

int number(const char* name) { return std::max(0, std::atoi(variable(name).c_str())); }

/// The tasks of this node in Slurm's list: "2(x3),1" with SLURM_NODEID 3 is 1; 0 if it is not known.
int slurm_local_tasks() {
  const std::string list = variable("SLURM_STEP_TASKS_PER_NODE"), node = variable("SLURM_NODEID");
  int left = std::atoi(node.c_str());
  for (std::size_t at = 0; at < list.size();) {
    const int tasks = std::atoi(list.c_str() + at);
    const std::size_t comma = std::min(list.find(',', at), list.size()), times = list.find("(x", at);
    const int nodes = times < comma ? std::atoi(list.c_str() + times + 2) : 1;
    if (left < nodes) return tasks;
    left -= nodes;
    at = comma + 1;
  }
  return 0;
}

}  // namespace

Launch read_launch() {
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr && *std::getenv(name) != '\0'; };
  Launch launch;
  const auto take = [&](const char* launcher, const char* marker, const char* rank, const char* ranks,
                        const char* local_rank, const char* local_ranks) {
    launch.launcher = launcher, launch.marker = marker;
    launch.rank = number(rank);
    launch.ranks = number(ranks), launch.ranks_from = ranks;
    if (*local_rank) launch.local_rank = number(local_rank);
    launch.local_ranks = number(local_ranks), launch.local_ranks_from = local_ranks;
  };
  if (is_set("OMPI_COMM_WORLD_SIZE")) {
    take("mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
         "OMPI_COMM_WORLD_LOCAL_SIZE");
    launch.job = variable("PMIX_NAMESPACE");
  } else if (is_set("MPI_LOCALRANKID")) {  // Hydra, the mpirun of MPICH and Intel MPI
    take("mpirun", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  } else if (is_set("SLURM_PROCID") && is_set("SLURM_STEP_ID")) {  // a batch script has no step
    take("srun", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "");
    launch.job = variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID");
    launch.local_ranks = slurm_local_tasks();
    launch.local_ranks_from = "SLURM_STEP_TASKS_PER_NODE";
  } else if (is_set("PALS_LOCAL_RANKID") && is_set("PALS_APID")) {  // HPE Cray's mpiexec
    take("mpirun", "PALS_APID", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE");
    launch.job = variable("PALS_APID");
  } else if (number("PMI_SIZE") > 1) {  // another launcher's, which does not say who else is on this node
    take("unknown", "PMI_RANK", "PMI_RANK", "PMI_SIZE", "", "");
  }
  return launch;
}

std::string launcher_mismatch(const Launch& launch, int size, int local_size) {
  const bool by_node = launch.ranks == 0;
  const int started = by_node ? launch.local_ranks : launch.ranks, connected = by_node ? local_size : size;
  if (started <= connected) return {};
  return (launch.launcher == "unknown" ? "a launcher" : launch.launcher) + " has started " + std::to_string(started) +
         " processes" + (by_node ? " on this node" : "") + " (" +
         (by_node ? launch.local_ranks_from : launch.ranks_from) + "=" + std::to_string(started) +
         "), but MPI connects " + std::to_string(connected) + (connected == 1 ? " rank" : " ranks");
}

NodePlace place_on_node(const std::vector<int>& leader_of, int rank) {
  NodePlace place{0, 0, 0, 0};
  const int ranks = static_cast<int>(leader_of.size());
  if (rank < 0 || rank >= ranks) throw std::invalid_argument("rank " + std::to_string(rank) + " is not in the job");
  const int leader = leader_of[static_cast<std::size_t>(rank)];
  for (int other = 0; other < ranks; ++other) {
    const int its_leader = leader_of[static_cast<std::size_t>(other)];
    if (its_leader < 0 || its_leader > other || leader_of[static_cast<std::size_t>(its_leader)] != its_leader)
      throw std::invalid_argument("rank " + std::to_string(its_leader) + " cannot lead the node of rank " +
                                  std::to_string(other));
    if (its_leader == other) {
      if (other < leader) ++place.node;
      ++place.nodes;
    }
    if (its_leader == leader) {
      if (other < rank) ++place.local_rank;
      ++place.local_size;
    }
  }
  return place;
}

}  // namespace tw::comm
