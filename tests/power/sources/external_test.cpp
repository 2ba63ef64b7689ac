#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <system_error>
#include <thread>

#include "power/meter/ledger.hpp"
#include "power/sources/external/series.hpp"
#include "power/sources/external/source.hpp"
#include "tests/power/fake_tree.hpp"
#include "tests/power/ordinary_user.hpp"

namespace tw {

using namespace power;

namespace {

using external::Series;

TEST(ExternalTime, ReadsSecondsAndIso8601) {
  EXPECT_DOUBLE_EQ(external::parse_time("1700000000.25").value(), 1700000000.25);
  EXPECT_DOUBLE_EQ(external::parse_time("1970-01-01T00:00:00Z").value(), 0);
  EXPECT_DOUBLE_EQ(external::parse_time("2023-11-14T22:13:20Z").value(), 1700000000);
  EXPECT_DOUBLE_EQ(external::parse_time("2023-11-14 23:13:20.5+01:00").value(), 1700000000.5);
  EXPECT_DOUBLE_EQ(external::parse_time("2023-11-14T16:43:20-0530").value(), 1700000000);
  EXPECT_DOUBLE_EQ(external::parse_time("2024-02-29T00:00:00Z").value(), 1709164800);
}

TEST(ExternalTime, RefusesWhatIsAmbiguousOrNoTime) {
  for (const char* text :
       {"", "now", "2023-11-14T22:13:20", "2023-11-14", "2023-02-29T00:00:00Z", "2023-11-14T24:00:00Z",
        "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20Zulu", "2023-11-14T22:13:20+1", "12:00", "nan"})
    EXPECT_FALSE(external::parse_time(text)) << text;
}

class ExternalSeries : public testing::Test {
 protected:
  void take(const std::string& text) {
    tree.append("meter.csv", text);
    series.refresh();
  }
  /// What refresh() threw.
  std::string refusal(const std::string& text) {
    try {
      take(text);
    } catch (const std::system_error& error) {
      return error.what();
    }
    return "";
  }
  std::string window(double from, double to) {
    try {
      char number[32];
      std::snprintf(number, sizeof number, "%.6f", series.joules_of_window(from, to));
      return number;
    } catch (const WindowUnknown& unknown) {
      return unknown.reason;
    }
  }
  FakeTree tree;
  Series series{tree.at("meter.csv")};
};

TEST_F(ExternalSeries, IntegratesExactly) {
  take("time,watts\n100,50\n101,50\n102,150\n103,150\n104,0\n");
  EXPECT_EQ(window(100, 101), "50.000000");
  EXPECT_EQ(window(100, 104), "375.000000");
  EXPECT_EQ(window(101.5, 102.5), "137.500000");   // 62.5 of the rise from 100 to 150 W, 75 of the level
  EXPECT_EQ(window(101.25, 101.75), "50.000000");  // inside one interval
  EXPECT_EQ(window(103, 104), "75.000000");
  EXPECT_EQ(window(102, 102), "0.000000");
  EXPECT_DOUBLE_EQ(series.interval_seconds(), 1);
}

TEST_F(ExternalSeries, APowerThatCannotBeIsALineThatSaysNothing) {
  take("Time,Watts\n100,50\n101,1e308\n102,50\n103,50\n");
  EXPECT_EQ(window(102, 103), "50.000000");
  EXPECT_EQ(window(100, 103), "lost");
  EXPECT_NE(series.hole().find(":3: 1e308 W is more than any node draws"), std::string::npos) << series.hole();
}

TEST_F(ExternalSeries, SaysWhatItDoesNotCover) {
  EXPECT_NO_THROW(take("time,watts\n"));
  EXPECT_EQ(window(100, 101), "not_covered");
  take("100,50\n101,50\n");
  EXPECT_EQ(window(99.9, 101), "not_covered");   // the past
  EXPECT_EQ(window(100, 101.1), "not_covered");  // the future
  EXPECT_EQ(window(100, 101), "50.000000");
  take("102,50\n");  // it has come
  EXPECT_EQ(window(100, 101.1), "55.000000");
}

TEST_F(ExternalSeries, AGapInsideTheWindowTakesItsJoules) {
  take("time,watts\n100,50\n101,50\n102,50\n105,50\n106,50\n109.5,50\n110.5,50\n111.5,50\n");
  EXPECT_EQ(window(100, 106), "300.000000");  // 3 s is three intervals: no gap yet
  EXPECT_EQ(window(100, 110), "gap");
  EXPECT_EQ(window(107, 108), "gap");          // all of it
  EXPECT_EQ(window(109.5, 111), "75.000000");  // behind it
}

TEST_F(ExternalSeries, TakesTheColumnsByName) {
  take(
      "\xEF\xBB\xBFhost, watts ,phase,time\r\n# a "
      "remark\r\n\r\nn1,10,L1,2023-11-14T22:13:20Z\r\nn1,30,L1,1700000001\r\n");
  ASSERT_EQ(series.points().size(), 2u);
  EXPECT_EQ(window(1700000000, 1700000001), "20.000000");
}

TEST_F(ExternalSeries, LeavesALineThatIsStillBeingWritten) {
  take("time,watts\n100,50\n101,5");
  EXPECT_EQ(series.points().size(), 1u);
  take("00\n1");
  ASSERT_EQ(series.points().size(), 2u);
  EXPECT_DOUBLE_EQ(series.points()[1].watts, 500);
  take("02,7\n");
  EXPECT_EQ(series.points().size(), 3u);
}

TEST_F(ExternalSeries, AWrongHeaderIsForGood) {
  for (const char* text : {"100,50\n", "time;watts\n"}) {
    tree.remove("meter.csv");
    series = Series(tree.at("meter.csv"));
    const std::string first = refusal(text);
    EXPECT_NE(first.find(":1: the header must name the columns time and watts"), std::string::npos) << first;
    EXPECT_EQ(refusal("200,1\n"), first);
  }
}

TEST_F(ExternalSeries, ALineThatSaysNothingTakesTheWindowsThatTouchIt) {
  const std::pair<const char*, const char*> cases[] = {
      {"102,60\n", ":4: time is not ascending at \"102\""},
      {"99,60\n", ":4: time is not ascending"},
      {"103,-5\n", ":4: \"-5\" is not a power"},
      {"103,nan\n", ":4: \"nan\" is not a power"},
      {"103,\n", ":4: \"\" is not a power"},
      {"103\n", ":4: a line of 1 columns"},
      {"2026-01-01T00:00:00,5\n", ":4: \"2026-01-01T00:00:00\" is neither seconds since 1970 nor ISO 8601"}};
  for (const auto& [text, cause] : cases) {
    SCOPED_TRACE(text);
    tree.remove("meter.csv");
    series = Series(tree.at("meter.csv"));
    take("time,watts\n101,50\n102,50\n");
    EXPECT_EQ(refusal(text), "");
    EXPECT_NE(series.hole().find(cause), std::string::npos) << series.hole();
    EXPECT_EQ(window(101, 102), "50.000000") << "before it";
    EXPECT_EQ(window(101, 102.5), "lost") << "whatever may come";
    take("103.5,50\n104.5,50\n105.5,70\n");
    EXPECT_EQ(window(101, 105), "lost");
    EXPECT_EQ(window(103, 104), "lost");
    EXPECT_EQ(window(103.5, 105.5), "110.000000") << "behind it";
    EXPECT_EQ(window(101, 102), "50.000000");
  }
}

TEST_F(ExternalSeries, AFileThatBeginsAnewLeavesAHole) {
  take("time,watts\n100,50\n101,50\n");
  write_in_place(tree.at("meter.csv"), "watts,time");
  EXPECT_NO_THROW(series.refresh());
  EXPECT_EQ(window(100, 101), "50.000000");
  take("1,102\n3,103\n");  // in another order
  EXPECT_EQ(window(100, 102), "lost");
  EXPECT_EQ(window(102, 103), "2.000000");
}

TEST_F(ExternalSeries, AFileThatIsGoneForAMomentIsNotLostForGood) {
  take("time,watts\n100,50\n101,50\n");
  std::filesystem::rename(tree.at("meter.csv"), tree.at("away"));
  EXPECT_THROW(series.refresh(), std::system_error);
  std::filesystem::rename(tree.at("away"), tree.at("meter.csv"));
  take("102,50\n");
  EXPECT_EQ(window(100, 102), "100.000000") << "nothing is missing";
}

TEST_F(ExternalSeries, HolesAreBounded) {
  std::string text = "time,watts\n0,1\n";
  for (int i = 1; i < 1000; ++i) text += "?,1\n" + std::to_string(i) + ",1\n";
  take(text + "1000,1\n1001,1\n");
  EXPECT_EQ(window(998, 999), "lost");
  EXPECT_EQ(window(999, 1001), "2.000000");
}

TEST_F(ExternalSeries, ForgetsWhatIsLongPast) {
  std::string text = "time,watts\n";
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + ",1\n";
  take(text);
  series.forget_before(900);
  EXPECT_EQ(series.points().size(), 200u);
  EXPECT_EQ(window(900, 950), "50.000000");
}

double wall_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

class ExternalMeter : public testing::Test {
 protected:
  void add(double time, double watts) {
    char line[64];
    std::snprintf(line, sizeof line, "%.6f,%.3f\n", time, watts);
    tree.append("meter.csv", line);
  }
  std::map<std::string, MeterFinding> find(double wait_seconds) {
    opened_before_ = wall_now();
    auto found = by_domain(external::find_meters_in(tree.at("meter.csv"), wait_seconds));
    opened_after_ = wall_now();
    return found;
  }
  FakeTree tree;
  double opened_before_ = 0, opened_after_ = 0;
};

TEST_F(ExternalMeter, AlignsTheSeriesWithTheWindow) {
  // The series runs ahead of the clock at a constant 100 W: whatever the window, its joules are exact.
  tree.append("meter.csv", "time,watts\n");
  const double start = wall_now() - 10;
  for (int i = 0; i < 300; ++i) add(start + i, 100);
  auto found = find(0);
  EnergyMeter& meter = *found.at("external").meter;
  EXPECT_NEAR(meter.update_period_seconds(), 1, 1e-5);
  EXPECT_EQ(meter.method(), EnergyMethod::integrated_power);
  const EnergySample from = meter.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const EnergySample to = meter.read();
  const double seconds = std::chrono::duration<double>(to.time - from.time).count();
  EXPECT_NEAR(meter.joules_between(from, to), 100 * seconds, 1e-4);  // the file's times end at a microsecond
  EXPECT_GE(to.joules, from.joules);
}

// Each reading adds what has come since the last one, also where the series lags and jumps.
TEST_F(ExternalMeter, ReadingsAddUpToTheWhole) {
  tree.append("meter.csv", "time,watts\n");
  const double start = wall_now() - 1000;
  for (int i = 0; i < 10; ++i) add(start + i, 100);
  auto found = find(0);
  EnergyMeter& meter = *found.at("external").meter;
  EXPECT_EQ(meter.read().joules, 0) << "all of it lies before the opening";
  double before = 0;
  for (int i = 0; i < 20; ++i) {
    add(wall_now() + 0.001, i % 2 == 0 ? 300 : 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const double now = meter.read().joules;
    EXPECT_GE(now, before);
    before = now;
  }
  Series whole(tree.at("meter.csv"));
  whole.refresh();
  const double last = whole.points().back().time;
  EXPECT_GT(before, 0);
  // When it was opened is known as far as find() took.
  EXPECT_NEAR(before, whole.joules(whole.points()[9].time, last) - whole.joules(whole.points()[9].time, opened_before_),
              300 * (opened_after_ - opened_before_) + 1e-3);
}

TEST_F(ExternalMeter, WaitsForASeriesThatComesLate) {
  tree.append("meter.csv", "time,watts\n");
  const double start = wall_now() - 10;
  for (int i = 0; i < 10; ++i) add(start + i, 100);  // ends in the past
  auto found = find(30);
  EnergyMeter& meter = *found.at("external").meter;
  const EnergySample from = meter.read(), to = meter.read();
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (int i = 10; i < 100; ++i) add(start + i, 100);
  });
  const double joules = meter.joules_between(from, to);
  late.join();
  EXPECT_NEAR(joules, 100 * std::chrono::duration<double>(to.time - from.time).count(), 1e-4);
}

TEST_F(ExternalMeter, AWindowThatIsNotCoveredIsNullWithAReason) {
  tree.append("meter.csv", "time,watts\n");
  const double start = wall_now() - 10;
  for (int i = 0; i < 5; ++i) add(start + i, 100);
  EnergyReader reader(external::find_meters_in(tree.at("meter.csv"), 0));
  EnergySnapshot begin = reader.snapshot();
  const EnergySnapshot end = reader.snapshot();
  begin.readings[0].sample->time -= std::chrono::seconds(2);  // no window is shorter than a second, the meter's pace
  const auto rows = make_ledger(reader.findings(), begin, end);
  EXPECT_FALSE(rows[0].energy_joules);
  EXPECT_EQ(rows[0].reason, "not_covered");
  EXPECT_NE(rows[0].detail.find("before the window's end"), std::string::npos) << rows[0].detail;
  // The meter goes on: the series comes, and so do the joules.
  for (int i = 5; i < 100; ++i) add(start + i, 100);
  EXPECT_TRUE(make_ledger(reader.findings(), begin, end)[0].energy_joules);
}

TEST_F(ExternalMeter, IsWaitedForAsItsPaceNeeds) {
  EXPECT_DOUBLE_EQ(external::wait_seconds_for(1), 3);
  EXPECT_DOUBLE_EQ(external::wait_seconds_for(10), 20);
  tree.append("meter.csv", "time,watts\n");
  const double start = wall_now() - 600;
  for (int i = 0; i < 6; ++i) add(start + 100 * i, 100);
  const auto found = find(0);
  EXPECT_EQ(found.at("external").reason, "unsupported");
  EXPECT_NE(found.at("external").detail.find("a point every 100 s"), std::string::npos) << found.at("external").detail;
}

// The largest nodes on sale: eight GPUs and what cools them, 14.3 kW by the maker's guide.
TEST_F(ExternalMeter, ANodeOfEightGpusIsPlausible) {
  tree.append("meter.csv", "time,watts\n");
  const double start = wall_now() - 10;
  for (int i = 0; i < 300; ++i) add(start + i, 14300);
  EnergyReader reader(external::find_meters_in(tree.at("meter.csv"), 0));
  EnergySnapshot begin = reader.snapshot();
  const EnergySnapshot end = reader.snapshot();
  begin.readings[0].sample->time -= std::chrono::seconds(2);
  const LedgerRow row = make_ledger(reader.findings(), begin, end)[0];
  EXPECT_EQ(row.reason, "");
  EXPECT_TRUE(row.counted);
}

TEST_F(ExternalMeter, PointsThatComeLateAreTheWindowsPeriod) {
  tree.append("meter.csv", "time,watts\n");
  const double start = wall_now() - 20;
  for (int i = 0; i < 60; ++i)
    if (i != 30) add(start + i, 100);  // two seconds without a point, in the window
  EnergyReader reader(external::find_meters_in(tree.at("meter.csv"), 0));
  EnergySnapshot begin = reader.snapshot(), end = reader.snapshot();
  end.readings[0].sample->time += std::chrono::seconds(20);
  const LedgerRow row = make_ledger(reader.findings(), begin, end)[0];
  ASSERT_TRUE(row.uncertainty_joules);
  EXPECT_NEAR(*row.uncertainty_joules, 2 * 100 * 2.0, 1);
  EXPECT_NEAR(row.update_period_seconds, 1, 1e-4);
}

// A file of last week, or one whose times are in another unit, would measure nothing for the whole run.
TEST_F(ExternalMeter, ASeriesThatIsFarFromNowIsNone) {
  const auto detail_of = [&](double first, double step) {
    char text[200];
    std::snprintf(text, sizeof text, "time,watts\n%.3f,100\n%.3f,100\n", first, first + step);
    tree.write("meter.csv", text);
    const auto found = find(0);
    EXPECT_FALSE(found.at("external").meter);
    EXPECT_EQ(found.at("external").reason, "unsupported");
    return found.at("external").detail;
  };
  EXPECT_NE(detail_of(wall_now() - 7300, 1).find("2 hours before now: does the meter still write"), std::string::npos);
  EXPECT_NE(detail_of(wall_now() + 7300, 1).find("2 hours after now: it must be in seconds since 1970"),
            std::string::npos);
  EXPECT_NE(detail_of(1e3 * wall_now(), 1000).find("is it in milliseconds?"), std::string::npos);
  EXPECT_NE(detail_of(1e9 * wall_now(), 1e9).find("is it in nanoseconds?"), std::string::npos);
  EXPECT_NE(detail_of(4711, 1).find("it must be in seconds since 1970"), std::string::npos) << "since boot";
  tree.write("meter.csv", "time,watts\n");
  add(wall_now() - 1800, 100), add(wall_now() - 1799, 100);
  EXPECT_TRUE(find(0).at("external").meter) << "it may be slow";
}

// What is long past is not even read: a year of it may be there.
TEST_F(ExternalMeter, OfALongFileTheEndIsRead) {
  constexpr int lines = 1'000'000;
  const double start = std::floor(wall_now()) - 10 - lines;
  std::string text = "\xEF\xBB\xBF\"Time\",rack,'WATTS'\n";
  for (int i = 0; i < lines; ++i) text += std::to_string(start + i) + ",\"r1\",\"100\"\n";
  tree.write("meter.csv", text);
  Series series(tree.at("meter.csv"), wall_now());
  series.refresh();
  EXPECT_LE(series.points().size(), 101u);
  EXPECT_EQ(series.points().back().time, start + lines - 1);
  EXPECT_EQ(series.hole(), "");
  tree.append("meter.csv", "oops\n");
  series.refresh();
  EXPECT_NE(series.hole().find(" behind byte "), std::string::npos) << series.hole();
  tree.append("meter.csv", std::to_string(start + lines + 1) + ",r1,100\n");
  series.refresh();
  EXPECT_EQ(series.points().back().time, start + lines + 1);
  // And one that has no lines at all, as a sparse file.
  std::filesystem::resize_file(tree.at("meter.csv"), std::uintmax_t{1} << 40);
  try {
    series.refresh();
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("meter.csv"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("has a line longer than 1 MiB"), std::string::npos) << error.what();
  }
}

// In whole words: no errno's text behind them.
TEST(ExternalErrors, SayWhatIsWrong) {
  const FakeTree tree;
  const auto detail = [&](const std::string& file) { return external::find_meters_in(file, 0).at(0).detail; };
  tree.append("header.csv", "time;watts\n");
  const std::string header = tree.at("header.csv").string();
  EXPECT_EQ(detail(header), header + ":1: the header must name the columns time and watts, not \"time;watts\"");
  ASSERT_EQ(mkfifo(tree.at("pipe").c_str(), 0600), 0);
  EXPECT_EQ(detail(tree.at("pipe")), tree.at("pipe").string() + ": not a regular file");
  EXPECT_EQ(detail("/dev/zero"), "/dev/zero: not a regular file");
  EXPECT_EQ(detail("/dev"), "/dev: not a regular file");
}

TEST_F(ExternalMeter, SaysWhyThereIsNone) {
  EXPECT_EQ(find(0).at("external").reason, "unsupported");
  tree.append("meter.csv", "time,watts\n1,1\n");
  EXPECT_NE(find(0).at("external").detail.find("fewer than two points"), std::string::npos);
  tree.deny("meter.csv");
  const AsOrdinaryUser user;
  EXPECT_EQ(find(0).at("external").reason, "permission");
}

TEST(ExternalSource, IsAskedOnlyByOption) {
  for (const MeterFinding& finding : find_meters()) EXPECT_NE(finding.domain, "external");
  FakeTree tree;
  tree.append("meter.csv", "time,watts\n1,1\n2,1\n");
  MeterOptions options;
  options.external_csv = tree.at("meter.csv");
  const auto findings = find_meters(options);
  EXPECT_EQ(
      std::count_if(findings.begin(), findings.end(), [](const MeterFinding& one) { return one.domain == "external"; }),
      1);
}

}  // namespace
}  // namespace tw
