// `trainwatt models NETWORK --on DEVICE`: the least time of each operator of a training step on a device of the list of
// vendor peaks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/catalog/description.hpp"

namespace tw::bench::tool {

struct LedgerRequest {
  models::NetworkDescription network;
  std::optional<int> layers{};                       ///< as the network was cut
  std::optional<std::int64_t> table_rows_at_most{};  ///< likewise
  std::vector<std::string> precisions;               ///< names of --precision; each has a table
  long long micro_batch = 1, seq_len = 0, accumulate = 1;
  std::string device;   ///< a name of the list, or a word that only one of them has: "h200"
  std::string against;  ///< a report with profiles of this very step; empty: none
  bool json = false;
};

/// " of 1024 tokens"; empty where samples have no length.
std::string of_length(const models::NetworkDescription& network, std::int64_t seq_len);

/// The row of that name, or the only one with that word, whatever its case. Throws UsageError that names the list.
std::string device_named(const std::string& name);

/// Throws UsageError for a step that the network or the device cannot do, or that no profile of the report is of.
void print_ledger(const LedgerRequest& request);

}  // namespace tw::bench::tool
