// Every collective with integers whose results are known exactly, at counts around the piece size and around nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "comm/mpi/pieces.hpp"
#include "comm/nccl/library.hpp"
#include "comm/registry.hpp"
#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "tests/comm/fake_gpu.hpp"
#include "tests/comm/support.hpp"

namespace tw {

using namespace comm;
using namespace models;

namespace {

/// A small integer that bf16 holds exactly, also summed over 4 ranks (< 256).
float fill(int rank, std::int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 31); }

template <class T>
class Collectives : public testing::Test {
 protected:
  void SetUp() override { comm = tested_communicator(); }
  int rank() const { return comm->rank(); }
  int size() const { return comm->size(); }
  std::unique_ptr<Communicator> comm;
  HostStream stream;
};
using ElementTypes = testing::Types<float, bf16>;
TYPED_TEST_SUITE(Collectives, ElementTypes);

// 0, odd, and several pieces with a rest (also of the copying collectives in bf16).
const std::int64_t counts[] = {0, 1, 3, 1021, 2 * all_reduce_piece + 3};

TYPED_TEST(Collectives, AllReduceSums) {
  using T = TypeParam;
  for (const std::int64_t count : counts) {
    Guarded<T> values(count, value_of<T>(-1));
    for (std::int64_t i = 0; i < count; ++i) values[i] = value_of<T>(fill(this->rank(), i));
    this->comm->all_reduce(this->stream, values.tensor(), Reduction::sum);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      float expected = 0;
      for (int r = 0; r < this->size(); ++r) expected += fill(r, i);
      wrong += to_float(values[i]) != expected;
    }
    EXPECT_EQ(wrong, 0) << count;
    EXPECT_TRUE(values.intact());
  }
}

TYPED_TEST(Collectives, AllReduceFindsTheMaximum) {
  using T = TypeParam;
  for (const std::int64_t count : counts) {
    Guarded<T> values(count, value_of<T>(-1));
    for (std::int64_t i = 0; i < count; ++i) values[i] = value_of<T>(-fill(this->rank(), i));
    this->comm->all_reduce(this->stream, values.tensor(), Reduction::maximum);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      float expected = -fill(0, i);
      for (int r = 1; r < this->size(); ++r) expected = std::max(expected, -fill(r, i));
      wrong += to_float(values[i]) != expected;
    }
    EXPECT_EQ(wrong, 0) << count;
    EXPECT_TRUE(values.intact());
  }
}

TYPED_TEST(Collectives, ReduceScatterGivesEachRankItsBlock) {
  using T = TypeParam;
  for (const std::int64_t count : counts) {
    Guarded<T> input(count * this->size(), value_of<T>(-1)), output(count, value_of<T>(-2));
    for (std::int64_t i = 0; i < input.count(); ++i) input[i] = value_of<T>(fill(this->rank(), i));
    this->comm->reduce_scatter(this->stream, input.tensor(), output.tensor(), Reduction::sum);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      float expected = 0;
      for (int r = 0; r < this->size(); ++r) expected += fill(r, this->rank() * count + i);
      wrong += to_float(output[i]) != expected;
    }
    for (std::int64_t i = 0; i < input.count(); ++i) wrong += to_float(input[i]) != fill(this->rank(), i);  // untouched
    EXPECT_EQ(wrong, 0) << count;
    EXPECT_TRUE(input.intact() && output.intact());
  }
}

TYPED_TEST(Collectives, AllGatherLinesUpTheBlocks) {
  using T = TypeParam;
  for (const std::int64_t count : counts) {
    Guarded<T> input(count, value_of<T>(-1)), output(count * this->size(), value_of<T>(-2));
    for (std::int64_t i = 0; i < count; ++i) input[i] = value_of<T>(fill(this->rank(), i));
    this->comm->all_gather(this->stream, input.tensor(), output.tensor());
    std::int64_t wrong = 0;
    for (int r = 0; r < this->size(); ++r)
      for (std::int64_t i = 0; i < count; ++i) wrong += to_float(output[r * count + i]) != fill(r, i);
    EXPECT_EQ(wrong, 0) << count;
    EXPECT_TRUE(input.intact() && output.intact());
  }
}

TYPED_TEST(Collectives, BroadcastComesFromItsRoot) {
  using T = TypeParam;
  for (const std::int64_t count : counts)
    for (int root = 0; root < this->size(); ++root) {
      Guarded<T> values(count, value_of<T>(-1));
      for (std::int64_t i = 0; i < count; ++i) values[i] = value_of<T>(fill(this->rank(), i));
      this->comm->broadcast(this->stream, values.tensor(), root);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < count; ++i) wrong += to_float(values[i]) != fill(root, i);
      EXPECT_EQ(wrong, 0) << count;
      EXPECT_TRUE(values.intact());
    }
}

TYPED_TEST(Collectives, AllToAllTransposesTheBlocks) {
  using T = TypeParam;
  for (const std::int64_t count : counts) {
    Guarded<T> input(count * this->size(), value_of<T>(-1)), output(count * this->size(), value_of<T>(-2));
    for (std::int64_t i = 0; i < input.count(); ++i) input[i] = value_of<T>(fill(this->rank(), i));
    this->comm->all_to_all(this->stream, input.tensor(), output.tensor());
    std::int64_t wrong = 0;
    for (int r = 0; r < this->size(); ++r)
      for (std::int64_t i = 0; i < count; ++i)
        wrong += to_float(output[r * count + i]) != fill(r, this->rank() * count + i);
    EXPECT_EQ(wrong, 0) << count;
    EXPECT_TRUE(input.intact() && output.intact());
  }
}

TYPED_TEST(Collectives, SendAndReceiveGoRound) {
  using T = TypeParam;
  if (this->size() == 1 && this->comm->name() != "self") return;  // nobody to send to
  if (this->size() == 1) {
    Guarded<T> one(1, value_of<T>(0));
    EXPECT_THROW(this->comm->send(this->stream, one.tensor(), 0), Error);
    EXPECT_THROW(this->comm->receive(this->stream, one.tensor(), 0), Error);
    return;
  }
  for (const std::int64_t count : counts) {
    const int from = (this->rank() + this->size() - 1) % this->size(), to = (this->rank() + 1) % this->size();
    Guarded<T> mine(count, value_of<T>(-1)), theirs(count, value_of<T>(-2));
    for (std::int64_t i = 0; i < count; ++i) mine[i] = value_of<T>(fill(this->rank(), i));
    const auto send = [&] { this->comm->send(this->stream, mine.tensor(), to); };
    const auto receive = [&] { this->comm->receive(this->stream, theirs.tensor(), from); };
    if (this->rank() == 0) {
      send();
      receive();
    } else {
      receive();
      send();
    }
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count; ++i) wrong += to_float(theirs[i]) != fill(from, i);
    EXPECT_EQ(wrong, 0) << count;
    EXPECT_TRUE(mine.intact() && theirs.intact());
  }
}

// 1 + (size − 1)·2⁻⁹: summed pairwise in bf16 every term but the first is lost; summed in float32 and rounded once, the
// result is the float32 sum's nearest bf16. With 4 ranks: 1 + 3·2⁻⁹ rounds to 1 + 2⁻⁷.
TEST(Communicator, SumsBf16InFloat32) {
  const auto comm = tested_communicator();
  HostStream stream;
  Guarded<bf16> values(5, to_bf16(0));
  const float small = 1.0f / 512;
  for (int i = 0; i < 5; ++i) values[i] = to_bf16(comm->rank() == 0 ? 1.0f : small);
  comm->all_reduce(stream, values.tensor(), Reduction::sum);
  const float expected = to_float(to_bf16(1.0f + static_cast<float>(comm->size() - 1) * small));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(to_float(values[i]), expected);
  if (comm->size() == 4) {
    EXPECT_EQ(expected, 1.0f + 1.0f / 128);
  }
}

TEST(Communicator, RepeatsBitByBitOnAllRanks) {
  const auto comm = tested_communicator();
  HostStream stream;
  const std::int64_t count = all_reduce_piece + 12345;
  std::vector<float> start(static_cast<std::size_t>(count));
  std::mt19937 random(static_cast<unsigned>(comm->rank()));
  std::normal_distribution<float> normal;
  for (float& value : start) value = normal(random);
  std::vector<float> first;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<float> values = start;
    comm->all_reduce(stream, on_device({values.data(), DType::float32, {count}}), Reduction::sum);
    if (repeat == 0) first = values;
    EXPECT_EQ(std::memcmp(first.data(), values.data(), values.size() * sizeof(float)), 0);
  }
  const std::string bytes(reinterpret_cast<const char*>(first.data()), first.size() * sizeof(float));
  for (const std::string& other : test_job().gather(bytes)) EXPECT_TRUE(other == bytes);
}

TEST(Communicator, WaitsForTheStreamFirst) {
  const auto comm = tested_communicator();
  HostStream stream;
  comm->barrier(stream);
  EXPECT_EQ(stream.waits, 1);
}

TEST(Communicator, ChecksItsArguments) {
  const auto comm = tested_communicator();
  HostStream stream;
  std::vector<float> memory(64);
  const auto tensor = [&](std::int64_t count, DType dtype = DType::float32) {
    return Tensor{memory.data(), dtype, {count}};
  };
  EXPECT_THROW(comm->all_reduce(stream, tensor(4, DType::int32), Reduction::sum), Error);
  EXPECT_THROW(comm->all_reduce(stream, Tensor{nullptr, DType::float32, {4}}, Reduction::sum), Error);
  EXPECT_THROW(comm->broadcast(stream, tensor(4), comm->size()), Error);
  EXPECT_THROW(comm->broadcast(stream, tensor(4), -1), Error);
  EXPECT_THROW(comm->all_gather(stream, tensor(3), tensor(3 * comm->size() + 1)), Error);
  EXPECT_THROW(comm->reduce_scatter(stream, tensor(3 * comm->size()), tensor(3, DType::bf16), Reduction::sum), Error);
}

TEST(Registry, ChoosesByRanksAndMemory) {
  const bool alone = test_job().size() == 1;
  const auto device = make_reference_device({});
  EXPECT_EQ(test_job().communicator(*device)->name(), alone ? "self" : "mpi");
  EXPECT_EQ(create_communicator("", test_job(), host_device())->route(), alone ? "one rank" : "host memory");
  EXPECT_EQ(create_communicator("mpi", test_job(), host_device())->name(), "mpi");
  if (!alone) {
    EXPECT_THROW(create_communicator("self", test_job(), host_device()), Error);
  }
  try {
    create_communicator("nickel", test_job(), host_device());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage);
    EXPECT_STREQ(error.what(), "--comm nickel is not known; known are self, nccl, mpi");
  }
}

TEST(Registry, TakesNcclForOneGpuARank) {
  FakeGpu gpu(own_uuid(), FakeGpu::Memory::open);
  const auto chosen = create_communicator("", test_job(), gpu);
  EXPECT_EQ(chosen->name(), test_job().size() == 1 ? "self" : "nccl");
  EXPECT_EQ(create_communicator("nccl", test_job(), gpu)->route(), "NCCL 2.28.9");
}

TEST(Registry, TakesMpiWhereRanksShareAGpuAndNeverSilentlyNccl) {
  if (test_job().size() == 1) GTEST_SKIP() << "one rank shares nothing";
  FakeGpu gpu(test_job().rank() == 1 ? "GPU-0" : own_uuid(), FakeGpu::Memory::vault);
  const auto chosen = create_communicator("", test_job(), gpu);
  EXPECT_EQ(chosen->name(), "mpi");
  EXPECT_EQ(chosen->route(), "device memory, staged in host memory");
  try {
    create_communicator("nccl", test_job(), gpu);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::unsupported);
    EXPECT_NE(std::string(error.what()).find("ranks 0 and 1 share a GPU"), std::string::npos) << error.what();
  }
}

TEST(Registry, WhatIsStagedIsInPageLockedMemoryThatStays) {
  if (test_job().size() == 1) GTEST_SKIP() << "one rank sends nothing";
  FakeGpu gpu("GPU-0", FakeGpu::Memory::vault);
  const auto staged = create_communicator("mpi", test_job(), gpu);
  Guarded<float> values(8, 1);
  HostStream stream;
  for (int i = 0; i < 3; ++i) staged->all_reduce(stream, values.tensor(), Reduction::maximum);
  EXPECT_EQ(gpu.locked, 1);
  EXPECT_EQ(values[7], 1);
}

TEST(Registry, TwoInstancesOfOneGpuAreOneToNccl) {
  if (test_job().size() == 1) GTEST_SKIP() << "one rank shares nothing";
  const int gpu = test_job().rank() == 1 ? 0 : test_job().rank();
  FakeGpu instance(own_uuid(), FakeGpu::Memory::vault, "00000000:0" + std::to_string(gpu) + ":00");
  EXPECT_EQ(create_communicator("", test_job(), instance)->name(), "mpi");
  FakeGpu whole(own_uuid(), FakeGpu::Memory::open, "00000000:0" + std::to_string(test_job().rank()) + ":00");
  EXPECT_EQ(create_communicator("", test_job(), whole)->name(), "nccl");
}

TEST(Registry, ACommunicatorThatOneRankCannotMakeNoRankHas) {
  if (test_job().size() == 1) GTEST_SKIP() << "one rank is all";
  FakeGpu gpu(own_uuid(), FakeGpu::Memory::open);
  setenv("TW_STANDIN_NCCL_LOSES_PEER", "at_start", 1);
  try {
    create_communicator("nccl", test_job(), gpu);
    ADD_FAILURE() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    EXPECT_NE(std::string(error.what()).find("--comm nccl: cannot be made: rank 1"), std::string::npos) << error.what();
  }
  unsetenv("TW_STANDIN_NCCL_LOSES_PEER");
  EXPECT_EQ(create_communicator("nccl", test_job(), gpu)->name(), "nccl") << "the ranks are still in step";
}

TEST(Registry, RefusesOnAllRanksWhatOneCannot) {
  if (test_job().size() == 1) GTEST_SKIP() << "one rank is all";
  FakeGpu gpu(own_uuid(), FakeGpu::Memory::open);
  Device& mine = test_job().rank() == 1 ? host_device() : static_cast<Device&>(gpu);
  try {
    create_communicator("nccl", test_job(), mine);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
  }
}

TEST(Nccl, CollectivesBesideBackwardHaveAnUrgentStream) {
  FakeGpu gpu(own_uuid(), FakeGpu::Memory::open);
  const auto communicator = create_communicator("nccl", test_job(), gpu);
  ASSERT_NE(communicator->side_stream(), nullptr);
  EXPECT_EQ(communicator->side_stream(), gpu.urgent);
}

TEST(Nccl, ALibraryThatIsTooOldIsTold) {
  std::string why;
  EXPECT_NE(nccl::Library::open(&why), nullptr) << why;
  for (const auto& [code, version] : {std::pair{"2708", "2.7.8"}, {"20903", "2.9.3"}}) {
    setenv("TW_STANDIN_NCCL_VERSION", code, 1);
    EXPECT_EQ(nccl::Library::open(&why), nullptr);
    EXPECT_NE(why.find(std::string("is NCCL ") + version + ": 2.10 or later is needed"), std::string::npos) << why;
  }
  setenv("TW_STANDIN_NCCL_VERSION", "21003", 1);
  EXPECT_NE(nccl::Library::open(&why), nullptr) << why;
  unsetenv("TW_STANDIN_NCCL_VERSION");
}

TEST(Nccl, ALibraryThatIsNotThereIsTold) {
  std::string why;
  EXPECT_EQ(nccl::Library::open(&why, "libnccl-nowhere.so.2"), nullptr);
  EXPECT_NE(why.find("LD_LIBRARY_PATH"), std::string::npos) << why;
}

}  // namespace
}  // namespace tw
