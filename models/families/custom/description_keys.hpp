// The keys of a file of layers, with the values that each takes, and a reader of one object that refuses all others.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/families/custom/description.hpp"

namespace tw::models::family::custom {

struct Key {
  /// per_axis: a whole number, or a list of two, of height and width. words: a text or a list of texts.
  enum class Type { whole, per_axis, real, flag, word, words, object };
  std::string name;
  Type type = Type::whole;
  bool is_required = false;
  double least = 0, most = 0;           ///< of a number
  std::vector<std::string> words = {};  ///< the only ones of a word; empty: any
};

struct LayerKind {
  std::string name;
  Operation::Kind kind;
  std::vector<Key> keys;
};

const std::vector<Key>& file_keys();
/// Of {"input": {"kind": KIND}}. Throws LayersFault for another kind.
const std::vector<Key>& input_keys(const std::string& kind);
const std::vector<Key>& optimizer_keys();
const std::vector<Key>& task_keys();
const std::vector<Key>& schedule_keys();
/// Throws LayersFault at `pointer` for a layer that does not exist.
const LayerKind& layer_kind(const std::string& name, const std::string& pointer);
/// All of them, for tests and the manual.
const std::vector<LayerKind>& layer_kinds();

inline constexpr const char* input_name = "input";
inline constexpr const char* name_rule = "a name has letters, digits, '_' and '-', and begins with a letter or digit";
bool is_name(const std::string& text);

/// The values of one object, whose keys and types it has checked.
class Values {
 public:
  /// `what` names the object in messages. Throws LayersFault.
  Values(const nlohmann::json& object, std::string pointer, const std::vector<Key>& keys, const std::string& what);
  bool has(const char* key) const;
  std::int64_t whole(const char* key, std::int64_t otherwise) const;
  Product::PerAxis per_axis(const char* key, Product::PerAxis otherwise) const;
  float real(const char* key, double otherwise) const;
  double number(const char* key, double otherwise) const;  ///< all its digits, for a report
  bool flag(const char* key, bool otherwise) const;
  std::string word(const char* key, const char* otherwise = "") const;
  /// Each with its place behind the key's pointer: "" of a text, "/0" in a list.
  std::vector<std::pair<std::string, std::string>> words(const char* key) const;
  /// The text of a key on which the others depend. Throws LayersFault where it is missing or no text.
  static std::string word_at(const nlohmann::json& object, const char* key, const std::string& pointer);

 private:
  const nlohmann::json* object_;
};

}  // namespace tw::models::family::custom
