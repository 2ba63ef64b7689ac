// Programs that are started without a shell, by posix_spawn or bound to this process.
#include "power/meter/program.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <string>
#include <system_error>

namespace tw::power {
namespace {

TEST(Command, EndsWhatTakesTooLong) {
  const ProgramResult result = run_program({"sleep", "1000"}, std::chrono::milliseconds(50));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
}

TEST(Command, KeepsBothStreamsAndInheritsNoFile) {
  const ProgramResult result =
      run_program({"sh", "-c", "echo out; echo err >&2; ls /proc/$$/fd; cat"}, std::chrono::seconds(30));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "out\nerr\n0\n1\n2\n");
}

/// tests/bench/tool/meter/killed_meter_test.cpp kills the process that a program is bound to.
class StartProgram : public testing::TestWithParam<bool> {};

TEST_P(StartProgram, GivesItFilesSignalsAndAGroup) {
  Pipe input = open_pipe(), output = open_pipe(), error = open_pipe();
  ASSERT_EQ(write(input.to.get(), "words\n", 6), 6);
  input.to.close();
  sigset_t none, usr1;
  sigemptyset(&none), sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1);
  const auto before = std::signal(SIGUSR1, SIG_IGN);
  const pid_t child = start_program({"cat", "-", "/proc/self/stat", "/proc/self/status", "/no-such-file"},
                                    {.input = input.from.get(),
                                     .output = output.to.get(),
                                     .error = error.to.get(),
                                     .leads_group = true,
                                     .default_signals = usr1,
                                     .blocked_signals = usr1,
                                     .ends_with_this = GetParam()});
  std::signal(SIGUSR1, before);
  output.to.close(), error.to.close();
  const auto all_of = [](const Pipe& pipe) {
    std::string text;
    char c = 0;
    while (read(pipe.from.get(), &c, 1) == 1) text += c;
    return text;
  };
  const std::string said = all_of(output);
  EXPECT_NE(all_of(error).find("/no-such-file"), std::string::npos);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(exit_code_of(status), 1);
  EXPECT_EQ(said.substr(0, 6), "words\n");
  const std::string pid = std::to_string(child);  // the fifth field of stat is the process group
  EXPECT_EQ(said.find(pid + " (cat) R " + std::to_string(getpid()) + " " + pid + " "), 6u) << said;
  const auto mask = [&](const std::string& name) {
    return std::stoull(said.substr(said.find(name) + name.size()), nullptr, 16);
  };
  EXPECT_EQ(mask("SigBlk:"), 1ull << (SIGUSR1 - 1));
  EXPECT_EQ(mask("SigIgn:") & 1ull << (SIGUSR1 - 1), 0u);
}

TEST_P(StartProgram, NamesAProgramThatCannotBeStarted) {
  try {
    start_program({"no-such-program"}, {.ends_with_this = GetParam()});
    FAIL() << "it was started";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("no-such-program"), std::string::npos) << error.what();
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was not waited for";
}

INSTANTIATE_TEST_SUITE_P(BothWays, StartProgram, testing::Values(false, true),
                         [](const auto& value) { return value.param ? "Bound" : "Spawned"; });

}  // namespace
}  // namespace tw::power
