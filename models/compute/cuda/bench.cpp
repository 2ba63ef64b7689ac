#include "models/compute/cuda/bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "models/compute/error.hpp"
#include "models/compute/fp8.hpp"

#ifndef TW_TIMING_ONCE
#define TW_TIMING_ONCE 0
#endif

namespace tw::models::cuda {
namespace {

/// A prime number of 16-byte packs: rows of a matrix begin at different places of the pattern, whatever their length.
constexpr std::size_t pattern_bytes = std::size_t{4093} * 16;

template <class T, class Convert>
void fill(std::vector<unsigned char>& data, std::uint32_t state, Convert&& convert) {
  for (std::size_t i = 0; i + sizeof(T) <= data.size(); i += sizeof(T)) {
    state = state * 1664525u + 1013904223u;
    const T value = convert(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f);
    std::memcpy(&data[i], &value, sizeof value);
  }
}

std::vector<unsigned char> pattern(cudaDataType_t type, std::size_t bytes, std::uint32_t seed) {
  std::vector<unsigned char> data(bytes);
  switch (type) {
    case CUDA_R_16BF:
      fill<bf16>(data, seed, [](float value) { return to_bf16(value); });
      break;
    case CUDA_R_16F:
      fill<fp16>(data, seed, [](float value) { return to_fp16(value); });
      break;
    case CUDA_R_8F_E4M3:
      fill<e4m3>(data, seed, [](float value) { return to_fp8<e4m3>(value * e4m3::largest); });
      break;
    case CUDA_R_8F_E5M2:
      fill<e5m2>(data, seed, [](float value) { return to_fp8<e5m2>(value * e5m2::largest); });
      break;
    default:
      fill<float>(data, seed, [](float value) { return value; });
  }
  return data;
}

/// So many runs as one graph.
class Recorded {
 public:
  Recorded(cudaStream_t stream, const std::function<void()>& run, int runs) : stream_(stream) {
    TW_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t recorded = nullptr;
    try {
      for (int i = 0; i < runs; ++i) run();
    } catch (...) {
      if (cudaStreamEndCapture(stream, &recorded) != cudaSuccess) cudaGetLastError();
      if (recorded != nullptr) TW_CUDA_NOTHROW(cudaGraphDestroy(recorded));
      throw;
    }
    TW_CUDA(cudaStreamEndCapture(stream, &recorded));
    const cudaError_t code = cudaGraphInstantiate(&graph_, recorded, 0);
    TW_CUDA_NOTHROW(cudaGraphDestroy(recorded));
    TW_CUDA(code);
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() { TW_CUDA_NOTHROW(cudaGraphExecDestroy(graph_)); }
  void launch() const { TW_CUDA(cudaGraphLaunch(graph_, stream_)); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

/// Throws Refused for what runs but cannot be recorded: a step is a graph too, and could not take it. Anything that has
/// broken the device, a fault of the machine and want of memory are thrown as they are.
Recorded recorded(cudaStream_t stream, const std::function<void()>& run, int runs) {
  try {
    return {stream, run, runs};
  } catch (const Refused&) {
    throw;
  } catch (const Error& error) {
    if (error.failure() != Failure::internal || cudaStreamSynchronize(stream) != cudaSuccess) throw;
    throw Refused("CUDA", cudaErrorStreamCaptureUnsupported,
                  std::string("cannot be recorded in a graph: ") + error.what(), "cudaStreamBeginCapture", __FILE__,
                  __LINE__, Failure::unsupported);
  }
}

/// The number of runs that take at least `least_ms`, given that `runs` of them took `milliseconds`; at most most_runs.
int more_runs(int runs, float milliseconds, float least_ms) {
  constexpr float margin = 1.2f;
  const float most = static_cast<float>(Timing::most_runs);
  const float wanted = milliseconds > 0 ? margin * static_cast<float>(runs) * least_ms / milliseconds : most;
  return static_cast<int>(std::ceil(std::clamp(wanted, static_cast<float>(runs + 1), most)));
}

}  // namespace

Timing Timing::usual() {
  if (TW_TIMING_ONCE) return {.rounds = 1, .least_ms = 0};
  return {};
}

std::size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2 ? 1 : 2;
}

Bench::Bench() {
  try {
    TW_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    TW_CUDA(cudaEventCreate(&start_));
    TW_CUDA(cudaEventCreate(&end_));
  } catch (...) {
    release();
    throw;
  }
}

void Bench::release() noexcept {
  for (void* block : blocks_) TW_CUDA_NOTHROW(cudaFree(block));
  if (workspace_ != nullptr) TW_CUDA_NOTHROW(cudaFree(workspace_));
  if (start_ != nullptr) TW_CUDA_NOTHROW(cudaEventDestroy(start_));
  if (end_ != nullptr) TW_CUDA_NOTHROW(cudaEventDestroy(end_));
  if (stream_ != nullptr) TW_CUDA_NOTHROW(cudaStreamDestroy(stream_));
}

void* Bench::allocate(std::size_t bytes) {
  void* block = nullptr;
  const cudaError_t code = cudaMalloc(&block, std::max<std::size_t>(bytes, 1));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    is_complete_ = false;
    return nullptr;
  }
  TW_CUDA(code);
  return block;
}

void* Bench::workspace(std::size_t bytes) {
  if (workspace_ != nullptr && bytes <= workspace_bytes_) return workspace_;
  if (workspace_ != nullptr)
    TW_CUDA(cudaFree(std::exchange(workspace_, nullptr)));  // the two need not be there at once
  workspace_bytes_ = bytes;
  return workspace_ = allocate(bytes);
}

void* Bench::operand(cudaDataType_t type, std::size_t count) {
  const std::size_t bytes = count * size_of(type);
  char* const data = static_cast<char*>(allocate(bytes));
  if (data == nullptr) return nullptr;
  blocks_.push_back(data);
  const std::vector<unsigned char> first =
      pattern(type, std::min(bytes, pattern_bytes), static_cast<std::uint32_t>(12345 + 7919 * blocks_.size()));
  TW_CUDA(cudaMemcpyAsync(data, first.data(), first.size(), cudaMemcpyHostToDevice, stream_));
  TW_CUDA(cudaStreamSynchronize(stream_));  // before `first` goes
  for (std::size_t done = first.size(); done < bytes;) {
    const std::size_t more = std::min(done, bytes - done);
    TW_CUDA(cudaMemcpyAsync(data + done, data, more, cudaMemcpyDeviceToDevice, stream_));
    done += more;
  }
  return data;
}

float Bench::milliseconds_of(const std::function<void()>& run, const Timing& timing) {
  run();                                    // not recorded: libraries set themselves up in a first run
  TW_CUDA(cudaStreamSynchronize(stream_));  // what it breaks is not blamed on recording it
  for (int runs = 1;;) {
    const Recorded graph = recorded(stream_, run, runs);
    const auto sample = [&] {
      graph.launch();  // while the device is busy with it, the host enqueues what is timed
      TW_CUDA(cudaEventRecord(start_, stream_));
      graph.launch();
      TW_CUDA(cudaEventRecord(end_, stream_));
      TW_CUDA(cudaEventSynchronize(end_));
      float milliseconds = 0;
      TW_CUDA(cudaEventElapsedTime(&milliseconds, start_, end_));
      return milliseconds;
    };
    float best = sample();
    if (best < timing.least_ms && runs < Timing::most_runs) {
      runs = more_runs(runs, best, timing.least_ms);
      continue;
    }
    for (int round = 1; round < timing.rounds; ++round) best = std::min(best, sample());
    return best / static_cast<float>(runs);
  }
}

}  // namespace tw::models::cuda
