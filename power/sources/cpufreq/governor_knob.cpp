// The governor of all CPUs.
#include <algorithm>

#include "power/sources/cpufreq/policies.hpp"

namespace tw::power::cpufreq {
namespace {

constexpr const char* saved_key = ".governor";

class GovernorKnob : public Knob {
 public:
  explicit GovernorKnob(std::unique_ptr<Policies> policies) : policies_(std::move(policies)) {}

  KnobKind kind() const override { return KnobKind::cpu_governor; }
  std::string domain() const override { return "cpu"; }

  /// What all policies list.
  KnobRange range() const override {
    KnobRange range;
    const std::vector<unsigned> cpus = policies_->cpus();
    for (const std::string& name : names_of(kind())) {
      const auto lists = [&](unsigned cpu) { return is_listed(cpu, name); };
      if (!cpus.empty() && std::ranges::all_of(cpus, lists)) range.values.push_back(*set_point_of_name(kind(), name));
    }
    if (!range.values.empty()) range.minimum = range.values.front(), range.maximum = range.values.back();
    return range;
  }

  std::optional<double> get() override {
    std::optional<std::string> common;
    for (const unsigned cpu : policies_->cpus()) {
      const std::string now = policies_->limits(cpu).governor;
      if (common && *common != now) return std::nullopt;
      common = now;
    }
    return common ? set_point_of_name(kind(), *common) : std::nullopt;
  }

  double set(double value) override {
    const std::vector<double> values = range().values;
    const std::string name = set_point_text(kind(), value);
    if (std::ranges::find(values, value) == values.end()) {
      std::string listed;
      for (const double one : values) listed += (listed.empty() ? "" : ", ") + set_point_text(kind(), one);
      throw NotApplied("out_of_range", name + " is not among the governors that all CPUs list: " + listed);
    }
    for (const unsigned cpu : policies_->cpus()) write(cpu, name);
    return value;
  }

  std::optional<double> observe() override { return get(); }

  KnobState save() override {
    KnobState state;
    for (const unsigned cpu : policies_->cpus()) state[name_of(cpu) + saved_key] = policies_->limits(cpu).governor;
    return state;
  }

  bool is_ours(double requested, double accepted) override {
    for (const unsigned cpu : policies_->cpus()) {
      const std::string now = policies_->limits(cpu).governor;
      if (now != set_point_text(kind(), requested) && now != set_point_text(kind(), accepted)) return false;
    }
    return true;
  }

  void restore(const KnobState& found) override {
    each_policy(*policies_, found, saved_key,
                [&](unsigned cpu, const std::string& name) { write(cpu, found.at(name + saved_key)); });
  }

  /// Decides for each policy: a run that was cut off has set only some.
  PutBack put_back(const KnobState& found, std::span<const Attempt> attempts) override {
    PutBack result;
    each_policy(*policies_, found, saved_key, [&](unsigned cpu, const std::string& name) {
      const std::string& saved = found.at(name + saved_key);
      const std::string now = policies_->limits(cpu).governor;
      if (now == saved) return;
      const bool ours = std::ranges::any_of(attempts, [&](const Attempt& attempt) {
        return (attempt.accepted && now == set_point_text(kind(), attempt.requested)) ||
               attempt.has_left(name + saved_key, now);
      });
      if (ours) {
        write(cpu, saved);
        result.changed = true;
      } else {
        result.left += (result.left.empty() ? "" : ", ") + name + " scaling_governor = " + now;
      }
    });
    return result;
  }

 private:
  bool is_listed(unsigned cpu, const std::string& name) const {
    const std::vector<std::string> listed = policies_->available_governors(cpu);
    return std::ranges::find(listed, name) != listed.end();
  }

  /// One that the policy lists, and reads back. Writes only what differs.
  void write(unsigned cpu, const std::string& name) {
    if (!is_listed(cpu, name)) throw NotApplied("out_of_range", name_of(cpu) + " lists no governor \"" + name + "\"");
    if (policies_->limits(cpu).governor == name) return;
    check(cpu, "scaling_governor", policies_->set_governor(cpu, name));
    if (const std::string now = policies_->limits(cpu).governor; now != name)
      throw NotApplied("clamped", name_of(cpu) + ": " + name + " was written, " + now + " reads back");
  }

  std::unique_ptr<Policies> policies_;
};

}  // namespace

std::unique_ptr<Knob> make_governor_knob(std::unique_ptr<Policies> policies) {
  return std::make_unique<GovernorKnob>(std::move(policies));
}

}  // namespace tw::power::cpufreq
