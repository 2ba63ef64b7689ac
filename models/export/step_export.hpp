// What `export_step` writes besides the training itself: parameters in a framework's layout and names. Values are
// float32 on the host; functions with a stream wait for it. Errors: Error{internal} for parts that do not make up their
// parameter.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/export/safetensors.hpp"
#include "models/network/parameters.hpp"

namespace tw::models {

/// A parameter as the framework names it: whole, or a range of its rows from `first` on.
struct ExportedPart {
  ParameterSpec spec;  ///< its name and extents
  std::int64_t first = 0;
};
std::vector<ExportedPart> exported_parts(const ParameterSpec& spec);
/// A parameter's extents in the framework: linear (in, out) where Hugging Face's Conv1D wants it, kernels (out, in, kh,
/// kw).
std::vector<std::int64_t> exported_dims(const ParameterSpec& spec);
/// Its values, `scale` times, in that layout. `values` is float32 on the device.
std::vector<char> exported_values(Device& device, Stream& stream, const ParameterSpec& spec, Tensor values,
                                  float scale);

enum class ExportKind { master, gradient };
/// All parameters, first block first; with master weights also the running statistics.
std::vector<SafeTensor> exported_parameters(Device& device, Stream& stream, const ParameterStore& store,
                                            ExportKind kind, float scale);

/// Tables of this rank, of the values at `rows`, which lie as ParameterStore::table_rows(); none without tables.
std::vector<SafeTensor> exported_tables(Device& device, Stream& stream, const ParameterStore& store, const void* rows);

/// Which units of a network's ReLUs passed (1) or not (0), NHWC, from what an executor kept: the outputs of the blocks
/// and the saved tensors whose name begins with "relu"; and which element each window of a max pool took (its row in
/// the window times the window's width, plus its column), of the saved tensors whose name begins with "argmax". A
/// gradient jumps where a ReLU's input crosses zero, or where two elements of a window are equal, and rounding decides
/// the nearest cases: whoever compares gradients needs to know which side was taken.
std::vector<SafeTensor> exported_relu_sides(Device& device, Stream& stream,
                                            const std::vector<std::pair<std::string, Tensor>>& kept);

}  // namespace tw::models
