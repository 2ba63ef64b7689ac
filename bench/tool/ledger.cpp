#include "bench/tool/ledger.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "bench/plan/abilities.hpp"
#include "bench/plan/options/request.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "bench/tool/inputs/errors.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/terminal.hpp"
#include "models/catalog/memory.hpp"
#include "models/catalog/nearest.hpp"
#include "models/catalog/sequences.hpp"
#include "results/devices/device_figures.hpp"
#include "results/record/text.hpp"
#if TW_HAVE_LEDGER
#include "models/compute/error.hpp"
#include "models/ledger/ledger.hpp"
#endif

namespace tw::bench::tool {
namespace {

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool has_word(std::string_view device, const std::string& word) {
  std::string words = lower(std::string(device));
  std::ranges::replace(words, '-', ' ');
  std::istringstream stream(words);
  for (std::string one; stream >> one;)
    if (one == word) return true;
  return false;
}

}  // namespace

std::string of_length(const models::NetworkDescription& network, std::int64_t seq_len) {
  return network.has_sequence() ? fmt::format(" of {} {}", seq_len, models::sequence_unit(network.data().kind)) : "";
}

std::string device_named(const std::string& name) {
  std::vector<std::string> all, with_word;
  for (const results::VendorPeak& peak : results::vendor_peaks()) {
    if (lower(std::string(peak.device)) == lower(name)) return std::string(peak.device);
    all.emplace_back(peak.device);
    if (has_word(peak.device, lower(name))) with_word.emplace_back(peak.device);
  }
  if (with_word.size() == 1) return with_word.front();
  if (!with_word.empty())
    throw bad_value("on", name,
                    fmt::format("several devices have that word: use one of {}", fmt::join(with_word, "; ")));
  std::error_code ignored;
  const bool is_file = std::filesystem::exists(name, ignored);
  throw UsageError("unknown-name", "on",
                   fmt::format("{} '{}' is not in the list (known: {}); {}", key_ref("on"), models::cut_word(name),
                               fmt::join(all, ", "),
                               is_file ? "a file that trainwatt probe --json wrote is for trainwatt plan --on"
                                       : "another variant has other peaks"));
}

#if TW_HAVE_LEDGER
namespace {

using Json = nlohmann::ordered_json;
using results::text::si;

struct Rates {
  double flops_per_s, beside_linear_flops_per_s, bytes_per_s;
};
struct Time {
  double compute_s, memory_s;
  double least_s() const { return std::max(compute_s, memory_s); }
  const char* limit() const { return compute_s > memory_s ? "compute" : "memory"; }
};
Time time_of(const models::LedgerRow& row, models::Precision precision, const Rates& rates) {
  const bool is_beside_fp8 = precision == models::Precision::fp8 && row.math != models::Math::fp8;
  return {row.flops / (is_beside_fp8 ? rates.beside_linear_flops_per_s : rates.flops_per_s),
          row.bytes() / rates.bytes_per_s};
}

std::vector<std::string> precisions_of(const results::VendorPeak& device) {
  std::vector<std::string> all;
  for (const std::string& precision : precision_names())
    if (device.flops_per_s(precision)) all.push_back(precision);
  return all;
}

Rates rates_of(const results::VendorPeak& device, const std::string& precision) {
  const std::optional<double> flops = device.flops_per_s(precision);
  const std::optional<double> half = device.flops_per_s("bf16");
  if (!flops || (precision == "fp8" && !half))
    throw bad_value("precision", precision,
                    fmt::format("the list has no {} peak for {}: choose {}", precision, device.device,
                                fmt::join(precisions_of(device), ", ")));
  return {*flops, precision == "fp8" ? *half : *flops, device.bandwidth_gb_per_s * 1e9};
}

/// All rows of an operator, or of one of its kernels.
struct OperatorRow {
  std::string name;
  double calls = 0, flops = 0, bytes = 0, compute_bound_s = 0, least_s = 0;
  std::optional<double> measured_s{};
  std::vector<OperatorRow> kernels{};  ///< where there are several
  std::string limit() const {
    const double share = least_s > 0 ? compute_bound_s / least_s : 0;
    return share > 0.99 ? "compute" : share < 0.01 ? "memory" : "both";
  }
  void add(const models::LedgerRow& row, const Time& time) {
    flops += row.flops, bytes += row.bytes(), least_s += time.least_s();
    if (time.compute_s > time.memory_s) compute_bound_s += time.least_s();
  }
};

OperatorRow& row_named(std::vector<OperatorRow>& rows, const std::string& name) {
  const auto same = std::ranges::find(rows, name, &OperatorRow::name);
  return same != rows.end() ? *same : rows.emplace_back(OperatorRow{.name = name});
}

struct Measured {
  std::map<std::string, double> seconds{};  ///< of each operator
  bool is_direct = true;                    ///< false: an older report, which has the operators' shares only
};

/// The operators in a step of the report's point with a profile of this very step. Throws UsageError.
Measured measured(const LedgerRequest& request, const results::Report& report, const std::string& precision,
                  const results::VendorPeak& device) {
  for (const results::DeviceEntry& entry : report.context.devices)
    if (entry.name != device.device)
      throw UsageError("bad-value", fmt::format("--against {}: was measured on {}, not on {}", request.against,
                                                entry.name, device.device));
  std::vector<std::string> others;
  for (const results::Record& record : report.records) {
    const results::Workload& w = record.workload;
    const bool is_it = w.model == request.network.name && w.precision == precision &&
                       w.micro_batch == request.micro_batch && w.accumulate == request.accumulate &&
                       w.seq_len.value_or(0) == (request.network.has_sequence() ? request.seq_len : 0) &&
                       w.layers == request.layers && w.table_rows_at_most == request.table_rows_at_most;
    if (!is_it || record.summary.op_share.empty() || !record.summary.step_time_s) {
      others.push_back(record.id + (is_it ? " (without a profile)" : ""));
      continue;
    }
    if (record.summary.op_seconds) return {*record.summary.op_seconds, true};
    Measured by_share{.is_direct = false};
    for (const auto& [op, share] : record.summary.op_share)
      by_share.seconds[op] = share * record.summary.step_time_s->value;
    return by_share;
  }
  throw UsageError(
      "no-match", fmt::format("--against {}: no point with a profile of {}, {}, {} x {} samples{}: it has {}",
                              request.against, request.network.name, precision, request.micro_batch, request.accumulate,
                              of_length(request.network, request.seq_len),
                              others.empty() ? "no points" : results::text::join(others, ", ")));
}

struct Ledger {
  std::string precision;
  Rates rates;
  std::vector<models::LedgerRow> rows{};
  std::vector<Time> times{};  ///< of each row
  std::vector<OperatorRow> operators{};
  Measured measured{};
  double flops = 0, bytes = 0, least_s = 0, samples = 0, memory_bytes = 0;
};

/// `against`: null, or the report to compare with.
Ledger ledger_of(const LedgerRequest& request, const std::string& precision_name, const results::VendorPeak& device,
                 const results::Report* against) {
  const models::Precision precision = *models::parse_precision(precision_name);
  Ledger ledger{.precision = precision_name, .rates = rates_of(device, precision_name)};
  try {
    ledger.rows =
        models::ledger({request.network, precision, request.micro_batch, request.seq_len, request.accumulate});
    ledger.memory_bytes =
        models::least_memory(request.network, precision_name, request.micro_batch, request.seq_len, 0).total();
  } catch (const models::Error& error) {
    throw UsageError("bad-value", error.what());
  } catch (const std::invalid_argument& error) {
    throw UsageError("bad-value", error.what());
  }
  ledger.samples = static_cast<double>(request.micro_batch) * static_cast<double>(request.accumulate);
  if (against != nullptr) ledger.measured = measured(request, *against, precision_name, device);
  const std::map<std::string, double>& seconds = ledger.measured.seconds;
  for (const models::LedgerRow& row : ledger.rows) {
    const Time time = ledger.times.emplace_back(time_of(row, precision, ledger.rates));
    const std::string name = models::to_string(row.op);
    OperatorRow& whole = row_named(ledger.operators, name);
    if (const auto found = seconds.find(name); found != seconds.end()) whole.measured_s = found->second;
    whole.add(row, time);
    if (row.kernel.empty() || row.kernel == "product") whole.calls += row.calls;
    if (!row.kernel.empty()) {
      OperatorRow& kernel = row_named(whole.kernels, row.kernel);
      kernel.add(row, time);
      kernel.calls += row.calls;
    }
    ledger.flops += row.flops, ledger.bytes += row.bytes(), ledger.least_s += time.least_s();
  }
  std::ranges::stable_sort(ledger.operators, std::ranges::greater(), &OperatorRow::least_s);
  for (OperatorRow& row : ledger.operators)
    if (row.kernels.size() == 1) row.kernels.clear();
  return ledger;
}

Json json_of(const LedgerRequest& request, const results::VendorPeak& device, const Ledger& ledger) {
  Json json = {{"model", request.network.name}, {"device", device.device}, {"precision", ledger.precision}};
  json["micro_batch"] = request.micro_batch, json["accumulate"] = request.accumulate;
  json["seq_len"] = request.network.has_sequence() ? Json(request.seq_len) : Json();
  json["peak_flops_per_s"] = ledger.rates.flops_per_s;
  json["bandwidth_bytes_per_s"] = ledger.rates.bytes_per_s, json["source"] = device.sheet;
  json["least_step_s"] = ledger.least_s, json["most_samples_per_s"] = ledger.samples / ledger.least_s;
  json["most_mfu"] = ledger.flops / ledger.least_s / ledger.rates.flops_per_s;
  json["flops"] = ledger.flops, json["bytes"] = ledger.bytes, json["least_memory_bytes"] = ledger.memory_bytes;
  Json& operators = json["operators"] = Json::array();
  for (const OperatorRow& row : ledger.operators)
    operators.push_back({{"operator", row.name},
                         {"calls", row.calls},
                         {"flops", row.flops},
                         {"bytes", row.bytes},
                         {"least_s", row.least_s},
                         {"measured_s", row.measured_s ? Json(*row.measured_s) : Json()}});
  Json& shapes = json["shapes"] = Json::array();
  for (std::size_t i = 0; i < ledger.rows.size(); ++i) {
    const models::LedgerRow& row = ledger.rows[i];
    shapes.push_back({{"operator", models::to_string(row.op)},
                      {"kernel", row.kernel.empty() ? Json() : Json(row.kernel)},
                      {"shape", row.shape},
                      {"calls", row.calls},
                      {"flops", row.flops},
                      {"read_bytes", row.read},
                      {"written_bytes", row.written},
                      {"least_s", ledger.times[i].least_s()},
                      {"limit", ledger.times[i].limit()}});
  }
  return json;
}

/// The operators whose measured time is below the least.
std::vector<std::string> faster_than_least(const Ledger& ledger) {
  std::vector<std::string> names;
  for (const OperatorRow& row : ledger.operators)
    if (row.measured_s && *row.measured_s < row.least_s) names.push_back(row.name);
  return names;
}

Point point_of(const LedgerRequest& request, const std::string& precision) {
  Point point;
  point.network = request.network, point.precision = precision;
  point.micro_batch = request.micro_batch, point.accumulate = request.accumulate, point.seq_len = request.seq_len;
  return point;
}

void print(const LedgerRequest& request, const results::VendorPeak& device, const Ledger& ledger) {
  const auto line = [](const char* label, const std::string& value) { fmt::print("  {:<14}{}\n", label, value); };
  fmt::print("{} on {} in {}: at least {} per step\n", request.network.name, device.device, ledger.precision,
             results::text::duration(ledger.least_s));
  line("batch",
       fmt::format("micro-batch {} x {} accumulated = {:.0f} sample{}{}", request.micro_batch, request.accumulate,
                   ledger.samples, ledger.samples == 1 ? "" : "s", of_length(request.network, request.seq_len)));
  line("device",
       fmt::format("{}, {}/s of memory", si(ledger.rates.flops_per_s, "FLOP/s"), si(ledger.rates.bytes_per_s, "B")));
  line("source", std::string(device.sheet));
  if (!device.device.starts_with("NVIDIA "))
    line("note", "trainwatt does not train on this device; only its peaks are used");
  line("throughput",
       fmt::format("at most {} samples/s, MFU {} %", si(ledger.samples / ledger.least_s),
                   results::text::significant(100 * ledger.flops / ledger.least_s / ledger.rates.flops_per_s)));
  const double memory = device.memory_gb * (1 << 30);  // GiB, which sheets call GB
  line("memory",
       fmt::format("at least {} of {}{}", results::text::bytes(ledger.memory_bytes), results::text::bytes(memory),
                   ledger.memory_bytes > memory
                       ? ": does not fit; " +
                             advice_on_memory(point_of(request, ledger.precision), false, MemoryLimit{memory}, false)
                       : ""));
  fmt::print("\n");
  const bool has_measured = !request.against.empty();
  std::vector<std::vector<std::string>> table = {
      {"operator", "limit", "calls", "FLOP", "bytes", "least time", "share"}};
  if (has_measured) table.front().insert(table.front().end(), {"measured", "x least"});
  double total_measured = 0;
  const auto add = [&](const std::string& name, const std::string& limit, const std::string& calls, double flops,
                       double bytes, double least_s, std::optional<double> measured_s) {
    std::vector<std::string>& row = table.emplace_back(
        std::vector<std::string>{name, limit, calls, flops > 0 ? si(flops) : "-", si(bytes, "B"),
                                 results::text::duration(least_s), share_of(least_s, ledger.least_s)});
    if (!has_measured) return;
    row.push_back(measured_s ? results::text::duration(*measured_s) : "-");
    row.push_back(measured_s && least_s > 0 ? results::text::significant(*measured_s / least_s) : "-");
  };
  for (const OperatorRow& row : ledger.operators) {
    add(row.name, row.limit(), fmt::format("{:.0f}", row.calls), row.flops, row.bytes, row.least_s, row.measured_s);
    for (const OperatorRow& kernel : row.kernels)
      add("- " + kernel.name, kernel.limit(), fmt::format("{:.0f}", kernel.calls), kernel.flops, kernel.bytes,
          kernel.least_s, std::nullopt);
    total_measured += row.measured_s.value_or(0);
  }
  add("step", "", "", ledger.flops, ledger.bytes, ledger.least_s,
      has_measured ? std::optional(total_measured) : std::nullopt);
  print_table(table, 2);
  const std::size_t width = terminal_style().width;
  fmt::print("\n  {}\n", results::text::wrap(
                             "least time: FLOPs at the vendor's dense peak or bytes at the memory's bandwidth, "
                             "whichever takes longer; an operator's kernels run one after another, so their times are "
                             "added. Not included: generating samples, communication, workspaces and kernel launches. "
                             "This is a prediction, not a measurement.",
                             width, 2));
  fmt::print("  {}\n", results::text::wrap("limit: which of the two takes longer; both: compute for some of the "
                                           "operator's shapes, memory for others. A line that begins with \"-\" is a "
                                           "kernel of the operator above.",
                                           width, 2));
  if (has_measured)
    fmt::print("  {}\n",
               results::text::wrap(
                   ledger.measured.is_direct
                       ? "measured: the time of all calls of the operator in a profiled step, by events of the "
                         "device around each call"
                       : "measured: the operator's share of a profiled step, whose operators ran one by one, "
                         "x the mean step time of the trials (an older report, without op_seconds)",
                   width, 2));
  if (const std::vector<std::string> fast = faster_than_least(ledger); !fast.empty())
    fmt::print("  {}\n",
               results::text::wrap(
                   "faster than the least time: " + results::text::join(fast, ", ") +
                       ". That is possible while an operator's data stay in caches, or the clock is above that "
                       "of the vendor's peak; otherwise the report or its device is wrong.",
                   width, 2));
}

}  // namespace
#endif

void print_ledger(const LedgerRequest& request) {
#if TW_HAVE_LEDGER
  const results::VendorPeak& device = *results::find_vendor_peak(device_named(request.device));
  std::optional<LoadedReport> against;
  if (!request.against.empty()) against = load_report(request.against);
  std::vector<Ledger> ledgers;
  for (const std::string& precision : request.precisions)
    ledgers.push_back(ledger_of(request, precision, device, against ? &against->report : nullptr));
  if (against) say_findings(request.against, against->validation);
  if (request.json) {
    Json all = Json::array();
    for (const Ledger& ledger : ledgers) all.push_back(json_of(request, device, ledger));
    fmt::print("{}\n", Json{{"ledgers", std::move(all)}}.dump(2));
    return;
  }
  for (std::size_t i = 0; i < ledgers.size(); ++i) {
    if (i > 0) fmt::print("\n");
    print(request, device, ledgers[i]);
  }
#else
  static_cast<void>(request);
  throw EnvironmentError("unsupported",
                         "--on needs the operators of the networks, which this build does not have: configure it with "
                         "-DTRAINWATT_HPC=ON");
#endif
}

}  // namespace tw::bench::tool
