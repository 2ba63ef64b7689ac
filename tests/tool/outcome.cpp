#include "tests/tool/outcome.hpp"

#include <nlohmann/json.hpp>

namespace tw::testing {

nlohmann::json findings(const std::vector<std::string>& paths) {
  std::vector<std::string> arguments = {"validate", "--json"};
  arguments.insert(arguments.end(), paths.begin(), paths.end());
  const Outcome o = run(arguments);
  const nlohmann::json found = nlohmann::json::parse(o.out);
  EXPECT_EQ(found.at("exit_code"), o.code);
  EXPECT_EQ(found.at("files").size(), paths.size());
  return found.at("files");
}
std::vector<std::string> codes(const nlohmann::json& faults) {
  std::vector<std::string> all;
  for (const nlohmann::json& one : faults) all.push_back(one.at("code"));
  return all;
}

}  // namespace tw::testing
