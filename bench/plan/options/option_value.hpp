// Which values an option of a run takes, on the command line and in a config alike.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tw::bench {

/// A JSON object with sorted keys and without spaces, as its text.
struct JsonObject {
  std::string text;
  bool operator==(const JsonObject&) const = default;
};

/// A value as it is written: nothing, true, 3, 0.5, "50%", [4, 8], {…}.
using OptionValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>, JsonObject>;
/// What was written, by key.
using GivenOptions = std::map<std::string, OptionValue>;

struct ValueType {
  /// What the command line reads: a flag, "yes" or "no", a number, a text, a number or a list of them.
  enum class Kind { flag, yes_no, integer, number, text, integers };
  Kind kind = Kind::text;
  std::string wanted = {};  ///< completes "must be …"
  std::string schema = {};  ///< of its value in a config: a JSON object, draft-07
  std::int64_t least = 0, most = std::numeric_limits<std::int64_t>::max();  ///< of an integer
  double least_number = 0, most_number = std::numeric_limits<double>::max();
  bool is_above = false;                ///< a number is above its least one
  std::vector<std::string> words = {};  ///< the only ones of a text; empty: any
  std::string zero_word = {};           ///< of an integer from 1 on: the word for 0; empty: none
};

ValueType flag();
ValueType yes_or_no();
ValueType whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());
/// From 1 on, or a word, which is kept as 0.
ValueType whole_number_or(const std::string& word, std::int64_t most);
/// From 0 on, or above it.
ValueType number_from_0();
ValueType number_above_0(double most = std::numeric_limits<double>::max());
ValueType one_of(std::vector<std::string> words);
/// `schema`: an object, or a list of alternatives for anyOf.
ValueType value_like(const std::string& wanted, const std::string& schema,
                     ValueType::Kind kind = ValueType::Kind::text);

/// Throws UsageError of `key` where the value is out of the type's bounds or none of its words.
void check_value(const std::string& key, const ValueType& type, const OptionValue& value);
/// "[unknown-name] unknown --comm 'ncll': did you mean 'nccl'?": `word` is none of `known`.
[[noreturn]] void throw_unknown(const std::string& key, const std::string& word, const std::vector<std::string>& known);

/// A value of an integer type as people write it: a number, or the word for 0.
std::string written(const ValueType& type, std::int64_t value);
/// As JSON.
std::string json_text(const OptionValue& value);
/// The parts of a text between these characters, empty ones too.
std::vector<std::string> split(const std::string& text, char at);
/// As people write it: strings without quotes.
std::string plain_text(const OptionValue& value);
/// Of a config's JSON text. Whole numbers are integers, also 3.0 (draft-07). Throws UsageError if the type has none.
OptionValue value_of(const std::string& key, const ValueType& type, const std::string& json);

}  // namespace tw::bench
