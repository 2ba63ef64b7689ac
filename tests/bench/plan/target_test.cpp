// What --target comes to: the task's batch, schedule, seeds and floor.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/plan/reference_steps.hpp"
#include "models/catalog/floors.hpp"
#include "tests/bench/plan/planned.hpp"

namespace tw {
using namespace bench;
using namespace models;
using namespace results;
namespace {

/// Those of the suite on a CPU.
std::size_t trained_tasks() {
  const auto is_trained = [](const TaskDescription& task) { return task.extrapolated_from.empty(); };
  return static_cast<std::size_t>(std::ranges::count_if(tasks(), is_trained));
}

/// Those of the suite on a CPU, unless ranks cannot share them out.
std::size_t points_on_a_cpu() {
  std::size_t all = 0;
  for (const TaskDescription& task : tasks())
    if (task.extrapolated_from.empty()) all += 2 * (task.micro_batches.empty() ? 2 : task.micro_batches.size());
  return all;
}

TEST(PlanToTarget, TasksOfNetworksWithBatchNormHaveMicroBatches) {
  for (const TaskDescription& task : tasks()) {
    const auto norms = find_network(task.model).shape->norms(2, std::max<std::int64_t>(1, task.seq_len));
    const bool has_batch_norm = std::ranges::find(norms, Norm::Kind::batch, &Norm::kind) != norms.end();
    EXPECT_EQ(!task.micro_batches.empty(), has_batch_norm) << task.name;
    for (const std::int64_t size : task.micro_batches) {
      EXPECT_EQ(task.global_batch % size, 0) << task.name;
      EXPECT_EQ(task.held_out_samples % size, 0) << task.name;
    }
  }
}

TEST(PlanToTarget, TheConvergenceSuiteKeepsTheMicroBatchesOfBatchNormOnAnyNumberOfRanks) {
  const auto sizes_on = [](const char* device, int ranks) {
    std::map<std::string, std::set<std::int64_t>> sizes;
    for (const Point& point : make_plan(suite_request("convergence"), ranks, device).points)
      if (!point.task->micro_batches.empty()) sizes[point.network.name].insert(point.micro_batch);
    return sizes;
  };
  using Sizes = std::map<std::string, std::set<std::int64_t>>;
  for (const int ranks : {1, 2}) {
    EXPECT_EQ(sizes_on("cpu", ranks), (Sizes{{"inception-tiny", {32}}, {"resnet-tiny", {8, 32}}})) << ranks;
    EXPECT_EQ(sizes_on("cuda", ranks),
              (Sizes{{"inception-tiny", {32}}, {"inception-v3", {32}}, {"resnet-50", {32}}, {"resnet-tiny", {32}}}))
        << ranks;
  }
  EXPECT_EQ(sizes_on("cpu", 8), (Sizes{{"resnet-tiny", {8}}})) << "64 samples are eight micro-batches of 8";
  EXPECT_EQ(sizes_on("cuda", 8), (Sizes{{"inception-v3", {32}}, {"resnet-50", {32}}}));
}

TEST(PlanToTarget, ATaskGivesItsShapeAndItsBatch) {
  const RunPlan plan = plan_of({"--model", "gpt2-tiny,resnet-tiny", "--target", "default", "--accumulate", "1,4"});
  ASSERT_EQ(plan.points.size(), 4u);
  for (const Point& point : plan.points) {
    const TaskDescription task = task_of(point.network.name).value();
    ASSERT_TRUE(point.task);
    EXPECT_EQ(point.task->target, task.target);
    EXPECT_EQ(point.seq_len, task.seq_len);
    EXPECT_EQ(point.global_batch(), task.global_batch);
    EXPECT_EQ(point.task->held_out_samples % (point.micro_batch * point.ranks), 0);
  }
  const RunPlan own = plan_of(
      {"--model", "gpt2-tiny", "--target", "0.25", "--seq-len", "16", "--micro-batch", "2", "--accumulate", "3"});
  EXPECT_EQ(own.points[0].task->target, 0.25);
  EXPECT_EQ(own.points[0].seq_len, 16);
  EXPECT_EQ(own.points[0].global_batch(), 12);
  EXPECT_NE(own.points[0].id.find("/to0.25"), std::string::npos);
}

TEST(PlanToTarget, NoSeedIsUsedTwice) {
  const auto all = [](RunPlan plan) {  // by the points' names, whatever their order
    std::vector<std::uint64_t> seeds;
    std::ranges::sort(plan.points, {}, &Point::id);
    for (const Point& point : plan.points) seeds.insert(seeds.end(), point.seeds.begin(), point.seeds.end());
    return seeds;
  };
  const std::vector<std::string> base = {"--model", "gpt2-tiny", "--target", "default", "--accumulate", "1,4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  EXPECT_EQ(all(plan_of(base)), (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(all(plan_of(with({"--seeds", "2", "--seed", "40"}))), (std::vector<std::uint64_t>{40, 41, 42, 43}));
  EXPECT_EQ(all(plan_of(with({"--seeds", "9,5,3,7"}))), (std::vector<std::uint64_t>{9, 5, 3, 7}));
  EXPECT_EQ(plan_of(with({"--seeds", "9,5,3,7"})).measurement.trials, 2);
  EXPECT_NE(refusal(with({"--seeds", "9,5,3"})).find("[bad-value] --seeds: 3 "), std::string::npos);
  EXPECT_NE(refusal(with({"--seeds", "9,5,9,4"})).find("[duplicate-value] --seeds"), std::string::npos);
  EXPECT_NE(refusal(with({"--seeds", "0"})).find("[bad-value] --seeds 0"), std::string::npos);
  EXPECT_NE(refusal(with({"--seed", std::to_string(largest_seed)}))
                .find("[bad-value] --seed " + std::to_string(largest_seed)),
            std::string::npos);
}

// What is written in another order is the same plan; only a list of seeds is dealt out as it was written.
TEST(PlanToTarget, CountedSeedsDoNotFollowTheOrderOfTheAxes) {
  const auto plan = [](const std::string& models, const std::string& accumulate, const std::string& seeds) {
    return plan_of({"--model", models, "--target", "default", "--accumulate", accumulate, "--seeds", seeds})
        .canonical_json();
  };
  EXPECT_EQ(plan("gpt2-tiny,resnet-tiny", "1,4", "2"), plan("resnet-tiny,gpt2-tiny", "4,1", "2"));
  const RunPlan listed =
      plan_of({"--model", "gpt2-tiny", "--target", "default", "--accumulate", "4,1", "--seeds", "7,9"});
  for (const Point& point : listed.points)
    EXPECT_EQ(point.seeds, (std::vector<std::uint64_t>{point.accumulate == 4 ? 7u : 9u}));
}

// Machines of any size train the same with the same seeds: neither ranks nor what follows from them deals others.
TEST(PlanToTarget, CountedSeedsDoNotFollowRanksMicroBatchOrSettings) {
  using Seeds = std::map<std::string, std::vector<std::uint64_t>>;
  const auto by = [](const std::string& key, std::vector<std::string> words, int ranks) {
    words.insert(words.begin(), {"--target", "default", "--seeds", "2"});
    Seeds all;
    for (const Point& point : plan_of(words, ranks).points) {
      const std::string id = point.id + "/";
      const std::size_t at = id.find(key);
      const std::string name =
          point.network.name + (at == std::string::npos ? "" : id.substr(at, id.find('/', at + 1) - at));
      const auto [first, is_new] = all.emplace(name, point.seeds);
      EXPECT_EQ(first->second, point.seeds) << point.id;
    }
    return all;
  };
  // By their names, which begin with the micro-batch: acc 2, 1, 8, 4 on one rank, and 1, 8, 4, 2 on two.
  const std::vector<std::string> accumulated = {"--model", "gpt2-tiny", "--accumulate", "1,2,4,8"};
  const Seeds want = {
      {"gpt2-tiny/acc1", {1, 2}}, {"gpt2-tiny/acc2", {3, 4}}, {"gpt2-tiny/acc4", {5, 6}}, {"gpt2-tiny/acc8", {7, 8}}};
  for (const int ranks : {1, 2, 4}) EXPECT_EQ(by("/acc", accumulated, ranks), want) << ranks;
  std::vector<std::string> scaling = accumulated;
  scaling.insert(scaling.end(), {"--ranks", "1,2,4"});
  EXPECT_EQ(by("/acc", scaling, 4), want);
  // A given global batch trains the same however ranks accumulate it.
  for (const int ranks : {1, 2, 4})
    EXPECT_EQ(by("/none", {"--model", "gpt2-tiny,llama-tiny", "--micro-batch", "4", "--global-batch", "64"}, ranks),
              (Seeds{{"gpt2-tiny", {1, 2}}, {"llama-tiny", {3, 4}}}))
        << ranks;
}

TEST(PlanToTarget, WhatATasksBatchDoesNotAllowIsLeftOutAndNamed) {
  const RunPlan plan = plan_of({"--suite", "convergence"}, 16);  // 16 ranks × 4 do not divide 32 samples
  const std::string what = ": accumulate 4 × 16 ranks does not divide the 32 samples of a step of the task ";
  const auto norm = [](const std::string& network, int micro_batch, const std::string& task) {
    return network + ": micro-batch " + std::to_string(micro_batch) +
           " × 16 ranks does not divide the 64 samples of a step of the task " + task;
  };
  EXPECT_EQ(std::set(plan.left_out.begin(), plan.left_out.end()),
            (std::set<std::string>{"gpt2-tiny" + what + "markov: choose 1, 2, 4 or 8 ranks",
                                   "llama-tiny" + what + "markov_llama: choose 1, 2, 4 or 8 ranks",
                                   norm("resnet-tiny", 32, "gratings") + ": choose 1 or 2 ranks",
                                   norm("resnet-tiny", 8, "gratings") + ": choose 1, 2, 4 or 8 ranks",
                                   norm("inception-tiny", 32, "gratings_inception") + ": choose 1 or 2 ranks"}));
  EXPECT_EQ(plan.points.size(), points_on_a_cpu() - 2 * plan.left_out.size()) << "in both precisions";
  for (const Point& point : plan.points) EXPECT_EQ(point.global_batch(), point.task->global_batch);
  // 64 samples are one for each of them: the auxiliary head has a batch norm over maps of one pixel.
  const RunPlan small = plan_of({"--model", "inception-tiny", "--target", "default", "--accumulate", "1,4"}, 16);
  ASSERT_EQ(small.left_out.size(), 1u);
  says(small.left_out[0], "inception-tiny: accumulate 4 × 16 ranks leave a micro-batch of 1 of the 64 samples");
  EXPECT_TRUE(plan_of({"--suite", "convergence"}, 2).left_out.empty());
  const std::string none = refusal({"--suite", "convergence"}, 3);
  says(none, "[batch-not-divisible] ");
  says(none, ": choose 1, 2 or 4 ranks");
  EXPECT_NE(
      refusal({"--model", "gpt2-tiny", "--target", "default", "--micro-batch", "5"}).find("[batch-not-divisible] "),
      std::string::npos);
  says(refusal({"--model", "inception-tiny", "--target", "default", "--micro-batch", "1"}),
       "[bad-value] --micro-batch 1: value too small (minimum 2): ");
  const RunPlan own =
      plan_of({"--model", "gpt2-tiny", "--target", "default", "--global-batch", "16", "--accumulate", "1,3"});
  EXPECT_EQ(own.points.size(), 1u);
  EXPECT_EQ(own.left_out.size(), 1u);
}

TEST(PlanToTarget, WhatCannotBeIsRefused) {
  const auto says = [](const std::vector<std::string>& words, const std::string& what) {
    const std::string text = refusal(words);
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  says({"--model", "gpt2-355m", "--target", "default"}, "[no-task] --target: gpt2-355m ");
  says({"--model", "gpt2-tiny", "--layers", "1", "--target", "default"}, "[no-task] --target");
  says({"--model", "gpt2-tiny", "--target", "soon"}, "[bad-value] --target soon: ");
  says({"--model", "gpt2-tiny", "--target", "0"}, "[bad-value] --target 0: ");
  says({"--model", "gpt2-tiny", "--target", "nan"}, "[bad-value] --target nan: ");
  says({"--model", "gpt2-tiny", "--target", "0.1", "--steps", "4"}, "[options-conflict] --target and --steps");
  says({"--model", "gpt2-tiny", "--target", "0.1", "--window", "4"}, "[options-conflict] --target and --window");
  says({"--model", "gpt2-tiny", "--seeds", "4"}, "[option-needs] --seeds needs --target");
  says({"--suite", "quick", "--target", "0.1"}, "[frozen-plan] this suite trains for a fixed time: leave out --target");
  says({"--model", "gpt2-tiny", "--target", "0.1", "--micro-batch", "3", "--accumulate", "1"}, "do not divide the");
}

TEST(PlanToTarget, AnErrorThatNobodyCanHaveIsRefused) {
  const std::string text = refusal({"--model", "dlrm-tiny", "--target", "0.07"});
  EXPECT_NE(
      text.find(
          "[bad-value] --target 0.07: must be above 0.07447, the error of the best classifier of the task clicks"),
      std::string::npos)
      << text;
  EXPECT_EQ(plan_of({"--model", "dlrm-tiny", "--target", "0.08"}).points[0].task->target, 0.08);
  EXPECT_EQ(plan_of({"--model", "resnet-tiny", "--target", "0.001"}).points[0].task->target, 0.001);
}

TEST(PlanToTarget, ATargetThatAGuessReachesIsRefused) {
  const auto says = [](const char* model, const char* target, const char* what) {
    const std::string text = refusal({"--model", model, "--target", target});
    EXPECT_NE(text.find(std::string("[bad-value] --target ") + target + ": must be below " + what), std::string::npos)
        << text;
  };
  says("dlrm-tiny", "1", "0.5, the error of a guess in the task clicks");
  says("dlrm-tiny", "0.5", "0.5, ");
  says("resnet-tiny", "0.9", "0.9, the error of a guess in the task gratings");  // of ten classes
  says("bert-tiny", "5", "");
  says("gpt2-tiny", "3.7", "3.634, the excess loss of a guess in the task markov");  // ln 128 less the floor of 1.2184
  EXPECT_EQ(plan_of({"--model", "dlrm-tiny", "--target", "0.49"}).points[0].task->target, 0.49);
  EXPECT_EQ(plan_of({"--model", "gpt2-tiny", "--target", "2.5"}).points[0].task->target, 2.5);
  for (const TaskDescription& task : tasks()) {
    const NetworkDescription network = network_of(task);
    const double floor = task.metric == TaskDescription::Metric::error ? 0 : exact_floor(network, task.seq_len);
    EXPECT_LT(4 * task.target, guess(network) - floor) << task.name;
  }
}

TEST(PlanToTarget, TheConvergenceSuiteIsEveryTaskInBothPrecisionsAndAccumulations) {
  const RunPlan plan = plan_of({"--suite", "convergence"});
  EXPECT_EQ(plan.points.size(), points_on_a_cpu());
  EXPECT_EQ(plan.suite, "convergence");
  for (const Point& point : plan.points) {
    EXPECT_EQ(point.seeds.size(), 3u);
    EXPECT_EQ(point.global_batch(), task_of(point.network.name)->global_batch);
  }
  EXPECT_EQ(plan_of({"--suite", "convergence", "--seeds", "5"}).suite, "convergence (changed: seeds)");
}

TEST(PlanToTarget, TheConvergenceSuiteOfAGpuHasTheLargeTasksBesideTheSmallOnes) {
  const RunPlan plan = make_plan(suite_request("convergence"), 1, "cuda");
  EXPECT_NE(plan.canonical_json().find(R"("device_class":"gpu")"), std::string::npos);
  std::set<std::string> large;
  for (const Point& point : plan.points) {
    if (point.task->micro_batches.empty()) {
      EXPECT_EQ(point.accumulate, 1) << point.id;
    } else {
      EXPECT_EQ(point.micro_batch, point.task->micro_batches.front()) << point.id;
    }
    EXPECT_EQ(point.global_batch(), point.task->global_batch) << point.id;
    EXPECT_EQ(point.seeds.size(), 3u) << point.id;
    EXPECT_EQ(point.table_rows_at_most.has_value(), point.network.name == "dlrm") << point.id;
    if (point.task->extrapolated_from.empty()) continue;
    EXPECT_EQ(point.precision, "bf16") << point.id;
    EXPECT_TRUE(large.insert(point.task->name).second) << point.id;
  }
  EXPECT_EQ(large.size(), tasks().size() - trained_tasks());
  EXPECT_EQ(plan.points.size(), 2 * trained_tasks() + large.size());
}

TEST(PlanToTarget, ATaskThatNobodyHasTrainedIsMarkedAndInNoSuiteOfACpu) {
  const RunPlan plan = plan_of({"--model", "gpt2-124m,gpt2-tiny", "--target", "default", "--accumulate", "1"});
  ASSERT_EQ(plan.points.size(), 2u);
  for (const Point& point : plan.points) {
    const Target target = target_of(point, {});
    EXPECT_EQ(target.extrapolated_from.has_value(), point.network.name == "gpt2-124m");
    EXPECT_EQ(target.extrapolated_from.value_or(""), point.task->extrapolated_from);
  }
  EXPECT_LT(trained_tasks(), tasks().size());
  for (const Point& point : plan_of({"--suite", "convergence"}).points)
    EXPECT_EQ(point.task->extrapolated_from, "") << point.id;
}

TEST(PlanToTarget, ATaskMayDrawSomeOfItsNetworksTokens) {
  std::set<std::string> drawing;
  for (const TaskDescription& task : tasks()) {
    const Point point = plan_of({"--model", task.model, "--target", "default"}).points.at(0);
    const bool has_some = task.drawn_tokens > 0;
    EXPECT_EQ(point.network.drawn_tokens, task.drawn_tokens) << "its samples and floor follow: " << task.name;
    EXPECT_EQ(target_of(point, {}).drawn_tokens, has_some ? std::optional(task.drawn_tokens) : std::nullopt)
        << task.name;
    if (!has_some) continue;
    drawing.insert(task.name);
    const DataDescription data = network_of(task).data();
    EXPECT_TRUE(data.kind == DataKind::tokens || data.kind == DataKind::masked_tokens) << task.name;
    EXPECT_GE(task.drawn_tokens, 4) << task.name;
    EXPECT_LT(task.drawn_tokens, data.vocabulary) << task.name << ": all of them are 0";
    EXPECT_EQ(point.network.shape->count_parameters(), find_network(task.model).shape->count_parameters());
  }
  EXPECT_EQ(drawing, std::set<std::string>{"markov_llama_1b"});
  // It enters the hash; plans of other tasks keep theirs, and so do those without a target.
  const auto text = [](const std::vector<std::string>& words) { return plan_of(words).canonical_json(); };
  EXPECT_NE(text({"--model", "llama3.2-1b", "--target", "default"}).find(R"("target":{"drawn_tokens":4096,)"),
            std::string::npos);
  EXPECT_EQ(text({"--model", "llama-tiny", "--target", "default"}).find("drawn"), std::string::npos);
  EXPECT_EQ(text({"--model", "llama3.2-1b"}).find("drawn"), std::string::npos);
}

TEST(PlanToTarget, TheCanonicalFormFollowsTargetAndSeeds) {
  const auto text = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model", "gpt2-tiny", "--accumulate", "1"});
    return plan_of(more).canonical_json();
  };
  const std::string base = text({"--target", "default"});
  EXPECT_NE(text({}), base);
  EXPECT_NE(text({"--target", "0.2"}), base);
  EXPECT_NE(text({"--target", "default", "--seeds", "4"}), base);
  EXPECT_NE(text({"--target", "default", "--seed", "2"}), base);
  // The plan states the floor and the schedule before anything is measured; `validate` compares records with them.
  EXPECT_NE(base.find(R"("floor":1.218422)"), std::string::npos) << base;
  EXPECT_NE(base.find(R"("schedule":{"decay_steps":1000,"final_share":0.1,"learning_rate":0.003,"warmup_steps":10})"),
            std::string::npos)
      << base;
  EXPECT_EQ(text({"--target", "default", "--seeds", "5"}), base);
  EXPECT_EQ(text({}).find("seeds"), std::string::npos) << "plans for a time keep their hash";
}

}  // namespace
}  // namespace tw
