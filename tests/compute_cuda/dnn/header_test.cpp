// Our prototypes and numbers of cuDNN are those of its header.
#include <cudnn_graph.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "models/compute/cuda/dnn/abi.hpp"
#include "tests/compute_cuda/dnn/statistics_graph.hpp"

namespace tw::models::cuda::dnn {
namespace {

#define TW_SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))

TW_SAME(status_success, CUDNN_STATUS_SUCCESS);
TW_SAME(status_no_host_memory, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
TW_SAME(status_no_device_memory, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);

TW_SAME(DataType::float32, CUDNN_DATA_FLOAT);
TW_SAME(DataType::fp16, CUDNN_DATA_HALF);
TW_SAME(DataType::bf16, CUDNN_DATA_BFLOAT16);
TW_SAME(DataType::int32, CUDNN_DATA_INT32);
TW_SAME(DataType::boolean, CUDNN_DATA_BOOLEAN);

#define TW_SAME_KIND(ours, theirs) TW_SAME(Kind::ours, CUDNN_BACKEND_##theirs##_DESCRIPTOR)
TW_SAME_KIND(pointwise, POINTWISE);
TW_SAME_KIND(convolution, CONVOLUTION);
TW_SAME_KIND(engine, ENGINE);
TW_SAME_KIND(engine_config, ENGINECFG);
TW_SAME_KIND(heuristics, ENGINEHEUR);
TW_SAME_KIND(execution_plan, EXECUTION_PLAN);
TW_SAME_KIND(knob_choice, KNOB_CHOICE);
TW_SAME_KIND(operation_convolution_forward, OPERATION_CONVOLUTION_FORWARD);
TW_SAME_KIND(operation_convolution_backward_filter, OPERATION_CONVOLUTION_BACKWARD_FILTER);
TW_SAME_KIND(operation_convolution_backward_data, OPERATION_CONVOLUTION_BACKWARD_DATA);
TW_SAME_KIND(operation_pointwise, OPERATION_POINTWISE);
TW_SAME_KIND(operation_graph, OPERATIONGRAPH);
TW_SAME_KIND(variant_pack, VARIANT_PACK);
TW_SAME_KIND(tensor, TENSOR);
TW_SAME_KIND(matmul, MATMUL);
TW_SAME_KIND(operation_matmul, OPERATION_MATMUL);
TW_SAME_KIND(reduction, REDUCTION);
TW_SAME_KIND(operation_reduction, OPERATION_REDUCTION);
TW_SAME_KIND(operation_reshape, OPERATION_RESHAPE);
TW_SAME_KIND(device_property, DEVICEPROP);

#define TW_SAME_TYPE(ours, theirs) TW_SAME(Type::ours, CUDNN_TYPE_##theirs)
TW_SAME_TYPE(handle, HANDLE);
TW_SAME_TYPE(data_type, DATA_TYPE);
TW_SAME_TYPE(boolean, BOOLEAN);
TW_SAME_TYPE(int64, INT64);
TW_SAME_TYPE(float32, FLOAT);
TW_SAME_TYPE(pointer, VOID_PTR);
TW_SAME_TYPE(convolution_mode, CONVOLUTION_MODE);
TW_SAME_TYPE(heuristic_mode, HEUR_MODE);
TW_SAME_TYPE(knob_type, KNOB_TYPE);
TW_SAME_TYPE(numerical_note, NUMERICAL_NOTE);
TW_SAME_TYPE(pointwise_mode, POINTWISE_MODE);
TW_SAME_TYPE(descriptor, BACKEND_DESCRIPTOR);
TW_SAME_TYPE(reduction_operator, REDUCTION_OPERATOR_TYPE);
TW_SAME_TYPE(behavior_note, BEHAVIOR_NOTE);
TW_SAME_TYPE(character, CHAR);

#define TW_SAME_ATTRIBUTE(ours, theirs) TW_SAME(Attribute::ours, CUDNN_ATTR_##theirs)
TW_SAME_ATTRIBUTE(pointwise_mode, POINTWISE_MODE);
TW_SAME_ATTRIBUTE(pointwise_math_type, POINTWISE_MATH_PREC);
TW_SAME_ATTRIBUTE(pointwise_axis, POINTWISE_AXIS);
TW_SAME_ATTRIBUTE(convolution_math_type, CONVOLUTION_COMP_TYPE);
TW_SAME_ATTRIBUTE(convolution_mode, CONVOLUTION_CONV_MODE);
TW_SAME_ATTRIBUTE(convolution_dilations, CONVOLUTION_DILATIONS);
TW_SAME_ATTRIBUTE(convolution_strides, CONVOLUTION_FILTER_STRIDES);
TW_SAME_ATTRIBUTE(convolution_post_padding, CONVOLUTION_POST_PADDINGS);
TW_SAME_ATTRIBUTE(convolution_pre_padding, CONVOLUTION_PRE_PADDINGS);
TW_SAME_ATTRIBUTE(convolution_spatial_dims, CONVOLUTION_SPATIAL_DIMS);
TW_SAME_ATTRIBUTE(heuristics_mode, ENGINEHEUR_MODE);
TW_SAME_ATTRIBUTE(heuristics_graph, ENGINEHEUR_OPERATION_GRAPH);
TW_SAME_ATTRIBUTE(heuristics_results, ENGINEHEUR_RESULTS);
TW_SAME_ATTRIBUTE(heuristics_device, ENGINEHEUR_DEVICEPROP);
TW_SAME_ATTRIBUTE(engine_config_engine, ENGINECFG_ENGINE);
TW_SAME_ATTRIBUTE(engine_config_knobs, ENGINECFG_KNOB_CHOICES);
TW_SAME_ATTRIBUTE(engine_config_workspace_bytes, ENGINECFG_WORKSPACE_SIZE);
TW_SAME_ATTRIBUTE(plan_handle, EXECUTION_PLAN_HANDLE);
TW_SAME_ATTRIBUTE(plan_engine_config, EXECUTION_PLAN_ENGINE_CONFIG);
TW_SAME_ATTRIBUTE(plan_workspace_bytes, EXECUTION_PLAN_WORKSPACE_SIZE);
TW_SAME_ATTRIBUTE(plan_device, EXECUTION_PLAN_DEVICEPROP);
TW_SAME_ATTRIBUTE(knob_type, KNOB_CHOICE_KNOB_TYPE);
TW_SAME_ATTRIBUTE(knob_value, KNOB_CHOICE_KNOB_VALUE);
TW_SAME_ATTRIBUTE(forward_alpha, OPERATION_CONVOLUTION_FORWARD_ALPHA);
TW_SAME_ATTRIBUTE(forward_beta, OPERATION_CONVOLUTION_FORWARD_BETA);
TW_SAME_ATTRIBUTE(forward_convolution, OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
TW_SAME_ATTRIBUTE(forward_w, OPERATION_CONVOLUTION_FORWARD_W);
TW_SAME_ATTRIBUTE(forward_x, OPERATION_CONVOLUTION_FORWARD_X);
TW_SAME_ATTRIBUTE(forward_y, OPERATION_CONVOLUTION_FORWARD_Y);
TW_SAME_ATTRIBUTE(backward_data_alpha, OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
TW_SAME_ATTRIBUTE(backward_data_beta, OPERATION_CONVOLUTION_BWD_DATA_BETA);
TW_SAME_ATTRIBUTE(backward_data_convolution, OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
TW_SAME_ATTRIBUTE(backward_data_w, OPERATION_CONVOLUTION_BWD_DATA_W);
TW_SAME_ATTRIBUTE(backward_data_dx, OPERATION_CONVOLUTION_BWD_DATA_DX);
TW_SAME_ATTRIBUTE(backward_data_dy, OPERATION_CONVOLUTION_BWD_DATA_DY);
TW_SAME_ATTRIBUTE(backward_filter_alpha, OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
TW_SAME_ATTRIBUTE(backward_filter_beta, OPERATION_CONVOLUTION_BWD_FILTER_BETA);
TW_SAME_ATTRIBUTE(backward_filter_convolution, OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
TW_SAME_ATTRIBUTE(backward_filter_dw, OPERATION_CONVOLUTION_BWD_FILTER_DW);
TW_SAME_ATTRIBUTE(backward_filter_x, OPERATION_CONVOLUTION_BWD_FILTER_X);
TW_SAME_ATTRIBUTE(backward_filter_dy, OPERATION_CONVOLUTION_BWD_FILTER_DY);
TW_SAME_ATTRIBUTE(operation_pointwise_descriptor, OPERATION_POINTWISE_PW_DESCRIPTOR);
TW_SAME_ATTRIBUTE(operation_pointwise_x, OPERATION_POINTWISE_XDESC);
TW_SAME_ATTRIBUTE(operation_pointwise_b, OPERATION_POINTWISE_BDESC);
TW_SAME_ATTRIBUTE(operation_pointwise_y, OPERATION_POINTWISE_YDESC);
TW_SAME_ATTRIBUTE(operation_pointwise_t, OPERATION_POINTWISE_TDESC);
TW_SAME_ATTRIBUTE(graph_handle, OPERATIONGRAPH_HANDLE);
TW_SAME_ATTRIBUTE(graph_operations, OPERATIONGRAPH_OPS);
TW_SAME_ATTRIBUTE(tensor_alignment, TENSOR_BYTE_ALIGNMENT);
TW_SAME_ATTRIBUTE(tensor_data_type, TENSOR_DATA_TYPE);
TW_SAME_ATTRIBUTE(tensor_dims, TENSOR_DIMENSIONS);
TW_SAME_ATTRIBUTE(tensor_strides, TENSOR_STRIDES);
TW_SAME_ATTRIBUTE(tensor_uid, TENSOR_UNIQUE_ID);
TW_SAME_ATTRIBUTE(tensor_is_virtual, TENSOR_IS_VIRTUAL);
TW_SAME_ATTRIBUTE(tensor_is_by_value, TENSOR_IS_BY_VALUE);
TW_SAME_ATTRIBUTE(pack_uids, VARIANT_PACK_UNIQUE_IDS);
TW_SAME_ATTRIBUTE(pack_pointers, VARIANT_PACK_DATA_POINTERS);
TW_SAME_ATTRIBUTE(pack_workspace, VARIANT_PACK_WORKSPACE);
TW_SAME_ATTRIBUTE(engine_graph, ENGINE_OPERATION_GRAPH);
TW_SAME_ATTRIBUTE(engine_index, ENGINE_GLOBAL_INDEX);
TW_SAME_ATTRIBUTE(engine_numerical_notes, ENGINE_NUMERICAL_NOTE);
TW_SAME_ATTRIBUTE(engine_behavior_notes, ENGINE_BEHAVIOR_NOTE);
TW_SAME_ATTRIBUTE(engine_device, ENGINE_DEVICEPROP);
TW_SAME_ATTRIBUTE(matmul_math_type, MATMUL_COMP_TYPE);
TW_SAME_ATTRIBUTE(operation_matmul_a, OPERATION_MATMUL_ADESC);
TW_SAME_ATTRIBUTE(operation_matmul_b, OPERATION_MATMUL_BDESC);
TW_SAME_ATTRIBUTE(operation_matmul_c, OPERATION_MATMUL_CDESC);
TW_SAME_ATTRIBUTE(operation_matmul_descriptor, OPERATION_MATMUL_DESC);
TW_SAME_ATTRIBUTE(reduction_operator, REDUCTION_OPERATOR);
TW_SAME_ATTRIBUTE(reduction_math_type, REDUCTION_COMP_TYPE);
TW_SAME_ATTRIBUTE(operation_reduction_x, OPERATION_REDUCTION_XDESC);
TW_SAME_ATTRIBUTE(operation_reduction_y, OPERATION_REDUCTION_YDESC);
TW_SAME_ATTRIBUTE(operation_reduction_descriptor, OPERATION_REDUCTION_DESC);
TW_SAME_ATTRIBUTE(operation_reshape_x, OPERATION_RESHAPE_XDESC);
TW_SAME_ATTRIBUTE(operation_reshape_y, OPERATION_RESHAPE_YDESC);
TW_SAME_ATTRIBUTE(device_handle, DEVICEPROP_HANDLE);
TW_SAME_ATTRIBUTE(device_json, DEVICEPROP_JSON_REPRESENTATION);

#define TW_SAME_POINTWISE(ours, theirs) TW_SAME(Pointwise::ours, CUDNN_POINTWISE_##theirs)
TW_SAME_POINTWISE(add, ADD);
TW_SAME_POINTWISE(mul, MUL);
TW_SAME_POINTWISE(div, DIV);
TW_SAME_POINTWISE(sub, SUB);
TW_SAME_POINTWISE(exp, EXP);
TW_SAME_POINTWISE(log, LOG);
TW_SAME_POINTWISE(identity, IDENTITY);
TW_SAME_POINTWISE(greater_or_equal, CMP_GE);
TW_SAME_POINTWISE(gen_index, GEN_INDEX);
TW_SAME_POINTWISE(select, BINARY_SELECT);

TW_SAME(Reduction::add, CUDNN_REDUCE_TENSOR_ADD);
TW_SAME(Reduction::max, CUDNN_REDUCE_TENSOR_MAX);
TW_SAME(ConvolutionMode::cross_correlation, CUDNN_CROSS_CORRELATION);
TW_SAME(Heuristics::a, CUDNN_HEUR_MODE_A);
TW_SAME(Heuristics::fallback, CUDNN_HEUR_MODE_FALLBACK);

#define TW_SAME_KNOB(ours, theirs) TW_SAME(Knob::ours, CUDNN_KNOB_TYPE_##theirs)
TW_SAME_KNOB(stages, STAGES);
TW_SAME_KNOB(kernel_config, KERNEL_CFG);
TW_SAME_KNOB(tile_cga_m, TILE_CGA_M);
TW_SAME_KNOB(stream_k, STREAM_K);
TW_SAME_KNOB(tile_m, TILE_M);
TW_SAME_KNOB(tile_n, TILE_N);

#define TW_SAME_NOTE(ours, theirs) TW_SAME(NumericalNote::ours, CUDNN_NUMERICAL_NOTE_##theirs)
TW_SAME_NOTE(tensor_core, TENSOR_CORE);
TW_SAME_NOTE(down_convert_inputs, DOWN_CONVERT_INPUTS);
TW_SAME_NOTE(reduced_precision_reduction, REDUCED_PRECISION_REDUCTION);
TW_SAME_NOTE(fft, FFT);
TW_SAME_NOTE(nondeterministic, NONDETERMINISTIC);
TW_SAME_NOTE(winograd, WINOGRAD);
TW_SAME_NOTE(winograd_4x4, WINOGRAD_TILE_4x4);
TW_SAME_NOTE(winograd_6x6, WINOGRAD_TILE_6x6);
TW_SAME_NOTE(winograd_13x13, WINOGRAD_TILE_13x13);
TW_SAME(BehaviorNote::runtime_compilation, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);

TW_SAME(operation_statistics, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
TW_SAME(statistics_mode, CUDNN_ATTR_OPERATION_GENSTATS_MODE);
TW_SAME(statistics_math_type, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC);
TW_SAME(statistics_x, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
TW_SAME(statistics_sum, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC);
TW_SAME(statistics_squares, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC);
TW_SAME(statistics_mode_type, CUDNN_TYPE_GENSTATS_MODE);
TW_SAME(sum_and_squares, CUDNN_GENSTATS_SUM_SQSUM);

/// Equal but for names: pointers are pointers, enums are int, std::int64_t is int64_t.
template <class Ours, class Theirs>
constexpr bool same_argument = std::is_pointer_v<Ours>  ? std::is_pointer_v<Theirs>
                               : std::is_enum_v<Theirs> ? std::is_same_v<Ours, int> && sizeof(Theirs) == sizeof(int)
                                                        : std::is_same_v<Ours, Theirs>;
template <class Ours, class Theirs>
struct SameFunction;
template <class... Ours, class Result, class... Theirs>
struct SameFunction<int (*)(Ours...), Result (*)(Theirs...)> {
  static constexpr bool arguments() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) return (same_argument<Ours, Theirs> && ...);
    return false;
  }
  static constexpr bool value = std::is_enum_v<Result> && arguments();
};
#define TW_DNN_FUNCTION(name, parameters) \
  static_assert(SameFunction<int(*) parameters, decltype(&::name)>::value, "the prototype of " #name);
#include "models/compute/cuda/dnn/functions.def"

TEST(CudnnHeader, HoldsOurNumbersAndPrototypes) { EXPECT_GE(CUDNN_MAJOR, 9); }  // it would not compile

}  // namespace
}  // namespace tw::models::cuda::dnn
