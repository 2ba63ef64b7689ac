// How steps are run, on the command line and in a config: eager, the communicator, recomputation, to a target.
#include <gtest/gtest.h>

#include "bench/train/job/options.hpp"
#include "bench/train/point/point_config.hpp"

#include "tests/bench/plan/planned.hpp"

namespace tw {

using namespace bench;

namespace {

/// The plan of a config and of options over it.
RunPlan with(const std::string& text, std::vector<std::string> words, const std::string& device = "cpu") {
  words.insert(words.begin(), {"trainwatt-train", "--config", "plan.json"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const ParseResult result = parse_options(static_cast<int>(argv.size()), argv.data());
  if (!result.options) throw error_of(result);
  return make_plan(request_of(*result.options, text), 2, device);
}

std::string refused(const std::string& text, std::vector<std::string> words) {
  try {
    with(text, std::move(words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(HowStepsAreRun, InAConfigAndOverIt) {
  const RunPlan plan = with(R"({"model": "gpt2-tiny", "eager": true, "comm": "mpi"})", {});
  EXPECT_TRUE(plan.eager);
  EXPECT_EQ(plan.comm, "mpi");
  EXPECT_NE(plan.canonical_json().find(R"("comm":"mpi")"), std::string::npos);
  EXPECT_NE(plan.canonical_json().find(R"("eager":true)"), std::string::npos);
  const RunPlan by_default = with(R"({"model": "gpt2-tiny", "comm": "auto", "eager": false})", {});
  EXPECT_EQ(by_default.canonical_json(), with(R"({"model": "gpt2-tiny"})", {}).canonical_json()) << "no other plan than without";
  EXPECT_EQ(by_default.comm, "");
  // The command line goes over the file.
  const RunPlan over = with(R"({"model": "gpt2-tiny", "comm": "nccl"})", {"--comm", "mpi", "--eager"});
  EXPECT_EQ(over.comm, "mpi");
  EXPECT_TRUE(over.eager);
  EXPECT_TRUE(over.suite.ends_with(" (changed: eager, comm)")) << over.suite;
  EXPECT_EQ(with(R"({"model": "gpt2-tiny", "comm": "nccl"})", {"--comm", "auto"}).comm, "");
  EXPECT_EQ(with(R"({"model": "gpt2-tiny", "comm": "mpi"})", {"--comm", "mpi"}).suite, "plan.json") << "nothing was changed";
  EXPECT_NE(refused(R"({"model": "gpt2-tiny"})", {"--comm", "ncll"}).find("[unknown-name] "), std::string::npos);
}

TEST(HowStepsAreRun, GradientsAreSummedInFloat32UnlessBf16IsAskedFor) {
  const std::string plain = R"({"model": "gpt2-tiny"})", half = R"({"model": "gpt2-tiny", "reduce_precision": "bf16"})";
  EXPECT_EQ(with(plain, {"--reduce-precision", "float32"}).canonical_json(), with(plain, {}).canonical_json())
      << "the hash that plans had before there was a choice";
  EXPECT_NE(with(half, {}).canonical_json().find(R"("reduce_precision":"bf16")"), std::string::npos);
  const RunPlan over = with(half, {"--reduce-precision", "float32"});
  EXPECT_EQ(over.reduce_precision, "");
  EXPECT_TRUE(over.suite.ends_with(" (changed: reduce-precision)")) << over.suite;
  EXPECT_NE(refused(plain, {"--reduce-precision", "fp16"}).find("[unknown-name] "), std::string::npos);
}

TEST(HowStepsAreRun, DeterministicOnAGpuUnlessItIsGivenUp) {
  const std::string plain = R"({"model": "gpt2-tiny"})", free = R"({"model": "gpt2-tiny", "deterministic": false})";
  EXPECT_TRUE(with(plain, {}, "cuda").is_deterministic());
  EXPECT_EQ(with(plain, {"--deterministic", "yes"}, "cuda").canonical_json(), with(plain, {}, "cuda").canonical_json());
  const RunPlan given_up = with(plain, {"--deterministic", "no"}, "cuda");
  EXPECT_FALSE(given_up.is_deterministic());
  EXPECT_NE(given_up.canonical_json().find(R"("deterministic":false)"), std::string::npos);
  EXPECT_EQ(given_up.suite, "plan.json (changed: deterministic)");
  EXPECT_FALSE(with(free, {}, "cuda").is_deterministic());
  EXPECT_TRUE(with(free, {"--deterministic", "yes"}, "cuda").is_deterministic());
  EXPECT_TRUE(device_options(with(plain, {}, "cuda"), 0, 1).time_algorithms) << "as ever";
  EXPECT_NE(refused(plain, {"--deterministic", "maybe"}).find("[bad-value] --deterministic maybe: "),
            std::string::npos);
}

TEST(HowStepsAreRun, DeterministicOnTheCpuWhereItIsAskedFor) {
  const std::string plain = R"({"model": "gpt2-tiny"})", fixed = R"({"model": "gpt2-tiny", "deterministic": true})";
  const RunPlan usual = with(plain, {});
  EXPECT_FALSE(usual.is_deterministic());
  EXPECT_EQ(usual.canonical_json().find("deterministic"), std::string::npos) << "the hash that it had";
  EXPECT_TRUE(device_options(usual, 0, 1).time_algorithms);
  const RunPlan given_up = with(plain, {"--deterministic", "no"});
  EXPECT_FALSE(given_up.is_deterministic());
  EXPECT_NE(given_up.canonical_json().find(R"("deterministic":false)"), std::string::npos) << "the hash that it had";
  const RunPlan asked = with(plain, {"--deterministic", "yes"});
  EXPECT_TRUE(asked.is_deterministic());
  EXPECT_NE(asked.canonical_json().find(R"("deterministic":true)"), std::string::npos);
  EXPECT_EQ(asked.suite, "plan.json (changed: deterministic)");
  EXPECT_EQ(with(plain, {"--deterministic", "yes", "--eager"}).suite, "plan.json (changed: eager, deterministic)");
  EXPECT_FALSE(device_options(asked, 0, 1).time_algorithms);
  EXPECT_TRUE(with(fixed, {}).is_deterministic());
  EXPECT_EQ(with(fixed, {}).suite, "plan.json") << "nothing was changed";
  EXPECT_EQ(with(fixed, {"--deterministic", "yes"}).suite, "plan.json");
}

TEST(HowStepsAreRun, RecomputesLayersByNumberOrShare) {
  const auto layers = [](const std::string& value, std::vector<std::string> words = {}) {
    const std::string text = R"({"model": ["gpt2-124m", "resnet-50", "gpt2-tiny"])" + value + "}";
    std::map<std::string, int> all;
    for (const Point& point : with(text, std::move(words)).points) all[point.network.name] = point.recomputed_layers;
    return std::vector<int>{all["gpt2-124m"], all["resnet-50"], all["gpt2-tiny"]};
  };
  using Layers = std::vector<int>;
  EXPECT_EQ(layers(""), (Layers{0, 0, 0}));
  EXPECT_EQ(layers(R"(, "recompute": true)"), (Layers{12, 16, 2}));
  EXPECT_EQ(layers(R"(, "recompute": false)"), (Layers{0, 0, 0}));
  EXPECT_EQ(layers(R"(, "recompute": 2)"), (Layers{2, 2, 2}));
  EXPECT_EQ(layers(R"(, "recompute": "25%")"), (Layers{3, 4, 1})) << "rounded up";
  EXPECT_EQ(layers(R"(, "recompute": "100%")"), (Layers{12, 16, 2}));
  EXPECT_EQ(layers("", {"--recompute"}), (Layers{12, 16, 2}));
  EXPECT_EQ(layers("", {"--recompute", "--eager"}), (Layers{12, 16, 2}));
  EXPECT_EQ(layers("", {"--recompute", "all"}), (Layers{12, 16, 2}));
  EXPECT_EQ(layers("", {"--recompute", "1"}), (Layers{1, 1, 1}));
  EXPECT_EQ(layers("", {"--recompute=50%"}), (Layers{6, 8, 1}));
  EXPECT_EQ(layers(R"(, "recompute": true)", {"--recompute", "none"}), (Layers{0, 0, 0}));
  EXPECT_EQ(layers(R"(, "recompute": true)", {"--recompute", "0"}), (Layers{0, 0, 0}));

  const std::string model = R"({"model": "gpt2-tiny"})";
  EXPECT_NE(refused(model, {"--recompute", "3"}).find("[bad-value] plan.json: --recompute 3: "), std::string::npos);
  for (const char* wrong : {"half", "1.5", "101%", "-1", "%", "2x"})
    EXPECT_NE(refused(model, {"--recompute=" + std::string(wrong)}).find("[bad-value] "), std::string::npos) << wrong;

  const auto canonical = [&](std::vector<std::string> words) { return with(model, std::move(words)).canonical_json(); };
  EXPECT_NE(canonical({}).find(R"("recompute":false)"), std::string::npos) << "as it was before there was a choice";
  EXPECT_NE(canonical({"--recompute"}).find(R"("recompute":true)"), std::string::npos);
  EXPECT_NE(canonical({"--recompute", "1"}).find(R"("recompute":1)"), std::string::npos);
  EXPECT_NE(canonical({"--recompute", "50%"}).find(R"("recompute":"50%")"), std::string::npos);
  EXPECT_EQ(with(model, {"--recompute", "none"}).suite, "plan.json") << "nothing was changed";
  EXPECT_EQ(with(model, {"--recompute", "2"}).suite, "plan.json (changed: recompute)");
}

TEST(RunsToATarget, InAConfig) {
  const auto plan = [&](const std::string& text) { return with(text, {}); };
  EXPECT_EQ(plan(R"({"model": "gpt2-tiny", "target": "default"})").points[0].seeds.size(), 5u);
  EXPECT_EQ(plan(R"({"model": "gpt2-tiny", "target": 0.3, "seeds": 4})").points[0].task->target, 0.3);
  EXPECT_EQ(plan(R"({"model": "gpt2-tiny", "target": 0.3, "seeds": [7]})").points[0].seeds, (std::vector<std::uint64_t>{7}));
  EXPECT_NE(refused(R"({"model": "gpt2-tiny", "target": "never"})", {}).find("/target \"never\""), std::string::npos);
  EXPECT_NE(refused(R"({"model": "gpt2-tiny", "target": 0.3, "seeds": [7, 7]})", {}).find("[duplicate-value]"),
            std::string::npos);
  EXPECT_NE(refused(R"({"model": "gpt2-tiny", "target": 0.3, "seeds": []})", {}).find("the list is empty"),
            std::string::npos);
  EXPECT_NE(refused(R"({"model": "gpt2-tiny", "target": 0.3, "window_s": 2})", {}).find("exclude each other"),
            std::string::npos);
  EXPECT_NE(refused(R"({"model": "gpt2-tiny", "seeds": 4})", {}).find("/seeds needs /target"), std::string::npos);
}

}  // namespace
}  // namespace tw
