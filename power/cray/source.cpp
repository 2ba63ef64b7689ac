#include "power/cray/source.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "power/powercap/zones.hpp"
#include "power/sysfs.hpp"
#include "power/watch.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// A value and the refresh that it belongs to.
struct Reading {
  std::uint64_t joules = 0, freshness = 0;
};
Reading read_fresh(const fs::path& folder, const std::string& file) {
  constexpr int attempts = 10;  // refreshes are 100 ms apart: a second one in a row would be a wonder already
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const std::uint64_t before = sysfs::read_integer(folder / "freshness");
    const std::uint64_t joules = sysfs::read_integer(folder / file);
    if (sysfs::read_integer(folder / "freshness") == before) return {joules, before};
  }
  throw std::system_error(EAGAIN, std::generic_category(),
                          (folder / file).string() + ": freshness never stood still around a reading");
}

class CrayMeter : public EnergyMeter {
 public:
  CrayMeter(fs::path folder, std::string file, std::string domain, EnergyScope scope, Reading first,
            double update_period_seconds, double stale_seconds)
      : folder_(std::move(folder)),
        file_(std::move(file)),
        domain_(std::move(domain)),
        scope_(scope),
        first_joules_(first.joules),
        last_(first),
        moved_(Clock::now()),
        update_period_seconds_(update_period_seconds),
        stale_seconds_(stale_seconds) {}
  std::string domain() const override { return domain_; }
  EnergyScope scope() const override { return scope_; }
  EnergyMethod method() const override { return EnergyMethod::counter; }
  EnergySample read() override {
    const auto before = Clock::now();
    const Reading reading = read_fresh(folder_, file_);
    const auto after = Clock::now(), time = before + (after - before) / 2;
    if (reading.joules < last_.joules)
      throw std::system_error(EIO, std::generic_category(),
                              (folder_ / file_).string() + " went back from " + std::to_string(last_.joules) + " to " +
                                  std::to_string(reading.joules) + " J");
    if (reading.freshness != last_.freshness) {
      moved_ = time;
    } else if (seconds_between(moved_, time) > stale_seconds_) {
      throw std::system_error(EIO, std::generic_category(),
                              (folder_ / "freshness").string() + " stands at " + std::to_string(reading.freshness));
    }
    last_ = reading;
    return {time, static_cast<double>(reading.joules - first_joules_)};
  }
  double update_period_seconds() const override { return update_period_seconds_; }
  /// Never wraps; but a controller that dies between the edges of a window is seen only by readings in between.
  double wrap_seconds() const override { return 4 * stale_seconds_; }
  double maximum_power_watts() const override { return powercap::default_maximum_watts(scope_); }
  bool maximum_power_is_default() const override { return true; }

 private:
  fs::path folder_;
  std::string file_, domain_;
  EnergyScope scope_;
  std::uint64_t first_joules_;
  Reading last_;
  Clock::time_point moved_;
  double update_period_seconds_, stale_seconds_;
};

/// "accel3_energy" → 3.
std::optional<int> accelerator_of(const std::string& file) {
  const std::string head = "accel", tail = "_energy";
  if (file.size() <= head.size() + tail.size() || file.rfind(head, 0) != 0 ||
      file.compare(file.size() - tail.size(), tail.size(), tail) != 0)
    return std::nullopt;
  const std::string digits = file.substr(head.size(), file.size() - head.size() - tail.size());
  if (digits.size() > 3 || !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
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
  std::sort(accelerators.begin(), accelerators.end());
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
  if (counters.empty()) {
    MeterFinding& none = findings.emplace_back();
    none.domain = "cray";
    none.reason = "no_driver";
    none.detail =
        folder.string() + (fs::exists(folder, ignored) ? " has no energy counters" : " is not there: no Cray node");
    return findings;
  }
  const Watched freshness = watch({[&] { return sysfs::read_integer(folder / "freshness"); }})[0];
  for (const Counter& counter : counters) {
    MeterFinding& finding = findings.emplace_back();
    finding.domain = counter.domain;
    finding.scope = counter.scope;
    try {
      if (freshness.error) throw *freshness.error;
      if (!freshness.moved) {
        finding.reason = "unsupported";
        finding.detail = (folder / "freshness").string() + " stood still at " + std::to_string(freshness.last) +
                         " for " + std::to_string(freshness.period_seconds) + " s";
        continue;
      }
      finding.meter =
          std::make_unique<CrayMeter>(folder, counter.file, counter.domain, counter.scope,
                                      read_fresh(folder, counter.file), freshness.period_seconds, stale_seconds);
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

}  // namespace tw
