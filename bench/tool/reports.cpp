// `trainwatt validate` and `trainwatt show`: of a report, or of the records.jsonl that a run leaves before it has one.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "bench/tool/commands.hpp"
#include "bench/tool/report_file.hpp"
#include "models/catalog/description.hpp"
#include "models/catalog/floors.hpp"
#include "results/report_io.hpp"
#include "results/tables.hpp"
#include "results/text.hpp"

namespace tw::tool {
namespace {

/// What the networks of this version say about a record's parameters and FLOPs.
void check_network(const Record& record, const std::string& at, Validation& found) {
  const Workload& w = record.workload;
  if (w.device == "command") return;  // not one of ours
  NetworkDescription network;
  try {
    network = find_network(w.model);
  } catch (const std::invalid_argument&) {
    found.warnings.push_back(at + "/workload/model: \"" + w.model +
                             "\" is no network of this version; its parameters and FLOPs were not checked");
    return;
  }
  const auto broken = [&](const std::string& where, const std::string& what) {
    found.violations.push_back(at + where + ": " + what);
  };
  try {
    if (w.layers) network = cut_layers(network, *w.layers);
  } catch (const std::invalid_argument& error) {
    return broken("/workload/layers", error.what());
  }
  const std::int64_t longest = network.is_tokens() ? network.gpt2().max_seq : 0;
  if (network.is_tokens() != w.seq_len.has_value() || w.seq_len.value_or(0) > longest)
    return broken("/workload/seq_len", "is none that " + w.model + " can have");
  if (const std::int64_t parameters = count_parameters(network); w.parameters != parameters)
    broken("/workload/parameters", fmt::format("is {}, {} has {}", w.parameters, w.model, parameters));
  if (record.target)
    if (const double floor = exact_floor(network, w.seq_len.value_or(0)); std::abs(record.target->floor - floor) > 1e-9)
      broken("/target/floor", fmt::format("is {}, that of {} is {}", record.target->floor, w.model, floor));
  const Summary& s = record.summary;
  if (s.flops_rule.empty()) return;
  if (s.flops_rule != flops_rule()) {
    found.warnings.push_back(at + "/summary/flops_rule: is not the rule of this version; the FLOPs were not checked");
    return;
  }
  const double flops = model_flops_per_sample(network, w.seq_len.value_or(0));
  if (std::abs(s.model_flops_per_sample - flops) > 1e-9 * flops)
    broken("/summary/model_flops_per_sample", fmt::format("is {}, {} has {}", s.model_flops_per_sample, w.model, flops));
}

Validation check(const std::string& text, bool unfinished) {
  Validation found = unfinished ? validate_record_lines(text) : validate_report(text);
  if (!found.violations.empty()) return found;
  const std::vector<Record> records = unfinished ? record_lines(text).records : report_from_json(text).records;
  for (std::size_t i = 0; i < records.size(); ++i)
    check_network(records[i], "/records/" + std::to_string(i), found);
  return found;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// Whether the terminal's character set holds the blocks of bars and sparklines.
bool has_unicode() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"})  // the first that is set decides
    if (is_set(variable)) {
      std::string value = std::getenv(variable);
      std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
      return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
    }
  return false;
}

}  // namespace

int validate(const std::vector<std::string>& paths) {
  int code = 0;
  for (const std::string& path : paths) {
    try {
      with_report_file(path, [&](const std::string& text) {
        const bool unfinished = holds_record_lines(text);
        const Validation found = check(text, unfinished);
        const std::string name = text::printable(path);
        for (const std::string& line : found.violations) fmt::print(stderr, "{}: {}\n", name, text::printable(line));
        for (const std::string& line : found.warnings)
          fmt::print(stderr, "{}: warning: {}\n", name, text::printable(line));
        if (found.violations.empty())
          fmt::print("{}: good{}\n", name, unfinished ? ", but of an unfinished run: without context and plan" : "");
        else
          code = std::max(code, 1);
      });
    } catch (const UsageError& error) {
      fmt::print(stderr, "trainwatt: {}\n", text::printable(error.what()));  // the other files are still worth a look
      code = 2;
    }
  }
  return code;
}

int show(const ShowOptions& options) {
  TableStyle style;
  const bool terminal = isatty(STDOUT_FILENO);
  style.color = terminal && !is_set("NO_COLOR");
  style.unicode = !options.ascii && has_unicode();
  winsize size{};
  if (options.width)
    style.width = *options.width;
  else if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.width = std::clamp<int>(size.ws_col, 80, 120);
  fmt::print("{}", with_report_file(options.path, [&](const std::string& text) {
    if (!holds_record_lines(text)) {
      const Report report = report_from_json(text);
      style.order = parse_order(options.sort, report.records);
      return show_report(report, style);
    }
    const RecordLines lines = record_lines(text);
    style.order = parse_order(options.sort, lines.records);
    return fmt::format("An unfinished run: {} record{}{}; the context and the plan are not in this file.\n{}",
                       lines.records.size(), lines.records.size() == 1 ? "" : "s",
                       lines.torn ? ", and a last line that was cut off" : "", show_records(lines.records, style));
  }));
  return 0;
}

}  // namespace tw::tool
