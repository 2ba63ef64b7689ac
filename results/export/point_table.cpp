#include "results/export/point_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "results/analysis/verdict.hpp"
#include "results/record/text.hpp"
#include "results/selection/ranking.hpp"

namespace tw::results {
namespace {

Cell cell_of(double value) { return std::isfinite(value) ? Cell(value) : Cell(); }
Cell cell_of(std::integral auto value) { return static_cast<std::int64_t>(value); }
Cell cell_of(const std::string& text) { return text.empty() ? Cell() : Cell(text); }
Cell cell_of(Named auto value) { return cell_of(std::string(to_string(value))); }
Cell cell_of(const SetPoint& value) { return value.name.empty() ? cell_of(value.number) : cell_of(value.name); }
template <class T>
Cell cell_of(const std::optional<T>& value) {
  return value ? cell_of(*value) : Cell();
}
Cell joined(const auto& lines) { return cell_of(fmt::format("{}", fmt::join(lines, "; "))); }
/// A member of what may be absent.
template <class T, class U>
Cell cell_of(const std::optional<T>& whole, U T::*member) {
  return whole ? cell_of((*whole).*member) : Cell();
}

class Table {
 public:
  void add(const std::string& name, const std::string& unit, std::function<Cell(const Record&)> cell) {
    columns_.push_back({name, unit, std::move(cell)});
  }
  /// A figure with the ends of its interval.
  void add_estimate(const std::string& name, const std::string& unit,
                    std::function<std::optional<Estimate>(const Record&)> of) {
    add(name, unit, [of](const Record& r) { return cell_of(of(r), &Estimate::value); });
    add(name + "_low", unit, [of](const Record& r) { return cell_of(of(r), &Estimate::low); });
    add(name + "_high", unit, [of](const Record& r) { return cell_of(of(r), &Estimate::high); });
  }
  /// A member of what not every record has.
  template <class T, class U>
  void add_member(const std::string& name, const std::string& unit, std::optional<T> Record::*whole, U T::*member) {
    add(name, unit, [=](const Record& r) { return cell_of(r.*whole, member); });
  }
  /// A member of the summary that is 0 where it is not known.
  template <class T>
  void add_positive(const std::string& name, const std::string& unit, T Summary::*member) {
    add(name, unit, [member](const Record& r) { return r.summary.*member > 0 ? cell_of(r.summary.*member) : Cell(); });
  }
  /// A member of the summary, by its name.
  template <class T>
  void add_summary(const std::string& name, const std::string& unit, T Summary::*member) {
    if constexpr (std::is_same_v<T, std::optional<Estimate>>)
      add_estimate(name, unit, [member](const Record& r) { return r.summary.*member; });
    else
      add(name, unit, [member](const Record& r) { return cell_of(r.summary.*member); });
  }
  std::vector<PointColumn> take() { return std::move(columns_); }

 private:
  std::vector<PointColumn> columns_;
};

void add_workload(Table& table) {
  const auto column = [&](const char* name, const char* unit, auto Workload::*member) {
    table.add(name, unit, [member](const Record& r) { return cell_of(r.workload.*member); });
  };
  column("model", "", &Workload::model);
  column("layers", "", &Workload::layers);
  column("device", "", &Workload::device);
  column("precision", "", &Workload::precision);
  column("micro_batch", "samples", &Workload::micro_batch);
  column("accumulate", "", &Workload::accumulate);
  column("global_batch", "samples", &Workload::global_batch);
  column("seq_len", "tokens", &Workload::seq_len);
  column("ranks", "", &Workload::ranks);
  column("threads_per_rank", "", &Workload::threads_per_rank);
  column("optimizer", "", &Workload::optimizer);
  table.add("seed", "", [](const Record& r) -> Cell {  // of 64 bits without a sign
    return r.workload.seed <= INT64_MAX ? cell_of(r.workload.seed) : Cell(std::to_string(r.workload.seed));
  });
  column("parameters", "", &Workload::parameters);
  column("workload_hash", "", &Workload::hash);
}

std::string unit_of_setting(const std::string& name) {
  return name.ends_with("_mhz") ? "MHz" : name.ends_with("_w") ? "W" : "";
}

/// Those of any record.
void add_settings(Table& table, const std::vector<Record>& records) {
  std::set<std::string> names;
  for (const Record& record : records)
    for (const auto& [name, setting] : record.setting) names.insert(name);
  for (const std::string& name : names) {
    const auto column = [&](const char* suffix, const std::string& unit, auto Setting::*member) {
      table.add(name + suffix, unit, [name, member](const Record& r) {
        const auto found = r.setting.find(name);
        return found == r.setting.end() ? Cell() : cell_of(found->second.*member);
      });
    };
    column("_requested", unit_of_setting(name), &Setting::requested);
    column("_accepted", unit_of_setting(name), &Setting::accepted);
    column("_observed", unit_of_setting(name), &Setting::observed);
    column("_found_by", "", &Setting::found_by);
  }
  table.add_member("start_temperature_c", "°C", &Record::start, &StartTemperature::temperature_c);
  table.add_member("start_waited_s", "s", &Record::start, &StartTemperature::waited_s);
}

void add_summary(Table& table, const std::vector<Scope>& scopes) {
  table.add("trials", "", [](const Record& r) { return cell_of(r.trials.size()); });
  table.add("trials_joined", "", [](const Record& r) { return cell_of(r.summary.step_time_s, &Estimate::count); });
  table.add("statistic", "", [](const Record& r) { return cell_of(r.summary.step_time_s, &Estimate::statistic); });
  table.add_summary("samples_per_s", "samples/s", &Summary::samples_per_s);
  table.add_summary("tokens_per_s", "tokens/s", &Summary::tokens_per_s);
  table.add_summary("flops_per_s", "FLOP/s", &Summary::flops_per_s);
  table.add_summary("step_time_s", "s", &Summary::step_time_s);
  table.add_summary("step_time_p50_s", "s", &Summary::step_time_p50_s);
  table.add_summary("step_time_p90_s", "s", &Summary::step_time_p90_s);
  table.add_summary("step_time_p99_s", "s", &Summary::step_time_p99_s);
  table.add_summary("step_time_min_s", "s", &Summary::step_time_min_s);
  table.add_summary("step_time_max_s", "s", &Summary::step_time_max_s);
  table.add_positive("model_flops_per_sample", "FLOP/sample", &Summary::model_flops_per_sample);
  table.add_summary("hardware_flops_per_sample", "FLOP/sample", &Summary::hardware_flops_per_sample);
  table.add_summary("flops_rule", "", &Summary::flops_rule);
  table.add_summary("ceiling_flops_per_s", "FLOP/s", &Summary::ceiling_flops_per_s);
  table.add("of_ceiling", "share", [](const Record& r) { return cell_of(credible_of_ceiling(r.summary)); });
  table.add("of_ceiling_reason", "", [](const Record& r) { return cell_of(why_no_of_ceiling(r.summary)); });
  table.add_summary("peak_flops_per_s", "FLOP/s", &Summary::peak_flops_per_s);
  table.add_summary("mfu", "share", &Summary::mfu);
  table.add_summary("mfu_reason", "", &Summary::mfu_reason);
  const auto of_gpu = [&](const char* name, const char* unit, auto GpuUse::*member) {
    table.add(name, unit, [member](const Record& r) { return cell_of(r.summary.gpu, member); });
  };
  of_gpu("gpus", "", &GpuUse::gpus);
  of_gpu("gpu_utilisation", "share", &GpuUse::utilisation);
  of_gpu("gpu_sm_active", "share", &GpuUse::sm_active);
  of_gpu("gpu_memory_used_bytes", "bytes", &GpuUse::memory_used_bytes);
  of_gpu("gpu_memory_bytes", "bytes", &GpuUse::memory_bytes);
  of_gpu("gpu_reason", "", &GpuUse::reason);
  const auto by_scope = [&](const char* name, const char* unit, ByScope Summary::*member) {
    for (Scope scope : scopes)
      table.add_estimate(scope + name, unit,
                         [scope, member](const Record& r) { return of_scope(r.summary.*member, scope); });
  };
  by_scope("_energy_j", "J per trial", &Summary::energy_j);
  by_scope("_flops_per_w", "FLOP/J", &Summary::flops_per_w);
  by_scope("_samples_per_j", "samples/J", &Summary::samples_per_j);
  table.add_summary("energy_reason", "", &Summary::energy_reason);
  table.add_summary("loss_first", "", &Summary::loss_first);
  table.add_summary("loss_last", "", &Summary::loss_last);
  table.add_summary("loss_slope_per_step", "1/step", &Summary::loss_slope_per_step);
  table.add_positive("peak_resident_bytes_per_rank", "bytes", &Summary::peak_resident_bytes_per_rank);
  table.add_positive("planned_bytes_per_rank", "bytes", &Summary::planned_bytes_per_rank);
  table.add_summary("peak_device_memory_bytes_per_rank", "bytes", &Summary::peak_device_memory_bytes_per_rank);
}

void add_operators(Table& table, const std::vector<Record>& records) {
  std::set<std::string> shared, timed;
  for (const Record& record : records) {
    for (const auto& [op, share] : record.summary.op_share) shared.insert(op);
    if (record.summary.op_seconds)
      for (const auto& [op, seconds] : *record.summary.op_seconds) timed.insert(op);
  }
  const auto cell = [](const std::map<std::string, double>& values, const std::string& op) {
    const auto found = values.find(op);
    return found == values.end() ? Cell() : cell_of(found->second);
  };
  for (const std::string& op : shared)
    table.add("op_share_" + op, "share", [=](const Record& r) { return cell(r.summary.op_share, op); });
  for (const std::string& op : timed)
    table.add("op_seconds_" + op, "s",
              [=](const Record& r) { return r.summary.op_seconds ? cell(*r.summary.op_seconds, op) : Cell(); });
}

void add_target(Table& table, const std::vector<Scope>& scopes) {
  table.add_member("target_task", "", &Record::target, &Target::task);
  table.add_member("target_metric", "", &Record::target, &Target::metric);
  table.add_member("target_value", "", &Record::target, &Target::value);
  table.add_member("target_floor", "", &Record::target, &Target::floor);
  const auto figure = [&](const char* name, const char* unit, std::optional<Estimate> ToTarget::*member) {
    table.add_estimate(name, unit, [member](const Record& r) {
      return r.summary.to_target ? (*r.summary.to_target).*member : std::nullopt;
    });
  };
  figure("to_target_time_s", "s", &ToTarget::time_s);
  figure("to_target_steps", "steps", &ToTarget::steps);
  figure("to_target_samples", "samples", &ToTarget::samples);
  for (Scope scope : scopes)
    table.add_estimate("to_target_" + scope + "_energy_j", "J", [scope](const Record& r) {
      return r.summary.to_target ? of_scope(r.summary.to_target->energy_j, scope) : std::nullopt;
    });
  figure("to_target_cost", "price", &ToTarget::cost);
  const auto text = [&](const char* name, auto ToTarget::*member) {
    table.add(name, "", [member](const Record& r) { return cell_of(r.summary.to_target, member); });
  };
  table.add("to_target_cost_of_runs", "price", [](const Record& r) {
    const auto& reached = r.summary.to_target;
    return reached && reached->cost_of_runs ? joined(*reached->cost_of_runs) : Cell();
  });
  text("to_target_cost_scope", &ToTarget::cost_scope);
  text("to_target_cost_reason", &ToTarget::cost_reason);
  table.add_member("hour_price", "price/h", &Record::prices, &JobPrices::hour_price);
  table.add_member("kwh_price", "price/kWh", &Record::prices, &JobPrices::kwh_price);
  text("to_target_reason", &ToTarget::reason);
}

}  // namespace

std::vector<PointColumn> point_columns(const std::vector<Record>& records) {
  const std::vector<Scope> scopes = scopes_of(records);
  Table table;
  table.add("id", "", [](const Record& r) { return cell_of(r.id); });
  table.add("status", "", [](const Record& r) { return cell_of(std::string(to_string(r.verdict.status))); });
  table.add("flags", "", [](const Record& r) { return joined(flag_names(r)); });
  table.add("reasons", "", [](const Record& r) { return joined(r.verdict.reasons); });
  add_workload(table);
  add_settings(table, records);
  add_summary(table, scopes);
  add_target(table, scopes);
  add_operators(table, records);
  return table.take();
}

}  // namespace tw::results
