// A forward convolution whose result's sum and sum of squares of each channel come with it: what cuDNN calls
// GenStats. No plan has it; tests ask the library for engines.
#pragma once

#include "models/compute/cuda/dnn/graph.hpp"
#include "models/compute/operators.hpp"

namespace tw::models::cuda::dnn {

// Numbers of the library, in the enums of abi.hpp; header_test.cpp holds them against cudnn_graph.h.
constexpr auto operation_statistics = static_cast<Kind>(14);
constexpr auto statistics_mode = static_cast<Attribute>(770), statistics_math_type = static_cast<Attribute>(771),
               statistics_x = static_cast<Attribute>(772), statistics_sum = static_cast<Attribute>(773),
               statistics_squares = static_cast<Attribute>(774);
constexpr auto statistics_mode_type = static_cast<Type>(16);
constexpr int sum_and_squares = 0;

/// Float32 sums over (n, h, w) beside the convolution of the shape, in its dtype: of the result y, or of y minus a
/// float32 value of each channel.
enum class SumsOf { y, y_minus_value };
class StatisticsGraph : public Graph {
 public:
  StatisticsGraph(const Target& target, const ConvolutionShape& shape, SumsOf what);
};

}  // namespace tw::models::cuda::dnn
