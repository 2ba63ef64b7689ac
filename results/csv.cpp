// `trainwatt export --to csv`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "results/export.hpp"
#include "results/text.hpp"

namespace tw {
namespace {

using Scopes = std::map<std::string, std::optional<Estimate>>;

/// RFC 4180: in quotes where a comma, a quote or an end of line is inside, and quotes doubled.
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// Text from the report: on one line, and no formula.
std::string text_cell(const std::string& raw) {
  const std::string text = text::printable(raw);
  return quoted(!text.empty() && std::string_view("=+-@").find(text[0]) != std::string_view::npos ? "'" + text : text);
}

/// The shortest text that reads back as the same number, without regard to the locale.
std::string number_cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }
template <class T>
requires std::is_integral_v<T> std::string number_cell(T value) { return fmt::format("{}", value); }
template <class T>
std::string number_cell(const std::optional<T>& value) {
  return value ? number_cell(*value) : "";
}
std::string set_point_cell(const std::optional<SetPoint>& value) {
  if (!value) return "";
  return value->name.empty() ? number_cell(value->number) : text_cell(value->name);
}
std::string joined(const std::vector<std::string>& lines) {
  return text_cell(fmt::format("{}", fmt::join(lines, "; ")));
}

/// Columns, each a name and what a record has in it.
class Table {
 public:
  using Cell = std::function<std::string(const Record&)>;

  void add(const std::string& name, Cell cell) { columns_.emplace_back(name, std::move(cell)); }
  /// A figure with the ends of its interval.
  void add_estimate(const std::string& name, std::function<std::optional<Estimate>(const Record&)> of) {
    add(name, [of](const Record& r) {
      const auto e = of(r);
      return e ? number_cell(e->value) : "";
    });
    add(name + "_low", [of](const Record& r) {
      const auto e = of(r);
      return e ? number_cell(e->low) : "";
    });
    add(name + "_high", [of](const Record& r) {
      const auto e = of(r);
      return e ? number_cell(e->high) : "";
    });
  }
  /// A member of the summary that is 0 where it is not known.
  template <class T>
  void add_positive(const std::string& name, T Summary::*member) {
    add(name, [member](const Record& r) { return r.summary.*member > 0 ? number_cell(r.summary.*member) : ""; });
  }
  /// A member of the summary, by its name.
  template <class T>
  void add_summary(const std::string& name, T Summary::*member) {
    if constexpr (std::is_same_v<T, std::optional<Estimate>>)
      add_estimate(name, [member](const Record& r) { return r.summary.*member; });
    else if constexpr (std::is_same_v<T, std::string>)
      add(name, [member](const Record& r) { return text_cell(r.summary.*member); });
    else
      add(name, [member](const Record& r) { return number_cell(r.summary.*member); });
  }

  std::string text(const std::vector<Record>& records) const {
    std::string out;
    const auto line = [&](auto cell) {
      for (std::size_t i = 0; i < columns_.size(); ++i) (out += i == 0 ? "" : ",") += cell(columns_[i]);
      out += "\r\n";
    };
    line([](const auto& column) { return text_cell(column.first); });
    for (const Record& record : records) line([&](const auto& column) { return column.second(record); });
    return out;
  }

 private:
  std::vector<std::pair<std::string, Cell>> columns_;
};

void add_workload(Table& table) {
  const auto text = [&](const char* name, std::string Workload::*member) {
    table.add(name, [member](const Record& r) { return text_cell(r.workload.*member); });
  };
  const auto number = [&](const char* name, auto Workload::*member) {
    table.add(name, [member](const Record& r) { return number_cell(r.workload.*member); });
  };
  text("model", &Workload::model);
  number("layers", &Workload::layers);
  text("device", &Workload::device);
  text("precision", &Workload::precision);
  number("micro_batch", &Workload::micro_batch);
  number("accumulate", &Workload::accumulate);
  number("global_batch", &Workload::global_batch);
  number("seq_len", &Workload::seq_len);
  number("ranks", &Workload::ranks);
  number("threads_per_rank", &Workload::threads_per_rank);
  text("optimizer", &Workload::optimizer);
  number("seed", &Workload::seed);
  number("parameters", &Workload::parameters);
  text("workload_hash", &Workload::hash);
}

/// Those of any record.
void add_settings(Table& table, const std::vector<Record>& records) {
  std::set<std::string> names;
  for (const Record& record : records)
    for (const auto& [name, setting] : record.setting) names.insert(name);
  for (const std::string& name : names) {
    const auto column = [&](const char* suffix, std::optional<SetPoint> Setting::*member) {
      table.add(name + suffix, [name, member](const Record& r) {
        const auto found = r.setting.find(name);
        return found == r.setting.end() ? "" : set_point_cell(found->second.*member);
      });
    };
    column("_requested", &Setting::requested);
    column("_accepted", &Setting::accepted);
    column("_observed", &Setting::observed);
    table.add(name + "_found_by", [name](const Record& r) {
      const auto found = r.setting.find(name);
      return found == r.setting.end() ? "" : text_cell(found->second.found_by.value_or(""));
    });
  }
  table.add("start_temperature_c", [](const Record& r) { return r.start ? number_cell(r.start->temperature_c) : ""; });
  table.add("start_waited_s", [](const Record& r) { return r.start ? number_cell(r.start->waited_s) : ""; });
}

std::optional<Estimate> of_scope(const Scopes& scopes, const std::string& scope) {
  const auto found = scopes.find(scope);
  return found == scopes.end() ? std::nullopt : found->second;
}

void add_summary(Table& table, const std::vector<std::string>& scopes) {
  table.add("trials", [](const Record& r) { return number_cell(r.trials.size()); });
  table.add("trials_joined",
            [](const Record& r) { return r.summary.step_time_s ? number_cell(r.summary.step_time_s->count) : ""; });
  table.add("statistic",
            [](const Record& r) { return r.summary.step_time_s ? text_cell(r.summary.step_time_s->statistic) : ""; });
  table.add_summary("samples_per_s", &Summary::samples_per_s);
  table.add_summary("tokens_per_s", &Summary::tokens_per_s);
  table.add_summary("flops_per_s", &Summary::flops_per_s);
  table.add_summary("step_time_s", &Summary::step_time_s);
  table.add_summary("step_time_p50_s", &Summary::step_time_p50_s);
  table.add_summary("step_time_p90_s", &Summary::step_time_p90_s);
  table.add_summary("step_time_p99_s", &Summary::step_time_p99_s);
  table.add_summary("step_time_min_s", &Summary::step_time_min_s);
  table.add_summary("step_time_max_s", &Summary::step_time_max_s);
  table.add_positive("model_flops_per_sample", &Summary::model_flops_per_sample);
  table.add_summary("flops_rule", &Summary::flops_rule);
  table.add_summary("ceiling_flops_per_s", &Summary::ceiling_flops_per_s);
  table.add_summary("of_ceiling", &Summary::of_ceiling);
  table.add_summary("of_ceiling_reason", &Summary::of_ceiling_reason);
  table.add_summary("mfu", &Summary::mfu);
  table.add_summary("mfu_reason", &Summary::mfu_reason);
  const auto by_scope = [&](const char* name, Scopes Summary::*member) {
    for (const std::string& scope : scopes)
      table.add_estimate(scope + name, [scope, member](const Record& r) { return of_scope(r.summary.*member, scope); });
  };
  by_scope("_energy_j", &Summary::energy_j);
  by_scope("_flops_per_w", &Summary::flops_per_w);
  by_scope("_samples_per_j", &Summary::samples_per_j);
  table.add_summary("energy_reason", &Summary::energy_reason);
  table.add_summary("loss_first", &Summary::loss_first);
  table.add_summary("loss_last", &Summary::loss_last);
  table.add_summary("loss_slope_per_step", &Summary::loss_slope_per_step);
  table.add_positive("peak_resident_bytes_per_rank", &Summary::peak_resident_bytes_per_rank);
  table.add_positive("planned_bytes_per_rank", &Summary::planned_bytes_per_rank);
}

void add_op_shares(Table& table, const std::vector<Record>& records) {
  std::set<std::string> operators;
  for (const Record& record : records)
    for (const auto& [op, share] : record.summary.op_share) operators.insert(op);
  for (const std::string& op : operators)
    table.add("op_share_" + op, [op](const Record& r) {
      const auto found = r.summary.op_share.find(op);
      return found == r.summary.op_share.end() ? "" : number_cell(found->second);
    });
}

void add_target(Table& table, const std::vector<std::string>& scopes) {
  table.add("target_task", [](const Record& r) { return r.target ? text_cell(r.target->task) : ""; });
  table.add("target_metric", [](const Record& r) { return r.target ? text_cell(r.target->metric) : ""; });
  table.add("target_value", [](const Record& r) { return r.target ? number_cell(r.target->value) : ""; });
  table.add("target_floor", [](const Record& r) { return r.target ? number_cell(r.target->floor) : ""; });
  const auto figure = [&](const char* name, std::optional<Estimate> ToTarget::*member) {
    table.add_estimate(name, [member](const Record& r) {
      return r.summary.to_target ? (*r.summary.to_target).*member : std::nullopt;
    });
  };
  figure("to_target_time_s", &ToTarget::time_s);
  figure("to_target_steps", &ToTarget::steps);
  figure("to_target_samples", &ToTarget::samples);
  for (const std::string& scope : scopes)
    table.add_estimate("to_target_" + scope + "_energy_j", [scope](const Record& r) {
      return r.summary.to_target ? of_scope(r.summary.to_target->energy_j, scope) : std::nullopt;
    });
  table.add("to_target_reason",
            [](const Record& r) { return r.summary.to_target ? text_cell(r.summary.to_target->reason) : ""; });
}

/// Those of the schema, so that tables of two machines have the same columns, and others that a report has.
std::vector<std::string> scopes_of(const std::vector<Record>& records) {
  std::vector<std::string> scopes(std::begin(scope_names), std::end(scope_names));
  for (const Record& record : records)
    for (const auto& [scope, joules] : record.summary.energy_j)
      if (std::ranges::find(scopes, scope) == scopes.end()) scopes.push_back(scope);
  return scopes;
}

}  // namespace

std::string to_csv(const Report& report, const ExportOptions& options) {
  std::vector<Record> records = report.records;
  sort_records(records, options.order);
  const std::vector<std::string> scopes = scopes_of(records);
  Table table;
  table.add("id", [](const Record& r) { return text_cell(r.id); });
  table.add("status", [](const Record& r) { return text_cell(r.verdict.status); });
  table.add("flags", [](const Record& r) { return joined(r.verdict.flags); });
  table.add("reasons", [](const Record& r) { return joined(r.verdict.reasons); });
  add_workload(table);
  add_settings(table, records);
  add_summary(table, scopes);
  add_target(table, scopes);
  add_op_shares(table, records);
  return table.text(records);
}

}  // namespace tw
