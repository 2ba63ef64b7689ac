// What `trainwatt` says of wrong calls and wrong files: code, place and exit code.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "tests/tool/outcome.hpp"

namespace {

using namespace tw::testing;

/// What the library for command lines finds, too, has a code, the option's name and what it takes.
TEST(Tool, BadUsageThatTheLibraryFinds) {
  const std::string good = fixtures + "/good.json";
  expect_refused(run({"plan", "--suite", "quick", "--nodes", "0"}),
                 "error[bad-value]: --nodes 0: value too small (minimum 1)");
  for (const std::string none : {"x", "0x0", "nan", " 1"})
    expect_refused(run({"plan", "--suite", "quick", "--nodes", none}), "error[bad-value]: --nodes " + none + ": ");
  expect_refused(run({"plan", "--suite", "quick", "--nodes", "1", "--nodes", "2"}),
                 "error[duplicate-value]: --nodes: ");
  expect_refused(run({"plan", "--suite", "quick", "--suite", "standard"}), "error[duplicate-value]: --suite: ");
  expect_refused(run({"plan", "--suite", "quick", "--device", "gpu"}), "error[unknown-name]: ");
  expect_refused(run({"show", good, "--width", "3"}), "error[bad-value]: --width 3: value too small (minimum 40)");
  expect_refused(run({"show", good, "--width", "+5000"}), "--width +5000: value too large (maximum 400)");
  expect_refused(run({"cost", good, "--prices", good, "--sensitivity", "100"}),
                 "error[bad-value]: --sensitivity 100: ");
  expect_refused(run({"compare", good, good, "--json", "--csv"}), "error[options-conflict]: ");
  expect_refused(run({"html", good}), "error[option-needs]: --out");
}

TEST(Tool, AReportThatWasCutIsNamedAsCut) {
  const std::string whole = contents(fixtures + "/good.json");
  const std::string path = file_with(whole.substr(0, whole.size() / 2), "-cut");
  const std::string cut = "cut off after " + std::to_string(whole.size() / 2) + " bytes";
  expect_refused(run({"show", path}), "error[bad-report]: " + path + ": ");
  expect_refused(run({"show", path}), cut);
  const Outcome o = run({"validate", path});
  EXPECT_EQ(o.code, 1) << "a report, and not a good one";
  EXPECT_NE(flat(o.out).find(cut), std::string::npos) << o.out;
  EXPECT_TRUE(o.out.starts_with(path)) << o.out;
  for (const char* text : {"", "nonsense", "[1, 2", "{\"hello\": 1}", "[]"}) {
    const std::string other = file_with(text, "-other");
    expect_refused(run({"validate", other}), "error[bad-report]: " + other + ": ");
    std::remove(other.c_str());
  }
  std::remove(path.c_str());
}

/// Prices and rules that break their schema are told in our words, with the JSON pointer of the value.
TEST(Tool, FilesThatBreakTheirSchemaSayWhereAndWhatIsWanted) {
  const std::string good = fixtures + "/good.json";
  const auto refused = [&](const char* option, const std::string& text, const std::string& what) {
    const std::string path = file_with(text, "-schema");
    expect_refused(run({"compare", good, fixtures + "/good_energy.json", option, path}), path + ": " + what);
    std::remove(path.c_str());
  };
  refused("--prices", R"({"currency": "EUR", "systems": {"a/b": {"rent_per_month": "7"}}})",
          "/systems/a~1b/rent_per_month: must be a number, not \"7\"");
  refused("--prices", R"({"currency": "EUR", "pue": 0.5, "systems": {"a": {"rent_per_month": 7}}})",
          "/pue: must be at least 1, is 0.5");
  refused("--prices", R"({"currency": "", "systems": {"a": {"rent_per_month": 7}}})", "/currency: is empty");
  refused("--prices", R"({"systems": {"a": {"rent_per_month": 7}}})", "/: \"currency\" is missing");
  refused("--baseline", R"({"rules": []})", "/rules: is empty");
  refused("--baseline", R"({"rules": 3})", "/rules: must be an array, not 3");
}

/// A note on a good report is no fault of it.
TEST(Tool, NotesHaveACodeOfTheirOwn) {
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  report.records[0].trials[0].foreign_share = 0.5;  // other programs, of which no flag tells
  const std::string path = file_with(tw::results::to_json(report), "-note");
  const Outcome o = run({"show", path});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.err.find("warning[report-note]: "), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("report-faulty"), std::string::npos) << o.err;
  std::remove(path.c_str());
}

/// Held against a kit, runs of another plan are no offers, whoever is faster.
TEST(Tool, AComparisonForAKitSaysWhatIsNoAward) {
  tw::results::Report slower = tw::results::report_from_json(contents(fixtures + "/good.json"));
  slower.context.launch = "another";
  for (tw::results::Record& record : slower.records) {
    record.launch = slower.context.launch;
    for (tw::results::Trial& trial : record.trials) trial.window_s *= 1.01;
  }
  tw::results::summarise(slower);
  const std::string kit = testing::TempDir() + "trainwatt-award-kit.json", page = kit + ".html",
                    a = fixtures + "/good.json", b = file_with(tw::results::to_json(slower), "-b");
  for (const std::string& path : {kit, page}) std::remove(path.c_str());
  ASSERT_EQ(run({"freeze", "--suite", "quick", "--repeat", "3", "-o", kit}).code, 0);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compare", "A=" + a, "B=" + b, "--kit", kit, "--json"},
        {"html", "A=" + a, "B=" + b, "--kit", kit, "-o", page}}) {
    const Outcome o = run(command);
    EXPECT_EQ(o.code, 4) << o.err;
    EXPECT_NE(o.err.find("error[not-an-award]: "), std::string::npos) << o.err;
    if (command[0] == "html") continue;
    const nlohmann::json json = nlohmann::json::parse(o.out);
    std::set<std::string> codes;
    for (const nlohmann::json& one : json.at("not_an_award")) codes.insert(one.at("code"));
    EXPECT_EQ(codes, (std::set<std::string>{"rule_broken", "kit_differs", "fewer_runs"}));
  }
  EXPECT_NE(contents(page).find("Not an award: "), std::string::npos);
  // Rules that are kept make it no award; one that is violated is the worse.
  for (const auto& [most, code] : {std::pair{"1e15", 4}, {"1", 1}}) {
    const std::string rules = file_with(
        std::string(R"({"rules": [{"name": "memory", "kind": "value", "figure": "peak-memory", "points": ["bf16/acc4"],
      "at_most": )") +
            most + "}]}",
        "-rules");
    const Outcome o = run({"compare", "A=" + a, "B=" + b, "--kit", kit, "--baseline", rules});
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_NE(o.err.find("error[not-an-award]: "), std::string::npos) << o.err;
    EXPECT_EQ(run({"compare", "A=" + a, "B=" + b, "--baseline", rules}).code, code == 1 ? 1 : 0) << "of no kit";
    std::remove(rules.c_str());
  }
  EXPECT_EQ(run({"compare", "A=" + a, "B=" + b}).code, 0) << "of no kit";
  expect_refused(run({"html", a, "--kit", kit, "-o", page + "2"}), "error[options-conflict]: --kit");
  for (const std::string& path : {kit, page, b}) std::remove(path.c_str());
}

TEST(Tool, WrongFoldersAndMissingNames) {
  const std::string folder = testing::TempDir() + "trainwatt-folder-" + std::to_string(getpid()),
                    report = folder + "/report.json";
  std::filesystem::create_directories(folder);
  expect_refused(run({"show", folder}), "error[bad-file]: " + folder + ": a folder without a report.json");
  std::filesystem::copy(fixtures + "/good.json", report);
  expect_refused(run({"show", folder}), "error[bad-file]: " + folder + ": a folder; give " + report);
  expect_refused(run({"compare", "A=", report}), "error[bad-value]: ");
  expect_refused(run({"compare", "A=" + report + ",", report}), "error[bad-value]: ");
  expect_refused(run({"freeze", "-o", folder + "/kit.json"}), "error[no-model]: nothing to freeze: ");
  std::filesystem::remove_all(folder);
}

}  // namespace
