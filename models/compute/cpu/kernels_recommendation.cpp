// Embedding bags, interaction of features, binary cross-entropy.
#include <algorithm>
#include <limits>
#include <vector>

#include "models/compute/cpu/kernel_support.hpp"

namespace tw::models::cpu::TW_ISA {

namespace {

template <class T>
TW_LOOP void add_row(const T* row, float* sum, Index count) {
  TW_SIMD
  for (Index c = 0; c < count; ++c) sum[c] += to_float(row[c]);
}
TW_LOOP void subtract_scaled(const float* x, float factor, float* row, Index count) {
  TW_SIMD
  for (Index c = 0; c < count; ++c) row[c] -= factor * x[c];
}
template <class T>
TW_LOOP void narrow_row(const float* x, T* y, Index count) {
  TW_SIMD
  for (Index c = 0; c < count; ++c) store(y + c, x[c]);
}
template <class T>
TW_LOOP void widen_row(const T* x, float* y, Index count) {
  TW_SIMD
  for (Index c = 0; c < count; ++c) y[c] = to_float(x[c]);
}
TW_LOOP float dot(const float* a, const float* b, Index count) {
  float sum = 0;
  TW_SIMD_SUM(sum)
  for (Index c = 0; c < count; ++c) sum += a[c] * b[c];
  return sum;
}
TW_LOOP void add_scaled(const float* x, float factor, float* y, Index count) {
  TW_SIMD
  for (Index c = 0; c < count; ++c) y[c] += factor * x[c];
}

template <class T>
TW_LOOP int count_non_finite(const T* x, Index count) {
  int found = 0;
  TW_SIMD_SUM(found)
  for (Index c = 0; c < count; ++c) found += std::fabs(to_float(x[c])) <= std::numeric_limits<float>::max() ? 0 : 1;
  return found;
}

/// The features of one sample as float32, (features + 1, width).
template <class T, class Args>
void load_features(const Args& args, Index i, float* z) {
  const Index batch = args.dense.dims[0], width = args.dense.dims[1], features = args.places.dims[0];
  const Index slots = args.bags.dims[2];
  const std::int32_t* places = args.places.template as<std::int32_t>();
  widen_row(args.dense.template as<T>() + i * width, z, width);
  for (Index f = 0; f < features; ++f) {
    const Index shard = places[f] / slots, slot = places[f] % slots;
    widen_row(args.bags.template as<T>() + ((shard * batch + i) * slots + slot) * width, z + (f + 1) * width, width);
  }
}

}  // namespace

void embedding_bag_forward(int threads, DType dtype, const EmbeddingBagForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index slots = args.tables.dims[0], hot = args.indices.dims[2], width = args.y.dims[2];
    const Index bags = args.y.dims[0] * slots;
    const std::int32_t *tables = args.tables.as<std::int32_t>(), *indices = args.indices.as<std::int32_t>();
    const float* rows = args.rows.as<float>();
    in_shares(threads, bags * hot * width, bags, 1, [&](Range range) {
      std::vector<float> sum(static_cast<std::size_t>(width));
      constexpr Index ahead = 8;  // bags whose first rows are on their way
      for (Index bag = range.begin; bag < range.end; ++bag) {
        if (const Index next = bag + ahead; next < range.end && tables[2 * (next % slots) + 1] > 0)
          prefetch(rows + (tables[2 * (next % slots)] + indices[next * hot]) * width, width);
        std::memset(sum.data(), 0, sum.size() * sizeof(float));
        const Index slot = bag % slots;
        if (tables[2 * slot + 1] > 0) {
          for (Index h = 0; h < hot; ++h)
            add_row(rows + (Index{tables[2 * slot]} + indices[bag * hot + h]) * width, sum.data(), width);
        }
        narrow_row(sum.data(), args.y.as<T>() + bag * width, width);
      }
    });
  });
}

void embedding_bag_update(int threads, DType dtype, const EmbeddingBagUpdate& args) {
  const StepScalars& step = *args.scalars;
  if (step.found_non_finite != 0) return;
  const float factor = step.learning_rate * (step.gradient_scale * step.clip_factor / step.loss_scale);
  with_type(dtype, [&]<class T>(T*) {
    const Index slots = args.tables.dims[0], hot = args.indices.dims[2], width = args.dy.dims[2];
    const Index count = args.indices.count();
    const std::int32_t *tables = args.tables.as<std::int32_t>(), *indices = args.indices.as<std::int32_t>();
    float* rows = args.rows.as<float>();
    in_parallel(threads, count * width, [&](int part, int parts) {
      // Each thread owns the rows with row % parts == part: summed in order of occurrence, whatever the number of
      // threads, and changed once, so that many small contributions are not lost beside a large value.
      std::vector<std::uint64_t> occurrences;  // row and number
      for (Index i = 0; i < count; ++i) {
        const Index slot = i / hot % slots, row = Index{tables[2 * slot]} + indices[i];
        if (tables[2 * slot + 1] > 0 && row % parts == part)
          occurrences.push_back(static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(i));
      }
      std::sort(occurrences.begin(), occurrences.end());
      std::vector<float> sum(static_cast<std::size_t>(width));
      for (std::size_t i = 0; i < occurrences.size();) {
        const std::uint64_t row = occurrences[i] >> 32;
        std::memset(sum.data(), 0, sum.size() * sizeof(float));
        for (; i < occurrences.size() && occurrences[i] >> 32 == row; ++i) {
          const Index bag = static_cast<Index>(occurrences[i] & 0xffffffffu) / hot;
          add_row(args.dy.as<T>() + bag * width, sum.data(), width);
        }
        subtract_scaled(sum.data(), factor, rows + static_cast<Index>(row) * width, width);
      }
    });
  });
}

void interaction_forward(int threads, DType dtype, const InteractionForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index batch = args.dense.dims[0], width = args.dense.dims[1], features = args.places.dims[0];
    const Index out = args.y.dims[1];
    in_shares(threads, batch * out * width, batch, 1, [&](Range range) {
      std::vector<float> z(static_cast<std::size_t>((features + 1) * width)), y(static_cast<std::size_t>(out));
      for (Index i = range.begin; i < range.end; ++i) {
        load_features<T>(args, i, z.data());
        std::memcpy(y.data(), z.data(), static_cast<std::size_t>(width) * sizeof(float));
        float* pair = y.data() + width;
        for (Index a = 1; a <= features; ++a)
          for (Index b = 0; b < a; ++b) *pair++ = dot(z.data() + a * width, z.data() + b * width, width);
        narrow_row(y.data(), args.y.as<T>() + i * out, out);
      }
    });
  });
}

void interaction_backward(int threads, DType dtype, const InteractionBackward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index batch = args.dense.dims[0], width = args.dense.dims[1], features = args.places.dims[0];
    const Index out = args.dy.dims[1], slots = args.bags.dims[2];
    const std::int32_t* places = args.places.as<std::int32_t>();
    in_shares(threads, 2 * batch * out * width, batch, 1, [&](Range range) {
      std::vector<float> z(static_cast<std::size_t>((features + 1) * width)), dz(z.size()),
          dy(static_cast<std::size_t>(out));
      for (Index i = range.begin; i < range.end; ++i) {
        load_features<T>(args, i, z.data());
        widen_row(args.dy.as<T>() + i * out, dy.data(), out);
        std::memset(dz.data(), 0, dz.size() * sizeof(float));
        std::memcpy(dz.data(), dy.data(), static_cast<std::size_t>(width) * sizeof(float));
        const float* pair = dy.data() + width;
        for (Index a = 1; a <= features; ++a) {
          for (Index b = 0; b < a; ++b, ++pair) {
            add_scaled(z.data() + b * width, *pair, dz.data() + a * width, width);
            add_scaled(z.data() + a * width, *pair, dz.data() + b * width, width);
          }
        }
        int non_finite = 0;
        for (Index f = 0; f < features; ++f) {
          const Index shard = places[f] / slots, slot = places[f] % slots;
          T* d_bag = args.d_bags.as<T>() + ((shard * batch + i) * slots + slot) * width;
          narrow_row(dz.data() + (f + 1) * width, d_bag, width);
          non_finite += count_non_finite(d_bag, width);
        }
        if (non_finite > 0) std::fill_n(dz.data(), width, std::numeric_limits<float>::quiet_NaN());
        narrow_row(dz.data(), args.d_dense.as<T>() + i * width, width);
      }
    });
  });
}

// One thread: a logit for each sample.
void binary_cross_entropy(int, DType dtype, const BinaryCrossEntropy& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.logits.count();
    const T* logits = args.logits.as<T>();
    const std::int32_t* targets = args.targets.as<std::int32_t>();
    const float scale = args.scalars != nullptr ? args.scalars->loss_scale : 1.0f;
    double loss = 0;
    std::int32_t correct = 0;
    for (Index i = 0; i < rows; ++i) {
      const float z = to_float(logits[i]), target = static_cast<float>(targets[i]);
      loss += static_cast<double>(formula::binary_cross_entropy(z, target));
      correct += (z > 0) == (targets[i] == 1) ? 1 : 0;
      if (args.d_logits)
        store(args.d_logits.as<T>() + i, (formula::sigmoid(z) - target) / static_cast<float>(rows) * scale);
    }
    *args.loss.as<float>() = static_cast<float>(loss / static_cast<double>(rows));
    if (args.correct) *args.correct.as<std::int32_t>() = correct;
  });
}

}  // namespace tw::models::cpu::TW_ISA
