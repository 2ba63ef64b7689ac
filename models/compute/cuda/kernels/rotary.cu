// Rotary positions: the pairs (i, i + head_dim/2) of each head are turned in place. A block for each position; a thread
// keeps the angles of its pack for all of its heads.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
namespace {

constexpr int most_threads = occupancy::rotary_kernel.threads;

struct Turn {
  unsigned seq;  // positions of a sample
  int half;      // pairs of a head
  int heads, rotated;
  float sign;  // of the angles
};

/// Cosines and sines of N neighbouring angles, turned back where `sign` is −1.
template <int N>
__device__ inline void load_angles(const float* angles, float sign, Floats<N>& cosine, Floats<N>& sine) {
  if constexpr (N == 1) {
    cosine[0] = angles[0];
    sine[0] = angles[1] * sign;
  } else {
#pragma unroll
    for (int k = 0; k < N; k += 2) {  // two an access
      const Floats<4> two = load<4>(angles + 2 * k);
      cosine[k] = two[0];
      sine[k] = two[1] * sign;
      cosine[k + 1] = two[2];
      sine[k + 1] = two[3] * sign;
    }
  }
}

/// Threads stand side by side over the packs of half a head, and below each other over the heads.
template <class T, int N>
__global__ void __launch_bounds__(most_threads) rotary_kernel(T* x, const float* table, Turn turn) {
  const int packs = turn.half / N, threads = static_cast<int>(blockDim.x), across = packs < threads ? packs : threads,
            lanes = threads / across, lane = static_cast<int>(threadIdx.x) / across;
  if (lane >= lanes) return;
  const float* const angles = table + static_cast<Index>(blockIdx.x % turn.seq) * turn.half * 2;
  T* const row = x + static_cast<Index>(blockIdx.x) * turn.heads * turn.half * 2;
  for (int pack = static_cast<int>(threadIdx.x) % across; pack < packs; pack += across) {
    Floats<N> cosine, sine;
    load_angles(angles + pack * N * 2, turn.sign, cosine, sine);
    for (int head = lane; head < turn.rotated; head += lanes) {
      T* const at = row + static_cast<Index>(head) * turn.half * 2 + pack * N;
      Floats<N> a = load<N>(at), b = load<N>(at + turn.half);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const auto turned = formula::rotated<float>({a[k], b[k]}, cosine[k], sine[k]);
        a[k] = turned.first;
        b[k] = turned.second;
      }
      store(at, a);
      store(at + turn.half, b);
    }
  }
}

}  // namespace

void rotary(cudaStream_t stream, const Rotary& args) {
  const Index seq = args.x.dims[1], half = args.x.dims[3] / 2;
  with_packs(args.x.dtype, half, {args.x.data, args.table.data}, [&]<class T, int N>() {
    const int threads = std::min(round_to_warps(half / N * args.rotated), most_threads);
    launch<rotary_kernel<T, N>>(
        static_cast<unsigned>(args.x.dims[0] * seq), threads, 0, stream, args.x.as<T>(), args.table.as<float>(),
        Turn{static_cast<unsigned>(seq), static_cast<int>(half), static_cast<int>(args.x.dims[2]),
             static_cast<int>(args.rotated), args.inverse ? -1.0f : 1.0f});
  });
}

}  // namespace tw::models::cuda
