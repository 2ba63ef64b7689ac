#include "models/compute/cuda/bench.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

#include "models/compute/fp8.hpp"

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

}  // namespace

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

}  // namespace tw::models::cuda
