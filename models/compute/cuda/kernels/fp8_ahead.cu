// Operators that write the input of a linear layer in fp8: rounded, straight and transposed, instead of in bf16 for a
// kernel that rounds it.
#include "models/compute/cuda/kernels/fp8_round.cuh"
#include "models/compute/cuda/kernels/norm.cuh"

namespace tw::models::cuda {
namespace {

RoundTo<e4m3> target_of(const RoundedInput& operand, Index rows, Index columns) {
  float* const inverse = operand.transposed ? operand.transposed.slice(rows * columns, {1}).as<float>() : nullptr;
  return {operand.straight.as<e4m3>(), operand.transposed.as<e4m3>(), operand.scale, inverse, operand.follows, nullptr};
}

/// As bf16 would hold them.
template <int N>
__device__ inline Floats<N> as_stored(const Floats<N>& values) {
  return to_floats(to_pack<bf16>(values));
}

// ---- element by element ----
template <class Of>
struct Activated {
  const bf16* x;
  Index columns;
  template <bool wide>
  __device__ Floats<round_pack> at(Index row, Index column) const {
    Floats<round_pack> values = load_line<wide, round_pack>(x + row * columns + column);
#pragma unroll
    for (int k = 0; k < round_pack; ++k) values[k] = Of::value(values[k]);
    return as_stored(values);
  }
};

/// Of gate | up.
struct Gated {
  const bf16* x;
  Index columns;
  template <bool wide>
  __device__ Floats<round_pack> at(Index row, Index column) const {
    const bf16* const p = x + 2 * row * columns + column;
    const Floats<round_pack> gate = load_line<wide, round_pack>(p), up = load_line<wide, round_pack>(p + columns);
    Floats<round_pack> values;
#pragma unroll
    for (int k = 0; k < round_pack; ++k) values[k] = formula::silu(gate[k]) * up[k];
    return as_stored(values);
  }
};

// ---- norms ----
/// Of rows whose statistics are known.
template <bool centred>
struct Normalised {
  NormForward<bf16> a;
  const bf16* x;  // the sum, where there is one
  template <bool wide>
  __device__ Floats<round_pack> at(Index row, Index column) const {
    const Floats<round_pack> values = load_line<wide, round_pack>(x + row * a.width + column),
                             gamma = load_line<wide, round_pack>(a.gamma + column),
                             beta = centred ? load_line<wide, round_pack>(a.beta + column) : Floats<round_pack>{};
    return as_stored(normal_of<centred>(values, gamma, beta, centred ? a.mean[row] : 0.0f, a.rstd[row]));
  }
};

// A slab of rows of a block: their bytes stay in shared memory until those of a column are together, which are then an
// access for each half. The second half begins a little later, so that lanes that read both hit different banks.
constexpr int slab_rows = 32, slab_half = slab_rows / 2, slab_offset = 16;  // rows, rows, words
constexpr int slab_threads = occupancy::norm_forward_rounded_kernel.threads, slab_warps = slab_threads / warp_size;
constexpr int slab_lane_packs = 8, slab_width = slab_lane_packs * warp_size * width_of<bf16>;  // of the widest row
constexpr std::size_t slab_bytes(Index width) {
  return static_cast<std::size_t>(slab_rows * width) + (slab_warps + slab_offset) * sizeof(std::uint32_t);
}
static_assert(slab_bytes(slab_width) == occupancy::norm_forward_rounded_kernel.shared_bytes);

/// Word `w` of a row, which holds four columns.
__device__ inline int slab_at(int row, int w, int row_words) {
  return row * row_words + (row < slab_half ? 0 : slab_offset) + w;
}

/// The bytes of four columns in the rows of a half: each column's to its place.
__device__ inline void write_columns(const std::uint32_t* slab, int half, int w, int row_words, e4m3* to, Index rows) {
  Pack<std::uint32_t, 4> columns[4];
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    std::uint32_t of_row[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) of_row[r] = slab[slab_at(half * slab_half + 4 * q + r, w, row_words)];
    const std::uint32_t upper[2] = {bytes_of(of_row[0], of_row[1], 0x5140), bytes_of(of_row[0], of_row[1], 0x7362)},
                        lower[2] = {bytes_of(of_row[2], of_row[3], 0x5140), bytes_of(of_row[2], of_row[3], 0x7362)};
#pragma unroll
    for (int c = 0; c < 4; ++c)
      columns[c].values[q] = bytes_of(upper[c / 2], lower[c / 2], c % 2 == 0 ? 0x5410 : 0x7632);
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) store_line<true>(to + c * rows, columns[c]);
}

/// A block for each slab, a warp for each of its rows in turn. rows and width: multiples of 16; all addresses are too.
template <bool centred, int most>
__global__ void __launch_bounds__(slab_threads, occupancy::norm_forward_rounded_kernel.blocks)
    norm_forward_rounded_kernel(NormForward<bf16> a, RoundTo<e4m3> to) {
  auto* const shared = dynamic_shared<std::uint32_t>();
  std::uint32_t* const slab = shared + slab_warps;
  const int thread = static_cast<int>(threadIdx.x), row_words = static_cast<int>(a.width) / 4;
  const Index first_row = static_cast<Index>(blockIdx.x) * slab_rows;
  const int rows_here = a.rows - first_row < slab_rows ? static_cast<int>(a.rows - first_row) : slab_rows;
  const float scale = to.scale->scale;
  if (to.inverse != nullptr && blockIdx.x == 0 && thread == 0) *to.inverse = to.scale->inverse;
  std::uint32_t greatest = 0;
  {
    const WarpNorm<bf16, centred, most> norm(a);
    for (int in_slab = thread / warp_size; in_slab < rows_here; in_slab += slab_warps) {
      const Index row = first_row + in_slab;
      norm.run(
          a, row,
          [&](int column, const Floats<8>& x, const Floats<8>& gamma, const Floats<8>& beta, float mean, float rstd) {
            const Pack<bf16, 8> stored = to_pack<bf16>(normal_of<centred>(x, gamma, beta, mean, rstd));
            const Index at = row * a.width + column;
            if (a.y != nullptr) store_pack(a.y + at, stored);
            const Floats<8> y = to_floats(stored);
            take_greatest(y, greatest);
            Pack<std::uint32_t, 2> bytes;
#pragma unroll
            for (int k = 0; k < 8; k += 4)
              bytes.values[k / 4] = fp8_pair_of<e4m3>(y[k] * scale, y[k + 1] * scale) |
                                    fp8_pair_of<e4m3>(y[k + 2] * scale, y[k + 3] * scale) << 16;
            store_line<true>(to.straight + at, bytes);
            *reinterpret_cast<Pack<std::uint32_t, 2>*>(slab + slab_at(in_slab, column / 4, row_words)) = bytes;
          });
    }
  }
  greatest_of_block(greatest, shared, to.follows ? &to.scale->greatest : nullptr);  // has a barrier
  if (to.transposed == nullptr) return;
  for (int i = thread; i < 2 * row_words; i += slab_threads) {
    const int half = i % 2, w = i / 2;
    if (half * slab_half >= rows_here) continue;
    write_columns(slab, half, w, row_words, to.transposed + 4 * w * a.rows + first_row + half * slab_half, a.rows);
  }
}

/// forward(args) without `rounded` is the operator that writes y, if there is one, and the statistics.
template <bool centred, class Arguments, class Forward>
void norm_rounded(cudaStream_t stream, const Arguments& args, Forward&& forward) {
  const NormForward<bf16> a = norm_of<bf16>(args);
  const RoundTo<e4m3> to = target_of(args.rounded, a.rows, a.width);
  const bool wide = norm_is_aligned<bf16>(args);
  if (wide && to.is_aligned() && a.width <= slab_width) {
    const auto with = [&]<int most>() {
      launch<norm_forward_rounded_kernel<centred, most>>(static_cast<unsigned>(ceil_div(a.rows, slab_rows)),
                                                         slab_threads, slab_bytes(a.width), stream, a, to);
    };
    if (a.width <= slab_width / 2) {
      with.template operator()<slab_lane_packs / 2>();
    } else {
      with.template operator()<slab_lane_packs>();
    }
    return;
  }
  Arguments unrounded = args;
  unrounded.rounded = {};
  forward(stream, unrounded);
  if (args.y) {
    fp8_round(stream, false, a.y, a.rows, a.width, to.scale, to.straight, to.transposed, to.follows, to.inverse);
  } else {
    launch_round(stream, Normalised<centred>{a, args.residual ? a.sum : a.x}, wide, a.rows, a.width, to);
  }
}

template <class Of>
void activated(cudaStream_t stream, const bf16* x, Index rows, Index columns, const RoundedInput& to) {
  launch_round(stream, Activated<Of>{x, columns}, aligned(x), rows, columns, target_of(to, rows, columns));
}

/// What the runtime says of both instances of a kernel.
template <auto* one, auto* other>
cudaError_t find_both() {
  const cudaError_t code = find_image<one>();
  return code == cudaSuccess ? find_image<other>() : code;
}
template <class Source>
cudaError_t find_round() {
  return find_both<fp8_round_kernel<e4m3, true, Source>, fp8_round_kernel<e4m3, false, Source>>();
}
template <bool centred>
cudaError_t find_norm() {
  return find_both<norm_forward_rounded_kernel<centred, slab_lane_packs / 2>,
                   norm_forward_rounded_kernel<centred, slab_lane_packs>>();
}

}  // namespace

void layer_norm_rounded(cudaStream_t stream, const LayerNormForward& args) {
  norm_rounded<true>(stream, args, layer_norm_forward);
}

void rms_norm_rounded(cudaStream_t stream, const RmsNormForward& args) {
  norm_rounded<false>(stream, args, rms_norm_forward);
}

void swiglu_rounded(cudaStream_t stream, const SwigluForward& args) {
  const Index rows = args.x.dims[0], columns = args.x.dims[1] / 2;
  launch_round(stream, Gated{args.x.as<bf16>(), columns}, aligned(args.x.data), rows, columns,
               target_of(args.rounded, rows, columns));
}

void activation_rounded(cudaStream_t stream, const ActivationForward& args) {
  const Index columns = args.x.dims[args.x.dims.rank() - 1], rows = args.x.count() / columns;
  formula::with_activation(
      args.activation, [&]<class Of>(Of) { activated<Of>(stream, args.x.as<bf16>(), rows, columns, args.rounded); });
}

void gelu_rounded(cudaStream_t stream, const bf16* x, Index rows, Index columns, const RoundedInput& to) {
  activated<Gelu>(stream, x, rows, columns, to);
}

cudaError_t find_rounding_images() {
  for (const auto find :
       {find_round<Activated<Gelu>>, find_round<Activated<formula::GeluErf>>,
        find_round<Activated<formula::HyperbolicTangent>>, find_round<Activated<formula::RectifiedLinear>>,
        find_round<Gated>, find_round<Normalised<true>>, find_round<Normalised<false>>, find_norm<true>,
        find_norm<false>}) {
    if (const cudaError_t code = find(); code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

}  // namespace tw::models::cuda
