// This file is compiled without contraction of a·b + c: its numbers are those of the devices.
#include "models/data/image_source.hpp"

#include <algorithm>
#include <string>

#include "models/compute/error.hpp"
#include "models/compute/synthetic.hpp"
#include "models/data/gaussian.hpp"

namespace tw::models {
namespace {

constexpr std::int64_t piece_pixels = 1024;  // a multiple of 4, so that noise starts on a Philox block
constexpr int max_channels = 16;

void store(float value, float& out) { out = value; }
void store(float value, bf16& out) { out = to_bf16(value); }
void store(float value, fp16& out) { out = to_fp16(value); }

}  // namespace

ImageSource::ImageSource(int size, int channels, std::int64_t classes, std::uint64_t seed)
    : size_(size), channels_(channels), classes_(classes), seed_(seed) {
  if (channels < 1 || channels > max_channels) {
    throw Error(Failure::usage, "synthetic images have 1 to 16 channels, not " + std::to_string(channels));
  }
  // The open half plane y > 0, or y = 0 and x > 0, below Nyquist: (x, y) and (−x, −y) are the same wave. Multiples of
  // the largest spacing that gives enough, so that a small window of the image tells classes apart.
  const int limit = (size - 1) / 2;
  for (int spacing = std::max(1, limit); spacing >= 1; --spacing) {
    frequencies_.clear();
    const int most = limit / spacing;
    for (int y = 0; y <= most; ++y) {
      for (int x = y == 0 ? 1 : -most; x <= most; ++x) frequencies_.push_back({x * spacing, y * spacing});
    }
    if (static_cast<std::int64_t>(frequencies_.size()) >= classes) break;
  }
  if (static_cast<std::int64_t>(frequencies_.size()) < classes) {
    throw Error(Failure::usage, "images of " + std::to_string(size) + "×" + std::to_string(size) +
                                    " pixels have only " + std::to_string(frequencies_.size()) +
                                    " orthogonal gratings, not " + std::to_string(classes) + " classes");
  }
  std::ranges::stable_sort(frequencies_, {}, [](Frequency f) { return f.x * f.x + f.y * f.y; });
  frequencies_.resize(static_cast<std::size_t>(classes));
}

template <class T>
void ImageSource::fill_piece(std::uint64_t stream, std::int64_t label, float phase_turns, std::int64_t begin,
                             std::int64_t end, T* image) const {
  float pixels[piece_pixels * max_channels];
  fill_normal(pixels, (end - begin) * channels_, sigma, seed_, stream, begin * channels_);

  // The wave takes `size` values only: A·cos(2π(j/S + phase)), j = (fx·column + fy·row) mod S.
  const Frequency f = frequencies_[static_cast<std::size_t>(label)];
  thread_local std::vector<float> wave;
  wave.resize(static_cast<std::size_t>(size_));
  for (int j = 0; j < size_; ++j) wave[static_cast<std::size_t>(j)] = synthetic::wave(amplitude, j, size_, phase_turns);
  const int step = (f.x % size_ + size_) % size_;
  float* value = pixels;
  for (std::int64_t pixel = begin; pixel < end;) {
    const std::int64_t row = pixel / size_, column = pixel % size_;
    const std::int64_t row_end = std::min(end, (row + 1) * size_);
    int j = static_cast<int>((f.x * column + f.y * row) % size_);
    j = j < 0 ? j + size_ : j;
    for (; pixel < row_end; ++pixel) {
      const float signal = wave[static_cast<std::size_t>(j)];
      for (int channel = 0; channel < channels_; ++channel) *value++ += signal;
      j += step;
      j = j >= size_ ? j - size_ : j;
    }
  }
  T* out = image + begin * channels_;
  for (std::int64_t i = 0; i < (end - begin) * channels_; ++i) store(pixels[i], out[i]);
}

void ImageSource::fill(Split split, std::uint64_t first_sample, std::int64_t count, DType dtype, void* images,
                       std::int32_t* labels, int threads, std::int32_t* true_labels) const {
  const std::int64_t pixels = std::int64_t{size_} * size_;
  const std::int64_t pieces = (pixels + piece_pixels - 1) / piece_pixels;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t work = 0; work < count * pieces; ++work) {
    const std::int64_t image = work / pieces, begin = work % pieces * piece_pixels;
    const std::int64_t end = std::min(pixels, begin + piece_pixels);
    const std::uint64_t stream = random_stream(purpose(split), first_sample + static_cast<std::uint64_t>(image));
    const synthetic::ImageDraw drawn = synthetic::draw_image(seed_, stream, classes_, noise(split));
    if (begin == 0) {
      labels[image] = drawn.label;
      if (true_labels != nullptr) true_labels[image] = drawn.true_label;
    }
    const std::int64_t offset = image * pixels * channels_;
    if (dtype == DType::bf16) {
      fill_piece(stream, drawn.true_label, drawn.phase_turns, begin, end, static_cast<bf16*>(images) + offset);
    } else if (dtype == DType::fp16) {
      fill_piece(stream, drawn.true_label, drawn.phase_turns, begin, end, static_cast<fp16*>(images) + offset);
    } else {
      fill_piece(stream, drawn.true_label, drawn.phase_turns, begin, end, static_cast<float*>(images) + offset);
    }
  }
}

Grating ImageSource::grating(Split split, std::uint64_t sample) const {
  const synthetic::ImageDraw drawn =
      synthetic::draw_image(seed_, random_stream(purpose(split), sample), classes_, noise(split));
  return {frequencies_[static_cast<std::size_t>(drawn.true_label)], drawn.phase_turns};
}

std::uint64_t ImageSource::purpose(Split split) {
  return random_purpose(split == Split::training ? "images.training" : "images.held_out");
}

GenerateImages ImageSource::on_device(Split split, std::uint64_t first_sample) const {
  GenerateImages args;
  args.seed = seed_;
  args.purpose = purpose(split);
  args.first_sample = first_sample;
  args.amplitude = amplitude;
  args.sigma = sigma;
  args.label_noise = noise(split);
  return args;
}

std::vector<std::int32_t> ImageSource::table() const {
  std::vector<std::int32_t> table;
  for (const Frequency& f : frequencies_) {
    table.push_back((f.x % size_ + size_) % size_);
    table.push_back((f.y % size_ + size_) % size_);
  }
  return table;
}

double ImageSource::bayes_error(Split split) const {
  const double error = grating_error(size_, channels_, classes_);
  if (split == Split::held_out) return error;
  return 1 - (1 - label_noise) * (1 - error) - label_noise / static_cast<double>(classes_);
}

}  // namespace tw::models
