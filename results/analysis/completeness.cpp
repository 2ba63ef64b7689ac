#include "results/analysis/completeness.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "results/record/known_texts.hpp"
#include "results/record/report_io.hpp"

namespace tw::results {

using Json = nlohmann::json;

Json read_plan(const std::string& canonical_json) {
  if (!json_fault(canonical_json).empty()) return {};
  Json plan = Json::parse(canonical_json);
  if (!plan.is_object() || !plan.contains("points") || !plan["points"].is_array()) return {};
  for (const Json& point : plan["points"])
    if (!point.is_object() || !point.contains("id") || !point["id"].is_string()) return {};
  return plan;
}

std::vector<std::string> missing_points(const Report& report) {
  std::set<std::string> ids;
  for (const Record& record : report.records) ids.insert(record.id);
  std::vector<std::string> missing;
  if (report.search) return missing;  // it chose what to measure
  if (const Json plan = read_plan(report.plan.canonical_json); !plan.is_null())
    for (const Json& point : plan["points"])
      if (const std::string id = point["id"]; !ids.contains(id)) missing.push_back(id);
  return missing;
}

bool was_interrupted(const Context& context) {
  return std::any_of(context.warnings.begin(), context.warnings.end(),
                     [](const std::string& warning) { return interrupted.begins(warning); });
}

}  // namespace tw::results
