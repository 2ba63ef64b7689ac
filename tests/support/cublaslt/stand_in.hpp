// A made-up cuBLASLt that multiplies on the host, and what a test may ask of it. A program that is linked with it opens
// it under the library's own name.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace tw::blas {

/// What a call of cublasLtMatmul said, in the library's own terms: columns first, A and B as it was given them.
struct Call {
  std::uint64_t m = 0, n = 0, k = 0;
  std::int32_t batch = 1;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda = 0, ldb = 0, ldd = 0;
  cudaDataType_t type_a{}, type_b{}, type_d{};
  cublasComputeType_t compute{};
  std::uint32_t epilogue = 0;
  float alpha = 0, beta = 0;
  bool in_place = false;  ///< C is D
  bool fast_sums = false;
  std::uint32_t reductions = 0;  ///< schemes that its algorithm was allowed: the preference's mask
  cudaStream_t stream = nullptr;
  std::uint64_t algorithm = 0;            ///< 1 is the first one offered
  const void *a = nullptr, *b = nullptr;  ///< while it runs
};

struct State {
  std::vector<Call> calls;
  bool has_epilogues = true;           ///< false: only plain products are offered
  std::uint32_t refused_epilogue = 0;  ///< one for which nothing is offered
  /// What a product takes on the made-up clock (StandInGpu::clock_ms); called while it runs.
  std::function<double(const Call&)> milliseconds;
  int offers = 1;                               ///< algorithms for each question
  std::map<std::uint32_t, int> offers_of;       ///< likewise, for an epilogue
  int failing_offers = 0;                       ///< the first of them do not run, but return failing_status
  std::set<std::uint32_t> failing_epilogues{};  ///< of products with these epilogues alone; empty: of all
  cublasStatus_t failing_status = CUBLAS_STATUS_NOT_SUPPORTED;
  cublasStatus_t create_status = CUBLAS_STATUS_SUCCESS;     ///< of cublasLtCreate
  cublasStatus_t heuristic_status = CUBLAS_STATUS_SUCCESS;  ///< of each question
  cublasStatus_t offer_state = CUBLAS_STATUS_SUCCESS;       ///< of each algorithm that is offered
  int questions = 0;                                        ///< to the heuristic
};
__attribute__((visibility("default"))) State& state();

}  // namespace tw::blas
