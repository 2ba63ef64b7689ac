// A comparison and a cost as JSON: units in the key names, null if there is nothing.
#include <cmath>
#include <nlohmann/json.hpp>

#include "results/compare/baseline.hpp"
#include "results/compare/comparison.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/cost/cost.hpp"
#include "results/export/export.hpp"
#include "results/record/fields.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
template <class T>
Json number(const std::optional<T>& value) {
  return value ? number(static_cast<double>(*value)) : Json();
}
/// Puts members under their own names (TW_FIELDS).
class Put {
 public:
  explicit Put(Json& into) : into_(into) {}
  void operator()(const char* key, double value) { into_[key] = number(value); }
  void operator()(const char* key, const std::optional<double>& value) { into_[key] = number(value); }
  void operator()(const char* key, const Named auto& value) { into_[key] = to_string(value); }
  template <class T>
  void operator()(const char* key, const T& value) {
    into_[key] = value;
  }

 private:
  Json& into_;
};
Json count(const std::optional<int>& value) { return value ? Json(*value) : Json(); }
Json names_of(const std::vector<std::size_t>& systems, const Comparison& c) {
  Json names = Json::array();
  for (const std::size_t s : systems) names.push_back(c.systems[s].name);
  return names;
}
/// Absent rather than empty.
Json words(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json as_json(const std::optional<Estimate>& e) {
  if (!e) return {};
  Json json;
  Put put(json);
  TW_FIELDS(put, *e, value, low, high, statistic, count)
  return json;
}

Json as_json(const PriceRow& p) {
  Json json = {{"name", p.name},
               {"note", words(text::printable(p.note))},
               {"file", words(text::printable(p.file))},
               {"note_of_prices", words(text::printable(p.file_note))},
               {"machine_note", words(text::printable(p.machine_note))}};
  Put put(json);
  TW_FIELDS(put, p, rent_per_month, electricity_included, capex, life_years, maintenance_per_year, fixed_opex_per_year,
            network_storage_capex, network_storage_power_w, utilisation, electricity_per_kwh, pue)
  json["pue_source"] = text::printable(p.pue_source);
  TW_FIELDS(put, p, carbon_g_per_kwh)
  json["for_all_systems"] = p.for_all, json["not_given"] = p.not_given;
  json["doubts"] = Json::array();
  for (const PriceDoubt& doubt : p.doubts) json["doubts"].push_back({{"key", doubt.key}, {"text", doubt.text}});
  return json;
}

Json as_json(const CostReport& report) {
  Json records = Json::array();
  for (const RecordCost& r : report.records) {
    Json figures = Json::object(), sensitivity = Json::array();
    for (const CostFigure& f : r.figures)
      figures[to_string(f.per)] = {{"total", as_json(f.total)},
                                   {"hours_part", number(f.hours_part)},
                                   {"electricity_part", number(f.electricity_part)},
                                   {"energy_kwh", number(f.kwh)},
                                   {"co2_kg", number(f.co2_kg)},
                                   {"reason", words(f.reason)}};
    for (const Sensitivity& s : r.sensitivity) {
      Put put(sensitivity.emplace_back());
      TW_FIELDS(put, s, input, base, low, high, cost_base, cost_low, cost_high)
    }
    records.push_back({{"id", r.id},
                       {"nodes", r.nodes},
                       {"basis", r.reason.empty() ? Json(to_string(r.basis)) : Json()},
                       {"basis_note", words(r.basis_note)},
                       {"energy_scope", words(to_string(r.scope))},
                       {"energy_basis", !r.reason.empty() || r.scope == Scope::none ? Json()
                                        : r.energy_is_whole                         ? Json("complete")
                                                                                    : Json("lower_bound")},
                       {"energy_note", words(r.energy_note)},
                       {"target_note", words(r.target_note)},
                       {"it_power_w", as_json(r.it_power_w)},
                       {"facility_power_w", number(r.facility_power_w)},
                       {"cost_per", std::move(figures)},
                       {"sensitivity_of", r.of ? Json(to_string(*r.of)) : Json()},
                       {"sensitivity", std::move(sensitivity)},
                       {"reason", words(r.reason)}});
  }
  return {{"currency", report.currency},
          {"price", as_json(report.price)},
          {"sensitivity_share", report.sensitivity_share},
          {"records", std::move(records)}};
}

/// What the interval is over; null if there is none. Only one over runs or blocks says anything of the systems.
Json interval_over(const Ratio& r, Replicates replicates) {
  if (!r.low || r.is_range) return {};
  return r.verdict == Claim::single_run ? "trials" : words::noun(replicates);
}

Json as_json(const Ratio& r, Replicates replicates) {
  return {{"verdict", to_string(r.verdict)},
          {"ratio", number(r.value)},
          {"low", number(r.low)},
          {"high", number(r.high)},
          {"is_interval", r.low.has_value() && !r.is_range},
          {"interval_over", interval_over(r, replicates)},
          {"replicates", r.replicates},
          {"detectable_share", number(r.detectable)},
          {"replicates_needed", count(r.needed)},
          {"code", words(r.code)},
          {"reason", words(r.reason)}};
}

Json as_json(const FigureComparison& f, const Comparison& c) {
  Json rows = Json::array(), overall = Json::array(), ranking = Json::array();
  for (const ComparedRow& row : f.rows) {
    Json systems = Json::array();
    for (std::size_t s = 0; s < row.systems.size(); ++s) {
      Json one = {{"system", c.systems[s].name},
                  {"record", words(row.systems[s].record)},
                  {"figure", as_json(row.systems[s].figure)}};
      one.update(as_json(row.systems[s].ratio, c.replicates));
      systems.push_back(std::move(one));
    }
    rows.push_back(
        {{"workload", c.workloads[row.workload].id}, {"weight", number(row.weight)}, {"systems", std::move(systems)}});
  }
  Json left_out = Json::array();
  for (const LeftOutWorkload& one : f.left_out)
    left_out.push_back({{"workload", c.workloads[one.workload].id}, {"unsupported_by", names_of(one.systems, c)}});
  for (std::size_t s = 0; s < f.overall.size(); ++s) {
    Json one = {{"system", c.systems[s].name}};
    one.update(as_json(f.overall[s], c.replicates));
    overall.push_back(std::move(one));
  }
  for (const RankedSystem& one : f.ranking)
    ranking.push_back(
        {{"system", c.systems[one.system].name}, {"rank", one.rank}, {"tied", one.tied}, {"ratio", number(one.ratio)}});
  return {{"figure", f.figure.name},
          {"unit", f.figure.unit},
          {"scope", words(to_string(f.scope))},
          {"note", words(f.note)},
          {"more_is_better", f.figure.more_is_better},
          {"workloads", std::move(rows)},
          {"overall", std::move(overall)},
          {"overall_reason", words(f.overall_reason)},
          {"left_out", std::move(left_out)},
          {"ranking", std::move(ranking)},
          {"ranking_note", words(words::ranking_note(f))}};
}

Json as_json(const Comparison& c) {
  Json json = {{"comparison_version", "1.0"},
               {"reference", c.systems[c.reference].name},
               {"replicates", to_string(c.replicates)},
               {"replicates_note", c.replicates_note},
               {"decided", c.decided()},
               {"names_one", c.names_one()},
               {"is_tender", c.is_tender},
               {"answer", c.answer},
               {"next_step", {{"code", c.next_step.code}, {"text", c.next_step.text}}},
               {"rests_on", c.rests_on}};
  json["not_an_award"] = Json::array();
  for (const AwardObstacle& one : c.not_an_award)
    json["not_an_award"].push_back({{"system", c.systems[one.system].name}, {"code", one.code}, {"text", one.text}});
  json["run_variance"] = Json::array();
  for (const LearnedSpread& one : c.learned)
    json["run_variance"].push_back({{"files", one.paths}, {"systems", names_of(one.systems, c)}});
  for (const char* list : {"systems", "workloads", "differences", "figures", "break_even"}) json[list] = Json::array();
  for (const ComparedSystem& s : c.systems) {
    Json& one = json["systems"].emplace_back(Json{{"name", s.name}, {"files", s.paths}});
    Put put(one);
    TW_FIELDS(put, s, hosts, devices, program, suite, plan_sha256, started_at, records, valid)
    one["run_rules_broken"] = s.broken_rules, one["cost"] = s.cost ? as_json(*s.cost) : Json();
  }
  for (const ComparedWorkload& w : c.workloads) {
    Put put(json["workloads"].emplace_back());
    TW_FIELDS(put, w, id, model, precision, global_batch, to_target, records)
  }
  for (const Difference& d : c.differences) {
    Json workloads = Json::array();
    for (const std::size_t w : d.workloads) workloads.push_back(c.workloads[w].id);
    json["differences"].push_back({{"what", d.what},
                                   {"system", c.systems[d.system].name},
                                   {"reference_value", d.reference_value},
                                   {"system_value", d.system_value},
                                   {"blocking", d.blocking},
                                   {"why", words(d.why)},
                                   {"workloads", d.workloads.empty() ? Json("all") : workloads},
                                   {"figures", d.figures.empty() ? Json("all") : Json(d.figures)}});
  }
  for (const FigureComparison& f : c.figures) json["figures"].push_back(as_json(f, c));
  for (const WorkloadBreakEven& one : c.break_even) {
    const auto add = [&](const BreakEven& b, const std::string& reason) {
      Json ranges = Json::array();
      for (const CheaperRange& range : b.ranges)
        ranges.push_back({{"cheaper", words(range.cheaper)}, {"from", range.from}, {"to", range.to}});
      json["break_even"].push_back({{"workload", c.workloads[one.workload].id},
                                    {"system", c.systems[one.system].name},
                                    {"input", words(b.input)},
                                    {"price_of", words(b.whose)},
                                    {"at", number(b.at)},
                                    {"ranges", ranges},
                                    {"text", words(b.text)},
                                    {"reason", words(reason)}});
    };
    for (const BreakEven& b : one.inputs) add(b, "");
    if (!one.reason.empty()) add({}, one.reason);
  }
  return json;
}

Json as_json(const std::vector<RuleCheck>& checks, const Comparison& c) {
  Json all = Json::array();
  for (const RuleCheck& check : checks)
    all.push_back({{"rule", check.rule},
                   {"system", c.systems[check.system].name},
                   {"workload", words(check.point)},
                   {"status", to_string(check.status)},
                   {"text", check.text}});
  return all;
}

}  // namespace

std::string cost_json(const CostReport& report) { return as_json(report).dump(2) + "\n"; }

std::string comparison_json(const Comparison& comparison, const std::vector<RuleCheck>& checks) {
  Json json = as_json(comparison);
  json["rules"] = as_json(checks, comparison);
  return json.dump(2) + "\n";
}

}  // namespace tw::results
