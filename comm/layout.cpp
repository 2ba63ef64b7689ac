#include "comm/layout.hpp"

#include <stdexcept>

namespace tw::comm {

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
