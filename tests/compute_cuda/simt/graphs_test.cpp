// What the stand-in for CUDA's runtime records and replays: by these rules the tests of steps mean something.
#include <algorithm>
#include <cmath>
#include <optional>

#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"
#include "tests/compute_cuda/simt/cuda_plans.hpp"
#include "tests/support/fills.hpp"

namespace tw::test {

using namespace models;

namespace {

class StandInGraphs : public CudaPlans {
 protected:
  cudaStream_t native() { return static_cast<cudaStream_t>(stream_->native()); }
  static float first(const Tensor& tensor) { return *tensor.as<float>(); }
};

TEST_F(StandInGraphs, RunWhenTheyAreLaunchedOnWhatMemoryThenHolds) {
  const Tensor x = tensor(DType::float32, {1000}), y = tensor(DType::float32, {1000});
  device_->fill(*stream_, {y, 0});
  device_->begin_capture(*stream_);
  device_->add(*stream_, {x, y, y});
  device_->copy(*stream_, x.data, y.data, 4);
  const std::unique_ptr<Graph> graph = device_->end_capture(*stream_);
  EXPECT_EQ(first(y), 0) << "recording runs nothing";
  device_->fill(*stream_, {x, 1});
  for (int i = 0; i < 3; ++i) graph->launch(*stream_);
  EXPECT_EQ(first(y), 4) << "1, 2, 4";
  EXPECT_EQ(y.as<float>()[999], 3);
}

TEST_F(StandInGraphs, HoldAProductsArgumentsAsTheyWere) {
  const auto plan = device_->plan(LinearShape{8, 16, 8, DType::float32});
  plan->bind(tensor(DType::float32, {8, 16}));
  plan->refresh(*stream_);
  const Tensor x = tensor(DType::float32, {8, 16}), y = tensor(DType::float32, {8, 8}),
               other = tensor(DType::float32, {8, 8}), d_weight = tensor(DType::float32, {8, 16});
  device_->begin_capture(*stream_);
  plan->forward(*stream_, {.x = x, .y = y});
  plan->backward_weights(*stream_, {.x = x, .dy = y, .d_weight = d_weight, .accumulate = true});
  const std::unique_ptr<Graph> graph = device_->end_capture(*stream_);
  plan->forward(*stream_, {.x = x, .y = other});  // the same descriptors, other addresses
  device_->fill(*stream_, {x, 2});
  device_->fill(*stream_, {d_weight, 1});
  for (int i = 0; i < 2; ++i) graph->launch(*stream_);
  EXPECT_EQ(first(y), 16.0f) << "16 products of 2 and 0.5";
  EXPECT_EQ(first(other), 4.0f);
  EXPECT_EQ(first(d_weight), 1 + 2 * 8 * 2 * 16.0f) << "added to, twice";
}

TEST_F(StandInGraphs, FindThePoisonedAllocationsFullOfNaN) {
  const Tensor kept = tensor(DType::float32, {200}), poisoned = tensor(DType::float32, {333}),
               seen = tensor(DType::float32, {333});
  simt::gpu().poisoned_bytes = 333 * sizeof(float);
  device_->begin_capture(*stream_);
  device_->copy(*stream_, kept.data, poisoned.data, 4);
  const std::unique_ptr<Graph> graph = device_->end_capture(*stream_);
  EXPECT_EQ(first(poisoned), 0.5f);
  graph->launch(*stream_);
  EXPECT_TRUE(std::isnan(first(kept)) && std::isnan(first(poisoned)) && std::isnan(first(seen)));
  EXPECT_EQ(kept.as<float>()[1], 0.5f);
  EXPECT_EQ(simt::gpu().poisoned, 2) << "of this size there are two";
  device_->fill(*stream_, {poisoned, 1});
  device_->create_event()->record(*stream_);
  EXPECT_TRUE(std::isnan(first(poisoned))) << "between the phases of a step";
}

// The micro networks' steps have too few rows for sums in several pieces.
TEST_F(StandInGraphs, SumRowsThatOccurOftenInAPoisonedWorkspace) {
  const std::vector<int> counts = {70, 9000, 5, 100};
  const Ints index = occurrences(counts, 1);
  const auto places = static_cast<std::int64_t>(index.size());
  const Tensor tokens = tensor(DType::int32, {1, places}), dy = tensor(DType::float32, {1, places, 8}),
               d_table = tensor(DType::float32, {4, 8});
  std::copy(index.begin(), index.end(), tokens.as<std::int32_t>());
  const EmbeddingBackward args{.tokens = tokens, .dy = dy, .d_token_table = d_table};
  const auto expect = [&](int times) {
    for (std::int64_t i = 0; i < d_table.count(); ++i)
      EXPECT_EQ(d_table.as<float>()[i], 0.5f + times * 0.5f * counts[static_cast<std::size_t>(i / 8)]) << i;
  };
  device_->embedding_backward(*stream_, args);  // the workspace grows
  expect(1);
  device_->begin_capture(*stream_);
  device_->embedding_backward(*stream_, args);
  const std::unique_ptr<Graph> graph = device_->end_capture(*stream_);
  simt::gpu().poisoned_bytes = cuda::scratch_bytes(args);
  for (int i = 0; i < 2; ++i) graph->launch(*stream_);
  EXPECT_EQ(simt::gpu().poisoned, 2) << "once for each launch";
  expect(3);
}

// What a GPU would refuse may not pass on the stand-in.
TEST_F(StandInGraphs, RefuseWaitsAndAllocationsWhileTheyAreRecorded) {
  const auto event = device_->create_event(), outside = device_->create_event();
  outside->record(*stream_);
  device_->begin_capture(*stream_);
  EXPECT_THROW(Buffer(*device_, 100), ApiError);
  EXPECT_THROW(HostBuffer(*device_, 100), ApiError);
  event->record(*stream_);
  stream_->wait(*event);
  EXPECT_THROW(event->synchronize(), ApiError) << "the event is a graph's";
  EXPECT_TRUE(device_->end_capture(*stream_)) << "nothing of this was the stream's";
  for (const bool waits : {true, false}) {
    device_->begin_capture(*stream_);
    if (waits) {
      EXPECT_THROW(stream_->synchronize(), ApiError);
    } else {
      EXPECT_THROW(stream_->wait(*outside), ApiError);
    }
    EXPECT_THROW(device_->end_capture(*stream_), ApiError) << "the record is broken";
    stream_->synchronize();
  }
}

TEST_F(StandInGraphs, AreGivenBack) {
  const long before = simt::handles();
  device_->begin_capture(*stream_);
  std::optional<std::unique_ptr<Graph>> graph = device_->end_capture(*stream_);
  EXPECT_EQ(simt::handles(), before + 1);
  graph.reset();
  EXPECT_EQ(simt::handles(), before);
  simt::gpu().refuses_graphs = true;
  device_->begin_capture(*stream_);
  try {
    device_->end_capture(*stream_);
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    EXPECT_NE(std::string(error.what()).find("cudaGraphInstantiate"), std::string::npos) << error.what();
  }
  EXPECT_EQ(simt::handles(), before);
}

}  // namespace
}  // namespace tw::test
