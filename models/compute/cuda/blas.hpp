// cuBLASLt, opened at run time, and one product of it with its algorithm. Matrices are row-major here; the library's
// are column-major, so that it is given the operands in the other order. Private to models/compute/cuda.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/compute/cuda/context.hpp"
#include "models/compute/vendor_library.hpp"

namespace tw::models::cuda {

using Index = std::int64_t;

/// The open library. All functions are there.
class BlasLibrary : VendorLibrary {
 public:
  /// Of the toolkit's major version, from the loader's folders or /usr/local/cuda. Null where it is not there or lacks
  /// a function; `why` then says so.
  static std::unique_ptr<BlasLibrary> open(std::string* why);

#define TW_BLAS(name) decltype(&::name) name = nullptr;
#include "models/compute/cuda/blas_functions.def"

  std::string version() const;  ///< "13.1.0"

 private:
  BlasLibrary() = default;
};

/// Throws Refused, of Failure::unsupported, where the library has no algorithm for what it was asked, else ApiError.
void check_blas(const BlasLibrary& library, cublasStatus_t code, const char* expression, const char* file, int line);
#define TW_BLAS_CALL(library, call) ::tw::models::cuda::check_blas(library, (library).call, #call, __FILE__, __LINE__)

/// How a matrix lies in memory.
struct Operand {
  cudaDataType_t type = CUDA_R_32F;
  bool transposed = false;  ///< memory holds the transpose of what the product takes
  Index ld = 0;             ///< elements from row to row in memory
  Index stride = 0;         ///< elements from one matrix of the batch to the next
  bool operator==(const Operand&) const = default;
};

/// d (m, n) = epilogue(alpha · a (m, k) · b (k, n) + beta · c), for each matrix of a batch; sums in float32.
struct ProductShape {
  Index m = 0, n = 0, k = 0, batch = 1;
  Operand a, b, d;  ///< c lies as d does
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cudaDataType_t bias_type = CUDA_R_32F;  ///< of the epilogue's bias (n values, added to each row) or, with BGRADB
                                          ///< (BGRADA of the library's order: Σ over k of a, m values)
  Index aux_ld = 0;                       ///< of the epilogue's second matrix (m, n), of d's type
  bool scaled = false;                    ///< a and b are fp8, with a scale each
  bool fast_sums = false;                 ///< fp8: sums may keep fewer bits
  int alignment = 16;                     ///< bytes, of all addresses
  bool operator==(const ProductShape&) const = default;
};

struct ProductArguments {
  const void *a = nullptr, *b = nullptr;
  const void* c = nullptr;  ///< null: d
  void* d = nullptr;
  float alpha = 1, beta = 0;
  void *bias = nullptr, *aux = nullptr;
  const float *a_scale = nullptr, *b_scale = nullptr;  ///< device memory
};

/// "16 × 64 × 32 (CUDA type 14)": m, k and n, and a's type.
std::string extents_of(const ProductShape& shape);

/// An algorithm for a shape.
struct BlasAlgorithm {
  ProductShape shape;
  bool found = false, measured = false;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
  std::string name;  ///< "algorithm 66, tile 20, …"
  int offers = 0;    ///< of the library
  /// Of these, in their order, those that remain where the library refuses to run the one that was taken.
  std::vector<cublasLtMatmulHeuristicResult_t> others;
  /// Of the ways to do what the product does: see Blas::fastest(). Not known where nobody has timed them.
  std::optional<std::size_t> fastest_way;
};

class Product;

/// The library, its handle, and the algorithms chosen so far.
class Blas {
 public:
  /// Null where the library is not there or does not start; `why` then says so.
  static std::unique_ptr<Blas> open(Context& context, std::string* why);
  ~Blas();

  const BlasLibrary& library() const { return *library_; }
  cublasLtHandle_t handle() const { return handle_; }
  /// Asked of the library once a shape; where it offers several they are timed once, outside of captures, on random
  /// operands in memory taken for that alone (which is in no peak). The library's first one is taken unless another
  /// gains Fastest::least_gain (bench.hpp). Not `found` where the library has none, or runs none of those that it
  /// offers.
  BlasAlgorithm& algorithm(const ProductShape& shape, cudaStream_t stream);
  /// For an algorithm that the library has refused to run: the next of its offers, else no longer `found`.
  void take_next(BlasAlgorithm& choice) const;
  /// Does what `fused` does, on its arguments; `workspace`: of workspace_bytes() and the `more_bytes` behind it. Empty
  /// where that way is not there.
  using Way = std::function<void(cudaStream_t stream, const ProductArguments& args, void* workspace)>;
  /// The index of the way that is taken, timed once a shape as algorithms are: the first one unless another gains
  /// Fastest::least_gain. The first one too while a stream is captured, and where there is no memory to time them. Ways
  /// that the library refuses are out of the race; none remains: nullopt.
  std::optional<std::size_t> fastest(const Product& fused, std::size_t more_bytes, const std::vector<Way>& ways,
                                     cudaStream_t stream);
  /// For every product; part of the context's workspace.
  std::size_t workspace_bytes() const;

 private:
  Blas(Context& context, std::unique_ptr<BlasLibrary> library) : context_(context), library_(std::move(library)) {}
  /// Throws ApiError for any answer but an algorithm and "no algorithm".
  void search(BlasAlgorithm& choice, cudaStream_t stream);
  void measure(BlasAlgorithm& choice, const std::vector<cublasLtMatmulHeuristicResult_t>& offers);
  void take(BlasAlgorithm& choice, const cublasLtMatmulHeuristicResult_t& offer) const;

  Context& context_;
  std::unique_ptr<BlasLibrary> library_;
  cublasLtHandle_t handle_ = nullptr;
  std::vector<std::unique_ptr<BlasAlgorithm>> chosen_;
};

/// The library's descriptors of one shape. Movable.
class Product {
 public:
  Product(Blas& blas, const ProductShape& shape, cudaStream_t stream);
  /// Whether the library has an algorithm for the shape; run() needs one.
  explicit operator bool() const { return algorithm_->found; }
  const ProductShape& shape() const { return algorithm_->shape; }
  const std::string& name() const { return algorithm_->name; }
  /// Whether its algorithm was timed against others.
  bool is_measured() const { return algorithm_->measured; }
  /// `workspace`: Blas::workspace_bytes(). Where the library refuses the algorithm, the next one that it offered is
  /// taken for good: it says so in the call, so that nothing has been enqueued. Throws Refused, of Failure::unsupported
  /// and with the extents, where none remains.
  void run(cudaStream_t stream, const ProductArguments& args, void* workspace) const;
  /// By this algorithm alone.
  void run(cudaStream_t stream, const ProductArguments& args, void* workspace,
           const cublasLtMatmulAlgo_t& algorithm) const;

 private:
  friend class Blas;
  struct Descriptors;
  Product(Blas& blas, const ProductShape& shape, BlasAlgorithm* algorithm);
  cublasStatus_t enqueue(cudaStream_t stream, const ProductArguments& args, void* workspace,
                         const cublasLtMatmulAlgo_t& algorithm) const;

  Blas* blas_;
  BlasAlgorithm* algorithm_;
  std::shared_ptr<Descriptors> descriptors_;
};

inline cublasComputeType_t compute_type(Math math) {
  return math == Math::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}
/// 16 where all addresses are multiples of 16, else the size of an element: the two classes that algorithms are kept
/// for.
int alignment_of(std::initializer_list<const void*> addresses, DType dtype);

}  // namespace tw::models::cuda
