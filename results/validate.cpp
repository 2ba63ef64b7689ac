// The schema, and what a schema cannot say. The only unit that includes valijson.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "results/report_io.hpp"
#include "results/verdict.hpp"

namespace tw {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

/// "<root>", "[records]", "[0]" → "/records/0"
std::string pointer(const std::vector<std::string>& context) {
  std::string path;
  for (std::size_t i = 1; i < context.size(); ++i) path += "/" + context[i].substr(1, context[i].size() - 2);
  return path;
}

std::vector<std::string> schema_violations(const Json& document) {
  valijson::Schema schema;
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  const Json schema_json = Json::parse(report_schema_json);
  parser.populateSchema(Adapter(schema_json), schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, Adapter(document), &results)) return {};

  // A failure deep inside is reported once more at each level above it: keep the innermost.
  std::set<std::vector<std::string>> failing;
  for (const auto& error : results) failing.insert(error.context);
  std::vector<std::string> lines;
  for (const auto& error : results) {
    const auto next = failing.upper_bound(error.context);
    const bool has_inner = next != failing.end() && next->size() > error.context.size() &&
                           std::equal(error.context.begin(), error.context.end(), next->begin());
    const std::string& what = error.description;
    const bool echo = what.starts_with("Failed to validate against") || what.starts_with("Failed to validate item");
    if (has_inner && echo) continue;
    const std::string line = (error.context.size() > 1 ? pointer(error.context) : "/") + ": " + what;
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

/// Collects the invariants that one report breaks.
class Invariants {
 public:
  explicit Invariants(const Json& document) : document_(document) {}

  std::vector<std::string> check(const Report& report) {
    const Json& plan = document_["plan"];
    if (plan["sha256"] != sha256_hex(report.plan.canonical_json))
      broken("/plan/sha256", "is not the SHA-256 of canonical_json");
    if (!Json::accept(report.plan.canonical_json)) broken("/plan/canonical_json", "is not JSON text");
    if (!report.context.finished_at.empty() &&
        report.context.finished_at.substr(0, 19) < report.context.started_at.substr(0, 19))
      broken("/context/finished_at", "lies before started_at");
    std::set<std::string> ids;
    for (std::size_t i = 0; i < report.records.size(); ++i) {
      const std::string at = "/records/" + std::to_string(i);
      if (!ids.insert(report.records[i].id).second) broken(at + "/id", "\"" + report.records[i].id + "\" occurs twice");
      check_record(report.records[i], document_["records"][i], at);
    }
    return std::move(lines_);
  }

 private:
  void broken(const std::string& where, const std::string& what) { lines_.push_back(where + ": " + what); }

  void check_record(const Record& record, const Json& json, const std::string& at) {
    const Workload& w = record.workload;
    if (w.global_batch != w.micro_batch * w.accumulate * w.ranks)
      broken(at + "/workload/global_batch", "is not micro_batch x accumulate x ranks");
    const bool ran = record.verdict.status == "valid" || record.verdict.status == "invalid";
    if (record.verdict.status == "valid" && record.trials.empty()) broken(at + "/trials", "a valid record has none");
    if (ran && w.hash.empty()) broken(at + "/workload/hash", "is empty though the point ran");
    for (std::size_t t = 0; t < record.trials.size(); ++t)
      check_trial(record.trials[t], at + "/trials/" + std::to_string(t));

    const Summary& s = record.summary;
    if (s.of_ceiling && s.flops_per_s && s.ceiling_flops_per_s)
      if (!close(*s.of_ceiling, s.flops_per_s->value / *s.ceiling_flops_per_s))
        broken(at + "/summary/of_ceiling", "is not flops_per_s / ceiling_flops_per_s");
    if (!s.of_ceiling && s.of_ceiling_reason.empty())
      broken(at + "/summary/of_ceiling", "is null without of_ceiling_reason");
    if (!s.mfu && s.mfu_reason.empty()) broken(at + "/summary/mfu", "is null without mfu_reason");
    bool absent = s.energy_j.empty();
    for (const auto& [scope, energy] : s.energy_j) absent = absent || !energy;
    if (absent && s.energy_reason.empty()) broken(at + "/summary/energy_j", "is null without energy_reason");
    if ((s.flops_per_s || s.mfu) && s.flops_rule.empty())
      broken(at + "/summary/flops_rule", "is empty beside a FLOP rate");

    // Everything else that follows from the samples must be what the samples say.
    Record again = record;
    summarise(again);
    const Json computed = Json::parse(to_json_line(again));
    compare(json["summary"], computed["summary"], at + "/summary");
    compare(json["verdict"], computed["verdict"], at + "/verdict");
  }

  void check_trial(const Trial& trial, const std::string& at) {
    const std::size_t steps = trial.step_time_s.size();
    if (trial.loss.size() != steps) broken(at + "/loss", length("step_time_s", trial.loss.size(), steps));
    if (trial.gradient_norm.size() != steps)
      broken(at + "/gradient_norm", length("step_time_s", trial.gradient_norm.size(), steps));
    for (double t : trial.step_time_s)
      if (t > trial.window_s * 1.001) {
        broken(at + "/window_s", "is shorter than a step inside it");
        break;
      }
    std::set<std::pair<std::string, std::string>> sensors;
    for (std::size_t e = 0; e < trial.energy.size(); ++e) {
      const EnergyRow& row = trial.energy[e];
      const std::string place = at + "/energy/" + std::to_string(e);
      if (row.energy_j && row.counted && !row.reason.empty() && row.reason != "implausible")
        broken(place + "/reason", "a counted row with joules has one");
      if (row.energy_j && !sensors.insert({row.host, row.domain}).second)
        broken(place + "/domain", "occurs twice on this host");
    }
  }

  static std::string length(const char* other, std::size_t found, std::size_t expected) {
    return "has " + std::to_string(found) + " values, " + other + " has " + std::to_string(expected);
  }
  /// Summation order and text rounding, nothing more.
  static bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

  void compare(const Json& found, const Json& computed, const std::string& at) {
    if (found.is_number() && computed.is_number()) {
      if (!close(found.get<double>(), computed.get<double>()))
        broken(at, "is " + found.dump() + ", the samples give " + computed.dump());
    } else if (found.is_object() && computed.is_object()) {
      for (const auto& [key, value] : computed.items())
        compare(found.contains(key) ? found[key] : Json(), value, at + "/" + key);
      for (const auto& [key, value] : found.items())
        if (!computed.contains(key)) compare(value, Json(), at + "/" + key);
    } else if (found != computed) {
      broken(at, "is " + found.dump() + ", the samples give " + computed.dump());
    }
  }

  const Json& document_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> validate_report(const std::string& text) {
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || document.value("schema_version", Json()) != schema_version) {
    try {
      report_from_json(text);  // says best what is wrong with the text as a whole
    } catch (const std::exception& error) {
      return {error.what()};
    }
  }
  std::vector<std::string> violations = schema_violations(document);
  if (!violations.empty()) return violations;
  try {
    return Invariants(document).check(report_from_json(text));
  } catch (const std::exception& error) {
    return {error.what()};  // what the types cannot hold, such as an integer out of range
  }
}

}  // namespace tw
