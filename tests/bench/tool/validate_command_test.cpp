// `trainwatt validate` of reports: what it finds, and how it says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/catalog/description.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "tests/bench/tool/outcome.hpp"

namespace {

using namespace tw::testing;

nlohmann::json findings(const std::vector<std::string>& paths) {
  return nlohmann::json::parse(validate_json(paths)).at("files");
}

TEST(Tool, ValidateEndsWithOneLine) {
  const Outcome one = run({"validate", fixtures + "/good.json"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, "consistent; not fit for publication: 3 of 6 rules broken (complete, window,\n  trials)\n");
  EXPECT_EQ(one.err, "") << "run rules that a report breaks are no fault of it";
  const Outcome verbose = run({"validate", "--verbose", fixtures + "/good.json"});
  EXPECT_TRUE(verbose.out.ends_with(one.out)) << verbose.out;
  for (const tw::results::RunRule& rule : tw::results::run_rules())
    EXPECT_NE(verbose.out.find("rule[" + rule.id + "] "), std::string::npos) << rule.id;
  const Outcome both = run({"validate", fixtures + "/good.json", fixtures + "/good_energy.json"});
  EXPECT_TRUE(both.out.starts_with(fixtures + "/good.json\n  consistent; ")) << both.out;
  EXPECT_NE(both.out.find("\n" + fixtures + "/good_energy.json\n"), std::string::npos) << both.out;
}

TEST(Tool, ValidateFillsEightyColumns) {
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  report.records[0].summary.samples_per_s->value *= 2;
  report.records[0].verdict.flags.clear();
  const std::string path = file_with(tw::results::to_json(report));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"validate", path}, {"validate", "--verbose", fixtures + "/good.json"}}) {
    const Outcome o = run(arguments);
    EXPECT_NE(o.out, "");
    std::istringstream lines(o.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(tw::results::text::columns(line), 80u) << line;
  }
  std::remove(path.c_str());
}

TEST(Tool, ValidateAsJson) {
  const nlohmann::json good = findings({fixtures + "/good.json"}).at(0);
  EXPECT_EQ(good.at("kind"), "report");
  EXPECT_EQ(good.at("consistent"), true);
  EXPECT_EQ(good.at("fit_for_publication"), false);
  EXPECT_EQ(good.at("error"), nullptr);
  EXPECT_EQ(good.at("rules").size(), tw::results::run_rules().size());
  for (const nlohmann::json& rule : good.at("rules")) {
    EXPECT_TRUE(rule.at("asks").is_string() && rule.at("why").is_string());
    EXPECT_EQ(rule.at("kept").is_null(), rule.at("state") == "not checkable" || rule.at("state") == "does not apply");
    if (rule.at("id") == "window") {
      EXPECT_EQ(rule.at("kept"), false);
    }
    if (rule.at("id") == "steady") {
      EXPECT_EQ(rule.at("kept"), true);
    }
  }
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  report.records[0].summary.samples_per_s->value *= 2;
  const std::string path = file_with(tw::results::to_json(report));
  const nlohmann::json files = findings({path, "/no/such.json", fixtures + "/good.json"});
  EXPECT_EQ(files[0].at("consistent"), false);
  EXPECT_EQ(files[0].at("fit_for_publication"), nullptr) << "rules are not looked at";
  ASSERT_FALSE(files[0].at("faults").empty());
  for (const char* key : {"code", "where", "text", "file"})
    EXPECT_TRUE(files[0].at("faults")[0].at(key).is_string()) << key;
  EXPECT_EQ(files[0].at("faults")[0].at("where"), "/records/0/summary/samples_per_s/value");
  EXPECT_EQ(files[0].at("exit_code"), 1);
  EXPECT_EQ(files[1].at("kind"), "unreadable");
  EXPECT_EQ(files[1].at("exit_code"), 2);
  EXPECT_TRUE(files[1].at("error").is_string());
  EXPECT_EQ(files[2].at("exit_code"), 0);
  expect_refused(run({"validate", "--json", "--verbose", path}), "--verbose");
  std::remove(path.c_str());
}

TEST(Tool, Validate) {
  std::string changed = contents(fixtures + "/good.json");
  changed.replace(changed.find("\"recompute\\\":false"), 18, "\"recompute\\\":true");  // inside the plan's text
  const std::string broken_path = file_with(changed);
  const Outcome broken = run({"validate", fixtures + "/good.json", broken_path});
  EXPECT_EQ(broken.code, 1);
  EXPECT_EQ(broken.err, "") << "one stream";
  EXPECT_NE(flat(broken.out).find("/plan/sha256: is not the SHA-256 of canonical_json inconsistent: 1 fault"),
            std::string::npos)
      << broken.out;
  const nlohmann::json its = findings({broken_path}).at(0);
  ASSERT_EQ(its.at("faults").size(), 1u);
  EXPECT_EQ(its.at("faults")[0].at("where"), "/plan/sha256");
  std::remove(broken_path.c_str());

  // One unreadable file does not hide the others.
  const Outcome missing = run({"validate", "/no/such.json", fixtures + "/good.json"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(missing.err.starts_with("trainwatt: error[cannot-read]: /no/such.json: ")) << missing.err;
  EXPECT_TRUE(missing.out.starts_with(fixtures + "/good.json\n  consistent; ")) << missing.out;

  const std::string path = file_with("{\n  \"schema_version\": oops\n}\n");
  const Outcome text = run({"validate", path});
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(flat(text.out).find("not JSON: line 2, column 21"), std::string::npos) << text.out;
  std::remove(path.c_str());
}

/// What `trainwatt validate` says of a golden report after a change, each "CODE WHERE".
struct Said {
  std::vector<std::string> faults, notes;
};
template <class Change>
Said said_of(const std::string& golden, Change change) {
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/" + golden));
  change(report);
  const std::string path = file_with(tw::results::to_json(report));
  const nlohmann::json file = findings({path}).at(0);
  std::remove(path.c_str());
  Said said;
  for (const auto& [key, lines] : {std::pair("faults", &said.faults), {"notes", &said.notes}})
    for (const nlohmann::json& one : file.at(key))
      lines->push_back(one.at("code").get<std::string>() + " " + one.at("where").get<std::string>());
  return said;
}
using Lines = std::vector<std::string>;

TEST(Tool, ValidateComputesHardwareFlops) {
  const auto faults = [](std::optional<double> times, std::optional<bool> is_recomputed) {
    return said_of("good.json",
                   [&](tw::results::Report& report) {
                     tw::results::Record& record = report.records[0];
                     if (times)
                       record.summary.hardware_flops_per_sample = *times * record.summary.model_flops_per_sample;
                     if (!is_recomputed)
                       record.execution.reset();
                     else if (*is_recomputed)
                       record.execution->recompute = true, record.execution->recomputed_layers = 1;
                   })
        .faults;
  };
  const std::string place = "network_differs /records/0/summary/hardware_flops_per_sample";
  EXPECT_EQ(faults(std::nullopt, false), Lines());
  EXPECT_EQ(faults(1, false), Lines());
  EXPECT_EQ(faults(100, false), Lines{place});
  EXPECT_EQ(faults(std::nullopt, true), Lines{place});
  EXPECT_EQ(faults(100, true), Lines{place});
  EXPECT_EQ(faults(1.2, std::nullopt), Lines()) << "some of its layers, for all that is known";
  EXPECT_EQ(faults(100, std::nullopt), Lines{place});
}

TEST(Tool, ValidateKnowsHowMuchMemoryWeightsTake) {
  const auto faults = [](std::uint64_t resident, std::uint64_t planned) {
    return said_of("good.json",
                   [&](tw::results::Report& report) {
                     report.records[0].summary.peak_resident_bytes_per_rank = resident;
                     report.records[0].summary.planned_bytes_per_rank = planned;
                   })
        .faults;
  };
  const std::string at = "network_differs /records/0/summary/";
  EXPECT_EQ(faults(430'000 * 2, 430'000 * 2), Lines()) << "429568 parameters";
  EXPECT_EQ(faults(4096, 430'000 * 2), Lines{at + "peak_resident_bytes_per_rank"});
  EXPECT_EQ(faults(430'000 * 2, 1), Lines{at + "planned_bytes_per_rank"});
}

TEST(Tool, ValidateKnowsWhatDataANetworkHas) {
  const auto faults = [](const std::optional<std::string>& data) {
    return said_of("good.json", [&](tw::results::Report& report) { report.records[0].workload.data = data; }).faults;
  };
  EXPECT_EQ(faults(std::nullopt), Lines()) << "a report from before it was recorded";
  EXPECT_EQ(faults("tokens"), Lines());
  EXPECT_EQ(faults("images"), Lines{"network_differs /records/0/workload/data"});
}

/// Figures by an unknown rule may be any: none is shown.
TEST(Tool, FlopsOfAnUnknownRuleAreShownNowhere) {
  const auto forge = [](tw::results::Report& report) {
    for (tw::results::Record& record : report.records) {
      tw::results::Summary& s = record.summary;
      if (s.flops_rule.empty()) continue;
      s.flops_rule = "model FLOPs of a newer rule";
      s.model_flops_per_sample *= 2;
      tw::results::summarise(record);
    }
  };
  const Said other = said_of("good.json", forge);
  EXPECT_EQ(other.faults, Lines());
  EXPECT_NE(std::ranges::find(other.notes, "flops_rule_unknown /records/0/summary/flops_rule"), other.notes.end());
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  const auto compute_lines = [&] {
    const std::string path = file_with(tw::results::to_json(report));
    const std::string shown = run({"show", path}).out + run({"export", path, "--to", "csv", "-o", path + ".d"}).err +
                              contents(path + ".d/report.csv");
    std::remove(path.c_str());
    std::filesystem::remove_all(path + ".d");
    return std::pair(shown.find("FLOP/s") != shown.npos && shown.find("  compute  ") != shown.npos,
                     shown.find("flops_rule_unknown: ") != shown.npos);
  };
  EXPECT_EQ(compute_lines(), std::pair(true, false));
  forge(report);
  EXPECT_EQ(compute_lines(), std::pair(false, true));
}

/// A task that nobody had trained keeps its mark.
TEST(Tool, TheMarkOfAnExtrapolatedTaskIsThatOfTheCatalogue) {
  const auto is_fault = [](const std::optional<std::string>& mark) {
    const Said said = said_of("good_target.json", [&](tw::results::Report& report) {
      tw::results::Record& record = report.records[0];
      tw::results::Workload& w = record.workload;
      w.model = "gpt2-124m", record.target->task = "markov_124m", record.target->extrapolated_from = mark;
      record.target->reference.reset(), record.target->reference_reason = "no reference for this task";
      w.hash = tw::results::workload_hash(w, record.target);
      std::string& plan = report.plan.canonical_json;
      for (const auto& [from, to] : {std::pair(R"("model":"gpt2-tiny")", R"("model":"gpt2-124m")"),
                                     {R"("task":"markov")", R"("task":"markov_124m")"}})
        plan.replace(plan.find(from), std::string_view(from).size(), to);
      tw::results::summarise(record);
    });
    EXPECT_NE(std::ranges::find(said.faults, "network_differs /records/0/workload/parameters"), said.faults.end())
        << "networks are looked at";
    return std::ranges::count(said.faults, "network_differs /records/0/target/extrapolated_from") > 0;
  };
  EXPECT_FALSE(is_fault("gpt2-tiny with vocabularies of 64 and 128 (bench/README.md)"));
  EXPECT_TRUE(is_fault(std::nullopt));
  EXPECT_TRUE(is_fault("gpt2-124m"));
}

/// The plan states which tokens the samples have before anything is measured.
TEST(Tool, TheDrawnTokensAreThePlans) {
  const auto faults = [](bool in_record, bool in_plan) {
    return said_of("good_target.json",
                   [&](tw::results::Report& report) {
                     tw::results::Record& record = report.records[0];
                     if (in_record) record.target->drawn_tokens = 64;
                     record.workload.hash = tw::results::workload_hash(record.workload, record.target);
                     std::string& plan = report.plan.canonical_json;
                     if (in_plan) plan.insert(plan.find(R"("evaluation_interval")"), R"("drawn_tokens":64,)");
                     tw::results::summarise(record);
                   })
        .faults;
  };
  const std::string differs = "plan_differs /records/0/target/drawn_tokens";
  for (const bool in_record : {false, true})
    for (const bool in_plan : {false, true})
      EXPECT_EQ(std::ranges::count(faults(in_record, in_plan), differs), in_record == in_plan ? 0 : 1)
          << in_record << in_plan;
}

/// It has what a bundle's environment.json has, and is none.
TEST(Tool, AReportWithoutItsRecordsIsADamagedReport) {
  nlohmann::json report = nlohmann::json::parse(contents(fixtures + "/good.json"));
  report.erase("records");
  const std::string path = file_with(report.dump());
  const Outcome o = run({"validate", path});
  EXPECT_EQ(o.code, 1) << o.err;
  EXPECT_NE(flat(o.out).find("\"records\""), std::string::npos) << o.out;
  EXPECT_EQ((o.out + o.err).find("environment.json"), std::string::npos) << o.out << o.err;
  for (const char* key : {"schema_version", "plan"}) report.erase(key);
  std::ofstream(path, std::ios::trunc) << report.dump();
  expect_refused(run({"validate", path}), "environment.json, not a report");
  std::remove(path.c_str());
}

TEST(Tool, ValidateAsksTheCatalog) {
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
  const auto outcome = [](tw::results::Report& changed) {
    for (tw::results::Record& r : changed.records) {
      r.workload.hash = tw::results::workload_hash(r.workload);
      tw::results::summarise(r);
    }
    const std::string path = file_with(tw::results::to_json(changed));
    const Outcome o = run({"validate", path});
    std::remove(path.c_str());
    return o;
  };
  tw::results::Report more = report;
  more.records[0].workload.parameters = 429569;
  EXPECT_EQ(outcome(more).code, 1);
  EXPECT_NE(flat(outcome(more).out).find("/records/0/workload/parameters: is 429569, gpt2-tiny has 429568"),
            std::string::npos);
  tw::results::Report faster = report;
  faster.records[1].summary.model_flops_per_sample *= 2;
  EXPECT_EQ(outcome(faster).code, 1);
  EXPECT_NE(flat(outcome(faster).out)
                .find("/records/1/summary/model_flops_per_sample: is 74053632, resnet-tiny has 37026816"),
            std::string::npos)
      << outcome(faster).out;
  EXPECT_EQ(tw::results::rule_of_flops.text(), tw::models::flops_rule());
  for (const std::string_view rule : tw::results::rule_of_flops.wordings) {
    if (rule.empty()) continue;
    faster.records[1].summary.flops_rule = rule;
    EXPECT_EQ(outcome(faster).code, 1) << rule;
    EXPECT_EQ(outcome(faster).out.find("flops_rule_unknown"), std::string::npos) << rule;
  }
  tw::results::Report ruled = report;
  ruled.records[0].summary.flops_rule = "mine";
  EXPECT_EQ(outcome(ruled).code, 0);
  EXPECT_NE(outcome(ruled).out.find("note[flops_rule_unknown]: /records/0/summary/flops_rule: "), std::string::npos)
      << outcome(ruled).out;
}

TEST(Tool, ADamagedBundleIsNotGoodAsADamagedReportIs) {
  const std::string folder = testing::TempDir() + "trainwatt-run-" + std::to_string(getpid()),
                    offer = folder + "/offer.tar.zst";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/report.json") << contents(fixtures + "/good.json");
  ASSERT_EQ(run({"bundle", folder, "-o", offer, "--force"}).code, 0);
  const std::string whole = contents(offer);
  for (const std::string& text :
       {whole.substr(0, whole.size() / 2), contents(fixtures + "/good.json").substr(0, 1000)}) {
    std::ofstream(offer, std::ios::trunc) << text;
    const Outcome validated = run({"validate", offer, fixtures + "/good_energy.json"});
    EXPECT_EQ(validated.code, 1) << validated.err;
    const nlohmann::json files = findings({offer, fixtures + "/good_energy.json"});
    EXPECT_EQ(files[0].at("faults").size(), 1u) << files[0];
    EXPECT_EQ(files[0].at("consistent"), false);
    EXPECT_EQ(files[1].at("consistent"), true);
    EXPECT_EQ(run({"show", offer}).code, 2);
  }
  std::filesystem::remove_all(folder);
}

/// A folder as scripts/repeat fills it, with runs of these indices, each of a launch of its own.
std::string folder_of_runs(const char* name, const std::vector<int>& indices) {
  const std::string folder = testing::TempDir() + "trainwatt-" + name + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  for (std::size_t run = 0; run < indices.size(); ++run) {
    tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good.json"));
    report.context.run_index = indices[run], report.context.launch = name + std::to_string(run);
    for (tw::results::Record& record : report.records) record.launch = report.context.launch;
    const std::string its = folder + "/run-" + std::to_string(run + 1);
    std::filesystem::create_directories(its);
    std::ofstream(its + "/report.json") << tw::results::to_json(report);
  }
  return folder;
}

/// However little of it is left, it is a bundle that was cut, and the signers are looked at first.
TEST(Tool, ABundleThatWasCutSaysSoAndSignersAreRead) {
  const std::string folder = folder_of_runs("cut", {1}), offer = folder + "/offer.tar.zst",
                    cut = folder + "/cut.tar.zst";
  ASSERT_EQ(run({"bundle", folder + "/run-1", "-o", offer, "--force"}).code, 0);
  const std::string whole = contents(offer);
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{50}, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(cut, std::ios::trunc) << whole.substr(0, bytes);
    const nlohmann::json file = findings({cut})[0];
    EXPECT_EQ(file.at("faults").at(0).at("code"), "unreadable") << file;
    EXPECT_NE(file.at("faults").at(0).at("text").get<std::string>().find("incomplete"), std::string::npos) << file;
  }
  for (const std::string& path : {offer, folder + "/run-1/report.json"})
    expect_refused(run({"validate", path, "--signers", folder + "/none"}), "error[cannot-read]: --signers ");
  std::filesystem::remove_all(folder);
}

TEST(Tool, ARunWithoutPointsIsNoOffer) {
  const std::string folder = folder_of_runs("empty", {1, 2}), offer = folder + "/offer.tar.zst";
  for (const char* its : {"/run-1", "/run-2"}) {
    tw::results::Report report = tw::results::report_from_json(contents(folder + its + "/report.json"));
    report.records.clear();
    std::ofstream(folder + its + "/report.json") << tw::results::to_json(report);
    std::ofstream(folder + its + "/records.jsonl") << "";
  }
  for (const std::string& path : {folder + "/run-1", folder}) {
    const Outcome refused = run({"bundle", path, "-o", offer});
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("error[no-points]: "), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(offer));
  }
  const Outcome forced = run({"bundle", folder + "/run-1", "-o", offer, "--force"});
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_NE(forced.err.find("warning[no-points]: "), std::string::npos) << forced.err;
  std::filesystem::remove_all(folder);
}

TEST(Tool, ARunUnderTwoNamesIsNoOfferOfTwo) {
  const std::string folder = folder_of_runs("copies", {1, 2});
  const Outcome bundled = run({"bundle", folder, "-o", folder + "/offer.tar.zst", "--force"});
  EXPECT_EQ(bundled.code, 0) << bundled.err;
  EXPECT_NE(bundled.err.find("fault[same_samples]: "), std::string::npos) << bundled.err;
  for (const char* other : {"fault[same_launch]", "fault[same_order]", "fault[run_left_out]"})
    EXPECT_EQ(bundled.err.find(other), std::string::npos) << bundled.err;
  // Of all its points at once.
  const nlohmann::json whole =
      nlohmann::json::parse(run({"validate", "--json", folder + "/offer.tar.zst"}).out).at("files").back();
  const nlohmann::json good = nlohmann::json::parse(contents(fixtures + "/good.json"));
  std::size_t points = 0;  // those that ran
  for (const nlohmann::json& record : good.at("records")) points += record.at("trials").empty() ? 0 : 1;
  std::vector<std::string> said;
  for (const nlohmann::json& fault : whole.at("faults"))
    if (fault.at("code") == "same_samples") said.push_back(fault.at("text"));
  ASSERT_EQ(said.size(), 1u) << whole;
  EXPECT_NE(said[0].find("runs 1 and 2 are the same in " + std::to_string(points) + " point"), std::string::npos)
      << said[0];
  std::filesystem::remove_all(folder);
}

/// The last line is of the whole bundle. A series is signed as a whole: its runs have nothing to say of signatures.
TEST(Tool, ASeriesOfRejectedRunsIsRejected) {
  const std::string folder = folder_of_runs("rejected", {1}), offer = folder + "/offer.tar.zst";
  const tw::results::Report report = tw::results::report_from_json(contents(folder + "/run-1/report.json"));
  std::ofstream lines(folder + "/run-1/records.jsonl");
  for (const tw::results::Record& record : report.records) lines << tw::results::to_json_line(record) << "\n";
  lines.close();
  ASSERT_EQ(run({"bundle", folder, "-o", offer, "--force"}).code, 0);
  const Outcome shown = run({"validate", offer});
  EXPECT_EQ(shown.code, 1) << shown.err;
  EXPECT_NE(flat(shown.out).rfind("a series of 1 run signature: none rejected: "), std::string::npos) << shown.out;
  const nlohmann::json files = nlohmann::json::parse(run({"validate", "--json", offer}).out).at("files");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].at("kind"), "series");
  EXPECT_EQ(files[1].at("exit_code"), 1);
  const auto signatures = [](const nlohmann::json& file) {
    return std::ranges::count_if(
        file.at("facts"), [](const nlohmann::json& fact) { return fact.get<std::string>().starts_with("signature"); });
  };
  EXPECT_EQ(signatures(files[0]), 0);
  EXPECT_EQ(signatures(files[1]), 1);
  std::filesystem::remove_all(folder);
}

TEST(Tool, ARunUnderAnotherNumberIsNotCompared) {
  const auto said = [](const std::vector<int>& indices) {
    const std::string folder = folder_of_runs("renamed", indices);
    const auto found =
        nlohmann::json::parse(run({"compare", "A=" + fixtures + "/good.json", "B=" + folder, "--json"}).out);
    std::filesystem::remove_all(folder);
    std::string all;
    for (const nlohmann::json& one : found.at("differences"))
      if (one.at("what") == "validation") all += one.at("system_value").get<std::string>();
    return all;
  };
  EXPECT_EQ(said({1, 2}), "");
  EXPECT_NE(said({1, 3}), "");
}

/// The sample's second package as a GPU whose joules are far from its own power samples.
TEST(Tool, ACostOfDoubtfulEnergySaysSo) {
  tw::results::Report report = tw::results::report_from_json(contents(fixtures + "/good_energy.json"));
  const auto rename = [](auto& rows) {
    for (auto& row : rows)
      if (row.domain == "rapl:package-1") row.domain = "nvml:GPU-1";
  };
  rename(report.context.meters), rename(report.context.idle_power);
  for (auto& meter : report.context.meters)
    if (meter.domain == "nvml:GPU-1") meter.scope = tw::results::Scope::device;
  for (auto& idle : report.context.idle_power)
    if (idle.domain == "nvml:GPU-1") idle.scope = tw::results::Scope::device, idle.power_w = 1;
  report.context.hosts[0].sockets = 1;
  for (tw::results::Trial& trial : report.records[0].trials) {
    rename(trial.energy), rename(trial.series);
    for (tw::results::EnergyRow& row : trial.energy)
      if (row.domain == "nvml:GPU-1") row.scope = tw::results::Scope::device, *row.energy_j *= 1.6;
  }
  tw::results::summarise(report);
  const std::string path = file_with(tw::results::to_json(report)),
                    prices = file_with(R"({"currency": "EUR", "systems": {
    "metered": {"rent_per_month": 730, "electricity_per_kwh": 0.3},
    "included": {"rent_per_month": 730, "electricity_included": true}}})",
                                       "-prices");
  const auto cost = [&](const char* row) { return run({"cost", path, "--prices", prices, "--price-of", row}); };
  EXPECT_EQ(run({"validate", path}).code, 0) << run({"validate", path}).out;
  EXPECT_NE(cost("metered").err.find("warning[energy-doubtful]: "), std::string::npos) << cost("metered").err;
  EXPECT_EQ(cost("metered").code, 0);
  EXPECT_NE(cost("included").err.find("warning[energy-doubtful]: "), std::string::npos) << "its kWh are shown, too";
  std::remove(path.c_str()), std::remove(prices.c_str());
}

}  // namespace
