#include "power/knob/knob.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "power/knob/site.hpp"
#include "power/meter/number_text.hpp"

namespace tw::power {
namespace {

/// In the order of KnobKind.
constexpr const char* kind_names[] = {"gpu_clock_mhz",     "gpu_memory_clock_mhz", "gpu_power_limit_w",
                                      "cpu_frequency_mhz", "cpu_governor",         "cpu_power_limit_w"};

}  // namespace

const char* to_string(KnobKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

std::optional<KnobKind> knob_kind_from_string(const std::string& name) {
  const auto found = std::ranges::find(kind_names, name);
  if (found == std::end(kind_names)) return std::nullopt;
  return static_cast<KnobKind>(found - std::begin(kind_names));
}

const std::vector<std::string>& names_of(KnobKind kind) {
  static const std::vector<std::string> none;
  // Those of Linux, Documentation/admin-guide/pm/cpufreq.rst.
  static const std::vector<std::string> governors = {"performance", "powersave",    "userspace",
                                                     "ondemand",    "conservative", "schedutil"};
  return kind == KnobKind::cpu_governor ? governors : none;
}

std::string set_point_text(KnobKind kind, double value) {
  const std::vector<std::string>& names = names_of(kind);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (value == static_cast<double>(i + 1)) return names[i];
  return formatted("%.10g", value);
}

std::optional<double> set_point_of_name(KnobKind kind, const std::string& name) {
  const std::vector<std::string>& names = names_of(kind);
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<double>(found - names.begin() + 1);
}

#define TW_KNOB_SOURCE(name) std::vector<KnobFinding> name##_find_knobs();
#include "power/knob/knobs.def"

std::vector<KnobFinding> find_knobs(const KnobOptions& options) {
  std::vector<KnobFinding> all;
#define TW_KNOB_SOURCE(name) std::ranges::move(name##_find_knobs(), std::back_inserter(all));
#include "power/knob/knobs.def"
  if (options.site.empty()) return all;
  std::vector<KnobFinding> commands = site::find_knobs(options.site, options.programs);
  std::erase_if(all, [&](const KnobFinding& other) {
    return std::ranges::any_of(commands, [&](const KnobFinding& command) {
      // One without a domain means all devices of its kind; and what is no knob gives way, too.
      return other.kind == command.kind &&
             (command.domain == site::whole_node || other.domain == command.domain || !other.knob);
    });
  });
  std::ranges::move(commands, std::back_inserter(all));
  return all;
}

std::optional<std::uint64_t> whole_number(const KnobState& state, const std::string& key) {
  const auto entry = state.find(key);
  if (entry == state.end()) return std::nullopt;
  const char *begin = entry->second.data(), *end = begin + entry->second.size();
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

bool Attempt::has_left(const std::string& key, const std::string& value) const {
  if (before) {
    const auto old = before->find(key);
    return old == before->end() || old->second != value;
  }
  const auto entry = refused.find(key);
  return entry != refused.end() && entry->second == value;
}

std::string Knob::adopt(KnobState& found, const KnobState& ours, const KnobState& now) const {
  std::string text;
  for (const auto& [key, value] : now) {
    const auto left = ours.find(key);
    const auto was = found.find(key);
    if (left == ours.end() || left->second == value || (was != found.end() && was->second == value)) continue;
    found[key] = value;
    text += (text.empty() ? "" : ", ") + key + " = " + value;
  }
  return text;
}

PutBack Knob::put_back(const KnobState& found, std::span<const Attempt> attempts) {
  PutBack result;
  const std::optional<double> now = get();
  result.reset = !now;
  const KnobState state = now ? save() : KnobState();
  if (now && state == found) return result;
  const bool ours = !now || std::ranges::any_of(attempts, [&](const Attempt& attempt) {
    return (attempt.accepted && is_ours(attempt.requested, *attempt.accepted)) ||
           std::ranges::any_of(state, [&](const auto& entry) { return attempt.has_left(entry.first, entry.second); });
  });
  if (!ours) {
    result.reset = false;
    result.left = domain() + " " + to_string(kind()) + (now ? " = " + set_point_text(kind(), *now) : std::string());
    return result;
  }
  restore(found);
  result.changed = true;
  return result;
}

}  // namespace tw::power
