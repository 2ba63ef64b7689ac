#include "results/analysis/scopes.hpp"

#include <algorithm>
#include <set>

namespace tw::results {

std::vector<std::string> telling_scopes(const std::string& device, const std::vector<std::string>& settings) {
  std::set<std::string> drawn;
  if (device == "cuda") drawn.insert("device");
  if (device == "cpu" || device == "reference") drawn.insert("package");
  for (const std::string& name : settings) drawn.insert(name.starts_with("gpu_") ? "device" : "package");
  if (drawn.empty()) return {"node", "device", "package"};
  if (drawn.size() > 1) return {"node"};
  return {"node", *drawn.begin()};
}

std::vector<std::string> telling_scopes(const Record& record) {
  std::vector<std::string> settings;
  for (const auto& [name, setting] : record.setting)
    if (setting.requested) settings.push_back(name);
  return telling_scopes(record.workload.device, settings);
}

std::vector<std::string> telling_scopes(const std::vector<const Record*>& records) {
  std::vector<std::string> common = {"node", "device", "package"};
  for (const Record* record : records) {
    const std::vector<std::string> of_one = telling_scopes(*record);
    std::erase_if(common, [&](const std::string& scope) { return std::ranges::find(of_one, scope) == of_one.end(); });
  }
  return common;
}

}  // namespace tw::results
