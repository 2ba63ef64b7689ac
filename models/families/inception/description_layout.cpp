// Which convolutions the network has, as torchvision defines it.
#include <algorithm>

#include "models/families/inception/description.hpp"

namespace tw::models::family::inception {
namespace {

using Axes = Product::PerAxis;

std::int64_t max_pooled(std::int64_t size) { return (size - max_kernel) / max_stride + 1; }

/// Adds units to a module in torchvision's order.
class Builder {
 public:
  Builder(std::string name, std::int64_t size, std::int64_t channels, int narrowing) : narrowing_(narrowing) {
    made_.name = std::move(name);
    made_.size = size;
    made_.in_channels = channels;
  }
  /// Returns its index.
  int add(const char* name, int source, int channels, Axes kernel, Axes padding = 0, int stride = 1) {
    Unit unit{name, kernel, stride, padding};
    unit.source = source;
    unit.size = source < 0 ? made_.size : at(source).out_size();
    unit.in_channels = source < 0 ? made_.in_channels : at(source).out_channels;
    unit.out_channels = channels / narrowing_;
    made_.units.push_back(unit);
    return static_cast<int>(made_.units.size()) - 1;
  }
  void join(const char* name, int source, int channels, Axes kernel, Axes padding = 0, int stride = 1) {
    at(add(name, source, channels, kernel, padding, stride)).joined = true;
  }
  Module made(bool joins_max_pool = false) {
    made_.joins_max_pool = joins_max_pool;
    if (joins_max_pool) made_.out_channels = made_.in_channels;
    for (const Unit& unit : made_.units) {
      if (!unit.joined) continue;
      made_.out_channels += unit.out_channels;
      made_.out_size = unit.out_size();
    }
    return made_;
  }

 private:
  Unit& at(int index) { return made_.units[static_cast<std::size_t>(index)]; }
  int narrowing_;
  Module made_;
};

constexpr int input = Unit::module_input, pooled = Unit::pooled_input;

// 35×35 maps in the published network.
Module module_a(Builder b, int pool_features) {
  b.join("branch1x1", input, 64, 1);
  const int wide = b.add("branch5x5_1", input, 48, 1);
  b.join("branch5x5_2", wide, 64, 5, 2);
  const int first = b.add("branch3x3dbl_1", input, 64, 1), second = b.add("branch3x3dbl_2", first, 96, 3, 1);
  b.join("branch3x3dbl_3", second, 96, 3, 1);
  b.join("branch_pool", pooled, pool_features, 1);
  return b.made();
}

// To 17×17.
Module module_b(Builder b) {
  b.join("branch3x3", input, 384, 3, 0, 2);
  const int first = b.add("branch3x3dbl_1", input, 64, 1), second = b.add("branch3x3dbl_2", first, 96, 3, 1);
  b.join("branch3x3dbl_3", second, 96, 3, 0, 2);
  return b.made(true);
}

Module module_c(Builder b, int between) {
  const Axes across{1, 7}, down{7, 1}, across_padding{0, 3}, down_padding{3, 0};
  b.join("branch1x1", input, 192, 1);
  int last = b.add("branch7x7_1", input, between, 1);
  last = b.add("branch7x7_2", last, between, across, across_padding);
  b.join("branch7x7_3", last, 192, down, down_padding);
  last = b.add("branch7x7dbl_1", input, between, 1);
  last = b.add("branch7x7dbl_2", last, between, down, down_padding);
  last = b.add("branch7x7dbl_3", last, between, across, across_padding);
  last = b.add("branch7x7dbl_4", last, between, down, down_padding);
  b.join("branch7x7dbl_5", last, 192, across, across_padding);
  b.join("branch_pool", pooled, 192, 1);
  return b.made();
}

// To 8×8.
Module module_d(Builder b) {
  const int narrow = b.add("branch3x3_1", input, 192, 1);
  b.join("branch3x3_2", narrow, 320, 3, 0, 2);
  int last = b.add("branch7x7x3_1", input, 192, 1);
  last = b.add("branch7x7x3_2", last, 192, {1, 7}, {0, 3});
  last = b.add("branch7x7x3_3", last, 192, {7, 1}, {3, 0});
  b.join("branch7x7x3_4", last, 192, 3, 0, 2);
  return b.made(true);
}

Module module_e(Builder b) {
  const Axes across{1, 3}, down{3, 1}, across_padding{0, 1}, down_padding{1, 0};
  b.join("branch1x1", input, 320, 1);
  const int fork = b.add("branch3x3_1", input, 384, 1);
  b.join("branch3x3_2a", fork, 384, across, across_padding);
  b.join("branch3x3_2b", fork, 384, down, down_padding);
  const int first = b.add("branch3x3dbl_1", input, 448, 1), second = b.add("branch3x3dbl_2", first, 384, 3, 1);
  b.join("branch3x3dbl_3a", second, 384, across, across_padding);
  b.join("branch3x3dbl_3b", second, 384, down, down_padding);
  b.join("branch_pool", pooled, 192, 1);
  return b.made();
}

}  // namespace

bool Module::has_average_pool() const {
  return std::ranges::any_of(units, [](const Unit& unit) { return unit.source == Unit::pooled_input; });
}

Layout layout(const InceptionDescription& d) {
  Layout all;
  std::int64_t size = d.image_size, channels = d.image_channels;
  const auto stem = [&](const char* name, int out, int kernel, int stride, int padding, bool pool) {
    all.stem.push_back({name, kernel, stride, padding, size, channels, out / d.narrowing});
    all.stem_pools.push_back(pool);
    size = all.stem.back().out_size();
    if (pool) size = max_pooled(size);
    channels = out / d.narrowing;
  };
  stem("Conv2d_1a_3x3", 32, 3, d.stem_stride, 0, false);
  stem("Conv2d_2a_3x3", 32, 3, 1, 0, false);
  stem("Conv2d_2b_3x3", 64, 3, 1, 1, d.stem_pools);
  stem("Conv2d_3b_1x1", 80, 1, 1, 0, false);
  stem("Conv2d_4a_3x3", 192, 3, 1, 0, d.stem_pools);

  // torchvision numbers the modules of one size of map by letters: 5b, 5c, 5d; 6a, …; 7a, ….
  const auto add = [&](const std::string& stage, std::size_t letter, const auto& make) {
    all.modules.push_back(
        make(Builder("Mixed_" + stage + static_cast<char>('a' + letter), size, channels, d.narrowing)));
    size = all.modules.back().out_size;
    channels = all.modules.back().out_channels;
  };
  for (std::size_t i = 0; i < d.pool_features.size(); ++i)
    add("5", i + 1, [&](const Builder& b) { return module_a(b, d.pool_features[i]); });
  add("6", 0, module_b);
  for (std::size_t i = 0; i < d.factorised_channels.size(); ++i)
    add("6", i + 1, [&](const Builder& b) { return module_c(b, d.factorised_channels[i]); });

  all.auxiliary.module = all.modules.size();
  all.auxiliary.size = size;
  all.auxiliary.in_channels = channels;
  const std::int64_t seen = (size - auxiliary_pool_kernel) / auxiliary_pool_stride + 1;
  all.auxiliary.units = {{"conv0", 1, 1, 0, seen, channels, 128 / d.narrowing},
                         {"conv1", d.auxiliary_kernel, 1, 0, seen, 128 / d.narrowing, 768 / d.narrowing, 0}};
  add("7", 0, module_d);
  for (int i = 0; i < d.wide_modules; ++i) add("7", static_cast<std::size_t>(i) + 1, module_e);
  all.size = size;
  all.channels = channels;
  return all;
}

}  // namespace tw::models::family::inception
