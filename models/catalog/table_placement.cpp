#include "models/catalog/table_placement.hpp"

#include <algorithm>
#include <numeric>

namespace tw::models {

std::int64_t TablePlacement::most_rows(const std::vector<std::int64_t>& rows) const {
  std::int64_t most = 0;
  for (const std::vector<int>& tables : of_rank) {
    std::int64_t sum = 0;
    for (const int table : tables) sum += rows[static_cast<std::size_t>(table)];
    most = std::max(most, sum);
  }
  return most;
}

TablePlacement place_tables(const std::vector<std::int64_t>& rows, int ranks) {
  TablePlacement placement;
  const auto tables = static_cast<std::int64_t>(rows.size());
  placement.slots = (tables + ranks - 1) / ranks;
  placement.of_rank.resize(static_cast<std::size_t>(ranks));
  std::vector<std::int64_t> held(static_cast<std::size_t>(ranks), 0);
  std::vector<int> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int a, int b) { return rows[static_cast<std::size_t>(a)] > rows[static_cast<std::size_t>(b)]; });
  for (const int table : order) {
    std::size_t best = held.size();
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      if (static_cast<std::int64_t>(placement.of_rank[rank].size()) == placement.slots) continue;
      if (best == held.size() || held[rank] < held[best]) best = rank;
    }
    placement.of_rank[best].push_back(table);
    held[best] += rows[static_cast<std::size_t>(table)];
  }
  placement.places.resize(rows.size());
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    std::ranges::sort(placement.of_rank[rank]);
    for (std::size_t slot = 0; slot < placement.of_rank[rank].size(); ++slot)
      placement.places[static_cast<std::size_t>(placement.of_rank[rank][slot])] =
          static_cast<int>(static_cast<std::int64_t>(rank) * placement.slots + static_cast<std::int64_t>(slot));
  }
  return placement;
}

}  // namespace tw::models
