// `trainwatt models`, and what it refuses as `plan`, `freeze` and a run do.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/tool/outcome.hpp"

namespace {

using namespace tw::testing;

const char* const series_file =
    R"({"name": "s", "input": {"kind": "series", "variables": 3, "longest_sequence": 8},
        "layers": [{"layer": "linear", "channels": 3}, {"layer": "mean_squared_error", "per": "position"}]})";

/// As a run does, before anything is computed or written.
TEST(Models, ALengthThatTheNetworkDoesNotTakeIsRefusedEverywhere) {
  const std::string too_small = "--seq-len 7: value too small for bert-tiny (minimum 8: ";
  const std::string kit = testing::TempDir() + "trainwatt-short-kit.json";
  std::remove(kit.c_str());
  expect_refused(run({"models", "bert-tiny", "--seq-len", "7"}), too_small);
  expect_refused(run({"plan", "--model", "bert-tiny", "--seq-len", "7"}), too_small);
  expect_refused(run({"freeze", "--model", "bert-tiny", "--seq-len", "7", "--global-batch", "8", "-o", kit}),
                 too_small);
  EXPECT_EQ(contents(kit), "") << "no kit is left";
  const std::string config = file_with(R"({"model": "bert-tiny", "seq_len": 7})", "-short");
  expect_refused(run({"plan", "--config", config}), config + ": /seq_len 7: value too small for bert-tiny");
  std::remove(config.c_str());
  EXPECT_EQ(run({"models", "bert-tiny", "--seq-len", "8"}).code, 0);
  EXPECT_EQ(run({"models", "gpt2-tiny", "--seq-len", "1"}).code, 0);
}

TEST(Models, WhatANetworkCannotHaveIsRefusedWithItsOption) {
  const std::string kit = testing::TempDir() + "trainwatt-cut-kit.json";
  std::remove(kit.c_str());
  expect_refused(run({"freeze", "--model", "llama3.1-70b", "--layers", "81", "-o", kit}), "]: --layers 81: cannot cut");
  expect_refused(run({"models", "llama3.1-70b", "--layers", "81"}), "]: --layers 81: cannot cut");
  expect_refused(run({"models", "gpt2-tiny", "--layers", "0"}), "]: --layers 0: ");
  expect_refused(run({"models", "dlrm", "--table-rows-at-most", "1"}), "]: --table-rows-at-most 1: ");
  expect_refused(run({"models", "inception-v3", "--micro-batch", "1"}), "]: --micro-batch 1: value too small");
  expect_refused(run({"models", "resnet-50", "--precision", "fp8"}), "]: --precision fp8: resnet-50: ");
  expect_refused(run({"models", "gpt2-tiny", "--precision", "bf16,bf16"}), "[duplicate-value]: --precision lists bf16");
  const std::string both = run({"models", "dlrm", "--layers", "1"}).err;
  EXPECT_NE(both.find("none can be left out"), std::string::npos) << both;
}

TEST(Models, LayersOfAFileAreCutInTheFile) {
  const std::string file = file_with(series_file, "-series");
  const std::string why = "error[option-does-not-apply]: --layers: does not apply to custom: shorten the file";
  const std::string kit = testing::TempDir() + "trainwatt-layers-kit.json";
  std::remove(kit.c_str());
  expect_refused(run({"models", "custom", "--layers-file", file, "--layers", "1"}), why);
  expect_refused(run({"plan", "--model", "custom", "--layers-file", file, "--layers", "1"}), why);
  expect_refused(run({"freeze", "--model", "custom", "--layers-file", file, "--layers", "1", "-o", kit}), why);
  const Outcome step = run({"models", "custom", "--layers-file", file});
  EXPECT_EQ(step.code, 0) << step.err;
  EXPECT_NE(step.out.find("= 1 sample of 8 time steps\n"), std::string::npos) << step.out;
  std::remove(file.c_str());
}

TEST(Models, TheListHasNetworksOfAFileAndUnits) {
  const std::string list = run({"models"}).out;
  EXPECT_NE(list.find("\n  custom "), std::string::npos) << list;
  const std::string words = flat(list);
  for (const char* text : {"--target trains gpt2-tiny to excess loss 0.1 nats per token (",
                           "--target trains bert-tiny to excess loss 0.5 nats per masked token (", " of the images ("})
    EXPECT_NE(words.find(text), std::string::npos) << text << "\n" << words;
  EXPECT_EQ(nlohmann::json::parse(run({"models", "--json"}).out).at("described_models").at(0), "custom");
}

TEST(Models, FiguresSayWhatTheyAreOf) {
  const std::string fp8 = run({"models", "gpt2-tiny", "--precision", "fp8"}).out;
  EXPECT_NE(fp8.find(" in bf16 (linear layers round them to fp8), "), std::string::npos) << fp8;
  const std::string tf32 = run({"models", "gpt2-tiny", "--precision", "tf32"}).out;
  EXPECT_NE(tf32.find(" in float32\n"), std::string::npos) << tf32;
  const std::string bert = run({"models", "bert-large", "--micro-batch", "1"}).out;
  EXPECT_NE(bert.find("< 0.001 %"), std::string::npos) << bert;
  EXPECT_EQ(bert.find("e-0"), std::string::npos) << bert;
}

TEST(Models, AKitIsOfAPlanFromTheCommandLine) {
  const std::string kit = testing::TempDir() + "trainwatt-named-kit.json";
  std::remove(kit.c_str());
  const Outcome o = run({"freeze", "--model", "gpt2-tiny", "--global-batch", "16", "-o", kit});
  EXPECT_NE(o.out.find(": plan from the command line, 1 point if run on 1 rank\n"), std::string::npos) << o.out;
  std::remove(kit.c_str());
}

TEST(Models, WhatOnAndItsLikesTakeIsSaid) {
  expect_refused(run({"plan", "--model", "gpt2-tiny", "--on", "h200"}),
                 "the name of a device is for trainwatt models --on");
  expect_refused(run({"plan", "--suite", "standard", "--device-class", "tpu"}), "'tpu': known: cpu, gpu\n");
}

/// Only what brings the need under what the node has.
TEST(Models, AdviceOnMemoryHelps) {
  const std::string probe = file_with(
      R"({"host": "n1", "cpu": {"bf16": false}, "memory": {"total_bytes": 68719476736}, "meters": [], "telemetry": [],
          "knobs": []})",
      "-probe");
  const auto advice = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"plan", "--on", probe});
    const std::string out = flat(run(words).out);
    const std::size_t at = out.find("has 64.0 GiB: use ");
    EXPECT_NE(at, std::string::npos) << out;
    return at == std::string::npos ? out : out.substr(at);
  };
  const std::string large = advice({"--model", "llama3.1-70b"});
  EXPECT_EQ(large.find("--recompute"), std::string::npos) << large;
  EXPECT_NE(large.find("--layers N with N up to "), std::string::npos) << large;
  const std::string tables = advice({"--model", "dlrm"});
  EXPECT_NE(tables.find("use --table-rows-at-most N with N up to "), std::string::npos) << tables;
  for (const char* none : {"--micro-batch", "--recompute", "--layers"})
    EXPECT_EQ(tables.find(none), std::string::npos) << tables;
  const std::string activations = advice({"--model", "gpt2-124m", "--micro-batch", "512"});
  for (const char* way : {"--micro-batch N with N up to ", "--recompute"})
    EXPECT_NE(activations.find(way), std::string::npos) << activations;
  std::remove(probe.c_str());
}

}  // namespace
