// A device whose memory is full: the point has failed, with the size that was needed, and the next one runs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "bench/train/job/outcome.hpp"
#include "bench/train/point/measure_point.hpp"
#include "bench/train/point/point_config.hpp"
#include "bench/train/point/step_loop.hpp"
#include "bench/train/sweep/sweep.hpp"
#include "models/compute/error.hpp"
#include "models/compute/reference/reference.hpp"
#include "tests/comm/fake_gpu.hpp"
#include "tests/comm/support.hpp"

namespace tw {

using namespace bench;
using namespace comm;
using namespace models;
using namespace power;
using namespace results;

namespace {

namespace fs = std::filesystem;

class SmallDevice : public reference::ReferenceDevice {
 public:
  explicit SmallDevice(std::size_t bytes) : ReferenceDevice(1), bytes_(bytes) {}
  void* allocate(std::size_t bytes) override {
    if (allocated_bytes() + bytes > bytes_)
      throw Error(Failure::environment, "small: cannot allocate " + std::to_string(bytes) + " bytes");
    return ReferenceDevice::allocate(bytes);
  }

 private:
  std::size_t bytes_;
};

/// Seen as a GPU of this much memory.
class GpuOf : public reference::ReferenceDevice {
 public:
  explicit GpuOf(std::size_t bytes) : ReferenceDevice(1), bytes_(bytes) {}
  DeviceInfo info() const override {
    DeviceInfo info = ReferenceDevice::info();
    info.kind = models::DeviceKind::cuda, info.name = "NVIDIA Test", info.memory_bytes = bytes_;
    return info;
  }

 private:
  std::size_t bytes_;
};

TEST(DeviceMemory, SizesOfTheUserThatAGpuCannotHoldAreUsageOnAllRanks) {
  Job& job = test_job();
  Request request;
  request.axes.emplace_back().model = {"gpt2-tiny"};
  request.axes.front().micro_batch = {10'000};
  GpuOf gpu(std::size_t{1} << 30);
  const auto code_of_plan = [&](const Request& asked) {
    const RunPlan plan = make_plan(asked, job.size(), "cuda");
    const std::string why = why_too_large(plan.points[0], plan, job, gpu);
    const std::string advice = asked.kit ? "the kit fixes its sizes" : "use --micro-batch N with N up to ";
    EXPECT_NE(why.find("of a GPU, NVIDIA Test has 1.0 GiB: " + advice), std::string::npos) << why;
    return exit_code_of_too_large(plan.points[0], plan, job, gpu);
  };
  EXPECT_EQ(code_of_plan(request), exit_usage);
  Request of_config = request, of_suite = request, of_kit = request;
  of_config.suite = of_config.config = "plan.json";
  EXPECT_EQ(code_of_plan(of_config), exit_usage);
  of_suite.suite = "standard";
  EXPECT_EQ(code_of_plan(of_suite), exit_environment);
  of_kit.suite = of_kit.config = "kit.json", of_kit.kit = KitInfo{"Tender 7", "0123"};
  EXPECT_EQ(code_of_plan(of_kit), exit_environment);
}

/// Whose one update fails, as an operator may that takes its workspace when it first runs.
class FailingDevice : public reference::ReferenceDevice {
 public:
  FailingDevice() : ReferenceDevice(1) {}
  int updates_before = 0;
  Failure failure = Failure::environment;

 protected:
  void do_adamw(Stream& stream, const AdamW& args) override {
    if (updates_before-- == 0) throw Error(failure, "failing: no");
    ReferenceDevice::do_adamw(stream, args);
  }
};

TEST(DeviceMemory, AStepThatFailsOnTheOnlyRankCostsItsPointAlone) {
  Job& job = test_job();
  if (job.size() > 1) GTEST_SKIP() << "of several ranks the others are in a collective";
  Request request;
  request.axes.emplace_back().model = {"gpt2-tiny"};
  request.axes.front().micro_batch = {1};
  request.axes.front().seq_len = {8};
  request.measurement = {.trials = 1, .warmup_steps = 1, .steps = 1, .ceiling_seconds = 0};
  const RunPlan plan = make_plan(request, job.size(), "reference");
  FailingDevice device;
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  Progress progress(false, 2, 0);
  RunContext context{job, device, plan, energy, progress, 25, "none asked for", {}};
  for (const Failure failure : {Failure::environment, Failure::internal}) {
    device.failure = failure;
    for (const int step : {0, 1}) {  // in the warm-up, in the window
      device.updates_before = step;
      const Record failed = run_point(context, plan.points[0]);
      EXPECT_EQ(failed.verdict.status, Status::failed) << step;
      ASSERT_EQ(failed.verdict.reasons.size(), 1u);
      const std::string& why = failed.verdict.reasons[0];
      EXPECT_EQ(why.rfind("failing: no", 0), 0u) << why;
      EXPECT_EQ(why.find(" (the point needs ") != std::string::npos, failure == Failure::environment) << why;
      EXPECT_TRUE(failed.trials.empty());
      EXPECT_FALSE(failed.execution);
      EXPECT_FALSE(device.profiling());
      EXPECT_EQ(device.allocated_bytes(), 0u);
    }
  }
  device.updates_before = 2;  // where operators are timed: the trials are there, and stay
  const Record without_shares = run_point(context, plan.points[0]);
  EXPECT_EQ(without_shares.verdict.status, Status::valid);
  EXPECT_EQ(without_shares.trials.size(), 1u);
  EXPECT_TRUE(without_shares.summary.op_share.empty());
  EXPECT_FALSE(without_shares.summary.op_seconds);
  EXPECT_FALSE(device.profiling());
  const Record runs = run_point(context, plan.points[0]);
  EXPECT_EQ(runs.trials.size(), 1u);
  EXPECT_TRUE(runs.execution);
  EXPECT_FALSE(runs.summary.op_share.empty());
  ASSERT_TRUE(runs.summary.op_seconds);
  const auto names = [](const std::map<std::string, double>& operators) {
    std::set<std::string> all;
    for (const auto& [name, value] : operators) all.insert(name);
    return all;
  };
  EXPECT_EQ(names(*runs.summary.op_seconds), names(runs.summary.op_share));
}

TEST(OperatorTimes, AreSharesOfTheStepOrOfTheirSumWhereThatIsLonger) {
  OpProfile profile;
  const auto slot = [](Op op) { return static_cast<std::size_t>(op); };
  profile.seconds[slot(Op::add)] = 1, profile.calls[slot(Op::add)] = 3;
  profile.seconds[slot(Op::adamw)] = 3, profile.calls[slot(Op::adamw)] = 1;
  using Figures = std::map<std::string, double>;
  for (const auto& [step, whole] : {std::pair(8.0, 8.0), std::pair(2.0, 4.0)}) {
    const OperatorTimes times = operator_times(profile, step);
    EXPECT_EQ(times.seconds, (Figures{{"add", 1}, {"adamw", 3}}));
    EXPECT_EQ(times.shares, (Figures{{"add", 1 / whole}, {"adamw", 3 / whole}})) << step;
  }
}

/// A GPU after an error that stays with its process: nothing is answered any more.
class LostDevice : public FailingDevice {
 public:
  bool is_lost = false;
  std::unique_ptr<Stream> create_stream() override {
    if (is_lost) throw Error(Failure::internal, "lost: an illegal memory access was encountered");
    return ReferenceDevice::create_stream();
  }

 protected:
  void do_adamw(Stream& stream, const AdamW& args) override {
    is_lost = updates_before == 0;
    FailingDevice::do_adamw(stream, args);
  }
};

TEST(DeviceMemory, ADeviceThatIsLostFailsOnePointAndANewProcessGoesOn) {
  Job& job = test_job();
  if (job.size() > 1) GTEST_SKIP() << "of several ranks the others are in a collective";
  const fs::path out = fs::path(testing::TempDir()) / ("trainwatt-lost-" + std::to_string(getpid()));
  fs::remove_all(out);
  Request request;
  request.axes.emplace_back().model = {"gpt2-tiny"};
  request.axes.front().micro_batch = {1};
  request.axes.front().seq_len = {8};
  request.axes.front().accumulate = {1, 2, 3};
  request.measurement = {.trials = 1, .warmup_steps = 1, .steps = 1, .ceiling_seconds = 0};
  const RunPlan plan = make_plan(request, job.size(), "reference");
  const auto run = [&](Device& device, const fs::path& resume) {
    Options options;
    (resume.empty() ? options.out : options.resume) = out.string();
    RunFolder folder(job, resume);
    std::optional<Guardian> guardian;
    return run_sweep({.job = job, .device = device, .plan = plan, .options = options, .folder = folder}, guardian);
  };
  const auto statuses = [&] {
    std::vector<std::string> all;
    for (const Record& record : read_earlier(out).records) all.push_back(to_string(record.verdict.status));
    return all;
  };
  using Statuses = std::vector<std::string>;
  LostDevice device;
  device.updates_before = 3;  // the first point has a warm-up, a step and one whose operators are timed
  EXPECT_EQ(run(device, ""), exit_environment);
  EXPECT_EQ(statuses(), (Statuses{"valid", "failed"}));
  LostDevice anew;
  anew.updates_before = -1;
  EXPECT_EQ(run(anew, out), exit_good);
  EXPECT_EQ(statuses(), (Statuses{"valid", "failed", "valid"}));
  fs::remove_all(out);
}

TEST(DeviceMemory, RanksThatCannotBeConnectedFailThePointAndTheNextOneRuns) {
  Job& job = test_job();
  if (job.size() == 1) GTEST_SKIP() << "one rank is alone";
  Request request;
  request.axes.emplace_back().model = {"gpt2-tiny"};
  request.axes.front().micro_batch = {1};
  request.axes.front().seq_len = {8};
  request.measurement = {.trials = 1, .warmup_steps = 1, .steps = 1, .ceiling_seconds = 0};
  request.comm = "nccl";
  const RunPlan plan = make_plan(request, job.size(), "reference");
  FakeGpu device("GPU-" + std::to_string(job.rank()), FakeGpu::Memory::open);
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  Progress progress(false, 2, 0);
  RunContext context{job, device, plan, energy, progress, 25, "none asked for", {}};
  setenv("TW_STANDIN_NCCL_LOSES_PEER", "at_start", 1);
  const Record failed = run_point(context, plan.points[0]);
  unsetenv("TW_STANDIN_NCCL_LOSES_PEER");
  EXPECT_EQ(failed.verdict.status, Status::failed);
  ASSERT_EQ(failed.verdict.reasons.size(), 1u);
  EXPECT_NE(failed.verdict.reasons[0].find("remote process exited"), std::string::npos) << failed.verdict.reasons[0];
  EXPECT_EQ(run_point(context, plan.points[0]).trials.size(), 1u);
}

TEST(DeviceMemory, APointThatIsRefusedItHasFailedAndTheNextOneRuns) {
  Job& job = test_job();
  Request request;
  request.axes.emplace_back().model = {"gpt2-tiny"};
  request.axes.front().micro_batch = {1, 64};
  request.axes.front().seq_len = {8};
  request.measurement = {.trials = 1, .warmup_steps = 1, .steps = 1, .ceiling_seconds = 0};
  const RunPlan plan = make_plan(request, job.size(), "reference");
  const Point &small = plan.points[plan.points[0].micro_batch == 1 ? 0 : 1],
              &large = plan.points[plan.points[0].micro_batch == 1 ? 1 : 0];
  const std::size_t enough =
      plan_memory({.network = small.network, .micro_batch = 4, .seq_len = 8, .optimizer = {}}, 1).total();
  SmallDevice device(enough);
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  Progress progress(false, 2, 0);
  RunContext context{job, device, plan, energy, progress, 25, "none asked for", {}};
  const Record refused = run_point(context, large);
  EXPECT_EQ(refused.verdict.status, Status::failed);
  ASSERT_EQ(refused.verdict.reasons.size(), 1u);
  for (const char* words : {"small: cannot allocate ", " bytes (the point needs ", " GiB: ", " activations"})
    EXPECT_NE(refused.verdict.reasons[0].find(words), std::string::npos)
        << words << " in " << refused.verdict.reasons[0];
  EXPECT_FALSE(refused.execution);
  EXPECT_TRUE(refused.trials.empty());
  EXPECT_EQ(device.allocated_bytes(), 0u) << "what it had got is free again";
  const Record runs = run_point(context, small);
  EXPECT_EQ(runs.trials.size(), 1u) << runs.verdict.reasons.size();
  EXPECT_GT(runs.summary.peak_device_memory_bytes_per_rank.value_or(0), 0u);
  EXPECT_LE(runs.summary.peak_device_memory_bytes_per_rank.value_or(0), enough);
  ASSERT_TRUE(runs.execution);
  EXPECT_EQ(runs.execution->step_mode, results::StepMode::eager);
}

}  // namespace
}  // namespace tw
