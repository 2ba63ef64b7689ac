// Synthetic samples where they are used: a host cannot make them as fast as a GPU trains. Compiled with -fmad=false, so
// that the bits are the host's.
#include "models/compute/synthetic.hpp"

#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
namespace {

constexpr int token_threads = occupancy::tokens_kernel.threads, image_threads = occupancy::images_kernel.threads;
constexpr int piece_blocks = 8 * image_threads;  // each piece makes the table of its image's waves again

struct Tokens {
  const std::int32_t* table;
  Index vocabulary, batch, seq;
  std::int32_t offset[4];
  std::uint64_t seed, purpose, first_sample;
  std::int32_t *inputs, *targets;
};

/// One thread for each sequence: a token hangs on the two before it. The parameter stays where the launch put it: an
/// index into its offsets would else copy all of it into each thread's local memory.
__global__ void tokens_kernel(const __grid_constant__ Tokens s) {
  const Index b = first_index();
  if (b >= s.batch) return;
  const std::uint64_t stream = random_stream(s.purpose, s.first_sample + static_cast<std::uint64_t>(b));
  std::int32_t token = static_cast<std::int32_t>(synthetic::draw(s.seed, stream, 1, s.vocabulary));
  std::int32_t before = s.table[synthetic::draw(s.seed, stream, 0, s.vocabulary)];  // the row
  std::int32_t *inputs = s.inputs + b * s.seq, *targets = s.targets + b * s.seq;
  for (Index first = 0; first < s.seq; first += 4) {
    const PhiloxWords words = random_block(s.seed, stream, 2 + static_cast<std::uint64_t>(first) / 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // unrolled, so that the words stay in registers
      const Index t = first + i;
      if (t == s.seq) return;
      inputs[t] = token;
      const std::int32_t row = s.table[token];
      token = synthetic::next_token(row, before, synthetic::draw_k(words, i), s.offset, s.vocabulary);
      before = row;
      targets[t] = token;
    }
  }
}

template <class T>
struct Images {
  const std::int32_t* frequencies;
  Index classes, size, channels, pieces;
  std::uint64_t seed, purpose, first_sample;
  float amplitude, sigma, label_noise;
  T* inputs;
  std::int32_t* targets;
  bool wide;  // four neighbours may be stored at once
};

/// A block makes a piece of an image, a thread four neighbouring values: those of one Philox block.
template <class T>
__global__ void images_kernel(Images<T> s) {
  float* waves = dynamic_shared<float>();  // (size)
  const unsigned pieces = static_cast<unsigned>(s.pieces), image = blockIdx.x / pieces,
                 piece = blockIdx.x - image * pieces;
  const std::uint64_t stream = random_stream(s.purpose, s.first_sample + static_cast<std::uint64_t>(image));
  const synthetic::ImageDraw drawn = synthetic::draw_image(s.seed, stream, s.classes, s.label_noise);
  if (piece == 0 && threadIdx.x == 0) s.targets[image] = drawn.label;
  for (int j = static_cast<int>(threadIdx.x); j < s.size; j += static_cast<int>(blockDim.x))
    waves[j] = synthetic::wave(s.amplitude, j, static_cast<int>(s.size), drawn.phase_turns);
  __syncthreads();
  // In 32 bits, since 64 would divide in software: the table of an image lies in shared memory, which bounds its size.
  const auto size = static_cast<unsigned>(s.size), channels = static_cast<unsigned>(s.channels);
  const auto x = static_cast<unsigned>(s.frequencies[2 * drawn.true_label]),
             y = static_cast<unsigned>(s.frequencies[2 * drawn.true_label + 1]);
  const unsigned count = size * size * channels;
  T* out = s.inputs + static_cast<Index>(image) * count;
  for (unsigned local = threadIdx.x; local < piece_blocks; local += blockDim.x) {
    const unsigned block = piece * piece_blocks + local, begin = 4 * block;
    if (begin >= count) break;
    const PhiloxWords words = random_block(s.seed, stream, static_cast<std::uint64_t>(block));
    Floats<4> values;
    synthetic::box_muller(words.word[0], words.word[1], values[0], values[1]);
    synthetic::box_muller(words.word[2], words.word[3], values[2], values[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned pixel = (begin + static_cast<unsigned>(i)) / channels, row = pixel / size;
      const unsigned j = (x * (pixel - row * size) + y * row) % size;
      values[i] = s.sigma * values[i];
      values[i] = values[i] + waves[j];
    }
    if (s.wide && begin + 4 <= count) {
      store(out + begin, values);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (begin + i < count) out[begin + i] = from_float<T>(values[i]);
    }
  }
}

/// Of a sample of this rank: its label, and four dense features, those of one Philox block.
struct ClickFeaturesOp {
  std::uint64_t seed, of_label, of_dense, first_sample;
  float mean;
  unsigned features, blocks;  // of a sample
  float* dense;
  std::int32_t* targets;
  template <int N>
  __device__ void at(Index i) const {
    static_assert(N == 1);
    const Index sample = i / blocks;
    const auto block = static_cast<unsigned>(i - sample * blocks);
    const std::uint64_t number = first_sample + static_cast<std::uint64_t>(sample);
    const bool click = synthetic::draw_click(seed, of_label, number);
    if (block == 0) targets[sample] = click ? 1 : 0;
    const PhiloxWords words = random_block(seed, random_stream(of_dense, number), block);
    Floats<4> values;
    synthetic::box_muller(words.word[0], words.word[1], values[0], values[1]);
    synthetic::box_muller(words.word[2], words.word[3], values[2], values[3]);
    float* out = dense + sample * features + 4 * block;
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
      if (4 * block + k < features) out[k] = values[static_cast<int>(k)] + (click ? mean : -mean);
  }
};

/// Neighbouring indices. Which sample they are of, and its label, is only found out again where the next one begins.
struct ClickIndicesOp {
  const ClickTable* tables;
  std::uint64_t seed, of_label, of_index, first_sample;
  unsigned hot, of_sample, wrong_below;
  std::int32_t* indices;
  template <int N>
  __device__ void at(Index i) const {
    Index sample = i / of_sample;
    auto place = static_cast<unsigned>(i - sample * of_sample);
    std::uint64_t stream = 0;
    bool click = false;
    Pack<std::int32_t, N> pack;
#pragma unroll
    for (int k = 0; k < N; ++k, ++place) {
      if (place == of_sample) {
        ++sample;
        place = 0;
      }
      if (k == 0 || place == 0) {
        const std::uint64_t number = first_sample + static_cast<std::uint64_t>(sample);
        stream = random_stream(of_index, number);
        click = synthetic::draw_click(seed, of_label, number);
      }
      const unsigned slot = place / hot;
      pack.values[k] = synthetic::draw_index(tables[slot], seed, stream, hot, place - slot * hot, click, wrong_below);
    }
    store_pack(indices + i, pack);
  }
};

}  // namespace

void generate_tokens(cudaStream_t stream, const GenerateTokens& args) {
  Tokens s{args.table.as<std::int32_t>(),
           args.table.dims[0],
           args.inputs.dims[0],
           args.inputs.dims[1],
           {},
           args.seed,
           args.purpose,
           args.first_sample,
           args.inputs.as<std::int32_t>(),
           args.targets.as<std::int32_t>()};
  for (int k = 0; k < 4; ++k) s.offset[k] = args.offset[k];
  launch<tokens_kernel>(static_cast<unsigned>(ceil_div(s.batch, token_threads)), token_threads, 0, stream, s);
}

void generate_images(cudaStream_t stream, const GenerateImages& args) {
  with_type(args.inputs.dtype, [&]<class T>(T*) {
    const Index size = args.inputs.dims[1], channels = args.inputs.dims[3], count = size * size * channels;
    const Index pieces = ceil_div(count, 4 * piece_blocks);
    const Images<T> s{args.frequencies.as<std::int32_t>(),
                      args.frequencies.dims[0],
                      size,
                      channels,
                      pieces,
                      args.seed,
                      args.purpose,
                      args.first_sample,
                      args.amplitude,
                      args.sigma,
                      args.label_noise,
                      args.inputs.as<T>(),
                      args.targets.as<std::int32_t>(),
                      count % 4 == 0 && aligned<4>({args.inputs})};
    launch<images_kernel<T>>(static_cast<unsigned>(args.inputs.dims[0] * pieces), image_threads,
                             static_cast<std::size_t>(size) * sizeof(float), stream, s);
  });
}

void generate_clicks(cudaStream_t stream, const GenerateClicks& args) {
  const Index features = args.dense.dims[1], blocks = ceil_div(features, 4);
  const ClickFeaturesOp of_features{args.seed,
                                    args.of_label,
                                    args.of_dense,
                                    args.first_sample,
                                    args.mean,
                                    static_cast<unsigned>(features),
                                    static_cast<unsigned>(blocks),
                                    args.dense.as<float>(),
                                    args.targets.as<std::int32_t>()};
  map<1>(stream, of_features, args.dense.dims[0] * blocks, false);
  const Index hot = args.indices.dims[2];
  const ClickIndicesOp of_indices{args.tables,
                                  args.seed,
                                  args.of_label,
                                  args.of_index,
                                  args.first_of_all,
                                  static_cast<unsigned>(hot),
                                  static_cast<unsigned>(args.indices.dims[1] * hot),
                                  args.wrong_below,
                                  args.indices.as<std::int32_t>()};
  map<4>(stream, of_indices, args.indices.count(), aligned<4>({args.indices}));
}

}  // namespace tw::models::cuda
