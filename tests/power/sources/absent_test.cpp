#include <gtest/gtest.h>

#include "power/meter/energy_meter.hpp"

// Without libpowercap the source stays in the list and says what would bring it back.
TEST(Powercap, SaysThatItWasNotCompiled) {
  const auto findings = tw::power::find_meters();
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].domain, "rapl");
  EXPECT_EQ(findings[0].reason, "not_compiled");
  EXPECT_NE(findings[0].detail.find("libpowercap"), std::string::npos);
  EXPECT_EQ(findings[0].meter, nullptr);
  EXPECT_FALSE(findings[0].counted);
}
