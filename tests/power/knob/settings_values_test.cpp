// Values that the hardware refuses, clamps or rounds, that somebody else has set or another run holds: what is put
// back, and what is left.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>

#include "tests/power/knob/settings_fixture.hpp"

namespace tw {

using namespace power;

namespace {

namespace fs = std::filesystem;
using Outcome = RestoredSetting::Outcome;

TEST_F(SettingsTest, WhatSomebodyElseSetsAlongAWindowIsSeen) {
  Settings settings = make_settings();
  settings.apply({{KnobKind::cpu_frequency, 1500}, {KnobKind::gpu_clock, 900}});
  KnobWatch watch;
  watch.watch(settings.to_watch());
  watch.begin();
  watch.look();
  EXPECT_TRUE(watch.end().empty()) << "all is as it was set";

  watch.begin();
  write_file_text(knobs / "cpu_frequency_mhz", "2000");
  write_file_text(knobs / "gpu_clock_mhz", "1200");
  const std::vector<KnobChange> after = watch.end();
  ASSERT_EQ(after.size(), 1u) << "a lock has no getter";
  EXPECT_EQ(after[0].kind, KnobKind::cpu_frequency);
  EXPECT_TRUE(after[0].is_set);
  EXPECT_EQ(after[0].expected.substr(after[0].expected.rfind(' ') + 1), "1500");
  ASSERT_TRUE(after[0].found);
  EXPECT_EQ(after[0].found->substr(after[0].found->rfind(' ') + 1), "2000");
  EXPECT_GE(after[0].time_seconds, 0);
  write_file_text(knobs / "cpu_frequency_mhz", "1500");

  // Changed and changed back between two edges: for the looks alone.
  watch.begin();
  write_file_text(knobs / "cpu_frequency_mhz", "2000");
  EXPECT_TRUE(eventually([&] { return watch.look(); })) << "its turn comes";
  write_file_text(knobs / "cpu_frequency_mhz", "1500");
  EXPECT_EQ(watch.end().size(), 1u);
  watch.begin();
  EXPECT_TRUE(watch.end().empty()) << "each window is judged by itself";
}

/// A cap that cannot be read any more.
class LostCap : public Knob {
 public:
  KnobKind kind() const override { return KnobKind::cpu_power_limit; }
  std::string domain() const override { return "rapl:package-0"; }
  KnobRange range() const override { return {50, 400, {}}; }
  std::optional<double> get() override { fail(); }
  double set(double) override { fail(); }
  std::optional<double> observe() override { fail(); }
  KnobState save() override { fail(); }
  bool is_ours(double, double) override { fail(); }
  void restore(const KnobState&) override { fail(); }

 private:
  [[noreturn]] static void fail() { throw std::system_error(EIO, std::generic_category(), "power_limit_uw"); }
};

TEST(KnobWatch, SaysWhereASetPointCannotBeReadBack) {
  LostCap cap;
  KnobWatch watch;
  watch.watch({{&cap, KnobState{{"limit_uw", "80000000"}}, true}});
  watch.begin();
  EXPECT_FALSE(watch.look());
  const std::vector<KnobChange> changes = watch.end();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].is_set);
  EXPECT_FALSE(changes[0].found);
  watch.watch({{&cap}});
  watch.begin();
  EXPECT_TRUE(watch.end().empty()) << "nobody has set it";
}

TEST_F(SettingsTest, WhatWasToStayAsFoundIsWatchedToo) {
  Settings settings = make_settings();
  KnobWatch watch;
  EXPECT_TRUE(watch.empty());
  watch.watch(settings.to_watch());
  EXPECT_FALSE(watch.empty());
  watch.begin();
  EXPECT_TRUE(watch.end().empty());
  write_file_text(knobs / "cpu_frequency_mhz", "2000");  // between two trials of a point
  watch.begin();
  const std::vector<KnobChange> changes = watch.end();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].is_set);
  write_file_text(knobs / "cpu_frequency_mhz", "2500");
}

TEST_F(SettingsTest, WhatIsNotAppliedIsPutBackAtOnce) {
  write_file_text(knobs / "locked", "");
  Settings settings = make_settings();
  const auto applied = settings.apply({{KnobKind::cpu_frequency, 1500}, {KnobKind::cpu_power_limit, 100}});
  ASSERT_EQ(applied.size(), 2u);
  EXPECT_EQ(applied[0].accepted, std::nullopt);
  EXPECT_EQ(applied[0].reason, "locked");
  EXPECT_EQ(applied[1].reason, "unsupported");  // no such knob among those found
  expect_put_back();
}

TEST_F(SettingsTest, WhatTheDriverClampedIsPutBackAtOnce) {
  write_file_text(knobs / "clamp", "2000");
  Settings settings = make_settings();
  const auto applied = settings.apply({{KnobKind::cpu_frequency, 1500}});
  ASSERT_EQ(applied.size(), 1u);
  EXPECT_EQ(applied[0].accepted, std::nullopt);
  EXPECT_EQ(applied[0].reason, "clamped");
  EXPECT_EQ(applied[0].detail, "another value reads back");
  expect_put_back();
}

// A value that somebody else wrote before is not made ours by a set point that changes nothing.
TEST_F(SettingsTest, AForeignValueIsLeftAlsoWhereOursIsRefused) {
  Settings settings = make_settings();
  settings.apply({{KnobKind::cpu_frequency, 1500}});
  write_file_text(knobs / "cpu_frequency_mhz", "2000");
  write_file_text(knobs / "clamp", "2000");
  const auto applied = settings.apply({{KnobKind::cpu_frequency, 1600}});
  ASSERT_EQ(applied.size(), 1u);
  EXPECT_EQ(applied[0].reason, "clamped");
  EXPECT_EQ(applied[0].foreign, "value = 2000");
  EXPECT_EQ(cpu(), "2000");
  EXPECT_FALSE(journal());
}

// Killed after the value was clamped, before it was back: the journal must name what read back.
TEST_F(SettingsTest, AClampedValueOfAKilledRunIsPutBackByItsGuardian) {
  write_file_text(knobs / "clamp", "2000");
  write_file_text(knobs / "hold", "");
  Process run(command());
  EXPECT_TRUE(eventually([&] {
    const auto folder = JournalFolder::open(base / "run", false);
    const auto journal = folder ? folder->read() : std::nullopt;
    return journal && std::any_of(journal->entries.begin(), journal->entries.end(), [](const JournalEntry& entry) {
             return entry.attempts.back().refused == KnobState{{"value", "2000"}};
           });
  }));
  EXPECT_EQ(run.end(SIGKILL), 128 + SIGKILL);
  EXPECT_EQ(cpu(), "2000");
  fs::remove(knobs / "hold");
  expect_put_back();
}

// Killed within set(), when the hardware has already made something else of the value: a clamp, or its rounding.
TEST_F(SettingsTest, ARunKilledWhileItSetsIsPutBackByItsGuardian) {
  for (const char* made : {"2000", "1497"}) {
    SCOPED_TRACE(made);
    write_file_text(knobs / "clamp", made);
    write_file_text(knobs / "hold-set", "");
    Process run(command());
    EXPECT_TRUE(eventually([&] { return cpu() == made; }));
    EXPECT_EQ(run.end(SIGKILL), 128 + SIGKILL);
    expect_put_back();
  }
}

// With its guardian killed, too, somebody else may have set the value since: it is put back, and that is said.
TEST_F(SettingsTest, ARunKilledWhileItSetsIsForRestoreWhichNamesTheValue) {
  write_file_text(knobs / "clamp", "2000");
  write_file_text(knobs / "hold-set", "");
  {
    Process run(command("announce"));
    const pid_t guardian = run.guardian();
    EXPECT_TRUE(eventually([&] { return cpu() == "2000"; }));
    ASSERT_EQ(kill(guardian, SIGKILL), 0);
    run.end(SIGKILL);
  }
  ASSERT_TRUE(journal());
  const RestoreSummary summary = restore();
  EXPECT_TRUE(summary.complete());
  ASSERT_EQ(summary.reports.size(), 1u);
  const std::vector<RestoredSetting>& settings = summary.reports[0].settings;
  const auto of_cpu = std::find_if(settings.begin(), settings.end(),
                                   [](const RestoredSetting& one) { return one.kind == KnobKind::cpu_frequency; });
  ASSERT_NE(of_cpu, settings.end());
  EXPECT_EQ(of_cpu->outcome, Outcome::put_back);
  EXPECT_EQ(of_cpu->unread, "value = 2000");
  expect_put_back();
}

/// A device that rounds; set() first looks at the journal that is on disk.
class RoundingKnob : public Knob {
 public:
  RoundingKnob(std::string domain, fs::path folder) : domain_(std::move(domain)), folder_(std::move(folder)) {}
  KnobKind kind() const override { return KnobKind::cpu_power_limit; }
  std::string domain() const override { return domain_; }
  KnobRange range() const override { return {10, 300, {}}; }
  std::optional<double> get() override { return now_; }
  double set(double value) override {
    seen = JournalFolder::open(folder_, false)->read();
    return now_ = std::floor(value);
  }
  std::optional<double> observe() override { return now_; }
  KnobState save() override { return {{"value", std::to_string(now_)}}; }
  bool is_ours(double requested, double accepted) override { return now_ == requested || now_ == accepted; }
  void restore(const KnobState& found) override { now_ = std::stod(found.at("value")); }
  std::optional<Journal> seen;

 private:
  std::string domain_;
  fs::path folder_;
  double now_ = 205;
};

TEST_F(SettingsTest, TheJournalKnowsWhatReadBackAndWhoseTurnItIs) {
  std::vector<KnobFinding> found(2);
  RoundingKnob* devices[2] = {};
  for (const int i : {0, 1}) {
    auto knob = std::make_unique<RoundingKnob>("rapl:package-" + std::to_string(i), base / "run");
    devices[i] = knob.get();
    found[i].kind = knob->kind();
    found[i].domain = knob->domain();
    found[i].knob = std::move(knob);
  }
  Settings settings(std::move(found));
  EXPECT_EQ(settings.apply({{KnobKind::cpu_power_limit, 120.5}})[1].accepted, 120);
  const KnobState at_first = {{"value", std::to_string(205.0)}};
  for (const int turn : {0, 1}) {
    ASSERT_TRUE(devices[turn]->seen);
    ASSERT_EQ(devices[turn]->seen->entries.size(), 2u);
    for (const int i : {0, 1}) {
      SCOPED_TRACE("device " + std::to_string(i) + " when device " + std::to_string(turn) + " is set");
      const Attempt& attempt = devices[turn]->seen->entries[static_cast<std::size_t>(i)].attempts.back();
      EXPECT_EQ(attempt.accepted, i < turn ? std::optional(120.0) : std::nullopt);
      EXPECT_EQ(attempt.before, i == turn ? std::optional(at_first) : std::nullopt);
    }
  }
}

/// A set point with a value beside it, as the switch of a cap has one.
class TwoValues : public Knob {
 public:
  TwoValues(KnobKind kind, std::function<void()> side_effect) : kind_(kind), side_effect_(std::move(side_effect)) {}
  KnobKind kind() const override { return kind_; }
  std::string domain() const override { return "cpu"; }
  KnobRange range() const override { return {1, 4000, {}}; }
  std::optional<double> get() override { return value; }
  double set(double wanted) override {
    side_effect_();
    return value = wanted;
  }
  std::optional<double> observe() override { return value; }
  KnobState save() override { return {{"value", std::to_string(value)}, {"beside", std::to_string(beside)}}; }
  bool is_ours(double, double accepted) override { return value == accepted; }
  void restore(const KnobState& found) override { value = std::stod(found.at("value")); }
  double value = 2500, beside = 0;

 private:
  KnobKind kind_;
  std::function<void()> side_effect_;
};

// What one set point does to another's values is no change of a trial; a set point itself that moved is one.
TEST_F(SettingsTest, WhatALaterSetPointMovesIsAsTheRunLeftIt) {
  TwoValues* first = nullptr;
  bool moves_the_set_point = false;
  auto one = std::make_unique<TwoValues>(KnobKind::cpu_frequency, [] {});
  auto other = std::make_unique<TwoValues>(KnobKind::cpu_power_limit, [&] {
    ++first->beside;
    if (moves_the_set_point) first->value = 1000;
  });
  first = one.get();
  std::vector<KnobFinding> found(2);
  found[0].kind = KnobKind::cpu_frequency, found[1].kind = KnobKind::cpu_power_limit;
  found[0].knob = std::move(one), found[1].knob = std::move(other);
  for (KnobFinding& finding : found) finding.domain = "cpu";
  Settings settings(std::move(found));
  const auto changes = [&] {
    settings.apply({{KnobKind::cpu_frequency, 1500}, {KnobKind::cpu_power_limit, 100}});
    KnobWatch watch;
    watch.watch(settings.to_watch());
    watch.begin();
    return watch.end();
  };
  EXPECT_TRUE(changes().empty());
  moves_the_set_point = true;
  const std::vector<KnobChange> moved = changes();
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].kind, KnobKind::cpu_frequency);
}

// A rank that alone can address a device journals beside the node's folder: a run that addresses all does not take it.
TEST_F(SettingsTest, ADeviceThatAnotherFolderHoldsIsNotTaken) {
  auto rank = JournalFolder::open(journal_folder_of_rank(3), true);
  ASSERT_TRUE(rank->lock({}));
  rank->write({boot_id(), this_process(), {}, {{KnobKind::gpu_clock, "nvml:GPU-0", {}, {{900, 900}}}}});
  write_file_text(knobs / "gpu_clock_mhz", "900");
  Settings settings = make_settings();
  const auto expect_held = [&](const std::map<KnobKind, double>& wanted) {
    try {
      settings.apply(wanted);
      ADD_FAILURE() << "two runs hold one device";
    } catch (const SettingsHeld& error) {
      EXPECT_NE(std::string(error.what()).find("run-rank3: settings are held by"), std::string::npos) << error.what();
    }
    EXPECT_EQ(gpu(), "900");
  };
  expect_held({{KnobKind::gpu_clock, 1200}});
  EXPECT_FALSE(journal());
  // What the other does not hold may be set, and stays where a later point wants too much.
  EXPECT_EQ(settings.apply({{KnobKind::cpu_frequency, 1500}}).at(0).accepted, 1500);
  expect_held({{KnobKind::cpu_frequency, 1600}, {KnobKind::gpu_clock, 1200}});
  EXPECT_EQ(cpu(), "1500");
  settings.restore_all();
  expect_held({{KnobKind::gpu_clock, 1200}});
  EXPECT_EQ(cpu(), "2500");
}

// What such a rank has left when it was killed is not taken for what was found.
TEST_F(SettingsTest, WhatADeadRunHasLeftInAnotherFolderIsPutBackFirst) {
  auto rank = JournalFolder::open(journal_folder_of_rank(3), true);
  ASSERT_TRUE(rank->lock({}));
  rank->write({boot_id(), this_process(), {}, {{KnobKind::cpu_frequency, "cpu", {{"value", "2500"}}, {{1500, 1500}}}}});
  write_file_text(knobs / "cpu_frequency_mhz", "1500");
  Settings settings = make_settings();
  rank.reset();
  EXPECT_EQ(settings.apply({{KnobKind::cpu_frequency, 1600}}).at(0).accepted, 1600);
  settings.restore_all();
  expect_put_back();
}

}  // namespace
}  // namespace tw
