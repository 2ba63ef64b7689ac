#include "results/tables.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <sstream>

#include "results/text.hpp"
#include "tests/results/golden.hpp"
#include "tests/results/samples.hpp"

namespace tw {
namespace {

using namespace text;

using namespace testing;

std::string without_escapes(const std::string& text) {
  return std::regex_replace(text, std::regex("\033\\[[0-9]+m"), "");
}
std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, columns(line));
  return widest;
}

TEST(Text, Figures) {
  EXPECT_EQ(si(0), "0");
  EXPECT_EQ(si(410.24), "410");
  EXPECT_EQ(si(52512), "52.5 k");
  EXPECT_EQ(si(999.6), "1.00 k");
  EXPECT_EQ(si(75e9, "FLOP/s"), "75.0 GFLOP/s");
  EXPECT_EQ(si(0.21693), "0.217");
  EXPECT_EQ(significant(9.996), "10.0");
  EXPECT_EQ(significant(-0.00981), "-0.00981");
  EXPECT_EQ(significant(1e-9), "1.00e-09");
  EXPECT_EQ(duration(0.01953), "19.5 ms");
  EXPECT_EQ(duration(0.9996), "1.00 s");
  EXPECT_EQ(duration(61), "61.0 s");
  EXPECT_EQ(duration(250), "4 min 10 s");
  EXPECT_EQ(duration(8.5e-4), "850 µs");
  EXPECT_EQ(duration(7260), "2 h 01 min");
  EXPECT_EQ(bytes(412.0 * 1024 * 1024), "412 MiB");
  EXPECT_EQ(bytes(16.0 * 1024 * 1024 * 1024), "16.0 GiB");
}

TEST(Text, WrapAndPad) {
  EXPECT_EQ(wrap("one two three four", 9, 2), "one two\n  three\n  four");
  EXPECT_EQ(pad_left("µs", 4), "  µs");
  EXPECT_EQ(pad_right("longer", 3), "longer");
}

TEST(Text, Sparkline) {
  const std::vector<double> v = {4, 3, 2, 1};
  EXPECT_EQ(sparkline(v, 4, true), "█▆▃▁");
  EXPECT_EQ(sparkline(v, 2, false), "90");
  EXPECT_EQ(sparkline(std::vector<double>{1, 1}, 4, false), "55");
  EXPECT_EQ(sparkline(std::vector<double>{1, NAN, 2}, 4, false), "0x9");
  EXPECT_EQ(bar(0.5, 4, true), "██");
  EXPECT_EQ(bar(0.53, 4, true), "██▏");
}

TEST(Tables, Summary100) { expect_golden("summary_100.txt", summary_table(sample_report(), {false, 100})); }
TEST(Tables, Summary80) { expect_golden("summary_80.txt", summary_table(sample_report(), {false, 80})); }
TEST(Tables, Summary100Color) { expect_golden("summary_100_color.txt", summary_table(sample_report(), {true, 100})); }
TEST(Tables, SummaryEnergy120) {
  expect_golden("summary_energy_120.txt", summary_table(sample_energy_report(), {false, 120}));
}
TEST(Tables, Show100) { expect_golden("show_100.txt", show_report(sample_report(), {false, 100})); }
TEST(Tables, ShowEnergy80Ascii) {
  expect_golden("show_energy_80_ascii.txt", show_report(sample_energy_report(), {false, 80, false}));
}

TEST(Tables, ColorAddsEscapesOnly) {
  for (const Report& report : {sample_report(), sample_energy_report()}) {
    EXPECT_EQ(without_escapes(summary_table(report, {true, 90})), summary_table(report, {false, 90}));
    EXPECT_NE(summary_table(report, {true, 90}), summary_table(report, {false, 90}));
    EXPECT_EQ(without_escapes(show_report(report, {true, 90})), show_report(report, {false, 90}));
    EXPECT_EQ(show_report(report, {false, 90}).find('\033'), std::string::npos);
  }
}

TEST(Tables, NoLinePassesTheWidth) {
  for (const Report& report : {sample_report(), sample_energy_report()})
    for (int width : {80, 100, 120}) {
      EXPECT_LE(widest_line(summary_table(report, {false, width})), static_cast<std::size_t>(width));
      EXPECT_LE(widest_line(show_report(report, {false, width})), static_cast<std::size_t>(width));
    }
}

TEST(Tables, AsciiIsAscii) {
  const std::string text = show_report(sample_energy_report(), {false, 100, false});
  for (char c : text) ASSERT_GT(c, 0);
}

TEST(Tables, NoRecords) { EXPECT_EQ(summary_table(Report{}, {}), "No points were run.\n"); }

}  // namespace
}  // namespace tw
