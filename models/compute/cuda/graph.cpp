#include "models/compute/cuda/graph.hpp"

#include <utility>

#include "models/compute/cuda/kernels/check.hpp"

namespace tw::models::cuda {
namespace {

class CudaGraph final : public Graph {
 public:
  CudaGraph(cudaGraph_t recorded, std::shared_ptr<const void> memory) : memory_(std::move(memory)) {
    const cudaError_t code = cudaGraphInstantiate(&graph_, recorded, 0);
    TW_CUDA_NOTHROW(cudaGraphDestroy(recorded));
    TW_CUDA(code);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override { TW_CUDA_NOTHROW(cudaGraphExecDestroy(graph_)); }
  void launch(Stream& stream) override { TW_CUDA(cudaGraphLaunch(graph_, static_cast<cudaStream_t>(stream.native()))); }

 private:
  std::shared_ptr<const void> memory_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

void begin_capture(cudaStream_t stream) { TW_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)); }

std::unique_ptr<Graph> end_capture(cudaStream_t stream, std::shared_ptr<const void> memory) {
  cudaGraph_t recorded = nullptr;
  TW_CUDA(cudaStreamEndCapture(stream, &recorded));
  return std::make_unique<CudaGraph>(recorded, std::move(memory));
}

}  // namespace tw::models::cuda
