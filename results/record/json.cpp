// Records as JSON and back. Each struct's keys are listed once, for `describe`, which writer, reader and cleaner walk.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "results/record/fields.hpp"
#include "results/record/json_tree.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::ordered_json;  // for writing: keys stay in the order of `describe`
using Tree = nlohmann::json;          // for reading

std::string compact(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class T, class U>
concept Like = std::same_as<std::remove_const_t<T>, U>;

#define DESCRIBE(Type, ...) \
  void describe(auto& a, Like<Type> auto& value) { TW_FIELDS(a, value, __VA_ARGS__) }
DESCRIBE(Workload, model, layers, device, precision, micro_batch, accumulate, global_batch, seq_len, ranks,
         threads_per_rank, optimizer, seed, parameters, hash, table_rows_at_most, data)
DESCRIBE(SettingRow, host, domain, accepted, observed, reason)
DESCRIBE(Setting, requested, accepted, observed, devices, found_by, found_minimum, found_maximum)
DESCRIBE(StartTemperature, temperature_c, waited_s)
DESCRIBE(SeriesRow, host, domain, quantity, time_s, minimum, mean, maximum)
DESCRIBE(CounterRow, host, domain, quantity, change)
DESCRIBE(IdleRow, when, host, domain, scope, power_w, uncertainty_w, window_s, reason)
DESCRIBE(EnergyRow, scope, domain, host, method, energy_j, uncertainty_j, window_s, update_period_s, wraps, counted,
         reason, detail)
DESCRIBE(SettingChange, setting, host, domain, requested, time_s, expected, found)
DESCRIBE(Evaluation, step, time_s, loss, error)
DESCRIBE(TargetRun, seed, evaluation_s, evaluations)
DESCRIBE(ConvergenceReference, source, seeds, steps_mean, steps_sd, steps_low, steps_high)
DESCRIBE(Schedule, learning_rate, final_share, warmup_steps, decay_steps)
DESCRIBE(Target, task, metric, value, floor, held_out_samples, evaluation_interval, most_steps, schedule, reference,
         reference_reason, extrapolated_from, drawn_tokens)
DESCRIBE(Trial, samples, samples_s, first_step, window_s, start_s, clock_skew_s, steal_share, foreign_share, phase_s,
         step_time_s, loss, gradient_norm, energy, series, counters, setting_changes, sampler_cpu_share, target_run)
DESCRIBE(Estimate, value, low, high, statistic, count)
DESCRIBE(JobPrices, hour_price, kwh_price)
DESCRIBE(ToTarget, time_s, steps, samples, energy_j, reason, cost, cost_of_runs, cost_scope, cost_reason)
DESCRIBE(LossScaling, final_scale, skipped_steps)
DESCRIBE(Execution, step_mode, recompute, communicator, route, loss_scaling, recomputed_layers, deterministic,
         reduce_precision, implementations)
DESCRIBE(GpuUse, gpus, utilisation, sm_active, memory_used_bytes, memory_bytes, reason)
DESCRIBE(MicroBatchTrial, micro_batch, samples_per_s, reason)
DESCRIBE(MicroBatchSearch, trials, chosen, stopped_by)
DESCRIBE(Summary, samples_per_s, tokens_per_s, flops_per_s, step_time_s, step_time_p50_s, step_time_p90_s,
         step_time_p99_s, step_time_min_s, step_time_max_s, model_flops_per_sample, hardware_flops_per_sample,
         flops_rule, ceiling_flops_per_s, of_ceiling, of_ceiling_reason, peak_flops_per_s, mfu, mfu_reason, gpu,
         energy_j, flops_per_w, samples_per_j, energy_reason, loss_first, loss_last, loss_slope_per_step,
         peak_resident_bytes_per_rank, planned_bytes_per_rank, peak_device_memory_bytes_per_rank, op_share, op_seconds,
         to_target)
DESCRIBE(Verdict, status, flags, reasons)
DESCRIBE(WarmUp, step_time_s, window_s, start_s, loss)
DESCRIBE(Record, id, launch, workload, setting, start, target, prices, micro_batch_search, warm_up, trials, execution,
         summary, verdict)
DESCRIBE(HostInfo, name, cpu, hypervisor, container, sockets, cores, hardware_threads, usable_threads, numa_nodes,
         memory_bytes, kernel, os, cpu_governor, cpu_min_mhz, cpu_max_mhz, nics, steal_share_since_boot,
         cgroup_cpu_limit, cgroup_memory_limit_bytes, topology_xml_sha256)
DESCRIBE(DeviceEntry, rank, host, kind, name, uuid, instruction_set, threads, affinity, libraries, memory_bytes)
DESCRIBE(MeterEntry, host, domain, scope, method, available, counted, update_period_s, reason, detail)
DESCRIBE(Context, launch, run_index, started_at, finished_at, argv, environment, versions, launcher, hosts, devices,
         meters, idle_power, warnings)
DESCRIBE(Program, name, version, git_commit)
DESCRIBE(KitInfo, title, sha256)
void describe(auto& a, Like<PlanInfo> auto& p) {
  TW_FIELDS(a, p, suite);
  a.derived("sha256", sha256_hex(p.canonical_json));
  TW_FIELDS(a, p, canonical_json, kit);
}
DESCRIBE(RunPart, program, points, forced_over, context)
DESCRIBE(SearchOutcome, workload, merit, scope, max_slowdown, hour_price, kwh_price, points, measured, refused, found,
         best, merit_ratio, speed_ratio, reason)
void describe(auto& a, Like<Report> auto& r) {
  a.derived("schema_version", schema_version);
  TW_FIELDS(a, r, program, context, plan, parts, records, search);
}
void describe(auto& a, Like<RunStart> auto& r) {
  a.derived("schema_version", schema_version);
  TW_FIELDS(a, r, program, context, plan, command, config, parts, forced_over);
}
#undef DESCRIBE

class Writer {
 public:
  explicit Writer(Json& out) : out_(out) { out_ = Json::object(); }
  void operator()(const char* key, const auto& value) { write(out_[key], value); }
  void derived(const char* key, const std::string& value) { out_[key] = value; }
  /// No scope at all is null, not {}: there is nothing to look up.
  void operator()(const char* key, const ByScope& map) {
    out_[key] = nullptr;
    if (!map.empty()) write(out_[key], map);
  }

 private:
  template <class T>
  static void write(Json& j, const T& value) {
    if constexpr (std::same_as<T, double>) {
      j = std::isfinite(value) ? Json(value) : Json();  // JSON has no NaN; null is told apart by the verdict's reasons
    } else if constexpr (std::integral<T> || std::same_as<T, std::string>) {
      j = value;
    } else {
      Writer nested(j);
      describe(nested, value);
    }
  }
  static void write(Json& j, const Named auto& value) { j = to_string(value); }
  static void write(Json& j, const FlagName& value) { j = value.name; }
  static void write(Json& j, const SetPoint& value) {
    if (value.name.empty())
      write(j, value.number);
    else
      j = value.name;
  }
  template <class T>
  static void write(Json& j, const std::optional<T>& value) {
    j = nullptr;
    if (value) write(j, *value);
  }
  template <class T>
  static void write(Json& j, const std::vector<T>& values) {
    j = Json::array();
    for (const T& v : values) write(j.emplace_back(), v);
  }
  static const std::string& key_of(const std::string& key) { return key; }
  static std::string key_of(Named auto key) { return to_string(key); }
  template <class Key, class T>
  static void write(Json& j, const std::map<Key, T>& values) {
    j = Json::object();
    for (const auto& [key, v] : values) write(j[key_of(key)], v);
  }
  Json& out_;
};

/// Where a value is in the document. Its pointer is only written where something is wrong with the value.
struct Place {
  const Place* above = nullptr;  ///< null: the document itself
  std::string_view key{};        ///< in an object
  std::size_t index = 0;         ///< in an array, if there is no key

  std::string pointer() const {
    if (above == nullptr) return "";
    return above->pointer() + "/" + (key.data() == nullptr ? std::to_string(index) : std::string(key));
  }
};

class Reader {
 public:
  Reader(const Tree& in, const Place& place, UnknownNames unknown) : in_(in), place_(place), unknown_(unknown) {
    if (!in_.is_object()) fail(in_, place_, "an object");
  }
  template <class T>
  void operator()(const char* key, T& value) {
    const auto found = in_.find(key);
    if (found == in_.end()) throw std::runtime_error(place_name(place_) + ": key \"" + key + "\" is missing");
    read(*found, {&place_, key}, value);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    const auto found = in_.find(key);
    if (found == in_.end())
      value.reset();
    else
      read(*found, {&place_, key}, value);
  }
  void derived(const char*, const std::string&) {}
  void operator()(const char* key, ByScope& map) {
    const auto found = in_.find(key);
    map.clear();
    if (found != in_.end() && !found->is_null()) read(*found, {&place_, key}, map);
  }

 private:
  static std::string place_name(const Place& place) {
    const std::string pointer = place.pointer();
    return pointer.empty() ? "the document" : pointer;
  }
  [[noreturn]] static void fail(const Tree& j, const Place& place, const char* expected) {
    throw std::runtime_error(place_name(place) + ": expected " + expected + ", found " + j.type_name());
  }
  void read(const Tree& j, const Place& place, double& value) {
    if (j.is_null())
      value = std::numeric_limits<double>::quiet_NaN();
    else if (j.is_number())
      value = j.get<double>();
    else
      fail(j, place, "a number");
  }
  void read(const Tree& j, const Place& place, SetPoint& value) {
    if (j.is_string())
      read(j, place, value.name);
    else
      read(j, place, value.number);
  }
  void read(const Tree& j, const Place& place, bool& value) {
    if (!j.is_boolean()) fail(j, place, "true or false");
    value = j.get<bool>();
  }
  void read(const Tree& j, const Place& place, std::string& value) {
    if (!j.is_string()) fail(j, place, "a string");
    value = j.get<std::string>();
  }
  void read(const Tree& j, const Place& place, FlagName& value) { read(j, place, value.name); }
  template <Named E>
  void read(const Tree& j, const Place& place, E& value) {
    std::string name;
    read(j, place, name);
    if (const std::optional<E> found = named<E>(name)) {
      value = *found;
    } else if (unknown_ == UnknownNames::refused) {
      std::string all;
      for (const char* one : name_list<E>) all += std::string(all.empty() ? "" : ", ") + compact(one);
      throw std::runtime_error(place.pointer() + ": expected one of " + all + ", found " + compact(name).substr(0, 40));
    }
  }
  template <std::integral T>
  void read(const Tree& j, const Place& place, T& value) {
    if (!j.is_number_integer()) fail(j, place, "an integer");
    const bool fits =
        j.is_number_unsigned() ? std::in_range<T>(j.get<std::uint64_t>()) : std::in_range<T>(j.get<std::int64_t>());
    if (!fits) throw std::runtime_error(place.pointer() + ": " + j.dump() + " is out of range");
    value = j.get<T>();
  }
  template <class T>
  void read(const Tree& j, const Place& place, std::optional<T>& value) {
    value.reset();
    if (!j.is_null()) read(j, place, value.emplace());
  }
  template <class T>
  void read(const Tree& j, const Place& place, std::vector<T>& values) {
    if (!j.is_array()) fail(j, place, "an array");
    values.clear();
    values.reserve(j.size());
    for (const Tree& item : j) {
      if constexpr (std::same_as<T, double>)
        if (item.is_number()) {  // of millions, without the name of each
          values.push_back(item.get<double>());
          continue;
        }
      values.emplace_back();
      read(item, {&place, {}, values.size() - 1}, values.back());
    }
  }
  template <class T>
  void read(const Tree& j, const Place& place, std::map<std::string, T>& values) {
    if (!j.is_object()) fail(j, place, "an object");
    values.clear();
    for (const auto& [key, item] : j.items()) read(item, {&place, key}, values[key]);
  }
  template <Named Key, class T>
  void read(const Tree& j, const Place& place, std::map<Key, T>& values) {
    if (!j.is_object()) fail(j, place, "an object");
    values.clear();
    for (const auto& [name, item] : j.items()) {
      Key key{};
      read(Tree(name), {&place, name}, key);
      read(item, {&place, name}, values[key]);
    }
  }
  template <class T>
  requires std::is_class_v<T>
  void read(const Tree& j, const Place& place, T& value) {
    Reader nested(j, place, unknown_);
    describe(nested, value);
  }
  const Tree& in_;
  const Place& place_;
  UnknownNames unknown_;
};

/// Walks a struct like the writer and makes its strings safe to print.
class Cleaner {
 public:
  void operator()(const char*, auto& value) { clean(value); }
  void derived(const char*, const std::string&) {}

 private:
  static void clean(std::string& value) { value = text::printable(value); }
  static void clean(SetPoint& value) { clean(value.name); }
  static void clean(FlagName& value) { clean(value.name); }
  template <class T>
  static void clean(std::optional<T>& value) {
    if (value) clean(*value);
  }
  template <class T>
  static void clean(std::vector<T>& values) {
    for (T& value : values) clean(value);
  }
  template <class T>
  static void clean(std::map<std::string, T>& values) {
    std::map<std::string, T> cleaned;
    for (auto& [key, value] : values) {
      clean(value);
      cleaned.emplace(text::printable(key), std::move(value));
    }
    values = std::move(cleaned);
  }
  template <Named Key, class T>
  static void clean(std::map<Key, T>& values) {
    for (auto& [key, value] : values) clean(value);
  }
  template <class T>
  static void clean(T& value) {
    if constexpr (std::is_class_v<T>) {
      Cleaner nested;
      describe(nested, value);
    }
  }
};

constexpr std::size_t line_width = 120;

/// Like dump(2), but for people: flat objects that fit stay on one line, and lists of numbers fill their lines.
void pretty(std::string& out, const Json& j, std::size_t indent) {
  if (!j.is_structured() || j.empty()) {
    out += compact(j);
    return;
  }
  const bool object = j.is_object();
  std::vector<std::string> items;
  std::size_t width = 2;
  for (const auto& [key, value] : j.items()) {
    std::string& item = items.emplace_back(object ? compact(Json(key)) + ": " : "");
    pretty(item, value, indent + 2);
    width += item.size() + 2;
  }
  const bool flat = std::ranges::none_of(j, [](const Json& item) { return item.is_structured() && !item.empty(); });
  // The key before an object may take some 30 columns.
  const bool one_line = flat && indent + width + (object ? 30 : 0) <= line_width;
  const std::string margin(indent + 2, ' ');
  out += object ? '{' : '[';
  std::size_t column = line_width;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool fill = one_line || (!object && flat && column + items[i].size() + 2 <= line_width);
    if (fill && i > 0) out += ' ';
    if (!fill) {
      out += '\n' + margin;
      column = margin.size();
    }
    out += items[i];
    if (i + 1 < items.size()) out += ',';
    column += items[i].size() + 2;
  }
  if (!one_line) out += '\n' + std::string(indent, ' ');
  out += object ? '}' : ']';
}
std::string pretty(const Json& j) {
  std::string out;
  pretty(out, j, 0);
  return out + '\n';
}

Json to_tree(const auto& value) {
  Json tree;
  Writer writer(tree);
  describe(writer, value);
  return tree;
}

constexpr std::size_t deepest = 64;  // a report has some 8 levels; the library's copies and writes recurse
constexpr std::size_t most_values = std::size_t{1} << 24;  // an hour at a thousand steps a second has 11 million
constexpr std::size_t most_keys = std::size_t{1} << 16;    // of one object

/// Builds the tree of a text, up to the first fault.
class Builder : public Tree::json_sax_t {
 public:
  Builder(Tree& tree, const std::string& text)
      : tree_(tree), size_(text.size()), is_blank_(text.find_first_not_of(" \t\r\n") == std::string::npos) {}
  std::string fault;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Tree::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Tree::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    auto& object = open_.back()->get_ref<Tree::object_t&>();
    if (object.size() == most_keys) {
      fault = "more than " + std::to_string(most_keys) + " keys in one object";
      return false;
    }
    const auto [place, is_new] = object.try_emplace(key);
    if (!is_new) fault = "key \"" + key + "\" occurs twice in one object";
    of_key_ = &place->second;
    return is_new;
  }
  bool parse_error(std::size_t position, const std::string& token, const Tree::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: …": the part for people starts after "at ".
    const std::string what = error.what();
    const auto at = what.find(" at ");
    const bool is_too_large = dynamic_cast<const Tree::out_of_range*>(&error) != nullptr;
    if (position > size_ && !is_too_large) {  // it asked for more
      fault = size_ == 0  ? "the file is empty"
              : is_blank_ ? "the file has only blanks"
                          : "the text is cut off after " + std::to_string(size_) +
                                " bytes, probably because a copy was interrupted";
      return false;
    }
    fault = is_too_large              ? "byte " + std::to_string(position) + ": number " + token + " is out of range"
            : at == std::string::npos ? "byte " + std::to_string(position) + ": syntax error"
                                      : what.substr(at + 4);
    return false;
  }

 private:
  /// Puts a value where the text has it; null where there are too many.
  Tree* put(Tree&& value) {
    if (++values_ > most_values) {
      fault = "more than " + std::to_string(most_values) + " values";
      return nullptr;
    }
    if (open_.empty()) return &(tree_ = std::move(value));
    if (open_.back()->is_object()) return &(*of_key_ = std::move(value));
    return &open_.back()->get_ref<Tree::array_t&>().emplace_back(std::move(value));
  }
  bool add(Tree&& value) { return put(std::move(value)) != nullptr; }
  bool open(Tree&& empty) {
    if (open_.size() == deepest) {
      fault = "more than " + std::to_string(deepest) + " levels";
      return false;
    }
    Tree* const placed = put(std::move(empty));
    if (placed != nullptr) open_.push_back(placed);
    return placed != nullptr;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  Tree& tree_;
  std::size_t size_;  ///< of the text
  bool is_blank_;
  std::size_t values_ = 0;
  std::vector<Tree*> open_;  ///< the objects and arrays around; each is the last value of the one above it
  Tree* of_key_ = nullptr;
};

/// By its byte order mark; without one JSON begins with two ASCII characters, each with a NUL beside it.
bool is_utf16(const std::string& text) {
  const auto is_nul = [&](std::size_t i) { return text[i] == '\0'; };
  return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
         (text.size() >= 4 && is_nul(0) != is_nul(1) && is_nul(0) == is_nul(2) && is_nul(1) == is_nul(3));
}

Tree parse(const std::string& text) {
  Tree tree;
  if (const std::string fault = parse_json(text, tree); !fault.empty()) throw std::runtime_error("not JSON: " + fault);
  return tree;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

template <class T>
T from_tree(const Tree& tree, UnknownNames unknown) {
  T value;
  const Place document;
  Reader reader(tree, document, unknown);
  describe(reader, value);
  return value;
}

template <class T>
T versioned(const Tree& tree, const std::string& what, UnknownNames unknown) {
  if (!tree.is_object()) throw std::runtime_error("not a " + what + ": the document is " + tree.type_name());
  const auto version = tree.find("schema_version");
  if (version == tree.end()) throw std::runtime_error("not a " + what + ": key \"schema_version\" is missing");
  if (!version->is_string())
    throw std::runtime_error("/schema_version: is " + compact(*version).substr(0, 40) + ", not a string: must be \"" +
                             schema_version + "\"");
  if (const std::string why = version_obstacle(version->get<std::string>(), schema_version); !why.empty())
    throw std::runtime_error("/schema_version: " + why);
  return from_tree<T>(tree, unknown);
}

}  // namespace

std::string parse_json(const std::string& text, nlohmann::json& tree, bool comments) {
  if (is_utf16(text)) return "the file is UTF-16: save it as UTF-8";
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos)  // where the library would end the text
    return "byte " + std::to_string(nul + 1) + ": control character NUL";
  Builder builder(tree, text);
  Tree::sax_parse(text, &builder, Tree::input_format_t::json, true, comments);
  return builder.fault;
}

std::string json_fault(const std::string& text, bool comments) {
  Tree tree;
  return parse_json(text, tree, comments);
}

bool holds_record_lines(const std::string& text) {
  constexpr const char* blank = " \t\r\n";
  const std::size_t open = text.find_first_not_of(blank),
                    key = open == std::string::npos ? open : text.find_first_not_of(blank, open + 1);
  if (key != std::string::npos && text.compare(key, 17, "\"schema_version\":") == 0) return false;  // as we write it
  const std::string first = text.substr(0, text.find('\n'));
  Tree line;
  if (!parse_json(first, line).empty()) return false;
  return line.is_object() && line.contains("workload") && !line.contains("schema_version");
}

RecordLines record_lines(const std::string& text, UnknownNames unknown) {
  RecordLines found;
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i + 1 == lines.size() && !text.ends_with('\n')) {  // each line is written with its end
      found.torn = true;
      break;
    }
    try {
      found.records.push_back(from_tree<Record>(parse(lines[i]), unknown));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("line " + std::to_string(i + 1) + ": " + error.what());
    }
  }
  return found;
}

Report printable(Report report) {
  Cleaner cleaner;
  describe(cleaner, report);
  return report;
}

std::string to_json(const Report& report) { return pretty(to_tree(report)); }
std::string to_json(const RunStart& start) { return pretty(to_tree(start)); }

std::string to_json_line(const Record& record) { return compact(to_tree(record)); }
std::string to_json_line(const HostInfo& host) { return compact(to_tree(host)); }
std::string to_json_line(const DeviceEntry& device) { return compact(to_tree(device)); }

Report report_from_json(const std::string& text, UnknownNames unknown) {
  return report_from_tree(parse(text), unknown);
}

Report report_from_tree(const nlohmann::json& tree, UnknownNames unknown) {
  return versioned<Report>(tree, "report", unknown);
}

RunStart run_start_from_json(const std::string& text) {
  return versioned<RunStart>(parse(text), "run", UnknownNames::refused);
}

Record record_from_json(const std::string& text) { return from_tree<Record>(parse(text), UnknownNames::refused); }
HostInfo host_from_json(const std::string& text) { return from_tree<HostInfo>(parse(text), UnknownNames::refused); }
DeviceEntry device_from_json(const std::string& text) {
  return from_tree<DeviceEntry>(parse(text), UnknownNames::refused);
}

}  // namespace tw::results
