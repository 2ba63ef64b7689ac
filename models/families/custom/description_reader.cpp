// Reads a file of layers: keys and values first, then the extents of each layer.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/catalog/nearest.hpp"
#include "models/families/custom/description.hpp"
#include "models/families/custom/description_keys.hpp"

namespace tw::models::family::custom {
namespace {

using Json = nlohmann::json;
using Kind = Operation::Kind;

constexpr std::int64_t most_elements = std::int64_t{1} << 40;  // of a tensor of one sample, and of a parameter
constexpr std::size_t most_layers = 4096;

std::string number(std::int64_t value) { return std::to_string(value); }

class Reader {
 public:
  explicit Reader(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) throw LayersFault("layers-json", "", "not JSON");
    d_.json = json.dump();
    read_file(json);
  }
  CustomDescription made() { return std::move(d_); }

 private:
  // ---- the file ----

  void read_file(const Json& json) {
    const Values file(json, "", file_keys(), "the file");
    d_.name = file.word("name");
    if (!is_name(d_.name) || d_.name.size() > 32)
      throw LayersFault("layers-name", "/name", "'" + cut_word(d_.name) + "': " + name_rule + ", at most 32 of them");
    const Json& layers = json.at("layers");
    if (!layers.is_array()) throw LayersFault("layers-value", "/layers", "must be a list of layers");
    if (layers.empty()) throw LayersFault("layers-loss", "/layers", "the list is empty: add layers and a loss");
    if (layers.size() > most_layers)
      throw LayersFault("layers-too-large", "/layers", "too many layers (maximum " + number(most_layers) + ")");
    read_input(json.at("input"));
    d_.micro_batch = file.whole("micro_batch", 1);
    const bool has_sequence = d_.data.longest_sequence > 0;
    if (file.has("seq_len") && !has_sequence)
      throw LayersFault("layers-value", "/seq_len", "does not apply to images: leave it out");
    if (has_sequence) {
      d_.seq_len = file.whole("seq_len", d_.data.longest_sequence);
      if (d_.seq_len > d_.data.longest_sequence)
        throw LayersFault(
            "layers-value", "/seq_len",
            "is " + number(d_.seq_len) + ", more than the longest_sequence of " + number(d_.data.longest_sequence));
    }
    read_optimizer(json.value("optimizer", Json::object()));
    collect_names(layers);
    for (std::size_t i = 0; i < layers.size(); ++i) read_layer(layers[i], i, i + 1 == layers.size());
    check_all();
  }

  void read_input(const Json& json) {
    const std::string kind = Values::word_at(json, "kind", "/input");
    const Values input(json, "/input", input_keys(kind), "an input of kind " + kind);
    if (kind == "tokens") {
      d_.data.kind = DataKind::tokens;
      d_.data.vocabulary = input.whole("vocabulary", 0);
      d_.data.longest_sequence = input.whole("longest_sequence", 0);
      return;
    }
    if (kind == "series") {
      d_.data.kind = DataKind::series;
      d_.data.variables = input.whole("variables", 0);
      d_.data.longest_sequence = input.whole("longest_sequence", 0);
      d_.input = {Extent::Kind::sequence, 1, 1, d_.data.variables};
      return;
    }
    for (const DataKind one :
         {DataKind::images, DataKind::segmented_images, DataKind::restored_images, DataKind::measured_images})
      if (kind == to_string(one)) d_.data.kind = one;
    const char* const classes = has_values(d_.data.kind) ? "gratings" : "classes";
    d_.data.image_size = static_cast<int>(input.whole("size", 0));
    d_.data.image_channels = static_cast<int>(input.whole("channels", 0));
    d_.data.classes = input.whole(classes, 0);
    d_.data.scale = static_cast<int>(input.whole("scale", 1));
    const std::int64_t limit = (d_.data.image_size - 1) / 2, gratings = limit + limit * (2 * limit + 1);
    if (d_.data.classes > gratings)
      throw LayersFault("layers-value", std::string("/input/") + classes,
                        "the synthetic images of this size have at most " + number(gratings) + " " + classes +
                            ", not " + number(d_.data.classes));
    d_.input = {Extent::Kind::image, d_.data.image_size, d_.data.image_size, d_.data.image_channels};
  }

  void read_optimizer(const Json& json) {
    const Values optimizer(json, "/optimizer", optimizer_keys(), "the optimizer");
    OptimizerConfig& o = d_.optimizer;
    o.kind = optimizer.word("kind", "adamw") == "sgd" ? OptimizerConfig::Kind::sgd : OptimizerConfig::Kind::adamw;
    o.learning_rate = optimizer.real("learning_rate", 1e-3);
    o.weight_decay = optimizer.real("weight_decay", o.weight_decay);
    o.clip_norm = optimizer.real("clip_norm", o.clip_norm);
    if (optimizer.has("momentum") && o.kind != OptimizerConfig::Kind::sgd)
      throw LayersFault("layers-value", "/optimizer/momentum", "applies to sgd only: leave it out");
    o.momentum = optimizer.real("momentum", o.momentum);
  }

  // ---- names ----

  static std::string place(std::size_t index) { return "/layers/" + number(static_cast<std::int64_t>(index)); }

  void collect_names(const Json& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!layers[i].is_object()) throw LayersFault("layers-value", place(i), "must be an object with a layer");
      const auto named = layers[i].find("name");
      if (named == layers[i].end()) continue;
      const std::string pointer = place(i) + "/name";
      if (!named->is_string()) throw LayersFault("layers-value", pointer, "must be a text");
      const std::string name = named->get<std::string>();
      if (!is_name(name) || name.size() > 64)
        throw LayersFault("layers-name", pointer, "'" + cut_word(name) + "': " + name_rule + ", at most 64 of them");
      if (name == input_name) throw LayersFault("layers-name", pointer, "'input' is the name of the network's input");
      if (!places_of_names_.emplace(name, i).second)
        throw LayersFault("layers-name", pointer,
                          "'" + name + "' is the name of " + place(places_of_names_.at(name)) + " already");
    }
    // What has no name is called by its place, which nobody else may be.
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (!layers[i].contains("name") && !places_of_names_.emplace(automatic_name(i), i).second)
        throw LayersFault("layers-name", place(places_of_names_.at(automatic_name(i))) + "/name",
                          "'" + automatic_name(i) + "' is the name of the unnamed layer " + place(i));
  }
  static std::string automatic_name(std::size_t index) { return "layer" + number(static_cast<std::int64_t>(index)); }

  /// The operation whose result a layer's name means.
  int find(const std::string& name, std::size_t reader, const std::string& pointer) const {
    if (name == input_name) return network_input;
    const auto found = places_of_names_.find(name);
    if (found == places_of_names_.end()) {
      std::vector<std::string> known = {input_name};
      for (const auto& [one, at] : places_of_names_) known.push_back(one);
      const std::string close = nearest(name, known);
      throw LayersFault(
          "layers-name", pointer,
          "no layer is called '" + cut_word(name) + "'" + (close.empty() ? "" : ", did you mean '" + close + "'?"));
    }
    if (found->second >= reader)
      throw LayersFault("layers-cycle", pointer,
                        found->second == reader ? "a layer cannot read itself"
                                                : "'" + name + "' is a later layer, " + place(found->second) +
                                                      ": a layer reads only earlier layers");
    return results_.at(found->second);
  }

  // ---- layers ----

  void read_layer(const Json& json, std::size_t index, bool is_last) {
    const std::string pointer = place(index), kind_pointer = pointer + "/layer",
                      kind = Values::word_at(json, "layer", pointer);
    const LayerKind& described = layer_kind(kind, kind_pointer);
    const Values layer(json, pointer, described.keys, "a layer " + kind);
    Operation o;
    o.kind = described.kind;
    o.name = layer.has("name") ? layer.word("name") : automatic_name(index);
    o.pointer = pointer;
    if (has_loss_)
      throw LayersFault("layers-loss", pointer,
                        o.is_loss() ? "a second loss: a network has one, as its last layer"
                                    : "follows the loss: the loss must be the last layer");
    o.inputs.push_back(layer.has("from") ? find(layer.word("from"), index, pointer + "/from")
                       : index == 0      ? network_input
                                         : results_.at(index - 1));
    for (const auto& [name, its_place] : layer.words("with"))
      o.inputs.push_back(find(name, index, pointer + "/with" + its_place));
    if (d_.data.kind == DataKind::tokens && (o.kind == Kind::embedding) != is_input(o))
      throw LayersFault("layers-shape", pointer,
                        o.kind == Kind::embedding
                            ? "an embedding reads the tokens of the input, so \"from\" is \"input\""
                            : "reads the tokens of the input, which only an embedding can");
    if (o.kind == Kind::attention)
      add_attention(layer, o);
    else
      add(with_extents(layer, std::move(o)));
    results_.push_back(static_cast<int>(d_.operations.size()) - 1);
    if (!has_loss_ && is_last)
      throw LayersFault("layers-loss", pointer,
                        std::string("the last layer is not a loss: add {\"layer\": \"") +
                            (has_values(d_.data.kind) ? "mean_squared_error" : "loss") + "\", …} after it");
  }
  static bool is_input(const Operation& o) { return std::ranges::count(o.inputs, network_input) > 0; }

  Operation with_extents(const Values& layer, Operation o) {
    const Extent in = d_.in(o);
    o.out = in;
    switch (o.kind) {
      case Kind::embedding:
        if (d_.data.kind != DataKind::tokens)
          bad_shape(o, std::string("an embedding reads tokens, and the input is ") + to_string(d_.data.kind));
        o.rows = d_.data.vocabulary;
        o.positions = layer.flag("positions", false) ? d_.data.longest_sequence : 0;
        o.out = {Extent::Kind::sequence, 1, 1, layer.whole("channels", 0)};
        break;
      case Kind::linear:
        o.out.channels = layer.whole("channels", 0);
        o.bias = layer.flag("bias", true);
        break;
      case Kind::convolution:
      case Kind::transposed_convolution:
      case Kind::max_pool:
      case Kind::average_pool:
        set_window(layer, o, in);
        break;
      case Kind::upsample:
        need_image(o, in);
        o.kernel = layer.per_axis("factor", {});
        o.out.height *= o.kernel.height, o.out.width *= o.kernel.width;
        break;
      case Kind::batch_norm:
        o.relu = layer.flag("relu", false);
        o.epsilon = layer.real("epsilon", o.epsilon);
        break;
      case Kind::layer_norm:
      case Kind::rms_norm:
        o.epsilon = layer.real("epsilon", o.epsilon);
        break;
      case Kind::activation: {
        const std::string function = layer.word("function");
        using enum Operation::Function;
        o.function = function == "relu" ? relu : function == "gelu" ? gelu : tanh;
        break;
      }
      case Kind::swiglu:
        if (in.channels % 2 != 0) bad_shape(o, "needs an even number of channels, not " + number(in.channels));
        o.out.channels /= 2;
        break;
      case Kind::global_average_pool:
        if (in.kind == Extent::Kind::vector) bad_shape(o, "needs an image or a sequence, not a vector of " + in.str());
        o.out = {Extent::Kind::vector, 1, 1, in.channels};
        break;
      case Kind::flatten:
        need_image(o, in);
        o.out = {Extent::Kind::vector, 1, 1, in.height * in.width * in.channels};
        break;
      case Kind::add: {
        const Extent& other = d_.extent(o.inputs[1]);
        if (other != in) bad_shape(o, "cannot add " + other.str() + " to " + in.str() + ": the extents must be equal");
        break;
      }
      case Kind::concatenation:
        for (std::size_t i = 1; i < o.inputs.size(); ++i) {
          Extent other = d_.extent(o.inputs[i]);
          const std::int64_t channels = std::exchange(other.channels, in.channels);
          if (other != in)
            bad_shape(o, "cannot join " + d_.extent(o.inputs[i]).str() + " with " + in.str() +
                             ": all but the channels must be equal");
          o.out.channels += channels;
        }
        break;
      case Kind::loss:
        set_loss(layer, o, in);
        break;
      case Kind::squared_error:
        set_squared_error(layer, o, in);
        break;
      case Kind::attention:
        break;
    }
    return o;
  }

  [[noreturn]] static void bad_shape(const Operation& o, const std::string& text, const char* key = "") {
    throw LayersFault("layers-shape", o.pointer + key, text);
  }
  static void need_image(const Operation& o, const Extent& in) {
    if (in.kind != Extent::Kind::image)
      bad_shape(o, std::string("needs an image, not a ") +
                       (in.kind == Extent::Kind::vector ? "vector of " : "sequence of ") + in.str());
  }

  static void set_window(const Values& layer, Operation& o, const Extent& in) {
    using PerAxis = Product::PerAxis;
    need_image(o, in);
    const bool is_pool = o.kind == Kind::max_pool || o.kind == Kind::average_pool;
    o.kernel = layer.per_axis("kernel", {});
    o.stride = layer.per_axis("stride", is_pool ? o.kernel : PerAxis(1));
    o.padding = layer.per_axis("padding", PerAxis(0));
    if (!is_pool) o.out.channels = layer.whole("channels", 0);
    o.bias = layer.flag("bias", false);
    o.groups = static_cast<int>(layer.whole("groups", 1));
    if (in.channels % o.groups != 0 || o.out.channels % o.groups != 0)
      bad_shape(o,
                number(in.channels) + " channels to " + number(o.out.channels) + " cannot be shared by " +
                    number(o.groups) + " groups",
                "/groups");
    o.out.height = one_axis(o, in, in.height, o.kernel.height, o.stride.height, o.padding.height);
    o.out.width = one_axis(o, in, in.width, o.kernel.width, o.stride.width, o.padding.width);
  }
  static std::int64_t one_axis(const Operation& o, const Extent& in, std::int64_t size, int kernel, int stride,
                               int padding) {
    const bool is_convolution = o.kind == Kind::convolution || o.kind == Kind::transposed_convolution;
    const int most_padding = is_convolution ? kernel - 1 : kernel / 2;
    if (padding > most_padding)
      bad_shape(o,
                "value too large: " + number(padding) + " (maximum " + number(most_padding) + " for a kernel of " +
                    number(kernel) + ")",
                "/padding");
    if (o.kind == Kind::transposed_convolution) {
      const std::int64_t larger = (size - 1) * stride - 2 * padding + kernel;
      if (larger < 1) bad_shape(o, "leaves nothing of " + in.str() + ": choose a smaller padding", "/padding");
      return larger;
    }
    if (size + 2 * padding < kernel)
      bad_shape(o, "is " + number(kernel) + ", larger than the input " + in.str() + " with padding " + number(padding),
                "/kernel");
    return (size + 2 * padding - kernel) / stride + 1;
  }

  /// Whether the loss is for each sample, as its targets must be.
  bool check_per(const Values& layer, const Operation& o, bool has_sample_targets, const std::string& what) {
    has_loss_ = true;
    const bool is_per_sample = layer.word("per") == "sample";
    if (is_per_sample != has_sample_targets)
      bad_shape(o,
                std::string("samples of kind ") + to_string(d_.data.kind) + " have " + what + " for each " +
                    (has_sample_targets ? "sample: use \"sample\"" : "position: use \"position\""),
                "/per");
    return is_per_sample;
  }

  void set_squared_error(const Values& layer, Operation& o, const Extent& in) {
    const DataDescription& data = d_.data;
    if (!has_values(data.kind))
      bad_shape(o, std::string("the targets of ") + to_string(data.kind) + " are labels: use loss", "/layer");
    const bool is_per_sample = check_per(layer, o, data.kind == DataKind::measured_images, "numbers");
    const std::int64_t size = std::int64_t{data.image_size} * data.scale;
    const Extent wanted = is_per_sample                   ? Extent{Extent::Kind::vector, 1, 1, measured_values}
                          : data.kind == DataKind::series ? d_.input
                                                          : Extent{Extent::Kind::image, size, size, 1};
    if (in != wanted)
      bad_shape(o, "the targets are " + wanted.str() + ", and it reads " + in.str() + ": the extents must be equal");
  }

  void set_loss(const Values& layer, Operation& o, const Extent& in) {
    if (has_values(d_.data.kind))
      bad_shape(o, std::string("the targets of ") + to_string(d_.data.kind) + " are numbers: use mean_squared_error",
                "/layer");
    const bool is_per_sample = check_per(layer, o, d_.data.kind == DataKind::images, "a label");
    if (is_per_sample && in.kind != Extent::Kind::vector)
      bad_shape(o, "a loss per sample needs a vector, not " + in.str() + ": pool or flatten before it");
    if (d_.data.kind == DataKind::tokens && in.kind != Extent::Kind::sequence)
      bad_shape(o, "a loss per position of tokens needs a sequence, not " + in.str());
    if (d_.data.kind == DataKind::segmented_images &&
        (in.kind != Extent::Kind::image || in.height != d_.input.height || in.width != d_.input.width))
      bad_shape(o, "a loss per position needs an image of the input's size, " + number(d_.input.height) + " x " +
                       number(d_.input.width) + ", not " + in.str());
    o.out = in;
    o.out.channels = d_.data.kind == DataKind::tokens ? d_.data.vocabulary : d_.data.classes;
    o.bias = layer.flag("bias", true);
    o.label_smoothing = layer.real("label_smoothing", 0);
  }

  /// A product for queries, keys and values, attention, and a product behind it.
  void add_attention(const Values& layer, Operation o) {
    const Extent in = d_.in(o);
    if (in.kind == Extent::Kind::vector) bad_shape(o, "needs an image or a sequence, not a vector of " + in.str());
    o.out = in;
    o.heads = static_cast<int>(layer.whole("heads", 1));
    o.kv_heads = static_cast<int>(layer.whole("kv_heads", o.heads));
    o.causal = layer.flag("causal", false);
    if (in.channels % o.heads != 0)
      bad_shape(o, number(in.channels) + " channels cannot be shared by " + number(o.heads) + " heads", "/heads");
    if (o.heads % o.kv_heads != 0)
      bad_shape(o, number(o.kv_heads) + " heads of keys and values cannot be shared by " + number(o.heads) + " heads",
                "/kv_heads");
    Operation qkv = o, out = o;
    qkv.kind = out.kind = Kind::linear;
    qkv.bias = out.bias = layer.flag("bias", true);
    qkv.name += ".qkv", o.name += ".attended", out.name += ".out";
    qkv.out.channels = d_.head_dim(o) * (o.heads + 2 * std::int64_t{o.kv_heads});
    add(std::move(qkv));
    o.inputs = {static_cast<int>(d_.operations.size()) - 1};
    add(std::move(o));
    out.inputs = {static_cast<int>(d_.operations.size()) - 1};
    add(std::move(out));
  }

  void add(Operation o) {
    const auto too_large = [&](const std::string& what) {
      throw LayersFault("layers-too-large", o.pointer, what + " has more than 2^40 elements");
    };
    std::int64_t elements = o.out.positions(d_.data.longest_sequence), of_parameter = d_.in(o).channels;
    if (__builtin_mul_overflow(elements, o.out.channels, &elements) || elements > most_elements)
      too_large("its output for one sample");
    of_parameter /= o.groups;
    for (const std::int64_t factor : {o.out.channels, o.kernel.area()})
      if (__builtin_mul_overflow(of_parameter, factor, &of_parameter) || of_parameter > most_elements)
        if (o.kind == Kind::linear || o.kind == Kind::loss || o.kind == Kind::convolution ||
            o.kind == Kind::transposed_convolution)
          too_large("its weight");
    d_.operations.push_back(std::move(o));
  }

  void check_all() const {
    std::vector<bool> used(d_.operations.size());
    std::int64_t parameters = 0;
    for (const Operation& o : d_.operations) {
      for (const int from : o.inputs)
        if (from != network_input) used[static_cast<std::size_t>(from)] = true;
      parameters += count_parameters(d_, o);
      if (parameters > most_elements)
        throw LayersFault("layers-too-large", o.pointer, "the parameters up to here are more than 2^40");
    }
    const auto has_product = [](const Operation& o) {
      return o.kind == Kind::linear || o.kind == Kind::convolution || o.kind == Kind::transposed_convolution ||
             o.kind == Kind::loss;
    };
    if (std::ranges::none_of(d_.operations, has_product))
      throw LayersFault("layers-value", "/layers", "no layer is a product: add a linear or a convolution layer");
    for (std::size_t i = 0; i + 1 < used.size(); ++i)
      if (!used[i])
        throw LayersFault("layers-unused", d_.operations[i].pointer,
                          "no layer reads the output of this one: remove it, or read it with \"from\" or \"with\"");
  }

  CustomDescription d_;
  std::map<std::string, std::size_t> places_of_names_;
  std::vector<int> results_;  // the last operation of each layer
  bool has_loss_ = false;
};

}  // namespace

CustomDescription read_layers(const std::string& json) { return Reader(json).made(); }

}  // namespace tw::models::family::custom
