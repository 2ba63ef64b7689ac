// What fits on a line.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdint>
#include <new>
#include <sstream>
#include <system_error>

#include "bench/terminal/error_line.hpp"
#include "bench/terminal/option_checks.hpp"
#include "bench/terminal/terminal.hpp"
#include "power/knob/journal.hpp"
#include "power/knob/site.hpp"
#include "results/record/text.hpp"

namespace tw {

using namespace bench;
using namespace power;

namespace {

TEST(ErrorLine, CarriesTheCodeOfItsText) {
  const std::string text = with_code("launcher-mismatch", "two ranks [of 3] are missing");
  EXPECT_EQ(code_of(text), "launcher-mismatch");
  EXPECT_EQ(error_line("p", text), "p: error[launcher-mismatch]: two ranks [of 3] are missing");
  for (const char* plain : {"no code", "[] empty", "[Not A Code] text", "[unclosed text", ""}) {
    EXPECT_EQ(code_of(plain), "") << plain;
    EXPECT_EQ(error_line("p", plain), std::string("p: error: ") + plain);
  }
}

TEST(ErrorLine, EveryExceptionHasACode) {
  EXPECT_EQ(coded(std::runtime_error(with_code("bad-run", "text"))), "[bad-run] text");
  EXPECT_EQ(code_of(coded(std::runtime_error("text"))), "internal");
  EXPECT_EQ(code_of(coded(std::system_error(ENOSPC, std::generic_category(), "x"))), "system-error");
  EXPECT_EQ(code_of(coded(std::bad_alloc())), "out-of-memory");
  EXPECT_EQ(code_of(coded(site::SiteError("x"))), "bad-site-file");
  EXPECT_EQ(code_of(coded(SettingsHeld("x"))), "settings-held");
  EXPECT_EQ(warning_line("p", with_code("steal", "text")), "p: warning[steal]: text");
}

TEST(NumberIn, RefusesWhatItCannotHoldAgainstTheRange) {
  const OptionCheck check = number_in(1, 400);
  for (const char* good : {"1", "400", "+5", "+400", "2.5", "4e2"}) EXPECT_EQ(check(good), "") << good;
  const auto says = [&](const std::string& text, const std::string& what) {
    EXPECT_TRUE(check(text).ends_with(text + ": " + what)) << text << ": " << check(text);
  };
  for (const char* small : {"0", "-5", "+0", "-1e999", "1e-999"}) says(small, "value too small (minimum 1)");
  for (const char* large : {"401", "+5000", "1e999", "+1e999"}) says(large, "value too large (maximum 400)");
  for (const char* none :
       {"0x10", "0x0", "-0x5", "+0x10", " 5", "5 ", "\t5", "x", "", "+", "++5", "+-5", "5'000", "5_0"})
    says(none, "must be a number");
  for (const char* endless : {"nan", "+nan", "-nan", "inf", "-inf", "infinity"})
    says(endless, "must be a finite number");
}

TEST(ReadDecimal, ZerosBeforeANumberSayNothing) {
  const auto value_of = [](const std::string& text) -> std::string {
    CLI::App app;
    std::int64_t whole = 0;
    double number = 0;
    std::vector<int> list;
    std::string name;
    app.add_option("--whole", whole), app.add_option("--number", number), app.add_option("--name", name);
    app.add_option("--list", list)->delimiter(',');
    read_decimal(app);
    try {
      app.parse(text);
    } catch (const CLI::ParseError& error) {
      return std::string(code_of(parse_fault(error)));
    }
    std::string all = fmt::format("{} {} {}", whole, number, name);
    for (const int one : list) all += fmt::format(" {}", one);
    return all;
  };
  EXPECT_EQ(value_of("--whole 040"), "40 0 ");
  EXPECT_EQ(value_of("--whole 008"), "8 0 ") << "no octal number";
  EXPECT_EQ(value_of("--whole -010"), "-10 0 ");
  EXPECT_EQ(value_of("--whole 0"), "0 0 ");
  EXPECT_EQ(value_of("--whole 000"), "0 0 ");
  EXPECT_EQ(value_of("--list 010,1,0020"), "0 0  10 1 20");
  EXPECT_EQ(value_of("--number 010.5"), "0 10.5 ");
  EXPECT_EQ(value_of("--number 0e0"), "0 0 ");
  EXPECT_EQ(value_of("--name 010"), "0 0 010") << "a text stays as it is";
  for (const char* other :
       {"--whole 0x10", "--whole 00x10", "--whole -0x10", "--whole 0b1", "--list 1,0x10", "--number 0x10"})
    EXPECT_EQ(value_of(other), "bad-value") << other;
}

TEST(TerminalWidth, IsThatOfTheDescriptorsOwnTerminal) {
  int ours = -1, theirs = -1;
  winsize size{24, 80, 0, 0};
  if (openpty(&ours, &theirs, nullptr, nullptr, &size) != 0) GTEST_SKIP() << "no pseudo-terminal here";
  EXPECT_EQ(terminal_width(theirs), 80);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(terminal_width(pipes[1]), std::nullopt);
  for (const int descriptor : {ours, theirs, pipes[0], pipes[1]}) close(descriptor);
}

TEST(WithoutMiddle, KeepsBothEnds) {
  EXPECT_EQ(without_middle("gpt2-124m/bf16", 14), "gpt2-124m/bf16");
  EXPECT_EQ(without_middle("gpt2-124m/bf16", 9), "gpt2…bf16");
  EXPECT_EQ(without_middle("a · b · c", 6), "a ·… c");
  EXPECT_EQ(without_middle("abc", 1), "…");
  EXPECT_EQ(without_middle("abc", 0), "");
}

TEST(Help, StaysWithinItsColumns) {
  const std::string help =
      "What it does.\nLaunch it.\nUsage: x [OPTIONS]\n\nOptions:\n"
      "  --short INT                 a few words that go on for longer than there is room\n"
      "                              and were broken by hand\n"
      "  --much-too-long-a-name TEXT ...\n"
      "                              described below\n"
      "  --bare\n\n"
      "Codes: 0 good, 1 bad,\n2 ugly.\n";
  EXPECT_EQ(help_within(help, 60),
            "What it does. Launch it.\nUsage: x [OPTIONS]\n\nOptions:\n"
            "  --short INT                 a few words that go on for\n"
            "                              longer than there is room and\n"
            "                              were broken by hand\n"
            "  --much-too-long-a-name TEXT ...\n"
            "                              described below\n"
            "  --bare\n\n"
            "Codes: 0 good, 1 bad, 2 ugly.\n");
}

}  // namespace
}  // namespace tw
