// Learnable images with a known Bayes error: gratings in noise.
//
//   pixel(row, column, channel) = A·cos(2π(fx·column + fy·row)/S + phase) + σ·z,  σ = A = 1
//
// Each class has its own integer frequency pair; the phase is uniform and z standard normal. In training the label is
// replaced with probability η by a uniform one (of all C), as labels in the field are wrong; held-out labels are right:
// noise in them teaches nobody anything, and how much of it a small set has drawn would decide when a target is
// reached. Integer pairs from an open half plane without the Nyquist rows are orthogonal in both quadratures, so this
// is non-coherent orthogonal signalling with γ = E/N₀ = A²N/4σ², N = S²·channels, and the error P of the best
// classifier is known (models/catalog/floors.hpp); with noisy labels it is 1 − (1−η)(1−P) − η/C. Classes lie on a grid
// of frequencies, as coarse as there is room for: tried on the tiny ResNet, that and A = σ make learning visible in 40
// steps of 16 images, where the lowest frequencies and A = σ/2 need 100; P of 16×16×3 images is 0 to forty digits.
// Input is rounded to bf16 in bf16 precision, which adds noise of relative size 2⁻⁹ and leaves the formula as it is.
#pragma once

#include <cstdint>
#include <vector>

#include "models/catalog/floors.hpp"
#include "models/compute/operators.hpp"
#include "models/data/token_source.hpp"  // Split

namespace tw::models {

/// One class' waves per image width and height.
struct Frequency {
  int x = 0, y = 0;
};

/// What an image shows behind its noise.
struct Grating {
  Frequency frequency;
  float phase_turns = 0;
};

class ImageSource {
 public:
  static constexpr float amplitude = grating_amplitude, sigma = grating_sigma, label_noise = 0.1f;

  /// Throws Error{usage} where a size × size image has fewer than `classes` orthogonal frequencies.
  ImageSource(int size, int channels, std::int64_t classes, std::uint64_t seed);
  /// Images [first_sample, first_sample + count), float32, bf16 or fp16 (count, size, size, channels), and their
  /// labels, noisy in training. `true_labels` optionally gets the labels before noise.
  void fill(Split split, std::uint64_t first_sample, std::int64_t count, DType dtype, void* images,
            std::int32_t* labels, int threads, std::int32_t* true_labels = nullptr) const;
  Grating grating(Split split, std::uint64_t sample) const;
  /// Of the best classifier, on the labels of this split.
  double bayes_error(Split split) const;
  const std::vector<Frequency>& frequencies() const { return frequencies_; }
  /// The same samples by a device: all but the tensors, and the values of `frequencies` (classes · 2).
  GenerateImages on_device(Split split, std::uint64_t first_sample) const;
  std::vector<std::int32_t> table() const;

 private:
  static std::uint64_t purpose(Split split);
  static float noise(Split split) { return split == Split::training ? label_noise : 0.0f; }
  template <class T>
  void fill_piece(std::uint64_t stream, std::int64_t label, float phase_turns, std::int64_t begin, std::int64_t end,
                  T* image) const;

  int size_, channels_;
  std::int64_t classes_;
  std::uint64_t seed_;
  std::vector<Frequency> frequencies_;  // (classes), lowest first
};

}  // namespace tw::models
