#include "models/workspace_estimate.hpp"

#include <algorithm>

namespace tw::models {
namespace {

constexpr std::size_t page = 4096, library_thread = std::size_t{512} << 10;
constexpr std::size_t block = 64, depth = 4096;  // of what is packed or copied at once, at most

std::size_t unsign(std::int64_t value) { return static_cast<std::size_t>(value); }
std::size_t up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

struct Scratch {
  std::size_t workspace = 0, library = 0;
};

// Of one thread in a product rows × in → out of any of its three passes: its partial sum of a gradient, and copies of a
// block of both operands.
std::size_t library_bytes(std::size_t rows, std::size_t in, std::size_t out, std::size_t element) {
  return in * out * sizeof(float) + 2 * block * std::min(std::max({rows, in, out}), depth) * element + library_thread;
}

// A gradient in slices of rows: for each thread copies of a chunk of both operands (gathered and packed, of 1 MiB
// unless the rows are very long) and a sum of at most 4 MiB.
std::size_t sliced(std::size_t in, std::size_t out, std::size_t element, std::size_t threads) {
  const std::size_t chunk = std::max(std::size_t{1} << 20, 2 * block * (in + out) * element);
  return threads * (2 * chunk + std::min(in * out * sizeof(float), std::size_t{4} << 20) + library_thread + 8 * page);
}

// dy transposed and x packed side by side; column sums of a bias.
Scratch linear(const Product& p, std::size_t element, std::size_t threads) {
  const std::size_t rows = unsign(p.rows), in = unsign(p.in_features), out = unsign(p.out_features);
  return {std::max({up(rows * out * element, page) + up(rows, block) * up(in, block) * element,
                    threads * out * sizeof(double), sliced(in, out, element, threads)}),
          threads * library_bytes(rows, in, out, element)};
}

// Exponentials of a chunk of rows, and the tiles that it is worked through in.
Scratch classifier(const Product& p, std::size_t element, std::size_t threads) {
  const std::size_t rows = std::min<std::size_t>(unsign(p.rows), 1024), in = unsign(p.in_features);
  const std::size_t classes = unsign(p.out_features), width = std::min<std::size_t>(classes, 512);
  const std::size_t tiles = (classes + width - 1) / width;
  std::size_t bytes = rows * classes * element + rows * width * (sizeof(float) + element);  // e, logits, transposed
  bytes += up(rows, block) * up(in, block) * element + rows * in * sizeof(float);           // x packed, dx
  bytes += tiles * rows * (2 * sizeof(float) + sizeof(double)) + rows * (3 * sizeof(float) + sizeof(double));
  bytes += threads * width * sizeof(double) + 16 * page;
  return {bytes, threads * library_bytes(rows, in, width, element)};
}

// Each thread keeps the scores of a block of queries against all keys, and the gradients of keys and values of a head.
Scratch attention(const Product& p, std::size_t element, std::size_t threads) {
  const std::size_t seq = unsign(p.seq), width = unsign(p.head_dim);
  const std::size_t queries = std::min<std::size_t>(seq, 128);
  const std::size_t own =
      queries * seq * (2 * sizeof(float) + 2 * element) + 2 * seq * width * sizeof(float) + 2 * page;
  return {std::min(threads, unsign(p.batch * p.heads)) * (own + library_bytes(queries, seq, width, element)), 0};
}

// The gradient in the library's layout; for each thread transposed images and a partial sum of the gradient. As a
// product of rows: those gathered and packed, dy transposed.
Scratch convolution(const Product& p, std::size_t element, std::size_t threads) {
  const std::size_t in = up(unsign(p.in_channels), 32), out = up(unsign(p.out_channels), 32);
  const std::size_t kernel = unsign(p.kernel.area());
  const std::size_t pixels = unsign(p.height * p.width);
  const std::size_t out_pixels = unsign(p.out_height() * p.out_width());
  const std::size_t gradient = kernel * in * out * sizeof(float);
  Scratch scratch{gradient,
                  threads * (4 * (pixels * in + (out_pixels + 1) * out) * element + 2 * gradient + library_thread)};
  const std::size_t rows = unsign(p.batch) * out_pixels, patch = kernel * in;
  const bool pixelwise = kernel == 1 && p.padding == 0;
  if (pixelwise || rows * kernel * unsign(p.in_channels) * element <= std::size_t{32} << 20) {
    const std::size_t whole = up(rows, block) * (2 * up(patch, block) + up(out, block)) * element + 2 * page;
    scratch.workspace = std::max({scratch.workspace, whole, sliced(patch, out, element, threads)});
    scratch.library = std::max(scratch.library, threads * library_bytes(rows, patch, out, element));
  }
  return scratch;
}

}  // namespace

std::size_t workspace_estimate(const NetworkDescription& network, DType precision, std::int64_t micro_batch,
                               std::int64_t seq_len, int thread_count) {
  const std::size_t element = size_of(precision), threads = unsign(thread_count);
  Scratch most;
  std::size_t channels = 4096;  // what a device provides for without being asked
  for (const Product& p : products(network, micro_batch, seq_len)) {
    Scratch scratch;
    switch (p.kind) {
      case Product::Kind::linear:
        scratch = linear(p, element, threads);
        break;
      case Product::Kind::classifier:
        scratch = classifier(p, element, threads);
        break;
      case Product::Kind::attention:
        scratch = attention(p, element, threads);
        break;
      case Product::Kind::interaction:  // the features of a sample, for each thread
        scratch.library = threads * 3 * unsign(p.heads) * unsign(p.head_dim + p.heads) * sizeof(float);
        break;
      case Product::Kind::convolution:
        scratch = convolution(p, element, threads);
        break;
    }
    most = {std::max(most.workspace, scratch.workspace), std::max(most.library, scratch.library)};
    channels = std::max({channels, unsign(p.in_features), unsign(p.in_channels), unsign(p.out_channels)});
  }
  const std::size_t norms = channels * (2 * sizeof(double) * threads + 4 * sizeof(float));
  return most.workspace + most.library + norms;
}

}  // namespace tw::models
