#include "tests/tool/outcome.hpp"

#include <nlohmann/json.hpp>

namespace tw::testing {

std::string validate_json(const std::vector<std::string>& paths) {
  std::vector<std::string> arguments = {"validate", "--json"};
  arguments.insert(arguments.end(), paths.begin(), paths.end());
  const Outcome o = run(arguments);
  const nlohmann::json found = nlohmann::json::parse(o.out);
  EXPECT_EQ(found.at("exit_code"), o.code);
  EXPECT_EQ(found.at("files").size(), paths.size());
  return o.out;
}

}  // namespace tw::testing
