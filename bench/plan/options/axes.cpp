#include "bench/plan/options/axes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/plan/options/request.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {
namespace {

using Json = nlohmann::json;

// More than anybody trains with; products of sizes below these do not overflow.
constexpr std::int64_t most_int = INT32_MAX, most_micro_batch = 1 << 24, most_accumulate = 1 << 16,
                       most_global_batch = std::int64_t{1} << 31;

// Of a regular expression.
constexpr const char* number_pattern = R"(([0-9]+(\.[0-9]*)?|\.[0-9]+))";

ValueType share_of_a_range() {
  return value_like(R"(a share of the clock range of the training device, such as "60%" or "40%:100%:20%")",
                    Json({{"type", "string"}, {"pattern", fmt::format("^{0}%(:{0}%:{0}%)?$", number_pattern)}}).dump());
}

ValueType set_point(power::KnobKind kind) {
  if (const std::vector<std::string>& names = power::names_of(kind); !names.empty()) {
    std::vector<std::string> words = names;
    words.insert(words.begin(), "found");
    return value_like("the name of a governor, or \"found\"", Json({{"enum", words}}).dump());
  }
  const char* unit = std::string_view(power::to_string(kind)).ends_with("_w") ? "W" : "MHz";
  const Json value = Json::parse(number_above_0(largest_set_point).schema);
  const std::string pattern = fmt::format("^(found|{0}%?|{0}:{0}:{0}|{0}%:{0}%:{0}%)$", number_pattern);
  return value_like(
      fmt::format(R"(a number above 0 ({}), a share of the range such as "60%", "min:max:step" or "found")", unit),
      Json({value, {{"type", "string"}, {"pattern", pattern}}}).dump());
}

std::vector<Axis> made_list() {
  constexpr const char* what = "Workload";
  std::vector<Axis> list = {
      {"model", what, "network(s); trainwatt models lists them",
       value_like("the name of a network", R"({"type": "string", "minLength": 1})"), &Axes::model},
      {"layers", what, "keep only the first N layers", whole_number(1, most_int), &Axes::layers},
      {"table_rows_at_most", what, "cut the tables of a recommendation network to N rows", whole_number(2, most_int),
       &Axes::table_rows_at_most},
      {"precision", what,
       "float32 (default), tf32, float32_bf16, bf16, fp16, fp8; what the\ndevice lacks is recorded as unsupported",
       one_of(precision_names()), &Axes::precision},
      {"micro_batch", what,
       "samples per rank and pass; auto: the smallest power of two\nwhose doubling gains less than 2 %. With "
       "--config or\n--suite: the size, if the plan leaves it open (auto)",
       whole_number_or("auto", most_micro_batch), &Axes::micro_batch},
      {"accumulate", what, "micro-batches per optimizer step (default 1)", whole_number(1, most_accumulate),
       &Axes::accumulate},
      {"global_batch", what, "samples per optimizer step over all ranks, in place of\n--micro-batch or --accumulate",
       whole_number(1, most_global_batch), &Axes::global_batch},
      {"seq_len", what, "tokens per sample", whole_number(1), &Axes::seq_len},
      {"ranks", what,
       "number of the job's ranks that train (default: all); the\nothers are idle. scaling: 1, half and all",
       whole_number_or("scaling", most_int), &Axes::ranks},
      {"clock", nullptr, "", share_of_a_range(), &Axes::clock}};
  for (const SettingAxis& axis : setting_axes())
    list.push_back({axis.key, settings_group, axis.help, set_point(axis.kind), axis.kind});
  return list;
}

constexpr double most_values = 1000;

double number(const std::string& key, const std::string& text, const std::string& part) {
  const std::optional<double> value = number_in<double>(part);
  if (!value) throw bad_value(key, text, "must be a number, minimum:maximum:step, or found");
  if (!(*value > 0 && *value <= largest_set_point)) throw bad_value(key, text, "must be above 0 (maximum 1000000)");
  return *value;
}

}  // namespace

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"float32", "tf32", "float32_bf16", "bf16", "fp16", "fp8"};
  return names;
}

const std::vector<std::string>& communicator_names() {
  static const std::vector<std::string> names = {
#define TW_COMMUNICATOR(name, description) #name,
#include "comm/communicators.def"
  };
  return names;
}

bool is_deterministic_by_default(const std::string& device) { return device != "cpu"; }

const std::vector<Axis>& axes_list() {
  static const std::vector<Axis> list = made_list();
  return list;
}

const Axis* find_axis(const std::string& key) {
  const auto found = std::ranges::find(axes_list(), key, &Axis::key);
  return found == axes_list().end() ? nullptr : &*found;
}

std::size_t count_values(const Axis& axis, const Axes& axes) {
  return with_values(axis, axes, [](const auto& values) { return values.size(); });
}

bool has_settings(const Axes& axes) {
  return std::ranges::any_of(axes.setting, [](const auto& axis) { return !axis.second.empty(); });
}

void check_axes(const Axes& axes) {
  for (const Axis& axis : axes_list())
    with_values(axis, axes, [&](const auto& values) {
      for (const auto& value : values) {
        if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>)
          check_value(axis.key, axis.type, static_cast<std::int64_t>(value));
        else if (const auto* kind = std::get_if<power::KnobKind>(&axis.values); kind == nullptr)
          check_value(axis.key, axis.type, value);
        else if (!power::names_of(*kind).empty() || parse_shares(axis.key, value).empty())
          parse_set_points(*kind, axis.key, value);
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
          if (std::string_view(axis.key) == "clock" && parse_shares(axis.key, value).empty())
            throw bad_value(axis.key, value, "must be " + axis.type.wanted);
      }
    });
}

const std::vector<SettingAxis>& setting_axes() {
  static const std::vector<SettingAxis> axes = {
      {"gpu_clock", power::KnobKind::gpu_clock,
       "graphics clock in MHz: values, min:max:step, shares of\nthe range (60%, 40%:100%:20%), or found (unchanged)"},
      {"gpu_memory_clock", power::KnobKind::gpu_memory_clock, "memory clock in MHz"},
      {"gpu_power_limit", power::KnobKind::gpu_power_limit, "power limit of each GPU in W"},
      {"cpu_frequency", power::KnobKind::cpu_frequency, "frequency of all CPUs in MHz"},
      {"cpu_governor", power::KnobKind::cpu_governor, "frequency governor of all CPUs, such as performance"},
      {"cpu_power_limit", power::KnobKind::cpu_power_limit, "power cap of each CPU package in W"}};
  return axes;
}

std::vector<std::optional<double>> parse_set_points(power::KnobKind kind, const std::string& key,
                                                    const std::string& text) {
  if (text == "found") return {std::nullopt};
  if (const std::vector<std::string>& names = power::names_of(kind); !names.empty()) {
    if (const auto value = power::set_point_of_name(kind, text)) return {value};
    const std::string close = models::nearest(text, names);
    throw bad_value(key, text,
                    close.empty() ? fmt::format("must be one of {}, or found", fmt::join(names, ", "))
                                  : fmt::format("unknown governor: did you mean '{}'?", close));
  }
  if (text.find('%') != std::string::npos)
    throw UsageError(
        "range-unknown", key,
        fmt::format("{} {}: the range is not known here: give a value", key_ref(key), models::cut_word(text)));
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() == 1) return {number(key, text, parts[0])};
  if (parts.size() != 3) throw bad_value(key, text, "must be a number, minimum:maximum:step, or found");
  const double minimum = number(key, text, parts[0]), maximum = number(key, text, parts[1]),
               step = number(key, text, parts[2]);
  if (minimum > maximum) throw bad_value(key, text, "the minimum is above the maximum");
  if ((maximum - minimum) / step > most_values)
    throw bad_value(key, text, "too many values (maximum 1000): use a larger step");
  std::vector<std::optional<double>> values;
  for (int i = 0; minimum + i * step <= maximum * (1 + 1e-12); ++i) values.emplace_back(minimum + i * step);
  return values;
}

std::vector<double> parse_shares(const std::string& key, const std::string& text) {
  if (text.find('%') == std::string::npos) return {};
  const auto fail = [&](const char* why) { throw bad_value(key, text, why); };
  std::vector<double> parts;
  for (const std::string& part : split(text, ':')) {
    const auto percent = number_in<double>(std::string_view(part).substr(0, part.find('%')));
    if (!percent || part.find('%') + 1 != part.size())
      fail("must be a share of the range, such as 60% or 40%:100%:20%");
    if (!(*percent >= 0 && *percent <= 100)) fail("a share of the range must be from 0% to 100%");
    parts.push_back(*percent / 100);
  }
  if (parts.size() == 1) return parts;
  if (parts.size() != 3) fail("must be a share of the range, such as 60% or 40%:100%:20%");
  if (parts[0] > parts[1]) fail("the minimum is above the maximum");
  if (!(parts[2] >= 0.001)) fail("step too small (minimum 0.1%)");
  std::vector<double> shares;
  for (int i = 0; parts[0] + i * parts[2] <= parts[1] + 1e-9; ++i) shares.push_back(parts[0] + i * parts[2]);
  return shares;
}

}  // namespace tw::bench
