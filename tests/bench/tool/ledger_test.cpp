// `trainwatt models NETWORK --on GPU`, as a user sees it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/bench/tool/outcome.hpp"

namespace {

using namespace tw::testing;

TEST(Ledger, OfAStepOnADevice) {
  const Outcome text = run({"models", "gpt2-1558m", "--on", "h200", "--precision", "bf16,fp8", "--micro-batch", "32"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part :
       {"gpt2-1558m on NVIDIA H200 in bf16", "gpt2-1558m on NVIDIA H200 in fp8", "linear_forward", "adamw"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  const Outcome json = run({"models", "gpt2-tiny", "--on", "h200", "--precision", "bf16", "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const nlohmann::json ledger = nlohmann::json::parse(json.out).at("ledgers").at(0);
  EXPECT_EQ(ledger.at("device"), "NVIDIA H200");
  double least = 0, of_operators = 0;
  for (const auto& row : ledger.at("shapes")) {
    const double compute = row.at("flops").get<double>() / 989.4e12;
    const double memory = (row.at("read_bytes").get<double>() + row.at("written_bytes").get<double>()) / 4.8e12;
    EXPECT_DOUBLE_EQ(row.at("least_s"), std::max(compute, memory));
    EXPECT_EQ(row.at("limit"), compute > memory ? "compute" : "memory");
    least += row.at("least_s").get<double>();
  }
  for (const auto& row : ledger.at("operators")) of_operators += row.at("least_s").get<double>();
  EXPECT_NEAR(ledger.at("least_step_s").get<double>() / least, 1, 1e-12);
  EXPECT_NEAR(of_operators / least, 1, 1e-12);
  // An operator's time is that of its kernels one after another.
  double of_classifier = 0;
  std::set<std::string> kernels;
  for (const auto& row : ledger.at("shapes")) {
    if (row.at("operator") != "classifier") continue;
    of_classifier += row.at("least_s").get<double>();
    kernels.insert(row.at("kernel"));
  }
  EXPECT_EQ(kernels, (std::set<std::string>{"product", "softmax"}));
  for (const auto& row : ledger.at("operators")) {
    if (row.at("operator") != "classifier") continue;
    EXPECT_NEAR(row.at("least_s").get<double>() / of_classifier, 1, 1e-12);
    EXPECT_EQ(row.at("calls"), 1);
  }
  for (const char* part : {"- round", "- gelu", "- softmax"}) EXPECT_NE(text.out.find(part), std::string::npos) << part;
  expect_refused(run({"models", "resnet-50", "--on", "h200", "--precision", "fp8"}), "error[bad-value]: --precision");
  expect_refused(run({"models", "dlrm-tiny", "--on", "h200", "--precision", "fp8", "--micro-batch", "7"}),
                 "error[bad-value]: --precision fp8: dlrm-tiny: fp8 needs rows and features that are multiples of 16");
  expect_refused(
      run({"models", "gpt2-tiny", "--on", "h200", "--precision", "float32_bf16"}),
      "error[bad-value]: --precision float32_bf16: the list has no float32_bf16 peak for NVIDIA H200: choose "
      "float32, tf32, bf16, fp16, fp8\n");
}

TEST(Ledger, NamesTheDevicesThatAreKnown) {
  expect_refused(run({"models", "gpt2-tiny", "--on", "h900"}), "NVIDIA H200");
  expect_refused(run({"models", "gpt2-tiny", "--on", "h100"}), "NVIDIA H100 PCIe");
  expect_refused(run({"models", "gpt2-tiny", "--on", "nope"}), "error[unknown-name]: ");
  const Outcome variant = run({"models", "gpt2-tiny", "--on", "NVIDIA H200 NVL"});
  expect_refused(variant, "'NVIDIA H200 NVL' is not in the list (known: ");
  EXPECT_NE(variant.err.find("; another variant has other peaks"), std::string::npos) << variant.err;
  EXPECT_EQ(variant.err.find("did you mean"), std::string::npos) << variant.err;
  expect_refused(run({"models", "gpt2-tiny", "--on", fixtures + "/good.json"}), "is for trainwatt plan --on");
}

TEST(Ledger, SaysWhatTheDeviceCannotDoAndWhatHelps) {
  const char* const note = "trainwatt does not train on this device; only its peaks are used";
  const Outcome amd = run({"models", "gpt2-tiny", "--on", "mi300x", "--micro-batch", "1"});
  EXPECT_NE(amd.out.find(note), std::string::npos) << amd.out;
  EXPECT_NE(amd.out.find("micro-batch 1 x 1 accumulated = 1 sample of 128 tokens\n"), std::string::npos) << amd.out;
  EXPECT_NE(amd.out.find("limit: "), std::string::npos) << "the column's words are explained";
  const std::string large = run({"models", "llama3.1-70b", "--on", "h200", "--precision", "bf16"}).out;
  EXPECT_EQ(large.find(note), std::string::npos) << large;
  EXPECT_NE(large.find("does not fit; use --layers N with N up to "), std::string::npos) << large;
  EXPECT_EQ(large.find("--micro-batch"), std::string::npos) << large;
  const std::string wide = run({"models", "gpt2-124m", "--on", "h200", "--micro-batch", "4096"}).out;
  EXPECT_NE(wide.find("does not fit; use --micro-batch N with N up to "), std::string::npos) << wide;
  EXPECT_EQ(wide.find("--recompute"), std::string::npos) << wide;
}

TEST(Ledger, AgainstAReport) {
  std::vector<std::string> step = {"models",        "gpt2-tiny", "--on",         "h200", "--precision", "bf16",
                                   "--micro-batch", "8",         "--accumulate", "4",    "--json",      "--against"};
  const auto against = [&](const std::string& path) {
    std::vector<std::string> words = step;
    words.push_back(path);
    return run(words);
  };
  expect_refused(against(fixtures + "/good.json"), "error[bad-value]: --against");  // of a CPU
  nlohmann::json report = nlohmann::json::parse(std::ifstream(fixtures + "/good.json"));
  for (auto& device : report.at("context").at("devices")) device.at("name") = "NVIDIA H200";
  auto& summary = report.at("records").at(0).at("summary");
  summary.at("op_share") = nlohmann::json::object({{"adamw", 0.25}});
  const std::string path = file_with(report.dump(), "-ledger");
  const Outcome o = against(path);
  ASSERT_EQ(o.code, 0) << o.err;
  const double step_s = summary.at("step_time_s").at("value");
  const nlohmann::json ledger = nlohmann::json::parse(o.out).at("ledgers").at(0);
  int measured = 0;
  for (const auto& row : ledger.at("operators")) {
    if (row.at("measured_s").is_null()) continue;
    ++measured;
    EXPECT_EQ(row.at("operator"), "adamw");
    EXPECT_DOUBLE_EQ(row.at("measured_s"), 0.25 * step_s);
  }
  EXPECT_EQ(measured, 1);
  summary["op_seconds"] = nlohmann::json::object({{"adamw", 0.0625}});  // as they were, not a share of something
  const Outcome direct = against(file_with(report.dump(), "-ledger"));
  ASSERT_EQ(direct.code, 0) << direct.err;
  for (const auto& row : nlohmann::json::parse(direct.out).at("ledgers").at(0).at("operators")) {
    if (row.at("operator") == "adamw") {
      EXPECT_EQ(row.at("measured_s"), 0.0625);
    }
  }
  EXPECT_EQ(direct.err.find("op_share"), std::string::npos) << direct.err;
  // Whatever `validate` finds in the report is said here, too; and where it is faster than the device.
  step.erase(std::ranges::find(step, "--json"));
  const std::string faster = "faster than the least time: adamw. ";
  EXPECT_EQ(flat(against(file_with(report.dump(), "-ledger")).out).find(faster), std::string::npos);
  summary["op_seconds"] = nlohmann::json::object({{"adamw", 1e-12}});
  summary.at("op_share") = nlohmann::json::object({{"adamw", 1.5}});
  const Outcome doubtful = against(file_with(report.dump(), "-ledger"));
  EXPECT_EQ(doubtful.code, 0) << doubtful.err;
  EXPECT_NE(flat(doubtful.out).find(faster), std::string::npos) << doubtful.out;
  EXPECT_NE(doubtful.err.find("warning[report-faulty]: "), std::string::npos) << doubtful.err;
  EXPECT_NE(doubtful.err.find("/records/0/summary/op_share"), std::string::npos) << doubtful.err;
  report.at("records").at(0).at("summary").at("op_share") = nlohmann::json::object();
  expect_refused(against(file_with(report.dump(), "-ledger")), "error[no-match]: --against");
}

}  // namespace
