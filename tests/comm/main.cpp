// Runs the comm tests under mpirun or alone: one Job for the process, all ranks run the same cases, and the program
// fails on every rank when a case fails on any.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include "comm/bucketer.hpp"
#include "comm/registry.hpp"
#include "models/compute/registry.hpp"
#include "tests/comm/fake_gpu.hpp"
#include "tests/comm/support.hpp"

namespace tw {

using namespace comm;
using namespace models;

namespace {
Job* the_job = nullptr;

/// Rank 0 prints everything; the others only what fails.
class FailuresOnly : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", the_job->rank(), result.file_name() ? result.file_name() : "?",
                   result.line_number(), result.message());
  }
};

/// Whose collectives never end.
class StuckGpu : public FakeGpu {
  struct Never : Event {
    void record(Stream&) override {}
    void synchronize() override {}
    bool is_done() override { return false; }
    double seconds_since(Event&) override { return 0; }
  };

 public:
  using FakeGpu::FakeGpu;
  std::unique_ptr<Event> create_event() override { return std::make_unique<Never>(); }
};

/// `--scenario NAME`: programs that end badly on purpose; the tests look at how.
int run_scenario(Job& job, const char* name) {
  if (std::strcmp(name, "one_rank_throws") == 0) {
    try {
      Job& inner = job;
      if (inner.rank() == inner.size() - 1) throw std::runtime_error("only the last rank fails");
      inner.barrier();  // the others wait here for ever
      inner.barrier();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d (%s): %s\n", job.rank(), job.host().c_str(), error.what());
      job.abort(3);
    }
    return 0;
  }
  if (std::strcmp(name, "all_ranks_agree") == 0) {
    const std::string failure = job.agree(job.rank() == job.size() - 1 ? "disk full" : "");
    if (job.is_root()) std::fprintf(stderr, "%s\n", failure.c_str());
    return failure.empty() ? 0 : 4;
  }
  if (std::strcmp(name, "nccl_loses_a_peer") == 0) {  // TW_STANDIN_NCCL_LOSES_PEER is set
    FakeGpu gpu("GPU-" + std::to_string(job.rank()), FakeGpu::Memory::open);
    const auto communicator = create_communicator("nccl", job, gpu);
    std::this_thread::sleep_for(std::chrono::minutes(1));  // as a host that waits for a stream
    return 0;
  }
  if (std::strcmp(name, "nccl_returns_a_lost_peer") == 0) {  // before the watch over the communicator sees it
    try {
      FakeGpu gpu("GPU-" + std::to_string(job.rank()), FakeGpu::Memory::open);
      const auto communicator = create_communicator("nccl", job, gpu);
      HostStream stream;
      float value = 1;
      communicator->all_reduce(stream, {&value, DType::float32, {1}}, Reduction::sum);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", job.rank(), error.what());
      job.abort(3);
    }
    return 0;
  }
  if (std::strcmp(name, "nccl_loses_a_peer_in_a_step") == 0) {  // while buckets of gradients are on their way
    try {
      FakeGpu gpu("GPU-" + std::to_string(job.rank()), FakeGpu::Memory::open);
      const auto communicator = create_communicator("nccl", job, gpu);
      constexpr std::int64_t count = 1000;
      const Buffer gradients(gpu, count * sizeof(float));
      const Tensor flat{gradients.data(), DType::float32, {count}};
      Bucketer bucketer(*communicator, gpu, 250 * sizeof(float));
      const auto stream = gpu.create_stream();
      for (int step = 0; step < 200; ++step) {  // two reductions are a step's first half
        gpu.fill(*stream, {flat, 1});
        bucketer.ready(*stream, flat, 0, count / 2);
        bucketer.ready(*stream, flat, count / 2, count);
        bucketer.finish(*stream, flat);
        stream->synchronize();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      std::fprintf(stderr, "rank %d: all steps are done\n", job.rank());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", job.rank(), error.what());
      job.abort(3);
    }
    return 0;
  }
  if (std::strcmp(name, "nccl_stands_still") == 0) {  // TRAINWATT_NCCL_TIMEOUT is short
    StuckGpu gpu("GPU-" + std::to_string(job.rank()), FakeGpu::Memory::open);
    const auto communicator = create_communicator("nccl", job, gpu);
    HostStream stream;
    float value = 1;
    communicator->all_reduce(stream, {&value, DType::float32, {1}}, Reduction::sum);
    std::this_thread::sleep_for(std::chrono::minutes(5));  // as a host that waits for it
    return 0;
  }
  if (std::strcmp(name, "nccl_goes_on") == 0) {  // for longer than that
    FakeGpu gpu("GPU-" + std::to_string(job.rank()), FakeGpu::Memory::open);
    const auto communicator = create_communicator("nccl", job, gpu);
    HostStream stream;
    float value = 1;
    for (int i = 0; i < 70; ++i) {
      communicator->all_reduce(stream, {&value, DType::float32, {1}}, Reduction::maximum);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (job.is_root()) std::fprintf(stderr, "reduced to %g\n", static_cast<double>(value));
    return 0;
  }
  std::fprintf(stderr, "unknown scenario %s\n", name);
  return 99;
}

}  // namespace

Job& test_job() { return *the_job; }
Device& host_device() {
  static const std::unique_ptr<Device> device = make_reference_device({});
  return *device;
}
std::string own_uuid() { return "GPU-" + std::to_string(test_job().rank()); }
Device& tested_device() {
  const char* memory = std::getenv("TW_TEST_MEMORY");
  static const std::unique_ptr<FakeGpu> gpu =
      memory ? std::make_unique<FakeGpu>(
                   own_uuid(), std::string(memory) == "vault" ? FakeGpu::Memory::vault : FakeGpu::Memory::open)
             : nullptr;
  return gpu ? static_cast<Device&>(*gpu) : host_device();
}
std::unique_ptr<Communicator> tested_communicator() {
  const char* name = std::getenv("TW_TEST_COMM");
  return create_communicator(name ? name : "", test_job(), tested_device());
}

}  // namespace tw

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--scenario") == 0 && std::strcmp(argv[2], "exception_leaves_main") == 0) {
    // As a program that forgets to abort: the job goes out of scope by an exception, the process ends non-zero.
    try {
      tw::comm::Job job(&argc, &argv);
      if (job.rank() == job.size() - 1) throw std::runtime_error("only the last rank fails");
      job.barrier();
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 7;
    }
  }
  tw::comm::Job job(&argc, &argv);
  tw::the_job = &job;
  if (argc == 3 && std::strcmp(argv[1], "--scenario") == 0) return tw::run_scenario(job, argv[2]);
  testing::InitGoogleTest(&argc, argv);
  if (!job.is_root()) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new tw::FailuresOnly);
  }
  const double failed = RUN_ALL_TESTS() == 0 && testing::UnitTest::GetInstance()->test_to_run_count() > 0 ? 0 : 1;
  const bool any_failed = job.sum({failed})[0] > 0;
  return any_failed ? 1 : 0;
}
