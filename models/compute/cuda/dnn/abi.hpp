// The part of cuDNN 9's backend API that is used here, by our own names with the library's numbers (they are fixed for
// a major version; tests/compute_cuda holds them against cudnn_graph.h), so that the program builds without cuDNN.
#pragma once

namespace tw::models::cuda::dnn {

struct HandleTag;
using Handle = HandleTag*;    ///< cudnnHandle_t
using CudaStream = void*;     ///< cudaStream_t
using RawDescriptor = void*;  ///< cudnnBackendDescriptor_t

enum Status : int {
  status_success = 0,
  status_not_supported = 3000,  ///< up to 3999: in what respect
  status_not_compiled = 4001,   ///< an engine that is compiled at run time
  status_no_host_memory = 4003,
  status_no_device_memory = 4004,
};

enum class DataType : int { float32 = 0, fp16 = 2, int32 = 4, bf16 = 9, boolean = 11 };

enum class Kind : int {  // CUDNN_BACKEND_…_DESCRIPTOR
  pointwise = 0,
  convolution = 1,
  engine = 2,
  engine_config = 3,
  heuristics = 4,
  execution_plan = 5,
  knob_choice = 7,
  operation_convolution_forward = 10,
  operation_convolution_backward_filter = 11,
  operation_convolution_backward_data = 12,
  operation_pointwise = 13,
  operation_graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  operation_matmul = 19,
  reduction = 21,
  operation_reduction = 22,
  operation_reshape = 31,
  device_property = 38,
};

enum class Type : int {  // CUDNN_TYPE_…
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  float32 = 4,
  pointer = 6,
  convolution_mode = 7,
  heuristic_mode = 8,
  knob_type = 9,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  reduction_operator = 18,
  behavior_note = 19,
  character = 24,
};

enum class Attribute : int {  // CUDNN_ATTR_…
  pointwise_mode = 0,
  pointwise_math_type = 1,
  pointwise_axis = 9,
  convolution_math_type = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_padding = 104,
  convolution_pre_padding = 105,
  convolution_spatial_dims = 106,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  heuristics_device = 204,
  engine_config_engine = 300,
  engine_config_knobs = 302,
  engine_config_workspace_bytes = 303,
  plan_handle = 400,
  plan_engine_config = 401,
  plan_workspace_bytes = 402,
  plan_device = 407,
  knob_type = 600,
  knob_value = 601,
  forward_alpha = 700,
  forward_beta = 701,
  forward_convolution = 702,
  forward_w = 703,
  forward_x = 704,
  forward_y = 705,
  backward_data_alpha = 706,
  backward_data_beta = 707,
  backward_data_convolution = 708,
  backward_data_w = 709,
  backward_data_dx = 710,
  backward_data_dy = 711,
  backward_filter_alpha = 712,
  backward_filter_beta = 713,
  backward_filter_convolution = 714,
  backward_filter_dw = 715,
  backward_filter_x = 716,
  backward_filter_dy = 717,
  operation_pointwise_descriptor = 750,
  operation_pointwise_x = 751,
  operation_pointwise_b = 752,
  operation_pointwise_y = 753,
  operation_pointwise_t = 758,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_data_type = 901,
  tensor_dims = 902,
  tensor_strides = 903,
  tensor_uid = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  pack_uids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  engine_graph = 1300,
  engine_index = 1301,
  engine_numerical_notes = 1303,
  engine_behavior_notes = 1305,
  engine_device = 1307,
  matmul_math_type = 1500,
  operation_matmul_a = 1520,
  operation_matmul_b = 1521,
  operation_matmul_c = 1522,
  operation_matmul_descriptor = 1523,
  reduction_operator = 1600,
  reduction_math_type = 1601,
  operation_reduction_x = 1610,
  operation_reduction_y = 1611,
  operation_reduction_descriptor = 1612,
  operation_reshape_x = 2200,
  operation_reshape_y = 2201,
  device_handle = 2701,
  device_json = 2702,
};

enum class Pointwise : int {  // CUDNN_POINTWISE_…
  add = 0,
  mul = 1,
  div = 6,
  sub = 9,
  exp = 13,
  log = 15,
  identity = 21,
  greater_or_equal = 303,
  gen_index = 501,
  select = 601,
};

enum class Reduction : int { add = 0, max = 3 };
enum class ConvolutionMode : int { cross_correlation = 1 };
enum class Heuristics : int { fallback = 2, a = 3 };

enum class Knob : int {  // CUDNN_KNOB_TYPE_…
  stages = 14,
  kernel_config = 24,
  tile_cga_m = 27,
  stream_k = 38,
  tile_m = 40,
  tile_n = 41,
};

enum class NumericalNote : int {
  tensor_core = 0,
  down_convert_inputs = 1,
  reduced_precision_reduction = 2,
  fft = 3,
  nondeterministic = 4,
  winograd = 5,
  winograd_4x4 = 6,
  winograd_6x6 = 7,
  winograd_13x13 = 8,
  count = 10,
};
enum class BehaviorNote : int { runtime_compilation = 0, count = 5 };

}  // namespace tw::models::cuda::dnn
