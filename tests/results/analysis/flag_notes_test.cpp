#include "results/analysis/flag_notes.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/record/schema_check.hpp"
#include "results/validation/validate.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

nlohmann::json schema_of(const std::string& pointer) {
  return nlohmann::json::parse(report_schema_json).at(nlohmann::json::json_pointer("/definitions/verdict/properties/" + pointer));
}

/// The table is what this list gives: on a failure the message holds it whole.
TEST(Flags, TheManualHasEachWithItsText) {
  std::string table = "| flag | means, and what to do |\n|---|---|\n";
  for (const char* name : name_list<Flag>)
    table += std::string("| `") + name + "` | " + note_of(FlagName(name)) + " |\n";
  std::ifstream file(TRAINWATT_MANUAL);
  const std::string manual((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(manual.find("\n\n" + table + "\n"), std::string::npos)
      << "the table of flags in " << TRAINWATT_MANUAL << " is to be:\n" << table;
}

TEST(Flags, TheSchemaNamesEach) {
  EXPECT_EQ(schema_of("flags/items/examples"), nlohmann::json(name_list<Flag>));
  EXPECT_EQ(schema_of("status/enum"), nlohmann::json(name_list<Status>));
}

TEST(Flags, NamesAreUniqueAndTextsAreWhole) {
  const std::regex pattern(schema_of("flags/items/pattern").get<std::string>());
  std::set<std::string> names;
  for (const char* name : name_list<Flag>) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(std::regex_search(name, pattern)) << name;
    EXPECT_EQ(note_of(FlagName(name)).find_first_of("{}|\n"), std::string::npos) << name;
    const FlagUse& use = facts_of(*named<Flag>(name)).use;
    EXPECT_EQ(*use.why != '\0', use.kind == FlagUse::disturbs) << name << ": the answer of a comparison says why";
  }
}

TEST(Flags, ACommandHasItsOwnText) {
  Record record = sample_record();
  record.verdict.flags = {Flag::short_window, Flag::steal};
  const std::string of_steps = note_of(Flag::short_window, {record});
  record.workload.device = "command";
  EXPECT_NE(note_of(Flag::short_window, {record}), of_steps);
  EXPECT_EQ(note_of(Flag::steal, {record}), note_of(Flag::steal));
}

/// Of a newer program: it is shown, and asks nothing of logic.
TEST(Flags, OneThatIsNotKnownStays) {
  Report report = sample_report();
  const FlagName unknown("of_tomorrow");
  report.records[0].verdict.flags.push_back(unknown);
  const Report read = report_from_json(to_json(report));
  EXPECT_TRUE(has_flag(read.records[0], unknown));
  EXPECT_FALSE(unknown.known());
  EXPECT_NE(note_of(unknown).find("no explanation"), std::string::npos);
  Record again = read.records[0];
  summarise(again);
  EXPECT_TRUE(has_flag(again, unknown)) << "it is not this program's to take away";
}

TEST(Statuses, OneThatIsNotKnownIsRefused) {
  const std::string good = to_json(sample_report()), valid = R"("status": "valid")";
  std::string text = good;
  text.replace(text.find(valid), valid.size(), R"("status": "splendid")");
  try {
    report_from_json(text);
    ADD_FAILURE() << "it was read";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()),
              R"(/records/0/verdict/status: expected one of "valid", "invalid", "unsupported", "failed", found "splendid")");
  }
  EXPECT_EQ(report_from_json(text, UnknownNames::left_out).records[0].verdict.status, Status::invalid);
  for (const char* version : {"1.0", "1.9"}) {
    std::string versioned = text;
    versioned.replace(versioned.find(schema_version), 3, version);
    for (const Fault& fault : validate_report(versioned).violations) EXPECT_EQ(fault.code, "schema") << fault.text;
    EXPECT_FALSE(validate_report(versioned).violations.empty());
  }
  std::string line = to_json_line(sample_report().records[0]) + "\n";
  line.replace(line.find(R"("status":"valid")"), 16, R"("status":"splendid")");
  EXPECT_THROW(record_lines(line), std::runtime_error);
  ASSERT_FALSE(validate_record_lines(line).violations.empty());
  EXPECT_EQ(validate_record_lines(line).violations[0].code, "schema");
}

}  // namespace
}  // namespace tw
