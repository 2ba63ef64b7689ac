#include "bench/tool/inputs/suite_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/plan/options/request.hpp"
#include "bench/plan/plan.hpp"
#include "results/analysis/completeness.hpp"
#include "results/record/version.hpp"

namespace tw::bench::tool {
namespace {

using Json = nlohmann::json;

constexpr const char* where = "/plan/canonical_json";

/// What a suite fixes of each point, by its id. Seeds are judged by the run rules, targets by the networks.
std::map<std::string, std::string> points_of(const Json& plan) {
  std::map<std::string, std::string> all;
  for (Json point : plan.at("points")) {
    point.erase("seeds"), point.erase("target");
    all[point.at("id").get<std::string>()] = point.dump();
  }
  return all;
}

/// The first point that only one of them has, or that differs; empty: none.
std::string difference(const std::map<std::string, std::string>& stated,
                       const std::map<std::string, std::string>& own) {
  for (const auto& [id, point] : stated) {
    const auto found = own.find(id);
    if (found == own.end()) return "has the point " + id + ", and the suite has not";
    if (found->second != point) return "has another point " + id + " than the suite";
  }
  for (const auto& [id, point] : own)
    if (!stated.contains(id)) return "lacks the point " + id + " of the suite";
  return {};
}

std::string text_of(const Json& plan, const char* key) {
  const Json value = plan.value(key, Json());
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace

void check_suite(const results::Report& report, results::Validation& found) {
  const Json plan = results::read_plan(report.plan.canonical_json);
  if (plan.is_null() || !plan.contains("device_class")) return;
  const std::string name = text_of(plan, "suite"), device = text_of(plan, "device"),
                    its_class = text_of(plan, "device_class");
  if (its_class != class_of(device)) {
    found.violations.push_back({"plan_differs", where,
                                fmt::format("has the device class \"{}\", and its device \"{}\" is of class {}",
                                            its_class, device, class_of(device))});
    return;
  }
  const std::vector<std::string>& names = suite_names();
  const auto ranks = static_cast<int>(report.context.devices.size());
  if (std::ranges::find(names, name) == names.end() || report.plan.kit || ranks == 0) return;
  std::string differs;
  try {
    const RunPlan own = make_plan(suite_request(name), ranks, device);
    differs = difference(points_of(plan), points_of(Json::parse(own.canonical_json())));
  } catch (const std::exception& error) {
    differs = std::string("cannot be made of it: ") + error.what();
  }
  if (differs.empty()) return;
  const std::string text =
      fmt::format("bears the name of the suite {} for {} on {} ranks, and {}", name, device, ranks, differs);
  const results::Program own = results::program_info("");
  if (report.program.version == own.version && report.program.git_commit == own.git_commit)
    found.violations.push_back({"plan_differs", where, text});
  else
    found.warnings.push_back({"suite_differs", where, text + " in this build; another build wrote the report"});
}

}  // namespace tw::bench::tool
