#include "results/analysis/scopes.hpp"

#include <algorithm>
#include <set>

namespace tw::results {

std::vector<Scope> telling_scopes(const std::string& device, const std::vector<std::string>& settings) {
  std::set<Scope> drawn;
  if (device == "cuda") drawn.insert(Scope::device);
  if (device == "cpu" || device == "reference") drawn.insert(Scope::package);
  for (const std::string& name : settings) drawn.insert(name.starts_with("gpu_") ? Scope::device : Scope::package);
  if (drawn.empty()) return {Scope::node, Scope::device, Scope::package};
  if (drawn.size() > 1) return {Scope::node};
  return {Scope::node, *drawn.begin()};
}

std::vector<Scope> telling_scopes(const Record& record) {
  std::vector<std::string> settings;
  for (const auto& [name, setting] : record.setting)
    if (setting.requested) settings.push_back(name);
  return telling_scopes(record.workload.device, settings);
}

std::vector<Scope> telling_scopes(const std::vector<const Record*>& records) {
  std::vector<Scope> common = {Scope::node, Scope::device, Scope::package};
  for (const Record* record : records) {
    const std::vector<Scope> of_one = telling_scopes(*record);
    std::erase_if(common, [&](Scope scope) { return std::ranges::find(of_one, scope) == of_one.end(); });
  }
  return common;
}

}  // namespace tw::results
