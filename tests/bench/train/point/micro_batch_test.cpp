// `--micro-batch auto` on the ranks of a job: which sizes are tried, which is taken, and that all agree.
#include "bench/train/point/micro_batch.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>

#include "bench/plan/batch.hpp"
#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "results/record/report_io.hpp"
#include "results/selection/search.hpp"
#include "tests/comm/support.hpp"
#include "tests/support/needs_cpu.hpp"

namespace tw {

using namespace bench;
using namespace comm;
using namespace models;
using namespace results;

namespace {

/// Steps on a clock of their own: a fixed part for each micro-batch, and a part for each sample.
class StepsOfASize : public StepSource {
  using Clock = std::chrono::steady_clock;

 public:
  explicit StepsOfASize(const TrainerConfig& config)
      : seconds_(1e-3 * static_cast<double>(config.accumulate) * (10 + static_cast<double>(config.micro_batch))) {}
  StepResult step(const GradientSync&) override {
    now_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_));
    return {4 - 1e-3 * ++steps_, 1, {}};
  }
  std::uint64_t planned_bytes() const override { return 0; }
  Clock::time_point now() const override { return now_; }

 private:
  double seconds_;
  Clock::time_point now_ = Clock::now();
  int steps_ = 0;
};

/// The clock of a machine that is disturbed: `factor` of a step's time, by what the clock says and by how
/// many networks were built on it.
struct DisturbedMachine {
  using Clock = std::chrono::steady_clock;
  std::function<double(double seconds, int networks)> factor;
  double now = 0;  // seconds
  int networks = 0;
};

/// Steps of a rank on such a machine. Up to 16 samples a step takes as long as one of 16: doubling gains all up to
/// there, and nothing behind.
class DisturbedSteps : public StepSource {
 public:
  DisturbedSteps(DisturbedMachine& machine, double seconds) : machine_(machine), seconds_(seconds) {
    ++machine_.networks;
  }
  StepResult step(const GradientSync&) override {
    machine_.now += seconds_ * machine_.factor(machine_.now, machine_.networks);
    return {4 - 1e-3 * ++steps_, 1, {}};
  }
  std::uint64_t planned_bytes() const override { return 0; }
  DisturbedMachine::Clock::time_point now() const override {
    return DisturbedMachine::Clock::time_point() +
           std::chrono::duration_cast<DisturbedMachine::Clock::duration>(std::chrono::duration<double>(machine_.now));
  }

 private:
  DisturbedMachine& machine_;
  double seconds_;
  int steps_ = 0;
};

struct Made {
  Record record;
  std::vector<std::int64_t> sizes;  // of the step sources, in order
};

using Sources = std::function<std::unique_ptr<StepSource>(const TrainerConfig&)>;

Made run(Request request, const Sources& sources, std::map<std::string, MicroBatchSearch>* known = nullptr) {
  Job& job = test_job();
  request.measurement = {.trials = 1, .warmup_steps = 0, .steps = 3, .ceiling_seconds = 0};
  request.axes.front().model = {"gpt2-tiny"}, request.axes.front().seq_len = {8};
  request.axes.front().micro_batch = {automatic};
  const RunPlan plan = make_plan(request, job.size(), "cpu");
  const std::unique_ptr<Device> device = create_device("cpu", DeviceOptions{0, 1});
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  Progress progress(false, 1, 0);
  Made made;
  const auto steps = [&](Device&, const TrainerConfig& config) -> std::unique_ptr<StepSource> {
    made.sizes.push_back(config.micro_batch);
    return sources(config);
  };
  RunContext context{.job = job,
                     .device = *device,
                     .plan = plan,
                     .energy = energy,
                     .progress = progress,
                     .energy_reason = "none asked for",
                     .steps = steps,
                     .micro_batches = known};
  made.record = run_point(context, plan.points[0]);
  // What one rank has, all have.
  const std::string mine = to_json_line(made.record);
  EXPECT_EQ(record_from_json(job.broadcast(mine)).workload.micro_batch, made.record.workload.micro_batch);
  return made;
}

/// `largest`: what this rank's memory holds.
Made run(Request request, std::int64_t largest, std::map<std::string, MicroBatchSearch>* known = nullptr) {
  const Sources sources = [largest](const TrainerConfig& config) {
    if (config.micro_batch > largest) throw Error(Failure::environment, "out of memory");
    return std::make_unique<StepsOfASize>(config);
  };
  return run(std::move(request), sources, known);
}

Request open_request() {
  Request request;
  request.axes.emplace_back();
  return request;
}
Request with_global(std::int64_t samples) {
  Request request = open_request();
  request.axes.front().global_batch = {samples};
  return request;
}

TEST(MicroBatch, IsTheSmallestWhoseDoublingGainsLessThanTwoPerCent) {
  TW_NEEDS_CPU();
  // A sample takes 1 + 10 / size ms: twice the size is faster by 5 / (size + 5), which is 2.0 % at 245.
  const Made made = run(open_request(), 1 << 20);
  ASSERT_TRUE(made.record.micro_batch_search);
  const MicroBatchSearch& search = *made.record.micro_batch_search;
  EXPECT_EQ(search.chosen, 256);
  ASSERT_EQ(search.trials.size(), 10u) << "1 to 512";
  for (std::size_t i = 0; i < search.trials.size(); ++i) {
    const auto size = static_cast<double>(search.trials[i].micro_batch);
    EXPECT_EQ(size, std::exp2(i));
    EXPECT_NEAR(search.trials[i].samples_per_s.value(), test_job().size() * 1000 / (1 + 10 / size), 0.01);
  }
  EXPECT_NE(search.stopped_by.find("less than 2 %"), std::string::npos) << search.stopped_by;
  const Workload& workload = made.record.workload;
  EXPECT_EQ(workload.micro_batch, 256);
  EXPECT_EQ(workload.global_batch, 256 * test_job().size());
  EXPECT_EQ(made.sizes.back(), 256) << "the trials ran at the size that was chosen";
  EXPECT_EQ(made.record.trials.size(), 1u);
  EXPECT_EQ(made.record.trials.at(0).first_step, 0) << "no step of the search is one of the trials";
}

/// What a search finds whose steps take seconds_of(size) on a machine that is disturbed like this.
MicroBatchSearch found_on(const std::function<double(std::int64_t size)>& seconds_of,
                          const std::function<double(double seconds, int networks)>& factor) {
  DisturbedMachine machine{factor};
  const Sources sources = [&](const TrainerConfig& config) {
    return std::make_unique<DisturbedSteps>(machine, seconds_of(config.micro_batch));
  };
  return run(open_request(), sources).record.micro_batch_search.value();
}
double quiet(double, int) { return 1; }
/// Up to ten per cent more or less in each turn, at random.
std::function<double(double seconds, int networks)> noisy(double seed) {
  return [seed](double, int networks) { return 1 + 0.1 * std::sin(seed * networks * networks); };
}
/// Gains all up to 16 samples, nothing behind.
double saturating(std::int64_t size) { return 1e-3 * static_cast<double>(std::max<std::int64_t>(16, size)); }

TEST(MicroBatch, IsTheSameOnADisturbedMachine) {
  TW_NEEDS_CPU();
  EXPECT_EQ(found_on(saturating, quiet).chosen, 16);
  // One that becomes slower and slower.
  EXPECT_EQ(found_on(saturating, [](double t, int) { return 1 + 0.05 * t; }).chosen, 16);
  if (test_job().size() > 1) return;  // all ranks have the same clock here: more of them show nothing else
  // Ten per cent more and less in turns, whatever their length: no doubling of it says which turns see which.
  for (const double turn : {0.013, 0.05, 0.23, 0.6, 2.0})
    EXPECT_EQ(found_on(saturating, [=](double t, int) { return std::fmod(t, 2 * turn) < turn ? 1.1 : 0.9; }).chosen, 16)
        << turn;
  // At random: a verdict may be wrong, but seldom is. Single turns would give the same answer in half of these.
  int same = 0;
  for (int i = 1; i <= 12; ++i) same += found_on(saturating, noisy(0.1 * i + 0.03)).chosen == 16;
  EXPECT_GE(same, 10);
  // A phase in which the machine is slower by half.
  for (const double start : {0.4, 1.1, 3.3})
    for (const double length : {1.0, 3.0})
      EXPECT_EQ(
          found_on(saturating, [=](double t, int) { return t >= start && t < start + length ? 1.5 : 1.0; }).chosen, 16)
          << start << " " << length;
}

TEST(MicroBatch, OnePerCentIsNoGainAndThreePerCentAreOne) {
  TW_NEEDS_CPU();
  // From 4 samples to 8 so much, from 8 to 16 nothing.
  const auto gaining = [](double gain) {
    return [gain](std::int64_t size) {
      if (size <= 4) return 0.01;
      return size == 8 ? 0.02 / (1 + gain) : 0.0025 * static_cast<double>(size) / (1 + gain);
    };
  };
  const MicroBatchSearch one = found_on(gaining(0.01), quiet), three = found_on(gaining(0.03), quiet);
  EXPECT_EQ(one.chosen, 4);
  EXPECT_EQ(three.chosen, 8);
  EXPECT_EQ(one.stopped_by, "doubling 4 gains less than 2 %");
  EXPECT_NEAR(one.trials.at(3).over_half.value().median, 1.01, 1e-6);
  EXPECT_NEAR(three.trials.at(3).over_half.value().median, 1.03, 1e-6);
  EXPECT_EQ(three.trials.at(3).over_half->ratios.size(), blocks_if_near) << "a quiet machine needs no more";
  EXPECT_TRUE(three.trials.at(3).over_half->is_decided);
  // A few blocks that are disturbed change neither.
  const auto bursts = [](double t, int) { return std::fmod(t, 3.1) < 0.1 ? 1.3 : 1.0; };
  EXPECT_EQ(found_on(gaining(0.01), bursts).chosen, 4);
  EXPECT_EQ(found_on(gaining(0.03), bursts).chosen, 8);
}

TEST(MicroBatch, WhatBlocksDoNotDecideIsSaid) {
  TW_NEEDS_CPU();
  const MicroBatchSearch search = found_on(saturating, noisy(1.7));
  EXPECT_EQ(search.chosen, 16);
  const DoublingGain& last = search.trials.back().over_half.value();
  EXPECT_FALSE(last.is_decided);
  EXPECT_EQ(last.ratios.size(), most_blocks) << "and no more";
  EXPECT_NE(search.stopped_by.find("whether doubling 16 gains 2 % is undecided after 12 blocks"), std::string::npos)
      << search.stopped_by;
}

TEST(MicroBatch, ASearchOfLongStepsIsBounded) {
  TW_NEEDS_CPU();
  DisturbedMachine machine{noisy(1.7)};
  const Sources sources = [&](const TrainerConfig& config) {
    return std::make_unique<DisturbedSteps>(machine, 100 * saturating(config.micro_batch));
  };
  const MicroBatchSearch search = run(open_request(), sources).record.micro_batch_search.value();
  for (const MicroBatchTrial& trial : search.trials) {
    if (!trial.over_half) continue;
    const double block = 2 * 4 * 110 * saturating(trial.micro_batch);  // 3 steps each, and one that is not timed
    EXPECT_LE(static_cast<double>(trial.over_half->ratios.size()),
              std::max<double>(blocks_if_near, std::ceil(timed_seconds_of_pair / (0.4 * block))))
        << trial.micro_batch;
  }
  EXPECT_LT(search.trials.back().over_half.value().ratios.size(), most_blocks);
}

TEST(MicroBatch, IsTheLargestThatFitsOnEveryRank) {
  TW_NEEDS_CPU();
  // The last rank has less memory than the others.
  const bool is_last = test_job().rank() + 1 == test_job().size();
  const Made made = run(open_request(), is_last ? 8 : 1 << 20);
  ASSERT_TRUE(made.record.micro_batch_search);
  const MicroBatchSearch& search = *made.record.micro_batch_search;
  EXPECT_EQ(search.chosen, 8);
  ASSERT_EQ(search.trials.size(), 5u);
  EXPECT_EQ(search.trials.back().micro_batch, 16);
  EXPECT_EQ(search.trials.back().samples_per_s, std::nullopt);
  EXPECT_NE(search.trials.back().reason.find("out of memory"), std::string::npos) << search.trials.back().reason;
  EXPECT_EQ(made.record.workload.micro_batch, 8);
  const Made none = run(open_request(), 0);
  EXPECT_EQ(none.record.verdict.status, Status::failed);
  EXPECT_NE(none.record.verdict.reasons.at(0).find("no micro-batch fits"), std::string::npos);
}

TEST(MicroBatch, KeepsAFixedGlobalBatch) {
  TW_NEEDS_CPU();
  const std::int64_t ranks = test_job().size();
  const Made made = run(with_global(24), 1 << 20);
  ASSERT_TRUE(made.record.micro_batch_search);
  const Workload& workload = made.record.workload;
  EXPECT_EQ(workload.global_batch, 24);
  EXPECT_EQ(workload.micro_batch, 8 / ranks) << "of the powers of two the largest that divides";
  EXPECT_EQ(workload.accumulate, 3);
  EXPECT_NE(made.record.micro_batch_search->stopped_by.find("global batch 24"), std::string::npos);
}

TEST(MicroBatch, IsFoundOnceAndTakenAgain) {
  TW_NEEDS_CPU();
  std::map<std::string, MicroBatchSearch> known;
  const Made first = run(with_global(24), 1 << 20, &known);
  ASSERT_EQ(known.size(), 1u);
  EXPECT_GT(first.sizes.size(), 1u);
  // As a resumed run knows it: by the first rank alone.
  if (test_job().rank() > 0) known.clear();
  if (test_job().rank() == 0) known.begin()->second.chosen = 2;
  const Made again = run(with_global(24), 1 << 20, &known);
  EXPECT_EQ(again.sizes, std::vector<std::int64_t>{2});
  EXPECT_EQ(again.record.workload.micro_batch, 2);
  EXPECT_EQ(again.record.micro_batch_search->trials.size(), first.record.micro_batch_search->trials.size());

  Request request = with_global(24);
  request.axes.front().model = {"gpt2-tiny"}, request.axes.front().micro_batch = {automatic};
  request.axes.front().seq_len = {8};
  const RunPlan plan = make_plan(request, test_job().size(), "cpu");
  const auto recalled = recalled_micro_batches(plan, {again.record});
  ASSERT_EQ(recalled.size(), 1u);
  EXPECT_EQ(recalled.begin()->first, size_key(plan.points[0]));
  EXPECT_EQ(recalled.begin()->second.chosen, 2);
}

TEST(MicroBatch, ADeclaredSizeIsNotSearched) {
  TW_NEEDS_CPU();
  Request request = with_global(24);
  request.declared_micro_batch = 4;
  const Made made = run(request, 1 << 20);
  EXPECT_EQ(made.sizes, std::vector<std::int64_t>{4});
  EXPECT_EQ(made.record.workload.micro_batch, 4);
  EXPECT_TRUE(made.record.micro_batch_search.value().trials.empty());
  EXPECT_EQ(made.record.micro_batch_search->stopped_by, "declared by --micro-batch");
}

}  // namespace
}  // namespace tw
