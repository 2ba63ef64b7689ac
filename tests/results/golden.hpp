// Files in fixtures/ that tests compare with.
#pragma once

#include <string>

namespace tw::testing {

std::string fixture(const std::string& name);
/// Compares with fixtures/NAME. TRAINWATT_UPDATE_GOLDEN=1 rewrites it and fails the test: look at the difference before
/// committing it.
void expect_golden(const std::string& name, const std::string& text);

}  // namespace tw::testing
