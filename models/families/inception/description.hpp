// Inception-v3 (Szegedy et al., arXiv 1512.00567) as torchvision defines it, auxiliary head included: NHWC, batch norm.
#pragma once

#include <string>
#include <vector>

#include "models/catalog/description.hpp"

namespace tw::models {

struct InceptionDescription {
  // Modules in order, by torchvision's names of their kinds: A for each entry of pool_features, B, C for each of
  // factorised_channels, D, and E.
  std::vector<int> pool_features = {32, 64, 64};                ///< A: channels behind its average pool
  std::vector<int> factorised_channels = {128, 160, 160, 192};  ///< C: channels between its 1×7 and 7×1 kernels
  int wide_modules = 2;                                         ///< E
  int narrowing = 1;       ///< all channels of the published network, those above included, are divided by this
  int stem_stride = 2;     ///< of the first convolution
  bool stem_pools = true;  ///< both 3×3 stride 2 max pools of the stem
  int image_size = 299, image_channels = 3;
  int auxiliary_kernel = 5;       ///< of the auxiliary head's second convolution
  float auxiliary_weight = 0.4f;  ///< of the auxiliary head's loss in the sum
  std::int64_t classes = 1000;
  float label_smoothing = 0.1f;
};

namespace family::inception {

constexpr float norm_epsilon = 1e-3f, norm_momentum = 0.1f;
/// Of the max pools everywhere.
constexpr int max_kernel = 3, max_stride = 2;
/// Of the average pool in front of the auxiliary head, and of that in the modules (padded by 1).
constexpr int auxiliary_pool_kernel = 5, auxiliary_pool_stride = 3, branch_pool_kernel = 3;

/// A convolution without bias, batch norm and ReLU: torchvision's BasicConv2d.
struct Unit {
  /// Where x comes from, if not from another unit.
  enum Source : int { module_input = -1, pooled_input = -2 };  // pooled: 3×3 average, stride 1, padding 1
  std::string name;                                            ///< "branch5x5_1"
  Product::PerAxis kernel = 1, stride = 1, padding = 0;
  std::int64_t size = 0, in_channels = 0, out_channels = 0;  ///< size: height and width of x
  int source = module_input;                                 ///< or the index of a unit in front of it
  bool joined = false;  ///< its output is part of the module's, in the order of the units

  std::int64_t out_size() const { return (size + 2 * padding.height - kernel.height) / stride.height + 1; }
};

/// One inception module. Its output is that of its joined units, and behind them the max pool of its input where it has
/// that.
struct Module {
  std::string name;  ///< "Mixed_5b"
  std::int64_t size = 0, in_channels = 0, out_size = 0, out_channels = 0;
  std::vector<Unit> units;
  bool joins_max_pool = false;
  bool has_average_pool() const;
};

/// Average pool, 1×1 and k×k convolution, global average pool, classifier; on the input of module `module`.
struct Auxiliary {
  std::size_t module = 0;
  std::int64_t size = 0, in_channels = 0;
  std::vector<Unit> units;  ///< both
};

/// The convolutions in order, with the sizes of their maps; these may be too small for a kernel.
struct Layout {
  std::vector<Unit> stem;        ///< each behind the other
  std::vector<bool> stem_pools;  ///< whether a max pool is behind that unit
  std::vector<Module> modules;
  Auxiliary auxiliary;
  std::int64_t size = 0, channels = 0;  ///< of the last module's output
};
Layout layout(const InceptionDescription& sizes);

std::shared_ptr<const NetworkShape> shape(const InceptionDescription& sizes);

}  // namespace family::inception
}  // namespace tw::models
