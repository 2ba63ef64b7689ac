// Checks a config file against its schema, which the programs make of their options; config.schema.json is its text.
#pragma once

#include <string>
#include <vector>

namespace tw::bench {

/// The text of the schema.
const std::string& config_schema_json();

struct ConfigFaults {
  /// Keys that are not known, with the nearest that is, and values that do not fit: a JSON pointer, the value, what it
  /// must be, and of a misspelt word the nearest that is allowed.
  std::vector<std::string> named;
  /// What keys and lists are to each other, in the schema's terms: their reader words it better where it finds it.
  std::vector<std::string> others;
};
/// `config` is JSON text without comments.
ConfigFaults config_faults(const std::string& config);

}  // namespace tw::bench
