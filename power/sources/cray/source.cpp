#include "power/sources/cray/source.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/meter/watch.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// A value and the refresh that it belongs to.
struct Reading {
  std::uint64_t joules = 0, freshness = 0;
};
class FreshCounter {
 public:
  FreshCounter(const fs::path& folder, const std::string& file)
      : freshness_(folder / "freshness"), file_(folder / file) {}
  Reading read() {
    constexpr int attempts = 10;  // refreshes are 100 ms apart: a second one in a row would be a wonder already
    for (int attempt = 0; attempt < attempts; ++attempt) {
      const std::uint64_t before = freshness_.read_integer();
      const std::uint64_t joules = file_.read_integer();
      if (freshness_.read_integer() == before) return {joules, before};
    }
    throw std::system_error(EAGAIN, std::generic_category(),
                            file_.path().string() + ": freshness changed during every reading");
  }
  const fs::path& freshness() const { return freshness_.path(); }
  const fs::path& file() const { return file_.path(); }

 private:
  sysfs::NumberFile freshness_, file_;
};

class CrayMeter : public SensorMeter {
 public:
  CrayMeter(SensorSpec spec, FreshCounter counter, double stale_seconds)
      : SensorMeter(std::move(spec)),
        counter_(std::move(counter)),
        last_(counter_.read()),
        first_joules_(last_.joules),
        moved_(Clock::now()),
        stale_seconds_(stale_seconds) {}
  EnergyMethod method() const override { return EnergyMethod::counter; }
  EnergySample read() override {
    const auto before = Clock::now();
    const Reading reading = counter_.read();
    const auto after = Clock::now(), time = before + (after - before) / 2;
    if (reading.joules < last_.joules) {
      const std::uint64_t back = last_.joules - reading.joules;
      first_joules_ -= back;  // modulo 2^64: from here on the joules go on from where they were
      last_ = reading;
      moved_ = time;
      throw CounterReset(EIO, std::generic_category(),
                         counter_.file().string() + " went back by " + std::to_string(back) + " J to " +
                             std::to_string(reading.joules) + " J");
    }
    if (reading.freshness != last_.freshness) {
      moved_ = time;
    } else if (seconds_between(moved_, time) > stale_seconds_) {
      throw std::system_error(EIO, std::generic_category(),
                              counter_.freshness().string() + " does not move from " +
                                  std::to_string(reading.freshness));
    }
    last_ = reading;
    // Whole joules: what draws little does not show in each refresh.
    return {time, static_cast<double>(reading.joules - first_joules_), 0, reading.freshness};
  }
  /// Never wraps; but a controller that dies between the edges of a window is seen only by readings in between.
  double wrap_seconds() const override { return 4 * stale_seconds_; }

 private:
  FreshCounter counter_;
  Reading last_;
  std::uint64_t first_joules_;
  Clock::time_point moved_;
  double stale_seconds_;
};

/// "accel3_energy" → 3.
std::optional<int> accelerator_of(const std::string& file) {
  const std::string head = "accel", tail = "_energy";
  if (file.size() <= head.size() + tail.size() || !file.starts_with(head) ||
      file.compare(file.size() - tail.size(), tail.size(), tail) != 0)
    return std::nullopt;
  const std::string digits = file.substr(head.size(), file.size() - head.size() - tail.size());
  if (digits.size() > 3 || !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return std::stoi(digits);
}

struct Counter {
  std::string file, domain;
  EnergyScope scope;
};
std::vector<Counter> find_counters(const fs::path& folder) {
  std::vector<Counter> counters;
  std::error_code none;
  for (const Counter& one :
       {Counter{"energy", "cray:node", EnergyScope::node}, Counter{"cpu_energy", "cray:cpu", EnergyScope::package},
        Counter{"memory_energy", "cray:memory", EnergyScope::dram}})
    if (fs::exists(folder / one.file, none)) counters.push_back(one);
  std::vector<int> accelerators;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none))
    if (const auto number = accelerator_of(entry.path().filename().string())) accelerators.push_back(*number);
  std::ranges::sort(accelerators);
  for (const int number : accelerators) {
    const std::string name = "accel" + std::to_string(number);
    counters.push_back({name + "_energy", "cray:" + name, EnergyScope::device});
  }
  return counters;
}

}  // namespace

std::vector<MeterFinding> cray::find_meters_in(const fs::path& folder, double stale_seconds) {
  std::vector<MeterFinding> findings;
  std::error_code ignored;
  const std::vector<Counter> counters = find_counters(folder);
  if (counters.empty())
    return MeterFinding::only(
        {.domain = "cray",
         .reason = "no_driver",
         .detail = folder.string() +
                   (fs::exists(folder, ignored) ? " has no energy counters" : " is absent: not a Cray node")});
  const Watched freshness = watch({[&] { return sysfs::read_integer(folder / "freshness"); }})[0];
  for (const Counter& counter : counters) {
    MeterFinding& finding = findings.emplace_back(MeterFinding{.domain = counter.domain, .scope = counter.scope});
    try {
      if (freshness.error) throw *freshness.error;
      if (!freshness.moved()) {
        finding.explain("unsupported", stood_still((folder / "freshness").string(), freshness));
        continue;
      }
      finding.meter =
          std::make_unique<CrayMeter>(SensorSpec{counter.domain, counter.scope, freshness.period_seconds, {}},
                                      FreshCounter(folder, counter.file), stale_seconds);
      finding.counted = true;
    } catch (const std::system_error& error) {
      sysfs::explain(error, finding);
      if (finding.reason == "permission") finding.grant = "chmod a+r " + folder.string() + "/*";
    }
  }
  return findings;
}

std::vector<MeterFinding> cray_find_meters(const MeterOptions&) {
  return cray::find_meters_in("/sys/cray/pm_counters");
}

}  // namespace tw::power
