// Which rank holds which table: whole tables, as in Naumov et al., arXiv 1906.00091, §3.
#pragma once

#include <cstdint>
#include <vector>

namespace tw::models {

/// Each rank has equally many slots, so that one all_to_all moves all bags; the last ones may be empty.
struct TablePlacement {
  std::int64_t slots = 0;
  std::vector<std::vector<int>> of_rank;  ///< the tables of each rank, ascending: slot s holds the s-th
  std::vector<int> places;                ///< of each table: rank · slots + slot
  /// Rows of the rank that has the most.
  std::int64_t most_rows(const std::vector<std::int64_t>& rows) const;
};

/// The longest table first, each to the rank with the fewest rows among those with a free slot (the first of equals).
TablePlacement place_tables(const std::vector<std::int64_t>& rows, int ranks);

}  // namespace tw::models
