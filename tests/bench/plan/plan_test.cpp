// What options, suites and config files come to.
#include "bench/plan/plan.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/bench/plan/planned.hpp"

namespace tw {
using namespace bench;
using namespace models;
using namespace power;
using namespace results;
namespace {

TEST(Plan, ListsMakeAGrid) {
  const RunPlan plan = plan_of({"--model", "gpt2-tiny,resnet-tiny", "--precision", "float32,bf16", "--accumulate", "1,4"});
  std::set<std::string> kinds;
  for (const Point& point : plan.points)
    kinds.insert(point.network.name + " " + point.precision + " " + std::to_string(point.accumulate));
  EXPECT_EQ(plan.points.size(), 8u);
  EXPECT_EQ(kinds.size(), 8u);
}

TEST(Plan, SettingsAreOutermostTheCostliestFirstAndAsWritten) {
  const RunPlan plan = plan_of({"--model", "gpt2-tiny,resnet-tiny", "--cpu-frequency", "3000,2000", "--gpu-clock", "900,found",
                                "--gpu-memory-clock", "1600,1500", "--accumulate", "1,2,4"});
  ASSERT_EQ(plan.points.size(), 48u);
  std::vector<std::map<KnobKind, double>> settings;
  for (const Point& point : plan.points)
    if (settings.empty() || settings.back() != point.setting) settings.push_back(point.setting);
  constexpr KnobKind memory = KnobKind::gpu_memory_clock, clock = KnobKind::gpu_clock, cpu = KnobKind::cpu_frequency;
  EXPECT_EQ(settings, (std::vector<std::map<KnobKind, double>>{{{memory, 1600}, {clock, 900}, {cpu, 3000}},
                                                               {{memory, 1600}, {clock, 900}, {cpu, 2000}},
                                                               {{memory, 1600}, {cpu, 3000}},
                                                               {{memory, 1600}, {cpu, 2000}},
                                                               {{memory, 1500}, {clock, 900}, {cpu, 3000}},
                                                               {{memory, 1500}, {clock, 900}, {cpu, 2000}},
                                                               {{memory, 1500}, {cpu, 3000}},
                                                               {{memory, 1500}, {cpu, 2000}}}));
}

std::vector<std::string> ids(const RunPlan& plan) {
  std::vector<std::string> all;
  for (const Point& point : plan.points) all.push_back(point.id);
  return all;
}

TEST(Plan, UnderOneSettingTheSeedDrawsTheOrder) {
  const std::vector<std::string> words = {"--model", "gpt2-tiny,resnet-tiny", "--precision", "float32,bf16", "--accumulate", "1,2,4,8"};
  const auto seeded = [&](const std::string& seed) {
    std::vector<std::string> more = words;
    more.insert(more.end(), {"--seed", seed});
    return ids(plan_of(more));
  };
  const std::vector<std::string> one = seeded("1");
  EXPECT_EQ(one, seeded("1"));
  EXPECT_NE(one, seeded("2"));
  std::vector<std::string> sorted = one, other = seeded("2");
  std::ranges::sort(sorted), std::ranges::sort(other);
  EXPECT_EQ(sorted, other) << "the same points";
  EXPECT_NE(one, sorted);
  EXPECT_EQ(one, ids(plan_of({"--model", "resnet-tiny,gpt2-tiny", "--precision", "bf16,float32", "--accumulate", "8,4,2,1"})))
      << "however they were written";
  // Half of a sorted list would be one network's; drift would be its effect.
  const auto first_half = std::count_if(one.begin(), one.begin() + 8, [](const std::string& id) { return id.starts_with("gpt2"); });
  EXPECT_GT(first_half, 1);
  EXPECT_LT(first_half, 7);
  EXPECT_EQ(one.front(), "gpt2-tiny/bf16/mb8/t128/acc4/np2") << "on every machine";
}

TEST(Plan, TheQuickSuiteIsATransformerAndACnnInBothPrecisionsAndAccumulations) {
  const RunPlan plan = plan_of({"--suite", "quick"});
  ASSERT_EQ(plan.points.size(), 8u);
  EXPECT_EQ(plan.measurement.trials, 5);
  EXPECT_EQ(plan.measurement.window_seconds, 1.2);
  double seconds = 0;
  for (const Point& point : plan.points) {
    EXPECT_TRUE(point.precision == "float32" || point.precision == "bf16");
    EXPECT_TRUE(point.accumulate == 1 || point.accumulate == 4);
    seconds += plan.measurement.window_seconds * (plan.measurement.trials + 0.1) + plan.measurement.ceiling_seconds;
  }
  EXPECT_LT(seconds, 120) << "the measured part is to stay under two minutes";
}

TEST(Plan, TheThirdOfTheBatchesIsDerived) {
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--global-batch", "16", "--micro-batch", "2"}).points[0].accumulate, 4);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--global-batch", "16", "--accumulate", "2"}).points[0].micro_batch, 4);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--micro-batch", "3", "--accumulate", "5"}).points[0].global_batch(), 30);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--micro-batch", "3", "--accumulate", "5"}, 4).points[0].global_batch(), 60);
}

TEST(Plan, BatchesThatDoNotFitAreRefused) {
  EXPECT_NE(refusal({"--model", "gpt2-tiny", "--global-batch", "7", "--micro-batch", "2"})
                .find("[batch-not-divisible] --global-batch 7 "),
            std::string::npos);
  EXPECT_NE(refusal({"--model", "gpt2-tiny", "--global-batch", "8", "--micro-batch", "2", "--accumulate", "2"})
                .find("[options-conflict] --micro-batch"),
            std::string::npos);
}

TEST(Plan, AbsurdSizesAreRefusedBeforeTheyAreMultiplied) {
  const std::string odd = std::to_string((1LL << 54) + 1), huge = std::to_string(1LL << 62);
  for (const std::string option : {"--micro-batch", "--accumulate", "--global-batch"}) {
    for (const std::string& value : {odd, huge}) {
      const std::string text = refusal({"--model", "gpt2-124m", option, value}, 4);
      EXPECT_TRUE(text.starts_with("[bad-value] " + option + " " + value + ": ")) << text;
    }
  }
  // A product that wraps to 0 was a division by zero.
  const std::string wrapped = refusal({"--model", "gpt2-tiny", "--global-batch", "8", "--micro-batch", huge}, 4);
  EXPECT_NE(wrapped.find("--micro-batch " + huge), std::string::npos) << wrapped;
  EXPECT_NE(refusal({"--model", "gpt2-124m", "--seq-len", huge}).find("--seq-len " + huge), std::string::npos);
  const std::string whole = refusal({"--model", "gpt2-tiny", "--micro-batch", "16777216", "--accumulate", "65536"});
  EXPECT_NE(whole.find("global batch"), std::string::npos) << whole;
  const std::string rest = refusal({"--model", "gpt2-tiny", "--global-batch", "2147483648", "--micro-batch", "1"});
  EXPECT_NE(rest.find("accumulation"), std::string::npos) << rest;
}

TEST(Plan, APointTwiceIsRefused) {
  EXPECT_NE(refusal({"--model", "gpt2-tiny,gpt2-tiny"}).find("[duplicate-value] "), std::string::npos);
}

TEST(Plan, TheCanonicalFormFollowsEveryAxis) {
  const std::vector<std::string> base = {"--model", "gpt2-tiny", "--steps", "3"};
  const std::string text = plan_of(base).canonical_json();
  EXPECT_EQ(plan_of(base).canonical_json(), text);
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--precision", "bf16"}, {"--micro-batch", "3"}, {"--accumulate", "2"}, {"--seq-len", "16"}, {"--seed", "9"},
           {"--layers", "1"}, {"--recompute"}, {"--recompute", "1"}, {"--eager"}, {"--comm", "mpi"},
           {"--reduce-precision", "bf16"}, {"--warmup", "7"}, {"--trials", "2"}}) {
    std::vector<std::string> words = base;
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_NE(plan_of(words).canonical_json(), text) << more.front();
  }
  EXPECT_NE(plan_of(base, 4).canonical_json(), text) << "ranks";
}

class Config : public testing::Test {
 protected:
  std::string refusal_of(const std::string& text) {
    try {
      read_config(path_, text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }
  void TearDown() override { std::remove(path_.c_str()); }
  std::string path_ = testing::TempDir() + "trainwatt-plan-" + std::to_string(getpid()) + ".json";
};

TEST_F(Config, AxesBesideGridsAreTheirDefaults) {
  const Request request = read_config(path_, R"({"precision": ["float32", "bf16"], "window_s": 5, "trials": 4, "seed": 7,
          "grids": [{"model": "gpt2-tiny"}, {"model": "resnet-tiny", "precision": "float32", "micro_batch": [2, 4]}]})");
  const RunPlan plan = make_plan(request, 1, "cpu");
  ASSERT_EQ(plan.points.size(), 4u);
  EXPECT_EQ(plan.measurement.window_seconds, 5);
  EXPECT_EQ(plan.measurement.trials, 4);
  EXPECT_EQ(plan.seed, 7u);
  const auto found = std::ranges::find(plan.points, "resnet-tiny/float32/mb4/acc1/np1", &Point::id);
  ASSERT_NE(found, plan.points.end());
  EXPECT_EQ(found->micro_batch, 4);
}

TEST_F(Config, NothingIsDroppedInSilence) {
  const std::string unused = R"({"precision": "fp8", "grids": [{"model": "gpt2-tiny", "precision": "bf16"}]})";
  EXPECT_NE(refusal_of(unused).find("/precision"), std::string::npos) << refusal_of(unused);
  EXPECT_NE(refusal_of(R"({"model": "gpt2-tiny", "model": "resnet-tiny"})").find("[bad-config] "), std::string::npos);
  EXPECT_NE(refusal_of(R"({"model": "gpt2-tiny", "steps": 1, "window_s": 3})").find("[options-conflict] "),
            std::string::npos);
  EXPECT_NE(refusal_of(R"({"grids": []})").find("[bad-config] "), std::string::npos);
  EXPECT_NE(refusal_of(R"({"grids": [{"precision": "bf16"}]})").find("[no-model] "), std::string::npos);
}

TEST_F(Config, NumbersThatDoNotFitAreNamed) {
  for (const char* entry : {R"("trials": 4294967297)", R"("layers": 4294967297)", R"("micro_batch": 18446744073709551615)",
                            R"("seed": -1)", R"("steps": 1.5e0)", R"("window_s": "5")"}) {
    const std::string key = std::string(entry).substr(1, std::string(entry).find('"', 1) - 1);
    const std::string text = refusal_of(std::string(R"({"model": "gpt2-tiny", )") + entry + "}");
    EXPECT_NE(text.find("/" + key), std::string::npos) << entry << ": " << text;
  }
  EXPECT_NE(refusal_of(R"({"model": "gpt2-tiny", "window_s": 1e999})").find("[bad-config]"), std::string::npos);
  const Request request = read_config(path_, R"({"model": "gpt2-tiny", "steps": 3})");
  EXPECT_EQ(request.measurement.trials, 1) << "as with --steps";
}

TEST_F(Config, TextsThatAreNoConfig) {
  EXPECT_NE(refusal_of("{\n  \"model\": ]}").find("line 2"), std::string::npos) << refusal_of("{\n  \"model\": ]}");
  const auto unreadable = [](const std::string& path) -> std::string {
    try {
      return read_config_text(path);
    } catch (const UsageError& error) {
      return error.what();
    }
  };
  EXPECT_NE(unreadable(testing::TempDir()).find("[bad-file] "), std::string::npos);
  EXPECT_NE(unreadable("/dev/zero").find("[bad-file] "), std::string::npos);
  EXPECT_NE(unreadable(path_).find("[cannot-read] "), std::string::npos);
  std::ofstream(path_) << "{}";
  EXPECT_EQ(unreadable(path_), "{}");
}

TEST_F(Config, AMisspeltKeyIsNamedWithTheNearest) {
  const std::string text = refusal_of(R"({"model": "gpt2-tiny", "acumulate": 2})");
  EXPECT_NE(text.find("/acumulate"), std::string::npos) << text;
  EXPECT_NE(text.find("'accumulate'"), std::string::npos) << text;
}

TEST_F(Config, WrongTypesAreNamedWithTheirPlace) {
  EXPECT_NE(refusal_of(R"({"model": "gpt2-tiny", "trials": 2.5})").find("/trials"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"grids": [{"model": "gpt2-tiny", "seq_len": "long"}]})").find("/grids/0/seq_len"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"grids": {}})").find("/grids"), std::string::npos);
  EXPECT_NE(refusal_of("[]").find("[bad-config] "), std::string::npos);
  EXPECT_NE(refusal_of("{}").find("[no-model] "), std::string::npos);
}

TEST(OptionsParsing, SuitesAreFrozen) {
  EXPECT_NE(refusal({"--suite", "quick", "--precision", "bf16"}).find("[frozen-plan] "), std::string::npos);
  EXPECT_NE(refusal({"--suite", "quikc"}).find("'quick'"), std::string::npos);
  const auto frozen = [](std::vector<std::string> words, const std::string& config,
                         const std::vector<std::string>& named) {
    const std::string text = refusal(std::move(words), 2, config);
    EXPECT_TRUE(text.starts_with("[frozen-plan] ")) << text;
    for (const std::string& word : named) EXPECT_NE(text.find(word), std::string::npos) << text;
    return text;
  };
  const std::string config = R"({"model": "gpt2-tiny"})";
  const std::string own = frozen({"--config", "plan.json", "--gpu-clock", "1305", "--search", "energy"}, config,
                                 {"--gpu-clock", "--search"});
  EXPECT_NE(own.find("into the file"), std::string::npos) << own;
  frozen({"--suite", "quick", "--precision", "bf16", "--layers", "1"}, "", {"--precision", "--layers"});
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--suite", "quick"}, {"--config", "plan.json"}}) {
    const std::string text = frozen({words[0], words[1], "--seeds", "3"}, config, {"--seeds"});
    EXPECT_EQ(text.find("add --target"), std::string::npos) << text;
  }
}

TEST(OptionsParsing, SettingsGoAroundASuiteAndChangeIt) {
  const RunPlan plan = plan_of({"--suite", "quick", "--cpu-frequency", "found,2400"});
  EXPECT_EQ(plan.suite, "quick (changed: cpu-frequency)");
  ASSERT_EQ(plan.points.size(), 16u);
  for (std::size_t i = 0; i < plan.points.size(); ++i)
    EXPECT_EQ(plan.points[i].setting, i < 8 ? (std::map<KnobKind, double>{}) : (std::map<KnobKind, double>{{KnobKind::cpu_frequency, 2400}}));
  const RunPlan same = plan_of({"--suite", "quick", "--cpu-frequency", "found"});
  EXPECT_EQ(same.canonical_json(), plan_of({"--suite", "quick"}).canonical_json()) << "as found is what the suite does";
}

TEST(OptionsParsing, GovernorsAreNames) {
  const RunPlan plan = plan_of({"--model", "gpt2-tiny", "--cpu-governor", "found,performance"});
  ASSERT_EQ(plan.points.size(), 2u);
  EXPECT_TRUE(plan.points[0].setting.empty());
  EXPECT_TRUE(plan.points[1].id.ends_with("/cpu_governor=performance")) << plan.points[1].id;
  EXPECT_NE(plan.canonical_json().find(R"("setting":{"cpu_governor":"performance"})"), std::string::npos) << plan.canonical_json();
  EXPECT_NE(
      refusal({"--model", "gpt2-tiny", "--cpu-governor", "perfomance"}).find("[bad-value] --cpu-governor perfomance: "),
      std::string::npos);
  EXPECT_NE(refusal({"--model", "gpt2-tiny", "--cpu-governor", "1"}).find("[bad-value] --cpu-governor 1: "),
            std::string::npos);
  EXPECT_NE(refusal({"--model", "gpt2-tiny", "--cpu-frequency", "performance"})
                .find("[bad-value] --cpu-frequency performance: "),
            std::string::npos);
}

TEST(OptionsParsing, StepsMakeOneTrialUnlessAskedOtherwise) {
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--steps", "5"}).measurement.trials, 1);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--steps", "5", "--trials", "2"}).measurement.trials, 2);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny"}).measurement.trials, 3);
  // A short look times the products alone for a short time, too.
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny"}).measurement.ceiling_seconds, 4);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--steps", "5"}).measurement.ceiling_seconds, 1);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--window", "2"}).measurement.ceiling_seconds, 2);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--window", "0.2"}).measurement.ceiling_seconds, 1);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--window", "60"}).measurement.ceiling_seconds, 4);
  EXPECT_NE(refusal({"--model", "gpt2-tiny", "--steps", "5", "--window", "5"}).find("[options-conflict] "),
            std::string::npos);
}

TEST(OptionsParsing, NumbersOutOfRangeAreRefused) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--threads", "0"}, {"--threads", "-2"}, {"--threads", "+100000"}, {"--threads", "99999999999999999999999"},
           {"--bucket-mib", "nan"}, {"--bucket-mib", "1e30"}, {"--bucket-mib", "1e-9"}, {"--seed", "-1"},
           {"--trials", "0"}, {"--trials", "4294967297"}, {"--warmup", "-5"}, {"--window", "inf"},
           {"--window", "0"}, {"--window", "nan"}, {"--steps", "0"}}) {
    std::vector<std::string> words = {"--model", "gpt2-tiny"};
    words.insert(words.end(), more.begin(), more.end());
    const std::string text = refusal(words);
    EXPECT_TRUE(text.starts_with("[bad-value] " + more[0] + " ")) << more[0] << " " << more[1] << ": " << text;
    EXPECT_LT(text.size(), 100u) << text;
  }
  const std::string single = refusal({"--model", "inception-tiny", "--micro-batch", "1"});
  EXPECT_TRUE(single.starts_with("[bad-value] --micro-batch 1: ")) << single;
  EXPECT_NE(single.find("AuxLogits.conv1.bn"), std::string::npos) << single;
  EXPECT_NE(refusal({"--model", "gpt2-tiny", "--micro-batch", "1.5"}).find("[bad-value] --micro-batch 1.5: "),
            std::string::npos);
}

TEST(OptionsParsing, NoItemOfAListIsDropped) {
  using Words = std::vector<std::string>;
  const std::vector<Words> lists = {Words{"--accumulate", "1,,4"}, Words{"--accumulate=,4"}, Words{"--precision", "bf16,"},
                                    Words{"--gpu-clock", "600,,900"}, Words{"--seeds", "1,,2"}};
  for (const Words& list : lists) {
    std::vector<std::string> words = {"--model", "gpt2-tiny"};
    words.insert(words.end(), list.begin(), list.end());
    EXPECT_NE(refusal(words).find("[bad-value] --"), std::string::npos) << list.front() << ": " << refusal(words);
  }
}

TEST(OptionsParsing, AChangedSuiteIsNotThatSuite) {
  EXPECT_EQ(plan_of({"--suite", "quick"}).suite, "quick");
  for (const char* option : {"--window", "--trials", "--seed", "--steps"})
    EXPECT_EQ(plan_of({"--suite", "quick", option, "2"}).suite, "quick (changed: " + std::string(option + 2) + ")");
  EXPECT_EQ(plan_of({"--suite", "quick", "--trials", "4", "--window", "3", "--recompute"}).suite,
            "quick (changed: recompute, window, trials)");
}

TEST(OptionsParsing, AMisspeltOptionIsNamedWithTheNearest) {
  const ParseResult result = parse({"--model", "gpt2-tiny", "--micro-bacth", "4"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.text.find("--micro-batch"), std::string::npos) << result.text;
}

TEST(OptionsParsing, ForceIsForSettingsAndForceResumeForResuming) {
  const ParseResult clocks = parse({"--model", "gpt2-tiny", "--gpu-clock", "1305", "--force", "--resume", "out/r"});
  ASSERT_TRUE(clocks.options) << clocks.text;
  EXPECT_TRUE(clocks.options->force);
  EXPECT_FALSE(clocks.options->force_resume) << "a job line that sets clocks is no leave to go over another machine";
  const ParseResult resume = parse({"--resume", "out/r", "--force-resume"});
  ASSERT_TRUE(resume.options) << resume.text;
  EXPECT_TRUE(resume.options->resumes_alone);
  EXPECT_TRUE(resume.options->force_resume);
  EXPECT_FALSE(resume.options->force) << "nor the other way round";
  EXPECT_NE(parse({"--model", "gpt2-tiny", "--force-resume"}).text.find("[option-needs] --force-resume"),
            std::string::npos);
}

TEST(OptionsParsing, HelpAndVersionAreNoErrors) {
  EXPECT_EQ(parse({"--help"}).exit_code, 0);
  EXPECT_NE(parse({"--help"}).text.find("--model"), std::string::npos);
  EXPECT_EQ(parse({"--version"}).exit_code, 0);
}

TEST_F(Config, OptionsGoOverItsRunsToATarget) {
  const auto with = [&](const std::string& text, std::vector<std::string> words) {
    words.insert(words.begin(), {"--config", path_});
    const ParseResult result = parse(words);
    if (!result.options) throw error_of(result);
    return make_plan(request_of(*result.options, text), 2, "cpu");
  };
  const std::string text = R"({"model": "gpt2-tiny", "target": 0.3, "seeds": [7, 8, 9]})";
  EXPECT_EQ(with(text, {}).points[0].seeds, (std::vector<std::uint64_t>{7, 8, 9}));
  const RunPlan counted = with(text, {"--seeds", "2"});
  EXPECT_EQ(counted.points[0].seeds, (std::vector<std::uint64_t>{1, 2})) << "a count in place of the list";
  EXPECT_TRUE(counted.suite.ends_with(" (changed: seeds)"));
  EXPECT_EQ(with(text, {"--target", "0.2"}).points[0].task->target, 0.2);
  try {
    with(R"({"model": "gpt2-tiny", "steps": 2})", {"--target", "0.2"});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code() + " " + error.key(), "frozen-plan target");
  }
}

TEST_F(Config, PricesStandInThePlanAndChangeNoSuite) {
  const RunPlan priced = plan_of({"--suite", "convergence", "--hour-price", "2.5", "--kwh-price", "0.3"});
  EXPECT_EQ(priced.prices, (JobPrices{2.5, 0.3}));
  EXPECT_EQ(priced.suite, "convergence");
  EXPECT_NE(priced.canonical_json().find(R"("prices":{"hour_price":2.5,"kwh_price":0.3})"), std::string::npos);
  EXPECT_EQ(plan_of({"--suite", "convergence"}).canonical_json().find("price"), std::string::npos);
  EXPECT_EQ(read_config(path_, R"({"model": "gpt2-tiny", "kwh_price": 0.3})").prices, (JobPrices{0, 0.3}));
  EXPECT_TRUE(refusal({"--model", "gpt2-tiny", "--hour-price", "-1"}).starts_with("[bad-value] --hour-price -1: "));
}

}  // namespace
}  // namespace tw
