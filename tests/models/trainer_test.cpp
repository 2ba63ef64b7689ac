// Whole training steps: equal under every split of the global batch, planned memory, phases, the exported step,
// learning.
#include "models/trainer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "models/compute/error.hpp"
#include "models/compute/formulas.hpp"
#include "models/families/build_blocks.hpp"
#include "models/optimizers/optimizer.hpp"
#include "models/workspace_estimate.hpp"
#include "tests/models/support.hpp"
#include "tests/support/needs_cpu.hpp"

namespace tw::test {

using namespace models;

namespace {

std::vector<float> masters_of(Device& device, const Trainer& trainer) {
  std::vector<float> all;
  for (const Parameter& p : trainer.parameters()) {
    const std::vector<float> values = values_of(device, p.master);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Runs `ranks` trainers on threads; their gradients are summed in rank order, as an all-reduce would.
struct Outcome {
  std::vector<double> losses;  // mean over ranks, by step
  std::vector<double> norms;
  std::vector<float> masters;  // of rank 0, and the tables of all ranks
};
Outcome run_ranks(TrainerConfig config, int ranks, int steps) {
  Outcome outcome;
  outcome.losses.assign(static_cast<std::size_t>(steps), 0);
  std::vector<std::vector<double>> losses(static_cast<std::size_t>(ranks));
  std::vector<float*> buffers(static_cast<std::size_t>(ranks));
  std::barrier meet(ranks);
  MeetingPoint point(ranks);
  std::mutex mutex;
  std::map<std::string, std::vector<float>> tables;
  const auto work = [&](int rank) {
    const auto device = reference_device();
    TrainerConfig mine = config;
    mine.rank = rank;
    mine.ranks = ranks;
    Trainer trainer(*device, mine);
    ThreadExchange exchange(point, rank);
    trainer.connect(exchange);
    GradientSync sync;
    sync.finish = [&](Stream&, Tensor flat) {
      buffers[static_cast<std::size_t>(rank)] = flat.as<float>();
      meet.arrive_and_wait();
      if (rank == 0) {
        for (std::int64_t i = 0; i < flat.count(); ++i) {
          float sum = 0;
          for (const float* buffer : buffers) sum += buffer[i];
          for (float* buffer : buffers) buffer[i] = sum;
        }
      }
      meet.arrive_and_wait();
    };
    for (int step = 0; step < steps; ++step) {
      const StepResult result = trainer.step(sync);
      losses[static_cast<std::size_t>(rank)].push_back(result.loss);
      if (rank == 0) outcome.norms.push_back(result.gradient_norm);
    }
    if (rank == 0) outcome.masters = masters_of(*device, trainer);
    const std::lock_guard lock(mutex);
    for (const Table& table : trainer.tables()) {
      if (!table.values) continue;
      EXPECT_TRUE(tables.emplace(table.spec.name, values_of(*device, table.values)).second);
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(work, rank);
  for (std::thread& thread : threads) thread.join();
  for (const auto& [name, values] : tables) outcome.masters.insert(outcome.masters.end(), values.begin(), values.end());
  for (int step = 0; step < steps; ++step) {
    for (const auto& of_rank : losses)
      outcome.losses[static_cast<std::size_t>(step)] += of_rank[static_cast<std::size_t>(step)] / ranks;
  }
  return outcome;
}

void expect_equal(const Outcome& a, const Outcome& b, double tolerance) {
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * b.losses[i]) << "step " << i;
    EXPECT_NEAR(a.norms[i], b.norms[i], 10 * tolerance * b.norms[i]) << "step " << i;
  }
  EXPECT_LT(normalised_error(a.masters, b.masters), 10 * tolerance);
}

TEST(Trainer, RanksAndAccumulationAreTwoWaysToTheSameStep) {
  for (const NetworkDescription& network : micro_networks()) {  // batch norm: constant micro-batch
    TrainerConfig config = micro_config(network);
    config.micro_batch = 2;
    // Adam's first steps divide a gradient by its own size, which magnifies rounding where it is near zero.
    config.optimizer.kind = OptimizerConfig::Kind::sgd;
    config.optimizer.learning_rate = 0.1f;
    config.accumulate = 4;
    const Outcome one = run_ranks(config, 1, 3);
    config.accumulate = 2;
    expect_equal(run_ranks(config, 2, 3), one, 1e-6);
    config.accumulate = 1;
    expect_equal(run_ranks(config, 4, 3), one, 1e-6);
    EXPECT_NE(one.losses[0], one.losses[1]);
  }
}

TEST(Trainer, AccumulatedMicroBatchesAreOneLargeBatch) {
  // Not of images: batch norm depends on the micro-batch.
  for (const NetworkDescription& network : {micro_gpt2(), micro_llama(), micro_bert(), micro_dlrm()}) {
    SCOPED_TRACE(network.name);
    TrainerConfig config = micro_config(network);
    config.optimizer.kind = OptimizerConfig::Kind::sgd;
    config.micro_batch = 6;
    const Outcome whole = run_ranks(config, 1, 3);
    config.micro_batch = 2;
    config.accumulate = 3;
    expect_equal(run_ranks(config, 1, 3), whole, 1e-6);
  }
}

TEST(Trainer, RecomputationChangesNothingButMemory) {
  for (const NetworkDescription& network : micro_networks()) {
    for (const Precision precision : {Precision::float32, Precision::bf16, Precision::fp8}) {
      if (precision == Precision::fp8 && !why_no_fp8(network).empty()) continue;  // convolutions have none
      TrainerConfig config = micro_config(network, precision);
      config.accumulate = 2;
      const Outcome kept = run_ranks(config, 1, 2);
      for (int layers = 1; layers <= layer_count(network); ++layers) {
        config.recomputed_layers = layers;
        const Outcome again = run_ranks(config, 1, 2);
        EXPECT_EQ(kept.losses, again.losses) << layers;
        EXPECT_EQ(kept.masters, again.masters) << layers;
      }
    }
  }
}

TEST(Trainer, GradientsLeaveOnceInOrderAndCoverTheBuffer) {
  for (const NetworkDescription& network : micro_networks()) {
    const auto device = reference_device();
    TrainerConfig config = micro_config(network);
    config.accumulate = 3;
    Trainer trainer(*device, config);
    std::vector<GradientRange> ranges;
    int finished = 0;
    GradientSync sync;
    sync.ready = [&](Stream&, Tensor flat, GradientRange range) {
      EXPECT_EQ(flat.data, trainer.flat_gradients().data);
      EXPECT_EQ(finished, 0);
      ranges.push_back(range);
    };
    sync.finish = [&](Stream&, Tensor) { ++finished; };
    const StepResult result = trainer.step(sync);
    EXPECT_EQ(finished, 1);
    ASSERT_EQ(ranges.size(), trainer.parameters().size());
    EXPECT_EQ(ranges.front().begin, 0);
    EXPECT_EQ(ranges.back().end, trainer.flat_gradients().count());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_LE(ranges[i].begin, trainer.parameters()[i].offset);
      EXPECT_GE(ranges[i].end, trainer.parameters()[i].offset + trainer.parameters()[i].gradient.count());
      if (i > 0) {
        EXPECT_EQ(ranges[i].begin, ranges[i - 1].end);
      }
    }
    const PhaseSeconds& p = result.phases;
    for (const double seconds : {p.data, p.forward, p.backward, p.communication, p.optimizer}) EXPECT_GE(seconds, 0);
    EXPECT_GT(p.forward, 0);
    EXPECT_GT(p.backward, 0);
  }
}

TEST(Trainer, NormAndClippingAreOfTheMeanGradient) {
  for (const float clip : {0.0f, 0.01f}) {
    const auto device = reference_device();
    TrainerConfig config = micro_config(micro_gpt2());
    config.accumulate = 2;
    config.optimizer.kind = OptimizerConfig::Kind::sgd;
    config.optimizer.momentum = 0;
    config.optimizer.weight_decay = 0;
    config.optimizer.warmup_steps = 0;
    config.optimizer.learning_rate = 0.5f;
    config.optimizer.clip_norm = clip;
    Trainer trainer(*device, config);
    const std::vector<float> before = masters_of(*device, trainer);
    const StepResult result = trainer.step({});
    const std::vector<float> after = masters_of(*device, trainer);
    double norm = 0, moved = 0;
    for (const float g : values_of(*device, trainer.flat_gradients())) norm += std::pow(static_cast<double>(g) / 2, 2);
    for (std::size_t i = 0; i < after.size(); ++i) {
      moved += std::pow(static_cast<double>(after[i]) - static_cast<double>(before[i]), 2);
    }
    EXPECT_NEAR(result.gradient_norm, std::sqrt(norm), 1e-5 * std::sqrt(norm));
    const double expected = 0.5 * (clip > 0 ? 0.01 : std::sqrt(norm));
    EXPECT_NEAR(std::sqrt(moved), expected, 1e-4 * expected);
  }
}

TEST(Trainer, UpdateFollowsTheFormulas) {
  for (const auto kind : {OptimizerConfig::Kind::adamw, OptimizerConfig::Kind::sgd}) {
    const auto device = reference_device();
    TrainerConfig config = micro_config(micro_gpt2());
    config.optimizer.kind = kind;
    config.optimizer.clip_norm = 0.5f;
    config.optimizer.weight_decay = 0.3f;
    Trainer trainer(*device, config);
    const OptimizerConfig& o = trainer.config().optimizer;
    std::vector<std::vector<formula::AdamWState<double>>> state;
    for (const Parameter& p : trainer.parameters()) {
      state.emplace_back();
      for (const float v : values_of(*device, p.master)) state.back().push_back({static_cast<double>(v), 0, 0});
    }
    for (int step = 0; step < 3; ++step) {
      const StepResult result = trainer.step({});
      const double factor = std::min(1.0, 0.5 / result.gradient_norm), rate = scheduled_learning_rate(o, step);
      for (std::size_t i = 0; i < state.size(); ++i) {
        const Parameter& p = trainer.parameters()[i];
        const double decay = p.spec.dims.rank() > 1 ? static_cast<double>(o.weight_decay) : 0;
        const std::vector<float> gradient = values_of(*device, p.gradient), master = values_of(*device, p.master);
        for (std::size_t j = 0; j < gradient.size(); ++j) {
          auto& s = state[i][j];
          const double g = factor * static_cast<double>(gradient[j]), b1 = static_cast<double>(o.beta1),
                       b2 = static_cast<double>(o.beta2);
          if (kind == OptimizerConfig::Kind::adamw) {  // Loshchilov & Hutter, algorithm 2
            s.first_moment = b1 * s.first_moment + (1 - b1) * g;
            s.second_moment = b2 * s.second_moment + (1 - b2) * g * g;
            const double m = s.first_moment / (1 - std::pow(b1, step + 1)),
                         v = s.second_moment / (1 - std::pow(b2, step + 1));
            s.master -= rate * decay * s.master + rate * m / (std::sqrt(v) + static_cast<double>(o.epsilon));
          } else {
            s.first_moment = static_cast<double>(o.momentum) * s.first_moment + g + decay * s.master;
            s.master -= rate * s.first_moment;
          }
          ASSERT_NEAR(static_cast<double>(master[j]), s.master, 2e-6) << p.spec.name << " " << j << " step " << step;
        }
      }
    }
  }
}

TEST(Trainer, ScheduleWarmsUpAndFallsToItsShare) {
  OptimizerConfig o;
  o.learning_rate = 2;
  o.final_learning_rate_share = 0.25f;
  o.warmup_steps = 4;
  o.decay_steps = 104;
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(o, 0), 0.5);
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(o, 3), 2);
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(o, 4), 2);
  EXPECT_NEAR(scheduled_learning_rate(o, 54), 2 * (0.25 + 0.75 / 2), 1e-12);
  EXPECT_NEAR(scheduled_learning_rate(o, 104), 0.5, 1e-12);
  EXPECT_NEAR(scheduled_learning_rate(o, 100000), 0.5, 1e-12);
}

TEST(Trainer, NoStepOfALongRunIsWithoutEffect) {
  for (const NetworkDescription& network : catalog()) {
    const OptimizerConfig o = default_optimizer(network);
    for (const std::int64_t step : {std::int64_t{0}, o.decay_steps, std::int64_t{1} << 40}) {
      EXPECT_GE(scheduled_learning_rate(o, step), 0.09 * static_cast<double>(o.learning_rate)) << network.name;
    }
  }
  for (const NetworkDescription& network : micro_networks()) {
    const auto device = reference_device();
    TrainerConfig config = micro_config(network);
    config.optimizer.warmup_steps = 0;
    config.optimizer.decay_steps = 1;
    Trainer trainer(*device, config);
    trainer.step({});
    const std::vector<float> before = masters_of(*device, trainer);
    trainer.step({});
    EXPECT_NE(masters_of(*device, trainer), before) << network.name;
  }
}

TEST(Trainer, ThreadsOfTheCpuChangeNothingButRounding) {
  TW_NEEDS_CPU();
  for (const std::string& name : tiny_networks()) {
    TrainerConfig config = micro_config(find_network(name));
    config.micro_batch = 4;
    config.accumulate = 2;
    config.optimizer.kind = OptimizerConfig::Kind::sgd;  // Adam magnifies rounding where a gradient is near zero
    StepResult one;
    std::vector<std::vector<float>> one_gradients;
    std::vector<float> one_masters;
    for (const int threads : {1, 2, 4}) {
      const auto device = create_device("cpu", {0, threads});
      ASSERT_EQ(device->info().threads, threads);
      Trainer trainer(*device, config);
      const StepResult result = trainer.step({});
      std::vector<std::vector<float>> gradients;
      for (const Parameter& p : trainer.parameters()) gradients.push_back(values_of(*device, p.gradient));
      const std::vector<float> masters = masters_of(*device, trainer);
      if (threads == 1) {
        one = result;
        one_gradients = gradients;
        one_masters = masters;
        continue;
      }
      EXPECT_NEAR(result.loss, one.loss, 1e-6 * one.loss) << name << ", " << threads << " threads";
      EXPECT_NEAR(result.gradient_norm, one.gradient_norm, 1e-5 * one.gradient_norm) << name << ", " << threads;
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_LT(normalised_error(gradients[i], one_gradients[i]), 2e-5)
            << name << ", " << threads << " threads: " << trainer.parameters()[i].spec.name;
      }
      EXPECT_LT(normalised_error(masters, one_masters), 1e-6) << name << ", " << threads << " threads";
    }
  }
}

TEST(Trainer, EvaluationIsRepeatableAndHeldOut) {
  for (const NetworkDescription& network : micro_networks()) {
    const auto device = reference_device();
    Trainer trainer(*device, micro_config(network)), other(*device, micro_config(network));
    const double loss = trainer.evaluate(3).loss;
    EXPECT_EQ(loss, trainer.evaluate(3).loss);
    EXPECT_NE(loss, trainer.evaluate(4).loss);
    EXPECT_EQ(trainer.step({}).loss, other.step({}).loss);  // evaluation left no trace
    EXPECT_NE(loss, trainer.evaluate(3).loss);
    EXPECT_EQ(trainer.steps_done(), 1);
  }
}

// ---- memory ----

TEST(Memory, PlanIsWhatIsAllocated) {
  std::vector<NetworkDescription> networks = micro_networks();
  networks.push_back(micro_resnet()), networks.push_back(micro_inception(true));
  for (const NetworkDescription& network : networks) {
    for (const Precision precision : {Precision::float32, Precision::bf16, Precision::fp8}) {
      if (precision == Precision::fp8 && !why_no_fp8(network).empty()) continue;  // convolutions have none
      for (const int recomputed : {0, 1, layer_count(network)}) {
        TrainerConfig config = micro_config(network, precision);
        config.accumulate = 3;
        config.recomputed_layers = recomputed;
        const MemoryPlan plan = plan_memory(config);
        const auto device = reference_device();
        Trainer trainer(*device, config);
        const MemoryPlan real = trainer.memory();
        EXPECT_EQ(plan.parameters, real.parameters);
        EXPECT_EQ(plan.gradients, real.gradients);
        EXPECT_EQ(plan.optimizer_state, real.optimizer_state);
        EXPECT_EQ(plan.activations, real.activations);
        EXPECT_EQ(plan.data, real.data);
        // The host's own copy of a batch is not in the device's account, nor is what the reference's plans keep.
        const std::size_t batch = (real.data - 5 * 4) / 2;
        EXPECT_EQ(device->allocated_bytes(), real.total() - batch - real.packed_weights);
      }
    }
  }
}

/// "llama3.2-1b" as part of a test's name.
std::string case_name(std::string network) {
  std::ranges::replace_if(
      network, [](char c) { return c == '-' || c == '.'; }, '_');
  return network;
}

// A network is a case of its own: building its plans takes seconds.
class MemoryOfTiny : public testing::TestWithParam<std::string> {};

TEST_P(MemoryOfTiny, EstimatesCoverWhatTheCpuTakes) {
  TW_NEEDS_CPU();
  for (const Precision precision : {Precision::float32, Precision::bf16}) {
    for (const int threads : {1, 3, 32}) {
      const auto device = create_device("cpu", {0, threads});
      if (!device->supports(Op::linear_forward, storage(precision))) continue;
      const TrainerConfig config = micro_config(find_network(GetParam()), precision);
      const MemoryPlan plan = plan_memory(config, threads);
      Trainer trainer(*device, config);
      MemoryPlan real = trainer.memory();
      EXPECT_GE(plan.packed_weights, real.packed_weights);
      EXPECT_GE(plan.workspace, real.workspace) << to_string(precision) << ", " << threads << " threads";
      EXPECT_GE(plan.total(), real.total());
      EXPECT_EQ(real.workspace, device->arena_bytes());
      EXPECT_GT(real.workspace, 0u);
      // All that the device holds is accounted for, and a second network of the same shapes finds its workspace there.
      const std::size_t batch = (real.data - static_cast<std::size_t>(config.accumulate + 2) * 4) / 2;
      EXPECT_EQ(real.total() - batch, device->allocated_bytes());
      EXPECT_EQ(Trainer(*device, config).memory().total(), real.total());
      // oneDNN's threads wait for each other in loops: a step of 32 of them on two processors takes minutes.
      if (threads > 3) continue;
      trainer.step({});
      EXPECT_EQ(trainer.memory().total(), real.total());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Tiny, MemoryOfTiny, testing::ValuesIn(tiny_networks()),
                         [](const auto& info) { return case_name(info.param); });

// Plans alone, of shapes that matter: without weights and activations they take little memory.
struct Large {
  const char* name;
  std::int64_t micro_batch, seq_len;
};
void PrintTo(const Large& large, std::ostream* out) { *out << large.name << " mb" << large.micro_batch; }

class MemoryOfLarge : public testing::TestWithParam<Large> {};

TEST_P(MemoryOfLarge, WorkspaceIsCovered) {
  TW_NEEDS_CPU();
  const Large& large = GetParam();
  const NetworkDescription network = find_network(large.name);
  for (const Precision precision : {Precision::float32, Precision::bf16}) {
    const auto device = create_device("cpu", {0, 16});
    if (!device->supports(Op::linear_forward, storage(precision))) continue;
    auto blocks =
        build_blocks(cut_layers(network, network.has_sequence() ? 1 : 4), precision, large.micro_batch, large.seq_len);
    ParameterStore(*device, storage(precision), blocks).build(blocks);
    EXPECT_GE(workspace_estimate(network, storage(precision), large.micro_batch, large.seq_len, 16),
              device->arena_bytes())
        << to_string(precision);
  }
}
INSTANTIATE_TEST_SUITE_P(Large, MemoryOfLarge,
                         testing::Values(Large{"gpt2-124m", 2, 1024}, Large{"llama3.2-1b", 1, 512},
                                         Large{"bert-large", 2, 512}, Large{"resnet-50", 4, 0},
                                         Large{"resnet-50", 9, 0}),
                         [](const auto& info) {
                           return case_name(info.param.name) + "_mb" + std::to_string(info.param.micro_batch);
                         });

TEST(Memory, WorkspaceGrowsWithRowsAndThreads) {
  TrainerConfig config = micro_config(find_network("gpt2-124m"));
  config.micro_batch = 64;
  config.seq_len = 1024;
  const std::size_t rows = 64 * 1024;
  // The widest layer's weight gradient: dy transposed and x packed (768 → 3072, float32).
  EXPECT_GE(plan_memory(config, 1).workspace, rows * (768 + 3072) * 4);
  // Attention: two float32 and two activation-sized blocks of 128 × 1024 scores for each thread.
  config.micro_batch = 8;
  EXPECT_GE(plan_memory(config, 96).workspace, std::size_t{96} * 128 * 1024 * 16);
  for (const int threads : {1, 2, 16}) {
    EXPECT_GT(plan_memory(config, 2 * threads).workspace, plan_memory(config, threads).workspace);
  }
}

TEST(Memory, Gpt2FitsItsBoundAndRecomputationSaves) {
  TrainerConfig config;
  config.network = find_network("gpt2-124m");
  config.precision = Precision::bf16;
  config.micro_batch = 4;
  config.seq_len = 256;
  config.optimizer = default_optimizer(config.network);
  const MemoryPlan plan = plan_memory(config);
  EXPECT_LT(plan.total(), std::size_t{7} << 29);  // 3.5 GiB
  // 16 values of width 768 a token and layer are kept, and a little more.
  const double kept = 12.0 * 1024 * 768 * 17 * 2;
  EXPECT_NEAR(static_cast<double>(plan.activations), kept, 0.1 * kept);
  // In fp8, 7 of these are inputs of linear layers, kept as one byte each: of attention besides the value itself.
  config.precision = Precision::fp8;
  const double kept_in_fp8 = 12.0 * 1024 * 768 * (11 * 2 + 7);
  EXPECT_NEAR(static_cast<double>(plan_memory(config).activations), kept_in_fp8, 0.1 * kept_in_fp8);
  config.precision = Precision::bf16;
  config.recomputed_layers = 6;
  EXPECT_NEAR(static_cast<double>(plan_memory(config).activations), kept / 2, 0.1 * kept);
  config.recomputed_layers = 12;
  EXPECT_LT(plan_memory(config).activations, plan.activations / 4);
}

TEST(Memory, NothingIsAllocatedInAStep) {
  for (const NetworkDescription& network : micro_networks()) {
    const auto device = reference_device();
    TrainerConfig config = micro_config(network, Precision::bf16);
    config.accumulate = 2;
    Trainer trainer(*device, config);
    const std::size_t before = device->allocated_bytes(), peak = device->peak_allocated_bytes();
    trainer.step({});
    trainer.evaluate(0);
    trainer.step({});
    EXPECT_EQ(device->allocated_bytes(), before);
    EXPECT_EQ(device->peak_allocated_bytes(), peak);
  }
}

}  // namespace
}  // namespace tw::test
