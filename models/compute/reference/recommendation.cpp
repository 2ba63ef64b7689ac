// Embedding bags, interaction of features, binary cross-entropy.
#include <algorithm>
#include <cmath>
#include <map>

#include "models/compute/error.hpp"
#include "models/compute/formulas.hpp"
#include "models/compute/reference/reference.hpp"

namespace tw::models::reference {
namespace {

/// body(index of the bag (sample · slots + slot), row of all tables) for each occurrence, in order. Throws for an index
/// that its table lacks, or a table that reaches beyond `all` rows.
template <class Body>
void each_occurrence(const char* op, const Tensor& tables, const Tensor& indices, std::int64_t all, Body&& body) {
  const std::int64_t slots = tables.dims[0], hot = indices.dims[2];
  const auto* extents = tables.as<std::int32_t>();
  const auto* index = indices.as<std::int32_t>();
  const auto refuse = [op](const std::string& what) { throw Error(Failure::usage, std::string(op) + ": " + what); };
  for (std::int64_t s = 0; s < slots; ++s) {
    const std::int64_t first = extents[2 * s], count = extents[2 * s + 1];
    if (first < 0 || count < 0 || first + count > all)
      refuse("tables: slot " + std::to_string(s) + " is not within the " + std::to_string(all) + " rows");
  }
  for (std::int64_t i = 0; i < indices.count(); ++i) {
    const std::int64_t bag = i / hot, slot = bag % slots, count = extents[2 * slot + 1];
    if (count == 0) continue;
    if (index[i] < 0 || index[i] >= count)
      refuse("indices: wanted values in [0, " + std::to_string(count) + "), given " + std::to_string(index[i]) +
             " at " + std::to_string(i));
    body(bag, extents[2 * slot] + index[i]);
  }
}

/// Of each feature of sample i, where its values begin in the loaded tensors.
struct Features {
  const Values &dense, &bags;
  const std::int32_t* places;
  std::int64_t batch, slots, width;
  std::int64_t bag(std::int64_t i, std::int64_t feature) const {
    const std::int64_t shard = places[feature - 1] / slots, slot = places[feature - 1] % slots;
    return ((shard * batch + i) * slots + slot) * width;
  }
  const double* at(std::int64_t i, std::int64_t feature) const {
    return feature == 0 ? dense.data() + i * width : bags.data() + bag(i, feature);
  }
};

void check_places(const char* op, const Tensor& places, const Tensor& bags) {
  const std::int64_t all = bags.dims[0] * bags.dims[2];
  for (std::int64_t f = 0; f < places.count(); ++f) {
    const std::int32_t place = places.as<std::int32_t>()[f];
    if (place < 0 || place >= all)
      throw Error(Failure::usage, std::string(op) + ": places: wanted values in [0, " + std::to_string(all) +
                                      "), given " + std::to_string(place));
  }
}

}  // namespace

void ReferenceDevice::do_embedding_bag_forward(Stream&, const EmbeddingBagForward& args) {
  const std::int64_t width = args.y.dims[2];
  Values y(static_cast<std::size_t>(args.y.count()), 0.0);
  each_occurrence("embedding_bag_forward", args.tables, args.indices, args.rows.dims[0],
                  [&](std::int64_t bag, std::int64_t row) {
                    for (std::int64_t j = 0; j < width; ++j)
                      y[bag * width + j] += args.rows.as<float>()[row * width + j];
                  });
  store(args.y, y);
}

void ReferenceDevice::do_embedding_bag_update(Stream&, const EmbeddingBagUpdate& args) {
  const std::int64_t width = args.dy.dims[2];
  const StepScalars& step = *args.scalars;
  const Values dy = load(args.dy);
  std::map<std::int64_t, Values> sums;  // only the rows that occur
  each_occurrence("embedding_bag_update", args.tables, args.indices, args.rows.dims[0],
                  [&](std::int64_t bag, std::int64_t row) {
                    Values& sum = sums.try_emplace(row, static_cast<std::size_t>(width), 0.0).first->second;
                    for (std::int64_t j = 0; j < width; ++j) sum[j] += dy[bag * width + j];
                  });
  if (step.found_non_finite != 0) return;
  const double rate =
      static_cast<double>(step.learning_rate) * step.gradient_scale * step.clip_factor / step.loss_scale;
  for (const auto& [row, sum] : sums) {
    float* values = args.rows.as<float>() + row * width;
    for (std::int64_t j = 0; j < width; ++j) values[j] = static_cast<float>(values[j] - rate * sum[j]);
  }
}

void ReferenceDevice::do_interaction_forward(Stream&, const InteractionForward& args) {
  check_places("interaction_forward", args.places, args.bags);
  const std::int64_t batch = args.dense.dims[0], width = args.dense.dims[1], features = args.places.dims[0];
  const Values dense = load(args.dense), bags = load(args.bags);
  const Features z{dense, bags, args.places.as<std::int32_t>(), batch, args.bags.dims[2], width};
  Values y;
  for (std::int64_t i = 0; i < batch; ++i) {
    y.insert(y.end(), z.at(i, 0), z.at(i, 0) + width);
    for (std::int64_t a = 1; a <= features; ++a) {
      for (std::int64_t b = 0; b < a; ++b) {
        double dot = 0;
        for (std::int64_t j = 0; j < width; ++j) dot += z.at(i, a)[j] * z.at(i, b)[j];
        y.push_back(dot);
      }
    }
  }
  store(args.y, y);
}

void ReferenceDevice::do_interaction_backward(Stream&, const InteractionBackward& args) {
  check_places("interaction_backward", args.places, args.bags);
  const std::int64_t batch = args.dense.dims[0], width = args.dense.dims[1], features = args.places.dims[0];
  const Values dense = load(args.dense), bags = load(args.bags), dy = load(args.dy);
  const Features z{dense, bags, args.places.as<std::int32_t>(), batch, args.bags.dims[2], width};
  Values d_dense(dense.size(), 0.0);
  for (std::int64_t i = 0; i < batch; ++i) {
    Values d(static_cast<std::size_t>((features + 1) * width), 0.0);
    const double* of_sample = dy.data() + i * args.dy.dims[1];
    for (std::int64_t j = 0; j < width; ++j) d[j] = of_sample[j];
    const double* of_pair = of_sample + width;
    for (std::int64_t a = 1; a <= features; ++a) {
      for (std::int64_t b = 0; b < a; ++b, ++of_pair) {
        for (std::int64_t j = 0; j < width; ++j) {
          d[a * width + j] += *of_pair * z.at(i, b)[j];
          d[b * width + j] += *of_pair * z.at(i, a)[j];
        }
      }
    }
    std::copy(d.begin(), d.begin() + width, d_dense.begin() + i * width);
    for (std::int64_t f = 1; f <= features; ++f) {
      const Tensor d_bag = args.d_bags.slice(z.bag(i, f), {width});
      store(d_bag, Values(d.begin() + f * width, d.begin() + (f + 1) * width));
      for (const double value : load(d_bag))  // as stored
        if (!std::isfinite(value)) std::fill_n(d_dense.begin() + i * width, width, std::nan(""));
    }
  }
  store(args.d_dense, d_dense);
}

void ReferenceDevice::do_binary_cross_entropy(Stream&, const BinaryCrossEntropy& args) {
  const Values logits = load(args.logits);
  const auto rows = static_cast<double>(logits.size());
  const double scale = args.scalars != nullptr ? static_cast<double>(args.scalars->loss_scale) : 1.0;
  Values d_logits(logits.size());
  double loss = 0;
  std::int32_t correct = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::int32_t target = args.targets.as<std::int32_t>()[i];
    if (target != 0 && target != 1)
      throw Error(Failure::usage, "binary_cross_entropy: targets: wanted 0 or 1, given " + std::to_string(target) +
                                      " in row " + std::to_string(i));
    loss += formula::binary_cross_entropy<double>(logits[i], target);
    correct += (logits[i] > 0) == (target == 1) ? 1 : 0;
    d_logits[i] = (formula::sigmoid(logits[i]) - target) / rows * scale;
  }
  store(args.loss, {loss / rows});
  if (args.correct) *args.correct.as<std::int32_t>() = correct;
  if (args.d_logits) store(args.d_logits, d_logits);
}

}  // namespace tw::models::reference
