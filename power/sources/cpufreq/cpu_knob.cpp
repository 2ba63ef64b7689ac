// The frequency of all CPUs.
#include <algorithm>
#include <cmath>

#include "power/sources/cpufreq/policies.hpp"

namespace tw::power::cpufreq {
namespace {

unsigned long khz_of(double mhz) { return static_cast<unsigned long>(std::llround(mhz * 1000)); }
double mhz_of(unsigned long khz) { return static_cast<double>(khz) / 1000; }

unsigned long number(const KnobState& state, const std::string& key) {
  if (const auto value = whole_number(state, key)) return *value;
  throw NotApplied("out_of_range", "the saved state has no whole number for " + key);
}

class CpuKnob : public Knob {
 public:
  explicit CpuKnob(std::unique_ptr<Policies> policies) : policies_(std::move(policies)) {}

  KnobKind kind() const override { return KnobKind::cpu_frequency; }
  std::string domain() const override { return "cpu"; }

  /// What all policies take: of unlike cores the common part; minimum above maximum where there is none.
  KnobRange range() const override {
    KnobRange range;
    bool first = true, listed = false;
    for (const unsigned cpu : policies_->cpus()) {
      const Limits hardware = policies_->hardware(cpu);
      std::vector<double> values;
      for (const unsigned long khz : policies_->available_khz(cpu))
        if (khz <= hardware.max_khz) values.push_back(mhz_of(khz));  // boost is listed where it is off, too
      std::ranges::sort(values);
      values.erase(std::unique(values.begin(), values.end()), values.end());
      range.minimum = first ? mhz_of(hardware.min_khz) : std::max(range.minimum, mhz_of(hardware.min_khz));
      range.maximum = first ? mhz_of(hardware.max_khz) : std::min(range.maximum, mhz_of(hardware.max_khz));
      if (!listed) {
        range.values = values;
        listed = !values.empty();
      } else if (!values.empty()) {
        std::vector<double> both;
        std::set_intersection(values.begin(), values.end(), range.values.begin(), range.values.end(),
                              std::back_inserter(both));
        range.values = both;
      }
      first = false;
    }
    if (listed && range.values.empty()) range.maximum = range.minimum - 1;
    return range;
  }

  std::optional<double> get() override {
    std::optional<double> pinned;
    for (const unsigned cpu : policies_->cpus()) {
      const Limits now = policies_->limits(cpu);
      if (now.min_khz != now.max_khz || (pinned && khz_of(*pinned) != now.max_khz)) return std::nullopt;
      pinned = mhz_of(now.max_khz);
    }
    return pinned;
  }

  double set(double value) override {
    const KnobRange range = this->range();
    const unsigned long khz = khz_of(value);
    const bool listed =
        range.values.empty() || std::ranges::any_of(range.values, [&](double one) { return khz_of(one) == khz; });
    if (!listed || khz < khz_of(range.minimum) || khz > khz_of(range.maximum))
      throw NotApplied("out_of_range",
                       std::to_string(khz) + " kHz is not among the CPUs' frequencies, " +
                           std::to_string(khz_of(range.minimum)) + " to " + std::to_string(khz_of(range.maximum)) +
                           (range.values.empty() ? "" : " in the steps of scaling_available_frequencies"));
    std::optional<unsigned long> accepted;
    for (const unsigned cpu : policies_->cpus()) {
      write(cpu, khz, khz);
      const Limits now = policies_->limits(cpu);
      if (now.min_khz != now.max_khz || now.max_khz > khz + rounding_khz || now.max_khz + rounding_khz < khz ||
          (accepted && *accepted != now.max_khz))
        throw NotApplied("clamped", name_of(cpu) + ": " + std::to_string(khz) + " kHz was written, " +
                                        std::to_string(now.min_khz) + " to " + std::to_string(now.max_khz) +
                                        " reads back");
      accepted = now.max_khz;
    }
    if (!accepted) throw NotApplied("unsupported", "no CPU with a frequency policy is online");
    return mhz_of(*accepted);
  }

  std::optional<double> observe() override {
    double sum = 0;
    std::size_t count = 0;
    for (const unsigned cpu : policies_->cpus())
      if (const auto khz = policies_->current_khz(cpu)) sum += mhz_of(*khz), ++count;
    if (count == 0) return std::nullopt;
    return sum / static_cast<double>(count);
  }

  KnobState save() override {
    KnobState state;
    for (const unsigned cpu : policies_->cpus()) {
      const Limits now = policies_->limits(cpu);
      state[name_of(cpu) + ".min_khz"] = std::to_string(now.min_khz);
      state[name_of(cpu) + ".max_khz"] = std::to_string(now.max_khz);
    }
    return state;
  }

  bool is_ours(double requested, double accepted) override {
    for (const unsigned cpu : policies_->cpus()) {
      const Limits now = policies_->limits(cpu);
      for (const unsigned long khz : {now.min_khz, now.max_khz})
        if (!is_left_by({requested, accepted}, khz)) return false;
    }
    return true;
  }

  void restore(const KnobState& found) override {
    each_saved(found, [&](unsigned cpu, const Limits& saved) {
      write(cpu, saved.min_khz, saved.max_khz);
      verify(cpu, saved);
    });
  }

  /// Decides for the minimum and the maximum of each policy: a run that was cut off has set only some.
  PutBack put_back(const KnobState& found, std::span<const Attempt> attempts) override {
    PutBack result;
    const auto ours = [&](const std::string& key, unsigned long khz) {
      return std::ranges::any_of(attempts, [&](const Attempt& attempt) {
        return is_left_by(attempt, khz) || attempt.has_left(key, std::to_string(khz));
      });
    };
    const auto leave = [&](const std::string& what) { result.left += (result.left.empty() ? "" : ", ") + what; };
    each_saved(found, [&](unsigned cpu, const Limits& saved) {
      const Limits now = policies_->limits(cpu);
      Limits wanted = now;
      if (now.min_khz != saved.min_khz && ours(name_of(cpu) + ".min_khz", now.min_khz)) wanted.min_khz = saved.min_khz;
      if (now.max_khz != saved.max_khz && ours(name_of(cpu) + ".max_khz", now.max_khz)) wanted.max_khz = saved.max_khz;
      if (wanted.min_khz > wanted.max_khz) wanted = now;  // beside a foreign value there is no place for ours
      if (wanted.min_khz != saved.min_khz)
        leave(name_of(cpu) + " scaling_min_freq = " + std::to_string(wanted.min_khz) + " kHz");
      if (wanted.max_khz != saved.max_khz)
        leave(name_of(cpu) + " scaling_max_freq = " + std::to_string(wanted.max_khz) + " kHz");
      if (wanted.min_khz == now.min_khz && wanted.max_khz == now.max_khz) return;
      write(cpu, wanted.min_khz, wanted.max_khz);
      verify(cpu, wanted);
      result.changed = true;
    });
    return result;
  }

 private:
  /// Drivers may round to the step of their hardware, 100 MHz or less.
  static constexpr unsigned long rounding_khz = 50'000;

  /// As set() wrote it, or as it read back.
  static bool is_left_by(const Attempt& attempt, unsigned long khz) {
    return attempt.accepted && (khz == khz_of(attempt.requested) || khz == khz_of(*attempt.accepted));
  }

  /// In the order that keeps min <= max at each moment. Writes only what differs.
  void write(unsigned cpu, unsigned long min_khz, unsigned long max_khz) {
    const Limits now = policies_->limits(cpu);
    const auto write_min = [&] {
      if (now.min_khz != min_khz) check(cpu, "scaling_min_freq", policies_->set_min(cpu, min_khz));
    };
    if (max_khz < now.min_khz) write_min();
    if (now.max_khz != max_khz) check(cpu, "scaling_max_freq", policies_->set_max(cpu, max_khz));
    if (max_khz >= now.min_khz) write_min();
  }

  void verify(unsigned cpu, const Limits& wanted) {
    const Limits now = policies_->limits(cpu);
    if (now.min_khz != wanted.min_khz || now.max_khz != wanted.max_khz)
      throw NotApplied("clamped", name_of(cpu) + ": wrote back " + std::to_string(wanted.min_khz) + " to " +
                                      std::to_string(wanted.max_khz) + " kHz; " + std::to_string(now.min_khz) + " to " +
                                      std::to_string(now.max_khz) + " kHz reads back");
  }

  /// All policies of a saved state, checked against the hardware.
  template <typename Function>
  void each_saved(const KnobState& found, const Function& function) {
    each_policy(*policies_, found, ".min_khz", [&](unsigned cpu, const std::string& name) {
      const Limits saved{number(found, name + ".min_khz"), number(found, name + ".max_khz"), {}};
      const Limits hardware = policies_->hardware(cpu);
      if (saved.min_khz > saved.max_khz || saved.min_khz < hardware.min_khz || saved.max_khz > hardware.max_khz)
        throw NotApplied("out_of_range", name + ": the saved " + std::to_string(saved.min_khz) + " to " +
                                             std::to_string(saved.max_khz) + " kHz is outside the hardware's " +
                                             std::to_string(hardware.min_khz) + " to " +
                                             std::to_string(hardware.max_khz));
      function(cpu, saved);
    });
  }

  std::unique_ptr<Policies> policies_;
};

}  // namespace

std::unique_ptr<Knob> make_cpu_knob(std::unique_ptr<Policies> policies) {
  return std::make_unique<CpuKnob>(std::move(policies));
}

}  // namespace tw::power::cpufreq
