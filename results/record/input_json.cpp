#include "results/record/input_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "results/record/report_io.hpp"
#include "results/record/schema_check.hpp"

namespace tw::results::input {

using Json = nlohmann::ordered_json;

void fail(const std::string& where, const std::string& what) { throw std::runtime_error(where + ": " + what); }

Json read(const std::string& text) {
  if (const std::string fault = json_fault(text, true); !fault.empty()) throw std::runtime_error("not JSON: " + fault);
  Json json = Json::parse(text, nullptr, true, true);
  if (!json.is_object()) fail("/", std::string("must be an object, not ") + json.type_name());
  return json;
}

void hold_against(const std::string& text, const std::string& schema, const char* schema_name) {
  const std::vector<std::string> faults = schema_faults(text, schema);
  if (faults.empty()) return;
  throw std::runtime_error(fmt::format("{}{}; {} explains each field", faults[0],
                                       faults.size() > 1 ? fmt::format(" (and {} more)", faults.size() - 1) : "",
                                       schema_name));
}

}  // namespace tw::results::input
