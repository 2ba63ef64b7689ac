// Config files, by one list that Python's jsonschema reads too.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "bench/plan/options/config_schema.hpp"
#include "bench/plan/plan.hpp"

namespace tw {

using namespace bench;

namespace {

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
      EXPECT_NE(said.find("] plan.json: "), std::string::npos) << said;
      std::istringstream words(line.substr(second + 3));
      std::string code;
      words >> code;
      EXPECT_TRUE(said.starts_with("[" + code + "] ")) << said;
      for (std::string word; words >> word;) EXPECT_NE(said.find(word), std::string::npos) << said;
    }
    ++checked;
  }
  EXPECT_GT(checked, 50);
}

TEST(ConfigSchema, TheCommittedFileIsTheProgramsOwn) {
  std::ifstream file(TRAINWATT_CONFIG_SCHEMA);
  const std::string committed((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (committed == config_schema_json()) return;
  const std::string needed = testing::TempDir() + "config.schema.json";
  std::ofstream(needed) << config_schema_json();
  ADD_FAILURE() << "the options have changed: cp " << needed << " " << TRAINWATT_CONFIG_SCHEMA;
}

}  // namespace
}  // namespace tw
