// The real libpowercap on a made-up tree: what is found, what is left out and why, and exact joules through wraps.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "power/meter/ledger.hpp"
#include "power/meter/reader.hpp"
#include "tests/power/ordinary_user.hpp"
#include "tests/power/sandbox.hpp"

namespace tw {

using namespace power;

namespace {

/// Advances counters by a fixed step about each millisecond, wrapping as the zone's range says.
class Ticker {
 public:
  struct Counter {
    std::string zone;
    std::uint64_t energy_uj, range_uj, step_uj;
    std::vector<std::string> mirrors = {};  ///< zones that show the same counter
    double watts = 0;                       ///< if set, advances with the clock instead of by steps
    std::uint64_t total_uj = 0;
  };
  explicit Ticker(std::vector<Counter> counters) : counters_(std::move(counters)), thread_([this] { run(); }) {}
  ~Ticker() { stop(); }
  /// After this the files stand still, and ticks() is what they show.
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::uint64_t ticks() const { return ticks_; }
  const Counter& counter(std::size_t i) const { return counters_[i]; }

 private:
  void run() {
    const auto start = std::chrono::steady_clock::now();
    while (!stop_) {
      for (Counter& counter : counters_) {
        std::uint64_t step = counter.step_uj;
        if (counter.watts > 0) {
          const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
          step = static_cast<std::uint64_t>(elapsed.count() * counter.watts) - counter.total_uj;
        }
        counter.total_uj += step;
        counter.energy_uj = (counter.energy_uj + step) % counter.range_uj;
        write_zone_file(counter.zone, "energy_uj", std::to_string(counter.energy_uj));
        for (const std::string& mirror : counter.mirrors)
          write_zone_file(mirror, "energy_uj", std::to_string(counter.energy_uj));
      }
      ++ticks_;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::vector<Counter> counters_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> ticks_{0};
  std::thread thread_;
};

class PowercapTree : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_sandbox(); !why.empty()) GTEST_SKIP() << why;
    clear_tree();
  }
  static std::map<std::string, MeterFinding> find() {
    std::map<std::string, MeterFinding> found;
    for (MeterFinding& finding : find_meters()) {
      const std::string domain = finding.domain;
      if (domain.rfind("rapl", 0) != 0) continue;  // other sources look at the machine that runs the test
      EXPECT_EQ(found.count(domain), 0u) << domain << " appears twice";
      EXPECT_EQ(finding.meter == nullptr, !finding.reason.empty()) << domain;
      EXPECT_EQ(finding.counted, finding.meter != nullptr) << domain;
      EXPECT_EQ(finding.detail.empty(), finding.reason.empty()) << domain;
      found.emplace(domain, std::move(finding));
    }
    return found;
  }
  /// Says why there is none.
  static EnergyMeter& meter_of(const std::map<std::string, MeterFinding>& found, const std::string& domain) {
    const MeterFinding& finding = found.at(domain);
    if (!finding.meter) throw std::runtime_error(domain + " has no meter: " + finding.reason + ": " + finding.detail);
    return *finding.meter;
  }
  static std::uint64_t microjoules(EnergyMeter& meter) {
    return static_cast<std::uint64_t>(meter.read().joules * 1e6 + 0.5);
  }
};

constexpr std::uint64_t wide = 262'143'328'850;  // the range of a counter with a unit of 61 µJ

TEST_F(PowercapTree, NothingThereIsNoDriver) {
  const auto found = find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.at("rapl").reason, "no_driver");
  EXPECT_NE(found.at("rapl").detail.find("/sys/class/powercap/intel-rapl does not exist"), std::string::npos)
      << found.at("rapl").detail;
}

TEST_F(PowercapTree, ADriverWithoutZonesIsNoDriver) {
  std::filesystem::create_directory("/sys/class/powercap/intel-rapl");
  const auto found = find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.at("rapl").reason, "no_driver");
  EXPECT_NE(found.at("rapl").detail.find("has no zones"), std::string::npos) << found.at("rapl").detail;
}

TEST_F(PowercapTree, AHiddenTreeIsPermission) {
  std::filesystem::create_symlink("../../devices/virtual/powercap/hidden", "/sys/class/powercap/intel-rapl");
  EXPECT_EQ(find().at("rapl").reason, "permission");
}

TEST_F(PowercapTree, CountsEachSensorOnce) {
  make_zone("intel-rapl:0", "package-1", 5'000'000, wide);
  make_zone("intel-rapl:1", "package-0", 9'000'000, wide);
  make_zone("intel-rapl:1/intel-rapl:1:0", "core", 4'000'000, wide);
  make_zone("intel-rapl:1/intel-rapl:1:1", "uncore", 1'000'000, wide);
  make_zone("intel-rapl:1/intel-rapl:1:2", "dram", 2'000'000, wide);
  make_zone("intel-rapl:a", "psys", 20'000'000, wide);  // ids are hexadecimal, and may have gaps
  make_zone("intel-rapl-mmio:0", "package-0", 9'000'000, wide);
  write_zone_file("intel-rapl:0", "enabled", "0");  // limits are off; the counter counts all the same
  Ticker ticker({{"intel-rapl:0", 5'000'000, wide, 1000},
                 {"intel-rapl:1", 9'000'000, wide, 2000, {"intel-rapl-mmio:0"}},
                 {"intel-rapl:1/intel-rapl:1:0", 4'000'000, wide, 900},
                 {"intel-rapl:1/intel-rapl:1:1", 1'000'000, wide, 100},
                 {"intel-rapl:1/intel-rapl:1:2", 2'000'000, wide, 300},
                 {"intel-rapl:a", 20'000'000, wide, 5000}});
  const auto found = find();
  EXPECT_EQ(found.size(), 7u);
  EXPECT_EQ(meter_of(found, "rapl:package-0").scope(), EnergyScope::package);
  EXPECT_EQ(meter_of(found, "rapl:package-1").scope(), EnergyScope::package);
  EXPECT_EQ(meter_of(found, "rapl:package-0/dram").scope(), EnergyScope::dram);
  EXPECT_EQ(meter_of(found, "rapl:psys").scope(), EnergyScope::node);
  EXPECT_EQ(found.at("rapl:package-0/core").reason, "contained");
  EXPECT_EQ(found.at("rapl:package-0/uncore").reason, "contained");
  EXPECT_EQ(found.at("rapl-mmio:package-0").reason, "duplicate");

  // Counters stand in the order of their names, not of their instances: each meter follows its own.
  ticker.stop();
  const auto step = [&](const char* domain, const std::string& zone, std::uint64_t to_uj, std::uint64_t from_uj) {
    EnergyMeter& meter = meter_of(found, domain);
    const std::uint64_t before = microjoules(meter);
    write_zone_file(zone, "energy_uj", std::to_string(to_uj));
    EXPECT_EQ(microjoules(meter) - before, to_uj - from_uj) << domain;
  };
  step("rapl:package-1", "intel-rapl:0", 80'000'000, ticker.counter(0).energy_uj);
  step("rapl:package-0", "intel-rapl:1", 90'000'000, ticker.counter(1).energy_uj);
  step("rapl:package-0/dram", "intel-rapl:1/intel-rapl:1:2", 70'000'000, ticker.counter(4).energy_uj);
  step("rapl:psys", "intel-rapl:a", 700'000'000, ticker.counter(5).energy_uj);
}

TEST_F(PowercapTree, MeasuresTheUpdatePeriod) {
  make_zone("intel-rapl:0", "package-0", 0, wide);
  Ticker ticker({{"intel-rapl:0", 0, wide, 1000}});
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t ticks = ticker.ticks();
  const auto found = find();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double period = meter_of(found, "rapl:package-0").update_period_seconds();
  EXPECT_GE(period, 0.001 * 0.5);  // the ticker sleeps a millisecond between two
  EXPECT_LE(period, seconds);
  EXPECT_GE(ticker.ticks() - ticks, 2u);
}

TEST_F(PowercapTree, OpensTwoDiesThatShowOneCounterOnce) {
  make_zone("intel-rapl:0", "package-0-die-0", 1'000'000, wide);
  make_zone("intel-rapl:1", "package-0-die-1", 1'000'000, wide);
  make_zone("intel-rapl:2", "package-1-die-0", 3'000'000, wide);
  Ticker ticker({{"intel-rapl:0", 1'000'000, wide, 1000, {"intel-rapl:1"}}, {"intel-rapl:2", 3'000'000, wide, 1000}});
  const auto found = find();
  EXPECT_TRUE(found.at("rapl:package-0-die-0").counted);
  EXPECT_EQ(found.at("rapl:package-0-die-1").reason, "duplicate");
  EXPECT_EQ(found.at("rapl:package-0-die-1").detail, "shows the same counter as rapl:package-0-die-0");
  EXPECT_TRUE(found.at("rapl:package-1-die-0").counted);
}

TEST_F(PowercapTree, UnreadableEnergyIsPermissionForThatZoneAlone) {
  make_zone("intel-rapl:0", "package-0", 1'000'000, wide);
  make_zone("intel-rapl:1", "package-1", 2'000'000, wide);
  ASSERT_EQ(chmod((zone_folder("intel-rapl:0") + "/energy_uj").c_str(), 0), 0);
  Ticker ticker({{"intel-rapl:1", 2'000'000, wide, 1000}});
  std::map<std::string, MeterFinding> found;
  {
    // Threads share the effective user id: the ticker writes as nobody, too.
    ASSERT_EQ(chmod(zone_folder("intel-rapl:1").c_str(), 0777), 0);
    const AsOrdinaryUser user;
    found = find();
  }
  const MeterFinding& closed = found.at("rapl:package-0");
  EXPECT_EQ(closed.reason, "permission");
  EXPECT_NE(closed.detail.find("/sys/class/powercap/intel-rapl/intel-rapl:0/energy_uj: Permission denied"),
            std::string::npos)
      << closed.detail;
  EXPECT_NE(closed.detail.find("chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"), std::string::npos)
      << closed.detail;
  EXPECT_TRUE(found.at("rapl:package-1").counted);
}

TEST_F(PowercapTree, ACounterThatStandsStillIsNotZeroJoules) {
  make_zone("intel-rapl:0", "package-0", 0, wide);
  const auto found = find();
  EXPECT_EQ(found.at("rapl:package-0").reason, "unsupported");
  EXPECT_NE(found.at("rapl:package-0").detail.find("stayed at 0"), std::string::npos)
      << found.at("rapl:package-0").detail;
}

TEST_F(PowercapTree, ACounterWithoutARangeIsUnsupported) {
  make_zone("intel-rapl:0", "package-0", 5, 0);
  std::filesystem::remove(zone_folder("intel-rapl:0") + "/max_energy_range_uj");
  make_zone("intel-rapl:1", "package-1", 5, 0);
  Ticker ticker({{"intel-rapl:0", 0, wide, 1000}, {"intel-rapl:1", 7, wide, 1000}});
  const auto found = find();
  EXPECT_EQ(found.at("rapl:package-0").reason, "unsupported");
  EXPECT_NE(found.at("rapl:package-0").detail.find("max_energy_range_uj"), std::string::npos);
  EXPECT_EQ(found.at("rapl:package-1").reason, "unsupported");
}

TEST_F(PowercapTree, TakesTheMaximumPowerFromTheConstraints) {
  make_zone("intel-rapl:0", "package-0", 0, wide);
  write_zone_file("intel-rapl:0", "constraint_0_name", "long_term");
  write_zone_file("intel-rapl:0", "constraint_0_power_limit_uw", "250000000");
  write_zone_file("intel-rapl:0", "constraint_0_max_power_uw", "270000000");
  write_zone_file("intel-rapl:0", "constraint_1_name", "short_term");
  write_zone_file("intel-rapl:0", "constraint_1_power_limit_uw", "324000000");
  write_zone_file("intel-rapl:0", "constraint_2_name",
                  "peak_power");  // limits the moment; here it is firmware's "unlimited"
  write_zone_file("intel-rapl:0", "constraint_2_power_limit_uw", "4095875000");
  make_zone("intel-rapl:1", "package-1", 0, wide);
  Ticker ticker({{"intel-rapl:0", 0, wide, 1000}, {"intel-rapl:1", 500, wide, 1000}});
  const auto found = find();
  const EnergyMeter &stated = meter_of(found, "rapl:package-0"), &unknown = meter_of(found, "rapl:package-1");
  EXPECT_DOUBLE_EQ(stated.maximum_power_watts(), 324);
  EXPECT_FALSE(stated.maximum_power_is_default());
  EXPECT_DOUBLE_EQ(stated.wrap_seconds(), 262143.32885 / 1000);  // never from the firmware's limits
  EXPECT_DOUBLE_EQ(unknown.maximum_power_watts(), 1000);
  EXPECT_TRUE(unknown.maximum_power_is_default());
}

/// A package of 125 W nominal with these limits.
void make_limited(const std::string& zone, const std::string& name, const char* long_term, const char* short_term) {
  make_zone(zone, name, 0, wide);
  write_zone_file(zone, "constraint_0_name", "long_term");
  write_zone_file(zone, "constraint_0_power_limit_uw", long_term);
  write_zone_file(zone, "constraint_0_max_power_uw", "125000000");
  write_zone_file(zone, "constraint_1_name", "short_term");
  write_zone_file(zone, "constraint_1_power_limit_uw", short_term);
}

TEST_F(PowercapTree, NominalPowerBoundsNothingWhereLimitsAreOff) {
  make_limited("intel-rapl:0", "package-0", "4095000000", "4095000000");  // an unlocked desktop
  make_limited("intel-rapl:1", "package-1", "125000000", "4095000000");   // one of the two
  make_limited("intel-rapl:2", "package-2", "65000000", "65000000");
  write_zone_file("intel-rapl:2", "enabled", "0");
  make_zone("intel-rapl:3", "package-3", 0, wide);  // no limit at all
  write_zone_file("intel-rapl:3", "constraint_0_max_power_uw", "125000000");
  Ticker ticker({{"intel-rapl:0", 0, wide, 1000},
                 {"intel-rapl:1", 0, wide, 2000},
                 {"intel-rapl:2", 0, wide, 3000},
                 {"intel-rapl:3", 0, wide, 4000}});
  const auto found = find();
  for (const char* domain : {"rapl:package-0", "rapl:package-1", "rapl:package-2", "rapl:package-3"}) {
    const EnergyMeter& meter = meter_of(found, domain);
    EXPECT_DOUBLE_EQ(meter.maximum_power_watts(), 1000) << domain;
    EXPECT_TRUE(meter.maximum_power_is_default()) << domain;
    EXPECT_DOUBLE_EQ(meter.wrap_seconds(), 262143.32885 / 1000) << domain;
  }
}

// It may be raised again within the run.
TEST_F(PowercapTree, ALimitAloneBoundsNothing) {
  make_zone("intel-rapl:0", "package-0", 0, wide);
  write_zone_file("intel-rapl:0", "constraint_0_name", "long_term");
  write_zone_file("intel-rapl:0", "constraint_0_power_limit_uw", "100000000");
  write_zone_file("intel-rapl:0", "constraint_0_max_power_uw", "0");
  Ticker ticker({{"intel-rapl:0", 0, wide, 1000}});
  const auto found = find();
  EXPECT_DOUBLE_EQ(meter_of(found, "rapl:package-0").maximum_power_watts(), 1000);
}

TEST_F(PowercapTree, LimitsBelowTheNominalPowerKeepIt) {
  make_limited("intel-rapl:0", "package-0", "65000000", "90000000");  // a cap that may be lifted along the run
  Ticker ticker({{"intel-rapl:0", 0, wide, 1000}});
  const auto found = find();
  EXPECT_DOUBLE_EQ(meter_of(found, "rapl:package-0").maximum_power_watts(), 125);
  EXPECT_FALSE(meter_of(found, "rapl:package-0").maximum_power_is_default());
}

TEST_F(PowercapTree, CountsExactJoulesThroughManyWraps) {
  // Read after each step, each step less than a round.
  constexpr std::uint64_t range = 2'000'000;
  make_zone("intel-rapl:0", "package-0", 1'999'000, range);
  Ticker ticker({{"intel-rapl:0", 1'999'000, range, 10}});
  const auto found = find();
  ticker.stop();
  EnergyMeter& meter = meter_of(found, "rapl:package-0");
  const std::uint64_t start = microjoules(meter);
  std::uint64_t value = ticker.counter(0).energy_uj, total = 0;
  std::uint64_t wraps = static_cast<std::uint64_t>(meter.read().wraps);  // while it was looked at
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t step = 1'999'999 - static_cast<std::uint64_t>(i) * 17'001;
    wraps += (value + step) / range;
    value = (value + step) % range;
    total += step;
    write_zone_file("intel-rapl:0", "energy_uj", std::to_string(value));
    ASSERT_EQ(microjoules(meter) - start, total) << i;
    ASSERT_EQ(meter.read().wraps, static_cast<int>(wraps)) << i;
  }
  EXPECT_GT(wraps, 30u);
}

TEST_F(PowercapTree, TheReaderKeepsWrapsCountedBetweenSnapshots) {
  // 4 kJ range, 1000 W at most: a wrap takes 4 s at least, the reader looks each second. The counter runs at 950 W.
  constexpr std::uint64_t range = 4'000'000'000, start = 3'500'000'000;
  make_zone("intel-rapl:0", "package-0", start, range);
  Ticker ticker({{"intel-rapl:0", start, range, 0, {}, 950}});
  EnergyReader reader(find_meters());
  EXPECT_DOUBLE_EQ(reader.interval_seconds(), 1);
  const EnergySnapshot begin = reader.snapshot();
  // 4750 J: more than a whole round, which a reading at both ends alone would take for less than two.
  std::this_thread::sleep_for(std::chrono::seconds(5));
  ticker.stop();
  const EnergySnapshot end = reader.snapshot();
  ASSERT_TRUE(begin.readings[0].sample && end.readings[0].sample) << end.readings[0].detail;

  // What the meter counted since it was opened, and what the counter ran since it was started, end at the same value;
  // the opening came a little after the start. So their difference is what ran before: less than a round.
  const auto counted_uj = static_cast<std::uint64_t>(end.readings[0].sample->joules * 1e6 + 0.5);
  const std::uint64_t ran_uj = ticker.counter(0).total_uj;
  EXPECT_GT(counted_uj, range);
  EXPECT_LE(counted_uj, ran_uj);
  EXPECT_LT(ran_uj - counted_uj, range);
  const auto rows = make_ledger(reader.findings(), begin, end);
  EXPECT_EQ(rows[0].reason, "") << rows[0].detail;
  EXPECT_GE(rows[0].wraps, 1);
  EXPECT_DOUBLE_EQ(rows[0].energy_joules.value(), end.readings[0].sample->joules - begin.readings[0].sample->joules);
}

}  // namespace
}  // namespace tw
