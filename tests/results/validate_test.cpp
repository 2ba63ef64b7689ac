#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "results/report_io.hpp"
#include "results/verdict.hpp"
#include "tests/results/golden.hpp"
#include "tests/results/samples.hpp"

namespace tw {
namespace {

using namespace testing;

std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(Validate, GoldenReports) {
  expect_golden("good.json", to_json(sample_report()));
  expect_golden("good_energy.json", to_json(sample_energy_report()));
  EXPECT_EQ(all(validate_report(fixture("good.json"))), "");
  EXPECT_EQ(all(validate_report(fixture("good_energy.json"))), "");
}

/// Each line of broken.txt changes one thing in a good report and names what must be said about it.
TEST(Validate, EachFaultIsNamed) {
  std::istringstream lines(fixture("broken.txt"));
  int faults = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    SCOPED_TRACE(line);
    std::vector<std::string> part;
    for (std::size_t at = 0, end; at <= line.size(); at = end + 3) {
      end = std::min(line.find(" | ", at), line.size());
      part.push_back(line.substr(at, end - at));
    }
    ASSERT_EQ(part.size(), 5u);
    std::string text = fixture(part[1] + ".json");
    const auto at = text.find(part[2]);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, part[2].size(), part[3]);
    const std::string said = all(validate_report(text));
    EXPECT_NE(said.find(part[4]), std::string::npos) << said;
    ++faults;
  }
  EXPECT_GT(faults, 30);
}

TEST(Validate, TextThatIsNoReport) {
  EXPECT_EQ(all(validate_report("")),
            "not JSON: line 1, column 1: syntax error while parsing value - unexpected end of input; "
            "expected '[', '{', or a literal\n");
  EXPECT_EQ(all(validate_report("[]")), "not a report: the document is array\n");
  EXPECT_EQ(all(validate_report("{}")), "not a report: key \"schema_version\" is missing\n");
  EXPECT_EQ(all(validate_report("{\"schema_version\": 1}")),
            "/schema_version: 1 is not \"1.0\", the version that this program reads\n");
  std::string torn = fixture("good.json");
  torn.resize(torn.size() / 2);
  EXPECT_TRUE(all(validate_report(torn)).starts_with("not JSON: line "));
}

TEST(Validate, ACountedRowWithJoulesHasNoExcuse) {
  Report report = sample_energy_report();
  report.records[0].trials[0].energy[3].counted = true;  // "contained"
  summarise(report.records[0]);
  EXPECT_EQ(all(validate_report(to_json(report))),
            "/records/0/trials/0/energy/3/reason: a counted row with joules has one\n");
}

TEST(Validate, InvalidRecordsAreGoodReports) {
  Report report = sample_report();
  report.records[0].trials[1].loss[3] = 0.0 / 0.0;
  summarise(report.records[0]);
  ASSERT_EQ(report.records[0].verdict.status, "invalid");
  EXPECT_EQ(all(validate_report(to_json(report))), "");
}

}  // namespace
}  // namespace tw
