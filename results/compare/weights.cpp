#include "results/compare/weights.hpp"

#include <algorithm>
#include <cmath>

namespace tw::results {

double weight_of(const std::string& id, const std::map<std::string, double>& weights) {
  if (weights.empty()) return 1;
  const std::string* best = nullptr;
  for (const auto& [text, weight] : weights)
    if (id.find(text) != std::string::npos && (best == nullptr || text.size() > best->size())) best = &text;
  return best == nullptr ? 0 : weights.at(*best);
}

void check_weights(const std::map<std::string, double>& weights, const std::vector<ComparedWorkload>& workloads) {
  for (const auto& [text, weight] : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      throw OptionError("bad-value", "--weights: the weight of " + text + " must be a number, at least 0");
    if (std::ranges::none_of(workloads,
                             [&](const ComparedWorkload& w) { return w.id.find(text) != std::string::npos; }))
      throw OptionError("no-match", "--weights: no point that is compared has the text \"" + text + "\" in its id");
  }
}

}  // namespace tw::results
