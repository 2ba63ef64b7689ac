// Files in fixtures/ that tests compare with.
#pragma once

#include <string>
#include <vector>

namespace tw::testing {

std::string fixture(const std::string& name);
/// Compares with fixtures/NAME. TRAINWATT_UPDATE_GOLDEN=1 rewrites it and fails the test: look at the difference before
/// committing it.
void expect_golden(const std::string& name, const std::string& text);

/// One line of fixtures/broken.txt: a good report with one thing changed.
struct BrokenReport {
  std::string line, text, said;     ///< `said`: part of what must be said about it
};
std::vector<BrokenReport> broken_reports();

}  // namespace tw::testing
