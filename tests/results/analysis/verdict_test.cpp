#include "results/analysis/verdict.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "results/record/report_io.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

bool has_flag(const Record& r, const char* flag) {
  return std::ranges::count(r.verdict.flags, FlagName(flag)) == 1;
}
Record summarised(Record r) {
  summarise(r);
  return r;
}

TEST(Verdict, SummaryFollowsFromTheSamples) {
  Record r = sample_record();
  r.trials = {sample_trial(1, 2, 4), sample_trial(1, 2, 8), sample_trial(1, 2, 2)};
  r.trials[0].step_time_s = {1, 3};  // 2 steps of 64 samples in 4 s
  r.trials[1].step_time_s = {2, 2, 2, 2};
  r.trials[2].step_time_s = {2};
  r.trials[0].loss = {5, 4}, r.trials[1].loss = {4, 3, 3, 2}, r.trials[2].loss = {1};
  summarise(r);
  const Summary& s = r.summary;
  EXPECT_DOUBLE_EQ(s.samples_per_s->value, 32);
  EXPECT_DOUBLE_EQ(*s.samples_per_s->low, 32);
  EXPECT_EQ(s.samples_per_s->count, 3);
  EXPECT_DOUBLE_EQ(s.tokens_per_s->value, 32 * 128);
  EXPECT_DOUBLE_EQ(s.flops_per_s->value, 32 * 1.2e9);
  EXPECT_DOUBLE_EQ(s.step_time_s->value, 2);
  EXPECT_DOUBLE_EQ(*s.step_time_p50_s, 2);
  EXPECT_DOUBLE_EQ(*s.step_time_min_s, 1);
  EXPECT_DOUBLE_EQ(*s.step_time_max_s, 3);
  EXPECT_DOUBLE_EQ(*s.of_ceiling, 32 * 1.2e9 / 75e9);
  EXPECT_EQ(s.of_ceiling_reason, "");
  EXPECT_EQ(*s.loss_first, 5);
  EXPECT_EQ(*s.loss_last, 1);
  EXPECT_LT(*s.loss_slope_per_step, 0);
  EXPECT_EQ(r.verdict.status, Status::valid);
  EXPECT_EQ(s.planned_bytes_per_rank, 365ull << 20);  // what the caller set stays
}

TEST(Verdict, ThroughputIsTotalSamplesOverTheWindow) {
  Record r = sample_record();
  r.trials = {sample_trial(2, 1, 12.8)};
  r.trials[0].step_time_s = {1, 9};  // neither the mean of 64/1 and 64/9 nor 128/10: 2.8 s passed between the steps
  summarise(r);
  EXPECT_DOUBLE_EQ(r.summary.samples_per_s->value, 10);
  EXPECT_DOUBLE_EQ(r.summary.step_time_s->value, 5);
  r.trials[0].energy = sample_record_with_energy().trials[0].energy;
  summarise(r);  // samples/s and samples/J are of one window
  const Summary& s = r.summary;
  EXPECT_DOUBLE_EQ(s.samples_per_j.at(Scope::dram)->value * s.energy_j.at(Scope::dram)->value / 12.8,
                   s.samples_per_s->value);
}

TEST(Verdict, NoIntervalReachesBelowNothing) {
  Record r = sample_record();
  r.trials = {sample_trial(20, 0.01, 0.2), sample_trial(20, 1, 20), sample_trial(20, 2, 40)};
  summarise(r);
  for (const auto& e : {r.summary.samples_per_s, r.summary.tokens_per_s, r.summary.flops_per_s, r.summary.step_time_s}) {
    ASSERT_TRUE(e && e->low && e->high);
    EXPECT_EQ(*e->low, 0) << "Student's t would have it below";
    EXPECT_GT(*e->high, e->value);
  }
}

TEST(Verdict, StepsThatDoNotFillTheirWindow) {
  for (const auto& [window, flagged] : {std::pair{9.6, false}, {9.5, true}, {10.5, false}, {10.6, true}}) {
    Record r = sample_record();
    r.trials = {sample_trial(2, 1, 60), sample_trial(2, 1, window)};
    r.trials[0].step_time_s = {20, 40}, r.trials[1].step_time_s = {1, 9};
    summarise(r);
    EXPECT_EQ(has_flag(r, "steps_disagree"), flagged) << window;
    EXPECT_EQ(r.verdict.status, Status::valid);
  }
}

TEST(Verdict, AWindowHasALength) {
  for (double window : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Record r = sample_record();
    r.trials[1].window_s = window;
    summarise(r);
    EXPECT_EQ(r.verdict.reasons, std::vector<std::string>{"window: that of trial 2 has no positive, finite length"});
    EXPECT_EQ(r.verdict.status, Status::invalid);
    EXPECT_EQ(r.summary.samples_per_s->count, 2);
  }
}

TEST(Verdict, ImagesHaveNoTokens) {
  Record r = sample_record();
  r.workload.seq_len.reset();
  EXPECT_FALSE(summarised(r).summary.tokens_per_s);
}

TEST(Verdict, IsIdempotent) {
  for (Record r :
       {sample_record(), sample_record_with_energy(), sample_report().records[1], sample_report().records[2]}) {
    r.verdict.flags.push_back(Flag::narrow_affinity);
    summarise(r);
    const std::string once = to_json_line(r);
    summarise(r);
    EXPECT_EQ(to_json_line(r), once);
  }
}

TEST(Verdict, KeepsWhatTheCallerSaid) {
  Record r = sample_record();
  r.verdict.flags = {Flag::steps_given, Flag::oversubscribed};
  summarise(r);
  EXPECT_TRUE(has_flag(r, "steps_given") && has_flag(r, "oversubscribed"));
  EXPECT_EQ(r.verdict.status, Status::valid);
  r.verdict.reasons = {"thermal throttling"};
  EXPECT_EQ(summarised(r).verdict.status, Status::invalid);
  Record unsupported = sample_report().records[2];
  EXPECT_EQ(unsupported.verdict.status, Status::unsupported);
  EXPECT_TRUE(unsupported.verdict.flags.empty());
  EXPECT_EQ(unsupported.summary.energy_reason, "not measured");
}

TEST(Verdict, StaleDecisionsAreWithdrawn) {
  Record r = sample_record();
  r.verdict = {Status::invalid, {Flag::short_window, Flag::loss_not_finite}, {"loss_not_finite: at measured step 3 of 9"}};
  summarise(r);
  EXPECT_EQ(r.verdict.status, Status::valid);
  EXPECT_EQ(r.verdict.flags, std::vector<FlagName>{Flag::no_energy_meter});
}

TEST(Verdict, EnergyIsSummedByScopeOverCountedRows) {
  const Record r = summarised(sample_record_with_energy());
  const Summary& s = r.summary;
  ASSERT_EQ(s.energy_j.size(), 2u);
  EXPECT_DOUBLE_EQ(s.energy_j.at(Scope::package)->value, 11800);  // the contained core zone is left out
  EXPECT_DOUBLE_EQ(s.energy_j.at(Scope::dram)->value, 900);
  EXPECT_NEAR(*s.energy_j.at(Scope::package)->low, 11800 - 4,
              1e-9);  // no spread between trials: the sensors' ± 2 J each
  EXPECT_NEAR(s.samples_per_j.at(Scope::package)->value, 64.0 * 40 / 11800, 1e-12);
  EXPECT_NEAR(s.flops_per_w.at(Scope::package)->value, 1.2e9 * 64 * 40 / 11800, 1e-3);
  EXPECT_EQ(s.energy_reason, "");
  EXPECT_FALSE(has_flag(r, "no_energy_meter"));
}

TEST(Verdict, AnAbsentRowMakesItsScopeAbsent) {
  Record r = sample_record_with_energy();
  r.trials[2].energy[1].energy_j.reset();
  r.trials[2].energy[1].reason = "permission";
  summarise(r);
  EXPECT_FALSE(r.summary.energy_j.at(Scope::package));
  EXPECT_FALSE(r.summary.flops_per_w.at(Scope::package));
  EXPECT_TRUE(r.summary.energy_j.at(Scope::dram));
  EXPECT_EQ(r.summary.energy_reason, "package: rapl:package-1: permission");
  EXPECT_FALSE(has_flag(r, "no_energy_meter"));
}

TEST(Verdict, AnEstimateEntersNoTotal) {
  Record r = sample_record_with_energy();
  r.trials[2].energy[1].method = Method::estimate;  // and is said to be counted
  summarise(r);
  EXPECT_FALSE(r.summary.energy_j.at(Scope::package));
  EXPECT_FALSE(r.summary.samples_per_j.at(Scope::package));
  EXPECT_TRUE(r.summary.energy_j.at(Scope::dram));
  EXPECT_EQ(r.summary.energy_reason, "package: rapl:package-1: an estimate");
}

TEST(Verdict, AnUncountedRowIsMissedWhateverTheReason) {
  for (const char* reason : {"", "unsupported", "implausible"}) {
    Record r = sample_record_with_energy();
    r.trials[1].energy[1].counted = false, r.trials[1].energy[1].reason = reason;
    EXPECT_FALSE(summarised(r).summary.energy_j.at(Scope::package)) << reason;
  }
  for (const char* reason : {"contained", "duplicate"}) {
    Record r = sample_record_with_energy();
    for (Trial& t : r.trials) t.energy[1].counted = false, t.energy[1].reason = reason;
    EXPECT_DOUBLE_EQ(summarised(r).summary.energy_j.at(Scope::package)->value, 6000) << reason;
  }
}

EnergyRow row_of(const std::string& host, Scope scope, const std::string& domain, const std::string& reason) {
  EnergyRow row;
  row.host = host, row.scope = scope, row.domain = domain, row.method = Method::counter, row.reason = reason;
  row.counted = reason.empty();
  if (reason.empty() || reason == "not_visible") row.energy_j = 5000, row.uncertainty_j = 2;
  return row;
}
Record with_rows(const std::vector<EnergyRow>& rows) {
  Record r = sample_record_with_energy();  // of node1
  for (Trial& t : r.trials) t.energy.insert(t.energy.end(), rows.begin(), rows.end());
  return summarised(r);
}

TEST(Verdict, AHostWithoutAMeterMakesTheScopeAbsent) {
  const Record r =
      with_rows({row_of("node2", Scope::none, "rapl", "no_driver"), row_of("node2", Scope::none, "nvml", "no_driver"),
                 row_of("node3", Scope::dram, "rapl:dram-0", ""), row_of("node3", Scope::none, "nvml", "no_driver")});
  EXPECT_FALSE(r.summary.energy_j.at(Scope::package) || r.summary.energy_j.at(Scope::dram));
  EXPECT_FALSE(r.summary.samples_per_j.at(Scope::package) || r.summary.flops_per_w.at(Scope::dram));
  EXPECT_EQ(r.summary.energy_reason.substr(r.summary.energy_reason.find("dram")),
            "dram: no meter on node2; package: no meter on node2, node3");
  EXPECT_TRUE(has_flag(r, "no_energy_meter"));
  EXPECT_EQ(r.verdict.status, Status::valid);
}

TEST(Verdict, HostsThatAllCountAreSummed) {
  const Record r = with_rows(
      {row_of("node2", Scope::package, "rapl:package-0", ""), row_of("node2", Scope::none, "nvml", "no_driver")});
  EXPECT_DOUBLE_EQ(r.summary.energy_j.at(Scope::package)->value, 11800 + 5000);
  EXPECT_FALSE(r.summary.energy_j.at(Scope::dram));
  EXPECT_EQ(r.summary.energy_reason, "dram: no meter on node2");
  const Record lost = with_rows({row_of("node2", Scope::package, "rapl:package-0", "permission")});
  EXPECT_TRUE(lost.summary.energy_reason.ends_with("package: node2: rapl:package-0: permission"))
      << lost.summary.energy_reason;
  // A check of something else is no meter of the scope.
  const Record check = with_rows({row_of("node2", Scope::package, "hwmon:cpu-0", "contained")});
  EXPECT_TRUE(check.summary.energy_reason.ends_with("package: no meter on node2")) << check.summary.energy_reason;
}

TEST(Verdict, AHostWhoseGpusAreNotTheJobsMissesNothing) {
  const Record r = with_rows({row_of("node1", Scope::device, "nvml:GPU-a", ""),
                              row_of("node2", Scope::device, "nvml:GPU-b", "not_visible"),
                              row_of("node2", Scope::none, "rapl", "no_driver")});
  EXPECT_DOUBLE_EQ(r.summary.energy_j.at(Scope::device).value().value, 5000);
}

TEST(Verdict, AHostThatReadsOnlyGpusOfAnothersMachineMissesNothing) {
  const Record r =
      with_rows({row_of("node1", Scope::device, "nvml:GPU-a", ""), row_of("pod2", Scope::device, "nvml:GPU-b", ""),
                 row_of("pod2", Scope::none, "nvml-power:GPU-b", "unsupported")});
  EXPECT_DOUBLE_EQ(r.summary.energy_j.at(Scope::device).value().value, 10000);
  EXPECT_DOUBLE_EQ(r.summary.energy_j.at(Scope::package).value().value, 11800);
  EXPECT_EQ(r.summary.energy_reason, "");
}

TEST(Verdict, ManyHostsWithoutAMeterAreCounted) {
  std::vector<EnergyRow> rows;
  for (int i = 10; i < 22; ++i) rows.push_back(row_of("node" + std::to_string(i), Scope::none, "rapl", "no_driver"));
  const std::string reason = with_rows(rows).summary.energy_reason;
  EXPECT_TRUE(reason.ends_with("node16, node17 and 4 more")) << reason;
}

TEST(Verdict, AnAbsentContainedRowIsNotMissed) {
  Record r = sample_record_with_energy();
  for (Trial& t : r.trials) t.energy[3].energy_j.reset();
  EXPECT_TRUE(summarised(r).summary.energy_j.at(Scope::package));
}

TEST(Verdict, NoJoulesAtAllIsNeverZero) {
  Record r = sample_record_with_energy();
  for (Trial& t : r.trials)
    for (EnergyRow& row : t.energy) row.energy_j.reset(), row.reason = "permission";
  summarise(r);
  EXPECT_FALSE(r.summary.energy_j.at(Scope::package));
  EXPECT_TRUE(has_flag(r, "no_energy_meter"));
  EXPECT_TRUE(r.summary.energy_reason.starts_with("no_energy_meter: ")) << r.summary.energy_reason;
  EXPECT_EQ(r.verdict.status, Status::valid);

  Record still = sample_record_with_energy();
  for (EnergyRow& row : still.trials[1].energy) row.energy_j = 0;
  EXPECT_FALSE(summarised(still).summary.energy_j.at(Scope::dram));
}

TEST(Verdict, SourcesWithoutASensorSayWhy) {
  Record r = sample_record();
  r.summary.energy_reason.clear();
  for (Trial& t : r.trials) {
    t.energy.resize(1);
    t.energy[0].domain = "rapl", t.energy[0].reason = "no_driver", t.energy[0].counted = false;
  }
  summarise(r);
  EXPECT_TRUE(has_flag(r, "no_energy_meter"));
  EXPECT_TRUE(r.summary.energy_j.empty());
  EXPECT_EQ(r.summary.energy_reason, "no_energy_meter: rapl: no_driver");
}

/// The row as make_ledger leaves it: the joules stand in it, and it is not counted.
TEST(Verdict, ImplausiblePowerTakesTheEnergyNotTheSpeed) {
  Record r = sample_record_with_energy();
  EnergyRow& refused = r.trials[0].energy[0];
  refused.counted = false, refused.energy_j = 60000, refused.reason = "implausible";
  summarise(r);
  // The other socket answered: its joules alone are not those of the scope.
  EXPECT_EQ(r.summary.energy_reason, "package: rapl:package-0: implausible");
  EXPECT_FALSE(r.summary.flops_per_w.at(Scope::package) || r.summary.samples_per_j.at(Scope::package));
  EXPECT_TRUE(r.summary.samples_per_s);
  EXPECT_TRUE(has_flag(r, "implausible"));
  EXPECT_FALSE(r.summary.energy_j.at(Scope::package));
  EXPECT_TRUE(r.summary.energy_j.at(Scope::dram));
  EXPECT_EQ(r.verdict.status, Status::valid);
  EXPECT_FALSE(has_flag(r, "no_energy_meter"));
}

TEST(Verdict, ACounterThatWasSetOrStoppedTakesTheEnergyNotTheSpeed) {
  for (const char* reason : {"reset", "stalled"}) {
    Record r = sample_record_with_energy();
    for (Trial& t : r.trials)
      for (EnergyRow& row : t.energy) row.counted = false, row.energy_j.reset(), row.wraps.reset(), row.reason = reason;
    summarise(r);
    EXPECT_NE(r.summary.energy_reason.find("package: rapl:package-0: " + std::string(reason)), std::string::npos)
        << r.summary.energy_reason;
    EXPECT_FALSE(r.summary.energy_j.at(Scope::package));
    EXPECT_TRUE(r.summary.samples_per_s);
    EXPECT_EQ(r.verdict.status, Status::valid);
    EXPECT_TRUE(has_flag(r, reason));
    for (const char* other : {"no_energy_meter", "implausible", "wrapped"}) EXPECT_FALSE(has_flag(r, other)) << other;
  }
}

TEST(Verdict, WrappedIsNotedAndTakesJoulesOnlyWhereUnseen) {
  Record r = sample_record_with_energy();
  for (Trial& t : r.trials)
    for (EnergyRow& row : t.energy) row.wraps = 0;
  EXPECT_FALSE(has_flag(summarised(r), "wrapped"));
  r.trials[1].energy[3].wraps = 1;  // of a row whose joules another one covers
  EXPECT_FALSE(has_flag(summarised(r), "wrapped"));
  r.trials[1].energy[0].wraps = 1;
  summarise(r);
  EXPECT_TRUE(has_flag(r, "wrapped"));
  EXPECT_EQ(r.verdict.status, Status::valid);
  EXPECT_DOUBLE_EQ(r.summary.energy_j.at(Scope::package).value().value, 11800);
  r.trials[1].energy[0].wraps.reset();
  summarise(r);
  EXPECT_FALSE(has_flag(r, "wrapped"));
  r.trials[1].energy[0].energy_j.reset(), r.trials[1].energy[0].counted = false;
  r.trials[1].energy[0].reason = "wrapped";
  summarise(r);
  EXPECT_TRUE(has_flag(r, "wrapped"));
  EXPECT_FALSE(r.summary.energy_j.at(Scope::package));
  EXPECT_EQ(r.summary.energy_reason, "package: rapl:package-0: wrapped");
}

TEST(Verdict, Short) {
  EXPECT_FALSE(has_flag(summarised(sample_record()), "short"));
  Record r = sample_record();
  r.trials[1].window_s = 59.9;
  EXPECT_TRUE(has_flag(summarised(r), "short"));
  Record slow_meter = sample_record_with_energy();
  EXPECT_FALSE(has_flag(summarised(slow_meter), "short"));
  slow_meter.trials[0].energy[0].update_period_s = 1;  // wants 100 s
  EXPECT_TRUE(has_flag(summarised(slow_meter), "short"));
}

TEST(Verdict, FewTrials) {
  Record r = sample_record();
  EXPECT_FALSE(has_flag(summarised(r), "few_trials"));
  r.trials.pop_back();
  summarise(r);
  EXPECT_TRUE(has_flag(r, "few_trials"));
  EXPECT_FALSE(r.summary.samples_per_s->low);
}

TEST(Verdict, Steal) {
  Record r = sample_record();
  r.trials[1].steal_share = 0.019;
  EXPECT_FALSE(has_flag(summarised(r), "steal"));
  r.trials[1].steal_share = 0.021;
  EXPECT_TRUE(has_flag(summarised(r), "steal"));
  r.trials[1].steal_share.reset();
  EXPECT_FALSE(has_flag(summarised(r), "steal"));
}

TEST(Verdict, BusyHost) {
  Record r = sample_record();
  r.trials[1].foreign_share = 0.049;
  EXPECT_FALSE(has_flag(summarised(r), "busy_host"));
  r.trials[1].foreign_share = 0.051;
  EXPECT_TRUE(has_flag(summarised(r), "busy_host"));
  r.trials[1].foreign_share.reset();
  EXPECT_FALSE(has_flag(summarised(r), "busy_host"));
}

TEST(Verdict, LossNotFalling) {
  Record r = sample_record();
  r.trials = {sample_trial(20, 1, 60)};
  for (int i = 0; i < 20; ++i) r.trials[0].loss[i] = 5 + 0.001 * i;
  EXPECT_TRUE(has_flag(summarised(r), "loss_not_falling"));
  EXPECT_EQ(summarised(r).verdict.status, Status::valid);
  for (int i = 0; i < 20; ++i) r.trials[0].loss[i] = 5 - 0.001 * i;
  EXPECT_FALSE(has_flag(summarised(r), "loss_not_falling"));
  for (int i = 0; i < 20; ++i) r.trials[0].loss[i] = 5 + 0.001 * i;
  r.trials[0].loss.pop_back();  // 19 say nothing
  EXPECT_FALSE(has_flag(summarised(r), "loss_not_falling"));
}

TEST(Verdict, LossNotFiniteIsInvalid) {
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Record r = sample_record();
    r.trials[1].loss[2] = bad;
    summarise(r);
    EXPECT_TRUE(has_flag(r, "loss_not_finite"));
    EXPECT_EQ(r.verdict.status, Status::invalid);
    EXPECT_EQ(r.verdict.reasons, std::vector<std::string>{"loss_not_finite: at measured step 43 of 120"});
    EXPECT_FALSE(r.summary.loss_slope_per_step);
  }
}

TEST(Verdict, NothingMeasuredIsInvalid) {
  Record none = sample_record();
  none.trials.clear();
  EXPECT_EQ(summarised(none).verdict.status, Status::invalid);
  Record empty = sample_record();
  empty.trials[1] = Trial{};
  empty.trials[1].window_s = 60;
  summarise(empty);
  EXPECT_EQ(empty.verdict.status, Status::invalid);
  EXPECT_EQ(empty.verdict.reasons[0], "step_time: trial 2 has no step");
  Record zero = sample_record();
  zero.trials[0].step_time_s[3] = 0;
  EXPECT_EQ(summarised(zero).verdict.status, Status::invalid);
}

TEST(Verdict, AboveTheCeiling) {
  Record r = sample_record();
  EXPECT_FALSE(has_flag(summarised(r), "above_ceiling"));
  r.summary.ceiling_flops_per_s = 50e9;
  EXPECT_TRUE(has_flag(summarised(r), "above_ceiling"));
}

TEST(Verdict, AShareFarAboveTheCeilingIsNoFigure) {
  Record r = sample_record();
  const double flops = summarised(r).summary.flops_per_s->value;
  const auto at = [&](double share) {
    r.summary.ceiling_flops_per_s = flops / share;
    return summarised(r);
  };
  EXPECT_NEAR(credible_of_ceiling(at(0.5).summary).value_or(0), 0.5, 1e-12);
  EXPECT_EQ(why_no_of_ceiling(at(0.5).summary), "");
  EXPECT_TRUE(credible_of_ceiling(at(1 + 0.9 * ceiling_tolerance).summary)) << "both are measured";
  const Record above = at(2.5);
  EXPECT_NEAR(above.summary.of_ceiling.value_or(0), 2.5, 1e-12) << "the report keeps what was measured";
  EXPECT_FALSE(credible_of_ceiling(above.summary));
  EXPECT_EQ(why_no_of_ceiling(above.summary).substr(0, 15), "above_ceiling: ");
  r.summary.ceiling_flops_per_s.reset();
  r.summary.of_ceiling_reason = "not asked for";
  EXPECT_EQ(why_no_of_ceiling(summarised(r).summary), "not asked for");
}

TEST(Verdict, ReasonsStandWhereFiguresAreAbsent) {
  Record r = sample_record();
  r.summary.ceiling_flops_per_s.reset();
  EXPECT_EQ(summarised(r).summary.of_ceiling_reason, "ceiling not measured");
  r.summary.of_ceiling_reason = "--no-ceiling";
  EXPECT_EQ(summarised(r).summary.of_ceiling_reason, "--no-ceiling");
  r.summary.energy_reason = "rapl: no_driver";
  EXPECT_EQ(summarised(r).summary.energy_reason, "no_energy_meter: rapl: no_driver");
  EXPECT_NE(summarised(r).summary.mfu_reason, "");
}

TEST(Verdict, ExitCode) {
  const auto code = [](std::vector<Status> statuses) {
    Report report;
    for (const Status s : statuses) report.records.emplace_back().verdict.status = s;
    return exit_code(report);
  };
  EXPECT_EQ(code({Status::valid}), 0);
  EXPECT_EQ(code({Status::unsupported, Status::valid, Status::failed}), 0);
  EXPECT_EQ(code({Status::unsupported, Status::unsupported}), 0);
  EXPECT_EQ(code({Status::unsupported, Status::failed}), 4);
  EXPECT_EQ(code({Status::invalid}), 4);
}

}  // namespace
}  // namespace tw
