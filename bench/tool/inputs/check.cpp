#include "bench/tool/inputs/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/layers_file.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/tool/inputs/archive.hpp"
#include "models/catalog/description.hpp"
#include "models/catalog/floors.hpp"
#include "results/analysis/verdict.hpp"

namespace tw::bench::tool {
namespace {

/// What the networks of this version say about a record's parameters and FLOPs.
void check_network(const results::Record& record, const std::string& layers, const std::string& at,
                   results::Validation& found) {
  const results::Workload& w = record.workload;
  if (w.device == "command") return;  // not one of ours
  models::NetworkDescription network;
  try {
    network = is_name_of_layers(w.model) ? recorded_network(w.model, layers) : models::find_network(w.model);
  } catch (const std::invalid_argument& error) {
    if (is_name_of_layers(w.model)) {
      found.violations.push_back({"network_differs", at + "/workload/model", error.what()});
      return;
    }
    found.warnings.push_back(
        {"network_unknown", at + "/workload/model",
         "\"" + w.model + "\" is not a network of this version: its parameters and FLOPs were not checked"});
    return;
  }
  const auto broken = [&](const std::string& where, const std::string& what) {
    found.violations.push_back({"network_differs", at + where, what});
  };
  try {
    if (w.layers) network = models::cut_layers(network, *w.layers);
  } catch (const std::invalid_argument& error) {
    return broken("/workload/layers", error.what());
  }
  try {
    if (w.table_rows_at_most) network = models::limit_table_rows(network, *w.table_rows_at_most);
  } catch (const std::invalid_argument& error) {
    return broken("/workload/table_rows_at_most", error.what());
  }
  const std::int64_t longest = network.data().longest_sequence;
  if (network.has_sequence() != w.seq_len.has_value() || w.seq_len.value_or(0) > longest)
    return broken("/workload/seq_len", "is not a length that " + w.model + " can have");
  if (const std::int64_t parameters = models::count_parameters(network); w.parameters != parameters)
    broken("/workload/parameters", fmt::format("is {}, {} has {}", w.parameters, w.model, parameters));
  if (record.target)
    if (const double floor = models::exact_floor(network, w.seq_len.value_or(0));
        !(std::abs(record.target->floor - floor) <= 1e-9))  // NaN: it has no target
      broken("/target/floor", fmt::format("is {}, that of {} is {}", record.target->floor, w.model, floor));
  const results::Summary& s = record.summary;
  if (s.flops_rule.empty()) return;
  if (s.flops_rule != models::flops_rule()) {
    found.warnings.push_back({"flops_rule_unknown", at + "/summary/flops_rule",
                              "is not the rule of this version; the FLOPs were not checked"});
    return;
  }
  const double flops = models::model_flops_per_sample(network, w.seq_len.value_or(0));
  if (std::abs(s.model_flops_per_sample - flops) > 1e-9 * flops)
    broken("/summary/model_flops_per_sample",
           fmt::format("is {}, {} has {}", s.model_flops_per_sample, w.model, flops));
}

/// The file of layers in a plan; empty without one.
std::string layers_of(const std::string& canonical_json) {
  if (!results::json_fault(canonical_json).empty()) return {};
  const auto plan = nlohmann::json::parse(canonical_json);
  const auto layers = plan.is_object() ? plan.find("layers_file") : plan.end();
  return layers != plan.end() && layers->is_object() ? layers->dump() : "";
}

void check_networks(const std::vector<results::Record>& records, const std::string& canonical_json,
                    results::Validation& found) {
  const std::string layers = layers_of(canonical_json);
  for (std::size_t i = 0; i < records.size(); ++i)
    check_network(records[i], layers, "/records/" + std::to_string(i), found);
}

/// Reads what `read` reads of a text that has been validated.
template <class Read>
void take(CheckedReport& checked, Read read) {
  try {
    checked.report = read();
  } catch (const std::runtime_error& error) {
    checked.why_unreadable = error.what();
    if (checked.found.violations.empty()) checked.found.violations.push_back({"unreadable", "", error.what()});
    return;
  }
  results::add_left_out_flags(checked.report->records, checked.found);
  const std::string file = checked.bundle ? results::report_file : "";
  const auto is_of_report = [&](const results::Fault& fault) { return fault.file == file; };
  if (std::ranges::any_of(checked.found.violations, is_of_report)) {  // its fields may be anything
    results::summarise(*checked.report);
    return;
  }
  results::Validation more;
  check_networks(checked.report->records, checked.report->plan.canonical_json, more);
  for (results::Fault& fault : more.violations)
    checked.found.violations.push_back(results::in_file(file, std::move(fault)));
  for (results::Fault& note : more.warnings) checked.found.warnings.push_back(results::in_file(file, std::move(note)));
  const auto is_older = [](const results::Record& record) {
    return results::interval_rule(record.summary) != results::IntervalRule::student;
  };
  // An older program's statistics were compared with its samples; every command shows those of this version.
  if (std::ranges::any_of(checked.report->records, is_older)) results::summarise(*checked.report);
}

/// Whether a text that is no report is at least one that was cut or changed. A cut may leave nothing, or a few letters.
bool is_of_a_report(const std::string& text) {
  if (!results::json_fault(text).empty()) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    return first == text.npos || text[first] == '{';
  }
  const auto json = nlohmann::json::parse(text);
  return json.is_object() && json.contains("schema_version");
}

}  // namespace

CheckedReport check_report(std::string bytes) {
  CheckedReport checked;
  if (is_packed(bytes)) {
    try {
      checked.bundle = unpack(bytes);
    } catch (const ArchiveError& error) {  // damaged, like a report that is not JSON: readable, but faulty
      checked.why_unreadable = error.what();
      checked.found.violations.push_back({"unreadable", "", error.what()});
      return checked;
    }
    const results::BundleFiles& files = *checked.bundle;
    checked.found = results::validate_bundle(files);
    const auto file = files.find(results::report_file);
    if (file == files.end()) {
      checked.why_unreadable = files.contains("run-1.tar.zst")
                                   ? "a bundle of several runs: trainwatt validate, compare and html take it; for this "
                                     "command, unpack it and give the bundle of one run"
                                   : "a bundle without a report";
      return checked;
    }
    take(checked, [&] { return results::report_from_json(file->second, results::UnknownNames::left_out); });
    return checked;
  }
  checked.is_unfinished = results::holds_record_lines(bytes);
  std::optional<results::Report> whole;
  checked.found =
      checked.is_unfinished ? results::validate_record_lines(bytes) : results::validate_report(bytes, whole);
  take(checked, [&] {
    if (!checked.is_unfinished)
      return whole ? std::move(*whole) : results::report_from_json(bytes, results::UnknownNames::left_out);
    results::Report report;
    results::RecordLines lines = results::record_lines(bytes, results::UnknownNames::left_out);
    report.records = std::move(lines.records), checked.is_torn = lines.torn;
    return report;
  });
  if (checked.report || checked.is_unfinished) return checked;
  checked.is_no_report = !is_of_a_report(bytes);
  if (const std::string other = other_kind(bytes, {InputKind::report}); !other.empty())
    checked.why_unreadable = with_code("wrong-file", other), checked.is_no_report = true;
  else if (checked.is_no_report)
    checked.why_unreadable += "; give the report.json of a run, its records.jsonl, or a bundle";
  return checked;
}

}  // namespace tw::bench::tool
