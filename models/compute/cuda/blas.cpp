#include "models/compute/cuda/blas.hpp"

#include <algorithm>
#include <utility>

#include "models/compute/cuda/bench.hpp"
#include "models/compute/cuda/kernels/check.hpp"

namespace tw::models::cuda {

// ---- the library ----

std::unique_ptr<BlasLibrary> BlasLibrary::open(std::string* why) {
  static const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  std::unique_ptr<BlasLibrary> library(new BlasLibrary);
  if (!library->open_file(name, "cuBLAS " + std::to_string(CUBLAS_VER_MAJOR), "", why)) return nullptr;
#define TW_BLAS(symbol) \
  if (!library->need(library->symbol, #symbol, why)) return nullptr;
#include "models/compute/cuda/blas_functions.def"
  return library;
}

std::string BlasLibrary::version() const {
  const std::size_t code = cublasLtGetVersion();  // 130101 is 13.1.1
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

namespace {

/// The statuses that mean "no algorithm for this".
bool is_refusal(cublasStatus_t code) {
  return code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_INVALID_VALUE;
}

}  // namespace

void check_blas(const BlasLibrary& library, cublasStatus_t code, const char* expression, const char* file, int line) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  const char* const name = library.cublasLtGetStatusName(code);
  if (is_refusal(code))
    throw Refused("cuBLASLt", static_cast<int>(code), name, expression, file, line, Failure::unsupported);
  throw ApiError("cuBLASLt", static_cast<int>(code), name, expression, file, line,
                 code == CUBLAS_STATUS_ALLOC_FAILED ? Failure::environment : Failure::internal);
}

// ---- descriptors ----

namespace {

/// The library's matrix for what lies row-major: its columns are our rows.
class Layout {
 public:
  Layout(const BlasLibrary& library, const Operand& operand, Index rows, Index columns, Index batch)
      : library_(library) {
    if (operand.transposed) std::swap(rows, columns);
    TW_BLAS_CALL(library, cublasLtMatrixLayoutCreate(&layout_, operand.type, static_cast<std::uint64_t>(columns),
                                                     static_cast<std::uint64_t>(rows), operand.ld));
    if (batch == 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    TW_BLAS_CALL(library,
                 cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    TW_BLAS_CALL(library, cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                           &operand.stride, sizeof operand.stride));
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  ~Layout() { library_.cublasLtMatrixLayoutDestroy(layout_); }
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  const BlasLibrary& library_;
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class Preference {
 public:
  explicit Preference(const BlasLibrary& library) : library_(library) {
    TW_BLAS_CALL(library, cublasLtMatmulPreferenceCreate(&preference_));
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  ~Preference() { library_.cublasLtMatmulPreferenceDestroy(preference_); }
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    TW_BLAS_CALL(library_, cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value));
  }
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  const BlasLibrary& library_;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

bool has_bias(cublasLtEpilogue_t epilogue) {
  return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 || epilogue == CUBLASLT_EPILOGUE_BGRADA ||
         epilogue == CUBLASLT_EPILOGUE_BGRADB;
}
bool has_aux(cublasLtEpilogue_t epilogue) { return (epilogue & 128) != 0; }

/// Elements of an operand, gaps between rows and matrices among them.
std::size_t count_of(const Operand& operand, Index rows, Index columns, Index batch) {
  const Index lines = operand.transposed ? columns : rows;
  return static_cast<std::size_t>(lines * operand.ld + (batch - 1) * operand.stride);
}

/// What a product of the shape may be given.
ProductArguments lay_out(Bench& bench, const ProductShape& s, std::size_t workspace_bytes, void** workspace) {
  ProductArguments args;
  *workspace = bench.workspace(workspace_bytes);
  args.a = bench.operand(s.a.type, count_of(s.a, s.m, s.k, s.batch));
  args.b = bench.operand(s.b.type, count_of(s.b, s.k, s.n, s.batch));
  args.d = bench.operand(s.d.type, count_of(s.d, s.m, s.n, s.batch));
  if (has_bias(s.epilogue)) args.bias = bench.operand(s.bias_type, static_cast<std::size_t>(std::max(s.m, s.n)));
  if (has_aux(s.epilogue)) args.aux = bench.operand(s.d.type, static_cast<std::size_t>(s.m * s.aux_ld));
  if (s.scaled) args.a_scale = args.b_scale = static_cast<const float*>(bench.operand(CUDA_R_32F, 1));
  return args;
}

std::string name_of(const BlasLibrary& library, const cublasLtMatmulAlgo_t& algorithm) {
  const auto attribute = [&](cublasLtMatmulAlgoConfigAttributes_t which) {
    std::int32_t value = 0;
    std::size_t written = 0;
    library.cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof value, &written);
    return std::to_string(value);
  };
  return "algorithm " + attribute(CUBLASLT_ALGO_CONFIG_ID) + " tile " + attribute(CUBLASLT_ALGO_CONFIG_TILE_ID) +
         " stages " + attribute(CUBLASLT_ALGO_CONFIG_STAGES_ID) + " split " +
         attribute(CUBLASLT_ALGO_CONFIG_SPLITK_NUM) + " reduction " + attribute(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TW_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

struct Product::Descriptors {
  Descriptors(const BlasLibrary& on, const ProductShape& s)
      : library(on),
        first(on, s.b, s.k, s.n, s.batch),
        second(on, s.a, s.m, s.k, s.batch),
        result(on, s.d, s.m, s.n, s.batch) {
    TW_BLAS_CALL(library, cublasLtMatmulDescCreate(&operation, s.compute, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(s.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(s.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, s.epilogue);
    if (has_bias(s.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, s.bias_type);
    if (has_aux(s.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.aux_ld);  // its type is d's where none is set
    if (s.scaled) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(s.fast_sums ? 1 : 0));
  }
  ~Descriptors() { library.cublasLtMatmulDescDestroy(operation); }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    TW_BLAS_CALL(library, cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value));
  }
  void point_to(const ProductShape& s, const ProductArguments& args) {
    if (has_bias(s.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(args.bias));
    if (has_aux(s.epilogue)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, args.aux);
    if (s.scaled) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(args.b_scale));
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(args.a_scale));
    }
  }

  const BlasLibrary& library;
  cublasLtMatmulDesc_t operation = nullptr;
  Layout first, second, result;
};

// ---- products ----

Product::Product(Blas& blas, const ProductShape& shape, cudaStream_t stream)
    : Product(blas, shape, &blas.algorithm(shape, stream)) {}

Product::Product(Blas& blas, const ProductShape& shape, BlasAlgorithm* algorithm)
    : blas_(&blas), algorithm_(algorithm), descriptors_(std::make_shared<Descriptors>(blas.library(), shape)) {}

cublasStatus_t Product::enqueue(cudaStream_t stream, const ProductArguments& args, void* workspace,
                                const cublasLtMatmulAlgo_t& algorithm) const {
  Descriptors& d = *descriptors_;
  d.point_to(algorithm_->shape, args);
  const cublasStatus_t code =
      d.library.cublasLtMatmul(blas_->handle(), d.operation, &args.alpha, args.b, d.first.get(), args.a, d.second.get(),
                               &args.beta, args.c != nullptr ? args.c : args.d, d.result.get(), args.d, d.result.get(),
                               &algorithm, workspace, blas_->workspace_bytes(), stream);
  if (code == CUBLAS_STATUS_SUCCESS || is_refusal(code)) return code;
  TW_CHECK_DEVICE();
  check_blas(d.library, code, "cublasLtMatmul", __FILE__, __LINE__);
  return code;
}

void Product::run(cudaStream_t stream, const ProductArguments& args, void* workspace) const {
  for (; algorithm_->found; blas_->take_next(*algorithm_))
    if (enqueue(stream, args, workspace, algorithm_->algorithm) == CUBLAS_STATUS_SUCCESS) return;
  const std::string why = "CUBLAS_STATUS_NOT_SUPPORTED: of the " + std::to_string(algorithm_->offers) +
                          " algorithms of cuBLASLt " + blas_->library().version() + " for " +
                          extents_of(algorithm_->shape) + " none runs";
  throw Refused("cuBLASLt", CUBLAS_STATUS_NOT_SUPPORTED, why, "cublasLtMatmul", __FILE__, __LINE__,
                Failure::unsupported);
}

void Product::run(cudaStream_t stream, const ProductArguments& args, void* workspace,
                  const cublasLtMatmulAlgo_t& algorithm) const {
  check_blas(blas_->library(), enqueue(stream, args, workspace, algorithm), "cublasLtMatmul", __FILE__, __LINE__);
}

// ---- algorithms ----

std::unique_ptr<Blas> Blas::open(Context& context, std::string* why) {
  std::unique_ptr<BlasLibrary> library = BlasLibrary::open(why);
  if (!library) return nullptr;
  std::unique_ptr<Blas> blas(new Blas(context, std::move(library)));
  context.use();
  const cublasStatus_t code = blas->library_->cublasLtCreate(&blas->handle_);
  if (code != CUBLAS_STATUS_SUCCESS) {
    blas->handle_ = nullptr;
    if (code == CUBLAS_STATUS_ALLOC_FAILED) check_blas(*blas->library_, code, "cublasLtCreate", __FILE__, __LINE__);
    TW_CHECK_DEVICE();  // one that has failed is not taken for a missing library
    *why = "cuBLASLt " + blas->library_->version() + " does not start: " + blas->library_->cublasLtGetStatusName(code);
    return nullptr;
  }
  context.reserve(blas->workspace_bytes());
  return blas;
}

Blas::~Blas() {
  if (handle_ != nullptr) library_->cublasLtDestroy(handle_);
}

// NVIDIA's own advice for cuBLAS is 32 MiB on Hopper and later, 4 MiB before; never more than a thousandth of the
// memory.
std::size_t Blas::workspace_bytes() const {
  const std::size_t advice = (context_.architecture() >= 90 ? std::size_t{32} : 4) << 20;
  return std::min(advice, context_.memory_bytes() / 1024 / 256 * 256);
}
BlasAlgorithm& Blas::algorithm(const ProductShape& shape, cudaStream_t stream) {
  for (const std::unique_ptr<BlasAlgorithm>& known : chosen_) {
    if (known->shape == shape) return *known;
  }
  auto choice = std::make_unique<BlasAlgorithm>();
  choice->shape = shape;
  search(*choice, stream);
  chosen_.push_back(std::move(choice));  // only now: a search that was cut short by an error has found nothing out
  return *chosen_.back();
}

void Blas::search(BlasAlgorithm& choice, cudaStream_t stream) {
  const ProductShape& shape = choice.shape;
  context_.use();
  const Product product(*this, shape, &choice);
  // Addresses that are not read here, but say how they will be aligned.
  void* const aligned = reinterpret_cast<void*>(static_cast<std::uintptr_t>(shape.alignment));
  product.descriptors_->point_to(shape, {.bias = aligned,
                                         .aux = aligned,
                                         .a_scale = static_cast<const float*>(aligned),
                                         .b_scale = static_cast<const float*>(aligned)});
  Preference preference(*library_);
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes()));
  const auto alignment = static_cast<std::uint32_t>(shape.alignment);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    preference.set(attribute, alignment);
  }
  // Else the parts of a split sum may be added up in d's 16 bits.
  if (size_of(shape.d.type) == 2)
    preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  constexpr int most_offers = 8;
  std::vector<cublasLtMatmulHeuristicResult_t> offers(most_offers);
  int count = 0;
  const Product::Descriptors& d = *product.descriptors_;
  const cublasStatus_t code =
      library_->cublasLtMatmulAlgoGetHeuristic(handle_, d.operation, d.first.get(), d.second.get(), d.result.get(),
                                               d.result.get(), preference.get(), most_offers, offers.data(), &count);
  if (is_refusal(code)) return;
  if (code != CUBLAS_STATUS_SUCCESS) TW_CHECK_DEVICE();
  check_blas(*library_, code, "cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
  offers.resize(static_cast<std::size_t>(count));
  std::erase_if(offers, [&](const auto& offer) {
    if (is_refusal(offer.state)) return true;
    check_blas(*library_, offer.state, "an offer of cublasLtMatmulAlgoGetHeuristic", __FILE__, __LINE__);
    return false;
  });
  if (offers.empty()) return;
  choice.offers = static_cast<int>(offers.size());
  choice.others = offers;
  take_next(choice);
  if (offers.size() > 1 && context_.times_algorithms() && shape.alignment >= 16 && !is_capturing(stream))
    measure(choice, offers);
}

void Blas::take_next(BlasAlgorithm& choice) const {
  choice.found = !choice.others.empty();
  if (!choice.found) return;
  take(choice, choice.others.front());
  choice.others.erase(choice.others.begin());
}

void Blas::take(BlasAlgorithm& choice, const cublasLtMatmulHeuristicResult_t& offer) const {
  choice.algorithm = offer.algo;
  choice.workspace_bytes = offer.workspaceSize;
  choice.name = name_of(*library_, offer.algo);
}

void Blas::measure(BlasAlgorithm& choice, const std::vector<cublasLtMatmulHeuristicResult_t>& offers) {
  const ProductShape& s = choice.shape;
  const Product product(*this, s, &choice);
  Bench bench;
  void* workspace = nullptr;
  const ProductArguments args = lay_out(bench, s, workspace_bytes(), &workspace);
  if (!bench.is_complete()) return;
  Fastest fastest;
  std::size_t taken = 0;
  std::vector<cublasLtMatmulHeuristicResult_t> run;
  for (const cublasLtMatmulHeuristicResult_t& offer : offers) {
    try {
      const float milliseconds =
          bench.milliseconds_of([&] { product.run(bench.stream(), args, workspace, offer.algo); });
      if (fastest.takes(milliseconds)) taken = run.size();
      run.push_back(offer);
    } catch (const Refused&) {  // offered, but not done: the others remain
    }
  }
  choice.found = choice.measured = !run.empty();
  choice.others.clear();
  if (!choice.found) return;
  take(choice, run[taken]);
  run.erase(run.begin() + static_cast<std::ptrdiff_t>(taken));
  choice.others = std::move(run);
}

std::optional<std::size_t> Blas::fastest(const Product& fused, std::size_t more_bytes, const std::vector<Way>& ways,
                                         cudaStream_t stream) {
  const auto known =
      std::ranges::find_if(chosen_, [&](const auto& choice) { return choice.get() == fused.algorithm_; });
  std::optional<std::size_t>& taken = (*known)->fastest_way;
  if (taken && ways[*taken]) return taken;
  const auto first = std::ranges::find_if(ways, [](const Way& way) { return static_cast<bool>(way); });
  const std::optional<std::size_t> unmeasured = static_cast<std::size_t>(first - ways.begin());
  if (is_capturing(stream)) return unmeasured;
  context_.use();
  Bench bench;
  void* workspace = nullptr;
  const ProductArguments args = lay_out(bench, fused.shape(), workspace_bytes() + more_bytes, &workspace);
  if (!bench.is_complete()) return unmeasured;
  Fastest fastest;
  taken.reset();
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (!ways[i]) continue;
    try {
      if (fastest.takes(bench.milliseconds_of([&] { ways[i](bench.stream(), args, workspace); }))) taken = i;
    } catch (const Error& error) {  // the others remain
      if (error.failure() != Failure::unsupported) throw;
    }
  }
  return taken;
}

std::string extents_of(const ProductShape& s) {
  return std::to_string(s.m) + " × " + std::to_string(s.k) + " × " + std::to_string(s.n) + " (CUDA type " +
         std::to_string(s.a.type) + ")";
}

int alignment_of(std::initializer_list<const void*> addresses, DType dtype) {
  for (const void* address : addresses) {
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return static_cast<int>(size_of(dtype));
  }
  return 16;
}

}  // namespace tw::models::cuda
