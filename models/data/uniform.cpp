#include "models/data/uniform.hpp"

#include "models/compute/philox.hpp"

namespace tw::models {

void fill_uniform_parallel(float* out, std::int64_t count, float bound, std::uint64_t seed, std::uint64_t stream,
                           std::int64_t begin, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t block = 0; block < (count + 3) / 4; ++block) {
    const PhiloxWords words = random_block(seed, stream, static_cast<std::uint64_t>(begin / 4 + block));
    for (std::int64_t k = 0; k < 4 && 4 * block + k < count; ++k)
      out[4 * block + k] = bound * (2 * to_uniform(words.word[k]) - 1);  // 2u − 1 is exact
  }
}

}  // namespace tw::models
