#include "results/record/report_io.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "results/analysis/verdict.hpp"
#include "results/terminal/tables.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

std::string thrown(const std::string& text) {
  try {
    report_from_json(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing thrown";
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Sha256, NistVectors) {  // FIPS 180-4 examples and NIST's SHA256LongMsg
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256_hex(std::string(55, 'a')), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(sha256_hex(std::string(56, 'a')), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(sha256_hex(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(ReportJson, RoundTrip) {
  for (const Report& report : {sample_report(), sample_energy_report(), sample_target_report()}) {
    const std::string text = to_json(report);
    EXPECT_EQ(to_json(report_from_json(text)), text);
  }
}

TEST(ReportJson, ARunThatWasCutShortIsReadAgain) {
  const Report report = sample_energy_report();
  RunStart start{report.program, report.context, report.plan,        {"trainwatt-train", "--config", "a b.json"},
                 "{\n\"x\": 1}", *report.parts,  {"commit 1, now 2"}};
  const std::string text = to_json(start);
  EXPECT_EQ(to_json(run_start_from_json(text)), text);
  EXPECT_EQ(run_start_from_json(text).config, start.config);
  EXPECT_THROW(run_start_from_json(to_json(report)), std::runtime_error);
  EXPECT_THROW(run_start_from_json("[]"), std::runtime_error);
  EXPECT_THROW(run_start_from_json("{}"), std::runtime_error);
}

TEST(ReportJson, AReportFromBeforeThereWerePartsIsRead) {
  const std::string text = to_json(sample_report());
  EXPECT_EQ(to_json(report_from_json(replaced(text, "  \"parts\": null,\n", ""))), text);
}

TEST(ReportJson, RoundTripKeepsEveryBit) {
  Record r = sample_record();
  r.workload.seed = std::numeric_limits<std::uint64_t>::max();
  r.trials[0].step_time_s = {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308};
  const Record back = record_from_json(to_json_line(r));
  EXPECT_EQ(back.workload.seed, r.workload.seed);
  EXPECT_EQ(back.trials[0].step_time_s, r.trials[0].step_time_s);
}

TEST(ReportJson, ShapeAndOrder) {
  const std::string text = to_json(sample_report());
  std::size_t last = 0;
  for (const char* key :
       {"\"schema_version\": \"1.0\"", "\"program\"", "\"context\"", "\"plan\"", "\"records\"", "\"workload\"",
        "\"setting\"", "\"trials\"", "\"step_time_s\"", "\"summary\"", "\"energy_j\": null", "\"verdict\""}) {
    const auto at = text.find(key, last);
    EXPECT_NE(at, std::string::npos) << key;
    last = at;
  }
  std::size_t longest = 0;
  for (std::size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1)
    if (text.substr(start, end - start).find('"') == std::string::npos) longest = std::max(longest, end - start);
  EXPECT_LE(longest, 120u);  // lists of numbers fill lines
}

TEST(ReportJson, RecordLineIsOneLine) {
  const std::string line = to_json_line(sample_record());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(to_json_line(record_from_json(line)), line);
}

TEST(ReportJson, NotFiniteBecomesNull) {
  Record r = sample_record();
  r.trials[0].loss[1] = std::numeric_limits<double>::quiet_NaN();
  r.trials[0].gradient_norm[1] = std::numeric_limits<double>::infinity();
  r.summary.mfu = std::numeric_limits<double>::infinity();
  summarise(r);
  const std::string line = to_json_line(r);
  EXPECT_FALSE(std::regex_search(line, std::regex("[: ,\\[](nan|inf|NaN|Infinity)")));
  EXPECT_NE(line.find("\"loss\":[5.5,null,"), std::string::npos);
  const Record back = record_from_json(line);
  EXPECT_TRUE(std::isnan(back.trials[0].loss[1]));
  EXPECT_EQ(back.verdict.status, Status::invalid);
}

TEST(ReportJson, AbsentMetersHaveNoTimes) {
  const std::string line = to_json_line(sample_report().records[0]);
  EXPECT_NE(line.find(R"("energy_j":null,"uncertainty_j":null,"window_s":null,"update_period_s":null)"),
            std::string::npos);
}

TEST(ReportJson, OddBytesStayJson) {
  Report report = sample_report();
  report.context.hosts[0].cpu = "bad \xff byte, \"quotes\", \n newline";
  EXPECT_NE(to_json(report_from_json(to_json(report))).find("\\\"quotes\\\""), std::string::npos);
}

TEST(ReportJson, UnknownKeysAreIgnored) {
  const std::string text = to_json(sample_report());
  const std::string extended =
      replaced(text, "\"program\": {", "\"later\": [1, {}], \"program\": {\"colour\": \"blue\", ");
  EXPECT_EQ(to_json(report_from_json(extended)), text);
}

TEST(ReportJson, ErrorsNameThePlace) {
  const std::string text = to_json(sample_report());
  EXPECT_EQ(thrown("{\n  \"a\": ]"),
            "not JSON: line 2, column 8: syntax error while parsing value - unexpected ']'; expected '[', '{', "
            "or a literal");
  EXPECT_EQ(thrown("[]"), "not a report: the document is array");
  EXPECT_EQ(thrown("{}"), "not a report: key \"schema_version\" is missing");
  EXPECT_EQ(thrown(replaced(text, "\"1.0\"", "\"2.0\"")),
            "/schema_version: \"2.0\" is not \"1.0\", the version that this program reads: a newer trainwatt does");
  EXPECT_EQ(thrown(replaced(text, "\"micro_batch\": 8", "\"micro_batch\": \"8\"")),
            "/records/0/workload/micro_batch: expected an integer, found string");
  EXPECT_EQ(thrown(replaced(text, "\"micro_batch\": 8", "\"microbatch\": 8")),
            "/records/0/workload: key \"micro_batch\" is missing");
  EXPECT_EQ(thrown(replaced(text, "\"ranks\": 2", "\"ranks\": 3000000000")),
            "/records/0/workload/ranks: 3000000000 is out of range");
  EXPECT_EQ(thrown(replaced(text, "\"seed\": 1", "\"seed\": -1")), "/records/0/workload/seed: -1 is out of range");
}

TEST(ReportJson, FaultsAreInPlainWords) {
  EXPECT_EQ(json_fault(R"({"a": [1, {"a": 2}], "b": {"a": 3}})"), "");
  EXPECT_EQ(json_fault(R"({"a": 1, "b": 2, "a": 3})"), "key \"a\" occurs twice in one object");
  for (const char* cut : {"{\"a\": 1", "[tru", "[\"a", "[1,"})
    EXPECT_NE(json_fault(cut).find("cut off after " + std::to_string(std::string(cut).size()) + " bytes"),
              std::string::npos)
        << json_fault(cut);
  for (const char* whole : {"{\"a\" 1}", "[1,]", "[1}"})
    EXPECT_EQ(json_fault(whole).find("cut off"), std::string::npos) << whole;
  EXPECT_EQ(json_fault(""), "the file is empty");
  EXPECT_EQ(json_fault(" \r\n\t"), "the file has only blanks");
  const auto wide = [](const std::string& text, bool little) {
    std::string out;
    for (const char c : text) out += little ? std::string{c, '\0'} : std::string{'\0', c};
    return out;
  };
  for (const std::string& text :
       {"\xff\xfe" + wide("{}", true), "\xfe\xff" + wide("{}", false), wide("{}", true), wide("{\"a\": 1}", false)})
    EXPECT_EQ(json_fault(text), "the file is UTF-16: save it as UTF-8");
  EXPECT_EQ(json_fault(std::string("{\0\"a\": 1}", 9)), "byte 2: control character NUL");
  EXPECT_EQ(json_fault("[1e999]"), "byte 6: number 1e999 is out of range");
  EXPECT_EQ(json_fault(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_EQ(json_fault(std::string(1 << 22, '[')), "more than 64 levels");
  for (const char* text : {"", "nope", "{\"a\"", "\"\xff\"", "\"\x01\"", "1 2", "-", "[1e999"})
    EXPECT_TRUE(!json_fault(text).empty() && json_fault(text).find("json.exception") == std::string::npos) << text;
}

TEST(RecordLines, WhatAKillLeaves) {
  const Record a = sample_report().records[0], b = sample_report().records[1];
  const std::string text = to_json_line(a) + "\n" + to_json_line(b) + "\n";
  EXPECT_TRUE(holds_record_lines(text));
  EXPECT_FALSE(holds_record_lines(to_json(sample_report())));
  EXPECT_FALSE(holds_record_lines(""));
  EXPECT_EQ(record_lines(text).records.size(), 2u);
  EXPECT_FALSE(record_lines(text).torn);
  const RecordLines torn = record_lines(text.substr(0, text.size() - 9));
  EXPECT_EQ(torn.records.size(), 1u);
  EXPECT_TRUE(torn.torn);
  try {
    record_lines(to_json_line(a) + "\n{\"id\": 3}\n");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "line 2: /id: expected a string, found number");
  }
}

/// What a sample is: of series, seq_len counts no tokens, and there are no tokens per second.
TEST(Workload, TheKindOfItsDataIsWrittenReadAndShown) {
  Report report = sample_report();
  const std::string before = show_report(report, {.width = 200});
  EXPECT_NE(before.find("= 64 samples of 128 tokens\n"), std::string::npos) << before;
  EXPECT_NE(before.find("tokens/s"), std::string::npos);
  report.records[0].workload.data = "masked_tokens";
  EXPECT_NE(show_report(report, {.width = 200}).find("= 64 samples of 128 tokens, data: masked tokens\n"),
            std::string::npos);
  report.records.resize(1);
  report.records[0].workload.data = "series";
  summarise(report.records[0]);
  const std::string shown = show_report(report, {.width = 200});
  EXPECT_NE(shown.find("= 64 samples of 128 time steps, data: series\n"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("tokens/s"), std::string::npos) << shown;
  EXPECT_EQ(report_from_json(to_json(report)).records[0].workload.data, "series");
  // A report from before it was recorded.
  nlohmann::json older = nlohmann::json::parse(to_json(report));
  older["records"][0]["workload"].erase("data");
  EXPECT_EQ(report_from_json(older.dump()).records[0].workload.data, std::nullopt);
}

/// Of reports of real runs (results/reference): the formula must not drift.
TEST(Workload, Hash) {
  Workload w;
  w.model = "gpt2-124m", w.seq_len = 256, w.optimizer = "adamw", w.parameters = 124439808;
  EXPECT_EQ(workload_hash(w), "662896239795ed0226554071748cc1195cf131e94541ae6826da2e2d9b1728f2");
  w.micro_batch = 8, w.precision = "bf16", w.ranks = 4, w.seed = 3;  // how fast, not what
  EXPECT_EQ(workload_hash(w), "662896239795ed0226554071748cc1195cf131e94541ae6826da2e2d9b1728f2");
  w.layers = 2;
  EXPECT_NE(workload_hash(w), "662896239795ed0226554071748cc1195cf131e94541ae6826da2e2d9b1728f2");
  w = Workload{};
  w.model = "resnet-50", w.optimizer = "sgd", w.parameters = 25557032;
  EXPECT_EQ(workload_hash(w), "7b94e7f2cf9c96ac6f9a09037aef60c3899d1a6895b15e5d3d5496451ad28f40");
}

TEST(Plan, SuiteWordsNameTheDeviceClass) {
  EXPECT_EQ(suite_words({"quick", R"({"device":"cpu","points":[]})"}), "quick");
  EXPECT_EQ(suite_words({"standard", R"({"device_class":"gpu","points":[]})"}), "standard, sizes of device class gpu");
  EXPECT_EQ(suite_words({"kit", R"({"device_class":1})"}), "kit");
  EXPECT_EQ(suite_words({"from elsewhere", "[1]"}), "from elsewhere");
  EXPECT_EQ(suite_words({"cut", "{"}), "cut");
}

}  // namespace
}  // namespace tw
