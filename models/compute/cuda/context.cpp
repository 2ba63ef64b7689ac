#include "models/compute/cuda/context.hpp"

#include "models/compute/cuda/blas.hpp"
#include "models/compute/cuda/kernels/check.hpp"

namespace tw::models::cuda {
namespace {

/// Throws where the first call that needs the process's context on the GPU has failed: that is the one that makes it.
void check_start(cudaError_t code, int index, const char* call, int line) {
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error(Failure::environment, "cuda:" + std::to_string(index) + ": " + call +
                                          ": no memory for this process's context on the GPU, which takes some hundred "
                                          "MB: nvidia-smi lists the processes that hold it; end them, or choose "
                                          "another GPU");
  }
  check_cuda(code, call, __FILE__, line);
}

}  // namespace

Context::Context(Device& device, int index, bool times_algorithms, bool deterministic)
    : device_(device), index_(index), times_algorithms_(times_algorithms), deterministic_(deterministic) {
  check_start(cudaSetDevice(index), index, "cudaSetDevice", __LINE__);
  int major = 0, minor = 0;
  TW_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
  TW_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
  architecture_ = 10 * major + minor;
  std::size_t free_bytes = 0;
  check_start(cudaMemGetInfo(&free_bytes, &memory_bytes_), index, "cudaMemGetInfo", __LINE__);  // before CUDA 12 here
}

Context::~Context() = default;

void Context::use() const { TW_CUDA(cudaSetDevice(index_)); }

void Context::reserve(std::size_t bytes) {
  if (bytes > workspace_bytes()) grow(bytes);
}

void* Context::workspace(cudaStream_t stream, std::size_t bytes) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TW_CUDA(cudaStreamIsCapturing(stream, &status));
  if (bytes > workspace_bytes()) {
    if (status != cudaStreamCaptureStatusNone) {
      throw Error(Failure::internal,
                  "cuda: an operator wants " + std::to_string(bytes) + " bytes of workspace, " +
                      std::to_string(workspace_bytes()) +
                      " are available, and it cannot grow while a graph is captured: run a step first");
    }
    grow(bytes);
  }
  if (status != cudaStreamCaptureStatusNone) captured_ = true;
  return workspace_ ? workspace_->data() : nullptr;
}

void Context::grow(std::size_t bytes) {
  use();
  TW_CUDA(cudaDeviceSynchronize());  // what is enqueued may use the old one
  if (captured_) retired_.push_back(workspace_);
  captured_ = false;
  workspace_.reset();  // before the new one: the two need not be there at once
  workspace_ = std::make_shared<Buffer>(device_, bytes);
}

void Context::trim() {
  use();
  TW_CUDA(cudaDeviceSynchronize());
  workspace_.reset();
  retired_.clear();
  captured_ = false;
}

std::shared_ptr<const void> Context::take_captured_workspace() {
  if (!captured_) return nullptr;
  captured_ = false;
  return workspace_;
}

Blas& Context::blas() {
  if (const std::string why = why_no_blas(); !why.empty()) {
    throw Error(Failure::environment, "device cuda: its products need cuBLASLt: " + why);
  }
  return *blas_;
}

std::string Context::why_no_blas() {
  if (!blas_ && no_blas_.empty()) blas_ = Blas::open(*this, &no_blas_);
  return no_blas_;
}

}  // namespace tw::models::cuda
