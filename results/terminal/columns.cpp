#include "results/terminal/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "results/analysis/verdict.hpp"
#include "results/record/text.hpp"
#include "results/selection/search.hpp"

namespace tw::results {
namespace {

using namespace text;

constexpr int most_important = 100;  // and its interval next

std::string half_width(const Estimate& e) {
  if (!e.low || !e.high || e.value == 0) return "-";
  return significant(100 * (*e.high - *e.low) / 2 / std::abs(e.value), 2) + " %";
}

class Columns {
 public:
  Columns(const std::vector<Record>& records, Intervals intervals, const Order& order)
      : records_(records), intervals_(intervals), order_(order) {}

  /// A figure with its interval, unless that has no importance. `merit` and `scope` name it as --sort does.
  /// `of_target`: "never" where the target was not reached.
  void add(const std::string& title, int importance, int interval_importance, const char* merit, Scope scope,
           const std::function<std::optional<Estimate>(const Summary&)>& of,
           const std::function<std::string(double)>& print, bool of_target = false) {
    Column figures{title, is_order(merit, scope) ? most_important : importance, false, {}};
    Column widths{"+-95 %", is_order(merit, scope) ? most_important - 1 : interval_importance, true, {}};
    for (const Record& r : records_) {
      const std::optional<Estimate> e = of(r.summary);
      const bool never = of_target && r.summary.to_target && !r.summary.to_target->steps;
      std::string cell = !has_run(r) ? "" : e ? print(e->value) : never ? "never" : "-";
      if (intervals_ == Intervals::in_cell && has_run(r) && e && e->low && e->high)
        cell += " [" + print(*e->low) + ", " + print(*e->high) + "]";
      figures.cells.push_back(std::move(cell));
      widths.cells.push_back(!has_run(r) ? "" : e ? half_width(*e) : "-");
    }
    if (!has_any(figures)) return;
    all_.push_back(std::move(figures));
    if (intervals_ == Intervals::beside && widths.importance > 0 && has_any(widths)) all_.push_back(std::move(widths));
  }
  /// A figure that has none.
  void add(const std::string& title, int importance, const char* merit,
           const std::function<std::optional<double>(const Summary&)>& of,
           const std::function<std::string(double)>& print) {
    Column column{title, is_order(merit, Scope::none) ? most_important : importance, false, {}};
    for (const Record& r : records_) {
      const std::optional<double> value = of(r.summary);
      column.cells.push_back(!has_run(r) ? "" : value ? print(*value) : "-");
    }
    if (has_any(column)) all_.push_back(std::move(column));
  }
  /// A text of the record; "-" where a record that ran has none.
  void add_of_record(const std::string& title, int importance, const std::function<std::string(const Record&)>& of) {
    Column column{title, importance, false, {}};
    for (const Record& r : records_) {
      const std::string text = of(r);
      column.cells.push_back(!has_run(r) ? "" : text.empty() ? "-" : text);
    }
    if (has_any(column)) all_.push_back(std::move(column));
  }
  std::vector<Column> take() { return std::move(all_); }

 private:
  static bool has_any(const Column& column) {
    for (const std::string& cell : column.cells)
      if (cell != "" && cell != "-") return true;
    return false;
  }
  bool is_order(const std::string& merit, Scope scope) const {
    return order_.merit != nullptr && order_.merit->name == merit && order_.scope == scope;
  }

  const std::vector<Record>& records_;
  const Intervals intervals_;
  const Order& order_;
  std::vector<Column> all_;
};

}  // namespace

std::vector<Column> number_columns(const std::vector<Record>& records, Intervals intervals, const Order& order) {
  Columns columns(records, intervals, order);
  const auto figure = [](double v) { return si(v); };
  const auto seconds = [](double v) { return duration(v); };
  const auto of = [](std::optional<Estimate> Summary::*member) {
    return [member](const Summary& s) { return s.*member; };
  };
  const auto of_target = [](std::optional<Estimate> ToTarget::*member) {
    return [member](const Summary& s) { return s.to_target ? (*s.to_target).*member : std::nullopt; };
  };
  columns.add("to target", 12, 9, "time-to-target", Scope::none, of_target(&ToTarget::time_s), seconds, true);
  columns.add("steps", 9, 0, "steps-to-target", Scope::none, of_target(&ToTarget::steps), figure, true);
  columns.add(
      "cost", 8, 6, "cost-to-target", Scope::none, of_target(&ToTarget::cost), [](double v) { return significant(v); },
      true);
  columns.add("samples/s", 11, 10, "throughput", Scope::none, of(&Summary::samples_per_s), figure);
  columns.add("tokens/s", 2, 0, "", Scope::none, of(&Summary::tokens_per_s), figure);
  columns.add(std::ranges::all_of(records, is_command) ? "time" : "step time", 7, 0, "", Scope::none,
              of(&Summary::step_time_s), seconds);
  columns.add_of_record("micro-batch", 6, [](const Record& r) {
    return r.micro_batch_search ? fmt::format("{} {}", r.micro_batch_search->chosen,
                                              is_declared(*r.micro_batch_search) ? "declared" : "found")
                                : std::string();
  });
  columns.add("FLOP/s", 4, 0, "flops", Scope::none, of(&Summary::flops_per_s), figure);
  const auto share = [](double v) { return significant(v, 2); };
  const auto memory = [](double v) { return bytes(v); };
  columns.add("of ceiling", 8, "of-ceiling", credible_of_ceiling, share);
  columns.add(
      "MFU", 7, "mfu", [](const Summary& s) { return s.mfu; }, share);
  const auto of_gpu = [](auto GpuUse::*member) {
    return [member](const Summary& s) -> std::optional<double> {
      if (!s.gpu || !((*s.gpu).*member)) return std::nullopt;
      return static_cast<double>(*((*s.gpu).*member));
    };
  };
  columns.add("GPU busy", 5, "", of_gpu(&GpuUse::utilisation), share);
  columns.add("SM active", 5, "", of_gpu(&GpuUse::sm_active), share);
  columns.add("GPU memory", 1, "", of_gpu(&GpuUse::memory_used_bytes), memory);
  columns.add(
      "peak memory", 1, "",
      [](const Summary& s) -> std::optional<double> {
        if (!s.peak_device_memory_bytes_per_rank) return std::nullopt;
        return static_cast<double>(*s.peak_device_memory_bytes_per_rank);
      },
      memory);
  for (Scope scope : measured_scopes(records)) {  // the first that fits comes first
    const auto joules = [&](const Summary& s) {   // of a run to a target they are those to the target
      return of_scope(s.to_target ? s.to_target->energy_j : s.energy_j, scope);
    };
    const auto by_scope = [&](ByScope Summary::*member) {
      return [&scope, member](const Summary& s) { return of_scope(s.*member, scope); };
    };
    columns.add(scope + " J", 3, 1, "energy-to-target", scope, joules, figure, true);
    columns.add(scope + " FLOP/J", 9, 8, "efficiency", scope, by_scope(&Summary::flops_per_w), figure);
    if (order.merit != nullptr && order.merit->name == std::string_view("samples-per-joule") && order.scope == scope)
      columns.add(scope + " samples/J", 9, 8, "samples-per-joule", scope, by_scope(&Summary::samples_per_j), figure);
  }
  return columns.take();
}

}  // namespace tw::results
