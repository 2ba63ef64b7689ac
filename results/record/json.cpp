// Records as JSON and back. Each struct's keys stand once, in `describe`, which both the writer and the reader walk.
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

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

void describe(auto& a, Like<Workload> auto& w) {
  a("model", w.model), a("layers", w.layers), a("device", w.device), a("precision", w.precision);
  a("micro_batch", w.micro_batch), a("accumulate", w.accumulate), a("global_batch", w.global_batch);
  a("seq_len", w.seq_len), a("ranks", w.ranks), a("threads_per_rank", w.threads_per_rank);
  a("optimizer", w.optimizer), a("seed", w.seed), a("parameters", w.parameters), a("hash", w.hash);
}
void describe(auto& a, Like<SettingRow> auto& s) {
  a("host", s.host), a("domain", s.domain), a("accepted", s.accepted), a("observed", s.observed);
  a("reason", s.reason);
}
void describe(auto& a, Like<Setting> auto& s) {
  a("requested", s.requested), a("accepted", s.accepted), a("observed", s.observed), a("devices", s.devices);
  a("found_by", s.found_by), a("found_minimum", s.found_minimum), a("found_maximum", s.found_maximum);
}
void describe(auto& a, Like<StartTemperature> auto& s) {
  a("temperature_c", s.temperature_c), a("waited_s", s.waited_s);
}
void describe(auto& a, Like<SeriesRow> auto& s) {
  a("host", s.host), a("domain", s.domain), a("quantity", s.quantity);
  a("time_s", s.time_s), a("minimum", s.minimum), a("mean", s.mean), a("maximum", s.maximum);
}
void describe(auto& a, Like<CounterRow> auto& c) {
  a("host", c.host), a("domain", c.domain), a("quantity", c.quantity), a("change", c.change);
}
void describe(auto& a, Like<IdleRow> auto& i) {
  a("when", i.when), a("host", i.host), a("domain", i.domain), a("scope", i.scope);
  a("power_w", i.power_w), a("uncertainty_w", i.uncertainty_w), a("window_s", i.window_s), a("reason", i.reason);
}
void describe(auto& a, Like<EnergyRow> auto& e) {
  a("scope", e.scope), a("domain", e.domain), a("host", e.host), a("method", e.method);
  a("energy_j", e.energy_j), a("uncertainty_j", e.uncertainty_j), a("window_s", e.window_s);
  a("update_period_s", e.update_period_s), a("wraps", e.wraps), a("counted", e.counted), a("reason", e.reason);
  a("detail", e.detail);
}
void describe(auto& a, Like<SettingChange> auto& c) {
  a("setting", c.setting), a("host", c.host), a("domain", c.domain), a("requested", c.requested);
  a("time_s", c.time_s), a("expected", c.expected), a("found", c.found);
}
void describe(auto& a, Like<Evaluation> auto& e) {
  a("step", e.step), a("time_s", e.time_s), a("loss", e.loss), a("error", e.error);
}
void describe(auto& a, Like<TargetRun> auto& t) {
  a("seed", t.seed), a("evaluation_s", t.evaluation_s), a("evaluations", t.evaluations);
}
void describe(auto& a, Like<ConvergenceReference> auto& c) {
  a("source", c.source), a("seeds", c.seeds), a("steps_mean", c.steps_mean), a("steps_sd", c.steps_sd);
  a("steps_low", c.steps_low), a("steps_high", c.steps_high);
}
void describe(auto& a, Like<Schedule> auto& s) {
  a("learning_rate", s.learning_rate), a("final_share", s.final_share), a("warmup_steps", s.warmup_steps);
  a("decay_steps", s.decay_steps);
}
void describe(auto& a, Like<Target> auto& t) {
  a("task", t.task), a("metric", t.metric), a("value", t.value), a("floor", t.floor);
  a("held_out_samples", t.held_out_samples), a("evaluation_interval", t.evaluation_interval);
  a("most_steps", t.most_steps), a("schedule", t.schedule), a("reference", t.reference);
  a("reference_reason", t.reference_reason);
}
void describe(auto& a, Like<Trial> auto& t) {
  a("samples", t.samples), a("samples_s", t.samples_s), a("first_step", t.first_step), a("window_s", t.window_s);
  a("start_s", t.start_s), a("clock_skew_s", t.clock_skew_s);
  a("steal_share", t.steal_share), a("foreign_share", t.foreign_share), a("phase_s", t.phase_s);
  a("step_time_s", t.step_time_s), a("loss", t.loss), a("gradient_norm", t.gradient_norm), a("energy", t.energy);
  a("series", t.series), a("counters", t.counters), a("setting_changes", t.setting_changes);
  a("sampler_cpu_share", t.sampler_cpu_share);
  a("target_run", t.target_run);
}
void describe(auto& a, Like<Estimate> auto& e) {
  a("value", e.value), a("low", e.low), a("high", e.high), a("statistic", e.statistic), a("count", e.count);
}
void describe(auto& a, Like<JobPrices> auto& p) { a("hour_price", p.hour_price), a("kwh_price", p.kwh_price); }
void describe(auto& a, Like<ToTarget> auto& t) {
  a("time_s", t.time_s), a("steps", t.steps), a("samples", t.samples), a.scopes("energy_j", t.energy_j);
  a("reason", t.reason), a("cost", t.cost), a("cost_of_runs", t.cost_of_runs), a("cost_scope", t.cost_scope);
  a("cost_reason", t.cost_reason);
}
void describe(auto& a, Like<LossScaling> auto& l) {
  a("final_scale", l.final_scale), a("skipped_steps", l.skipped_steps);
}
void describe(auto& a, Like<Execution> auto& e) {
  a("step_mode", e.step_mode), a("recompute", e.recompute), a("communicator", e.communicator), a("route", e.route);
  a("loss_scaling", e.loss_scaling), a("recomputed_layers", e.recomputed_layers);
  a("deterministic", e.deterministic), a("implementations", e.implementations);
}
void describe(auto& a, Like<GpuUse> auto& g) {
  a("gpus", g.gpus), a("utilisation", g.utilisation), a("sm_active", g.sm_active);
  a("memory_used_bytes", g.memory_used_bytes), a("memory_bytes", g.memory_bytes), a("reason", g.reason);
}
void describe(auto& a, Like<MicroBatchTrial> auto& t) {
  a("micro_batch", t.micro_batch), a("samples_per_s", t.samples_per_s), a("reason", t.reason);
}
void describe(auto& a, Like<MicroBatchSearch> auto& m) {
  a("trials", m.trials), a("chosen", m.chosen), a("stopped_by", m.stopped_by);
}
void describe(auto& a, Like<Summary> auto& s) {
  a("samples_per_s", s.samples_per_s), a("tokens_per_s", s.tokens_per_s), a("flops_per_s", s.flops_per_s);
  a("step_time_s", s.step_time_s), a("step_time_p50_s", s.step_time_p50_s), a("step_time_p90_s", s.step_time_p90_s);
  a("step_time_p99_s", s.step_time_p99_s), a("step_time_min_s", s.step_time_min_s);
  a("step_time_max_s", s.step_time_max_s), a("model_flops_per_sample", s.model_flops_per_sample);
  a("hardware_flops_per_sample", s.hardware_flops_per_sample);
  a("flops_rule", s.flops_rule), a("ceiling_flops_per_s", s.ceiling_flops_per_s), a("of_ceiling", s.of_ceiling);
  a("of_ceiling_reason", s.of_ceiling_reason), a("peak_flops_per_s", s.peak_flops_per_s), a("mfu", s.mfu);
  a("mfu_reason", s.mfu_reason), a("gpu", s.gpu);
  a.scopes("energy_j", s.energy_j), a.scopes("flops_per_w", s.flops_per_w), a.scopes("samples_per_j", s.samples_per_j);
  a("energy_reason", s.energy_reason), a("loss_first", s.loss_first), a("loss_last", s.loss_last);
  a("loss_slope_per_step", s.loss_slope_per_step);
  a("peak_resident_bytes_per_rank", s.peak_resident_bytes_per_rank);
  a("planned_bytes_per_rank", s.planned_bytes_per_rank);
  a("peak_device_memory_bytes_per_rank", s.peak_device_memory_bytes_per_rank), a("op_share", s.op_share);
  a("to_target", s.to_target);
}
void describe(auto& a, Like<Verdict> auto& v) { a("status", v.status), a("flags", v.flags), a("reasons", v.reasons); }
void describe(auto& a, Like<Record> auto& r) {
  a("id", r.id), a("launch", r.launch), a("workload", r.workload), a("setting", r.setting), a("start", r.start),
      a("target", r.target), a("prices", r.prices), a("micro_batch_search", r.micro_batch_search);
  a("trials", r.trials), a("execution", r.execution);
  a("summary", r.summary), a("verdict", r.verdict);
}
void describe(auto& a, Like<HostInfo> auto& h) {
  a("name", h.name), a("cpu", h.cpu), a("hypervisor", h.hypervisor), a("container", h.container);
  a("sockets", h.sockets), a("cores", h.cores), a("hardware_threads", h.hardware_threads);
  a("usable_threads", h.usable_threads), a("numa_nodes", h.numa_nodes), a("memory_bytes", h.memory_bytes), a("kernel", h.kernel), a("os", h.os);
  a("cpu_governor", h.cpu_governor), a("cpu_min_mhz", h.cpu_min_mhz), a("cpu_max_mhz", h.cpu_max_mhz);
  a("nics", h.nics), a("steal_share_since_boot", h.steal_share_since_boot);
  a("cgroup_cpu_limit", h.cgroup_cpu_limit), a("cgroup_memory_limit_bytes", h.cgroup_memory_limit_bytes);
  a("topology_xml_sha256", h.topology_xml_sha256);
}
void describe(auto& a, Like<DeviceEntry> auto& d) {
  a("rank", d.rank), a("host", d.host), a("kind", d.kind), a("name", d.name), a("uuid", d.uuid);
  a("instruction_set", d.instruction_set), a("threads", d.threads), a("affinity", d.affinity);
  a("libraries", d.libraries), a("memory_bytes", d.memory_bytes);
}
void describe(auto& a, Like<MeterEntry> auto& m) {
  a("host", m.host), a("domain", m.domain), a("scope", m.scope), a("method", m.method);
  a("available", m.available), a("counted", m.counted), a("update_period_s", m.update_period_s);
  a("reason", m.reason), a("detail", m.detail);
}
void describe(auto& a, Like<Context> auto& c) {
  a("launch", c.launch), a("run_index", c.run_index), a("started_at", c.started_at), a("finished_at", c.finished_at);
  a("argv", c.argv);
  a("environment", c.environment), a("versions", c.versions), a("launcher", c.launcher), a("hosts", c.hosts);
  a("devices", c.devices), a("meters", c.meters), a("idle_power", c.idle_power), a("warnings", c.warnings);
}
void describe(auto& a, Like<Program> auto& p) {
  a("name", p.name), a("version", p.version), a("git_commit", p.git_commit);
}
void describe(auto& a, Like<KitInfo> auto& k) { a("title", k.title), a("sha256", k.sha256); }
void describe(auto& a, Like<PlanInfo> auto& p) {
  a("suite", p.suite), a.derived("sha256", sha256_hex(p.canonical_json)), a("canonical_json", p.canonical_json);
  a("kit", p.kit);
}
void describe(auto& a, Like<RunPart> auto& p) {
  a("program", p.program), a("points", p.points), a("forced_over", p.forced_over), a("context", p.context);
}
void describe(auto& a, Like<SearchOutcome> auto& s) {
  a("workload", s.workload), a("merit", s.merit), a("scope", s.scope), a("max_slowdown", s.max_slowdown);
  a("hour_price", s.hour_price), a("kwh_price", s.kwh_price), a("points", s.points), a("measured", s.measured), a("refused", s.refused);
  a("found", s.found), a("best", s.best), a("merit_ratio", s.merit_ratio), a("speed_ratio", s.speed_ratio);
  a("reason", s.reason);
}
void describe(auto& a, Like<Report> auto& r) {
  a.derived("schema_version", schema_version);
  a("program", r.program), a("context", r.context), a("plan", r.plan), a("parts", r.parts), a("records", r.records);
  a("search", r.search);
}
void describe(auto& a, Like<RunStart> auto& r) {
  a.derived("schema_version", schema_version);
  a("program", r.program), a("context", r.context), a("plan", r.plan), a("command", r.command), a("config", r.config);
  a("parts", r.parts), a("forced_over", r.forced_over);
}

class Writer {
 public:
  explicit Writer(Json& out) : out_(out) { out_ = Json::object(); }
  void operator()(const char* key, const auto& value) { write(out_[key], value); }
  void derived(const char* key, const std::string& value) { out_[key] = value; }
  /// No scope at all is null, not {}: there is nothing to look up.
  void scopes(const char* key, const ByScope& map) {
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
  void scopes(const char* key, ByScope& map) {
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
  void scopes(const char*, ByScope& map) { clean(map); }

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
  // An object stands behind its key, which may take some 30 columns.
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
  Builder(Tree& tree, std::size_t size) : tree_(tree), size_(size) {}
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
      fault = size_ == 0 ? "the file is empty"
                         : "the text is cut off after " + std::to_string(size_) +
                               " bytes, probably because a copy was interrupted: copy or write the file again";
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
  std::size_t values_ = 0;
  std::vector<Tree*> open_;  ///< the objects and arrays around; each is the last value of the one above it
  Tree* of_key_ = nullptr;
};

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
  if (!tree.is_object()) throw std::runtime_error("not a " + what + ": the document is " + std::string(tree.type_name()));
  const auto version = tree.find("schema_version");
  if (version == tree.end()) throw std::runtime_error("not a " + what + ": key \"schema_version\" is missing");
  if (!version->is_string())
    throw std::runtime_error("/schema_version: is " + compact(*version).substr(0, 40) +
                             ", not a string: must be \"" + schema_version + "\"");
  if (const std::string why = version_obstacle(version->get<std::string>(), schema_version); !why.empty())
    throw std::runtime_error("/schema_version: " + why);
  return from_tree<T>(tree, unknown);
}

}  // namespace

std::string parse_json(const std::string& text, nlohmann::json& tree, bool comments) {
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos)  // where the library would end the text
    return "byte " + std::to_string(nul + 1) + ": control character NUL";
  Builder builder(tree, text.size());
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
