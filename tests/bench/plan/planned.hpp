// A plan of the words of a command line, or why there is none.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/train/job/options.hpp"

namespace tw {

inline bench::ParseResult parse(std::vector<std::string> words) {
  words.insert(words.begin(), "trainwatt-train");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return bench::parse_options(static_cast<int>(argv.size()), argv.data());
}

inline bench::UsageError error_of(const bench::ParseResult& result) {
  return {std::string(bench::code_of(result.text)), std::string(bench::without_code(result.text))};
}

/// `config`: the text of the file that --config names. Throws UsageError.
inline bench::RunPlan plan_of(std::vector<std::string> words, int ranks = 2, const std::string& config = "") {
  const bench::ParseResult result = parse(std::move(words));
  if (!result.options) throw error_of(result);
  return bench::make_plan(bench::request_of(*result.options, config), ranks, "cpu");
}

/// What plan_of throws; "accepted" where it does not.
inline std::string refusal(std::vector<std::string> words, int ranks = 2, const std::string& config = "") {
  try {
    plan_of(std::move(words), ranks, config);
  } catch (const bench::UsageError& error) {
    return error.what();
  }
  return "accepted";
}

inline void says(const std::string& text, const std::string& what) {
  EXPECT_NE(text.find(what), std::string::npos) << text << "\nlacks: " << what;
}

}  // namespace tw
