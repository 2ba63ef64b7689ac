// A network that a file describes as a list of layers (models/README.md, "Networks of your own"). The reader turns the
// list into operations with checked extents; the counts and the blocks follow from these.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/catalog/described.hpp"
#include "models/catalog/description.hpp"

namespace tw::models::family::custom {

/// What an operation makes of one sample, channels innermost.
struct Extent {
  enum class Kind { vector, sequence, image } kind = Kind::vector;
  std::int64_t height = 1, width = 1;  ///< of an image
  std::int64_t channels = 0;
  /// Places with channels of their own. A sequence has as many as the run's samples have tokens.
  std::int64_t positions(std::int64_t seq_len) const { return kind == Kind::sequence ? seq_len : height * width; }
  /// "16 x 16 x 64", "positions x 64", "64"
  std::string str() const;
  bool operator==(const Extent&) const = default;
};

/// In place of an operation: the network's input.
constexpr int network_input = -1;

/// One step of the network. Operation i reads what earlier ones make. A layer of the file is one of them, attention
/// three. The kernel of an upsampling is its factor.
struct Operation {
  enum class Kind {
    embedding,
    linear,
    convolution,
    transposed_convolution,
    upsample,
    batch_norm,
    layer_norm,
    rms_norm,
    activation,
    swiglu,
    max_pool,
    average_pool,
    global_average_pool,
    flatten,
    attention,
    add,
    concatenation,
    loss,
    squared_error
  };
  enum class Function { relu, gelu, tanh };
  Kind kind = Kind::linear;
  std::string name;         ///< of what it makes and, with a suffix, of its parameters
  std::string pointer;      ///< JSON pointer of its layer
  std::vector<int> inputs;  ///< places in the list, or network_input
  Extent out;               ///< of a loss: channels are the classes
  Product::PerAxis kernel = 1, stride = 1, padding = 0;
  int groups = 1;               ///< of a convolution
  int heads = 1, kv_heads = 1;  ///< attention, and the linear operation in front of it
  bool causal = false, bias = false, relu = false;
  Function function = Function::relu;
  float epsilon = 1e-5f, label_smoothing = 0;
  std::int64_t rows = 0, positions = 0;  ///< embedding: of its tables; 0 positions: none
  bool is_view() const { return kind == Kind::flatten; }
  bool is_loss() const { return kind == Kind::loss || kind == Kind::squared_error; }
};

struct CustomDescription {
  std::string name;  ///< of the file
  std::string json;  ///< the file's content with sorted keys and without spaces: what the plan's hash is taken of
  DataDescription data;
  Extent input;
  std::int64_t micro_batch = 1, seq_len = 0;
  OptimizerConfig optimizer;
  std::vector<Operation> operations;

  const Extent& extent(int place) const {
    return place == network_input ? input : operations[static_cast<std::size_t>(place)].out;
  }
  /// The operation, or the input, whose memory a place shows: a view is of what it reads.
  int owner(int place) const {
    while (place != network_input && operations[static_cast<std::size_t>(place)].is_view())
      place = operations[static_cast<std::size_t>(place)].inputs.front();
    return place;
  }
  const Extent& in(const Operation& operation) const { return extent(operation.inputs.front()); }
  std::int64_t head_dim(const Operation& attention) const { return attention.out.channels / attention.heads; }
};

/// Throws LayersFault.
CustomDescription read_layers(const std::string& json);

/// The task that a file describes beside `network`, which it also describes; none where it has no task. The keys of the
/// file itself were checked. Throws LayersFault.
std::optional<TaskDescription> read_task(const std::string& json, const NetworkDescription& network);

/// Parameters of an operation.
std::int64_t count_parameters(const CustomDescription& network, const Operation& operation);

/// Where the chain of blocks is cut: the ends of pieces of the operations, such that each piece reads only what itself
/// or the last operation of the piece before makes. Skip connections lie inside a piece.
std::vector<int> pieces(const CustomDescription& network);

std::shared_ptr<const NetworkShape> shape(const CustomDescription& description);

constexpr float norm_momentum = 0.1f;

}  // namespace tw::models::family::custom
