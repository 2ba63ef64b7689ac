// This file is compiled without contraction of a·b + c: its numbers are the same on every machine.
#include "models/data/value_source.hpp"

#include <cmath>

#include "models/compute/philox.hpp"
#include "models/compute/synthetic.hpp"
#include "models/data/gaussian.hpp"

namespace tw::models {
namespace {

void store(const Tensor& to, std::int64_t i, float value) {
  if (to.dtype == DType::bf16)
    to.as<bf16>()[i] = to_bf16(value);
  else if (to.dtype == DType::fp16)
    to.as<fp16>()[i] = to_fp16(value);
  else
    to.as<float>()[i] = value;
}

}  // namespace

ValueSource::ValueSource(const DataDescription& data, std::uint64_t seed) : data_(data), seed_(seed) {
  if (data.kind != DataKind::series) images_.emplace(data.image_size, data.image_channels, data.classes, seed);
  for (std::int64_t v = 0; v < data.variables; ++v) processes_.push_back(series_process(v));
}

void ValueSource::restore(Split split, std::uint64_t sample, float* targets) const {
  const Grating grating = images_->grating(split, sample);
  const int size = data_.image_size * data_.scale;
  thread_local std::vector<float> wave;  // which takes `size` values only
  wave.resize(static_cast<std::size_t>(size));
  for (int j = 0; j < size; ++j)
    wave[static_cast<std::size_t>(j)] = synthetic::wave(ImageSource::amplitude, j, size, grating.phase_turns);
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column) {
      const int j = (grating.frequency.x * column + grating.frequency.y * row) % size;
      *targets++ = wave[static_cast<std::size_t>(j < 0 ? j + size : j)];
    }
  }
}

void ValueSource::measure(Split split, std::uint64_t sample, float* targets) const {
  const float phase = images_->grating(split, sample).phase_turns;
  targets[0] = synthetic::wave(1, 0, 4, phase);
  targets[1] = synthetic::wave(1, 3, 4, phase);  // cos(x + 3π/2) = sin x
}

void ValueSource::fill_series(Split split, std::uint64_t sample, const Tensor& series, float* targets) const {
  const std::int64_t times = series.dims[0], variables = series.dims[1];
  std::vector<float> z(static_cast<std::size_t>((times + 2) * variables));  // the first time is not shown
  const char* const purpose = split == Split::training ? "series.training" : "series.held_out";
  fill_normal(z.data(), static_cast<std::int64_t>(z.size()), 1, seed_, random_stream(purpose, sample), 0);
  for (std::int64_t v = 0; v < variables; ++v) {
    const Autoregression& p = processes_[static_cast<std::size_t>(v)];
    const auto normal = [&](std::int64_t t) {
      return static_cast<double>(z[static_cast<std::size_t>(t * variables + v)]);
    };
    const double deviation = std::sqrt(p.innovation);
    double before = normal(0), last = p.correlation * before + std::sqrt(1 - p.correlation * p.correlation) * normal(1);
    for (std::int64_t t = 0; t < times; ++t) {
      store(series, t * variables + v, static_cast<float>(last));
      const double next = p.first * last + p.second * before + deviation * normal(t + 2);
      targets[t * variables + v] = static_cast<float>(next);
      before = last, last = next;
    }
  }
}

void ValueSource::fill(Split split, std::uint64_t first_sample, const Tensor& shape, void* inputs, float* targets,
                       int threads) {
  const std::int64_t count = shape.dims[0];
  if (images_) {
    labels_.resize(static_cast<std::size_t>(count));
    images_->fill(split, first_sample, count, shape.dtype, inputs, labels_.data(), threads);
  }
  const std::int64_t size = std::int64_t{data_.image_size} * data_.scale;
  const std::int64_t each = data_.kind == DataKind::restored_images   ? size * size
                            : data_.kind == DataKind::measured_images ? measured_values
                                                                      : shape.count() / count;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(i);
    float* const own = targets + i * each;
    if (data_.kind == DataKind::restored_images)
      restore(split, sample, own);
    else if (data_.kind == DataKind::measured_images)
      measure(split, sample, own);
    else
      fill_series(split, sample, Tensor{inputs, shape.dtype, {}}.slice(i * each, {shape.dims[1], shape.dims[2]}), own);
  }
}

}  // namespace tw::models
