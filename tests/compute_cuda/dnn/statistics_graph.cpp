#include "tests/compute_cuda/dnn/statistics_graph.hpp"

#include "models/compute/cuda/dnn/graphs.hpp"

namespace tw::models::cuda::dnn {

StatisticsGraph::StatisticsGraph(const Target& target, const ConvolutionShape& s, SumsOf what) : Graph(target) {
  enum Uid : std::int64_t { uid_value = uid_sum + 1, uid_squares };
  const DataType type = data_type(s.dtype);
  const std::int64_t seen = s.in_channels / s.groups;
  const auto strides = [](const Extents& e) { return Extents{e[1] * e[2] * e[3], 1, e[1] * e[3], e[1]}; };
  const Extents x{s.batch, s.in_channels, s.height, s.width}, w{s.out_channels, seen, s.kernel.height, s.kernel.width},
      y{s.batch, s.out_channels, s.out_height(), s.out_width()}, channels{1, s.out_channels, 1, 1};
  memory(uid_x, type, x, strides(x));
  memory(uid_w, type, w, strides(w));
  memory(uid_y, type, y, strides(y));
  memory(uid_sum, DataType::float32, channels, strides(channels));
  memory(uid_squares, DataType::float32, channels, strides(channels));
  const auto convolve = [&](std::int64_t to) {
    convolution({.x = uid_x,
                 .w = uid_w,
                 .y = to,
                 .stride = {s.stride.height, s.stride.width},
                 .padding = {s.padding.height, s.padding.width}});
  };
  std::int64_t summed = uid_y;
  if (what == SumsOf::y) {
    convolve(uid_y);
  } else {
    memory(uid_value, DataType::float32, channels, strides(channels));
    const std::int64_t result = between(DataType::float32, y, strides(y));
    summed = between(DataType::float32, y, strides(y));
    convolve(result);
    pointwise(Pointwise::identity, DataType::float32, {.x = result, .y = uid_y});
    pointwise(Pointwise::sub, DataType::float32, {.x = result, .b = uid_value, .y = summed});
  }
  Descriptor operation(target.library(), operation_statistics);
  operation.set(statistics_mode, statistics_mode_type, 1, &sum_and_squares);
  operation.set_all(statistics_math_type, DataType::float32, statistics_x, tensor(summed), statistics_sum,
                    tensor(uid_sum), statistics_squares, tensor(uid_squares));
  operation.finalize();
  append(std::move(operation));
  finalize();
}

}  // namespace tw::models::cuda::dnn
