// `--micro-batch auto` on the ranks of a job: which sizes are tried, which is taken, and that all agree.
#include "bench/train/point/micro_batch.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "results/record/report_io.hpp"
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
  StepsOfASize(const TrainerConfig& config, double slower)
      : seconds_(slower * 1e-3 * static_cast<double>(config.accumulate) *
                 (10 + static_cast<double>(config.micro_batch))) {}
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

struct Made {
  Record record;
  std::vector<std::int64_t> sizes;  // of the step sources, in order
};

/// `largest`: what this rank's memory holds. `slower`: by how much, of the step sources by number from 0.
Made run(Request request, std::int64_t largest, std::map<std::string, MicroBatchSearch>* known = nullptr,
         const std::map<std::size_t, double>& slower = {}) {
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
    if (config.micro_batch > largest) throw Error(Failure::environment, "out of memory");
    const auto disturbed = slower.find(made.sizes.size() - 1);
    return std::make_unique<StepsOfASize>(config, disturbed == slower.end() ? 1 : disturbed->second);
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

TEST(MicroBatch, ASizeThatIsDisturbedOnceIsNotTheEnd) {
  TW_NEEDS_CPU();
  // The third size, 4, takes twice as long as it should when it is first timed, so that 2 is chosen at first.
  const Made made = run(open_request(), 1 << 20, nullptr, {{2, 2.0}});
  ASSERT_TRUE(made.record.micro_batch_search);
  const MicroBatchSearch& search = *made.record.micro_batch_search;
  EXPECT_EQ(search.chosen, 256);
  ASSERT_EQ(search.trials.size(), 10u);
  EXPECT_NEAR(search.trials[2].samples_per_s.value(), test_job().size() * 1000 / 3.5, 0.01) << "by its fastest step";
  const std::vector<std::int64_t> first(made.sizes.begin(), made.sizes.begin() + 10);
  EXPECT_EQ(first, (std::vector<std::int64_t>{1, 2, 4, 1, 2, 4, 4, 2, 1, 8})) << "in turn, in both orders";
}

TEST(MicroBatch, ASizeWhoseHalfIsDisturbedIsNotChosenForIt) {
  TW_NEEDS_CPU();
  // 256, whose doubling gains 1.9 %, seems to be slow, so that 512 seems to gain by doubling, and 1024 too.
  const Made made = run(open_request(), 1 << 20, nullptr, {{8, 1.01}, {9, 1.001}});
  ASSERT_TRUE(made.record.micro_batch_search);
  const MicroBatchSearch& search = *made.record.micro_batch_search;
  EXPECT_EQ(search.chosen, 256);
  EXPECT_EQ(search.trials.size(), 11u) << "what was tried stays in the record";
  EXPECT_EQ(search.stopped_by, "doubling 256 gains less than 2 %");
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
