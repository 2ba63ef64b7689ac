// One network run whole, recomputed and cut in two; gradients against finite differences; how parameters lie in memory.
#include "models/network/executor.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "models/compute/philox.hpp"
#include "models/data/synthetic_data.hpp"
#include "models/families/build_blocks.hpp"
#include "models/network/parameters.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

using namespace models;

namespace {

std::vector<std::unique_ptr<Block>> for_two_micro_batches(std::vector<std::unique_ptr<Block>> blocks) {
  for (const auto& block : blocks) block->use_tables({0, 1, 2});
  return blocks;
}

// A network with its parameters and one batch on the reference device.
struct Bench {
  std::unique_ptr<Device> device = reference_device();
  std::unique_ptr<Stream> stream = device->create_stream();
  TrainerConfig config;
  std::vector<std::unique_ptr<Block>> blocks;
  ParameterStore store;
  SyntheticData data;
  Buffer inputs, targets, loss, correct;
  std::vector<std::pair<int, int>> announced;

  explicit Bench(const NetworkDescription& network, Precision precision = Precision::float32)
      : config(micro_config(network, precision)),
        blocks(for_two_micro_batches(build_blocks(network, precision, config.micro_batch, config.seq_len))),
        store(*device, storage(precision), blocks),
        data(network, storage(precision), config.micro_batch, config.seq_len, 1, 1),
        inputs(*device, data.inputs().bytes()),
        targets(*device, data.targets().bytes()),
        loss(*device, sizeof(float)),
        correct(*device, sizeof(std::int32_t)) {
    store.initialise(*stream, 1);
    store.build(blocks);
    load(0);
  }
  void load(std::uint64_t sample) {
    data.generate(Split::training, sample);
    device->copy_from_host(*stream, inputs.data(), data.inputs().data, inputs.bytes());
    device->copy_from_host(*stream, targets.data(), data.targets().data, targets.bytes());
  }
  MicroBatch batch(bool accumulate = false) const {
    MicroBatch b;
    b.inputs = {inputs.data(), data.inputs().dtype, data.inputs().dims};
    b.targets = {targets.data(), data.targets().dtype, data.targets().dims};
    b.loss = {loss.data(), DType::float32, {1}};
    b.correct = {correct.data(), DType::int32, {1}};
    b.accumulate = accumulate;
    return b;
  }
  double loss_value() { return values_of(*device, {loss.data(), DType::float32, {1}})[0]; }
  Executor::Listener listener() {
    return [this](int block, int index) { announced.emplace_back(block, index); };
  }
  // Loss, gradients and running statistics: everything that a pass leaves.
  std::vector<float> outcome() {
    std::vector<float> all = values_of(*device, store.flat_gradients());
    for (const auto& statistic : store.statistics()) {
      const std::vector<float> values = values_of(*device, statistic.values);
      all.insert(all.end(), values.begin(), values.end());
    }
    all.push_back(static_cast<float>(loss_value()));
    const std::vector<float> rows = row_gradients();
    all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }
  // Of the rows of tables, by their update of zeros at a rate of −1.
  std::vector<float> row_gradients() {
    const Tensor like = store.table_rows();
    if (!like) return {};
    Buffer memory(*device, like.bytes());
    const Tensor rows{memory.data(), DType::float32, like.dims};
    device->fill(*stream, {rows, 0});
    StepScalars step;
    step.learning_rate = -1;
    for (const auto& block : blocks) block->update_tables(*stream, rows, &step);
    return values_of(*device, rows);
  }
  std::vector<float> run_whole(int recomputed = 0) {
    store.initialise(*stream, 1);
    Executor executor(*device, *stream, blocks, {recomputed, 0, -1});
    executor.refresh();
    for (const std::uint64_t sample : {0u, 100u}) {
      load(sample);
      executor.forward(batch(sample > 0));
      executor.backward(batch(sample > 0), listener());
    }
    return outcome();
  }
  std::vector<float> run_cut(int cut, int recomputed) {
    store.initialise(*stream, 1);
    Executor front(*device, *stream, blocks, {recomputed, 0, cut});
    Executor back(*device, *stream, blocks, {recomputed, cut, -1});
    front.refresh();
    back.refresh();
    for (const std::uint64_t sample : {0u, 100u}) {
      load(sample);
      front.forward(batch(sample > 0));
      device->copy(*stream, back.input().data, front.output().data, front.output().bytes());
      back.forward(batch(sample > 0));
      back.backward(batch(sample > 0), listener());
      device->copy(*stream, front.output_gradient().data, back.input_gradient().data, back.input_gradient().bytes());
      front.backward(batch(sample > 0), listener());
    }
    return outcome();
  }
};

std::vector<NetworkDescription> cases() {
  std::vector<NetworkDescription> all = micro_networks();
  all.insert(all.end(), {micro_resnet(), micro_inception(true), micro_custom_measured()});
  return all;
}

TEST(Executor, WholeRecomputedAndCutInTwoAreEqualToTheBit) {
  for (const NetworkDescription& c : cases()) {
    for (const Precision precision : {Precision::float32, Precision::bf16}) {
      Bench bench(c, precision);
      const std::vector<float> whole = bench.run_whole();
      EXPECT_EQ(whole, bench.run_whole()) << c.name << ": not even repeatable";
      const int all = static_cast<int>(bench.blocks.size());
      for (int first = 1; first <= all; ++first)
        EXPECT_EQ(whole, bench.run_whole(first)) << c.name << ": " << first << " blocks recomputed";
      for (int cut = 1; cut < static_cast<int>(bench.blocks.size()); ++cut) {
        for (const int first : {0, 1, cut, cut + 1, all})
          EXPECT_EQ(whole, bench.run_cut(cut, first)) << c.name << ": cut before " << cut << ", " << first << " recomputed";
      }
    }
  }
}

// Three bottlenecks, in front of which are the stem, a bottleneck and a bottleneck: the batch norm of a bottleneck adds
// the two gradients that come to it.
TEST(Executor, AddsTwoGradientsOnlyWhereTheBlockInFrontDoesNot) {
  Bench bench(micro_resnet());
  bench.device->set_profiling(true);
  const auto adds = [&](auto&& run) {
    bench.device->reset_profile();
    run();
    return bench.device->profile().calls[static_cast<std::size_t>(Op::add)];
  };
  constexpr long micro_batches = 2;
  EXPECT_EQ(adds([&] { bench.run_whole(); }), micro_batches);
  EXPECT_EQ(adds([&] { bench.run_cut(1, 0); }), micro_batches) << "behind the stem: the same sum";
  EXPECT_EQ(adds([&] { bench.run_cut(2, 0); }), 2 * micro_batches) << "one gradient leaves a stage";
}

// A block fewer with memory of its own, and a forward more, for each that is recomputed.
TEST(Executor, EachRecomputedBlockTakesNoMemoryOfItsOwn) {
  NetworkDescription network = micro_gpt2();
  change_gpt2(network, [](Gpt2Description& sizes) { sizes.layers = 4; });
  const TrainerConfig config = micro_config(network);
  const auto blocks = build_blocks(network, config.precision, config.micro_batch, config.seq_len);
  const auto bytes = [&](int recomputed) { return ActivationPlan(blocks, {recomputed, 0, -1}).bytes; };
  const std::size_t layer = bytes(0) - bytes(2);  // the embedding keeps nothing
  EXPECT_GT(layer, 0u);
  for (int layers = 1; layers < 4; ++layers) EXPECT_EQ(bytes(0) - bytes(layers + 1), static_cast<std::size_t>(layers) * layer) << layers;
  EXPECT_LT(bytes(5), bytes(4));
  EXPECT_EQ(bytes(5), bytes(6)) << "the head is the last to run";

  struct Counting : Block {
    Block& inner;
    int& runs;
    Counting(Block& inner_block, int& counter) : inner(inner_block), runs(counter) {}
    std::string name() const override { return inner.name(); }
    std::vector<ParameterSpec> parameters() const override { return inner.parameters(); }
    ActivationSpec output() const override { return inner.output(); }
    std::vector<ActivationSpec> saved() const override { return inner.saved(); }
    std::vector<ActivationSpec> scratch() const override { return inner.scratch(); }
    std::vector<NamedPlan> plans() const override { return inner.plans(); }
    void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>& shared,
               const std::vector<Tensor>& statistics) override {
      inner.build(device, own, shared, statistics);
    }
    void forward(BlockRun& run, Tensor x, Tensor y) override { ++runs, inner.forward(run, x, y); }
    void backward(BlockRun& run, Tensor x, Tensor y, Tensor dy, Tensor dx) override {
      inner.backward(run, x, y, dy, dx);
    }
  };
  Bench bench(network);
  std::vector<int> runs(bench.blocks.size());
  std::vector<std::unique_ptr<Block>> counted;
  for (std::size_t i = 0; i < runs.size(); ++i) counted.push_back(std::make_unique<Counting>(*bench.blocks[i], runs[i]));
  Executor executor(*bench.device, *bench.stream, counted, {3, 0, -1});
  executor.refresh();
  executor.forward(bench.batch());
  executor.backward(bench.batch(), {});
  EXPECT_EQ(runs, (std::vector<int>{2, 2, 2, 1, 1, 1}));
}

TEST(Executor, AnnouncesEachGradientOnceInTheOrderOfTheFlatBuffer) {
  for (const NetworkDescription& c : cases()) {
    Bench bench(c);
    bench.run_whole();
    std::vector<std::pair<int, int>> expected;
    for (const auto& entry : bench.store.layout().entries) expected.emplace_back(entry.block, entry.index);
    std::vector<std::pair<int, int>> twice = expected;
    twice.insert(twice.end(), expected.begin(), expected.end());
    EXPECT_EQ(bench.announced, twice) << c.name;
  }
  // The tied table: written by the head, complete after the embedding.
  const Bench bench(micro_gpt2());
  EXPECT_EQ(bench.store.layout().entries.back().spec.name, "wte.weight");
}

// A gradient is complete when it is announced: nothing may change it afterwards.
TEST(Executor, AnnouncedGradientsAreFinal) {
  for (const NetworkDescription& c : cases()) {
    Bench bench(c);
    Executor executor(*bench.device, *bench.stream, bench.blocks, {});
    executor.refresh();
    executor.forward(bench.batch());
    std::vector<std::vector<float>> seen;
    executor.backward(bench.batch(), [&](int, int) {
      seen.push_back(values_of(*bench.device, bench.store.parameters()[seen.size()].gradient));
    });
    ASSERT_EQ(seen.size(), bench.store.parameters().size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i], values_of(*bench.device, bench.store.parameters()[i].gradient))
          << c.name << ": " << bench.store.parameters()[i].spec.name;
    }
  }
}

TEST(Executor, EvaluationLeavesGradientsAndStatisticsAlone) {
  for (const NetworkDescription& c : cases()) {
    Bench bench(c);
    Executor executor(*bench.device, *bench.stream, bench.blocks, {});
    executor.refresh();
    for (const bool accumulate : {false, true}) {  // as many as the bench is made for
      executor.forward(bench.batch(accumulate));
      executor.backward(bench.batch(accumulate), {});
    }
    std::vector<float> before = bench.outcome();
    executor.evaluate(bench.batch());
    EXPECT_EQ(before, bench.outcome()) << c.name;  // the loss of the same batch as well
  }
}

// d loss / d (one parameter tensor along its own gradient, and along a random direction) against central differences.
TEST(Executor, GradientsAreFiniteDifferences) {
  for (const NetworkDescription& c : cases()) {
    Bench bench(c);
    for (const Parameter& p : bench.store.parameters()) {
      // Published starts are near zero: a classifier that hides what lies behind it, a residual stream bent by any
      // step.
      const std::string& name = p.spec.name;
      const bool is_head = name == "fc.weight" || name == "lm_head.weight" || name == "cls.seq_relationship.weight";
      const bool is_table =
          name == "wte.weight" || name == "model.embed_tokens.weight" || name.ends_with("_embeddings.weight");
      const bool is_inception = c.shape->family() == "inception";
      const float factor = name == "AuxLogits.fc.weight" ? 500.0f
                           : is_head                     ? (is_inception ? 5.0f : 50.0f)
                           : is_table                    ? 20.0f
                                                         : 1.0f;
      std::vector<float> values = values_of(*bench.device, p.master);
      for (float& value : values) value *= factor;
      // Inception has so many ReLUs that any step crosses kinks: three deviations above zero, few do.
      if (is_inception && name.ends_with(".bn.bias"))
        for (float& value : values) value += 3;
      bench.device->copy_from_host(*bench.stream, p.master.data, values.data(), p.master.bytes());
    }
    Executor executor(*bench.device, *bench.stream, bench.blocks, {});
    executor.refresh();
    executor.forward(bench.batch());
    executor.backward(bench.batch(), {});
    // ReLU has kinks, so that its step must be small; the loss is stored in float32 (2⁻²⁴ of it), so not too small.
    const bool kinks = c.shape->has_relu();
    const double h = kinks ? 5e-5 : 5e-3, tolerance = kinks ? 1e-2 : 1e-3, noise = 4 * 0x1p-24 * bench.loss_value() / h;
    for (const Parameter& p : bench.store.parameters()) {
      const std::vector<float> gradient = values_of(*bench.device, p.gradient),
                               start = values_of(*bench.device, p.master);
      double norm = 0;
      for (const float g : gradient) norm += static_cast<double>(g) * static_cast<double>(g);
      norm = std::sqrt(norm);
      ASSERT_GT(norm, 0) << p.spec.name;
      for (const bool random : {false, true}) {
        std::vector<double> direction(gradient.size());
        double expected = 0;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          const auto sign = random_block(3, 4, i).word[0] & 1u ? 1.0 : -1.0;
          direction[i] =
              random ? sign / std::sqrt(static_cast<double>(gradient.size())) : static_cast<double>(gradient[i]) / norm;
          expected += direction[i] * static_cast<double>(gradient[i]);
        }
        // Fourth-order central difference: (8(f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h.
        const auto loss_at = [&](double t) {
          std::vector<float> moved(start.size());
          for (std::size_t i = 0; i < start.size(); ++i)
            moved[i] = static_cast<float>(static_cast<double>(start[i]) + t * direction[i]);
          bench.device->copy_from_host(*bench.stream, p.master.data, moved.data(), p.master.bytes());
          executor.refresh();
          executor.evaluate(bench.batch());
          return bench.loss_value();
        };
        const double slope = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
        EXPECT_NEAR(slope, expected, tolerance * norm + noise)
            << c.name << ": " << p.spec.name << (random ? ", random" : "");
      }
      bench.device->copy_from_host(*bench.stream, p.master.data, start.data(), p.master.bytes());
    }
  }
}

TEST(ParameterLayout, IsAlignedAscendingAndPadded) {
  for (const NetworkDescription& c : cases()) {
    const Bench bench(c, Precision::bf16);
    const ParameterLayout& layout = bench.store.layout();
    std::int64_t end = 0, count = 0;
    for (const auto& entry : layout.entries) {
      EXPECT_EQ(entry.offset % 64, 0);
      EXPECT_GE(entry.offset, end);
      EXPECT_LT(entry.offset, end + 64);
      end = entry.offset + entry.spec.dims.count();
      count += entry.spec.dims.count();
    }
    EXPECT_EQ(layout.count % 64, 0);
    EXPECT_LT(layout.count - end, 64);
    EXPECT_EQ(layout.parameter_count, count);
    EXPECT_EQ(count, count_dense_parameters(c));
    EXPECT_EQ(count + layout.table_elements, count_parameters(c));
    for (const Parameter& p : bench.store.parameters()) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.weight.data) % 128, 0u);
      EXPECT_EQ(p.weight.dtype, p.spec.keep_float32 ? DType::float32 : DType::bf16);
    }
  }
}

TEST(ParameterLayout, ReservesRowsOfHeadsThatAreNoParameters) {
  EXPECT_EQ(whole_tiles_of_classes(50257), 50304);
  EXPECT_EQ(whole_tiles_of_classes(128256), 128256);
  EXPECT_EQ(whole_tiles_of_classes(30522), 30592);
  EXPECT_EQ(whole_tiles_of_classes(1000), 1024);
  EXPECT_EQ(whole_tiles_of_classes(113), 113) << "15 more are over an eighth";
  EXPECT_EQ(whole_tiles_of_classes(19), 19);
  NetworkDescription network = micro_gpt2();
  Gpt2Description shape = network.as<Gpt2Description>();
  shape.vocabulary = 121;
  network.shape = family::gpt2::shape(shape);
  const ParameterLayout layout(build_blocks(network, Precision::bf16, 1, 7));
  EXPECT_EQ(layout.parameter_count, count_parameters(network));
  bool found = false;
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const ParameterLayout::Entry& entry = layout.entries[i];
    if (entry.spec.name != "wte.weight") continue;
    found = true;
    EXPECT_EQ(entry.spec.dims, (Dims{121, 16}));
    const std::int64_t next = i + 1 < layout.entries.size() ? layout.entries[i + 1].offset : layout.count;
    EXPECT_EQ(next - entry.offset, 128 * 16);
    const DecaySegment segment = layout.decay_segments(0.1f)[i];
    EXPECT_EQ(segment.end - segment.begin, 121 * 16);
  }
  EXPECT_TRUE(found);
}

TEST(ParameterLayout, DividesIntoEqualShardsOfWholeLines) {
  for (const NetworkDescription& c : cases()) {
    const auto blocks =
        build_blocks(c, Precision::bf16, c.default_micro_batch, c.default_seq_len);
    const std::int64_t alone = ParameterLayout(blocks).count;
    for (const int ranks : {1, 2, 3, 6, 7, 12, 96, 128}) {
      const ParameterLayout layout(blocks, ranks);
      EXPECT_EQ(layout.count % (ranks * 64), 0) << ranks << " ranks, 128 bytes in bf16";
      EXPECT_GE(layout.count, alone);
      EXPECT_LT(layout.count, alone + ranks * 64);
    }
  }
}

TEST(ParameterLayout, DecaysMatricesAndKernelsOnly) {
  for (const NetworkDescription& c : cases()) {
    const Bench bench(c);
    const std::vector<DecaySegment> segments = bench.store.layout().decay_segments(0.1f);
    ASSERT_EQ(segments.size(), bench.store.parameters().size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const Parameter& p = bench.store.parameters()[i];
      EXPECT_EQ(segments[i].begin, p.offset);
      EXPECT_EQ(segments[i].end, p.offset + p.spec.dims.count());
      EXPECT_EQ(segments[i].weight_decay, p.spec.dims.rank() > 1 ? 0.1f : 0.0f) << p.spec.name;
      if (i > 0) {
        EXPECT_LE(segments[i - 1].end, segments[i].begin);
      }
    }
  }
}

TEST(ParameterStore, StartsAsPublished) {
  NetworkDescription network = micro_gpt2();
  change_gpt2(network, [](Gpt2Description& sizes) {
    sizes.width = 64;
    sizes.vocabulary = 500;
    sizes.max_seq = 200;
  });
  const auto check = [](Bench& bench, const std::string& name, double mean, double stddev) {
    for (const Parameter& p : bench.store.parameters()) {
      if (p.spec.name != name) continue;
      const std::vector<float> values = values_of(*bench.device, p.master);
      const auto n = static_cast<double>(values.size());
      double sum = 0, square = 0;
      for (const float v : values) {
        sum += static_cast<double>(v) / n;
        square += static_cast<double>(v) * static_cast<double>(v) / n;
      }
      EXPECT_NEAR(sum, mean, 5 * stddev / std::sqrt(n)) << name;
      EXPECT_NEAR(std::sqrt(std::max(0.0, square - sum * sum)), stddev, 5 * stddev / std::sqrt(2 * n) + 1e-9) << name;
      return;
    }
    ADD_FAILURE() << "no parameter " << name;
  };
  Bench gpt2(network);
  check(gpt2, "wte.weight", 0, 0.02);
  check(gpt2, "wpe.weight", 0, 0.01);
  check(gpt2, "h.1.attn.c_attn.weight", 0, 0.02);
  check(gpt2, "h.1.attn.c_proj.weight", 0, 0.02 / 2);  // two layers, four additions to the residual stream
  check(gpt2, "h.0.mlp.c_proj.weight", 0, 0.02 / 2);
  check(gpt2, "h.0.mlp.c_fc.bias", 0, 0);
  check(gpt2, "ln_f.weight", 1, 0);
  Bench resnet(micro_resnet(true));
  check(resnet, "conv1.weight", 0, std::sqrt(2.0 / (4 * 49)));
  check(resnet, "layer2.0.conv2.weight", 0, std::sqrt(2.0 / (8 * 9)));
  check(resnet, "layer1.0.downsample.1.weight", 1, 0);
  check(resnet, "layer2.0.bn3.weight", 1, 0);
  check(resnet, "fc.weight", 0, 0.01);
  Bench inception(micro_inception(true));
  check(inception, "Conv2d_4a_3x3.conv.weight", 0, 0.1);
  check(inception, "Mixed_6b.branch7x7_3.conv.weight", 0, 0.1);
  check(inception, "Mixed_6b.branch7x7_2.bn.weight", 1, 0);
  check(inception, "AuxLogits.conv0.conv.weight", 0, 0.1);
  check(inception, "AuxLogits.conv1.conv.weight", 0, 0.01);
  check(inception, "AuxLogits.fc.weight", 0, 0.001);
  check(inception, "fc.weight", 0, 0.1);
  check(inception, "fc.bias", 0, 0);
}

TEST(ParameterStore, WeightsDependOnSeedAndNameOnly) {
  Bench narrow(micro_gpt2(), Precision::bf16), wide(micro_gpt2());
  const auto masters = [](Bench& bench) { return values_of(*bench.device, bench.store.flat_master()); };
  EXPECT_EQ(masters(narrow), masters(wide));
  const std::vector<float> first = masters(wide);
  wide.store.initialise(*wide.stream, 2);
  EXPECT_NE(first, masters(wide));
  // The rounded copy is the master's.
  const std::vector<float> master = masters(narrow);
  for (std::size_t i = 0; i < master.size(); ++i) {
    ASSERT_EQ(narrow.store.flat_weights().as<bf16>()[i].bits, to_bf16(master[i]).bits);
  }
}

}  // namespace
}  // namespace tw::test
