// The graphs that the suites ask cuDNN for, asked of the real library for GPUs that are described in files (of those
// that are known from a data sheet alone, the suites with sizes for a GPU): the engine
// that a search takes first and its workspace, or why there is none. answers/ has what it answered; a graph, a limit or
// a suite that changes shows there. TRAINWATT_UPDATE_GOLDEN=1 rewrites it and fails the test: look at the difference
// before it is committed. Batch norm is computed by kernels of our own, so cuDNN has no graph of it. What cuDNN offers
// for convolutions in bf16 and no step takes is asked too: answers/…_not_taken.txt.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "models/compute/cuda/dnn/graphs.hpp"
#include "tests/compute_cuda/dnn/statistics_graph.hpp"
#include "tests/compute_cuda/suites/suite_shapes.hpp"
#include "tests/embedded/device_json.hpp"

namespace tw::models::cuda::dnn {
namespace {

struct Described {
  const char *name, *json;
};
void PrintTo(const Described& device, std::ostream* stream) { *stream << device.name; }

constexpr const char* refused = "refused: ";

/// Those with sizes for a GPU.
std::vector<std::string> large_suites() { return {"standard", "procurement"}; }

class CudnnSuites : public testing::TestWithParam<Described> {
 protected:
  using Answers = std::map<std::string, std::string>;  // by what is asked

  void SetUp() override {
    std::string why;
    library_ = Library::open(&why);
    if (!library_) GTEST_SKIP() << "no cuDNN: " << why;
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) GTEST_SKIP() << "no libcuda.so.1, not even the toolkit's stub";
    nlohmann::json device = nlohmann::json::parse(GetParam().json);
    heading_ = "cuDNN " + library_->version_text() + " for " + device["deviceName"].get<std::string>();
    if (const auto source = device.find("source"); source != device.end()) {
      heading_ += " (" + source->get<std::string>() + ")";
      device.erase(source);
      suites_ = large_suites();
    }
    architecture_ = device["deviceVer"].get<int>() / 10;
    memory_bytes_ = device["totalGlobalMem"].get<std::size_t>();
    target_ = std::make_unique<Target>(library_, device.dump());
  }

  /// As a search without a timer, but engines that are compiled at run time, which takes seconds, are taken at their
  /// word. The library takes milliseconds for each proposal, so the first few are asked for first.
  std::string answer(const Graph& graph, const Demands& demands) const {
    constexpr std::int64_t few = 3;
    Complaints complaints;
    for (const auto& [mode, most] : {std::pair(Heuristics::a, few), std::pair(Heuristics::a, most_proposals),
                                     std::pair(Heuristics::fallback, most_proposals)}) {
      std::string why;
      const std::vector<Candidate> proposals = candidates(graph, mode, most, &why);
      if (proposals.empty()) complaints.add(why);
      for (const Candidate& candidate : proposals) {
        std::string wrong = why_not(candidate, demands);
        std::size_t bytes = candidate.workspace_bytes;
        if (wrong.empty() && !candidate.compiled_at_run_time) {
          int status = 0;
          const auto plan = ExecutionPlan::make(*target_, candidate, &status, &why);
          wrong = plan ? why_not(plan->workspace_bytes(), demands) : "fails: " + why;
          if (plan) bytes = plan->workspace_bytes();
        }
        if (wrong.empty()) return candidate.description() + ", " + std::to_string(bytes) + " bytes";
        complaints.add("engine " + std::to_string(candidate.engine) + " " + wrong);
      }
    }
    std::string text = complaints.text();
    std::ranges::replace(text, '\n', ' ');
    return refused + text;
  }

  void ask(Answers& answers, const AttentionShape& s) const {
    const std::string name = "attention " + test::text_of(s);
    for (const bool deterministic : {true, false}) {
      const std::string kind = deterministic ? "" : ", any order";
      std::string why = why_no_attention(s, architecture_, deterministic);
      if (why.empty()) why = why_too_old(*library_, architecture_, deterministic);
      if (!why.empty()) {
        answers[name + kind] = "not asked: " + why;
        continue;
      }
      const Demands demands = attention_demands(deterministic, memory_bytes_);
      answers[name + ", forward" + kind] = answer(attention_forward_graph(*target_, s), demands);
      std::string& backward = answers[name + ", backward" + kind];
      for (const DqSums sums : dq_sums(deterministic, architecture_, library_->version())) {
        const AttentionPart part = fitting_part(*target_, s, sums, demands);
        const std::int64_t parts = s.batch / part.batch * (s.key_heads() / part.kv_heads);
        backward = answer(attention_backward_graph(*target_, s, sums, part), demands) +
                   (sums == DqSums::in_turn ? ", dq summed in turn" : "") +
                   (parts > 1 ? ", in " + std::to_string(parts) + " parts" : "");
        if (!backward.starts_with(refused)) break;
      }
    }
  }

  void ask(Answers& answers, const ConvolutionShape& s) const {
    const std::string name = "convolution " + test::text_of(s);
    const auto pass = [&](const ConvolutionShape& shape, Op op) {
      return answer(convolution_graph(*target_, shape, op), demands_of(shape));
    };
    answers[name + ", forward"] = pass(s, Op::convolution_forward);
    answers[name + ", input gradient"] = pass(s, Op::convolution_backward_input);
    std::string weights;
    if (is_half(s.dtype)) {
      weights = answer(added_weights_graph(*target_, s), demands_of(s));
      if (const auto padded = padded_part(s); padded && weights.starts_with(refused))
        weights = answer(added_weights_graph(*target_, *padded), demands_of(*padded)) + ", padded to " +
                  std::to_string(padded->in_channels) + " channels";
      if (weights.starts_with(refused)) {
        const ConvolutionShape part = widened_part(s);
        weights = pass(part, Op::convolution_backward_weights) + ", widened to float32, " + std::to_string(part.batch) +
                  " images at once";
      }
    } else {
      weights = pass(s, Op::convolution_backward_weights);
    }
    answers[name + ", weight gradient"] = weights;
  }

  /// Of these suites.
  PlannedShapes shapes(const std::vector<std::string>& suites) const {
    PlannedShapes all;
    for (const std::string& suite : suites) test::add(all, test::suite_shapes(suite, "cuda", memory_bytes_));
    return all;
  }

  /// That these are the answers of a file.
  void compare(const Answers& answers, const std::string& file_name) const {
    const std::string path = std::string(TW_ANSWERS) + "/" + file_name;
    if (std::getenv("TRAINWATT_UPDATE_GOLDEN")) {
      std::ofstream file(path);
      file << heading_ << "\n";
      for (const auto& [asked, answer] : answers) file << asked << ": " << answer << "\n";
      ASSERT_TRUE(file.flush()) << path;
      FAIL() << "rewritten: " << path;
    }
    std::ifstream file(path);
    std::string heading, line;
    ASSERT_TRUE(std::getline(file, heading)) << path;
    Answers committed;
    while (std::getline(file, line)) committed[line.substr(0, line.find(": "))] = line.substr(line.find(": ") + 2);
    const bool same_library = heading == heading_;
    if (!same_library) std::cout << "the file is of " << heading << ", this is " << heading_ << "\n";
    for (const auto& [asked, answer] : committed) {
      const auto now = answers.find(asked);
      if (now == answers.end()) {
        ADD_FAILURE() << "not asked any more: " << asked;
      } else if (same_library) {
        EXPECT_EQ(now->second, answer) << asked;
      } else {  // engines have other numbers; what had one still has one
        EXPECT_FALSE(now->second.starts_with(refused) && !answer.starts_with(refused)) << asked << ": " << now->second;
      }
    }
    for (const auto& [asked, answer] : answers)
      EXPECT_TRUE(committed.contains(asked)) << "new: " << asked << ": " << answer;
  }

  std::shared_ptr<const Library> library_;
  std::unique_ptr<Target> target_;
  std::string heading_;
  std::vector<std::string> suites_ = test::planning_suites();
  int architecture_ = 0;
  std::size_t memory_bytes_ = 0;
};

TEST_P(CudnnSuites, answers_are_those_of_the_file) {
  const PlannedShapes all = shapes(suites_);  // for a device that is known from a data sheet, of those with its sizes
  Answers answers;
  for (const AttentionShape& shape : all.attention) ask(answers, shape);
  for (const ConvolutionShape& shape : all.convolution) ask(answers, shape);
  compare(answers, std::string(GetParam().name) + ".txt");
}

// For convolutions in bf16: gradients of the weights in bf16, which would be another rounding than the float32 that
// every precision promises; and sums for the batch norm behind a forward pass, which lose its variance
// (models/README.md).
TEST_P(CudnnSuites, offers_that_no_step_takes_are_those_of_the_file) {
  Answers answers;
  for (const ConvolutionShape& shape : shapes(large_suites()).convolution) {
    if (shape.dtype != DType::bf16) continue;
    const ConvolutionShape s = padded_part(shape).value_or(shape);
    const std::string name = "convolution " + test::text_of(s);
    answers[name + ", weight gradient in bf16"] =
        answer(convolution_graph(*target_, s, Op::convolution_backward_weights), demands_of(s));
    answers[name + ", forward with sums of each channel"] =
        answer(StatisticsGraph(*target_, s, SumsOf::y), demands_of(s));
    answers[name + ", forward with sums around a value of each channel"] =
        answer(StatisticsGraph(*target_, s, SumsOf::y_minus_value), demands_of(s));
  }
  compare(answers, std::string(GetParam().name) + "_not_taken.txt");
}

INSTANTIATE_TEST_SUITE_P(Devices, CudnnSuites,
                         testing::Values(Described{"h100_sxm", embedded::h100_sxm},
                                         Described{"h200_sxm", embedded::h200_sxm},
                                         Described{"b200_sxm", embedded::b200_sxm}),
                         [](const testing::TestParamInfo<Described>& device) { return device.param.name; });

}  // namespace
}  // namespace tw::models::cuda::dnn
