// What a metered command says it has trained, and what is no number.
#include "bench/tool/meter/output_parser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bench/terminal/error_line.hpp"

namespace tw {

using namespace bench;

namespace {

TEST(OutputParser, PlainLines) {
  tool::OutputParser parser;
  for (const char* piece : {"noise\nsam", "ples=1 sec", "onds=2\nxsamples=7\n", "epoch 2, samples=512.5 seconds=4"})
    parser.feed(piece);
  EXPECT_EQ(parser.samples(), 1) << "the last line has no end yet";
  parser.finish();
  EXPECT_EQ(parser.samples(), 512.5);
  EXPECT_EQ(parser.seconds(), 4);
  parser.feed("samples=600\n");
  EXPECT_EQ(parser.seconds(), std::nullopt) << "those were of another line";
}

TEST(OutputParser, MlLogLines) {
  tool::OutputParser parser;
  parser.feed(
      ":::MLLOG {\"key\": \"epoch_stop\", \"value\": null, \"metadata\": {\"samples_count\": 1024}}\n"
      ":::MLLOG {\"key\": \"samples_count\", \"value\": 512}\n:::MLLOG not json\n:::MLLOG [1]\n");
  parser.finish();
  EXPECT_EQ(parser.samples(), 1024);
}

tool::OutputParser parsed(const std::string& text) {
  tool::OutputParser parser;
  parser.feed(text);
  parser.finish();
  return parser;
}

// The beginning of a word would be a thousandth of what is meant.
TEST(OutputParser, TheBeginningOfAWordIsNoNumber) {
  for (const char* word :
       {"64,000", "1.5k", "1_000", "0x10", "1e5abc", "64%", "12;5", "5/s", "1.2.3", "abc", "-4", ""}) {
    const tool::OutputParser parser = parsed("epoch 1 samples=" + std::string(word) + "\n");
    EXPECT_FALSE(parser.samples()) << word;
    ASSERT_EQ(parser.warnings().size(), 2u) << word;
    EXPECT_EQ(code_of(parser.warnings()[0]), "samples-unreadable");
    EXPECT_NE(parser.warnings()[0].find("\"samples=" + std::string(word) + "\""), std::string::npos)
        << parser.warnings()[0];
  }
  for (const char* end : {"", "\n", "\r\n", " seconds=2", "\tx", ", seconds=2", ",seconds=2", ";", "; next"}) {
    const tool::OutputParser parser = parsed("samples=6.4e4" + std::string(end));
    EXPECT_EQ(parser.samples(), 64000) << end;
    EXPECT_TRUE(parser.warnings().empty()) << end;
    EXPECT_EQ(parser.seconds(),
              std::string(end).find("seconds") != std::string::npos ? std::optional(2.0) : std::nullopt);
  }
  const tool::OutputParser mixed = parsed("samples=64,000\nsamples=1k\nsamples=7 seconds=1m\n");
  EXPECT_EQ(mixed.samples(), 7);
  EXPECT_EQ(mixed.seconds(), std::nullopt);
  ASSERT_EQ(mixed.warnings().size(), 1u);
  EXPECT_NE(mixed.warnings()[0].find("\"samples=64,000\" (and 2 more)"), std::string::npos) << mixed.warnings()[0];
}

// As a progress bar writes them: the last state of a line is none but its end's.
TEST(OutputParser, ACarriageReturnEndsALine) {
  const tool::OutputParser parser = parsed("samples=100 seconds=1\rsamples=200 seconds=2\rdone\n");
  EXPECT_EQ(parser.samples(), 200);
  EXPECT_EQ(parser.seconds(), 2);
}

TEST(OutputParser, WhatIsLeftOutIsSaid) {
  const auto expect = [](const std::string& text, const char* code, const std::string& warning) {
    const std::vector<std::string> warnings = parsed(text).warnings();
    EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [&](const std::string& line) {
      return code_of(line) == code && line.find(warning) != std::string::npos;
    })) << warning;
  };
  expect(std::string(70'000, 'x') + " samples=5\n", "line-too-long", "");
  expect(std::string(70'000, 'x') + "\n" + std::string(70'000, 'y') + "\nsamples=5\n", "line-too-long", "2 lines");
  EXPECT_TRUE(parsed(std::string(65'536, 'x') + "\nsamples=5\n").warnings().empty());
  expect(":::MLLOG {\"key\": \"samples_count\", \"value\": \"1024\"}\n", "samples-unreadable",
         "\"samples_count \"1024\"\"");
  expect("samples=5 seconds=0\n", "samples-unreadable", "\"seconds=0\"");
  expect("none\n", "no-samples", "");
}

TEST(OutputParser, WhichOfSeveralWasTakenIsSaid) {
  EXPECT_TRUE(parsed("samples=1\n").warnings().empty());
  const tool::OutputParser totals = parsed("samples=100\nsamples=200\nsamples=300\n");
  EXPECT_EQ(totals.samples(), 300);
  ASSERT_EQ(totals.warnings().size(), 1u);
  EXPECT_EQ(code_of(totals.warnings()[0]), "several-samples");
  EXPECT_NE(totals.warnings()[0].find("samples=300"), std::string::npos) << totals.warnings()[0];
  const tool::OutputParser parts = parsed("samples=100\nsamples=100\n");
  EXPECT_EQ(parts.samples(), 100);
  ASSERT_EQ(parts.warnings().size(), 1u);
  EXPECT_GT(parts.warnings()[0].size(), totals.warnings()[0].size()) << "they do not grow, as a running total does";
  const tool::OutputParser both = parsed("samples=5\n:::MLLOG {\"key\": \"samples_count\", \"value\": 512}\n");
  EXPECT_EQ(both.samples(), 5);
  ASSERT_EQ(both.warnings().size(), 1u);
  EXPECT_EQ(code_of(both.warnings()[0]), "several-samples");
  EXPECT_NE(both.warnings()[0].find("samples=5 "), std::string::npos) << both.warnings()[0];
}

TEST(OutputParser, NoSamplesAreRefused) {
  const auto refusals = [](const tool::OutputParser& parser) {
    return std::ranges::count_if(parser.warnings(),
                                 [](const std::string& line) { return code_of(line) == "no-samples"; });
  };
  for (const char* text : {"samples=0\n", "samples=0 seconds=2\n", "samples=0.0\n",
                           ":::MLLOG {\"key\": \"samples_count\", \"value\": 0}\n"}) {
    const tool::OutputParser parser = parsed(text);
    EXPECT_FALSE(parser.samples()) << text;
    EXPECT_EQ(refusals(parser), 1) << text;
    EXPECT_EQ(parser.warnings().size(), 1u) << "one line says it: " << text;
  }
  const tool::OutputParser ends_so = parsed("samples=64 seconds=2\nsamples=0\n");
  EXPECT_EQ(ends_so.samples(), 64);
  EXPECT_EQ(ends_so.seconds(), 2);
  EXPECT_EQ(refusals(ends_so), 1);
  // A progress that begins so.
  const std::string mllog = ":::MLLOG {\"key\": \"samples_count\", \"value\": ";
  for (const std::string& text : {std::string("samples=0\nsamples=64\n"), mllog + "0}\n" + mllog + "64}\n"}) {
    const tool::OutputParser parser = parsed(text);
    EXPECT_EQ(parser.samples(), 64) << text;
    EXPECT_EQ(refusals(parser), 0) << text;
  }
}

TEST(OutputParser, WhatIsNoNumber) {
  for (const char* line : {"samples=", "samples=x", "samples=nan", "samples=-4", "samples = 4", ""}) {
    tool::OutputParser parser;
    parser.feed(line);
    parser.finish();
    EXPECT_FALSE(parser.samples()) << line;
  }
  tool::OutputParser parser;
  parser.feed(std::string(1 << 20, 'x'));
  parser.feed("\nsamples=3\n");
  EXPECT_EQ(parser.samples(), 3);
}

}  // namespace
}  // namespace tw
