#include "power/sources/powercap/zones.hpp"

#include <gtest/gtest.h>

namespace tw::power::powercap {
namespace {

TEST(Zones, CountsEachJouleOnce) {
  // Two sockets in arbitrary instance order, the platform in between, and the MMIO mirror.
  const std::vector<ZoneName> zones = {{"intel-rapl", "package-1", "", "intel-rapl:0"},
                                       {"intel-rapl", "dram", "package-1", "intel-rapl:0:0"},
                                       {"intel-rapl", "psys", "", "intel-rapl:1"},
                                       {"intel-rapl", "package-0", "", "intel-rapl:2"},
                                       {"intel-rapl", "core", "package-0", "intel-rapl:2:0"},
                                       {"intel-rapl", "uncore", "package-0", "intel-rapl:2:1"},
                                       {"intel-rapl", "dram", "package-0", "intel-rapl:2:2"},
                                       {"intel-rapl-mmio", "package-0", "", "intel-rapl-mmio:0"},
                                       {"intel-rapl-mmio", "dram", "package-0", "intel-rapl-mmio:0:0"}};
  const auto uses = classify(zones);
  const struct {
    const char* domain;
    std::optional<EnergyScope> scope;
    const char* reason;
  } expected[] = {{"rapl:package-1", EnergyScope::package, ""},
                  {"rapl:package-1/dram", EnergyScope::dram, ""},
                  {"rapl:psys", EnergyScope::node, ""},
                  {"rapl:package-0", EnergyScope::package, ""},
                  {"rapl:package-0/core", std::nullopt, "contained"},
                  {"rapl:package-0/uncore", std::nullopt, "contained"},
                  {"rapl:package-0/dram", EnergyScope::dram, ""},
                  {"rapl-mmio:package-0", std::nullopt, "duplicate"},
                  {"rapl-mmio:package-0/dram", std::nullopt, "duplicate"}};
  ASSERT_EQ(uses.size(), std::size(expected));
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_EQ(uses[i].domain, expected[i].domain);
    EXPECT_EQ(uses[i].scope, expected[i].scope) << expected[i].domain;
    EXPECT_EQ(uses[i].reason, expected[i].reason) << expected[i].domain;
    EXPECT_EQ(uses[i].detail.empty(), uses[i].scope.has_value()) << expected[i].domain;
  }
}

TEST(Zones, TakesTheMmioZoneWhereItIsTheOnlyOne) {
  const auto uses = classify({{"intel-rapl-mmio", "package-0", "", "intel-rapl-mmio:0"}});
  EXPECT_EQ(uses[0].scope, EnergyScope::package);
  EXPECT_EQ(uses[0].domain, "rapl-mmio:package-0");
}

TEST(Zones, KeepsDiesApart) {
  const auto uses = classify(
      {{"intel-rapl", "package-0-die-0", "", "intel-rapl:0"}, {"intel-rapl", "package-0-die-1", "", "intel-rapl:1"}});
  EXPECT_EQ(uses[0].domain, "rapl:package-0-die-0");
  EXPECT_EQ(uses[1].domain, "rapl:package-0-die-1");
  EXPECT_EQ(uses[1].scope, EnergyScope::package);
}

TEST(Zones, NamesNamesakesApart) {
  const auto uses =
      classify({{"intel-rapl", "package-0", "", "intel-rapl:0"}, {"intel-rapl", "package-0", "", "intel-rapl:1"}});
  EXPECT_EQ(uses[0].domain, "rapl:package-0@intel-rapl:0");
  EXPECT_EQ(uses[1].domain, "rapl:package-0@intel-rapl:1");
}

TEST(Zones, CountsThePlatformOnce) {
  const auto uses =
      classify({{"intel-rapl", "psys", "", "intel-rapl:0"}, {"intel-rapl", "psys-1", "", "intel-rapl:1"}});
  EXPECT_EQ(uses[0].scope, EnergyScope::node);
  EXPECT_EQ(uses[1].reason, "duplicate");
}

TEST(Zones, LeavesOutWhatItDoesNotKnow) {
  const auto uses = classify({{"intel-rapl", "cooler", "", "intel-rapl:0"}, {"intel-rapl", "", "", "intel-rapl:1"}});
  EXPECT_EQ(uses[0].reason, "unsupported");
  EXPECT_EQ(uses[0].detail, "zone intel-rapl:0 has the unknown name \"cooler\"");
  EXPECT_EQ(uses[1].reason, "unsupported");
}

}  // namespace
}  // namespace tw::power::powercap
