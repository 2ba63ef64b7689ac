#include "power/sources/powercap/cap_knob.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <system_error>
#include <thread>

namespace tw::power::powercap {
namespace {

constexpr double minimum_share = 0.1;
/// A found limit may lie above the stated maximum (firmware writes "unlimited" so); no register holds more than 2^18
/// steps of an eighth of a watt.
constexpr std::uint64_t highest_uw = 32'768'000'000;
/// Hardware counts in steps of an eighth of a watt or finer.
constexpr std::uint64_t step_uw = 125'000;

std::uint64_t uw_of(double watts) { return static_cast<std::uint64_t>(std::llround(watts * 1e6)); }
double watts_of(std::uint64_t uw) { return static_cast<double>(uw) * 1e-6; }
bool within_a_step(std::uint64_t a, std::uint64_t b) { return (a > b ? a - b : b - a) <= step_uw; }

class CapKnob : public Knob {
 public:
  CapKnob(std::unique_ptr<CapAccess> access, std::string domain, double default_maximum_watts)
      : access_(std::move(access)), domain_(std::move(domain)), default_maximum_watts_(default_maximum_watts) {}

  KnobKind kind() const override { return KnobKind::cpu_power_limit; }
  std::string domain() const override { return domain_; }

  KnobRange range() const override {
    KnobRange range;
    std::uint64_t maximum_uw = 0;
    range.is_default =
        access_->get_maximum_uw(&maximum_uw) != 0 || maximum_uw == 0 || watts_of(maximum_uw) > default_maximum_watts_;
    range.maximum = range.is_default ? default_maximum_watts_ : watts_of(maximum_uw);
    range.minimum = range.maximum * minimum_share;
    return range;
  }

  std::optional<double> get() override {
    const State now = read();
    if (!now.enabled) return std::nullopt;
    return watts_of(now.limit_uw);
  }

  double set(double value) override {
    const KnobRange range = this->range();
    if (!(value >= range.minimum && value <= range.maximum))
      throw NotApplied("out_of_range", domain_ + ": " + set_point_text(kind(), value) + " W is outside " +
                                           set_point_text(kind(), range.minimum) + " to " +
                                           set_point_text(kind(), range.maximum));
    if (read().limit_uw == 0 && !takes_zero())
      throw NotApplied("unsupported", access_->path() +
                                          " power_limit_uw: is 0, which could not be restored: 0 is never "
                                          "written unless min_power_uw is 0");
    const std::uint64_t limit_uw = uw_of(value);
    check("power_limit_uw", access_->set_limit_uw(limit_uw));
    State now = read();
    if (!now.enabled) {
      check("enabled", access_->set_enabled(true));
      now = read();
    }
    if (!now.enabled) throw NotApplied("locked", access_->path() + ": 1 was written to enabled, 0 reads back");
    if (!within_a_step(now.limit_uw, limit_uw))
      throw NotApplied("clamped", access_->path() + ": " + std::to_string(limit_uw) + " uW was written, " +
                                      std::to_string(now.limit_uw) + " reads back");
    return watts_of(now.limit_uw);
  }

  std::optional<double> observe() override {
    using Clock = std::chrono::steady_clock;
    std::uint64_t range_uj = 0, from_uj = 0, to_uj = 0;
    if (access_->get_energy_range_uj(&range_uj) != 0 || access_->get_energy_uj(&from_uj) != 0) return std::nullopt;
    const Clock::time_point start = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (access_->get_energy_uj(&to_uj) != 0) return std::nullopt;
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (from_uj == to_uj || from_uj > range_uj || to_uj > range_uj) return std::nullopt;  // a counter that says nothing
    const std::uint64_t joules_uj = to_uj > from_uj ? to_uj - from_uj : range_uj - from_uj + to_uj;
    return watts_of(joules_uj) / seconds;
  }

  KnobState save() override { return to_state(read()); }

  bool is_ours(double requested, double accepted) override {
    const State now = read();
    return now.enabled && is_left_by({requested, accepted}, now.limit_uw);
  }

  void restore(const KnobState& found) override {
    const State wanted = from_state(found);
    write(read(), wanted);
  }

  /// Decides for the limit and the switch each: a run that was cut off has written the one without the other.
  PutBack put_back(const KnobState& found, std::span<const Attempt> attempts) override {
    PutBack result;
    const State saved = from_state(found), now = read();
    State wanted = now;
    const bool ours = std::ranges::any_of(attempts, [&](const Attempt& attempt) {
      return is_left_by(attempt, now.limit_uw) || attempt.has_left("limit_uw", std::to_string(now.limit_uw));
    });
    // Beside a limit that was clamped to what it had been.
    const bool switched = now.limit_uw == saved.limit_uw && std::ranges::any_of(attempts, [&](const Attempt& attempt) {
                            return attempt.has_left("enabled", "1");
                          });
    const auto leave = [&](const std::string& what) { result.left += (result.left.empty() ? "" : ", ") + what; };
    if (ours) wanted.limit_uw = saved.limit_uw;
    // Whoever has taken the limit over has the switch, too; and we never switch off.
    if (now.enabled && (ours || switched)) wanted.enabled = saved.enabled;
    if (wanted.limit_uw != saved.limit_uw) leave(domain_ + " power_limit_uw = " + std::to_string(now.limit_uw));
    if (wanted.enabled != saved.enabled) leave(domain_ + " enabled = " + (now.enabled ? "1" : "0"));
    // set() never writes it.
    if (now.window_us && saved.window_us && now.window_us != saved.window_us)
      leave(domain_ + " time_window_us = " + std::to_string(*now.window_us));
    wanted.window_us = now.window_us;
    if (wanted == now) return result;
    write(now, wanted);
    result.changed = true;
    return result;
  }

  /// Whoever has taken the limit over has the switch, too.
  std::string adopt(KnobState& found, const KnobState& ours, const KnobState& now) const override {
    const std::string limit = found.at("limit_uw");
    std::string text = Knob::adopt(found, ours, now);
    if (found.at("limit_uw") != limit) found["enabled"] = now.at("enabled");
    return text;
  }

 private:
  struct State {
    std::uint64_t limit_uw = 0;
    std::optional<std::uint64_t> window_us;
    bool enabled = false;
    bool operator==(const State&) const = default;
  };

  /// As set() wrote it, or as it read back.
  static bool is_left_by(const Attempt& attempt, std::uint64_t limit_uw) {
    return attempt.accepted && (limit_uw == uw_of(attempt.requested) || limit_uw == uw_of(*attempt.accepted));
  }

  bool takes_zero() const {
    std::uint64_t minimum_uw = 1;
    return access_->get_minimum_uw(&minimum_uw) == 0 && minimum_uw == 0;
  }

  State read() {
    State state;
    std::uint64_t window_us = 0;
    if (const int error = access_->get_limit_uw(&state.limit_uw)) fail("power_limit_uw", error);
    if (access_->get_window_us(&window_us) == 0) state.window_us = window_us;
    if (const int error = access_->get_enabled(&state.enabled)) fail("enabled", error);
    return state;
  }

  [[noreturn]] void fail(const char* file, int error) const {
    throw std::system_error(-error, std::generic_category(), access_->path() + " " + file);
  }

  void check(const char* file, int error) const {
    if (error == 0) return;
    const bool permission = error == -EACCES || error == -EPERM || error == -EROFS;
    const bool locked = error == -ENODATA || error == -ENOSYS;
    throw NotApplied(permission ? "permission"
                     : locked   ? "locked"
                                : "unsupported",
                     access_->path() + " " + file + ": " + std::strerror(-error) +
                         (locked ? ": the firmware has locked the limit" : ""));
  }

  /// Limit before switch: enabling must not bring a limit into force that was not requested.
  void write(const State& now, const State& wanted) {
    if (wanted.window_us && now.window_us != wanted.window_us)
      check("time_window_us", access_->set_window_us(*wanted.window_us));
    if (now.limit_uw != wanted.limit_uw) check("power_limit_uw", access_->set_limit_uw(wanted.limit_uw));
    if (now.enabled != wanted.enabled) check("enabled", access_->set_enabled(wanted.enabled));
    const State after = read();
    if (!within_a_step(after.limit_uw, wanted.limit_uw) || after.enabled != wanted.enabled)
      throw NotApplied("clamped", access_->path() + ": wrote back " + std::to_string(wanted.limit_uw) +
                                      " uW, enabled " + std::to_string(wanted.enabled) + "; " +
                                      std::to_string(after.limit_uw) + " uW, enabled " + std::to_string(after.enabled) +
                                      " reads back");
  }

  static KnobState to_state(const State& state) {
    KnobState saved = {{"limit_uw", std::to_string(state.limit_uw)}, {"enabled", state.enabled ? "1" : "0"}};
    if (state.window_us) saved["window_us"] = std::to_string(*state.window_us);
    return saved;
  }

  State from_state(const KnobState& saved) const {
    const auto number = [&](const char* key) {
      if (const auto value = whole_number(saved, key)) return *value;
      throw NotApplied("out_of_range", domain_ + ": the saved state has no whole number for " + key);
    };
    State state;
    state.limit_uw = number("limit_uw");
    state.enabled = number("enabled") != 0;
    if (saved.count("window_us") != 0) state.window_us = number("window_us");
    if (state.limit_uw == 0 && !takes_zero())
      throw NotApplied("out_of_range", domain_ +
                                           ": the saved limit is 0 uW, which is not written unless min_power_uw "
                                           "is 0: set the limit of the package by hand");
    if (state.limit_uw > highest_uw)
      throw NotApplied("out_of_range",
                       domain_ + ": too high for a package: saved limit of " + std::to_string(state.limit_uw) + " uW");
    return state;
  }

  std::unique_ptr<CapAccess> access_;
  std::string domain_;
  double default_maximum_watts_;
};

}  // namespace

std::unique_ptr<Knob> make_cap_knob(std::unique_ptr<CapAccess> access, std::string domain,
                                    double default_maximum_watts) {
  return std::make_unique<CapKnob>(std::move(access), std::move(domain), default_maximum_watts);
}

}  // namespace tw::power::powercap
