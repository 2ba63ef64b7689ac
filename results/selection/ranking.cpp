#include "results/selection/ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "results/analysis/scopes.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using Figure = std::optional<double>;

Figure value_of(const std::optional<Estimate>& e, Scope) { return e ? Figure(e->value) : std::nullopt; }
Figure value_of(const ByScope& all, Scope scope) { return value_of(of_scope(all, scope), scope); }

/// A member of the summary, or of what it took to the target.
template <auto member>
Figure of(const Summary& s, Scope scope) {
  if constexpr (requires { s.*member; })
    return value_of(s.*member, scope);
  else
    return s.to_target ? value_of((*s.to_target).*member, scope) : std::nullopt;
}

constexpr Merit all_merits[] = {
    {"throughput", "samples/s", true, false, false, of<&Summary::samples_per_s>},
    {"flops", "FLOP/s", true, false, true, of<&Summary::flops_per_s>},
    {"of-ceiling", "share of the ceiling", true, false, true,
     [](const Summary& s, Scope) { return credible_of_ceiling(s); }},
    {"mfu", "share of the vendor's peak", true, false, true, [](const Summary& s, Scope) { return s.mfu; }},
    {"efficiency", "FLOP/J", true, true, true, of<&Summary::flops_per_w>},
    {"samples-per-joule", "samples/J", true, true, false, of<&Summary::samples_per_j>},
    {"time-to-target", "time to target", false, false, false, of<&ToTarget::time_s>},
    {"steps-to-target", "steps to target", false, false, false, of<&ToTarget::steps>},
    {"energy-to-target", "J to target", false, true, false, of<&ToTarget::energy_j>},
    {"cost-to-target", "cost to target", false, false, false, of<&ToTarget::cost>}};

constexpr std::string_view precisions[] = {"float32", "tf32", "float32_bf16", "bf16", "fp16", "fp8"};

/// "gpt2-1558m" as {"gpt", 2, "-", 1558, "m"}, so that it comes after gpt2-774m.
std::vector<std::pair<std::string, std::uint64_t>> parts_of(const std::string& name) {
  std::vector<std::pair<std::string, std::uint64_t>> parts(1);
  bool in_number = false;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (in_number && !digit) parts.emplace_back();
    in_number = digit;
    if (!digit)
      parts.back().first += c;
    else
      parts.back().second = parts.back().second * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return parts;
}

/// The place of a point among others of its plan.
auto place_by_axes(const Record& record) {
  const Workload& w = record.workload;
  std::vector<std::tuple<std::string, double, std::string>> settings;
  for (const auto& [kind, setting] : record.setting)
    if (setting.requested) settings.emplace_back(kind, setting.requested->number, setting.requested->name);
  const auto precision = std::ranges::find(precisions, w.precision) - std::begin(precisions);
  return std::tuple(parts_of(w.model), w.layers.value_or(0), w.table_rows_at_most.value_or(0), precision,
                    w.seq_len.value_or(0), w.micro_batch, w.accumulate, w.ranks, settings);
}

}  // namespace

std::vector<Scope> scopes_of(const std::vector<Record>& records) {
  std::vector<Scope> scopes(std::begin(scopes_in_order), std::end(scopes_in_order));
  for (const Record& record : records)
    for (const auto& [scope, joules] : record.summary.energy_j)
      if (std::ranges::find(scopes, scope) == scopes.end()) scopes.push_back(scope);
  return scopes;
}

std::vector<Scope> measured_scopes(const std::vector<Record>& records) {
  std::vector<Scope> scopes = scopes_of(records);
  std::erase_if(scopes, [&](Scope scope) {
    return std::ranges::none_of(records, [&](const Record& r) { return r.summary.energy_j.contains(scope); });
  });
  return scopes;
}

std::span<const Merit> merits() { return all_merits; }

const Merit* find_merit(const std::string& name) {
  const auto found = std::ranges::find(all_merits, name, &Merit::name);
  return found == std::end(all_merits) ? nullptr : &*found;
}

Order order_by(const Merit& merit, Scope scope, const std::vector<Record>& records) {
  if (!merit.by_scope) return {&merit, {}, false};
  if (scope != Scope::none) return {&merit, scope, false};
  const auto has = [&](Scope one) {
    return [&, one](const Record& r) { return merit.of(r.summary, one).has_value(); };
  };
  const auto has_any = [&](const Record& r) {
    return std::ranges::any_of(scopes_in_order, [&](Scope one) { return has(one)(r); });
  };
  std::vector<const Record*> compared;
  for (const Record& record : records)
    if (has_any(record)) compared.push_back(&record);
  const std::vector<Scope> telling = telling_scopes(compared);
  const auto having = [&](Scope one) { return std::ranges::count_if(records, has(one)); };
  return {&merit, *std::ranges::max_element(telling, {}, having), false};  // the first of those as many
}

namespace {

/// The first valid point's reason, where its summary has one.
std::string why_not(const Order& order, const std::vector<Record>& records) {
  const auto valid = std::ranges::find_if(records, is_valid);
  if (valid == records.end()) return "in the order of the run: no point is valid";
  const std::string_view name = order.merit->name;
  const Summary& s = valid->summary;
  const std::string reason = name == "mfu"          ? s.mfu_reason
                             : name == "of-ceiling" ? why_no_of_ceiling(s)
                             : order.merit->by_scope ? s.energy_reason
                             : s.to_target           ? s.to_target->reason
                                                     : "";
  return fmt::format("in the order of the run: no valid point has the figure \"{}\"{}", text_of(order),
                     reason.empty() ? "" : ", because: " + text::printable(reason));
}

}  // namespace

std::string explain(const Order& order, const std::vector<Record>& records) {
  const auto has = [&](const Record& r) {
    const Figure figure = is_valid(r) ? order.merit->of(r.summary, order.scope) : std::nullopt;
    return figure && std::isfinite(*figure);
  };
  if (std::ranges::none_of(records, has)) return why_not(order, records);
  std::set<std::string> workloads;
  for (const Record& record : records)
    if (has(record)) workloads.insert(record.workload.hash);
  return "by " + text_of(order) + ", best first" +
         (!order.merit->across_workloads && workloads.size() > 1 ? " within each workload" : "") +
         "; points that do not count come last";
}

std::string text_of(const Order& order) {
  if (order.merit == nullptr) return order.by_axes ? "order of the plan" : "order of the run";
  return (order.scope == Scope::none ? "" : order.scope + " ") + std::string(order.merit->what);
}

namespace {

const Record& record_of(const Record& record) { return record; }
const Record& record_of(const Record* record) { return *record; }

template <class Element>
void sort(std::vector<Element>& records, const Order& order) {
  if (order.merit == nullptr) {
    if (order.by_axes)
      std::ranges::stable_sort(records, {}, [](const Element& one) { return place_by_axes(record_of(one)); });
    return;
  }
  std::map<std::string, std::size_t> workloads;  // in the order of the run
  if (!order.merit->across_workloads)
    for (const Element& one : records) workloads.try_emplace(record_of(one).workload.hash, workloads.size());
  const auto place = [&](const Element& one) -> std::tuple<int, std::size_t, double> {
    const Record& record = record_of(one);
    if (!is_valid(record)) return {record.verdict.status == Status::invalid ? 2 : 3, 0, 0};
    const Figure figure = order.merit->of(record.summary, order.scope);
    if (!figure || !std::isfinite(*figure)) return {1, 0, 0};
    const std::size_t workload = order.merit->across_workloads ? 0 : workloads.at(record.workload.hash);
    return {0, workload, order.merit->more_is_better ? -*figure : *figure};
  };
  std::ranges::stable_sort(records, {}, place);
}

}  // namespace

void sort_records(std::vector<Record>& records, const Order& order) { sort(records, order); }
std::vector<const Record*> in_order(const std::vector<Record>& records, const Order& order) {
  std::vector<const Record*> sorted;
  for (const Record& record : records) sorted.push_back(&record);
  sort(sorted, order);
  return sorted;
}

}  // namespace tw::results
