// Config files, by one list that Python's jsonschema reads too.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/plan/config_schema.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/set_points.hpp"
#include "comm/registry.hpp"
#include "results/selection/search.hpp"

namespace tw {
namespace {

using Json = nlohmann::json;

std::string refusal_of(const std::string& text) {
  try {
    read_config("plan.json", text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ConfigSchema, TakesAndRefusesWhatTheReaderDoesAndNamesThePlace) {
  std::ifstream lines(TRAINWATT_CONFIGS);
  int checked = 0;
  for (std::string line; std::getline(lines, line); ) {
    if (line.empty() || line[0] == '#') continue;
    SCOPED_TRACE(line);
    const std::size_t first = line.find(" | "), second = line.find(" | ", first + 3);
    const std::string kind = line.substr(0, first), text = line.substr(first + 3, second - first - 3);
    const ConfigFaults faults = config_faults(text);
    EXPECT_EQ(!faults.named.empty() || !faults.others.empty(), kind == "schema");
    const std::string said = refusal_of(text);
    if (kind == "valid") {
      EXPECT_EQ(said, "");
    } else {
      EXPECT_TRUE(said.starts_with("plan.json: ")) << said;
      EXPECT_NE(said.find(line.substr(second + 3)), std::string::npos) << said;
    }
    ++checked;
  }
  EXPECT_GT(checked, 50);
}

// What the schema lists stands elsewhere, too.
TEST(ConfigSchema, ListsTheWordsThatTheProgramsKnow) {
  const Json definitions = Json::parse(config_schema_json)["definitions"];
  const auto words = [](const Json& axis) { return axis["anyOf"][0]["enum"].get<std::vector<std::string>>(); };
  EXPECT_EQ(words(definitions["precision"]), precision_names());
  std::vector<std::string> governors = names_of(KnobKind::cpu_governor);
  governors.insert(governors.begin(), "found");
  EXPECT_EQ(words(definitions["cpu_governor"]), governors);
  EXPECT_EQ(Json::parse(config_schema_json)["properties"]["search"]["enum"].get<std::vector<std::string>>(), merit_names());
  std::vector<std::string> comms = communicator_names(), linked;
  for (const CommunicatorKind& kind : communicators()) linked.emplace_back(kind.name);
  EXPECT_EQ(comms, linked) << "the plan's list is that of the registry";
  comms.insert(comms.begin(), "auto");
  EXPECT_EQ(Json::parse(config_schema_json)["properties"]["comm"]["enum"].get<std::vector<std::string>>(), comms);
  for (const SettingAxis& axis : setting_axes()) EXPECT_TRUE(definitions.contains(axis.key)) << axis.key;
}

}  // namespace
}  // namespace tw
