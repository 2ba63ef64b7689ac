// Runs `trainwatt` and looks at what a user sees: both streams and the exit code.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "results/analysis/run_rules.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"
#include "tests/bench/tool/outcome.hpp"

namespace {

using namespace tw::testing;

TEST(Tool, Version) {
  const tw::results::Program program = tw::results::program_info("trainwatt");
  const Outcome o = run({"--version"});
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.out, "trainwatt " + program.version + " (" + program.git_commit + ")\n");
}

TEST(Tool, Help) {
  const Outcome o = run({"--help"});
  EXPECT_EQ(o.code, 0);
  for (const char* command : {"validate", "show", "export", "html", "models", "plan"})
    EXPECT_NE(o.out.find(command), std::string::npos);
  EXPECT_EQ(run({"plan", "--help"}).code, 0);
}

TEST(Tool, BadUsage) {
  expect_refused(run({}), "error[no-command]: ");
  expect_refused(run({"valdate", "x.json"}), "validate?");
  expect_refused(run({"frobnicate"}), "error[unknown-command]: ");
  expect_refused(run({"validate"}), "error[option-needs]: FILE");
  expect_refused(run({"models", "gtp2-tiny"}), "'gpt2-tiny'");
  expect_refused(run({"models", "gpt2-tiny", "--precision", "bf61"}), "'bf16'");
  expect_refused(run({"models", "gpt2-tiny", "--layers", "99"}), "error[bad-value]: ");
  expect_refused(run({"models", "gpt2-tiny", "--micro-batch", "0"}), "error[bad-value]: --micro-batch");
  expect_refused(run({"models", "gpt2-tiny", "--seq-len", "100000"}), "error[bad-value]: --seq-len 100000: ");
  expect_refused(run({"models", "resnet-50", "--seq-len", "128"}), "error[option-does-not-apply]: --seq-len");
  expect_refused(run({"models", "gpt2-tiny", "--precision", "bf16,fp16"}), "error[bad-value]: --precision");
  expect_refused(run({"models", "--on", "h200"}), "error[no-model]: ");
  expect_refused(run({"models", "gpt2-tiny", "--on", ""}), "error[bad-value]: --on");
  expect_refused(run({"models", "gpt2-tiny", "--on", "h200", "--ranks", "2"}), "error[options-conflict]: ");
  expect_refused(run({"models", "gpt2-tiny", "--against", fixtures + "/good.json"}), "error[option-needs]: ");
  expect_refused(run({"plan"}), "error[no-model]: ");
  expect_refused(run({"plan", "--modle", "gpt2-tiny"}), "--model?");
  expect_refused(run({"plan", "--suite", "qick"}), "'quick'");
  expect_refused(run({"plan", "--suite", "quick", "--on", "nowhere.json"}), "error[cannot-read]: --on nowhere.json: ");
  expect_refused(run({"plan", "--suite", "quick", "--on", fixtures + "/good.json"}), "error[wrong-file]: --on ");
}

TEST(Tool, Show) {
  const Outcome o = run({"show", fixtures + "/good.json", "--sort", "run"}, {"LANG=C.UTF-8"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, contents(fixtures + "/show_100.txt"));  // no terminal: 100 columns, no colour
  EXPECT_EQ(run({"show", fixtures + "/good.json"}, {"LC_ALL=C", "LANG=C.UTF-8"}).out,
            run({"show", fixtures + "/good.json", "--ascii"}, {"LANG=C.UTF-8"}).out);

  expect_refused(run({"show", "/no/such.json"}), "error[cannot-read]: /no/such.json: ");
  expect_refused(run({"show", fixtures}), "error[bad-file]: ");
  const std::string path = file_with("{\"schema_version\": \"9.9\"}");
  expect_refused(run({"show", path}), "/schema_version: \"9.9\" is not \"1.0\"");
  std::remove(path.c_str());
}

TEST(Tool, ShowSorts) {
  const std::string good = fixtures + "/good.json", energy = fixtures + "/good_energy.json";
  const Outcome o = run({"show", good, "--sort", "throughput"}, {"LANG=C.UTF-8"});
  EXPECT_EQ(o.code, 0) << o.err;
  const std::size_t table = o.out.find("  by samples/s, best first");
  ASSERT_NE(table, std::string::npos) << o.out;
  const auto place = [&](const char* id) { return o.out.find(id, table); };
  EXPECT_LT(place("gpt2-tiny/bf16/acc4/np2"), place("resnet-tiny/float32/acc1/np2")) << "networks as in the run";
  EXPECT_LT(place("resnet-tiny/float32/acc1/np2"), place("gpt2-tiny/fp8/acc4/np2 "));
  const std::string by_plan = run({"show", good}, {"LANG=C.UTF-8"}).out;
  std::size_t last = by_plan.find("verdict");  // the table's heading
  for (const char* id : {"  gpt2-tiny/float32", "  gpt2-tiny/bf16", "  gpt2-tiny/fp8", "  resnet-tiny/float32"})
    ASSERT_NE(last = by_plan.find(id, last), std::string::npos) << id << " is not behind the one before:\n" << by_plan;
  EXPECT_NE(run({"show", energy, "--sort", "efficiency"}).out.find("by package FLOP/J"), std::string::npos);
  EXPECT_NE(run({"show", energy, "--sort", "efficiency", "--scope", "dram"}).out.find("by dram FLOP/J"),
            std::string::npos);

  expect_refused(run({"show", good, "--sort", "efficency"}), "'efficiency'");
  expect_refused(run({"show", good, "--sort", "xyz"}), "error[unknown-name]: ");
  expect_refused(run({"show", energy, "--sort", "efficiency", "--scope", "pakage"}), "'package'");
  expect_refused(run({"show", energy, "--sort", "throughput", "--scope", "package"}), "error[option-needs]: --scope");
}

/// As scripts/repeat leaves them: each command says what it is and what takes it.
TEST(Tool, AFolderOfRunsIsNamedAsOne) {
  const std::string folder = testing::TempDir() + "trainwatt-runs-" + std::to_string(getpid());
  const std::string prices = file_with(R"({"currency": "EUR", "systems": {"a": {"rent_per_month": 1}}})", "-prices");
  for (int run = 1; run <= 3; ++run) {
    const std::string of_run = folder + "/run-" + std::to_string(run);
    ASSERT_EQ(
        std::system(
            ("mkdir -p '" + of_run + "' && cp '" + fixtures + "/good.json' '" + of_run + "/report.json'").c_str()),
        0);
  }
  const std::vector<std::vector<std::string>> commands = {{"show", folder},
                                                          {"validate", folder},
                                                          {"cost", folder, "--prices", prices},
                                                          {"export", folder, "--to", "csv", "-o", folder + "/x"}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome o = run(command);
    expect_refused(o, "error[folder-of-runs]: " + folder + ": ");
    for (const char* said : {"/run-1/report.json", "trainwatt compare", "html"})
      EXPECT_NE(o.err.find(said), std::string::npos) << o.err;
  }
  const nlohmann::json json = nlohmann::json::parse(validate_json({folder}));
  EXPECT_EQ(json.at("files").at(0).at("error_code"), "folder-of-runs");
  std::system(("rm -r '" + folder + "'").c_str());
  std::remove(prices.c_str());
}

/// Offers of a kit whose batch grows with their ranks cannot be compared: whoever freezes it is told.
TEST(Tool, AKitWithAnOpenGlobalBatchIsWarnedOf) {
  const std::string kit = testing::TempDir() + "trainwatt-open-kit.json";
  const auto freeze = [&](std::vector<std::string> options) {
    std::remove(kit.c_str());
    std::vector<std::string> command = {"freeze", "--model", "gpt2-tiny", "-o", kit};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome o = run(command);
    EXPECT_EQ(o.code, 0) << o.err;
    std::remove(kit.c_str());
    return o.err;
  };
  const std::string open = freeze({});
  EXPECT_NE(open.find("warning[open-global-batch]"), std::string::npos) << open;
  EXPECT_NE(open.find("--global-batch"), std::string::npos) << open;
  EXPECT_NE(freeze({"--micro-batch", "4", "--accumulate", "2"}).find("open-global-batch"), std::string::npos);
  EXPECT_EQ(freeze({"--global-batch", "64"}), "");
  EXPECT_EQ(freeze({"--ranks", "1"}), "");
  EXPECT_EQ(freeze({"--target", "default"}), "") << "a task has its own";
}

TEST(Tool, AKitIsWrittenIntoAFolderThatIsNotThereYet) {
  std::string folder = testing::TempDir() + "trainwatt-out-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string kit = folder + "/out/new/kit.json";
  const Outcome made = run({"freeze", "--suite", "quick", "-o", kit});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(std::filesystem::exists(kit));
  const Outcome refused = run({"freeze", "--suite", "quick", "-o", kit + "/under/a/file.json"});
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("cannot be written"), std::string::npos) << refused.err;
  std::filesystem::remove_all(folder);
}

class Export : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "trainwatt-export-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  int files() const { return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {})); }
  std::string folder_;
};

TEST_F(Export, WritesEachFormat) {
  const std::string out = folder_ + "/a/b";
  const Outcome o = run({"export", "--to", "markdown,csv", fixtures + "/good.json", "-o", out});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, out + "/report.md\n" + out + "/report.csv\n");
  EXPECT_EQ(o.err, "");
  EXPECT_EQ(contents(out + "/report.md"), contents(fixtures + "/report.md"));
  EXPECT_EQ(contents(out + "/report.csv"), contents(fixtures + "/report.csv"));
}

TEST_F(Export, WritesOverNothing) {
  std::ofstream(folder_ + "/report.csv") << "mine";
  const std::string good = fixtures + "/good.json";
  expect_refused(run({"export", good, "--to", "markdown", "--to", "csv", "-o", folder_}),
                 "error[file-exists]: " + folder_ + "/report.csv: ");
  EXPECT_EQ(contents(folder_ + "/report.csv"), "mine");
  EXPECT_EQ(files(), 1) << "looked at before any is written";
  EXPECT_EQ(run({"export", good, "--to", "markdown", "-o", folder_}).code, 0) << "another format joins it";
  EXPECT_EQ(files(), 2);
  std::filesystem::remove(folder_ + "/report.csv");
  std::filesystem::create_symlink(folder_ + "/nowhere", folder_ + "/report.csv");
  expect_refused(run({"export", good, "--to", "csv", "-o", folder_}), "error[file-exists]: ");
}

TEST_F(Export, NamesWhatIsWrong) {
  const std::string good = fixtures + "/good.json";
  expect_refused(run({"export", good, "--to", "cvs", "-o", folder_ + "/x"}), "'csv'");
  expect_refused(run({"export", good, "--to", "pdf", "-o", folder_ + "/x"}), "error[unknown-name]: ");
  expect_refused(run({"export", good, "--to", "csv"}), "error[option-needs]: -o is missing");
  expect_refused(run({"export", good, "-o", folder_}), "error[option-needs]: --to");
  expect_refused(run({"export", "/no/such.json", "--to", "csv", "-o", folder_}), "error[cannot-read]: /no/such.json: ");
  expect_refused(run({"export", good, "--to", "csv", "-o", folder_, "--sort", "troughput"}), "'throughput'");
  const Outcome nowhere = run({"export", good, "--to", "csv", "-o", "/dev/null/x"});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_NE(nowhere.err.find("/dev/null/x"), std::string::npos) << nowhere.err;
  EXPECT_EQ(files(), 0);
}

TEST_F(Export, ABrokenReportSaysSo) {
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  report.records[0].summary.samples_per_s->value *= 2;
  const std::string path = file_with(tw::results::to_json(report));
  const Outcome o = run({"export", path, "--to", "csv", "-o", folder_, "--sort", "throughput"});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.err.find("warning[report-faulty]: "), std::string::npos) << o.err;
  std::remove(path.c_str());
}

TEST_F(Export, UnfinishedRuns) {
  const tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  const std::string path = file_with(tw::results::to_json_line(report.records[0]) + "\n");
  const Outcome o = run({"export", path, "--to", "markdown,csv", "-o", folder_});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(contents(folder_ + "/report.md").find("Records of a run"), std::string::npos);
  std::remove(path.c_str());
}

TEST_F(Export, Html) {
  const std::string good = fixtures + "/good.json", page = folder_ + "/new/page.html";
  const Outcome o = run({"html", good, "-o", page});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, page + "\n");
  EXPECT_TRUE(contents(page).starts_with("<!DOCTYPE html>"));
  expect_refused(run({"html", good, "-o", page}), "error[file-exists]: ");
  const Outcome nothing = run({"html", "A=" + good, "B=" + fixtures + "/good_energy.json", "-o", folder_ + "/two.html"});
  EXPECT_EQ(nothing.code, 4) << "as compare";
  EXPECT_NE(nothing.err.find("error[not-comparable]: "), std::string::npos) << nothing.err;
  EXPECT_NE(contents(folder_ + "/two.html").find("Nothing could be compared."), std::string::npos);
  EXPECT_NE(contents(folder_ + "/two.html").find("<title>B against A</title>"), std::string::npos);
  EXPECT_EQ(run({"html", "A=" + good, "B=" + good, "--reference", "B", "-o", folder_ + "/three.html"}).code, 4) << "one measurement";
  EXPECT_NE(contents(folder_ + "/three.html").find("<title>A against B</title>"), std::string::npos);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  EXPECT_EQ(run({"html", good, "-o", "here.html"}).out, "here.html\n") << "a name without a folder";
  std::filesystem::current_path(before);
  const std::string none = folder_ + "/none.html";
  expect_refused(run({"html", good, "-o", none, "--prices", "/no/p.json"}),
                 "error[cannot-read]: --prices /no/p.json: ");
  expect_refused(run({"html", good, "-o", none, "--reference", "A"}), "error[options-conflict]: --reference");
  expect_refused(run({"html", good, good, "-o", none, "--scope", "pakage"}), "error[unknown-name]: ");
  expect_refused(run({"html", good, good, "-o", none, "--reference", "C"}), "error[unknown-name]: ");
  expect_refused(run({"html", "A=" + good + "," + good, "-o", none}), "error[option-needs]: ");
  expect_refused(run({"html", good}), "error[option-needs]: -o is missing");
  expect_refused(run({"html", "-o", none}), "error[option-needs]: SYSTEM");
  expect_refused(run({"html", "/no/such.json", "-o", none}), "error[cannot-read]: /no/such.json: ");
  EXPECT_FALSE(std::filesystem::exists(none));
}

TEST_F(Export, HtmlOfOneReportWithItsCosts) {
  const std::string good = fixtures + "/good_energy.json", prices = folder_ + "/prices.json";
  std::ofstream(prices) << R"({"currency": "EUR", "electricity_per_kwh": 0.25, "carbon_g_per_kwh": 380,
    "systems": {"small": {"rent_per_month": 730}, "large": {"rent_per_month": 7300}}})";
  for (const std::string which : {"small", "good_energy=small", "A=large"}) {
    const std::string page = folder_ + "/" + which + ".html", system = which[0] == 'A' ? "A=" + good : good;
    const Outcome o = run({"html", system, "-o", page, "--prices", prices, "--price-of", which});
    EXPECT_EQ(o.code, 0) << o.err;
    const std::string text = contents(page);
    EXPECT_NE(text.find("EUR per million samples"), std::string::npos) << which;
    EXPECT_NE(text.find(which[0] == 'A' ? "7300 EUR per node and month" : "730 EUR per node and month"), std::string::npos) << which;
  }
  expect_refused(run({"html", good, "-o", folder_ + "/none.html", "--prices", prices, "--price-of", "huge"}),
                 "error[unknown-name]: ");
  expect_refused(run({"html", good, "-o", folder_ + "/none.html", "--prices", prices}), "error[no-price]: ");
}

/// What only the catalog knows.
TEST(Tool, UnfinishedRuns) {
  const tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  const std::string lines =
      tw::results::to_json_line(report.records[0]) + "\n" + tw::results::to_json_line(report.records[1]) + "\n";
  const std::string path = file_with(lines);
  const Outcome shown = run({"show", path});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(shown.out.starts_with("Records of a run, without its report: 2 records; "));
  EXPECT_NE(shown.out.find("resnet-tiny/float32/acc1/np2"), std::string::npos);
  const Outcome good = run({"validate", path});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_TRUE(good.out.starts_with("consistent; ")) << good.out;
  EXPECT_EQ(nlohmann::json::parse(validate_json({path})).at("files").at(0).at("kind"), "unfinished");
  std::remove(path.c_str());

  const std::string torn = file_with(lines.substr(0, lines.size() - 20));
  EXPECT_NE(run({"show", torn}).out.find("1 record, and a last line that was cut off;"), std::string::npos);
  const Outcome cut = run({"validate", torn});
  EXPECT_EQ(cut.code, 0);
  EXPECT_NE(flat(cut.out).find("/records: the last line was cut off and is left out"), std::string::npos) << cut.out;
  std::remove(torn.c_str());
}

TEST(Tool, WhatIsNoReportIsNamed) {
  expect_refused(run({"show", "/dev/zero"}), "error[bad-file]: /dev/zero: ");
  for (const char* text : {"{\"schema_version\": 1e999}", "{\"schema_version\": \"1.0\"}", "", "[[[[", "\xff"}) {
    const std::string path = file_with(text);
    const Outcome o = run({"show", path});
    expect_refused(o, path + ": ");
    EXPECT_EQ(o.err.find("json.exception"), std::string::npos) << o.err;
    std::remove(path.c_str());
  }
  const std::string path = file_with("");
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 40), 0);  // takes no room on disk
  expect_refused(run({"show", path}), "error[bad-file]: " + path + ": ");
  std::remove(path.c_str());
  expect_refused(run({"show", "/no/\033[2Jsuch\n.json"}), "/no/\\x1b[2Jsuch\\n.json: ");
}

TEST(Tool, AReportThatWasCutIsDamagedHoweverLittleIsLeft) {
  const std::string good = contents(fixtures + "/good.json");
  for (const std::size_t left : {std::size_t{0}, std::size_t{1}, std::size_t{12}, good.size() / 2}) {
    const std::string path = file_with(good.substr(0, left));
    EXPECT_EQ(run({"validate", path}).code, 1) << left;
    EXPECT_EQ(nlohmann::json::parse(validate_json({path})).at("files").at(0).at("faults").at(0).at("code"), "not_json")
        << left;
    expect_refused(run({"show", path}), "error[bad-report]: " + path + ": ");
    std::remove(path.c_str());
  }
  const std::string other = file_with("a,b\n1,2\n");
  EXPECT_EQ(run({"validate", other}).code, 2) << "of another kind";
  std::remove(other.c_str());
}

TEST(Tool, AKitNamesTheClassOfDeviceThatItsSizesAreFor) {
  const std::string kit = testing::TempDir() + "trainwatt-class-kit.json";
  std::remove(kit.c_str());
  expect_refused(run({"freeze", "--suite", "standard", "-o", kit}), "error[option-needs]: ");
  expect_refused(run({"freeze", "--suite", "standard", "--device-class", "gpu", "--micro-batch", "16", "-o", kit}),
                 "error[options-conflict]: --micro-batch 16: the kit leaves the size");
  EXPECT_FALSE(std::filesystem::exists(kit));
  const Outcome frozen = run({"freeze", "--suite", "standard", "--device-class", "gpu", "-o", kit});
  EXPECT_EQ(frozen.code, 0) << frozen.err;
  EXPECT_EQ(frozen.err, "") << "the global batch is fixed, and no run rule is broken";
  EXPECT_NE(frozen.out.find("device class gpu"), std::string::npos) << frozen.out;
  const auto config = nlohmann::json::parse(contents(kit)).at("config");
  EXPECT_EQ(config.at("device_class"), "gpu");
  for (const auto& grid : config.at("grids")) {
    EXPECT_TRUE(grid.contains("global_batch")) << grid;
    EXPECT_EQ(grid.at("micro_batch").at(0) == "auto", grid.at("model").at(0) != "resnet-50") << grid;
  }
  const auto plan = nlohmann::json::parse(run({"plan", "--config", kit, "--json"}).out);
  EXPECT_EQ(plan.at("device"), "cuda") << "by the class";
  expect_refused(run({"plan", "--config", kit, "--device", "cpu"}), "error[device-class-differs]: ");
  expect_refused(run({"plan", "--config", kit, "--device-class", "cpu"}), "error[frozen-plan]: ");
  expect_refused(run({"plan", "--suite", "standard", "--device", "cpu", "--device-class", "gpu"}),
                 "error[device-class-differs]: ");
  std::remove(kit.c_str());
}

TEST(Tool, AKitWhoseRunsBreakRunRulesIsWarnedOf) {
  const std::string kit = testing::TempDir() + "trainwatt-rules-kit.json";
  const auto frozen = [&](std::vector<std::string> words) {
    std::remove(kit.c_str());
    words.insert(words.begin(), {"freeze", "--model", "gpt2-tiny", "--global-batch", "16", "-o", kit});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.err;
  };
  const char* const code = "warning[breaks-run-rules]: ";
  EXPECT_EQ(frozen({}), "");
  const std::string window = frozen({"--window", "1"}), trials = frozen({"--trials", "2"}),
                    both = frozen({"--steps", "4"});
  EXPECT_NE(window.find(code), std::string::npos) << window;
  EXPECT_NE(window.find("\"window\""), std::string::npos) << window;
  EXPECT_EQ(window.find("\"trials\""), std::string::npos) << window;
  EXPECT_NE(trials.find("\"trials\""), std::string::npos) << trials;
  EXPECT_EQ(trials.find("\"window\""), std::string::npos) << trials;
  for (const char* rule : {code, "\"window\"", "\"trials\""}) EXPECT_NE(both.find(rule), std::string::npos) << both;
  EXPECT_NE(frozen({"--target", "default", "--seeds", "2"}).find("\"trials\""), std::string::npos);
  EXPECT_EQ(frozen({"--target", "default", "--seeds", "3"}).find(code), std::string::npos);
  std::remove(kit.c_str());
}

TEST(Tool, AnotherFileOfOursIsNamedWithWhatReadsIt) {
  const std::string good = fixtures + "/good.json", kit = testing::TempDir() + "trainwatt-kit.json";
  std::remove(kit.c_str());
  ASSERT_EQ(run({"freeze", "--suite", "quick", "-o", kit}).code, 0);
  auto kept = [n = 0](const std::string& text) mutable { return file_with(text, "-" + std::to_string(n++)); };
  const std::string prices = kept(R"({"currency": "EUR", /* of a node */ "systems": {"a": {"rent_per_month": 1}}})");
  const std::pair<std::string, const char*> files[] = {
      {kit, "a kit (trainwatt freeze), not a report: trainwatt-train --config"},
      {prices, "a file of prices, not a report: "},
      {kept(run({"probe", "--json"}).out), "what trainwatt probe --json wrote, not a report: "},
      {kept(run({"plan", "--suite", "quick", "--json"}).out), "what trainwatt plan --json wrote, not a report"},
      {kept(run({"compare", "A=" + good, "B=" + good, "--json"}).out),
       "what trainwatt compare --json wrote, not a report"},
      {kept(run({"cost", good, "--prices", prices, "--json"}).out), "what trainwatt cost --json wrote, not a report"},
      {kept(R"({"rules": []})"), "a file of rules, not a report: "},
      {kept(R"({"model": "gpt2-tiny", "trials": 3})"), "trainwatt-train --config"}};
  for (const auto& [path, words] : files) {
    for (const char* command : {"show", "cost", "compare"}) {
      std::vector<std::string> arguments = {command, path};
      if (command == std::string("cost")) arguments.insert(arguments.end(), {"--prices", prices});
      if (command == std::string("compare")) arguments.push_back(good);
      expect_refused(run(arguments), "error[wrong-file]: " + path + ": ");
      expect_refused(run(arguments), words);
    }
    expect_refused(run({"validate", path}), "error[wrong-file]: " + path + ": ");
    expect_refused(run({"validate", path}), words);
    const auto its = nlohmann::json::parse(validate_json({path})).at("files").at(0);
    EXPECT_EQ(its.at("error_code"), "wrong-file");
    EXPECT_EQ(its.at("kind"), "unreadable");
  }
  for (const auto& [path, words] : files) std::remove(path.c_str());
}

/// "Run 2" of a system is the second file that is named with it, whatever order they are given in.
TEST(Tool, RunsAreNamedInTheOrderOfTheirTimes) {
  const auto at = [](const char* time, const char* name) {
    tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
    report.context.started_at = std::string("2026-03-0") + time, report.context.finished_at = "2026-03-09T00:00:00Z";
    return file_with(tw::results::to_json(report), name);
  };
  const std::string late = at("3T10:00:00Z", "-a"), early = at("1T10:00:00Z", "-b"), middle = at("2T10:00:00Z", "-c");
  const std::string out = run({"compare", "A=" + late + "," + early + "," + middle, "B=" + fixtures + "/good_energy.json", "--json"}).out;
  EXPECT_LT(out.find(early), out.find(middle)) << out;
  EXPECT_LT(out.find(middle), out.find(late)) << out;
  EXPECT_LT(out.find("2026-03-01T10"), out.find("2026-03-02T10"));
  for (const std::string& path : {late, early, middle}) std::remove(path.c_str());
}

TEST(Tool, MessagesAreHarmless) {
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  report.records[0].id = "x\033[2K\r\ngood";
  const std::string path = file_with(tw::results::to_json(report));
  const Outcome o = run({"validate", path});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(flat(o.out).find("\"x\\x1b[2K\\r\\ngood\" is not among the points of the plan"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find_first_of("\033\r"), std::string::npos);
  EXPECT_EQ(run({"validate", "--json", path}).out.find_first_of("\033\r"), std::string::npos);
  std::remove(path.c_str());
}

TEST(Tool, AFullDiskIsNoSuccess) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  const std::string good = fixtures + "/good.json";
  const std::vector<std::vector<std::string>> commands = {
      {"models"}, {"validate", good}, {"show", good}, {"plan", "--model", "gpt2-tiny"}, {"models", "gpt2-tiny"}, {"--help"}, {"--version"}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome o = run(command, {}, "/dev/full");
    EXPECT_EQ(o.code, 3) << command[0];
    for (const char* said : {"error[not-written]", "No space left on device"})
      EXPECT_NE(o.err.find(said), std::string::npos) << command[0] << ": " << o.err;
  }
}

TEST(Tool, Models) {
  const Outcome o = run({"models"});
  EXPECT_EQ(o.code, 0);
  for (const char* text : {"gpt2-124m ", "124 M", "resnet-50 ", "25.6 M"})
    EXPECT_NE(o.out.find(text), std::string::npos) << text;
  const Outcome json = run({"models", "--json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_NE(json.out.find("\"parameters\": 124439808"), std::string::npos);  // of the published model
}

TEST(Tool, AStepOfOneModel) {
  const std::vector<std::string> arguments = {"models", "gpt2-124m", "--precision", "bf16", "--micro-batch", "4",
                                              "--seq-len", "256", "--accumulate", "2", "--ranks", "2"};
  const Outcome o = run(arguments);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("micro-batch 4 x 2 accumulated x 2 ranks = 16 samples of 256 tokens"), std::string::npos)
      << o.out;
  EXPECT_NE(o.out.find("1024 x 768 -> 50257"), std::string::npos) << o.out;
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  EXPECT_NE(run(as_json).out.find("\"global_batch\": 16"), std::string::npos);
}

TEST(Tool, APlanNamesItsPointsWhatCannotRunAndWhatItTakes) {
  const Outcome o = run({"plan", "--suite", "procurement", "--nodes", "2"});
  EXPECT_EQ(o.code, 0) << o.err;
  for (const char* text : {"procurement: 23 points, 2 ranks on 2 nodes",
                           "(3 points): cpu has no tf32: choose float32 or bf16", "node-hours on 2 nodes", "energy"})
    EXPECT_NE(o.out.find(text), std::string::npos) << text << "\n" << o.out;
  const Outcome json = run({"plan", "--suite", "procurement", "--json"});
  EXPECT_NE(json.out.find("\"node_hours\": "), std::string::npos) << json.out;
  // For another node, by what it said of itself.
  const Outcome probe = run({"probe", "--json"});
  ASSERT_EQ(probe.code, 0) << probe.err;
  const std::string path = file_with(probe.out);
  EXPECT_EQ(run({"plan", "--suite", "procurement", "--nodes", "2", "--on", path}).out, o.out);
  std::remove(path.c_str());
}

}  // namespace
