// The power cap's own reasoning, over a zone that can be locked, ignore writes, round and be changed by others.
#include "power/sources/powercap/cap_knob.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <optional>

namespace tw::power::powercap {
namespace {

struct FakeZone {
  std::uint64_t limit_uw = 205'000'000, window_us = 999'424, maximum_uw = 205'000'000, energy_uj = 100,
                range_uj = 1'000'000;
  std::optional<std::uint64_t> minimum_uw = {};
  bool enabled = true, ignores_writes = false, ignores_enable = false;
  int limit_error = 0, enable_error = 0;
  std::uint64_t round_uw = 1, energy_step_uj = 0;
};

class FakeAccess : public CapAccess {
 public:
  explicit FakeAccess(FakeZone& zone) : zone_(zone) {}
  std::string path() const override { return "zone"; }
  int get_limit_uw(std::uint64_t* value) override { return *value = zone_.limit_uw, 0; }
  int set_limit_uw(std::uint64_t value) override {
    if (zone_.limit_error != 0) return zone_.limit_error;
    if (!zone_.ignores_writes) zone_.limit_uw = value / zone_.round_uw * zone_.round_uw;
    return 0;
  }
  int get_window_us(std::uint64_t* value) override { return *value = zone_.window_us, 0; }
  int set_window_us(std::uint64_t value) override { return zone_.window_us = value, 0; }
  int get_enabled(bool* value) override { return *value = zone_.enabled, 0; }
  int set_enabled(bool value) override {
    if (zone_.enable_error != 0) return zone_.enable_error;
    if (!zone_.ignores_enable) zone_.enabled = value;
    return 0;
  }
  int get_maximum_uw(std::uint64_t* value) override {
    *value = zone_.maximum_uw;
    return zone_.maximum_uw == 0 ? -ENODATA : 0;
  }
  int get_minimum_uw(std::uint64_t* value) override {
    *value = zone_.minimum_uw.value_or(1);
    return zone_.minimum_uw ? 0 : -ENOENT;
  }
  int get_energy_uj(std::uint64_t* value) override {
    *value = zone_.energy_uj;
    zone_.energy_uj = (zone_.energy_uj + zone_.energy_step_uj) % zone_.range_uj;
    return 0;
  }
  int get_energy_range_uj(std::uint64_t* value) override { return *value = zone_.range_uj, 0; }

 private:
  FakeZone& zone_;
};

class CapKnobTest : public testing::Test {
 protected:
  std::string refusal(double watts) {
    try {
      knob->set(watts);
    } catch (const NotApplied& error) {
      return error.reason;
    }
    return "";
  }
  FakeZone zone;
  std::unique_ptr<Knob> knob = make_cap_knob(std::make_unique<FakeAccess>(zone), "rapl:package-0", 1000);
};

TEST_F(CapKnobTest, SetsEnablesAndPutsBack) {
  zone.enabled = false;
  EXPECT_EQ(knob->get(), std::nullopt);  // a limit that does not bind
  const KnobState found = knob->save();
  EXPECT_EQ(found, (KnobState{{"limit_uw", "205000000"}, {"window_us", "999424"}, {"enabled", "0"}}));
  const Attempt attempt{120, knob->set(120)};
  EXPECT_EQ(zone.limit_uw, 120'000'000u);
  EXPECT_TRUE(zone.enabled);
  EXPECT_EQ(knob->get(), 120);
  EXPECT_TRUE(knob->is_ours(120, 120));
  const PutBack done = knob->put_back(found, {&attempt, 1});
  EXPECT_TRUE(done.changed);
  EXPECT_FALSE(done.reset);
  EXPECT_EQ(done.left, "");
  EXPECT_EQ(knob->save(), found);
  EXPECT_FALSE(knob->put_back(found, {&attempt, 1}).changed);
}

TEST_F(CapKnobTest, RoundingIsAcceptedAsItReadsBack) {
  const KnobState found = knob->save();
  zone.round_uw = 125'000;
  const double accepted = knob->set(100.3);
  EXPECT_EQ(accepted, 100.25);
  // Cut off before it had read back: still known as ours. What was only planned is not.
  const Attempt planned{100.3, std::nullopt}, cut_off{100.3, std::nullopt, {}, found};
  EXPECT_EQ(knob->put_back(found, {&planned, 1}).left, "rapl:package-0 power_limit_uw = 100250000");
  EXPECT_TRUE(knob->put_back(found, {&cut_off, 1}).changed);
  EXPECT_EQ(knob->save(), found);
}

TEST_F(CapKnobTest, PutsBackWhatWasCutOffWhateverTheHardwareMadeOfIt) {
  zone.enabled = false;
  const KnobState found = knob->save();
  const Attempt cut_off{100, std::nullopt, {}, found};
  for (const std::uint64_t limit_uw : {205'000'000u, 150'000'000u}) {  // switched on alone, or clamped, too
    zone.limit_uw = limit_uw, zone.enabled = true;
    const PutBack done = knob->put_back(found, {&cut_off, 1});
    EXPECT_TRUE(done.changed);
    EXPECT_EQ(done.left, "");
    EXPECT_EQ(knob->save(), found);
  }
  // What stood before the call was not left by it.
  const Attempt ours{120, knob->set(120)};
  zone.limit_uw = 90'000'000;
  const Attempt attempts[] = {ours, {100, std::nullopt, {}, knob->save()}};
  EXPECT_EQ(knob->put_back(found, attempts).left,
            "rapl:package-0 power_limit_uw = 90000000, rapl:package-0 enabled = 1");
}

TEST_F(CapKnobTest, NotApplied) {
  EXPECT_EQ(refusal(300), "out_of_range");
  EXPECT_EQ(refusal(20), "out_of_range");
  EXPECT_EQ(refusal(std::nan("")), "out_of_range");
  zone.limit_error = -ENODATA;
  EXPECT_EQ(refusal(100), "locked");
  zone.limit_error = -EACCES;
  EXPECT_EQ(refusal(100), "permission");
  zone.limit_error = 0;
  zone.ignores_writes = true;
  EXPECT_EQ(refusal(100), "clamped");
  zone.ignores_writes = false;
  zone.enabled = false;
  zone.enable_error = -ENOSYS;
  EXPECT_EQ(refusal(100), "locked");
  zone.enable_error = 0;
  zone.ignores_enable = true;
  EXPECT_EQ(refusal(100), "locked");
}

TEST_F(CapKnobTest, NeverWritesZero) {
  const KnobState zero = {{"limit_uw", "0"}, {"window_us", "999424"}, {"enabled", "0"}};
  const Attempt attempt{120, knob->set(120)};
  EXPECT_THROW(knob->put_back(zero, {&attempt, 1}), NotApplied);
  EXPECT_THROW(knob->restore(zero), NotApplied);
  EXPECT_EQ(zone.limit_uw, 120'000'000u);
  zone.minimum_uw = 0;
  EXPECT_TRUE(knob->put_back(zero, {&attempt, 1}).changed);
  EXPECT_EQ(zone.limit_uw, 0u);
  EXPECT_EQ(refusal(120), "");
  // A zone that has it is not set, since it could not be put back.
  zone.minimum_uw = 25'000'000, zone.limit_uw = 0;
  EXPECT_EQ(refusal(120), "unsupported");
  EXPECT_EQ(zone.limit_uw, 0u);
}

TEST_F(CapKnobTest, PutsBackWhatWasClamped) {
  zone.enabled = false;
  const KnobState found = knob->save();
  zone.limit_uw = 150'000'000, zone.enabled = true;
  const Attempt raised{100, std::nullopt, {{"limit_uw", "150000000"}, {"enabled", "1"}}};
  EXPECT_EQ(knob->put_back(found, {&raised, 1}).left, "");
  EXPECT_EQ(knob->save(), found);
  // The limit stays as it was, but it was switched on.
  zone.ignores_writes = true;
  EXPECT_EQ(refusal(100), "clamped");
  EXPECT_TRUE(zone.enabled);
  const Attempt ignored{100, std::nullopt, {{"enabled", "1"}}};
  EXPECT_EQ(knob->put_back(found, {&ignored, 1}).left, "");
  EXPECT_EQ(knob->save(), found);
}

TEST_F(CapKnobTest, LeavesWhatSomebodyElseHasChanged) {
  const KnobState found = knob->save();
  const Attempt attempt{120, knob->set(120)};
  zone.limit_uw = 90'000'000;
  EXPECT_FALSE(knob->is_ours(120, 120));
  const PutBack done = knob->put_back(found, {&attempt, 1});
  EXPECT_FALSE(done.changed);
  EXPECT_EQ(done.left, "rapl:package-0 power_limit_uw = 90000000");
  EXPECT_EQ(zone.limit_uw, 90'000'000u);
}

// A limit that somebody else has set between two of ours is one that is to be in force.
TEST_F(CapKnobTest, AdoptsAForeignLimitWithItsSwitch) {
  zone.enabled = false;
  KnobState found = knob->save();
  const KnobState before = found;
  knob->set(120);
  const KnobState ours = knob->save();
  EXPECT_EQ(knob->adopt(found, ours, knob->save()), "");
  EXPECT_EQ(found, before);
  zone.window_us = 1000;
  EXPECT_EQ(knob->adopt(found, ours, knob->save()), "window_us = 1000");
  EXPECT_EQ(found.at("enabled"), "0");
  zone.limit_uw = 90'000'000;
  EXPECT_EQ(knob->adopt(found, ours, knob->save()), "limit_uw = 90000000");
  EXPECT_EQ(found, knob->save());
  EXPECT_EQ(found.at("enabled"), "1");
}

TEST_F(CapKnobTest, ASwitchTurnedOffByOthersStaysOff) {
  const KnobState found = knob->save();
  const Attempt attempt{120, knob->set(120)};
  zone.enabled = false;
  zone.window_us = 1000;
  const PutBack done = knob->put_back(found, {&attempt, 1});
  EXPECT_EQ(done.left, "rapl:package-0 enabled = 0, rapl:package-0 time_window_us = 1000");
  EXPECT_EQ(zone.limit_uw, 205'000'000u);  // that one was ours
  EXPECT_FALSE(zone.enabled);
  knob->restore(found);
  EXPECT_EQ(knob->save(), found);
}

TEST_F(CapKnobTest, RangeIsStatedOrADefault) {
  EXPECT_EQ(knob->range().maximum, 205);
  EXPECT_FALSE(knob->range().is_default);
  for (const std::uint64_t nothing : {std::uint64_t{0}, std::uint64_t{32'767'000'000}}) {
    zone.maximum_uw = nothing;
    EXPECT_EQ(knob->range().maximum, 1000);
    EXPECT_EQ(knob->range().minimum, 100);
    EXPECT_TRUE(knob->range().is_default);
  }
}

TEST_F(CapKnobTest, RefusesASavedStateNoPackageTakes) {
  EXPECT_THROW(knob->restore({{"limit_uw", "99999999999999"}, {"enabled", "1"}}), NotApplied);
  EXPECT_THROW(knob->restore({{"limit_uw", "-1"}, {"enabled", "1"}}), NotApplied);
  EXPECT_THROW(knob->restore({}), NotApplied);
  EXPECT_EQ(zone.limit_uw, 205'000'000u);
  knob->restore({{"limit_uw", "4095875000"}, {"enabled", "1"}});  // firmware's "unlimited", above the stated maximum
  EXPECT_EQ(zone.limit_uw, 4'095'875'000u);
}

TEST_F(CapKnobTest, ObservesWattsThroughAWrap) {
  EXPECT_EQ(knob->observe(), std::nullopt);  // stands still: nothing is known, and not 0 W
  zone.energy_uj = 999'000;
  zone.energy_step_uj = 5'000;
  const std::optional<double> watts = knob->observe();
  ASSERT_TRUE(watts);
  EXPECT_GT(*watts, 0);
  EXPECT_LE(*watts, 0.05);  // 5 mJ in 0.1 s or, on a busy machine, more
}

}  // namespace
}  // namespace tw::power::powercap
