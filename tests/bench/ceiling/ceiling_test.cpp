// The ceiling accounts for the network's products: all of them, once, and nothing else. No test asserts a time.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>

#include "bench/ceiling/ceiling.hpp"
#include "models/compute/error.hpp"
#include "models/compute/reference/reference.hpp"
#include "models/compute/registry.hpp"
#include "models/families/gpt2/description.hpp"
#include "models/families/resnet/description.hpp"
#include "tests/support/needs_cpu.hpp"

namespace tw {

using namespace bench;
using namespace models;

namespace {

/// Small enough for the naive device, wide enough for every kind of candidate of the output head.
NetworkDescription small_transformer() {
  NetworkDescription network;
  network.name = "small";
  network.shape = family::gpt2::shape({2, 16, 2, 4100, 64});
  return network;
}

NetworkDescription small_resnet() {
  NetworkDescription network = find_network("resnet-tiny");
  ResnetDescription shape = network.as<ResnetDescription>();
  shape.image_size = 8;
  shape.stem_width = 4;
  network.shape = family::resnet::shape(shape);
  return network;
}

void expect_accounts_for(const Ceiling& ceiling, const NetworkDescription& network, std::int64_t micro_batch,
                         std::int64_t seq_len) {
  double covered = 0, total = 0;
  std::size_t passes = 0;
  for (const Product& product : products(network, micro_batch, seq_len)) {
    total += product.flops();
    if (product.kind == Product::Kind::attention) continue;
    covered += product.flops();
    passes += product.backward_input ? 3 : 2;
  }
  double flops = 0, seconds = 0;
  std::set<std::string> names;
  for (const Ceiling::Entry& entry : ceiling.entries) {
    EXPECT_GT(entry.seconds, 0) << entry.product;
    EXPECT_NEAR(entry.flops_per_s * entry.seconds / entry.flops, 1, 1e-12) << entry.product;
    flops += entry.flops;
    seconds += entry.seconds;
    names.insert(entry.product);
  }
  EXPECT_EQ(ceiling.entries.size(), passes);
  EXPECT_EQ(names.size(), passes) << "each pass of each shape once";
  EXPECT_NEAR(flops / covered, 1, 1e-12);
  EXPECT_NEAR(ceiling.covered_flops_share, covered / total, 1e-12);
  EXPECT_NEAR(ceiling.seconds_per_micro_batch / seconds, 1, 1e-12);
  EXPECT_NEAR(ceiling.flops_per_s * seconds / covered, 1, 1e-12);
}

void expect_unsupported(Device& device, const NetworkDescription& network, Precision dtype) {
  try {
    measure_ceiling(device, network, dtype, 1, 16, 0);
    ADD_FAILURE() << "measured what the device cannot do";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::unsupported);
    EXPECT_NE(std::string(error.what()).find(device.why_unsupported(dtype)), std::string::npos) << error.what();
  }
}

/// Each event is a second after the last one, whatever ran between.
class MadeUpClock final : public reference::ReferenceDevice {
 public:
  MadeUpClock() : ReferenceDevice(1) {}

  class Tick final : public Event {
   public:
    explicit Tick(double& now) : now_(now) {}
    void record(Stream&) override { time_ = ++now_; }
    void synchronize() override {}
    bool is_done() override { return true; }
    double seconds_since(Event& earlier) override { return time_ - dynamic_cast<Tick&>(earlier).time_; }

   private:
    double& now_;
    double time_ = 0;
  };
  std::unique_ptr<Event> create_event() override { return std::make_unique<Tick>(now_); }

 private:
  double now_ = 0;
};

TEST(Ceiling, IsOfTheDevicesClock) {
  MadeUpClock device;
  const Ceiling ceiling = measure_ceiling(device, small_transformer(), Precision::float32, 1, 16, 0);
  double head = 0;
  for (const Ceiling::Entry& entry : ceiling.entries) {
    if (entry.way == "classifier operator") {
      head += entry.seconds;
      continue;
    }
    EXPECT_GE(entry.seconds, 1) << entry.product;
    EXPECT_EQ(entry.seconds, std::round(entry.seconds)) << entry.product << ": one for each run";
  }
  EXPECT_NEAR(head, 1, 1e-12) << "one run, shared among three passes that take one each";
}

class CeilingOn : public testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  void SetUp() override {
    if (std::get<0>(GetParam()) == "cpu") TW_NEEDS_CPU();
  }
};

TEST_P(CeilingOn, AccountsForATransformerWithoutItsAttention) {
  const auto [name, dtype] = GetParam();
  const auto device = create_device(name, {});
  const NetworkDescription network = small_transformer();
  if (!device->supports(Op::linear_forward, storage(dtype))) {
    expect_unsupported(*device, network, dtype);
    return;
  }
  const Ceiling ceiling = measure_ceiling(*device, network, dtype, 1, 16, 0);
  expect_accounts_for(ceiling, network, 1, 16);
  EXPECT_LT(ceiling.covered_flops_share, 1);
  const std::size_t kept = device->allocated_bytes();  // the device's own arenas
  EXPECT_LT(kept, device->peak_allocated_bytes()) << "operands are freed";
}

TEST_P(CeilingOn, AccountsForAConvolutionNetwork) {
  const auto [name, dtype] = GetParam();
  const auto device = create_device(name, {});
  const NetworkDescription network = small_resnet();
  if (!device->supports(Op::convolution_forward, storage(dtype))) {
    expect_unsupported(*device, network, dtype);
    return;
  }
  const Ceiling ceiling = measure_ceiling(*device, network, dtype, 2, 0, 0);
  expect_accounts_for(ceiling, network, 2, 0);
  EXPECT_EQ(ceiling.covered_flops_share, 1);
}

// The second timing, after the trials, repeats what won in the first: another way would be another ceiling.
TEST_P(CeilingOn, TimesTheWaysOfAnEarlierOneAgain) {
  const auto [name, dtype] = GetParam();
  const auto device = create_device(name, {});
  const NetworkDescription network = small_transformer();
  if (!device->supports(Op::linear_forward, storage(dtype))) return;
  const Ceiling before = measure_ceiling(*device, network, dtype, 1, 16, 0);
  const auto ways_of = [](const Ceiling& ceiling) {
    std::vector<std::string> ways;
    for (const Ceiling::Entry& entry : ceiling.entries) ways.push_back(entry.product + ": " + entry.way);
    return ways;
  };
  EXPECT_EQ(ways_of(measure_ceiling(*device, network, dtype, 1, 16, 0, &before)), ways_of(before));

  Ceiling by_plans = before;  // whatever won, the plans' own layouts are among the ways of all but the head
  for (Ceiling::Entry& entry : by_plans.entries)
    if (entry.product.starts_with("linear")) entry.way = "";
  EXPECT_EQ(ways_of(measure_ceiling(*device, network, dtype, 1, 16, 0, &by_plans)), ways_of(by_plans));

  by_plans.entries.front().way = "no such way";
  try {
    measure_ceiling(*device, network, dtype, 1, 16, 0, &by_plans);
    ADD_FAILURE() << "a pass without a way was timed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(before.entries.front().product), std::string::npos) << error.what();
  }
}

// A signal is looked at there: while plans are made, and while they are timed.
TEST(CeilingPause, EndsTheTimingBetweenAnyTwoProducts) {
  TW_NEEDS_CPU();
  struct Ended {};
  const auto device = create_device("cpu", {.threads = 1});
  const NetworkDescription network = small_transformer();
  const auto calls_until = [&](int end) {
    int calls = 0;
    try {
      measure_ceiling(*device, network, Precision::float32, 1, 16, 0, nullptr, [&] {
        if (++calls == end) throw Ended{};
      });
    } catch (const Ended&) {
      EXPECT_EQ(calls, end);
    }
    return calls;
  };
  int products_timed = 0, passes = 0;
  for (const Product& product : products(network, 1, 16)) {
    if (product.kind == Product::Kind::attention) continue;
    ++products_timed;
    passes += product.backward_input ? 3 : 2;
  }
  // How many more there are depends on how fast they run: before each plan, and before each run of three rounds.
  const int guaranteed = products_timed + 3 * passes;
  EXPECT_GE(calls_until(0), guaranteed);
  for (const int end : {1, products_timed, products_timed + 1, guaranteed}) EXPECT_EQ(calls_until(end), end);
  EXPECT_GT(device->peak_allocated_bytes(), device->allocated_bytes()) << "operands are freed";
}

TEST(CeilingBytes, BoundWhatTheTimingAllocates) {
  TW_NEEDS_CPU();
  for (const Precision dtype : {Precision::float32, Precision::bf16})
    for (const bool transformer : {true, false})
      for (const int threads : {1, 2}) {
        const auto device = create_device("cpu", {.threads = threads});
        if (!device->supports(Op::linear_forward, storage(dtype))) continue;
        const NetworkDescription network = transformer ? small_transformer() : find_network("resnet-tiny");
        const std::int64_t micro_batch = 16, seq_len = transformer ? 32 : 0;
        measure_ceiling(*device, network, dtype, micro_batch, seq_len, 0);
        const std::size_t bound = ceiling_bytes(network, dtype, micro_batch, seq_len, threads);
        EXPECT_LE(device->peak_allocated_bytes(), bound) << network.name << ' ' << to_string(dtype) << ' ' << threads;
        EXPECT_GT(device->peak_allocated_bytes(), bound / 4)
            << network.name << ' ' << to_string(dtype) << ' ' << threads;
      }
}

INSTANTIATE_TEST_SUITE_P(Hosts, CeilingOn,
                         testing::Combine(testing::Values(std::string("reference"), std::string("cpu")),
                                          testing::Values(Precision::float32, Precision::bf16)),
                         [](const auto& parameters) {
                           return std::string(std::get<0>(parameters.param)) + "_" +
                                  std::string(to_string(std::get<1>(parameters.param)));
                         });

}  // namespace
}  // namespace tw
