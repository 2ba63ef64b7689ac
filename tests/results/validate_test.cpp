#include <gtest/gtest.h>

#include "results/report_io.hpp"
#include "results/verdict.hpp"
#include "tests/results/samples.hpp"

namespace tw {
namespace {

using namespace testing;

std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(Validate, SampleReportsAreGood) {
  EXPECT_EQ(all(validate_report(to_json(sample_report()))), "");
  Report energy = sample_report();
  energy.records = {sample_record_with_energy()};
  summarise(energy.records[0]);
  EXPECT_EQ(all(validate_report(to_json(energy))), "");
}

}  // namespace
}  // namespace tw
