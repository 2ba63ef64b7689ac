// The real cuBLASLt takes each attribute that products set, in the size in which they set it. Descriptors need no GPU.
// Which algorithms it has cannot be asked without one: cublasLtCreate fails (CUBLAS_STATUS_NOT_INITIALIZED). Tried with
// 13.1 over a stand-in libcuda.so.1 with the public driver API (132 SMs, sm_90): the CUDA runtime inside the library
// asks for the driver's private interfaces by cuGetExportTable, and gives up where 6bd5fb6c-5bf4-e74a-8987-d93912fd9df9
// is missing. With its second entry as a primary context it reads the device's properties, and then calls the entries 2
// and 6 of a094798c-2e74-2e74-93f2-0800200c0a66. These interfaces are undocumented, and none is imitated here: on a
// GPU, suite_plans_test asks.
#include <gtest/gtest.h>

#include <cstdint>

#include "models/compute/cuda/blas.hpp"

namespace tw::models::cuda {
namespace {

class BlasLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    library_ = BlasLibrary::open(&why);
    if (!library_) GTEST_SKIP() << why;
  }
  std::unique_ptr<BlasLibrary> library_;
};

TEST_F(BlasLibraryTest, IsOfTheToolkitsVersion) {
  EXPECT_EQ(library_->version().rfind(std::to_string(CUBLAS_VER_MAJOR) + ".", 0), 0u) << library_->version();
}

TEST_F(BlasLibraryTest, TakesTheAttributesOfOperations) {
  for (const auto compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
    cublasLtMatmulDesc_t operation = nullptr;
    ASSERT_EQ(library_->cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      EXPECT_EQ(library_->cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
                CUBLAS_STATUS_SUCCESS)
          << attribute;
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(CUBLAS_OP_T));
    set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(CUBLAS_OP_N));
    for (const auto epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
                                CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_BGRADB}) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    }
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(nullptr));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, Index{64});
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(nullptr));
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(nullptr));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(nullptr));
    EXPECT_EQ(library_->cublasLtMatmulDescDestroy(operation), CUBLAS_STATUS_SUCCESS);
  }
}

TEST_F(BlasLibraryTest, TakesTheAttributesOfLayoutsAndPreferences) {
  for (const auto type : {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F, CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}) {
    cublasLtMatrixLayout_t layout = nullptr;
    ASSERT_EQ(library_->cublasLtMatrixLayoutCreate(&layout, type, 64, 32, 64), CUBLAS_STATUS_SUCCESS);
    const std::int32_t batch = 4;
    const Index stride = 4096;
    EXPECT_EQ(
        library_->cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
        CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(library_->cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                         sizeof stride),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(library_->cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
  }
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(library_->cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  const std::uint64_t bytes = std::uint64_t{32} << 20;
  const std::uint32_t alignment = 16;
  EXPECT_EQ(library_->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                           sizeof bytes),
            CUBLAS_STATUS_SUCCESS);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    EXPECT_EQ(library_->cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof alignment),
              CUBLAS_STATUS_SUCCESS);
  }
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  EXPECT_EQ(library_->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                           &reductions, sizeof reductions),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(library_->cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace tw::models::cuda
