// Work on several streams of the cuda device, on stand-ins whose streams put their work off and go on as late or as
// early as their waits let them: what does not wait for what it needs gives other bits.
#include <gtest/gtest.h>

#include <cstring>

#include "models/compute/registry.hpp"
#include "models/data/batch_loader.hpp"
#include "tests/compute_cuda/graph_steps.hpp"
#include "tests/support/simt/runtime.hpp"
#include "tests/support/simt/stream.hpp"

namespace tw::test {

using namespace models;

namespace {

class Streams : public testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override { reset(); }
  static void reset() {
    simt::gpu() = {};
    simt::gpu().only = simt::Schedule::ascending;
  }
};

// ---- the stand-in's streams ----

/// A value goes from one stream to another through one place, five times; what arrives. `waits_to_read`,
/// `waits_to_write`: each stream waits for the other's event before it reads or overwrites the place.
std::vector<float> passed_on(simt::Overlap overlap, bool waits_to_read, bool waits_to_write) {
  simt::gpu().overlap = simt::Overlap::none;
  const auto device = make_cuda_device({});
  const auto from = device->create_stream(), to = device->create_stream();
  const auto written = device->create_event(), read = device->create_event();
  const Buffer place(*device, 4), arrived(*device, 5 * 4);
  const Tensor value{place.data(), DType::float32, {1}}, all{arrived.data(), DType::float32, {5}};
  device->fill(*from, {value, 0});
  device->fill(*to, {all, 0});
  simt::gpu().overlap = overlap;
  for (int i = 0; i < 5; ++i) {
    if (waits_to_write && i > 0) from->wait(*read);
    device->fill(*from, {value, static_cast<float>(i + 1)});
    written->record(*from);
    if (waits_to_read) to->wait(*written);
    device->copy(*to, all.slice(i, {1}).data, value.data, 4);
    read->record(*to);
  }
  const auto values = [&] { return std::vector<float>(all.as<float>(), all.as<float>() + 5); };
  if (overlap != simt::Overlap::none) {
    EXPECT_EQ(values(), std::vector<float>(5, 0)) << "put off";
  }
  to->synchronize();
  return values();
}

TEST_F(Streams, ShowAWaitThatIsMissing) {
  const std::vector<float> right = {1, 2, 3, 4, 5};
  using enum simt::Overlap;
  for (const simt::Overlap overlap : {none, late, early}) EXPECT_EQ(passed_on(overlap, true, true), right);
  EXPECT_EQ(passed_on(none, false, false), right) << "in the order in which they are enqueued";
  EXPECT_EQ(passed_on(late, false, true), std::vector<float>(5, 0)) << "read before it is written";
  EXPECT_EQ(passed_on(early, true, false), std::vector<float>(5, 5)) << "overwritten before it is read";
}

TEST_F(Streams, AreDoneAsFarAsIsWaitedFor) {
  const auto device = make_cuda_device({});
  const auto stream = device->create_stream(), other = device->create_stream();
  const auto event = device->create_event();
  const Buffer memory(*device, 8);
  const Tensor first{memory.data(), DType::float32, {1}}, second{first.as<float>() + 1, DType::float32, {1}};
  simt::gpu().overlap = simt::Overlap::late;
  device->fill(*stream, {first, 1});
  event->record(*stream);
  EXPECT_FALSE(event->is_done());
  device->fill(*stream, {second, 1});
  device->fill(*other, {second, 2});
  EXPECT_EQ(simt::put_off_entries(), 4);
  event->synchronize();
  EXPECT_TRUE(event->is_done());
  EXPECT_EQ(simt::put_off_entries(), 2);
  stream->synchronize();
  EXPECT_EQ(*second.as<float>(), 1);
  { const Buffer freed(*device, 8); }
  EXPECT_EQ(simt::put_off_entries(), 0) << "memory is given back behind all work";
  EXPECT_EQ(*second.as<float>(), 2);
}

// A processor that spins uses power, which is measured. Tokens are the device's, BERT's samples are copied from the
// host.
TEST_F(Streams, TheHostSleepsWhileItWaitsForAStep) {
  for (const NetworkDescription& network : {micro_gpt2(), micro_bert()}) {
    SCOPED_TRACE(network.name);
    reset();
    const auto device = make_cuda_device({.time_algorithms = false});
    const auto stream = device->create_stream();
    const auto event = device->create_event();
    Trainer trainer(*device, ten_steps_config(network, {Precision::bf16, 0, Beside::nothing}));
    trainer.set_ahead(2);
    simt::gpu().overlap = simt::Overlap::late;
    for (int step = 0; step < 5; ++step) trainer.enqueue_step({});
    EXPECT_EQ(trainer.collect().size(), 5u);
    EXPECT_EQ(simt::gpu().spins, 0);
    event->record(*stream);
    event->synchronize();
    EXPECT_EQ(simt::gpu().spins, 1) << "an event of another kind";
  }
}

// ---- samples that are made beside the steps ----

struct Cases {
  std::int64_t accumulate;
  bool graphs;
};

// Tokens, images and clicks, which devices make; BERT's samples are the host's, whose copies are in the steps' stream.
TEST_F(Streams, SamplesMadeBesideTheStepsAreThoseOfTheSteps) {
  for (const NetworkDescription& network : {micro_gpt2(), micro_resnet(true), micro_dlrm(), micro_bert()}) {
    for (const auto& [accumulate, graphs] : {Cases{1, true}, Cases{3, true}, Cases{2, false}}) {
      SCOPED_TRACE(network.name + ", accumulate " + std::to_string(accumulate) + (graphs ? ", graphs" : ""));
      TrainerConfig config = ten_steps_config(network, {Precision::bf16, 0, Beside::nothing});
      config.accumulate = accumulate;
      config.graphs = graphs;
      const auto outcome = [&](simt::Overlap overlap) {
        reset();
        const auto device = make_cuda_device({.time_algorithms = false});
        simt::gpu().overlap = overlap;
        return ten_steps(*device, config, Beside::nothing);
      };
      const Outcome want = outcome(simt::Overlap::none);
      for (const simt::Overlap overlap : {simt::Overlap::late, simt::Overlap::early})
        expect_equal(want, outcome(overlap), Beside::nothing);
    }
  }
}

// When the result of a step is there, the samples of the next one may be unmade.
TEST_F(Streams, AStepDoesNotWaitForTheSamplesOfTheNext) {
  for (const NetworkDescription& network : {micro_gpt2(), micro_resnet(true), micro_dlrm()}) {
    const auto device = make_cuda_device({.time_algorithms = false});
    Trainer trainer(*device, ten_steps_config(network, {Precision::bf16, 0, Beside::nothing}));
    simt::gpu().overlap = simt::Overlap::late;
    for (int step = 0; step < 3; ++step) {
      trainer.step({});
      EXPECT_GT(simt::put_off_entries(), 0) << network.name;
    }
    reset();
  }
}

// What was foreseen wrongly is made when it is wanted: the first samples, those of an evaluation, those behind it.
void expect_samples_in_time(const NetworkDescription& network, DataShare share, std::size_t table_bytes) {
  SCOPED_TRACE(network.name);
  constexpr std::int64_t batch = 4, seq = 7;
  const auto device = make_cuda_device({});
  const auto stream = device->create_stream();
  BatchLoader loader(*device, network, DType::bf16, batch, seq, 3, share);
  EXPECT_EQ(loader.bytes(), 2 * (loader.inputs().bytes() + loader.targets().bytes()) + table_bytes);
  SyntheticData host(network, DType::bf16, batch, seq, 3, 1, share);
  const auto expect = [&](Split split, std::uint64_t first) {
    loader.load(*stream, split, first);
    stream->synchronize();
    host.generate(split, first);
    EXPECT_EQ(std::memcmp(loader.inputs().data, host.inputs().data, host.inputs().bytes()), 0) << first;
    EXPECT_EQ(std::memcmp(loader.targets().data, host.targets().data, host.targets().bytes()), 0) << first;
  };
  for (const simt::Overlap overlap : {simt::Overlap::late, simt::Overlap::early}) {
    simt::gpu().overlap = overlap;
    expect(Split::training, 0);
    loader.load_ahead(Split::training, 4);
    expect(Split::held_out, 4);
    expect(Split::training, 4);
    expect(Split::training, 4);  // the room is empty
    loader.load_ahead(Split::training, 8);
    loader.load_ahead(Split::training, 12);  // in place of 8
    expect(Split::training, 8);
    expect(Split::training, 12);
  }
}

TEST_F(Streams, SamplesThatWereNotMadeAheadAreMadeInTime) {
  const NetworkDescription tokens = micro_gpt2(), clicks = micro_dlrm();
  NetworkDescription few = tokens;
  few.drawn_tokens = 6;
  expect_samples_in_time(tokens, {}, static_cast<std::size_t>(tokens.data().vocabulary) * sizeof(std::int32_t));
  reset();
  expect_samples_in_time(few, {}, 6 * sizeof(std::int32_t));
  reset();
  expect_samples_in_time(clicks, {1, 2}, 2 * sizeof(ClickTable));
}

}  // namespace
}  // namespace tw::test
