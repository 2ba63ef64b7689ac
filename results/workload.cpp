#include <string>

#include "results/report_io.hpp"

namespace tw {

std::string workload_hash(const Workload& w) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  return sha256_hex("workload-1|" + w.model + "|" + number(w.layers.value_or(-1)) + "|" + number(w.seq_len.value_or(0)) +
                    "|" + w.optimizer + "|" + number(w.parameters));
}

}  // namespace tw
