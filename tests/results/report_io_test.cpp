#include "results/report_io.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "results/verdict.hpp"
#include "tests/results/samples.hpp"

namespace tw {
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
  for (const Report& report : {sample_report(), sample_energy_report()}) {
    const std::string text = to_json(report);
    EXPECT_EQ(to_json(report_from_json(text)), text);
  }
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
  EXPECT_EQ(back.verdict.status, "invalid");
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
            "/schema_version: \"2.0\" is not \"1.0\", the version that this program reads");
  EXPECT_EQ(thrown(replaced(text, "\"micro_batch\": 8", "\"micro_batch\": \"8\"")),
            "/records/0/workload/micro_batch: expected an integer, found string");
  EXPECT_EQ(thrown(replaced(text, "\"micro_batch\": 8", "\"microbatch\": 8")),
            "/records/0/workload: key \"micro_batch\" is missing");
  EXPECT_EQ(thrown(replaced(text, "\"ranks\": 2", "\"ranks\": 3000000000")),
            "/records/0/workload/ranks: 3000000000 is out of range");
  EXPECT_EQ(thrown(replaced(text, "\"seed\": 1", "\"seed\": -1")), "/records/0/workload/seed: -1 is out of range");
}

}  // namespace
}  // namespace tw
