// `trainwatt meter` that is killed: its command ends with it.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "tests/bench/tool/built.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

/// What is left of a killed meter becomes ours, so that its end can be seen.
class KilledMeter : public testing::Test {
 protected:
  KilledMeter() : folder_(fs::path(testing::TempDir()) / ("trainwatt-killed-meter-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    EXPECT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  }
  ~KilledMeter() override {
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    fs::remove_all(folder_);
  }
  static std::string contents(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  pid_t start_meter(const std::string& command) {
    const std::string out = (folder_ / "report").string();
    const pid_t meter = fork();
    if (meter == 0) {
      execl(built::trainwatt, "trainwatt", "meter", "--out", out.c_str(), "--", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    return meter;
  }

  fs::path folder_;
};

TEST_F(KilledMeter, ACommandDoesNotOutliveItsMeter) {
  const fs::path said = folder_ / "pid";
  // Ends by itself after 20 s where nobody ends it; exec: it is the meter's own child.
  const pid_t meter = start_meter("echo $$ > '" + said.string() + ".new' && mv '" + said.string() + ".new' '" +
                                  said.string() + "' && exec sleep 20");
  while (!fs::exists(said)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const pid_t command = std::stoi(contents(said));
  EXPECT_EQ(kill(meter, SIGKILL), 0);
  int status = 0;
  EXPECT_EQ(waitpid(meter, &status, 0), meter);
  EXPECT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGKILL);
  EXPECT_EQ(waitpid(command, &status, 0), command);
  EXPECT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGTERM);
}

/// Also in the time between fork and exec, whichever instant the kill meets.
TEST_F(KilledMeter, ACommandDoesNotOutliveAMeterThatIsKilledAsItStartsIt) {
  int outlived = 0;
  for (int i = 0; i < 40; ++i) {
    const pid_t meter = start_meter("exec sleep 1");
    // Until its first child is there; without one it ends by itself.
    const std::string children = "/proc/" + std::to_string(meter) + "/task/" + std::to_string(meter) + "/children";
    bool ended = false;
    while (!ended && contents(children).empty()) ended = waitpid(meter, nullptr, WNOHANG) == meter;
    std::this_thread::sleep_for(std::chrono::microseconds(25 * (i % 20)));
    if (!ended) kill(meter, SIGKILL);
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0) {  // all that was left to us
      const std::string name = contents("/proc/" + std::to_string(info.si_pid) + "/comm");
      if (!ended && name == "sleep\n" && info.si_code == CLD_EXITED) ++outlived;
      waitpid(info.si_pid, nullptr, 0);
    }
    fs::remove_all(folder_ / "report");
  }
  EXPECT_EQ(outlived, 0);
}

}  // namespace
}  // namespace tw
