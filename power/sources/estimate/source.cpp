#include "power/sources/estimate/source.hpp"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <system_error>

#include "power/meter/number_text.hpp"
#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/sources/cpu/ticks.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class EstimateMeter : public SensorMeter {
 public:
  EstimateMeter(fs::path stat, double nominal_watts)
      : SensorMeter(
            {"estimate:cpu", EnergyScope::package, 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK)), nominal_watts}),
        stat_(std::move(stat)),
        nominal_watts_(nominal_watts),
        last_(cpu::read_ticks(stat_).sum),
        last_time_(Clock::now()) {}
  EnergyMethod method() const override { return EnergyMethod::estimate; }
  EnergySample read() override {
    const cpu::Ticks now = cpu::read_ticks(stat_).sum;
    const auto time = Clock::now();
    // A line in utilisation: its integral needs the busy time alone, and no sampling in between.
    if (now.total > last_.total && now.busy >= last_.busy)
      utilisation_ = static_cast<double>(now.busy - last_.busy) / static_cast<double>(now.total - last_.total);
    joules_ += nominal_watts_ * (estimate::idle_share + (1 - estimate::idle_share) * utilisation_) *
               seconds_between(last_time_, time);
    last_ = now;
    last_time_ = time;
    return {time, joules_};
  }

 private:
  fs::path stat_;
  double nominal_watts_;
  cpu::Ticks last_;
  Clock::time_point last_time_;
  double utilisation_ = 0, joules_ = 0;
};

}  // namespace

std::vector<MeterFinding> estimate::find_meters_in(const fs::path& stat, double nominal_watts) {
  MeterFinding finding{.domain = "estimate:cpu"};
  try {
    if (!std::isfinite(nominal_watts) || nominal_watts <= 0)
      throw std::system_error(EINVAL, std::generic_category(),
                              "a nominal power of " + number_text(nominal_watts) + " W");
    finding.meter = std::make_unique<EstimateMeter>(stat, nominal_watts);
    finding.scope = EnergyScope::package;
    finding.detail = formatted("%g W nominal, a share of %g of it when idle: an assumption, not a measurement",
                               nominal_watts, idle_share);
  } catch (const std::system_error& error) {
    sysfs::explain(error, finding);
  }
  return MeterFinding::only(std::move(finding));
}

std::vector<MeterFinding> estimate_find_meters(const MeterOptions& options) {
  return options.estimate_watts ? estimate::find_meters_in("/proc/stat", *options.estimate_watts)
                                : std::vector<MeterFinding>();
}

}  // namespace tw::power
