#include "results/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace tw {
namespace {

using Figure = std::optional<double>;
using Scopes = std::map<std::string, std::optional<Estimate>>;

Figure value_of(const std::optional<Estimate>& estimate) { return estimate ? Figure(estimate->value) : std::nullopt; }
Figure value_of(const Scopes& scopes, const std::string& scope) {
  const auto found = scopes.find(scope);
  return found == scopes.end() ? std::nullopt : value_of(found->second);
}

constexpr Merit all_merits[] = {
    {"throughput", "samples/s", true, false,
     [](const Summary& s, const std::string&) { return value_of(s.samples_per_s); }},
    {"flops", "FLOP/s", true, false, [](const Summary& s, const std::string&) { return value_of(s.flops_per_s); }},
    {"of-ceiling", "share of the ceiling", true, false,
     [](const Summary& s, const std::string&) { return s.of_ceiling; }},
    {"efficiency", "FLOP/J", true, true,
     [](const Summary& s, const std::string& scope) { return value_of(s.flops_per_w, scope); }},
    {"samples-per-joule", "samples/J", true, true,
     [](const Summary& s, const std::string& scope) { return value_of(s.samples_per_j, scope); }},
    {"time-to-target", "time to target", false, false,
     [](const Summary& s, const std::string&) { return s.to_target ? value_of(s.to_target->time_s) : std::nullopt; }},
    {"steps-to-target", "steps to target", false, false,
     [](const Summary& s, const std::string&) { return s.to_target ? value_of(s.to_target->steps) : std::nullopt; }},
    {"energy-to-target", "J to target", false, true,
     [](const Summary& s, const std::string& scope) {
       return s.to_target ? value_of(s.to_target->energy_j, scope) : std::nullopt;
     }},
};

}  // namespace

std::span<const Merit> merits() { return all_merits; }

const Merit* find_merit(const std::string& name) {
  const auto found = std::ranges::find(all_merits, name, &Merit::name);
  return found == std::end(all_merits) ? nullptr : &*found;
}

Order order_by(const Merit& merit, const std::string& scope, const std::vector<Record>& records) {
  if (!merit.by_scope) return {&merit, ""};
  if (!scope.empty()) return {&merit, scope};
  const auto having = [&](std::string_view name) {
    return std::ranges::count_if(records,
                                 [&](const Record& r) { return merit.of(r.summary, std::string(name)).has_value(); });
  };
  return {&merit, std::string(*std::ranges::max_element(scope_names, {}, having))};  // the first of those as many
}

std::string text_of(const Order& order) {
  if (order.merit == nullptr) return "order of the run";
  return (order.scope.empty() ? "" : order.scope + " ") + std::string(order.merit->what);
}

void sort_records(std::vector<Record>& records, const Order& order) {
  if (order.merit == nullptr) return;
  const auto place = [&](const Record& record) -> std::pair<int, double> {
    const std::string& status = record.verdict.status;
    if (status != "valid") return {status == "invalid" ? 2 : 3, 0};
    const Figure figure = order.merit->of(record.summary, order.scope);
    if (!figure || !std::isfinite(*figure)) return {1, 0};
    return {0, order.merit->more_is_better ? -*figure : *figure};
  };
  std::ranges::stable_sort(records, {}, place);
}

}  // namespace tw
