// Each option of a run in all that walks the list of options: the command line, a config, a kit, the plan's hash,
// --help.
#include "bench/plan/options/run_options.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/plan/options/kit.hpp"
#include "bench/plan/options/layers_file.hpp"
#include "bench/train/job/options.hpp"
#include "tests/bench/plan/planned.hpp"

namespace tw {

using namespace bench;

namespace {

using Over = RunOption::Over;

/// A value that differs from what is there without the option, and what has to stand beside it.
struct Sample {
  std::vector<std::string> words;  ///< of the command line, behind the option's name
  std::string json;
  std::vector<std::string> beside = {};
  std::string json_beside = {};
  std::string json_without = {};  ///< in place of the option, where the network needs a value of it
  std::string model = "gpt2-tiny";
};

const std::string example_file = TW_SOURCE_DIR "/models/custom/examples/policy-network.json";

std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Sample sample_of(const RunOption& option) {
  const std::vector<std::string> clock = {"--gpu-clock", "600:900:60"};
  const std::string json_clock = R"(, "gpu_clock": "600:900:60")";
  const auto searching = [&](std::vector<std::string> words, const std::string& json) {
    words.insert(words.end(), clock.begin(), clock.end());
    return std::pair(words, json + json_clock);
  };
  const auto with = [](Sample sample, std::pair<std::vector<std::string>, std::string> beside) {
    sample.beside = beside.first, sample.json_beside = beside.second;
    return sample;
  };
  const std::string key = option.key;
  if (key == "layers_file") {
    Sample sample{{example_file}, file_text(example_file)};
    sample.json_without = R"(, "layers_file": )" + file_text(TW_SOURCE_DIR "/models/custom/examples/time-series.json");
    sample.model = "custom";
    return sample;
  }
  if (key == "recompute") return {{"1"}, "1"};
  if (key == "search") return with({{"energy"}, R"("energy")"}, searching({}, ""));
  if (key == "max_slowdown")
    return with({{"10%"}, R"("10%")"}, searching({"--search", "energy"}, R"(, "search": "energy")"));
  if (key == "hour_price")
    return with({{"2"}, "2"},
                searching({"--search", "cost", "--kwh-price", "1"}, R"(, "search": "cost", "kwh_price": 1)"));
  if (key == "kwh_price")
    return with({{"2"}, "2"},
                searching({"--search", "cost", "--hour-price", "1"}, R"(, "search": "cost", "hour_price": 1)"));
  if (key == "target") return {{"0.2"}, "0.2"};
  if (key == "seeds") return with({{"4,8"}, "[4, 8]"}, {{"--target", "default"}, R"(, "target": "default")"});
  switch (option.type.kind) {
    case ValueType::Kind::flag:
      return {{}, "true"};
    case ValueType::Kind::yes_no:
      return {{"no"}, "false"};
    case ValueType::Kind::integer: {
      const std::string value = std::to_string(std::clamp<std::int64_t>(7, option.type.least, option.type.most));
      return {{value}, value};
    }
    case ValueType::Kind::number: {
      const ValueType& type = option.type;
      const std::string value =
          plain_text(type.most_number < 1.5 ? (type.least_number + type.most_number) / 2 : std::max(1.5, type.least_number + 1));
      return {{value}, value};
    }
    default:
      if (option.type.words.empty()) throw std::logic_error("give sample_of() a value of " + key);
      return {{option.type.words.back()}, "\"" + option.type.words.back() + "\""};
  }
}

std::string hash_of(const Request& request) {
  Request without_kit = request;
  without_kit.kit.reset(), without_kit.suite = "same";
  return make_plan(without_kit, 2, "cpu").canonical_json();
}

/// By the options of a plan alone: a launch of trainwatt-train takes no --repeat.
Request of_line(std::vector<std::string> words, const std::string& config = "") {
  CLI::App app;
  PlanOptions options;
  add_plan_options(app, options);
  std::ranges::reverse(words);  // as CLI11 wants them
  app.parse(words);
  check_plan_options(options);
  return request_of(options, config);
}

Request of_config(const std::string& more, const std::string& model = "gpt2-tiny") {
  return read_config("c", R"({"model": ")" + model + "\"" + more + "}");
}

std::string config_of(const RunOption& option, const Sample& sample) {
  return std::string(", \"") + option.key + "\": " + sample.json + sample.json_beside;
}

std::vector<std::string> line_of(const Sample& sample, const RunOption& option) {
  std::vector<std::string> words = {"--model", sample.model, option.name};
  words.insert(words.end(), sample.words.begin(), sample.words.end());
  words.insert(words.end(), sample.beside.begin(), sample.beside.end());
  return words;
}

class EachOption : public testing::TestWithParam<std::size_t> {
 protected:
  const RunOption& option_ = run_options().at(GetParam());
  const Sample sample_ = sample_of(option_);
};

TEST_P(EachOption, MeansTheSameOnTheCommandLineInAConfigAndInAKit) {
  const Request written = of_config(config_of(option_, sample_), sample_.model);
  const OptionValue value = option_.value(written);
  EXPECT_NE(value, OptionValue()) << "said in a kit";
  const Request again = read_config("kit.json", kit_json({}, written, {"trainwatt", "1", "a"}));
  EXPECT_EQ(option_.value(again), value);
  EXPECT_EQ(hash_of(again), hash_of(written));
  if (option_.name == nullptr) return;
  const Request given = of_line(line_of(sample_, option_));
  EXPECT_EQ(option_.value(given), value);
  EXPECT_EQ(hash_of(given), hash_of(written));
}

TEST_P(EachOption, EntersThePlansHashOrNotAsItSays) {
  const Request with = of_config(config_of(option_, sample_), sample_.model),
                without = of_config(sample_.json_without + sample_.json_beside, sample_.model);
  EXPECT_EQ(hash_of(with) == hash_of(without), option_.in_plan == RunOption::InPlan::no);
}

TEST_P(EachOption, StandsInTheHelpUnderItsGroup) {
  const std::string help = parse({"--help"}).text;
  if (option_.name == nullptr) return;
  const std::size_t group = help.find("\n" + std::string(option_.group) + ":\n");
  const std::size_t entry = help.find("\n  " + std::string(option_.name) + " ");
  ASSERT_NE(group, std::string::npos);
  ASSERT_NE(entry, std::string::npos);
  EXPECT_LT(group, entry);
}

TEST_P(EachOption, ChangesAKitOnlyWhereItMay) {
  if (option_.name == nullptr) return;
  const bool is_of_target = option_.key == std::string("seeds") || option_.key == std::string("target");
  const std::string kit = kit_json({}, of_config(is_of_target ? R"(, "target": 0.4)" : ""), {"trainwatt", "1", "a"});
  std::vector<std::string> words = {"--config", "kit.json", option_.name};
  words.insert(words.end(), sample_.words.begin(), sample_.words.end());
  if (option_.over == Over::kit) {
    EXPECT_NO_THROW(of_line(words, kit));
    return;
  }
  try {
    of_line(words, kit);
    FAIL() << option_.key;
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("[frozen-plan]"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Each, EachOption, testing::Range(std::size_t{0}, run_options().size()),
                         [](const auto& one) { return std::string(run_options()[one.param].key); });

// The file is read where it is named, so that a kit needs no file beside it.
TEST(LayersFile, IsInTheKitAndInTheNameOfTheNetwork) {
  const Request request = of_line({"--model", "custom", "--layers-file", example_file});
  const std::string kit = kit_json({}, request, {"trainwatt", "1", "a"});
  EXPECT_NE(kit.find("Mnih"), std::string::npos);
  const RunPlan plan = make_plan(read_config("kit.json", kit), 1, "cpu");
  EXPECT_TRUE(plan.points.at(0).id.starts_with("custom-policy-network-")) << plan.points.at(0).id;
  const RunPlan other = make_plan(
      of_line({"--model", "custom", "--layers-file", TW_SOURCE_DIR "/models/custom/examples/segmentation.json"}), 1,
      "cpu");
  EXPECT_NE(other.points.at(0).network.name, plan.points.at(0).network.name);
  EXPECT_EQ(recorded_network(plan.points.at(0).network.name, request.layers).name, plan.points.at(0).network.name);
  EXPECT_THROW(recorded_network(other.points.at(0).network.name, request.layers), std::invalid_argument);
  EXPECT_THROW(recorded_network(plan.points.at(0).network.name, ""), std::invalid_argument);
}

TEST(LayersFile, AConfigMayNameItByItsPath) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "tw-layers-config.json";
  std::ofstream(path) << R"({"model": "custom", // as in a shell
    "layers_file": ")" << example_file
                      << R"("})";
  const std::string text = read_config_text(path.string());
  EXPECT_NE(text.find("Mnih"), std::string::npos) << "its content is in place of the path";
  EXPECT_EQ(hash_of(read_config("c", text)), hash_of(of_line({"--model", "custom", "--layers-file", example_file})));
  std::filesystem::remove(path);
}

TEST(LayersFile, AnEmptyPathIsNone) {
  const std::string config = testing::TempDir() + "tw-layers-empty.json";
  std::ofstream(config) << R"({"model": "custom", "layers_file": ""})";
  std::string said = "read";
  try {
    read_config_text(config);
  } catch (const UsageError& error) {
    said = error.what();
  }
  EXPECT_EQ(said, "[bad-value] " + config + ": /layers_file: is empty: name a file of layers, or leave it out");
  std::filesystem::remove(config);
}

TEST(LayersFile, FaultsNameTheFile) {
  const std::filesystem::path folder = testing::TempDir();
  const std::string file = (folder / "tw-layers-wrong.json").string(), config = (folder / "tw-layers-of.json").string();
  std::ofstream(config) << R"({"model": "custom", "layers_file": ")" << file << R"("})";
  const auto said = [&](const std::string& layers) {
    std::ofstream(file) << layers;
    std::string line, named;
    try {
      of_line({"--model", "custom", "--layers-file", file});
    } catch (const UsageError& error) {
      line = error.what();
    }
    try {
      read_config("c", read_config_text(config));
    } catch (const UsageError& error) {
      named = error.what();
    }
    const std::size_t code = line.find("] --layers-file " + file + ": ");
    EXPECT_NE(code, std::string::npos) << line;
    const std::string what = line.substr(line.find(file + ": "));
    EXPECT_EQ(named, line.substr(0, code + 2) + config + ": /layers_file " + what);
    return line.substr(0, code + 2) + what.substr(file.size() + 2);
  };
  EXPECT_EQ(said(R"({"name": "a", "input": {"kind": "images", "size": 8, "channels": 3, "classes": 4},
      "layers": [{"layer": "flatten", "name": "b"}, {"layer": "loss", "name": "b", "per": "sample"}]})"),
            "[layers-name] /layers/1/name: 'b' is the name of /layers/0 already");
  EXPECT_EQ(said("[]"), "[layers-json] must be a JSON object with the layers");
  EXPECT_EQ(said(" \n"), "[layers-json] not JSON: the file has only blanks");
  const std::string commented = said("// of the paper\n{\"name\": \"a\"}"), broken = said("{\"name\" \"a\"}");
  EXPECT_TRUE(commented.ends_with("; a file of layers has no // comments: use the key \"comment\"")) << commented;
  EXPECT_EQ(broken.find("comment"), std::string::npos) << broken;
  std::filesystem::remove(file);
  std::filesystem::remove(config);
}

TEST(LayersFile, FaultsHaveTheirCodeAndPointer) {
  const auto said = [](const std::string& layers) {
    try {
      make_plan(of_config(R"(, "layers_file": )" + layers, "custom"), 1, "cpu");
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string wrong = said(R"({"name": "a", "input": {"kind": "images", "size": 8, "channels": 3, "classes": 4},
      "layers": [{"layer": "flatten"}, {"layer": "convolution", "channels": 2, "kernel": 3}]})");
  EXPECT_TRUE(wrong.starts_with("[layers-shape] c: /layers_file: /layers/1: ")) << wrong;
  try {
    make_plan(of_line({"--model", "custom"}), 1, "cpu");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code(), "option-needs");
  }
  try {
    make_plan(of_line({"--model", "gpt2-tiny", "--layers-file", example_file}), 1, "cpu");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code(), "option-does-not-apply");
    EXPECT_EQ(error.key(), "layers_file");
  }
  try {
    of_line({"--model", "custom", "--layers-file", "no-such-file.json"});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code(), "cannot-read");
  }
}

const UsageError fault_of(const std::string& config, int ranks = 2) {
  try {
    make_plan(read_config("plan.json", config), ranks, "cpu");
  } catch (const UsageError& error) {
    return error;
  }
  return UsageError("accepted", "");
}

TEST(UsageErrors, CarryTheKeyAndThePlaceWhereItWasRead) {
  const UsageError grid = fault_of(R"({"grids": [{"model": "gpt2-tiny"}, {"model": "gpt2-124m", "seq_len": 5000}]})");
  EXPECT_EQ(grid.code(), "bad-value");
  EXPECT_EQ(grid.key(), "seq_len");
  EXPECT_TRUE(std::string(grid.what()).starts_with("[bad-value] plan.json: /grids/1/seq_len 5000: ")) << grid.what();
  const UsageError shared =
      fault_of(R"({"seq_len": 5000, "grids": [{"model": "gpt2-tiny", "seq_len": 8}, {"model": "gpt2-124m"}]})");
  EXPECT_TRUE(std::string(shared.what()).starts_with("[bad-value] plan.json: /seq_len ")) << shared.what();
  const UsageError divisible = fault_of(R"({"model": "gpt2-tiny", "global_batch": 7, "micro_batch": 2})");
  EXPECT_EQ(divisible.code(), "batch-not-divisible");
  EXPECT_EQ(divisible.key(), "global_batch");
}

TEST(UsageErrors, OfTheCommandLineNameItsOptions) {
  try {
    plan_of({"--model", "gpt2-124m", "--seq-len", "5000"});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(error.key(), "seq_len");
    EXPECT_TRUE(std::string(error.what()).starts_with("[bad-value] --seq-len 5000: ")) << error.what();
  }
}

// What a value holds is no reference to an option.
TEST(UsageErrors, ProseIsNotRewritten) {
  const UsageError error = fault_of(R"({"model": "gpt2-tiny", "gpu_clock": "900:600:60", "precision": "bf16"})");
  EXPECT_TRUE(std::string(error.what()).starts_with("[bad-value] plan.json: /gpu_clock ")) << error.what();
  Request request;
  request.config = "plan.json";
  EXPECT_STREQ(UsageError("code", "", "see --window in the manual").seen_in(request).what(),
               "[code] plan.json: see --window in the manual");
}

TEST(Options, AxesBesideGridsAreInheritedAllOfThem) {
  const Request request =
      read_config("c", R"({"clock": ["50%"], "cpu_governor": "found", "ranks": 1, "grids": [{"model": "gpt2-tiny"}]})");
  EXPECT_EQ(request.axes.at(0).clock, std::vector<std::string>{"50%"});
  EXPECT_EQ(request.axes.at(0).ranks, std::vector<int>{1});
  EXPECT_EQ(request.axes.at(0).shared, (std::set<std::string>{"clock", "cpu_governor", "ranks"}));
}

TEST(Options, SettingsMayComeOfAConfigASettingOrASuiteWithClocks) {
  const auto may = [](std::vector<std::string> words) { return may_set(parse(std::move(words)).options.value()); };
  EXPECT_TRUE(may({"--suite", "procurement"}));
  EXPECT_TRUE(may({"--config", "plan.json"}));
  EXPECT_TRUE(may({"--suite", "quick", "--cpu-frequency", "2000"}));
  EXPECT_FALSE(may({"--suite", "quick"}));
  EXPECT_FALSE(may({"--suite", "quick", "--out", "procurement"}));
}

}  // namespace
}  // namespace tw
