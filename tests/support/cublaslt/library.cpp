// A made-up libcublasLt: products element by element, with sums in float32. It refuses what the real one documents that
// it refuses (layouts of fp8, extents of the second matrix), what the real one was seen to refuse (scales of fp8 that
// are not 16-byte aligned) and what its algorithms were not asked for (alignment).
#include <cublasLt.h>

#include <bit>
#include <cstring>

#include "models/compute/formulas.hpp"
#include "models/compute/fp8.hpp"
#include "tests/support/cublaslt/stand_in.hpp"
#include "tests/support/simt/stream.hpp"

namespace tw::blas {

using namespace models;

State& state() {
  static State one;
  return one;
}

namespace {

struct Operation {
  cublasComputeType_t compute{};
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  const float *scale_a = nullptr, *scale_b = nullptr;
  std::int64_t aux_ld = 0;
  std::int32_t aux_type = -1, bias_type = -1;
  std::int8_t fast_sums = 0;
};
struct Layout {
  cudaDataType_t type{};
  std::uint64_t rows = 0, columns = 0;
  std::int64_t ld = 0, stride = 0;
  std::int32_t batch = 1;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment = 256, reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

template <class T, class Handle>
T& as(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}
template <class Value>
cublasStatus_t take(Value& value, const void* from, std::size_t bytes) {
  if (bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool is_fp8(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

float read(const void* data, cudaDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_16BF:
      return to_float(static_cast<const bf16*>(data)[i]);
    case CUDA_R_16F:
      return to_float(static_cast<const fp16*>(data)[i]);
    case CUDA_R_8F_E4M3:
      return fp8_to_float(static_cast<const e4m3*>(data)[i]);
    case CUDA_R_8F_E5M2:
      return fp8_to_float(static_cast<const e5m2*>(data)[i]);
    default:
      return 0;
  }
}
void write(void* data, cudaDataType_t type, std::int64_t i, float value) {
  switch (type) {
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = value;
      break;
    case CUDA_R_16BF:
      static_cast<bf16*>(data)[i] = to_bf16(value);
      break;
    case CUDA_R_16F:
      static_cast<fp16*>(data)[i] = to_fp16(value);
      break;
    default:
      break;
  }
}
/// 10 fraction bits, ties away from zero as the hardware's conversion.
float to_tf32(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000u) & 0xffffe000u);
}

std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  return bits == 0 ? 256u : static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// A problem as the library sees it.
struct Problem {
  const Operation& o;
  const Layout &a, &b, &d;
  std::uint64_t m() const { return d.rows; }
  std::uint64_t n() const { return d.columns; }
  std::uint64_t k() const { return o.transpose_a == CUBLAS_OP_T ? a.rows : a.columns; }

  cublasStatus_t check() const {
    const bool ta = o.transpose_a == CUBLAS_OP_T, tb = o.transpose_b == CUBLAS_OP_T;
    if ((ta ? a.columns : a.rows) != m() || (tb ? b.rows : b.columns) != n() || (tb ? b.columns : b.rows) != k()) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    for (const Layout* layout : {&a, &b, &d}) {
      if (layout->ld < static_cast<std::int64_t>(layout->rows) || layout->batch != d.batch)
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (o.epilogue != CUBLASLT_EPILOGUE_DEFAULT && !state().has_epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o.epilogue == state().refused_epilogue) return CUBLAS_STATUS_NOT_SUPPORTED;
    if ((o.epilogue & 128u) != 0 && (o.aux_ld % 8 != 0 || o.aux_ld < static_cast<std::int64_t>(m()))) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (is_fp8(a.type)) {
      const bool sixteens = m() % 16 == 0 && n() % 16 == 0 && k() % 16 == 0 && a.ld % 16 == 0 && b.ld % 16 == 0;
      if (!ta || tb || !sixteens || (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2))
        return CUBLAS_STATUS_NOT_SUPPORTED;
      if (alignment_of(o.scale_a) < 16 || alignment_of(o.scale_b) < 16) return CUBLAS_STATUS_NOT_SUPPORTED;
      return is_fp8(b.type) && o.compute == CUBLAS_COMPUTE_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (a.type != b.type || (d.type != a.type && d.type != CUDA_R_32F)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
  }
};

/// Matrix `index` of a batch, of elements as float32.
std::vector<float> unpacked(const Layout& layout, const void* data, std::int64_t index, bool transposed, bool tf32) {
  std::vector<float> values(layout.rows * layout.columns);
  for (std::uint64_t column = 0; column < layout.columns; ++column) {
    for (std::uint64_t row = 0; row < layout.rows; ++row) {
      const float value =
          read(data, layout.type,
               index * layout.stride + static_cast<std::int64_t>(column) * layout.ld + static_cast<std::int64_t>(row));
      values[transposed ? row * layout.columns + column : column * layout.rows + row] = tf32 ? to_tf32(value) : value;
    }
  }
  return values;
}

void multiply(const Problem& p, float alpha, const void* a_data, const void* b_data, float beta, const void* c_data,
              void* d_data) {
  const auto m = p.m(), n = p.n(), k = p.k();
  const bool tf32 = p.o.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const float scale =
      alpha * (p.o.scale_a != nullptr ? *p.o.scale_a : 1.0f) * (p.o.scale_b != nullptr ? *p.o.scale_b : 1.0f);
  const auto bias_type = static_cast<cudaDataType_t>(p.o.bias_type == -1 ? p.d.type : p.o.bias_type);
  const auto aux_type = static_cast<cudaDataType_t>(p.o.aux_type == -1 ? p.d.type : p.o.aux_type);
  for (std::int64_t batch = 0; batch < p.d.batch; ++batch) {
    // Rows of a and columns of b as contiguous vectors.
    const std::vector<float> a = unpacked(p.a, a_data, batch, p.o.transpose_a == CUBLAS_OP_N, tf32),
                             b = unpacked(p.b, b_data, batch, p.o.transpose_b == CUBLAS_OP_T, tf32);
    for (std::uint64_t j = 0; j < n; ++j) {
      for (std::uint64_t i = 0; i < m; ++i) {
        float sum = 0;
        for (std::uint64_t l = 0; l < k; ++l) sum += a[i * k + l] * b[j * k + l];
        float value = scale * sum;
        const std::int64_t at =
            batch * p.d.stride + static_cast<std::int64_t>(j) * p.d.ld + static_cast<std::int64_t>(i);
        const std::int64_t at_aux = static_cast<std::int64_t>(j) * p.o.aux_ld + static_cast<std::int64_t>(i);
        if (beta != 0) value += beta * read(c_data, p.d.type, at);
        switch (p.o.epilogue) {
          case CUBLASLT_EPILOGUE_BIAS:
          case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
            value += read(p.o.bias, bias_type, static_cast<std::int64_t>(i));
            break;
          case CUBLASLT_EPILOGUE_DGELU:
            value *= formula::gelu_derivative(read(p.o.aux, aux_type, at_aux));
            break;
          default:
            break;
        }
        if (p.o.epilogue == CUBLASLT_EPILOGUE_GELU_AUX || p.o.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
          write(p.o.aux, aux_type, at_aux, value);
          value = formula::gelu(value);
        }
        write(d_data, p.d.type, at, value);
      }
      if (p.o.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
        float sum = 0;
        for (std::uint64_t l = 0; l < k; ++l) sum += b[j * k + l];
        write(p.o.bias, bias_type, static_cast<std::int64_t>(j), sum);
      }
    }
  }
}

}  // namespace
}  // namespace tw::blas

using namespace tw::blas;  // NOLINT: the functions below are the library's

extern "C" {

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(&state());
  return state().create_status;
}
cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
size_t CUBLASWINAPI cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* CUBLASWINAPI cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "an error of the stand-in";
  }
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                                     cudaDataType_t) {
  auto* made = new Operation;
  made->compute = compute;
  *operation = reinterpret_cast<cublasLtMatmulDesc_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulDescDestroy(const cublasLtMatmulDesc_t operation) {
  delete reinterpret_cast<Operation*>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                                           cublasLtMatmulDescAttributes_t attribute, const void* value,
                                                           size_t bytes) {
  Operation& o = as<Operation>(operation);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(o.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(o.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(o.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(o.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(o.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(o.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(o.aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return take(o.aux_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return take(o.scale_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return take(o.scale_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return take(o.fast_sums, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                                       uint64_t columns, int64_t ld) {
  auto* made = new Layout;
  made->type = type;
  made->rows = rows;
  made->columns = columns;
  made->ld = ld;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutDestroy(const cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                             cublasLtMatrixLayoutAttribute_t attribute,
                                                             const void* value, size_t bytes) {
  Layout& l = as<Layout>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return take(l.batch, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return take(l.stride, value, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceDestroy(const cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                                 cublasLtMatmulPreferenceAttributes_t attribute,
                                                                 const void* value, size_t bytes) {
  Preference& p = as<Preference>(preference);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(p.workspace, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return take(p.reductions, value, bytes);
  return take(p.alignment, value, bytes);  // the four are set alike
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                                           cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                           cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                           cublasLtMatmulPreference_t preference, int most,
                                                           cublasLtMatmulHeuristicResult_t results[], int* count) {
  ++state().questions;
  *count = 0;
  if (state().heuristic_status != CUBLAS_STATUS_SUCCESS) return state().heuristic_status;
  const Problem problem{as<Operation>(operation), as<Layout>(a), as<Layout>(b), as<Layout>(d)};
  const cublasStatus_t code = c == d ? problem.check() : CUBLAS_STATUS_INVALID_VALUE;
  if (code != CUBLAS_STATUS_SUCCESS) return code;
  const Preference& p = as<Preference>(preference);
  const auto of_epilogue = state().offers_of.find(problem.o.epilogue);
  const int offers = of_epilogue == state().offers_of.end() ? state().offers : of_epilogue->second;
  for (; *count < most && *count < offers; ++*count) {
    cublasLtMatmulHeuristicResult_t& result = results[*count];
    result = {};
    result.state = state().offer_state;
    result.workspaceSize = p.workspace;
    result.algo.data[0] = static_cast<std::uint64_t>(*count) + 1;
    result.algo.data[1] = p.alignment;
    result.algo.data[2] = problem.o.epilogue;
    result.algo.data[3] = p.reductions;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                                 cublasLtMatmulAlgoConfigAttributes_t, void* value,
                                                                 size_t bytes, size_t* written) {
  const auto number = static_cast<std::int32_t>(algorithm->data[0]);
  std::memcpy(value, &number, bytes < sizeof number ? bytes : sizeof number);
  *written = sizeof number;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                                           const void* a_data, cublasLtMatrixLayout_t a, const void* b_data,
                                           cublasLtMatrixLayout_t b, const void* beta, const void* c_data,
                                           cublasLtMatrixLayout_t c, void* d_data, cublasLtMatrixLayout_t d,
                                           const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                           size_t workspace_bytes, cudaStream_t stream) {
  const Problem p{as<Operation>(operation), as<Layout>(a), as<Layout>(b), as<Layout>(d)};
  if (const cublasStatus_t code = c == d ? p.check() : CUBLAS_STATUS_INVALID_VALUE; code != CUBLAS_STATUS_SUCCESS)
    return code;
  if (algorithm == nullptr || algorithm->data[2] != p.o.epilogue) return CUBLAS_STATUS_INVALID_VALUE;
  const bool may_fail = state().failing_epilogues.empty() || state().failing_epilogues.count(p.o.epilogue) != 0;
  if (may_fail && algorithm->data[0] <= static_cast<std::uint64_t>(state().failing_offers))
    return state().failing_status;
  for (const void* address : {a_data, b_data, c_data, static_cast<const void*>(d_data),
                              static_cast<const void*>(p.o.bias), static_cast<const void*>(p.o.aux)}) {
    if (alignment_of(address) < algorithm->data[1]) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const float scale = *static_cast<const float*>(alpha), add = *static_cast<const float*>(beta);
  state().calls.push_back({p.m(),
                           p.n(),
                           p.k(),
                           p.d.batch,
                           p.o.transpose_a == CUBLAS_OP_T,
                           p.o.transpose_b == CUBLAS_OP_T,
                           p.a.ld,
                           p.b.ld,
                           p.d.ld,
                           p.a.type,
                           p.b.type,
                           p.d.type,
                           p.o.compute,
                           p.o.epilogue,
                           scale,
                           add,
                           c_data == d_data,
                           p.o.fast_sums != 0,
                           static_cast<std::uint32_t>(algorithm->data[3]),
                           stream});
  state().calls.back().algorithm = algorithm->data[0];
  state().calls.back().a = a_data;
  state().calls.back().b = b_data;
  // Descriptors are read now: a graph that holds the product outlives them.
  const int code =
      tw::simt::enqueue(stream, [o = p.o, first = p.a, second = p.b, result = p.d, scale, a_data, b_data, add, c_data,
                                 d_data, workspace, workspace_bytes, call = state().calls.back()] {
        std::memset(workspace, 0xff, workspace_bytes);  // it is all there, and nothing in it is kept
        if (state().milliseconds) tw::simt::take(state().milliseconds(call));
        multiply({o, first, second, result}, scale, a_data, b_data, add, c_data, d_data);
      });
  return code == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
