// Which rank sits on which node, as arithmetic on what MPI_Comm_split_type told.
#pragma once

#include <vector>

namespace tw::comm {

struct NodePlace {
  int local_rank = 0, local_size = 1;
  int node = 0, nodes = 1;  ///< nodes count in the order of their lowest rank
};

/// `leader_of[r]` is the lowest rank on the node of rank r. Throws std::invalid_argument if a leader is not its own.
NodePlace place_on_node(const std::vector<int>& leader_of, int rank);

}  // namespace tw::comm
