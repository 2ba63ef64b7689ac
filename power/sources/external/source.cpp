#include "power/sources/external/source.hpp"

#include <cmath>
#include <mutex>
#include <thread>

#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/sources/external/series.hpp"

namespace tw::power {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Clock::time_point time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

/// What must be added to the steady clock to get seconds since 1970.
double wall_offset_seconds() {
  const auto before = Clock::now();
  const double wall = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto after = Clock::now();
  return wall - seconds_of(before + (after - before) / 2);
}

class ExternalMeter : public SensorMeter {
 public:
  ExternalMeter(external::Series series, double wait_seconds)
      : SensorMeter({"external", EnergyScope::node, series.interval_seconds(), {}}),
        series_(std::move(series)),
        offset_seconds_(wall_offset_seconds()),
        summed_until_(wall(Clock::now())),
        wait_seconds_(wait_seconds) {
    series_.forget_before(summed_until_);
  }
  EnergyMethod method() const override { return EnergyMethod::integrated_power; }
  bool follows_time() const override { return false; }
  /// As far as the file has come; what belongs to a window is joules_between's business.
  EnergySample read() override {
    const std::lock_guard lock(mutex_);
    series_.refresh();
    const auto now = Clock::now();
    // Only what has come since is added up. Later points lie behind the last one that is there.
    const double until = std::min(wall(now), series_.points().empty() ? summed_until_ : series_.points().back().time);
    if (until > summed_until_) {
      joules_ += series_.joules(summed_until_, until);
      summed_until_ = until;
    }
    return {now, joules_};
  }
  double joules_between(const EnergySample& from, const EnergySample& to) override {
    // What the clock is set by shifts the window's edges: its uncertainty holds an interval at each.
    const double most_step_seconds = std::min(0.5, update_period_seconds());
    constexpr auto pause = std::chrono::milliseconds(50);
    const auto limit = Clock::now() + duration_of(wait_seconds_);
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        series_.forget_before(wall(from.time));  // windows follow each other
        try {
          series_.refresh();
        } catch (const std::system_error& error) {
          throw WindowUnknown("lost", external::words_of(error));
        }
        const bool covered = !series_.points().empty() && series_.points().back().time >= wall(to.time);
        if (covered || Clock::now() >= limit) {
          const double step_seconds = wall_offset_seconds() - offset_seconds_;
          if (std::abs(step_seconds) > most_step_seconds)
            throw WindowUnknown("not_covered", "the wall clock was changed by " + std::to_string(step_seconds) +
                                                   " s: the series can no longer be aligned");
          return series_.joules_of_window(wall(from.time), wall(to.time));
        }
      }
      std::this_thread::sleep_for(pause);
    }
  }

  double longest_period_seconds(const EnergySample& from, const EnergySample& to) override {
    const std::lock_guard lock(mutex_);
    return std::max(update_period_seconds(), series_.longest_interval_seconds(wall(from.time), wall(to.time)));
  }

 private:
  double wall(Clock::time_point time) const { return seconds_of(time) + offset_seconds_; }

  std::mutex mutex_;
  external::Series series_;
  double offset_seconds_;
  double joules_ = 0, summed_until_;  // since the opening, up to this wall time
  double wait_seconds_;
};

/// A meter that writes at all writes within this time; a clock or a unit that is wrong is further off.
constexpr double longest_silence_seconds = 3600;

std::string why_far(double last, double behind) {
  const bool is_past = behind > 0;
  std::string text = ": the time of its last point, " + std::to_string(last) + ", is " +
                     std::to_string(std::llround(std::min(std::abs(behind) / 3600, 1e15))) + " hours " +
                     (is_past ? "before" : "after") + " now: ";
  for (const auto& [name, factor] :
       {std::pair("milliseconds", 1e3), std::pair("microseconds", 1e6), std::pair("nanoseconds", 1e9)})
    if (std::abs(last / factor - (last + behind)) < 20 * 365.25 * 86400)
      return text + "is it in " + name + "? It must be in seconds since 1970, or ISO 8601 with a zone";
  return text + (is_past && last > 1e9 ? "does the meter still write this file?"
                                       : "it must be in seconds since 1970, or ISO 8601 with a zone");
}

}  // namespace

std::vector<MeterFinding> external::find_meters_in(const std::filesystem::path& file,
                                                   std::optional<double> wait_seconds) {
  MeterFinding finding{.domain = "external", .scope = EnergyScope::node};
  try {
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    Series series(file, now);
    series.refresh();
    const double behind = series.points().empty() ? 0 : now - series.points().back().time;
    if (series.points().size() < 2) {
      finding.explain("unsupported", file.string() +
                                         " has fewer than two points: the meter must write before the run begins" +
                                         (series.hole().empty() ? "" : "; " + series.hole()));
    } else if (std::abs(behind) > longest_silence_seconds) {
      finding.explain("unsupported", file.string() + why_far(series.points().back().time, behind));
    } else if (series.interval_seconds() > longest_interval_seconds) {
      finding.explain("unsupported",
                      file.string() + " has a point every " + std::to_string(std::lround(series.interval_seconds())) +
                          " s: a trial needs one every " + std::to_string(std::lround(longest_interval_seconds)) +
                          " s at least; have the meter write more often");
    } else {
      const double wait = wait_seconds.value_or(wait_seconds_for(series.interval_seconds()));
      finding.meter = std::make_unique<ExternalMeter>(std::move(series), wait);
      finding.counted = true;
      finding.detail = file.string();
    }
  } catch (const std::system_error& error) {
    sysfs::explain(error, finding);
    finding.detail = external::words_of(error);
    if (finding.reason == "permission") finding.grant = "chmod a+r " + file.string();
  }
  return MeterFinding::only(std::move(finding));
}

std::vector<MeterFinding> external_find_meters(const MeterOptions& options) {
  return options.external_csv ? external::find_meters_in(*options.external_csv) : std::vector<MeterFinding>();
}

}  // namespace tw::power
