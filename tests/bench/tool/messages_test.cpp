// What `trainwatt` says of wrong calls and wrong files: code, place and exit code.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "results/analysis/verdict.hpp"
#include "results/export/export.hpp"
#include "results/record/report_io.hpp"
#include "tests/bench/tool/built.hpp"
#include "tests/bench/tool/outcome.hpp"

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
  expect_refused(run({"plan", "--model", "gpt2-tiny", "--nodes", "3", "--ranks", "1,2"}),
                 "error[options-conflict]: --nodes 3: no point of the plan has more than 2 ranks");
  EXPECT_EQ(run({"plan", "--model", "gpt2-tiny", "--nodes", "2", "--ranks", "1,2"}).code, 0);
  EXPECT_EQ(run({"plan", "--model", "gpt2-tiny", "--nodes", "2", "--ranks", "scaling"}).code, 0);
  expect_refused(run({"export", good, "--to", "csv,csv", "-o", "out"}), "error[duplicate-value]: --to: csv ");
  expect_refused(run({"export", good, "--to", "csv,", "-o", "out"}), "error[bad-value]: --to csv,: ");
  expect_refused(run({"html", "A=", "-o", "out"}), "\"A=\": the name of a file is missing");
  expect_refused(run({"show", "/nowhere"}), "error[cannot-read]: /nowhere: No such file or directory: check the path");
  expect_refused(run({"plan", "--suite", "quick", "--site", "/nowhere"}), "error[cannot-read]: --site /nowhere: ");
  expect_refused(run({"models", "gpt2-tiny", "--table-rows-at-most", "5"}),
                 "error[option-does-not-apply]: --table-rows-at-most");
  expect_refused(run({"plan", "--suite", "quick", "--suite", "standard"}), "error[duplicate-value]: --suite: ");
  expect_refused(run({"plan", "--suite", "quick", "--device", "gpu"}), "error[unknown-name]: ");
  expect_refused(run({"show", good, "--width", "3"}), "error[bad-value]: --width 3: value too small (minimum 40)");
  expect_refused(run({"show", good, "--width", "+5000"}), "--width +5000: value too large (maximum 400)");
  expect_refused(run({"cost", good, "--prices", good, "--sensitivity", "100"}),
                 "error[bad-value]: --sensitivity 100: ");
  expect_refused(run({"compare", good, good, "--json", "--csv"}), "error[options-conflict]: ");
  expect_refused(run({"html", good}), "error[option-needs]: -o is missing");
}

/// In one pipe or log file for both.
TEST(Tool, AnErrorFollowsWhatWasPrintedBefore) {
  const std::string command = std::string(tw::built::trainwatt) + " compare A='" + fixtures + "/good.json' B='" +
                              fixtures + "/good_energy.json' 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string both;
  for (int c; (c = std::fgetc(pipe)) != EOF;) both += static_cast<char>(c);
  pclose(pipe);
  const std::size_t error = both.find("trainwatt: error[not-comparable]: ");
  ASSERT_NE(error, std::string::npos) << both;
  ASSERT_GT(error, 0u) << both;
  EXPECT_EQ(both[error - 1], '\n') << both;
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
  for (const char* text : {"nonsense", "[1, 2", "{\"hello\": 1}", "[]"}) {
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

/// An option that is given another kind of file says which it is, whichever option it is.
TEST(Tool, AnotherKindOfFileIsNamedByEachOption) {
  const std::string good = fixtures + "/good.json", kit = testing::TempDir() + "trainwatt-kinds-kit.json";
  std::remove(kit.c_str());
  ASSERT_EQ(run({"freeze", "--suite", "quick", "-o", kit}).code, 0);
  const std::string rules = file_with(R"({"rules": [{"name": "r", "kind": "failure"}]})", "-rules"),
                    site = file_with(R"({"knobs": []})", "-site"), csv = file_with("time,watts\n1,2\n", "-csv"),
                    bundle = file_with("\x28\xb5\x2f\xfd", "-bundle"),
                    cut = file_with(contents(good).substr(0, 3000), "-cut");
  const std::vector<std::string> compare = {"compare", "A=" + good, "B=" + fixtures + "/good_energy.json"};
  const std::pair<std::vector<std::string>, std::string> options[] = {{{"plan"}, "--config"},
                                                                      {{"freeze", "-o", kit + ".not"}, "--config"},
                                                                      {{"plan", "--suite", "quick"}, "--on"},
                                                                      {{"plan", "--suite", "quick"}, "--site"},
                                                                      {{"plan", "--suite", "quick"}, "--energy-csv"},
                                                                      {{"probe"}, "--site"},
                                                                      {{"probe"}, "--energy-csv"},
                                                                      {compare, "--prices"},
                                                                      {compare, "--baseline"},
                                                                      {compare, "--weights"},
                                                                      {compare, "--kit"},
                                                                      {{"cost", good}, "--prices"},
                                                                      {{"validate", good}, "--kit"},
                                                                      {{"validate", good}, "--signers"}};
  for (const auto& [command, option] : options)
    for (const std::string& file : {good, cut, kit, rules, site, csv, bundle}) {
      const bool is_taken = (file == kit && (option == "--config" || option == "--kit")) ||
                            (file == rules && option == "--baseline") || (file == site && option == "--site") ||
                            (file == csv && option == "--energy-csv");
      if (is_taken) continue;
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {option, file});
      expect_refused(run(arguments), "error[wrong-file]: " + option + " " + file + ": ");
    }
  for (const std::string& file : {kit, rules, site, csv})
    expect_refused(run({"show", file}), "error[wrong-file]: " + file + ": ");
  // A folder is none of them, and keys that are like no known one are listed once.
  for (const char* option : {"--prices", "--baseline", "--weights", "--kit"}) {
    std::vector<std::string> arguments = compare;
    arguments.insert(arguments.end(), {option, testing::TempDir()});
    expect_refused(run(arguments), std::string("error[bad-file]: ") + option + " ");
  }
  const std::string unlike = file_with(R"({"zzzzzz": 1, "yyyyyy": 2, "xxxxxx": 3})", "-unlike");
  const Outcome unknown = run({"plan", "--config", unlike});
  expect_refused(unknown, "error[bad-config]: ");
  EXPECT_EQ(unknown.err.find("warmup_steps"), unknown.err.rfind("warmup_steps")) << unknown.err;
  for (const std::string& file : {kit, rules, site, csv, bundle, cut, unlike}) std::remove(file.c_str());
}

/// A series of which some runs are left out supports no claim, however it is given.
TEST(Tool, ASeriesWithAGapIsNotCompared) {
  const std::filesystem::path folder = testing::TempDir() + "trainwatt-gap-" + std::to_string(getpid());
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  std::vector<std::string> files;
  for (const int index : {2, 3}) {
    const std::filesystem::path run_folder = folder / "series" / ("run-" + std::to_string(index));
    std::filesystem::create_directories(run_folder);
    report.context.run_index = index, report.context.launch = "launch" + std::to_string(index);
    for (tw::results::Record& record : report.records) {
      record.launch = report.context.launch;
      for (tw::results::Trial& trial : record.trials) trial.window_s *= 1.001 + 0.001 * index;
    }
    tw::results::summarise(report);
    files.push_back((run_folder / "report.json").string());
    std::ofstream(files.back()) << tw::results::to_json(report);
  }
  const std::string other = fixtures + "/good.json", series = (folder / "series").string(),
                    both = files[0] + "," + files[1];
  expect_refused(run({"compare", "A=" + series, "B=" + other}), "error[runs-missing]: " + series + ": ");
  expect_refused(run({"compare", other, other, "--run-variance", series}), "error[runs-missing]: ");
  expect_refused(run({"compare", other, other, "--run-variance", both}), "error[run-variance-gap]: ");
  const Outcome listed = run({"compare", "A=" + both, "B=" + other, "--json"});
  EXPECT_EQ(listed.code, 4) << listed.err;
  EXPECT_NE(listed.err.find("error[not-comparable]: "), std::string::npos) << listed.err;
  EXPECT_NE(listed.err.find("no run 1"), std::string::npos) << "the run that is missing: " << listed.err;
  bool is_blocked = false;
  const nlohmann::json found = nlohmann::json::parse(listed.out);
  for (const nlohmann::json& one : found.at("differences"))
    is_blocked = is_blocked || (one.at("what") == "run index" && one.at("blocking").get<bool>());
  EXPECT_TRUE(is_blocked) << listed.out;
  // Zeros in a number would make two runs of one.
  std::filesystem::rename(folder / "series" / "run-2", folder / "series" / "run-02");
  expect_refused(run({"compare", "A=" + series, "B=" + other}), "error[bad-folder]: ");
  std::filesystem::remove_all(folder);
}

/// Wrong options are the call's fault; where really nothing can be compared the exit code is 4.
TEST(Tool, WrongOptionsOfAComparisonAreNoFindings) {
  const std::string a = "A=" + fixtures + "/good.json", b = "B=" + fixtures + "/good_energy.json",
                    page = testing::TempDir() + "trainwatt-options.html";
  const std::pair<std::vector<std::string>, const char*> wrong[] = {{{"--only", "nosuch"}, "no-match"},
                                                                    {{"--weights", "nosuch=1"}, "no-match"},
                                                                    {{"--weights", "gpt2=-1"}, "bad-value"}};
  for (const auto& [options, code] : wrong)
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"compare", a, b}, {"html", a, b, "-o", page}}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), options.begin(), options.end());
      expect_refused(run(arguments), std::string("error[") + code + "]: " + options[0]);
    }
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  report.records.clear();
  const std::string empty = file_with(tw::results::to_json(report), "-empty");
  for (const std::vector<std::string>& systems : {std::vector<std::string>{"A=" + empty, b}, {b, "A=" + empty}}) {
    const Outcome o = run({"compare", systems[0], systems[1], "--json"});
    EXPECT_EQ(o.code, 4) << o.err;
    EXPECT_NE(o.err.find("error[not-comparable]: "), std::string::npos) << o.err;
    EXPECT_TRUE(nlohmann::json::accept(o.out)) << "an answer, too";
  }
  std::remove(empty.c_str());
}

/// What is advised is possible: a suite's batch is not an option's to set.
TEST(Tool, AnOpenGlobalBatchIsFixedByWhatThePlanLeavesOpen) {
  const std::string kit = testing::TempDir() + "trainwatt-open-kit.json",
                    plan = file_with(R"({"model": "gpt2-tiny"})", "-plan");
  const auto warning = [&](const std::vector<std::string>& options) {
    std::remove(kit.c_str());
    std::vector<std::string> arguments = {"freeze", "-o", kit};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome o = run(arguments);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.err;
  };
  EXPECT_NE(warning({"--model", "gpt2-tiny"}).find("--global-batch"), std::string::npos);
  const std::string of_suite = warning({"--suite", "quick"}), of_config = warning({"--config", plan});
  for (const std::string& text : {of_suite, of_config}) {
    EXPECT_NE(text.find("warning[open-global-batch]: "), std::string::npos) << text;
    EXPECT_EQ(text.find("--global-batch"), std::string::npos) << "which is refused there: " << text;
  }
  EXPECT_EQ(warning({"--suite", "quick", "--ranks", "2"}).find("open-global-batch"), std::string::npos)
      << "as it advises";
  EXPECT_NE(of_config.find("global_batch"), std::string::npos) << of_config;
  for (const std::string& file : {kit, plan}) std::remove(file.c_str());
}

TEST(Tool, EmptyWordsAreNoValues) {
  const std::string good = fixtures + "/good.json";
  for (const char* command : {"html", "export"})
    expect_refused(run({command, good, "-o", ""}), "error[bad-value]: -o is empty");
  expect_refused(run({"validate", good, "--kit", ""}), "error[bad-value]: --kit is empty");
  expect_refused(run({"validate", good, "--signers", ""}), "error[bad-value]: --signers is empty");
  expect_refused(run({"show", ""}), "error[bad-value]: ");
}

TEST(Tool, NumbersAreDecimal) {
  EXPECT_EQ(run({"show", fixtures + "/good.json", "--width", "080"}).out,
            run({"show", fixtures + "/good.json", "--width", "80"}).out);
  expect_refused(run({"show", fixtures + "/good.json", "--width", "039"}), "error[bad-value]: --width 39: ");
  EXPECT_EQ(run({"plan", "--model", "gpt2-tiny", "--accumulate", "010", "--json"}).out,
            run({"plan", "--model", "gpt2-tiny", "--accumulate", "10", "--json"}).out);
}

/// A full disk is an error of each program's, whatever is printed.
TEST(Tool, WhatDoesNotArriveIsAnError) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"show", "--help"}, {"--version"}, {"--describe=man"}, {"models"}}) {
    const Outcome o = run(arguments, {}, "/dev/full");
    EXPECT_EQ(o.code, 3) << arguments[0];
    EXPECT_NE(o.err.find("error[not-written]: "), std::string::npos) << o.err;
  }
}

TEST(Tool, ShellsCompleteTheWordsOfOptions) {
  const std::string script = run({"--describe=bash"}).out;
  for (const std::string& words :
       std::vector<std::string>{"--to) words='" + std::string(tw::results::export_formats().front().name) + " ",
                                "--sort) words='plan run throughput ", "--scope) words='device ",
                                "--figure) words='throughput ", "--suite) words='quick ", "--device) words='auto cpu "})
    EXPECT_NE(script.find(words), std::string::npos) << words << script;
}

/// A CSV file of another day, or of another kind.
TEST(Tool, AFacilityFileThatDoesNotFitSaysWhy) {
  const std::string prices = file_with(R"({"currency": "EUR", "systems": {"x": {"rent_per_month": 0}}})", "-prices"),
                    csv = file_with("time,watts\n1,100\n2,100\n", "-csv");
  const auto cost = [&] { return run({"cost", fixtures + "/good.json", "--prices", prices, "--facility-csv", csv}); };
  expect_refused(cost(), "error[bad-power-file]: " + csv + " ends ");
  EXPECT_NE(cost().err.find(" days before the window's end\n"), std::string::npos) << cost().err;
  std::ofstream(csv, std::ios::trunc) << "a;b\n";
  expect_refused(cost(), "error[bad-power-file]: " + csv + ":1: the header ");
  EXPECT_TRUE(cost().err.ends_with("not \"a;b\"\n")) << cost().err;
  const Outcome free = run({"cost", fixtures + "/good.json", "--prices", prices});
  EXPECT_EQ(free.code, 0) << free.err;
  EXPECT_NE(free.out.find("the cost is 0"), std::string::npos) << free.out;
  std::ofstream(prices, std::ios::trunc) << R"({"currency": "EUR", "systems": {"": {"rent_per_month": 0}}})";
  expect_refused(run({"cost", fixtures + "/good.json", "--prices", prices}),
                 "error[bad-prices]: " + prices + ": /systems/: ");
  std::remove(prices.c_str()), std::remove(csv.c_str());
}

/// A slip in the prices is named with its place: what may be right in a warning, what cannot be as an error.
TEST(Tool, ImplausiblePricesAreNamed) {
  const auto cost = [&](const std::string& fields) {
    const std::string prices = file_with(R"({"currency": "EUR", "systems": {"x": {)" + fields + "}}}", "-prices");
    const Outcome outcome = run({"cost", fixtures + "/good.json", "--prices", prices});
    std::remove(prices.c_str());
    return outcome;
  };
  const Outcome good = cost(R"("capex": 20000, "life_years": 5, "electricity_per_kwh": 0.3)");
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.err.find("implausible-price"), std::string::npos) << good.err;
  const Outcome doubtful = cost(R"("capex": 12, "life_years": 5, "electricity_per_kwh": 30)");
  EXPECT_EQ(doubtful.code, 0) << doubtful.err;
  for (const char* key : {"/systems/x/capex: ", "/systems/x/electricity_per_kwh: "})
    EXPECT_NE(doubtful.err.find(key), std::string::npos) << doubtful.err;
  EXPECT_EQ(doubtful.err.find("trainwatt: warning[implausible-price]: "), 0u) << doubtful.err;
  for (const char* value : {"-5", "NaN", "1e12", "1e999", "-0.01", "\"12\"", "null"}) {
    const Outcome wrong = cost(std::string("\"life_years\": 5, \"capex\": ") + value);
    EXPECT_EQ(wrong.code, 2) << value;
    EXPECT_EQ(wrong.err.find("trainwatt: error[bad-prices]: "), 0u) << wrong.err;
  }
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
  expect_refused(run({"freeze", "--model", "gpt2-tiny", "--cpu-power-limit", "60%", "-o", folder + "/kit.json"}),
                 "error[range-unknown]: --cpu-power-limit 60%: ");
  const Outcome unwritten = run({"html", report, "-o", report + "/page.html"});
  EXPECT_EQ(unwritten.code, 3);
  EXPECT_EQ(unwritten.err.find("trainwatt: error[not-written]: " + report + "/page.html: "), 0u) << unwritten.err;
  std::filesystem::remove_all(folder);
}

}  // namespace
