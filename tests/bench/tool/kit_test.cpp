// Kits and archives, without the program around them.
#include "bench/plan/options/kit.hpp"

#include <gtest/gtest.h>

#include "bench/plan/options/plan_options.hpp"
#include "bench/plan/plan.hpp"
#include "bench/tool/inputs/archive.hpp"

namespace tw {

using namespace bench;
using namespace results;

namespace {

const Program program{"trainwatt", "0.1.0", "0123456789ab"};

std::string plan_of(const Request& request) { return make_plan(request, 4, "cpu").canonical_json(); }

/// A kit of a request runs the request's plan: the same but for the kit's own name in it.
void expect_same_plan(const Request& request) {
  EXPECT_EQ(read_config("c", config_json(request)).measurement.ceiling_seconds, request.measurement.ceiling_seconds);
  Request again = read_config("kit.json", kit_json({}, request, program));
  ASSERT_TRUE(again.kit);
  EXPECT_EQ(again.repeat, request.repeat);
  EXPECT_NE(plan_of(again).find(again.kit->sha256), std::string::npos);
  again.kit.reset();
  EXPECT_EQ(plan_of(again), plan_of(request));
}

TEST(Kit, EverySuiteIsWrittenOut) {
  for (const std::string& suite : suite_names())
    for (const char* device : {"cpu", "cuda"}) {
      Request request = suite_request(suite);
      choose_class(request, device);
      expect_same_plan(request);
    }
}

TEST(Kit, EveryOptionIsWrittenOut) {
  const auto request = [](const std::string& config) {
    Request made = read_config("plan.json", config);
    made.suite = "plan.json";
    return made;
  };
  for (
      const char* config :
      {R"({"model": ["gpt2-tiny", "resnet-tiny"], "precision": "bf16", "micro_batch": [2, 4], "window_s": 3.5, "trials": 7, "warmup_steps": 0, "seed": 9, "recompute": true, "eager": true, "comm": "nccl"})",
       R"({"model": "gpt2-tiny", "layers": 1, "seq_len": [16, 32], "global_batch": 64, "accumulate": [1, 2], "ranks": [1, 2, 4]})",
       R"({"model": "gpt2-tiny", "gpu_clock": ["found", "600:900:150"], "cpu_governor": "performance", "cpu_power_limit": [100.5]})",
       R"({"grids": [{"model": "gpt2-tiny"}, {"model": "resnet-tiny", "accumulate": 4}], "precision": ["float32"]})",
       R"({"model": "gpt2-tiny", "micro_batch": ["auto", 2], "global_batch": 64})",
       R"({"model": "gpt2-tiny", "target": 0.25, "seeds": [9223372036854775807, 3]})",
       R"({"model": "gpt2-tiny", "recompute": 1, "deterministic": false, "repeat": 5})",
       R"({"model": ["gpt2-tiny", "resnet-tiny"], "recompute": "37.5%"})",
       R"({"model": "gpt2-tiny", "target": "default", "seeds": 4})",
       R"({"model": "gpt2-tiny", "gpu_clock": "600:900:30", "search": "cost", "hour_price": 2.5, "max_slowdown": "10%"})",
       R"({"model": "gpt2-tiny", "gpu_clock": "600:900:30", "search": "energy", "max_slowdown": 0})"})
    expect_same_plan(request(config));
  PlanOptions steps;
  steps.suite = "quick", steps.given = {{"steps", std::int64_t{5}}, {"trials", std::int64_t{2}}};
  const Request made = request_of(steps, "");
  const Request again = read_config("kit.json", kit_json({}, made, program));
  EXPECT_EQ(again.measurement.steps, 5);
  EXPECT_EQ(again.measurement.trials, 2);
  EXPECT_EQ(again.suite, "quick (changed: steps, trials)");
}

TEST(Kit, TheSameWordsMakeTheSameKit) {
  const Request request = suite_request("quick");
  const KitText text{"Tender 7", "a@b.example", "überall"};
  const std::string kit = kit_json(text, request, program);
  EXPECT_EQ(kit, kit_json(text, request, program));
  const Kit opened = open_kit("kit.json", kit);
  EXPECT_EQ(opened.title, text.title);
  EXPECT_EQ(opened.contact, text.contact);
  EXPECT_EQ(opened.notes, text.notes);
  EXPECT_EQ(opened.suite, "quick");
  EXPECT_EQ(opened.program.git_commit, program.git_commit);
  EXPECT_NE(opened.sha256, open_kit("kit.json", kit_json({"Tender 8", "", ""}, request, program)).sha256);
  std::string compact = kit;  // white space is not content
  std::erase(compact, '\n');
  EXPECT_EQ(open_kit("kit.json", compact).sha256, opened.sha256);
}

TEST(Kit, WhateverIsChangedIsSeen) {
  const std::string kit = kit_json({"Tender 7", "c", "n"}, suite_request("quick"), program);
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      open_kit("k.json", text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  for (const auto& [old, now] :
       std::vector<std::pair<std::string, std::string>>{{"\"trials\": 5", "\"trials\": 2"},
                                                        {"Tender 7", "Tender 8"},
                                                        {"\"notes\": \"n\"", "\"notes\": \"m\""},
                                                        {"0.1.0", "0.2.0"},
                                                        {"\"quick\"", "\"slow\""},
                                                        {"\"seed\": 1", "\"seed\": 1, \"more\": 1"},
                                                        {"\"seed\": 1,", ""}}) {
    std::string changed = kit;
    ASSERT_NE(changed.find(old), std::string::npos) << old;
    changed.replace(changed.find(old), old.size(), now);
    EXPECT_NE(refusal(changed).find("[kit-changed] k.json: "), std::string::npos) << old;
  }
  EXPECT_NE(refusal("{\"kit_version\": \"2.0\"}").find("a newer trainwatt does"), std::string::npos);
  EXPECT_NE(refusal("{\"kit_version\": \"1.0\"}").find("[bad-kit] "), std::string::npos);
  EXPECT_NE(refusal(kit.substr(0, 100)).find("[bad-kit] "), std::string::npos);
}

TEST(Archive, ComesBackAsItWasPacked) {
  const BundleFiles files = {
      {"a.json", "{}"}, {"b", std::string(300000, 'x')}, {"c", ""}, {"d", std::string("\0\xff", 2)}};
  const std::string bytes = tool::pack(files);
  EXPECT_TRUE(tool::is_packed(bytes));
  EXPECT_FALSE(tool::is_packed("{}"));
  EXPECT_EQ(tool::unpack(bytes), files);
  EXPECT_EQ(tool::pack(files), bytes);
  EXPECT_LT(bytes.size(), 2000u);
}

TEST(Archive, WhatIsNotWholeIsRefused) {
  const BundleFiles files = {{"a", "text"}, {"b", std::string(100000, 'y')}};
  const std::string bytes = tool::pack(files);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      EXPECT_EQ(tool::unpack(bytes.substr(0, size)), files) << size;  // what comes behind the last file may be missing
      EXPECT_GT(size, bytes.size() / 2);
    } catch (const tool::ArchiveError&) {
    }
  }
  EXPECT_THROW(tool::unpack("{\"a\": 1}"), tool::ArchiveError);
  EXPECT_THROW(tool::unpack(tool::pack({{"../a", ""}})), tool::ArchiveError);
  EXPECT_THROW(tool::unpack(tool::pack({{".a", ""}})), tool::ArchiveError);
  EXPECT_THROW(tool::unpack(tool::pack({{"a/b", ""}})), tool::ArchiveError);
  EXPECT_THROW(tool::unpack(tool::pack({})), tool::ArchiveError);
  BundleFiles many;
  for (std::size_t i = 0; i <= tool::most_archive_files; ++i) many["f" + std::to_string(i)] = "";
  EXPECT_THROW(tool::unpack(tool::pack(many)), tool::ArchiveError);
}

}  // namespace
}  // namespace tw
