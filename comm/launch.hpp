// What a launcher (mpirun, srun, …) has told this process about its launch, as the environment has it, and which rank
// sits on which node. Free of MPI: programs without it read it, too.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tw::comm {

/// Where this process is among those that were started with it. Numbers are 0 where the launcher does not say them.
struct Launch {
  std::string launcher = "none";  ///< "mpirun" (of any MPI), "srun", "unknown", "none"
  std::string job;                ///< the launch's own name, where it has one
  std::string marker;             ///< a variable that each process of the launch has; empty: started alone
  int rank = 0;
  int ranks = 0;
  std::string ranks_from;         ///< the variable that says `ranks`: "PMI_SIZE"
  std::optional<int> local_rank;  ///< among the launch's processes of this node
  int local_ranks = 0;
  std::string local_ranks_from;
};

/// Reads it from the environment as it was before MPI_Init, which adds to it. Where two launchers have left variables
/// the inner one counts: Open MPI's mpirun, and Hydra (MPICH, Intel MPI), start their daemons by srun in a Slurm job,
/// so that Slurm's variables are the daemons'.
Launch read_launch();

/// "mpirun has started 2 processes (PMI_SIZE=2), but MPI connects 1 rank", where the launcher has started more
/// processes than MPI connects: each of them would measure a run of its own, beside the others. `size` and `local_size`
/// are MPI's. Empty if they agree, where the launcher does not say, and where MPI connects more (programs joined on
/// one command line).
std::string launcher_mismatch(const Launch& launch, int size, int local_size);

/// Of a rank among all ranks of the job.
struct NodePlace {
  int local_rank = 0, local_size = 1;
  int node = 0, nodes = 1;  ///< nodes count in the order of their lowest rank
};

/// `leader_of[r]` is the lowest rank on the node of rank r, as MPI_Comm_split_type told. Throws std::invalid_argument
/// if a leader is not its own.
NodePlace place_on_node(const std::vector<int>& leader_of, int rank);

}  // namespace tw::comm
