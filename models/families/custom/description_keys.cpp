#include "models/families/custom/description_keys.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/catalog/nearest.hpp"

namespace tw::models::family::custom {
namespace {

using Json = nlohmann::json;
using Kind = Operation::Kind;
using Type = Key::Type;

constexpr double most_channels = 1 << 20, most_size = 1 << 14, most_tokens = 1 << 24, most_vocabulary = 1 << 28,
                 most_steps = 1e9;

Key whole(const char* name, double least, double most, bool is_required) {
  return {name, Type::whole, is_required, least, most};
}
Key per_axis(const char* name, double least, double most, bool is_required) {
  return {name, Type::per_axis, is_required, least, most};
}
Key real(const char* name, double least, double most, bool is_required = false) {
  return {name, Type::real, is_required, least, most};
}
Key flag(const char* name) { return {name, Type::flag}; }
Key word(const char* name, std::vector<std::string> words = {}, bool is_required = true) {
  return {name, Type::word, is_required, 0, 0, std::move(words)};
}

/// With those that each layer has.
LayerKind layer(const char* name, Kind kind, std::vector<Key> keys) {
  for (const char* common : {"layer", "name", "from", "comment"}) keys.push_back(word(common, {}, false));
  return {name, kind, std::move(keys)};
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& one : words) text += (text.empty() ? "" : ", ") + one;
  return text;
}

/// "3", and "0.5".
std::string shown(double value) {
  const std::string text = Json(value).dump();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

[[noreturn]] void unknown(const char* code, const std::string& pointer, const std::string& what,
                          const std::string& given, const std::vector<std::string>& known,
                          const std::string& where = "") {
  const std::string close = nearest(given, known);
  throw LayersFault(code, pointer,
                    what + " '" + cut_word(given) + "'" + where +
                        (close.empty() ? " (known: " + joined(known) + ")" : ": did you mean '" + close + "'?"));
}

[[noreturn]] void wrong_word(const std::string& pointer, const std::string& given,
                             const std::vector<std::string>& known) {
  std::string text = "must be ";
  for (std::size_t i = 0; i < known.size(); ++i)
    text += (i == 0 ? "" : i + 1 == known.size() ? " or " : ", ") + ("\"" + known[i] + "\"");
  text += ", not \"" + cut_word(given) + "\"";
  const std::string close = nearest(given, known);
  throw LayersFault("layers-value", pointer, close.empty() ? text : text + ": did you mean '" + close + "'?");
}

/// As a JSON pointer has it.
std::string escaped(const std::string& key) {
  std::string text;
  for (const char c : key) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

void check_number(const Json& value, const Key& key, const std::string& pointer) {
  const bool is_whole = key.type != Type::real;
  const double number = value.is_number() ? value.get<double>() : 0;
  if (!value.is_number() || (is_whole && std::trunc(number) != number))
    throw LayersFault("layers-value", pointer,
                      value.dump().substr(0, 80) + ": must be " + (is_whole ? "a whole number" : "a number") +
                          " from " + shown(key.least) + " to " + shown(key.most));
  if (number < key.least)
    throw LayersFault("layers-value", pointer,
                      value.dump().substr(0, 80) + ": value too small (minimum " + shown(key.least) + ")");
  if (!(number <= key.most))
    throw LayersFault("layers-value", pointer,
                      value.dump().substr(0, 80) + ": value too large (maximum " + shown(key.most) + ")");
}

void check_value(const Json& value, const Key& key, const std::string& pointer) {
  const auto need = [&](bool fits, const char* what) {
    if (!fits) throw LayersFault("layers-value", pointer, value.dump().substr(0, 80) + ": must be " + what);
  };
  switch (key.type) {
    case Type::whole:
    case Type::real:
      return check_number(value, key, pointer);
    case Type::per_axis:
      if (!value.is_array()) return check_number(value, key, pointer);
      need(value.size() == 2, "a whole number, or a list of two: of height and width");
      check_number(value[0], key, pointer + "/0");
      return check_number(value[1], key, pointer + "/1");
    case Type::words:
      if (value.is_string()) return;
      need(value.is_array() && !value.empty(), "a name, or a list of names");
      for (std::size_t i = 0; i < value.size(); ++i)
        if (!value[i].is_string())
          throw LayersFault("layers-value", pointer + "/" + std::to_string(i), "must be a name");
      return;
    case Type::flag:
      return need(value.is_boolean(), "true or false");
    case Type::word: {
      need(value.is_string(), key.words.empty() ? "a text" : ("one of " + joined(key.words)).c_str());
      const std::string text = value.get<std::string>();
      if (!key.words.empty() && std::ranges::count(key.words, text) == 0) wrong_word(pointer, text, key.words);
      return;
    }
    case Type::object:  // its reader says what is wrong
      return;
  }
}

}  // namespace

const std::vector<Key>& file_keys() {
  static const std::vector<Key> keys = {word("name"),
                                        word("comment", {}, false),
                                        {"input", Type::object, true},
                                        {"layers", Type::object, true},
                                        {"optimizer", Type::object},
                                        {"task", Type::object},
                                        whole("micro_batch", 1, most_channels, false),
                                        whole("seq_len", 1, most_tokens, false)};
  return keys;
}

const std::vector<Key>& input_keys(const std::string& kind) {
  static const std::vector<Key> images = {word("kind"), whole("size", 3, most_size, true),
                                          whole("channels", 1, 16, true), whole("classes", 2, most_channels, true)};
  static const std::vector<Key> tokens = {word("kind"), whole("vocabulary", 4, most_vocabulary, true),
                                          whole("longest_sequence", 1, most_tokens, true)};
  static const std::vector<Key> measured = {word("kind"), whole("size", 3, most_size, true),
                                            whole("channels", 1, 16, true), whole("gratings", 1, most_channels, true)};
  static const std::vector<Key> restored = [] {
    std::vector<Key> keys = measured;
    keys.push_back(whole("scale", 1, 16, false));
    return keys;
  }();
  static const std::vector<Key> series = {word("kind"), whole("variables", 1, most_channels, true),
                                          whole("longest_sequence", 1, most_tokens, true)};
  const std::vector<std::pair<std::string, const std::vector<Key>*>> all = {{"images", &images},
                                                                            {"segmented_images", &images},
                                                                            {"restored_images", &restored},
                                                                            {"measured_images", &measured},
                                                                            {"series", &series},
                                                                            {"tokens", &tokens}};
  std::vector<std::string> known;
  for (const auto& [name, keys] : all) {
    if (name == kind) return *keys;
    known.push_back(name);
  }
  unknown("layers-value", "/input/kind", "unknown kind", kind, known);
}

const std::vector<Key>& optimizer_keys() {
  static const std::vector<Key> keys = {word("kind", {"adamw", "sgd"}, false), real("learning_rate", 1e-9, 100),
                                        real("weight_decay", 0, 100), real("clip_norm", 0, 1e9),
                                        real("momentum", 0, 0.999999)};
  return keys;
}

const std::vector<Key>& task_keys() {
  static const std::vector<Key> keys = {word("name", {}, false),
                                        word("comment", {}, false),
                                        whole("global_batch", 1, most_channels, true),
                                        real("target", 1e-9, 1e9, true),
                                        whole("held_out_samples", 1, most_tokens, true),
                                        whole("evaluation_interval", 1, most_steps, true),
                                        whole("most_steps", 1, most_steps, true),
                                        {"schedule", Type::object},
                                        word("extrapolated_from", {}, false)};
  return keys;
}

const std::vector<Key>& schedule_keys() {
  static const std::vector<Key> keys = {real("learning_rate", 1e-9, 100), real("final_share", 1e-6, 1),
                                        whole("warmup_steps", 0, most_steps, false),
                                        whole("decay_steps", 1, most_steps, false)};
  return keys;
}

const std::vector<LayerKind>& layer_kinds() {
  const Key channels = whole("channels", 1, most_channels, true), kernel = per_axis("kernel", 1, 1024, true),
            stride = per_axis("stride", 1, 1024, false), padding = per_axis("padding", 0, 1024, false),
            epsilon = real("epsilon", 1e-12, 1), with = word("with");
  static const std::vector<LayerKind> kinds = {
      layer("embedding", Kind::embedding, {channels, flag("positions")}),
      layer("linear", Kind::linear, {channels, flag("bias")}),
      layer("convolution", Kind::convolution,
            {channels, kernel, stride, padding, whole("groups", 1, most_channels, false), flag("bias")}),
      layer("transposed_convolution", Kind::transposed_convolution, {channels, kernel, stride, padding, flag("bias")}),
      layer("upsample", Kind::upsample, {per_axis("factor", 1, 64, true)}),
      layer("batch_norm", Kind::batch_norm, {epsilon, flag("relu")}),
      layer("layer_norm", Kind::layer_norm, {epsilon}),
      layer("rms_norm", Kind::rms_norm, {epsilon}),
      layer("activation", Kind::activation, {word("function", {"relu", "gelu", "tanh"})}),
      layer("swiglu", Kind::swiglu, {}),
      layer("max_pool", Kind::max_pool, {kernel, stride, padding}),
      layer("average_pool", Kind::average_pool, {kernel, stride, padding}),
      layer("global_average_pool", Kind::global_average_pool, {}),
      layer("flatten", Kind::flatten, {}),
      layer("attention", Kind::attention,
            {whole("heads", 1, 1024, true), whole("kv_heads", 1, 1024, false), flag("causal"), flag("bias")}),
      layer("residual", Kind::add, {with}),
      layer("concatenation", Kind::concatenation, {{"with", Type::words, true}}),
      layer("loss", Kind::loss, {word("per", {"sample", "position"}), flag("bias"), real("label_smoothing", 0, 0.999)}),
      layer("mean_squared_error", Kind::squared_error, {word("per", {"sample", "position"})})};
  return kinds;
}

const LayerKind& layer_kind(const std::string& name, const std::string& pointer) {
  const auto found = std::ranges::find(layer_kinds(), name, &LayerKind::name);
  if (found != layer_kinds().end()) return *found;
  std::vector<std::string> known;
  for (const LayerKind& kind : layer_kinds()) known.push_back(kind.name);
  unknown("layers-unknown-layer", pointer, "unknown layer", name, known);
}

bool is_name(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && is_plain(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return is_plain(c) || c == '_' || c == '-'; });
}

Values::Values(const Json& object, std::string pointer, const std::vector<Key>& keys, const std::string& what)
    : object_(&object) {
  if (!object.is_object()) throw LayersFault("layers-value", pointer, "must be an object");
  std::vector<std::string> known;
  for (const Key& key : keys) known.push_back(key.name);
  for (const auto& [name, value] : object.items()) {
    const auto key = std::ranges::find(keys, name, &Key::name);
    if (key == keys.end())
      unknown("layers-unknown-key", pointer + "/" + escaped(cut_word(name)), "unknown key", name, known, " in " + what);
    check_value(value, *key, pointer + "/" + name);
  }
  for (const Key& key : keys)
    if (key.is_required && !object.contains(key.name))
      throw LayersFault("layers-missing", pointer, what + " needs the key \"" + key.name + "\"");
}

bool Values::has(const char* key) const { return object_->contains(key); }
std::int64_t Values::whole(const char* key, std::int64_t otherwise) const {
  return has(key) ? static_cast<std::int64_t>(object_->at(key).get<double>()) : otherwise;
}
Product::PerAxis Values::per_axis(const char* key, Product::PerAxis otherwise) const {
  if (!has(key)) return otherwise;
  const Json& value = object_->at(key);
  const auto number = [](const Json& one) { return static_cast<int>(one.get<double>()); };
  return value.is_array() ? Product::PerAxis(number(value[0]), number(value[1])) : Product::PerAxis(number(value));
}
std::vector<std::pair<std::string, std::string>> Values::words(const char* key) const {
  std::vector<std::pair<std::string, std::string>> all;
  if (!has(key)) return all;
  const Json& value = object_->at(key);
  if (value.is_string()) return {{value.get<std::string>(), ""}};
  for (std::size_t i = 0; i < value.size(); ++i) all.emplace_back(value[i].get<std::string>(), "/" + std::to_string(i));
  return all;
}
float Values::real(const char* key, double otherwise) const { return static_cast<float>(number(key, otherwise)); }
double Values::number(const char* key, double otherwise) const {
  return has(key) ? object_->at(key).get<double>() : otherwise;
}
bool Values::flag(const char* key, bool otherwise) const { return has(key) ? object_->at(key).get<bool>() : otherwise; }
std::string Values::word(const char* key, const char* otherwise) const {
  return has(key) ? object_->at(key).get<std::string>() : otherwise;
}
std::string Values::word_at(const Json& object, const char* key, const std::string& pointer) {
  if (!object.is_object()) throw LayersFault("layers-value", pointer, "must be an object");
  const auto found = object.find(key);
  if (found == object.end()) throw LayersFault("layers-missing", pointer, std::string("needs the key \"") + key + "\"");
  if (!found->is_string()) throw LayersFault("layers-value", pointer + "/" + key, "must be a text");
  return found->get<std::string>();
}

}  // namespace tw::models::family::custom
